//! Maildir folders: a file per message, its flags in its name.
//!
//! `cur/1700000000.M1P2.host:2,FS` is flagged and seen; files in `new/` have no flags yet. The
//! letters `a` … `z` are keywords that Dovecot's `dovecot-keywords` file names. A file's time is
//! when its message was received.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_mail_model::Flag;

use super::file_kind::remedy;
use super::source_folder::{Entry, EntryKind, SourceFolder};
use super::{Fault, ImportedMessage, Origin, Sink, status};
use crate::format::to_crlf;

/// Names the keywords of a Maildir.
const KEYWORDS: &str = "dovecot-keywords";
/// The folders with messages.
const PARTS: [&str; 2] = ["cur", "new"];
/// Octets of `dovecot-keywords` that are read: 26 lines of a keyword each.
const KEYWORDS_LEN_MAX: u64 = 16 * 1024;

/// Whether a folder is a Maildir: one with `cur`, or with `new` and `tmp`. Archivers leave empty
/// folders out, so a rule that needs all three would lose mail.
pub(super) fn is_maildir(dir: &SourceFolder) -> bool {
    let has = |part| dir.kind(OsStr::new(part)).is_ok_and(|kind| kind == EntryKind::Folder);
    has("cur") || (has("new") && has("tmp"))
}

/// Whether [`read`] reads what has this name in a Maildir, or reports why it does not.
pub(super) fn is_read(name: &str) -> bool {
    PARTS.contains(&name) || name == KEYWORDS
}

/// The relative name of a Maildir++ folder: `.Archive.2024` is `Archive/2024`, in modified UTF-7 as
/// Dovecot and Courier write it. Any other name is taken as it is.
pub(super) fn folder_name(dir_name: &str) -> String {
    let level =
        |level: &str| posthaste_imap_codec::utf7::decode(level.as_bytes()).unwrap_or_else(|_| level.into());
    let levels: Vec<String> =
        dir_name.trim_start_matches('.').split('.').map(|l| level(l).replace('/', "_")).collect();
    levels.join("/")
}

/// Reads the messages of one Maildir, those in `cur` first, each in the order of their names, which
/// is that of arrival.
pub(super) fn read(
    dir: &SourceFolder,
    mailbox: &str,
    message_len_max: u64,
    sink: &mut dyn Sink,
) -> ControlFlow<()> {
    let keywords = match keywords(dir) {
        Ok(keywords) => keywords,
        Err(error) => {
            let why = format!("{}; messages are imported without their keywords", remedy(&error));
            sink.fault(Fault { origin: origin(&dir.path_of(OsStr::new(KEYWORDS))), why })?;
            Vec::new()
        }
    };
    for part in PARTS.map(OsStr::new) {
        let listed = dir.folder(part).and_then(|part| file_names(&part).map(|names| (part, names)));
        let (part, names) = match listed {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                sink.fault(Fault { origin: origin(&dir.path_of(part)), why: remedy(&error) })?;
                continue;
            }
        };
        for name in names {
            let path = part.path_of(&name);
            let flags = flags(&name.to_string_lossy(), &keywords);
            match read_file(&part, &name, message_len_max) {
                Ok((bytes, date)) => sink.message(ImportedMessage {
                    mailbox: mailbox.to_owned(),
                    flags,
                    date,
                    bytes: to_crlf(bytes),
                    origin: origin(&path),
                })?,
                Err(why) => sink.fault(Fault { origin: origin(&path), why })?,
            }
        }
    }
    ControlFlow::Continue(())
}

/// The whole of a file, and its time.
pub(super) fn read_file(
    folder: &SourceFolder,
    name: &OsStr,
    message_len_max: u64,
) -> Result<(Vec<u8>, Option<u32>), String> {
    let file = folder.file(name).map_err(|e| remedy(&e))?;
    let meta = file.metadata().map_err(|e| remedy(&e))?;
    let too_large = |len: u64| {
        format!(
            "a message of {len} octets is over the limit of {message_len_max}: raise the message size limit to import it"
        )
    };
    if meta.len() > message_len_max {
        return Err(too_large(meta.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    // One more than the limit: a file that grows meanwhile is noticed.
    file.take(message_len_max.saturating_add(1)).read_to_end(&mut bytes).map_err(|e| remedy(&e))?;
    if bytes.len() as u64 > message_len_max {
        return Err(too_large(bytes.len() as u64));
    }
    Ok((bytes, meta.modified().ok().and_then(unix_s)))
}

fn unix_s(time: SystemTime) -> Option<u32> {
    u32::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

pub(super) fn origin(path: &Path) -> Origin {
    Origin { path: Arc::from(path), offset: 0 }
}

/// The files of a folder, hidden ones left out, by the number they begin with and then by name. A
/// link is among them: its message is reported by name.
fn file_names(folder: &SourceFolder) -> io::Result<Vec<OsString>> {
    let is_mail = |Entry { name, kind }: &Entry| {
        !name.as_encoded_bytes().starts_with(b".") && matches!(kind, EntryKind::File | EntryKind::Link)
    };
    let mut names: Vec<OsString> =
        folder.entries()?.into_iter().filter(is_mail).map(|entry| entry.name).collect();
    names.sort_by_cached_key(|name| (arrival(&name.to_string_lossy()), name.clone()));
    Ok(names)
}

fn arrival(name: &str) -> u64 {
    let digits = name.len() - name.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    name.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX)
}

/// Keywords by letter.
fn keywords(dir: &SourceFolder) -> io::Result<Vec<Option<Flag>>> {
    let file = match dir.file(OsStr::new(KEYWORDS)) {
        Ok(file) => file,
        // A Maildir without this file has no keywords.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(KEYWORDS_LEN_MAX).read_to_end(&mut text)?;
    let mut table = vec![None; 26];
    for line in String::from_utf8_lossy(&text).lines() {
        if let Some((number, name)) = line.split_once(' ')
            && let Some(slot) = number.parse::<usize>().ok().and_then(|n| table.get_mut(n))
        {
            *slot = status::keyword(name.trim());
        }
    }
    Ok(table)
}

/// The flags in a file's name: what follows `:2,`, or `;2,` and `!2,` where a colon cannot be.
fn flags(name: &str, keywords: &[Option<Flag>]) -> Vec<Flag> {
    let info = [":2,", ";2,", "!2,"].iter().find_map(|mark| name.rsplit_once(mark));
    let Some((_, letters)) = info else { return Vec::new() };
    let flag = |letter: char| match letter {
        'D' => Some(Flag::Draft),
        'F' => Some(Flag::Flagged),
        'P' => status::keyword("$Forwarded"),
        'R' => Some(Flag::Answered),
        'S' => Some(Flag::Seen),
        'T' => Some(Flag::Deleted),
        'a'..='z' => keywords.get(letter as usize - 'a' as usize).cloned().flatten(),
        _ => None,
    };
    letters.chars().filter_map(flag).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_say_flags() {
        let keywords = vec![status::keyword("$Junk"), None, status::keyword("work")];
        let text =
            |name| flags(name, &keywords).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(text("1700000000.M1P2.host:2,FRS"), "\\Flagged \\Answered \\Seen");
        assert_eq!(text("1.a,S=5:2,DPTabcz"), "\\Draft $Forwarded \\Deleted $Junk work");
        assert_eq!(text("1.a;2,S"), "\\Seen");
        assert_eq!(text("1.a"), "");
        assert_eq!(text("1.a:2,"), "");
    }

    #[test]
    fn keywords_that_cannot_be_read_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let keywords = || keywords(&SourceFolder::named(dir.path()).unwrap());
        assert_eq!(keywords().unwrap(), []);
        // One line that is no UTF-8 costs no other its keyword.
        fs::write(dir.path().join(KEYWORDS), b"0 $Junk\n1 \xff\xff\n2 work\n").unwrap();
        let found = keywords().unwrap();
        assert_eq!((&found[0], &found[2]), (&status::keyword("$Junk"), &status::keyword("work")));

        fs::remove_file(dir.path().join(KEYWORDS)).unwrap();
        fs::create_dir(dir.path().join(KEYWORDS)).unwrap();
        assert!(keywords().is_err());
    }

    #[test]
    fn folder_names() {
        assert_eq!(folder_name(".Archive.2024"), "Archive/2024");
        assert_eq!(folder_name(".Entw&APw-rfe"), "Entw\u{fc}rfe");
        assert_eq!(folder_name(".A & B"), "A & B");
        assert_eq!((arrival("1700000000.M1"), arrival("x")), (1_700_000_000, u64::MAX));
    }
}
