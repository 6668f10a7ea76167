//! Messages within a message that are in base64 or quoted-printable.
//!
//! RFC 2046 §5.2.1 allows no such encoding for message/rfc822, but programs that forward mail use
//! them. RFC 6532 §3.7 allows them for message/global. BODYSTRUCTURE has the envelope and the
//! parts of the decoded message. FETCH decodes the message and makes its part table
//! ([`DecodedParts`]) to find a section in it.
//!
//! A message that is beyond a bound is opaque as a whole: application/octet-stream. The bounds of
//! the message around it count its parts, too. An encoded message inside a decoded one is not
//! decoded, so the work stays linear in the message.

use crate::estimate::{MESSAGE_BYTES, printed_max};
use crate::structure::{MAX_DEPTH, MAX_PARTS, Part, PartIndex, Structure};
use crate::table::{Located, PartRow, Section, locate, rows, write_table};
use crate::transfer::decode_transfer;

/// Most bytes of encoded messages that are decoded in a message: they are in memory at the same
/// time. Real ones have some attachments of a few MiB. Twice as much would take a third of the
/// memory that [`crate::summary_memory_max`] allows.
const ENCODED_BYTES_MAX: usize = 16 << 20;

/// The most of them that a message may have: ten times what a long digest has. Each costs an
/// allocation of 2 KiB while the summary is made.
const ENCODED_MESSAGES_MAX: usize = 1000;

/// A message within the message, decoded.
#[derive(Debug, Clone)]
pub struct DecodedMessage {
    part: PartIndex,
    bytes: Vec<u8>,
    structure: Structure,
}

impl DecodedMessage {
    /// The part of the message around it whose content it is.
    pub fn part(&self) -> PartIndex {
        self.part
    }

    /// The bytes of the message.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The structure of the message: its parts.
    pub fn structure(&self) -> &Structure {
        &self.structure
    }
}

/// The octets that the decoded messages of a message may still take.
struct Room {
    printed: usize,
    parts: usize,
    bytes: usize,
}

impl Structure {
    /// Decodes the messages that are in base64 or quoted-printable, in the order of their parts.
    /// One that is beyond a bound becomes application/octet-stream.
    pub fn decode_messages(&mut self, message: &[u8]) -> Vec<DecodedMessage> {
        let mut decoded = Vec::new();
        let mut room = Room {
            printed: printed_max(message.len()).saturating_sub(self.printed),
            parts: MAX_PARTS.saturating_sub(self.parts.len()),
            bytes: ENCODED_BYTES_MAX,
        };
        let depth = self.depth;
        for (index, part) in (0..).zip(&mut self.parts).filter(|(_, part)| part.is_encoded_message) {
            let is_one_more = decoded.len() < ENCODED_MESSAGES_MAX;
            match is_one_more.then(|| room.decode(message, part, depth)).flatten() {
                Some((bytes, structure)) => decoded.push(DecodedMessage { part: index, bytes, structure }),
                None => part.refuse_message(),
            }
        }
        decoded
    }
}

impl Room {
    /// Decodes a message, if there is room for it.
    fn decode(&mut self, message: &[u8], part: &Part, depth: usize) -> Option<(Vec<u8>, Structure)> {
        let body = part.body.of(message);
        let bytes_left = self.bytes.checked_sub(body.len())?;
        let mut bytes = decode_transfer(part.encoding, body).ok()?;
        bytes.shrink_to_fit();
        let mut structure = Structure::parse_decoded(&bytes);
        structure.parts.shrink_to_fit();
        if depth + structure.depth > MAX_DEPTH {
            return None;
        }
        let printed_left = self.printed.checked_sub(MESSAGE_BYTES + structure.printed)?;
        let parts_left = self.parts.checked_sub(structure.parts.len())?;
        *self = Room { printed: printed_left, parts: parts_left, bytes: bytes_left };
        Some((bytes, structure))
    }
}

/// The places of the sections of a decoded message.
#[derive(Debug, Clone)]
pub struct DecodedParts(Vec<u8>);

impl DecodedParts {
    /// Decodes a message that
    /// [`SummaryRef::locate_in_decoded`](crate::SummaryRef::locate_in_decoded) named.
    pub fn of(message: &[u8]) -> Self {
        let mut table = Vec::new();
        write_table(message, &Structure::parse_decoded(message), &mut table);
        Self(table)
    }

    /// The parts, breadth first.
    pub(crate) fn parts(&self) -> impl Iterator<Item = PartRow> + Clone + '_ {
        rows(&self.0)
    }

    /// Finds the bytes of a section in the decoded message; none if there is no such part.
    pub fn locate(&self, path: &[u32], section: Section) -> Option<Located> {
        locate(&self.0, path, section)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::SummaryParts;
    use crate::search::SearchKey;
    use crate::summary::SummaryRef;

    const HEAD: &str = "Content-Type: multipart/mixed; boundary=o\r\n\r\n";

    /// A part whose content is a message in base64.
    fn part(message: &str) -> String {
        format!(
            "--o\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n",
            encoded(message)
        )
    }

    fn encoded(message: &str) -> String {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut made = String::new();
        for three in message.as_bytes().chunks(3) {
            let bits =
                three.iter().fold(0, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - three.len()));
            for place in 0..4 {
                let is_padding = place > three.len();
                let sign = alphabet[(bits >> (18 - 6 * place)) as usize & 63];
                made.push(if is_padding { '=' } else { char::from(sign) });
            }
        }
        made
    }

    /// The numbers of messages within this message that are decoded, and that are opaque.
    fn decoded(message: &str) -> (usize, usize) {
        let message = message.as_bytes();
        let mut structure = Structure::parse(message);
        let decoded = structure.decode_messages(message);
        assert!(decoded.iter().all(|one| structure.part(one.part()).unwrap().is_encoded_message));
        let opaque =
            structure.parts().iter().filter(|part| part.media(message).is("application", "octet-stream"));
        (decoded.len(), opaque.count())
    }

    #[test]
    fn sections_of_an_encoded_message_lie_in_its_decoded_bytes() {
        let inner = "Subject: in\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n--i\r\n\r\none\r\n--i\r\n\
                     Content-Type: message/rfc822\r\n\r\nSubject: deep\r\n\r\ntwo\r\n--i--\r\n";
        let message = format!("{HEAD}{}{}--o--\r\n", part("Subject: first\r\n\r\nx\r\n"), part(inner));
        let mut structure = Structure::parse(message.as_bytes());
        let decoded = structure.decode_messages(message.as_bytes());
        assert_eq!(decoded[1].bytes(), inner.as_bytes());
        let (message, structure) = (message.as_bytes(), &structure);
        let record = SummaryParts {
            message,
            structure,
            envelope: b"",
            repeated: 0..0,
            body: b"",
            body_structure: b"",
        };
        let record = record.encode();
        let summary = SummaryRef::new(&record).unwrap();
        let parts = DecodedParts::of(inner.as_bytes());
        for (path, section, expected) in [
            (
                &[2][..],
                Section::Header,
                Some("Subject: in\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n"),
            ),
            (&[2, 1], Section::Body, Some("one")),
            (&[2, 2], Section::Header, Some("Subject: deep\r\n\r\n")),
            (&[2, 2, 1], Section::Body, Some("two")),
            (&[2, 3], Section::Body, None),
        ] {
            assert_eq!(summary.locate(path, section), None, "{path:?}");
            let within = summary.locate_in_decoded(path, section).unwrap();
            assert_eq!(within.span.of(message), encoded(inner).as_bytes());
            let found = parts.locate(within.path, section).map(|found| found.span.of(inner.as_bytes()));
            assert_eq!(found, expected.map(str::as_bytes), "{path:?} {section:?}");
        }
        // The part itself is not decoded, and what is no message has no parts.
        assert_eq!(summary.locate(&[2], Section::Body).unwrap().span.of(message), encoded(inner).as_bytes());
        assert_eq!(summary.locate_in_decoded(&[2], Section::Body), None);
        assert_eq!(summary.locate_in_decoded(&[], Section::Header), None);
        assert_eq!(summary.locate_in_decoded(&[3, 1], Section::Body), None);
    }

    /// Keys are looked for in the parts of the decoded message: in what these hold, when it is
    /// decoded in its turn, and not in what is between them.
    #[test]
    fn a_search_looks_through_the_decoded_message() {
        let inner = "Subject: =?utf-8?q?gr=C3=BCn?=\r\nContent-Type: multipart/mixed; boundary=border\r\n\r\nprologue\r\n\
                     --border\r\nContent-Transfer-Encoding: quoted-printable\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
                     bl=C3=A4=\r\nulich\r\n--border--\r\n";
        let message = format!("Subject: x\r\n{HEAD}{}--o\r\n\r\nlast\r\n--o--\r\n", part(inner)).into_bytes();
        let mut structure = Structure::parse(&message);
        structure.decode_messages(&message);
        let (message, structure) = (&message[..], &structure);
        let record = SummaryParts {
            message,
            structure,
            envelope: b"",
            repeated: 0..0,
            body: b"",
            body_structure: b"",
        };
        let record = record.encode();
        let summary = SummaryRef::new(&record).unwrap();
        for (key, in_body, in_text) in [
            ("subject: gr\u{fc}n", true, true),
            ("bl\u{e4}ulich", true, true),
            ("quoted-printable", false, true),
            ("last", true, true),
            ("prologue", false, false),
            ("bl=c3", false, false),
            ("attachment", false, false),
        ] {
            let key_of = SearchKey::new(key);
            let found = (key_of.is_in_body(message, &summary), key_of.is_in_text(message, &summary));
            assert_eq!(found, (in_body, in_text), "{key}");
        }
    }

    #[test]
    fn a_message_that_is_encoded_twice_is_opaque_within() {
        let twice = part("Subject: in\r\n\r\nx");
        let message = format!("{HEAD}{}", part(&format!("{HEAD}{twice}")));
        assert_eq!(decoded(&message), (1, 0));
        let mut structure = Structure::parse(message.as_bytes());
        let inner = &structure.decode_messages(message.as_bytes())[0];
        let leaf = inner.structure().parts().last().unwrap();
        assert!(leaf.media(inner.bytes()).is("application", "octet-stream"));
    }

    /// Each bound makes whole messages opaque, never the end of one.
    #[test]
    fn messages_beyond_a_bound_are_opaque() {
        // Decoded bytes in all.
        let large = part(&format!("Subject: x\r\n\r\n{}", "x".repeat(7 << 20)));
        assert_eq!(decoded(&[HEAD, &large, &large].concat()), (1, 1));
        // Messages: usual fields leave room for what they print.
        let usual = part(&format!("X-Filler: {}\r\n\r\nx", "x".repeat(100)));
        assert_eq!(decoded(&[HEAD, &usual.repeat(1001)].concat()), (1000, 1));
        // Depth, with that of the message around them.
        let deep = |levels: usize| "Content-Type: message/rfc822\r\n\r\n".repeat(levels);
        assert_eq!(decoded(&[HEAD, &part(&deep(MAX_DEPTH - 3))].concat()), (1, 0));
        assert_eq!(decoded(&[HEAD, &part(&deep(MAX_DEPTH - 2))].concat()), (0, 1));
        // Printed octets have a limit: parts of nearly no bytes.
        let parts = part(&format!("{HEAD}{}", "--o\r\n".repeat(60)));
        assert_eq!(decoded(&[HEAD, &parts].concat()), (1, 0));
        let (whole, opaque) = decoded(&[HEAD, &parts.repeat(20)].concat());
        assert!(whole > 2 && opaque > 2 && whole + opaque == 20, "{whole} {opaque}");
    }
}
