//! Maildir: a file per message, flags in its name, keywords by Dovecot's letters, the file's time
//! the internal date.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use posthaste_mail_model::{Flag, Keyword};

use super::outgoing::Outgoing;
use crate::format::{lines, to_lf};

pub(super) struct MaildirWriter {
    dir: PathBuf,
    /// By letter, as they come up; there are 26. `$Forwarded` has a letter of its own and takes
    /// none.
    keywords: Vec<Keyword>,
}

impl MaildirWriter {
    /// A new Maildir in a folder that exists; one that exists is an error.
    pub fn create(path: &Path) -> io::Result<Self> {
        for part in ["cur", "new", "tmp"] {
            fs::create_dir(path.join(part))?;
        }
        Ok(Self { dir: path.to_owned(), keywords: Vec::new() })
    }

    /// Written whole in `tmp`, and only then named: a reader never sees half a message.
    pub fn write(&mut self, message: &Outgoing) -> io::Result<()> {
        // UIDs rise, and so do names of the same second: ten digits hold any UID.
        let unique = format!("{}.U{:010}.posthaste", message.date, message.uid.value());
        let temporary = self.dir.join("tmp").join(&unique);
        let mut out = BufWriter::new(File::create(&temporary)?);
        for line in lines(&message.bytes) {
            let (text, whole) = to_lf(line);
            out.write_all(text)?;
            if whole {
                out.write_all(b"\n")?;
            }
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.set_modified(UNIX_EPOCH + Duration::from_secs(u64::from(message.date)))?;
        let letters = self.letters(&message.flags);
        fs::rename(&temporary, self.dir.join("cur").join(format!("{unique}:2,{letters}")))
    }

    pub fn finish(self) -> io::Result<()> {
        if !self.keywords.is_empty() {
            let line = |(i, keyword): (usize, &Keyword)| format!("{i} {}\n", keyword.as_str());
            let text: String = self.keywords.iter().enumerate().map(line).collect();
            fs::write(self.dir.join("dovecot-keywords"), text)?;
        }
        File::open(self.dir.join("cur"))?.sync_all()
    }

    /// In ASCII order, as the format requires.
    fn letters(&mut self, flags: &[Flag]) -> String {
        let mut letters: Vec<char> = flags.iter().filter_map(|flag| self.letter(flag)).collect();
        letters.sort_unstable();
        letters.into_iter().collect()
    }

    /// The letter of a flag; none for the 27th keyword and those after it.
    fn letter(&mut self, flag: &Flag) -> Option<char> {
        let keyword = match flag {
            Flag::Answered => return Some('R'),
            Flag::Flagged => return Some('F'),
            Flag::Deleted => return Some('T'),
            Flag::Seen => return Some('S'),
            Flag::Draft => return Some('D'),
            Flag::Keyword(keyword) if keyword.as_str().eq_ignore_ascii_case("$Forwarded") => {
                return Some('P');
            }
            Flag::Keyword(keyword) => keyword,
        };
        let slot = match self.keywords.iter().position(|k| k == keyword) {
            Some(slot) => slot,
            None if self.keywords.len() < 26 => {
                self.keywords.push(keyword.clone());
                self.keywords.len() - 1
            }
            None => return None,
        };
        u8::try_from(slot).ok().map(|slot| char::from(b'a' + slot))
    }
}
