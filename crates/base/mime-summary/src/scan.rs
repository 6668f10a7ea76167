//! Lines, and spans of bytes: the smallest steps of the pass over a message.
//!
//! A line ends at LF; a CR before it belongs to the line end. A bare CR is data: treating it as a
//! line end would split lines that all other mail programs keep whole.

use std::ops::Range;

use crate::in_bounds::InBounds;

/// A range of bytes of the message, from `start` up to but without `end`; `start <= end` always
/// holds.
///
/// Offsets are 32 bit: octets of a message beyond 4 GiB are not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// A span; an end before the start is moved to the start.
    pub const fn new(start: u32, end: u32) -> Self {
        Span { start, end: if end < start { start } else { end } }
    }

    /// Number of bytes.
    pub const fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether no byte lies in it.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Whether `other` lies wholly inside.
    pub const fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The span as a range of indices.
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The bytes of `message` in this span; empty if the span lies outside of it.
    pub fn of(self, message: &[u8]) -> &[u8] {
        message.get(self.range()).unwrap_or_default()
    }
}

/// One past the LF that ends the line starting at `at`, or the end of the bytes.
pub(crate) fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.in_bounds(at..);
    memchr::memchr(b'\n', rest).map_or(bytes.len(), |lf| at + lf + 1)
}

/// Length of the line end (0, 1 or 2 bytes) that ends just before `end`.
pub(crate) fn newline_before(bytes: &[u8], end: usize) -> usize {
    match bytes.get(..end) {
        Some([.., b'\r', b'\n']) => 2,
        Some([.., b'\n']) => 1,
        _ => 0,
    }
}

/// The number of lines that end in `bytes`.
pub(crate) fn count_lines(bytes: &[u8]) -> u32 {
    u32::try_from(memchr::memchr_iter(b'\n', bytes).count()).unwrap_or(u32::MAX)
}

/// Whether a line (with its end) is blank: nothing but the line end.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    matches!(line, b"\r\n" | b"\n")
}

/// White space inside a header field, line ends of folding included.
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// `bytes` without white space at both ends.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    trim_end(trim_start(bytes))
}

/// `bytes` without white space at the start.
pub(crate) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_space(*first)
    {
        bytes = rest;
    }
    bytes
}

/// `bytes` without white space at the end.
pub(crate) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes
        && is_space(*last)
    {
        bytes = rest;
    }
    bytes
}
