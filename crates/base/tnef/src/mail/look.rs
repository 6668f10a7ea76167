//! Detects rich content: whether a part of a message declares that it is TNEF.
//!
//! | function | what it reads |
//! | --- | --- |
//! | [`might_be_rich`] | all bytes, once |
//! | [`declares_rich`] | the Content-Type of each part, where the message is parsed already |
//! | [`says_it_is_rich`] | all bytes, and the types if there is a mark |
//!
//! The last two always agree.

use posthaste_mime_summary::{Disposition, Kind, Part, Structure, decode_transfer};

use crate::decode::has_signature;

/// Whether any part might be rich: a scan of the bytes, so that ordinary mail is not parsed. The
/// marks have characters that base64 lacks, so attachments are passed over at memory speed.
/// `.data` and `.date` are no marks.
pub fn might_be_rich(message: &[u8]) -> bool {
    let after = |at: usize, word: &[u8]| {
        let (begin, rest) = message.get(at + 1..)?.split_at_checked(word.len())?;
        begin.eq_ignore_ascii_case(word).then_some(rest)
    };
    memchr::memchr2_iter(b'-', b'.', message).any(|at| match message.get(at) {
        Some(b'-') => after(at, b"tnef").is_some(),
        _ => after(at, b"dat").is_some_and(|rest| rest.first().is_none_or(|b| !b.is_ascii_alphanumeric())),
    })
}

/// Whether any part says that it is rich, by its type or its name. Takes the memory of a
/// message's structure, and nothing is decoded.
pub fn says_it_is_rich(message: &[u8]) -> bool {
    might_be_rich(message) && any_part_says(&Structure::parse(message), message)
}

/// [`says_it_is_rich`] of a message that has this structure. Of an ordinary message, no body is
/// read.
pub fn declares_rich(structure: &Structure, message: &[u8]) -> bool {
    any_part_says(structure, message) && might_be_rich(message)
}

fn any_part_says(structure: &Structure, message: &[u8]) -> bool {
    structure.parts().iter().any(|part| part_declares_rich(part, message))
}

fn part_declares_rich(part: &Part, message: &[u8]) -> bool {
    part.kind == Kind::Leaf && !is_text(part, message) && (has_type(part, message) || has_name(part, message))
}

/// Whether a part says that it is a text, as most parts do. Reads no parameters.
fn is_text(part: &Part, message: &[u8]) -> bool {
    let said = part.fields.media.map(|span| span.of(message).trim_ascii_start()).unwrap_or_default();
    said.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case(b"text/"))
}

pub(super) fn has_type(part: &Part, message: &[u8]) -> bool {
    let media = part.media(message);
    media.is("application", "ms-tnef") || media.is("application", "vnd.ms-tnef")
}

/// Old systems send TNEF as application/octet-stream, with its usual name.
fn has_name(part: &Part, message: &[u8]) -> bool {
    let media = part.media(message);
    if !media.is("application", "octet-stream") {
        return false;
    }
    let disposition = part.fields.disposition.and_then(|span| Disposition::parse(span.of(message)));
    let file = disposition.and_then(|disposition| disposition.params.decoded("filename"));
    let name = file.or_else(|| media.params.decoded("name")).unwrap_or_default();
    name.eq_ignore_ascii_case("winmail.dat")
}

/// Whether a part is TNEF, by its type, or by its name and its first bytes.
pub(super) fn is_rich(part: &Part, message: &[u8]) -> bool {
    let has_first_bytes =
        || decode_transfer(part.encoding, part.body.of(message)).is_ok_and(|bytes| has_signature(&bytes));
    part.kind == Kind::Leaf && (has_type(part, message) || has_name(part, message) && has_first_bytes())
}

#[cfg(test)]
#[path = "look_tests.rs"]
mod tests;
