//! Parts of a message: their headers for `:mime`, their content for `body` and `extracttext`. RFC
//! 5703, RFC 5173.

use std::borrow::Cow;

use posthaste_mime_summary::{
    CharsetReader, Disposition, InBounds, Kind, Media, Part, PartIndex, decode_transfer,
};

use crate::compiled::MimeOption;
use crate::message::{Message, header_of};

/// A part and all parts in it, in order.
pub(crate) fn parts_from(message: &Message<'_>, root: PartIndex) -> Vec<PartIndex> {
    let structure = message.structure();
    let mut found = vec![root];
    // Parts are in the order in which they begin: those inside follow at once.
    let mut at = root + 1;
    while let Some(part) = structure.part(at) {
        let Some(parent) = part.parent() else { break };
        if found.binary_search(&parent).is_err() {
            break;
        }
        found.push(at);
        at += 1;
    }
    found
}

/// The word of a field that `:mime` means; `None` if it means none.
pub(crate) fn word_of(raw: &[u8], option: &MimeOption) -> Option<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let parsed = Disposition::parse(raw)?;
    // `type/subtype` for Content-Type, one word for other fields (RFC 5703 §4.2).
    let after = memchr::memchr(b';', raw).map_or(raw, |at| raw.in_bounds(..at));
    let subtype = match memchr::memchr(b'/', after) {
        Some(at) => text(after.in_bounds(at + 1..)).trim().to_string(),
        None => String::new(),
    };
    match option {
        MimeOption::Whole | MimeOption::Param(_) => None,
        MimeOption::Type => Some(text(&parsed.kind)),
        MimeOption::Subtype => Some(subtype),
        MimeOption::ContentType if subtype.is_empty() => Some(text(&parsed.kind)),
        MimeOption::ContentType => Some(format!("{}/{subtype}", text(&parsed.kind))),
    }
}

/// The content of a part as text: decoded, and in UTF-8. `None` if its encoding is unknown.
pub(crate) fn text_of(message: &Message<'_>, part: &Part) -> Option<String> {
    let bytes = decode_transfer(part.encoding, part.body.of(message.bytes)).ok()?;
    let media = part.media(message.bytes);
    if !media.top.eq_ignore_ascii_case(b"text") {
        return Some(String::from_utf8_lossy(&bytes).into_owned());
    }
    let mut reader = CharsetReader::new(media.charset(), &bytes);
    let mut text = String::with_capacity(bytes.len());
    reader.read(&bytes, &mut text);
    reader.finish(&mut text);
    Some(text)
}

/// Whether a media type is one that `:content` names. RFC 5173 §5.2: an empty name matches every
/// type, and a type without a subtype matches all its subtypes. A name with more slashes matches
/// nothing.
pub(crate) fn is_content(media: &Media<'_>, wanted: &str) -> bool {
    if wanted.is_empty() {
        return true;
    }
    match wanted.split_once('/') {
        None => media.top.eq_ignore_ascii_case(wanted.as_bytes()),
        Some((top, sub)) => !top.is_empty() && !sub.is_empty() && media.is(top, sub),
    }
}

/// The text of a part that `:content` searches. RFC 5173 §5.2.
pub(crate) fn content_of<'m>(message: &Message<'m>, part: &Part) -> Vec<Cow<'m, str>> {
    let bytes: &'m [u8] = message.bytes;
    let lossy = |span: posthaste_mime_summary::Span| String::from_utf8_lossy(span.of(bytes));
    match part.kind {
        // Multiparts: what is before and after the parts.
        Kind::Multipart => vec![lossy(part.preamble), lossy(part.epilogue)],
        // Messages: the header of the message inside.
        Kind::Message => vec![String::from_utf8_lossy(header_of(part.body.of(bytes)))],
        Kind::Leaf => text_of(message, part).map(Cow::Owned).into_iter().collect(),
    }
}
