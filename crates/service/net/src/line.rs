//! Takes the lines of commands off a connection's input.
//!
//! A line ends with CR LF and with nothing else. A line over the limit is skipped up to its end;
//! one that continues for too long is an error.

use bytes::{Buf, BytesMut};
use memchr::memchr;

use crate::NetError;

/// The line at the front of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum TakenLine {
    /// A line, without CR LF.
    Whole(BytesMut),
    /// A line that ends with a bare LF. It is removed.
    BareLf,
    /// A line over the limit. It is removed.
    TooLong,
    /// No line yet: read more.
    Unfinished,
}

/// Reads one line, which may come in pieces. Each octet is looked at once. Between two calls the
/// caller may append to the input but take nothing from it.
#[derive(Debug)]
pub struct LineReader {
    line_max: usize,
    skip_max: usize,
    skipped: usize,
    /// Octets at the front of the input that are not the end of the line.
    scanned: usize,
}

impl LineReader {
    /// A reader of a line of at most `line_max` octets, CR LF included. In a longer line, it skips
    /// about `skip_max` octets.
    pub fn new(line_max: usize, skip_max: usize) -> Self {
        Self { line_max, skip_max, skipped: 0, scanned: 0 }
    }

    /// Takes the line off the input.
    pub fn take(&mut self, input: &mut BytesMut) -> Result<TakenLine, NetError> {
        loop {
            let len = input.len().min(self.line_max);
            let found = memchr(b'\n', input.get(self.scanned..len).unwrap_or_default());
            match found.map(|at| self.scanned + at) {
                Some(at) if self.skipped > 0 => {
                    input.advance(at + 1);
                    return Ok(TakenLine::TooLong);
                }
                Some(at) => {
                    let mut line = input.split_to(at + 1);
                    if !line.ends_with(b"\r\n") {
                        return Ok(TakenLine::BareLf);
                    }
                    line.truncate(at - 1);
                    return Ok(TakenLine::Whole(line));
                }
                None if len < self.line_max => {
                    self.scanned = len;
                    return Ok(TakenLine::Unfinished);
                }
                None => {
                    (self.skipped, self.scanned) = (self.skipped + len, 0);
                    input.advance(len);
                    if self.skipped > self.skip_max {
                        return Err(NetError::InputFull { max: self.skip_max });
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::{one_of, properties};
    use proptest::prelude::*;

    use super::*;

    const LINE_MAX: usize = 6;
    const SKIP_MAX: usize = 12;

    /// The lines of an input that comes in pieces of these lengths, and an error as text.
    fn lines(input: &[u8], cuts: &[usize]) -> Vec<String> {
        let (mut read, mut lines) = (BytesMut::new(), Vec::new());
        let mut reader = LineReader::new(LINE_MAX, SKIP_MAX);
        let (mut left, mut cuts) = (input, cuts.iter().cycle());
        while let Some(cut) = cuts.next().filter(|_| !left.is_empty()) {
            let (piece, rest) = left.split_at(left.len().min(*cut));
            left = rest;
            read.extend_from_slice(piece);
            loop {
                lines.push(match reader.take(&mut read) {
                    Ok(TakenLine::Unfinished) => break,
                    Ok(TakenLine::Whole(line)) => String::from_utf8(line.to_vec()).expect("ASCII"),
                    Ok(other) => format!("{other:?}"),
                    Err(error) => return [lines, vec![error.to_string()]].concat(),
                });
                reader = LineReader::new(LINE_MAX, SKIP_MAX);
            }
        }
        lines
    }

    /// The same of an input that is there at once.
    fn plain_lines(input: &[u8]) -> Vec<String> {
        let (mut lines, mut left) = (Vec::new(), input);
        loop {
            let end = left.iter().position(|octet| *octet == b'\n');
            // A line that is too long is skipped by its longest length at a time.
            let skipped = end.unwrap_or(left.len()) / LINE_MAX * LINE_MAX;
            if skipped > SKIP_MAX {
                lines.push(NetError::InputFull { max: SKIP_MAX }.to_string());
                return lines;
            }
            let Some(end) = end else { return lines };
            let (line, rest) = left.split_at(end + 1);
            left = rest;
            lines.push(match line.strip_suffix(b"\r\n") {
                _ if skipped > 0 => "TooLong".to_owned(),
                Some(line) => String::from_utf8(line.to_vec()).expect("ASCII"),
                None => "BareLf".to_owned(),
            });
        }
    }

    properties! {
        #[test]
        fn lines_are_the_same_however_they_come(
            input in prop::collection::vec(
                one_of![
                    3 => prop::sample::select(vec!["\r\n", "\n", "\r"]).prop_map(str::to_owned),
                    2 => "[a-z]{1,4}",
                    1 => "[a-z]{5,20}",
                ],
                0..12,
            ),
            cuts in prop::collection::vec(1usize..9, 1..9),
        ) {
            let input = input.concat().into_bytes();
            prop_assert_eq!(lines(&input, &cuts), plain_lines(&input));
        }
    }

    #[test]
    fn an_octet_is_looked_at_once() {
        let (mut reader, mut input) = (LineReader::new(100, 100), BytesMut::new());
        for _ in 0..50 {
            input.extend_from_slice(b"x");
            assert_eq!(reader.take(&mut input).expect("no error"), TakenLine::Unfinished);
            // A second look at it would find the end of a line.
            input.fill(b'\n');
        }
        input.extend_from_slice(b"\r\n");
        let line = reader.take(&mut input).expect("no error");
        assert!(matches!(line, TakenLine::Whole(line) if line.len() == 50));
    }

    #[test]
    fn lines_end_with_crlf_and_have_a_limit() {
        let error = NetError::InputFull { max: SKIP_MAX }.to_string();
        for step in [1, 2, 5, 100] {
            let lines = |input: &[u8]| lines(input, &[step]);
            assert_eq!(lines(b"a\r\n\r\nbcde\r\nf"), ["a", "", "bcde"], "{step}");
            assert_eq!(lines(b"a\n\nb\r\n"), ["BareLf", "BareLf", "b"], "{step}");
            // Six octets with CR LF are the most.
            assert_eq!(lines(b"abcde\r\nx\r\n"), ["TooLong", "x"], "{step}");
            assert_eq!(lines(b"abcdefghijk\r\nx\r\n"), ["TooLong", "x"], "{step}");
            assert_eq!(lines(b"x\r\nabcdefghijklmnopqrs\r\n"), ["x", error.as_str()], "{step}");
        }
    }
}
