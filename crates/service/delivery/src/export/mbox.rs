//! mbox, the mboxrd kind: every `>…>From ` line gets one `>` more, so that reading it back is
//! exact.
//!
//! Flags go into Status, X-Status and X-Keywords above the message, where mutt, Dovecot and our
//! import look for them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use posthaste_mail_model::Flag;

use super::outgoing::Outgoing;
use crate::format::{from_line_date, is_quotable, lines, to_lf};

pub(super) struct MboxWriter {
    file: BufWriter<File>,
}

impl MboxWriter {
    /// A new file; one that exists is an error.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Self { file: BufWriter::with_capacity(1 << 20, file) })
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
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
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
