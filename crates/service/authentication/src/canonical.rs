//! The canonical form `relaxed` of fields and bodies (RFC 6376 §3.4.2, §3.4.4), which signatures
//! are made over. Lines end in CR LF here: see [`with_line_ends`].

use bytes::Bytes;
use memchr::{memchr, memchr2, memmem};

/// A field of a header, as it is in a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field<'m> {
    /// Without blanks around it.
    pub name: &'m [u8],
    /// Behind the colon, folded as it is, without its last CR LF.
    pub value: &'m [u8],
}

impl Field<'_> {
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Whether a header has a CR that no LF follows (RFC 5321 §2.3.8).
pub fn has_bare_cr(message: &[u8]) -> bool {
    let lines = message.split(|octet| *octet == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.take_while(|line| !line.is_empty()).any(|line| line.contains(&b'\r'))
}

/// A message's fields, from the top, and its body.
pub(crate) fn split(message: &[u8]) -> (Vec<Field<'_>>, &[u8]) {
    let mut reader = fields(message);
    let all = reader.by_ref().collect();
    (all, reader.rest)
}

/// A message's fields, from the top, one by one.
pub(crate) fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

/// See [`fields`].
pub(crate) struct Fields<'m> {
    /// The unread rest. After the last field: the body.
    rest: &'m [u8],
}

impl<'m> Iterator for Fields<'m> {
    type Item = Field<'m>;

    fn next(&mut self) -> Option<Field<'m>> {
        while !self.rest.is_empty() {
            if let Some(body) = self.rest.strip_prefix(b"\r\n").or_else(|| self.rest.strip_prefix(b"\n")) {
                self.rest = body;
                return None;
            }
            let (field, behind) = self.rest.split_at(end_of_field(self.rest));
            self.rest = behind;
            let field = field.strip_suffix(b"\r\n").unwrap_or(field);
            // A line without a colon is no field, and cannot be signed.
            if let Some(colon) = memchr(b':', field) {
                return Some(Field { name: field[..colon].trim_ascii(), value: &field[colon + 1..] });
            }
        }
        None
    }
}

/// Behind the first field, with the lines that continue it (RFC 5322 §2.2.3).
fn end_of_field(text: &[u8]) -> usize {
    let mut end = 0;
    loop {
        end = memchr(b'\n', &text[end..]).map_or(text.len(), |found| end + found + 1);
        if !matches!(text.get(end), Some(b' ' | b'\t')) {
            return end;
        }
    }
}

/// Appends a field's canonical form without its end (RFC 6376 §3.4.2).
pub(crate) fn relaxed_field(field: Field<'_>, out: &mut Vec<u8>) {
    out.extend(field.name.iter().map(u8::to_ascii_lowercase));
    out.push(b':');
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let words = field.value.split(is_blank).filter(|word| !word.is_empty());
    for (at, word) in words.enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
}

/// Hands out a body's canonical form, piece by piece (RFC 6376 §3.4.4).
pub(crate) fn relaxed_body(body: &[u8], mut write: impl FnMut(&[u8])) {
    let (mut rest, mut empty, mut buffer) = (body, 0_usize, Vec::new());
    while !rest.is_empty() {
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, behind) = rest.split_at(end);
        rest = behind;
        let line = line.strip_suffix(b"\r\n").unwrap_or(line);
        let kept = line.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1);
        let line = &line[..kept];
        if line.is_empty() {
            empty += 1;
            continue;
        }
        // Empty lines count only where something follows.
        for _ in 0..std::mem::take(&mut empty) {
            write(b"\r\n");
        }
        let is_plain = memchr(b'\t', line).is_none() && memmem::find(line, b"  ").is_none();
        if is_plain {
            write(line);
        } else {
            buffer.clear();
            for byte in line {
                match byte {
                    b' ' | b'\t' if buffer.last() == Some(&b' ') => {}
                    b' ' | b'\t' => buffer.push(b' '),
                    byte => buffer.push(*byte),
                }
            }
            write(&buffer);
        }
        write(b"\r\n");
    }
}

/// A message in which each bare CR or LF is replaced by CR LF. So it is sent (RFC 5321 §2.3.8),
/// so it has to be signed. A message without any is not copied.
pub(crate) fn with_line_ends(message: Bytes) -> Bytes {
    if !has_lone_line_end(&message) {
        return message;
    }
    let (mut out, mut rest) = (Vec::with_capacity(message.len() + 1024), &message[..]);
    while let Some(at) = memchr2(b'\r', b'\n', rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(b"\r\n");
        rest = &rest[at + if rest[at..].starts_with(b"\r\n") { 2 } else { 1 }..];
    }
    out.extend_from_slice(rest);
    Bytes::from(out)
}

fn has_lone_line_end(message: &[u8]) -> bool {
    let mut rest = message;
    while let Some(at) = memchr2(b'\r', b'\n', rest) {
        match rest[at..].strip_prefix(b"\r\n") {
            Some(behind) => rest = behind,
            None => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn body(text: &str) -> String {
        let mut out = Vec::new();
        relaxed_body(text.as_bytes(), |piece| out.extend_from_slice(piece));
        String::from_utf8(out).unwrap()
    }

    /// The example of RFC 6376 §3.4.5.
    #[test]
    fn the_example_of_the_rfc() {
        let message = b"A: X\r\nB : Y\t\r\n\tZ  \r\n\r\n C \r\nD \t E\r\n\r\n\r\n";
        let (fields, text) = split(message);
        let mut header = Vec::new();
        for field in fields {
            relaxed_field(field, &mut header);
            header.extend_from_slice(b"\r\n");
        }
        assert_eq!(header, b"a:X\r\nb:Y Z\r\n");
        assert_eq!(body(std::str::from_utf8(text).unwrap()), " C\r\nD E\r\n");
    }

    #[test]
    fn ends_of_bodies() {
        // RFC 6376 §3.4.4: a body of empty lines alone is empty.
        for empty in ["", "\r\n", " \t\r\n\r\n"] {
            assert_eq!(body(empty), "");
        }
        assert_eq!(body("a"), "a\r\n");
        assert_eq!(body("a\r\n \r\n\r\nb\r\n\r\n"), "a\r\n\r\n\r\nb\r\n");
    }

    #[test]
    fn mail_without_a_header_or_a_body() {
        let (fields, rest) = split(b"A: 1\r\nno field\r\nB:2");
        assert_eq!((fields.len(), rest), (2, b"".as_slice()));
        assert!(split(b"\r\nA: 1\r\n").0.is_empty());
    }

    properties! {
        #[test]
        fn line_ends_are_whole(text in "[ab\r\n]{0,40}") {
            let out = with_line_ends(Bytes::from(text.clone().into_bytes()));
            prop_assert!(!has_lone_line_end(&out));
            let letters = |bytes: &[u8]| bytes.iter().copied().filter(|b| b.is_ascii_lowercase()).collect::<Vec<_>>();
            prop_assert_eq!(letters(&out), letters(text.as_bytes()));
        }

        #[test]
        fn canonical_bodies_stay_as_they_are(text in "([ab \t]{0,6}\r\n){0,8}[ab ]{0,3}") {
            let once = body(&text);
            prop_assert_eq!(body(&once), once);
        }
    }
}
