//! The message after DATA: where it ends, and without the dots that were stuffed in.
//!
//! Only CR LF `.` CR LF ends a message (RFC 5321 §4.1.1.4, §4.5.2). A bare CR or LF is a byte of
//! the message like any other and begins no line. So `LF . LF` in the middle of a message neither
//! ends it nor loses its dot. Servers that treat it as an end allow smuggled commands
//! (CVE-2023-51764 and similar ones). Each byte is looked at once, whatever the chunks.

use std::sync::LazyLock;

use bytes::BytesMut;
use memchr::memmem;

/// The end of a line, and a dot after it. The searcher is made once: it takes longer to make than
/// a short line to read, and each line of a message may begin with a dot.
static DOT_LINE: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"\r\n."));

/// The result of reading a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the chunk that belong to the message or its end.
    pub used: usize,
    /// Whether the end was among them.
    pub ended: bool,
}

/// The state between chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DotReader(LastOctets);

/// The octets that came last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastOctets {
    /// CR LF, or nothing yet.
    #[default]
    LineStart,
    /// Anything that matters to nobody.
    Text,
    /// A CR, which was passed on.
    Cr,
    /// A dot at the start of a line, held back.
    Dot,
    /// A dot at the start of a line, then CR, both held back.
    DotCr,
}

impl DotReader {
    /// A reader at the start of a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the message bytes of a chunk to `out`.
    pub fn read(&mut self, chunk: &[u8], out: &mut BytesMut) -> Progress {
        let mut used = 0;
        while let Some(&byte) = chunk.get(used) {
            if self.0 == LastOctets::Text {
                let text = &chunk[used..];
                let run = run_of_text(text);
                out.extend_from_slice(&text[..run.length]);
                self.0 = run.then;
                used += run.length;
                continue;
            }
            used += 1;
            match (self.0, byte) {
                (LastOctets::LineStart, b'.') => {
                    self.0 = LastOctets::Dot;
                    continue;
                }
                (LastOctets::Dot, b'\r') => {
                    self.0 = LastOctets::DotCr;
                    continue;
                }
                (LastOctets::DotCr, b'\n') => {
                    self.0 = LastOctets::LineStart;
                    return Progress { used, ended: true };
                }
                // RFC 5321 §4.5.2: a dot before anything else was stuffed in. The CR after it was
                // the line's own.
                (LastOctets::DotCr, _) => {
                    out.extend_from_slice(b"\r");
                    self.0 = LastOctets::Cr;
                }
                _ => {}
            }
            out.extend_from_slice(&[byte]);
            self.0 = match (self.0, byte) {
                (LastOctets::Cr, b'\n') => LastOctets::LineStart,
                (_, b'\r') => LastOctets::Cr,
                _ => LastOctets::Text,
            };
        }
        Progress { used, ended: false }
    }
}

struct Run {
    length: usize,
    then: LastOctets,
}

/// The part of a text that can be passed on as it is: up to the next line that begins with a dot,
/// or all. Never empty for a text that is not.
fn run_of_text(text: &[u8]) -> Run {
    match DOT_LINE.find(text) {
        Some(at) => Run { length: at + 2, then: LastOctets::LineStart },
        None => {
            let then = match text {
                [.., b'\r', b'\n'] => LastOctets::LineStart,
                [.., b'\r'] => LastOctets::Cr,
                _ => LastOctets::Text,
            };
            Run { length: text.len(), then }
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn read(wire: &[u8], step: usize) -> (Vec<u8>, Option<usize>) {
        let (mut reader, mut out, mut used) = (DotReader::new(), BytesMut::new(), 0);
        for chunk in wire.chunks(step) {
            let progress = reader.read(chunk, &mut out);
            used += progress.used;
            if progress.ended {
                return (out.to_vec(), Some(used));
            }
            assert_eq!(progress.used, chunk.len());
        }
        (out.to_vec(), None)
    }

    #[test]
    fn known_messages() {
        for (wire, message) in [
            (".\r\n", ""),
            ("a\r\n.\r\n", "a\r\n"),
            ("..\r\n.\r\n", ".\r\n"),
            ("...a\r\n.\r\n", "..a\r\n"),
            ("a\r\n..b\r\nc.\r\n.\r\n", "a\r\n.b\r\nc.\r\n"),
            (".a\r\n.\r\n", "a\r\n"),
            // Sequences that other servers took for the end, and that are not.
            ("a\n.\nb\r\n.\r\n", "a\n.\nb\r\n"),
            ("a\n.\r\nb\r\n.\r\n", "a\n.\r\nb\r\n"),
            ("a\r.\rb\r\n.\r\n", "a\r.\rb\r\n"),
            ("a\r\n.\nb\r\n.\r\n", "a\r\n\nb\r\n"),
            ("a\r\n.\rb\r\n.\r\n", "a\r\n\rb\r\n"),
            ("a\r\n.\r\r\n.\r\n", "a\r\n\r\r\n"),
            ("a\r\r\n.\r\n", "a\r\r\n"),
            ("\0\u{fc}\r\n.\r\n", "\0\u{fc}\r\n"),
        ] {
            for step in 1..=wire.len() {
                let (found, end) = read(wire.as_bytes(), step);
                assert_eq!(found.escape_ascii().to_string(), message.as_bytes().escape_ascii().to_string());
                assert_eq!(end, Some(wire.len()), "{wire:?} by {step}");
            }
        }
    }

    #[test]
    fn bytes_after_the_end_are_left() {
        let mut out = BytesMut::new();
        let progress = DotReader::new().read(b"a\r\n.\r\nQUIT\r\n", &mut out);
        assert_eq!((progress.used, progress.ended, &out[..]), (6, true, &b"a\r\n"[..]));
    }

    /// RFC 5321 §4.5.2, the sender's side.
    fn stuffed(message: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        let mut line_start = true;
        for (at, &byte) in message.iter().enumerate() {
            if line_start && byte == b'.' {
                wire.push(b'.');
            }
            wire.push(byte);
            line_start = byte == b'\n' && at > 0 && message[at - 1] == b'\r';
        }
        wire.extend_from_slice(b".\r\n");
        wire
    }

    properties! {
        #[test]
        fn unstuffing_undoes_stuffing(
            pieces in prop::collection::vec(prop::sample::select(vec!["\r", "\n", "\r\n", ".", "a", "bc "]), 0..40),
            step in 1..20_usize,
        ) {
            let mut message = pieces.concat().into_bytes();
            if !message.is_empty() {
                message.extend_from_slice(b"\r\n");
            }
            let wire = stuffed(&message);
            prop_assert_eq!(read(&wire, step), (message, Some(wire.len())));
        }

        #[test]
        fn chunks_do_not_matter(wire in "[\r\n.a]{0,60}", step in 1..10_usize) {
            let whole = read(wire.as_bytes(), wire.len().max(1));
            prop_assert_eq!(read(wire.as_bytes(), step), whole);
        }
    }
}
