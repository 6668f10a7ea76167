//! mbox, the mboxrd kind: every `>…>From ` line gets one `>` more, so that reading it back is
//! exact.
//!
//! Flags go into Status, X-Status and X-Keywords above the message, where mutt, Dovecot and our
//! import look for them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use posthaste_mail_model::Flag;

use super::outgoing::Outgoing;
use crate::format::{from_line_date, is_quotable, lines, to_lf};

pub(super) struct MboxWriter {
    file: BufWriter<File>,
    unfinished: Unfinished,
}

/// A file that is removed unless it was finished: a part of a mailbox looks like all of it, and the
/// next export would be refused.
struct Unfinished(Option<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = self.0.take()
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "an unfinished mbox cannot be removed");
        }
    }
}

impl MboxWriter {
    /// A new file; one that exists is an error.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
        let unfinished = Unfinished(Some(path.to_owned()));
        Ok(Self { file: BufWriter::with_capacity(1 << 20, file), unfinished })
    }

    pub fn write(&mut self, message: &Outgoing) -> io::Result<()> {
        let out = &mut self.file;
        // The sender is no longer known; other programs write `-` in this case.
        writeln!(out, "From - {}", from_line_date(i64::from(message.date)))?;
        // A message that begins with a space would become part of the field above it.
        if !matches!(message.bytes.first(), None | Some(b' ' | b'\t')) {
            write_flags(out, &message.flags)?;
        }
        let mut ended = true;
        for line in lines(&message.bytes) {
            if is_quotable(line) {
                out.write_all(b">")?;
            }
            let (text, whole) = to_lf(line);
            out.write_all(text)?;
            if whole {
                out.write_all(b"\n")?;
            }
            ended = whole;
        }
        out.write_all(if ended { b"\n" } else { b"\n\n" })
    }

    pub fn finish(self) -> io::Result<()> {
        let Self { file, mut unfinished } = self;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        unfinished.0 = None;
        Ok(())
    }
}

fn write_flags(out: &mut impl Write, flags: &[Flag]) -> io::Result<()> {
    writeln!(out, "Status: {}O", if flags.contains(&Flag::Seen) { "R" } else { "" })?;
    let letters = [(Flag::Answered, 'A'), (Flag::Flagged, 'F'), (Flag::Draft, 'T'), (Flag::Deleted, 'D')];
    let status: String =
        letters.iter().filter(|(flag, _)| flags.contains(flag)).map(|(_, letter)| letter).collect();
    if !status.is_empty() {
        writeln!(out, "X-Status: {status}")?;
    }
    let keywords: Vec<&str> = flags
        .iter()
        .filter_map(|flag| match flag {
            Flag::Keyword(keyword) => Some(keyword.as_str()),
            _ => None,
        })
        .collect();
    if keywords.is_empty() { Ok(()) } else { writeln!(out, "X-Keywords: {}", keywords.join(" ")) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use posthaste_mail_model::Uid;

    use super::*;

    #[test]
    fn only_a_finished_mbox_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.mbox");
        let message =
            Outgoing { uid: Uid::MIN, flags: Vec::new(), date: 1, bytes: Bytes::from_static(b"x\r\n") };
        let mut writer = MboxWriter::create(&path).unwrap();
        writer.write(&message).unwrap();
        drop(writer);
        assert!(!path.exists());
        let mut writer = MboxWriter::create(&path).unwrap();
        writer.write(&message).unwrap();
        // The file of the first is not the second's, and stays.
        assert!(MboxWriter::create(&path).is_err());
        writer.finish().unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("From - "));
    }
}
