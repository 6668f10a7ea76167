//! The structure of one part, out of that of its message: RFC 5524 §3.

use std::borrow::Cow;

use bytes::Bytes;
use posthaste_imap_codec::response::{BodyStructure, FetchValue, PartKind, Untagged};
use posthaste_imap_codec::{NameEncoding, Response, parse_response, print};

/// Whether there are parts of all these paths in a BODYSTRUCTURE as it is printed.
pub fn has_parts(printed: &[u8], paths: &[Vec<u32>]) -> bool {
    let look = |whole: &BodyStructure<'_>| {
        paths.iter().all(|path| path.is_empty() || in_message(whole, path).is_some())
    };
    with_structure(printed, look).unwrap_or_default()
}

/// The part of this path, out of a BODYSTRUCTURE as it is printed.
pub(super) fn of_part(printed: &[u8], path: &[u32]) -> Option<Vec<u8>> {
    if path.is_empty() {
        return Some(printed.to_vec());
    }
    with_structure(printed, |whole| {
        let mut out = Vec::new();
        print::body_structure(&mut out, in_message(whole, path)?);
        Some(out)
    })?
}

/// Properties of a part's decoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decoded {
    /// The number of octets.
    pub octets: u64,
    /// The number of octets that are LF.
    pub lines: u64,
    /// Whether one of them is NUL.
    pub has_nul: bool,
    /// Whether one of them is not ASCII.
    pub has_eight_bit: bool,
}

impl Decoded {
    /// Takes the next bytes into account.
    pub fn count(&mut self, bytes: &[u8]) {
        self.octets += bytes.len() as u64;
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.has_nul |= bytes.contains(&0);
        self.has_eight_bit |= !bytes.is_ascii();
    }

    fn encoding(&self) -> &'static [u8] {
        match (self.has_nul, self.has_eight_bit) {
            (true, _) => b"binary",
            (false, true) => b"8bit",
            (false, false) => b"7bit",
        }
    }
}

/// The structure of a part whose bytes are sent decoded: it describes these (RFC 5524 §3). `None`
/// if it describes them already, because nothing was decoded.
pub fn structure_of_decoded(printed: &[u8], decoded: Decoded) -> Option<Vec<u8>> {
    with_structure(printed, |whole| {
        let BodyStructure::Single(single) = whole else { return None };
        let was = &single.basic.encoding;
        if !["base64", "quoted-printable"].iter().any(|name| was.eq_ignore_ascii_case(name.as_bytes())) {
            return None;
        }
        let mut single = single.clone();
        single.basic.encoding = Cow::Borrowed(decoded.encoding());
        single.basic.size = decoded.octets;
        if let PartKind::Text { lines } | PartKind::Message { lines, .. } = &mut single.kind {
            *lines = decoded.lines;
        }
        let mut out = Vec::new();
        print::body_structure(&mut out, &BodyStructure::Single(single));
        Some(out)
    })?
}

/// Parses a structure.
fn with_structure<T>(printed: &[u8], look: impl FnOnce(&BodyStructure<'_>) -> T) -> Option<T> {
    let response = [b"* 1 FETCH (BODYSTRUCTURE ", printed, b")\r\n"].concat();
    let Ok(Response::Data(Untagged::Fetch { items, .. })) =
        parse_response(&Bytes::from(response), NameEncoding::Utf8)
    else {
        return None;
    };
    let FetchValue::BodyStructure(whole) = items.into_iter().next()? else { return None };
    Some(look(&whole))
}

/// A part of a message: RFC 9051 §6.4.5.1. A message that is not a multipart is its own part 1.
fn in_message<'b, 'a>(body: &'b BodyStructure<'a>, path: &[u32]) -> Option<&'b BodyStructure<'a>> {
    let (&number, rest) = path.split_first()?;
    match body {
        BodyStructure::Multi(_) => within(body, path),
        BodyStructure::Single(_) if number == 1 => within(body, rest),
        BodyStructure::Single(_) => None,
    }
}

/// A part within a part.
fn within<'b, 'a>(part: &'b BodyStructure<'a>, path: &[u32]) -> Option<&'b BodyStructure<'a>> {
    let Some((&number, rest)) = path.split_first() else { return Some(part) };
    match part {
        BodyStructure::Multi(multi) => within(multi.parts.get(number as usize - 1)?, rest),
        BodyStructure::Single(single) => match &single.kind {
            PartKind::Message { body, .. } => in_message(body, path),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_by_its_path() {
        let plain = r#"("TEXT" "PLAIN" NIL NIL NIL "7BIT" 3 1 NIL NIL NIL NIL)"#;
        let image = r#"("IMAGE" "PNG" NIL NIL NIL "BASE64" 9 NIL NIL NIL NIL)"#;
        let nested = format!(
            r#"("MESSAGE" "RFC822" NIL NIL NIL "7BIT" 99 (NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL) {plain} 5 NIL NIL NIL NIL)"#
        );
        let whole =
            format!(r#"({plain}{nested}({image}{plain} "MIXED" NIL NIL NIL NIL) "MIXED" NIL NIL NIL NIL)"#);
        let part =
            |path: &[u32]| of_part(whole.as_bytes(), path).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(part(&[]).as_deref(), Some(&*whole));
        assert_eq!(part(&[1]).as_deref(), Some(plain));
        assert_eq!(part(&[2, 1]).as_deref(), Some(plain));
        assert_eq!(part(&[3, 1]).as_deref(), Some(image));
        assert!(has_parts(whole.as_bytes(), &[vec![2, 1], vec![], vec![3, 1]]));
        assert!(!has_parts(whole.as_bytes(), &[vec![2, 1], vec![4]]));
        for path in [&[4][..], &[1, 1], &[2, 2], &[3, 3], &[2, 1, 1]] {
            assert_eq!(part(path), None, "{path:?}");
        }
        assert_eq!(of_part(plain.as_bytes(), &[1]).as_deref(), Some(plain.as_bytes()));
        assert_eq!(of_part(plain.as_bytes(), &[2]), None);
    }

    #[test]
    fn a_decoded_part_is_described_as_it_is_sent() {
        let described = |printed: &str, sent: &[u8]| {
            let mut decoded = Decoded::default();
            sent.chunks(2).for_each(|piece| decoded.count(piece));
            structure_of_decoded(printed.as_bytes(), decoded).map(|text| String::from_utf8(text).unwrap())
        };
        let text = r#"("TEXT" "PLAIN" NIL NIL NIL "quoted-printable" 9 1 NIL NIL NIL NIL)"#;
        for (sent, encoding, lines) in
            [("a\r\nb\r\n", "7bit", 2), ("gr\u{fc}n", "8bit", 0), ("\0\u{fc}\n", "binary", 1)]
        {
            let expected = format!(
                r#"("TEXT" "PLAIN" NIL NIL NIL "{encoding}" {} {lines} NIL NIL NIL NIL)"#,
                sent.len()
            );
            assert_eq!(described(text, sent.as_bytes()), Some(expected));
        }
        let image = r#"("IMAGE" "PNG" NIL NIL NIL "BASE64" 9 NIL NIL NIL NIL)"#;
        assert_eq!(
            described(image, b"\0").unwrap(),
            r#"("IMAGE" "PNG" NIL NIL NIL "binary" 1 NIL NIL NIL NIL)"#
        );
        assert_eq!(described(r#"("IMAGE" "PNG" NIL NIL NIL "8bit" 1 NIL NIL NIL NIL)"#, b"a"), None);
        assert_eq!(described(&format!(r#"({image} "MIXED" NIL NIL NIL NIL)"#), b"a"), None);
    }
}
