//! The message of a run: its header, which a script may edit, and its parts.

use std::borrow::Cow;
use std::cell::OnceCell;

use posthaste_mime_summary::{
    HEADER_FIELDS_MAX, HeaderFields, InBounds, PartIndex, Span, Structure, decode_words,
};

/// field-name = 1*ftext. RFC 5322 §2.2.
pub(crate) fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 200 && name.bytes().all(|b| b.is_ascii_graphic() && b != b':')
}

/// A message. Its header is read at once, its parts when they are requested.
pub(crate) struct Message<'m> {
    pub(crate) bytes: &'m [u8],
    fields: Vec<Field<'m>>,
    /// The position where the blank line after the header begins.
    header_end: usize,
    structure: OnceCell<Structure>,
}

/// A field of the header: as it came, or as a script wrote it.
pub(crate) struct Field<'m> {
    name: Cow<'m, [u8]>,
    /// The whole field with its line end.
    whole: Cow<'m, [u8]>,
    /// The position in it where the value begins.
    value_start: usize,
}

impl Field<'_> {
    /// A field of the script's own, folded and encoded.
    fn made(name: &str, value: &str) -> Self {
        let mut whole = format!("{name}: ");
        if value.is_ascii() {
            fold(value, &mut whole);
        } else {
            encode_words(value, &mut whole);
        }
        whole.push_str("\r\n");
        Self {
            name: Cow::Owned(name.as_bytes().to_vec()),
            whole: Cow::Owned(whole.into_bytes()),
            value_start: name.len() + 1,
        }
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The value, still folded.
    pub(crate) fn raw_value(&self) -> &[u8] {
        self.whole.in_bounds(self.value_start..)
    }

    /// The value as text.
    pub(crate) fn value(&self) -> Cow<'_, str> {
        decode_words(self.raw_value())
    }
}

/// The header of a message with the blank line after it. Nothing is kept of its fields: a nested
/// message may have any number.
pub(crate) fn header_of(bytes: &[u8]) -> &[u8] {
    let span = Span::new(0, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let end = HeaderFields::new(bytes, span).last().map_or(0, |field| field.end as usize);
    bytes.in_bounds(..behind_blank(bytes, end))
}

/// Behind the blank line that may be there.
fn behind_blank(bytes: &[u8], header_end: usize) -> usize {
    let rest = bytes.in_bounds(header_end..);
    let blank = if rest.starts_with(b"\r\n") { 2 } else { usize::from(rest.starts_with(b"\n")) };
    header_end + blank
}

/// Longest line that is written without folding. RFC 5322 §2.1.1.
const LINE_LEN: usize = 78;

impl<'m> Message<'m> {
    pub(crate) fn new(bytes: &'m [u8]) -> Self {
        // Offsets are 32 bit: mail beyond 4 GiB does not come in.
        let bytes = bytes.get(..u32::MAX as usize).unwrap_or(bytes);
        let mut header_end = 0;
        let fields = HeaderFields::new(bytes, Span::new(0, bytes.len() as u32))
            .map(|field| {
                header_end = field.end as usize;
                Field {
                    name: Cow::Borrowed(field.name(bytes)),
                    whole: Cow::Borrowed(field.span().of(bytes)),
                    value_start: (field.value_start - field.start) as usize,
                }
            })
            .collect();
        Message { bytes, fields, header_end, structure: OnceCell::new() }
    }

    /// The position where the body begins.
    pub(crate) fn body_start(&self) -> usize {
        behind_blank(self.bytes, self.header_end)
    }

    pub(crate) fn structure(&self) -> &Structure {
        self.structure.get_or_init(|| Structure::parse(self.bytes))
    }

    /// The fields of a name, in order.
    pub(crate) fn fields<'a>(&'a self, name: &'a str) -> impl DoubleEndedIterator<Item = &'a Field<'m>> {
        self.fields.iter().filter(move |field| field.is(name))
    }

    /// The first field of a name.
    pub(crate) fn field(&self, name: &str) -> Option<&Field<'m>> {
        self.fields.iter().find(|field| field.is(name))
    }

    /// The first value of a field as text.
    pub(crate) fn text_of(&self, name: &str) -> Option<Cow<'_, str>> {
        self.field(name).map(Field::value)
    }

    /// The number of bytes that a look at the header of a part costs.
    pub(crate) fn part_header_len(&self, part: PartIndex) -> u64 {
        self.structure().part(part).map_or(0, |part| u64::from(part.header.len()))
    }

    /// The fields of one part, read from the message as it came. Only the first ones, if there are
    /// more than the header of a message may have.
    pub(crate) fn part_fields(&self, part: PartIndex, name: &str) -> Vec<&'m [u8]> {
        let Some(part) = self.structure().part(part) else { return Vec::new() };
        HeaderFields::new(self.bytes, part.header)
            .filter(|field| field.is(self.bytes, name))
            .map(|field| field.raw_value(self.bytes))
            .take(HEADER_FIELDS_MAX)
            .collect()
    }

    /// Adds a field before all others (RFC 5293 §4). A Return-Path stays in front: a host that
    /// relays the message removes it there (RFC 5321 §4.4).
    pub(crate) fn add_first(&mut self, name: &str, value: &str) {
        let place = self.fields.first().is_some_and(|first| first.is("Return-Path"));
        self.fields.insert(usize::from(place), Field::made(name, value));
    }

    /// Adds a field after all others. RFC 5293 §4, `:last`.
    pub(crate) fn add_last(&mut self, name: &str, value: &str) {
        self.fields.push(Field::made(name, value));
    }

    /// Removes fields of a name: those with these numbers, counted from 0, in order.
    pub(crate) fn remove(&mut self, name: &str, numbers: &[usize]) {
        let mut number = 0;
        self.fields.retain(|field| {
            if !field.is(name) {
                return true;
            }
            number += 1;
            numbers.binary_search(&(number - 1)).is_err()
        });
    }

    /// The header as it is now, with the blank line.
    pub(crate) fn header(&self) -> Vec<u8> {
        let octets: usize = self.fields.iter().map(|field| field.whole.len()).sum();
        let mut made = Vec::with_capacity(octets + 4);
        self.fields.iter().for_each(|field| made.extend_from_slice(&field.whole));
        if !made.is_empty() && !made.ends_with(b"\n") {
            made.extend_from_slice(b"\r\n");
        }
        let blank = self.bytes.in_bounds(self.header_end..self.body_start());
        made.extend_from_slice(if blank.is_empty() { b"\r\n" } else { blank });
        made
    }

    pub(crate) fn fields_len(&self) -> usize {
        self.fields.len()
    }
}

/// Writes a value, folded at its spaces. RFC 5322 §2.2.3.
fn fold(value: &str, into: &mut String) {
    let mut line = into.len();
    for (index, word) in value.split(' ').enumerate() {
        if index > 0 {
            // A line of white space alone would end the field for some programs.
            if line + 1 + word.len() > LINE_LEN && !word.trim().is_empty() && !into.ends_with(' ') {
                into.push_str("\r\n");
                line = 0;
            }
            into.push(' ');
            line += 1;
        }
        into.push_str(word);
        line += word.len();
    }
}

/// Writes a value in encoded words. RFC 2047 §2, §5.
fn encode_words(value: &str, into: &mut String) {
    /// 45 bytes are 60 of base64: with its frame, a word stays under 75.
    const BYTES_MAX: usize = 45;
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut rest = value;
    while !rest.is_empty() {
        let mut len = rest.len().min(BYTES_MAX);
        while !rest.is_char_boundary(len) {
            len -= 1;
        }
        let (piece, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
        into.push_str("=?UTF-8?B?");
        for chunk in piece.as_bytes().chunks(3) {
            let [a, b, c] = [0, 1, 2].map(|at| u32::from(chunk.get(at).copied().unwrap_or(0)));
            let bits = a << 16 | b << 8 | c;
            for (index, shift) in [18, 12, 6, 0].into_iter().enumerate() {
                let digit = ALPHABET.get((bits >> shift & 63) as usize).copied().unwrap_or(b'=');
                into.push(if index > chunk.len() { '=' } else { digit as char });
            }
        }
        into.push_str(if after.is_empty() { "?=" } else { "?=\r\n " });
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_without_edits_is_itself() {
        for bytes in ["A: b\r\nC: d\r\n e\r\n\r\nbody", "A: b\n\nbody", "A: b\n", "\r\nbody", ""] {
            let message = Message::new(bytes.as_bytes());
            let whole = [&message.header(), &bytes.as_bytes()[message.body_start()..]].concat();
            let without = String::from_utf8(whole).unwrap();
            assert!(without == bytes || without == format!("{bytes}\r\n"), "{bytes:?}: {without:?}");
        }
    }

    #[test]
    fn edits() {
        let mut message = Message::new(b"A: 1\r\nB: 2\r\na: 3\r\n\r\nbody");
        message.add_first("X", "grüße");
        message.add_last("Y", &"word ".repeat(30));
        message.remove("A", &[1]);
        let header = String::from_utf8(message.header()).unwrap();
        assert!(header.starts_with("X: =?UTF-8?B?Z3LDvMOfZQ==?=\r\nA: 1\r\nB: 2\r\nY: word"), "{header}");
        assert!(header.ends_with("\r\n\r\n") && header.lines().all(|line| line.len() <= 80));
        assert_eq!(message.text_of("x").unwrap(), "grüße");
        assert_eq!(message.text_of("y").unwrap().trim_end(), "word ".repeat(30).trim_end());
        let long = "ü".repeat(200);
        message.add_last("Z", &long);
        assert_eq!(message.text_of("z").unwrap(), long);
    }
}
