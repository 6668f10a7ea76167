//! Header fields: where each begins and ends, and its value without folding.
//!
//! A header is all lines up to and including the blank line. A line that is no field (no colon, or
//! a name with a space in it) is kept as a field without a name. So the fields of a header put
//! together are always the header itself. RFC 5322 §2.2, §4.5.

use std::borrow::Cow;

use crate::in_bounds::InBounds;
use crate::scan::{Span, is_blank, is_space, line_end, trim};

/// Octets of the header of a message that comes in, at most. Mail with long lists of recipients has
/// some ten thousand. Code that works on a header takes up to some sixty times its memory. Twice as
/// many octets would take 128 MiB for one message.
pub const HEADER_LEN_MAX: usize = 1 << 20;

/// Lines of that header that begin a field, at most. Mail that went through many hosts and lists
/// has some hundred. A verifier compares each with each name that a signature covers.
pub const HEADER_FIELDS_MAX: usize = 10_000;

/// The octets of the header of a message, without the blank line after it. `None` if it exceeds
/// the bounds for incoming mail, [`HEADER_LEN_MAX`] and [`HEADER_FIELDS_MAX`]. Reads at most this
/// part, whatever the length of the message.
pub fn bounded_header_len(message: &[u8]) -> Option<usize> {
    header_len_within(message, HEADER_LEN_MAX, HEADER_FIELDS_MAX)
}

/// The octets of a header, if it has so many octets and fields at most.
fn header_len_within(message: &[u8], octets: usize, fields_max: usize) -> Option<usize> {
    let bounded = message.get(..octets).unwrap_or(message);
    let (mut at, mut fields) = (0, 0);
    while at < bounded.len() {
        let end = line_end(bounded, at);
        let line = bounded.in_bounds(at..end);
        if is_blank(line) {
            return Some(at);
        }
        fields += usize::from(!matches!(line.first(), Some(b' ' | b'\t')));
        if fields > fields_max {
            return None;
        }
        at = end;
    }
    // The bound cuts a message that continues.
    (bounded.len() == message.len()).then_some(at)
}

/// Whether the header of a message is within the bounds: see [`bounded_header_len`].
pub fn is_header_bounded(message: &[u8]) -> bool {
    bounded_header_len(message).is_some()
}

/// Octets of a header that a session's task reads itself: some 0.3 ms for each look at all lines,
/// if a line has two octets.
pub const HEADER_LEN_SHORT: usize = 64 << 10;

/// Whether the header of a message is so long that no session's task should read it. Reads at
/// most [`HEADER_LEN_SHORT`] octets.
pub fn has_long_header(message: &[u8]) -> bool {
    has_header_over(message, HEADER_LEN_SHORT)
}

/// Whether the header of a message has no end within so many octets. Reads no more of it.
pub fn has_header_over(message: &[u8], octets: usize) -> bool {
    let begin = message.get(..octets).filter(|begin| begin.len() < message.len());
    begin.is_some_and(|begin| header_len_within(begin, octets, usize::MAX) == Some(begin.len()))
}

/// Octets that this server adds to the header of a message at most: results of 8 KiB, traces, and
/// what a filter program adds. With twice as many, a script would hold a quarter more.
const ADDED_LEN_MAX: usize = 256 << 10;

/// Fields that this server adds at most. A filter program may add 1,000.
const ADDED_FIELDS_MAX: usize = 2_000;

/// Whether a header is within these bounds, without the fields that this server may have added.
pub fn is_traced_header_bounded(message: &[u8]) -> bool {
    let (octets, fields) = (HEADER_LEN_MAX + ADDED_LEN_MAX, HEADER_FIELDS_MAX + ADDED_FIELDS_MAX);
    header_len_within(message, octets, fields).is_some()
}

/// One header field, by its ranges in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The position where the field begins.
    pub start: u32,
    /// The position where the name ends (equal to `start` for a line that is no field).
    pub name_end: u32,
    /// The position where the value begins: after the colon.
    pub value_start: u32,
    /// The position where the field ends: after its last line end.
    pub end: u32,
}

impl Field {
    /// The field starting with the line `start..end`.
    pub(crate) fn on_line(bytes: &[u8], start: usize, end: usize) -> Self {
        let line = bytes.in_bounds(start..end);
        let none =
            Field { start: start as u32, name_end: start as u32, value_start: start as u32, end: end as u32 };
        let Some(colon) = line.iter().position(|&b| b == b':' || b == b'\n') else { return none };
        if line.get(colon) != Some(&b':') {
            return none;
        }
        // RFC 5322 §4.5: obsolete syntax allows white space before the colon.
        let mut name = line.in_bounds(..colon);
        while let [rest @ .., b' ' | b'\t'] = name {
            name = rest;
        }
        if name.is_empty() || name.iter().any(|&b| b <= b' ' || b == 0x7f) {
            return none;
        }
        Field {
            start: start as u32,
            name_end: (start + name.len()) as u32,
            value_start: (start + colon + 1) as u32,
            end: end as u32,
        }
    }

    /// The whole field with its line end.
    pub fn span(&self) -> Span {
        Span::new(self.start, self.end)
    }

    /// The field's name, empty for a line that is no field.
    pub fn name<'m>(&self, message: &'m [u8]) -> &'m [u8] {
        Span::new(self.start, self.name_end).of(message)
    }

    /// The range of its value.
    pub fn value_span(&self) -> Span {
        Span::new(self.value_start, self.end)
    }

    /// The field's raw value: folded, with the last line end.
    pub fn raw_value<'m>(&self, message: &'m [u8]) -> &'m [u8] {
        self.value_span().of(message)
    }

    /// The field's value without folding and without white space at both ends.
    pub fn value<'m>(&self, message: &'m [u8]) -> Cow<'m, [u8]> {
        unfold(self.raw_value(message))
    }

    /// Whether this is its name, in any case.
    pub fn is(&self, message: &[u8], name: &str) -> bool {
        self.name(message).eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The fields of one header, read one by one.
#[derive(Debug, Clone)]
pub struct HeaderFields<'m> {
    message: &'m [u8],
    at: usize,
    end: usize,
}

impl<'m> HeaderFields<'m> {
    /// The fields in the range `header` of `message`.
    pub fn new(message: &'m [u8], header: Span) -> Self {
        HeaderFields { message, at: header.start as usize, end: (header.end as usize).min(message.len()) }
    }
}

impl Iterator for HeaderFields<'_> {
    type Item = Field;

    fn next(&mut self) -> Option<Field> {
        let bytes = self.message.get(..self.end)?;
        if self.at >= bytes.len() {
            return None;
        }
        let first_end = line_end(bytes, self.at);
        if is_blank(bytes.get(self.at..first_end)?) {
            self.at = self.end;
            return None;
        }
        let mut field = Field::on_line(bytes, self.at, first_end);
        self.at = first_end;
        while let Some(b' ' | b'\t') = bytes.get(self.at) {
            self.at = line_end(bytes, self.at);
        }
        field.end = self.at as u32;
        Some(field)
    }
}

/// A field's value without folding: line ends dropped (the white space after them stays), NULs
/// dropped, white space at both ends trimmed. RFC 5322 §2.2.3.
pub fn unfold(raw: &[u8]) -> Cow<'_, [u8]> {
    let trimmed = trim(raw);
    if trimmed.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        Cow::Owned(trimmed.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n' | 0)).collect())
    } else {
        Cow::Borrowed(trimmed)
    }
}

/// Skips white space and comments (RFC 5322 §3.2.2) from `at`; returns where it stopped.
pub(crate) fn skip_cfws(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_u32;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'(' => depth += 1,
            b')' if depth > 0 => depth -= 1,
            b'\\' if depth > 0 => at += 1,
            _ if depth > 0 || is_space(byte) || byte == 0 => {}
            _ => return at,
        }
        at += 1;
    }
    at.min(bytes.len())
}
