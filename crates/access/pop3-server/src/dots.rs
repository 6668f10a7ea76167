//! A stored message as the lines of an answer. Each line ends with CR LF. A line that begins with a
//! dot gets another one (RFC 1939 §3). A line of a dot alone ends it.
//!
//! The store keeps messages as clients sent them. A message may hold a LF without a CR, or end
//! within a line. A client that ends lines at LF would take `LF . LF` for the end of the answer,
//! and what follows for answers of the server. So each LF goes out as CR LF, and the last line gets
//! its end. All other bytes are as stored; a CR alone is a byte like any other.

use memchr::{memchr, memchr_iter};

/// The state between two pieces of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DotWriter(LastOctets);

/// The last octets that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastOctets {
    /// LF, or nothing yet.
    #[default]
    LineStart,
    /// The dot that was added before a dot.
    Stuffed,
    /// A CR.
    Cr,
    /// Anything else.
    Text,
}

impl DotWriter {
    /// A writer at the start of a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of bytes at the start of a piece that are sent unchanged, and the bytes after
    /// them. Called again with the rest until nothing is left.
    pub fn next(&mut self, piece: &[u8]) -> (usize, &'static [u8]) {
        if self.0 == LastOctets::LineStart && piece.first() == Some(&b'.') {
            self.0 = LastOctets::Stuffed;
            return (0, b".");
        }
        for at in memchr_iter(b'\n', piece) {
            let after_cr = match at.checked_sub(1) {
                Some(before) => piece[before] == b'\r',
                None => self.0 == LastOctets::Cr,
            };
            if !after_cr {
                self.0 = LastOctets::Cr;
                return (at, b"\r");
            }
            if piece.get(at + 1) == Some(&b'.') {
                self.0 = LastOctets::Stuffed;
                return (at + 1, b".");
            }
        }
        self.0 = match piece.last() {
            Some(b'\n') => LastOctets::LineStart,
            Some(b'\r') => LastOctets::Cr,
            Some(_) => LastOctets::Text,
            None => self.0,
        };
        (piece.len(), b"")
    }

    /// The octets after the message.
    pub fn end(self) -> &'static [u8] {
        match self.0 {
            LastOctets::LineStart => b".\r\n",
            LastOctets::Stuffed | LastOctets::Cr | LastOctets::Text => b"\r\n.\r\n",
        }
    }

    /// Prints a whole piece.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn print(&mut self, mut piece: &[u8], out: &mut Vec<u8>) {
        while !piece.is_empty() {
            let (clean, more) = self.next(piece);
            out.extend_from_slice(&piece[..clean]);
            out.extend_from_slice(more);
            piece = &piece[clean..];
        }
    }
}

/// The end of TOP's answer (RFC 1939 §7): the header, the empty line after it, and this many
/// lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Top {
    /// Lines of the body that are still wanted.
    lines: u64,
    place: TopState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TopState {
    /// In the header, at the start of a line.
    HeaderStart,
    /// In the header, after a CR that may be of the empty line.
    HeaderCr,
    /// Within a line of the header.
    Header,
    Body,
}

impl Top {
    /// The state at the start of a message of whose body this many lines are wanted.
    pub fn new(lines: u64) -> Self {
        Self { lines, place: TopState::HeaderStart }
    }

    /// Whether nothing more is wanted.
    pub fn is_done(&self) -> bool {
        self.place == TopState::Body && self.lines == 0
    }

    /// The number of bytes at the start of the next piece that are wanted.
    pub fn take(&mut self, piece: &[u8]) -> usize {
        let mut used = 0;
        while !self.is_done() {
            let rest = &piece[used..];
            let Some(length) = memchr(b'\n', rest).map(|at| at + 1) else {
                self.begin(rest);
                return piece.len();
            };
            used += length;
            self.place = match (self.place, &rest[..length]) {
                (TopState::HeaderStart, b"\n" | b"\r\n") | (TopState::HeaderCr, b"\n") => TopState::Body,
                (TopState::Body, _) => {
                    self.lines -= 1;
                    TopState::Body
                }
                _ => TopState::HeaderStart,
            };
        }
        used
    }

    /// Takes the beginning of a line whose end comes with the next piece.
    fn begin(&mut self, line: &[u8]) {
        self.place = match (self.place, line) {
            (place, b"") => place,
            (TopState::Body, _) => TopState::Body,
            (TopState::HeaderStart, b"\r") => TopState::HeaderCr,
            _ => TopState::Header,
        };
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn printed(message: &[u8], step: usize) -> Vec<u8> {
        let (mut writer, mut out) = (DotWriter::new(), Vec::new());
        message.chunks(step).for_each(|piece| writer.print(piece, &mut out));
        out.extend_from_slice(writer.end());
        out
    }

    fn top(message: &[u8], lines: u64, step: usize) -> usize {
        let (mut top, mut used) = (Top::new(lines), 0);
        for piece in message.chunks(step) {
            used += top.take(piece);
            if top.is_done() {
                break;
            }
        }
        used
    }

    /// RFC 1939 §3, the client's side, for a client that ends lines at LF alone.
    fn read(answer: &[u8]) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        for line in answer.split_inclusive(|&byte| byte == b'\n') {
            if line == b".\r\n" {
                return Some(message);
            }
            message.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
        }
        None
    }

    /// The message with CR LF at the end of each line.
    fn as_text(message: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        for line in message.split_inclusive(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r\n").or(line.strip_suffix(b"\n")).unwrap_or(line);
            text.extend_from_slice(line);
            text.extend_from_slice(b"\r\n");
        }
        text
    }

    #[test]
    fn known_messages() {
        for (message, answer) in [
            ("", ".\r\n"),
            ("a\r\n", "a\r\n.\r\n"),
            ("a", "a\r\n.\r\n"),
            (".", "..\r\n.\r\n"),
            (".a\r\n..\r\nb.\r\n", "..a\r\n...\r\nb.\r\n.\r\n"),
            // Without a stuffed dot, this ends the answer early for a client that ends lines at
            // LF.
            ("a\n.\nb\n", "a\r\n..\r\nb\r\n.\r\n"),
            ("\n.", "\r\n..\r\n.\r\n"),
            ("a\r.\rb\r\n", "a\r.\rb\r\n.\r\n"),
            ("a\r", "a\r\r\n.\r\n"),
            ("\n\n", "\r\n\r\n.\r\n"),
        ] {
            for step in 1..=message.len().max(1) {
                let found = printed(message.as_bytes(), step);
                assert_eq!(String::from_utf8(found).unwrap(), answer, "{message:?} by {step}");
            }
        }
    }

    #[test]
    fn known_tops() {
        let message = "A: b\r\nC: d\r\n\r\n1\r\n2\r\n3";
        for (lines, wanted) in
            [(0, "A: b\r\nC: d\r\n\r\n"), (2, "A: b\r\nC: d\r\n\r\n1\r\n2\r\n"), (3, message), (9, message)]
        {
            for step in 1..=message.len() {
                assert_eq!(top(message.as_bytes(), lines, step), wanted.len(), "{lines} by {step}");
            }
        }
        for (message, wanted) in
            [("A: b\n\nx\n", 6), ("\r\nx", 2), ("\nx", 1), ("A: b", 4), ("\r\r\n\r\nx", 5)]
        {
            for step in 1..=message.len() {
                assert_eq!(top(message.as_bytes(), 0, step), wanted, "{message:?} by {step}");
            }
        }
    }

    properties! {
        #[test]
        fn a_client_reads_what_is_stored(
            pieces in prop::collection::vec(prop::sample::select(vec!["\r", "\n", "\r\n", ".", "a", "bc "]), 0..40),
            step in 1..20_usize,
        ) {
            let message = pieces.concat().into_bytes();
            let answer = printed(&message, step);
            prop_assert_eq!(read(&answer), Some(as_text(&message)));
            // Only the last line is a dot alone.
            prop_assert_eq!(answer.windows(3).rposition(|three| three == b".\r\n"), Some(answer.len() - 3));
            let ends = answer.windows(5).filter(|five| *five == b"\r\n.\r\n").count();
            prop_assert_eq!(ends, usize::from(!message.is_empty()));
        }

        #[test]
        fn top_is_a_prefix_with_the_requested_lines(
            pieces in prop::collection::vec(prop::sample::select(vec!["\r", "\n", "\r\n", ".", "a"]), 0..40),
            lines in 0..6_u64,
            step in 1..20_usize,
        ) {
            let message = pieces.concat().into_bytes();
            let used = top(&message, lines, step);
            prop_assert_eq!(used, top(&message, lines, message.len().max(1)));
            let all: Vec<&[u8]> = message.split_inclusive(|&byte| byte == b'\n').collect();
            let header = all.iter().position(|line| matches!(*line, b"\n" | b"\r\n"));
            let wanted = header.map_or(all.len(), |at| all.len().min(at + 1 + lines as usize));
            prop_assert_eq!(used, all[..wanted].iter().map(|line| line.len()).sum::<usize>());
        }
    }
}
