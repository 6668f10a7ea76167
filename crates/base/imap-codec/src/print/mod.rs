//! Bytes from values. Everything appends to a `Vec<u8>` and nothing fails.
//!
//! The pieces are public, because `delivery` prints ENVELOPE, BODY and BODYSTRUCTURE once, and the
//! server copies them. The output is valid for clients of IMAP4rev1 and rev2 alike. Text beyond 7
//! bits is sent as a literal, never in quotes (RFC 9051 §4.3 would allow that only after ENABLE).

mod acl;
mod code;
mod command;
mod decimal;
mod fetch;
mod line;
mod message_annotation;
mod notify;
mod object_ids;
mod response;
mod search;
mod search_data;
mod structure;

use posthaste_mail_model::{Flag, NumSet};

use crate::chars::is_astring_char;
use crate::response::ResponseFlag;
use crate::{Capability, DateTime, MailboxArg, NameEncoding, PageRange, Section, SectionText};

pub(crate) use code::BARE_CODES;
pub use code::{code, code_sets};
pub use command::{EncodedCommand, LiteralStyle, command};
pub use decimal::number;
pub use fetch::fetch_value;
pub use line::Line;
pub use message_annotation::annotation_value;
pub use object_ids::object_ids;
pub use response::{
    list_data, namespaces, response, status, status_begin, status_end, status_value, untagged,
};
pub use search_data::{ThreadPrinter, esearch, esearch_begin, esearch_end, partial_begin};
pub use structure::{Boundary, address, address_list, body, body_structure, envelope, params};

/// Bytes of the longest text put in quotes. Clients read quoted strings a line at a time, and RFC
/// 2683 §3.2.1.5 has servers keep lines short. Longer text goes out as a literal.
pub const QUOTED_BYTES_MAX: usize = 1000;

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends ` NAME n`.
fn pair(out: &mut Vec<u8>, name: &str, n: u64) {
    put(out, name);
    out.push(b' ');
    number(out, n);
}

/// Text for a person, which CR, LF and NUL must not cut in two.
fn line_text(out: &mut Vec<u8>, text: &str) {
    let from = out.len();
    out.extend_from_slice(text.as_bytes());
    // Each octet is compared with all three and written: a processor then does many at once. The
    // capabilities have a thousand.
    for octet in &mut out[from..] {
        let is_end = (*octet == 0) | (*octet == b'\r') | (*octet == b'\n');
        *octet = if is_end { b' ' } else { *octet };
    }
}

/// Appends `CAPABILITY a b c` or `ENABLED …`.
pub fn enabled_or_capability(out: &mut Vec<u8>, name: &str, capabilities: &[Capability]) {
    put(out, name);
    for capability in capabilities {
        out.push(b' ');
        put(out, capability.as_str());
    }
}

/// Appends a flag as a server sends it.
pub fn response_flag(out: &mut Vec<u8>, value: &ResponseFlag) {
    match value {
        ResponseFlag::Flag(value) => flag(out, value),
        ResponseFlag::Recent => put(out, "\\Recent"),
        ResponseFlag::Any => put(out, "\\*"),
        ResponseFlag::Other(text) => put(out, text),
    }
}

/// Whether a text may be quoted: 7 bits, no NUL, CR or LF (RFC 9051 §9, quoted), and not too
/// long.
pub fn fits_quotes(text: &[u8]) -> bool {
    text.len() <= QUOTED_BYTES_MAX && text.iter().all(|&b| b.is_ascii() && !matches!(b, 0 | b'\r' | b'\n'))
}

/// Appends a text in quotes. The caller has seen that it [`fits_quotes`].
pub fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    if memchr::memchr2(b'"', b'\\', text).is_none() {
        out.extend_from_slice(text);
    } else {
        for &b in text {
            if matches!(b, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(b);
        }
    }
    out.push(b'"');
}

/// Appends `{n}` and the bytes. For a server: a client's literals wait for `+`, see
/// [`crate::command`].
pub fn literal(out: &mut Vec<u8>, bytes: &[u8]) {
    literal_head(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends bytes as hexadecimal digits, in small letters.
pub fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Appends `{n}` CRLF, for bytes that are streamed after it.
pub fn literal_head(out: &mut Vec<u8>, len: u64) {
    out.push(b'{');
    number(out, len);
    out.extend_from_slice(b"}\r\n");
}

/// Appends `~{n}` CRLF (RFC 3516 §4.4): the bytes may hold NUL.
pub fn literal8_head(out: &mut Vec<u8>, len: u64) {
    out.push(b'~');
    literal_head(out, len);
}

/// Appends `string`: in quotes if they can hold it, else a literal. A NUL, which no string can hold
/// (RFC 9051 §9, CHAR8), becomes `?`.
pub fn string(out: &mut Vec<u8>, text: &[u8]) {
    if fits_quotes(text) {
        return quoted(out, text);
    }
    literal_head(out, text.len() as u64);
    if memchr::memchr(0, text).is_none() {
        out.extend_from_slice(text);
    } else {
        out.extend(text.iter().map(|&b| if b == 0 { b'?' } else { b }));
    }
}

/// Appends `nstring`.
pub fn nstring(out: &mut Vec<u8>, text: Option<&[u8]>) {
    match text {
        Some(text) => string(out, text),
        None => out.extend_from_slice(b"NIL"),
    }
}

/// Appends `astring`: an atom if it is one, else a string. `NIL` is put in quotes, because it would
/// be read as none.
pub fn astring(out: &mut Vec<u8>, text: &[u8]) {
    let atom = !text.is_empty() && text.iter().all(|&b| is_astring_char(b));
    if atom && !text.eq_ignore_ascii_case(b"NIL") { out.extend_from_slice(text) } else { string(out, text) }
}

/// Appends a mailbox name as an `astring` in the connection's encoding.
pub fn mailbox(out: &mut Vec<u8>, name: &MailboxArg, encoding: NameEncoding) {
    astring_utf8(out, &name.encode(encoding), encoding);
}

/// Whether the text may be quoted if names are UTF-8 (RFC 9051 §4.3).
fn fits_utf8_quotes(text: &[u8], encoding: NameEncoding) -> bool {
    encoding == NameEncoding::Utf8
        && text.len() <= QUOTED_BYTES_MAX
        && !text.is_ascii()
        && std::str::from_utf8(text).is_ok()
        && !text.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'))
}

fn astring_utf8(out: &mut Vec<u8>, text: &[u8], encoding: NameEncoding) {
    if fits_utf8_quotes(text, encoding) { quoted(out, text) } else { astring(out, text) }
}

fn string_utf8(out: &mut Vec<u8>, text: &[u8], encoding: NameEncoding) {
    if fits_utf8_quotes(text, encoding) { quoted(out, text) } else { string(out, text) }
}

/// Appends a flag.
pub fn flag(out: &mut Vec<u8>, flag: &Flag) {
    out.extend_from_slice(match flag {
        Flag::Answered => b"\\Answered",
        Flag::Flagged => b"\\Flagged",
        Flag::Deleted => b"\\Deleted",
        Flag::Seen => b"\\Seen",
        Flag::Draft => b"\\Draft",
        Flag::Keyword(k) => k.as_str().as_bytes(),
    });
}

/// Appends `1:3,7`. The empty set has no spelling: nothing is appended.
pub fn num_set<N>(out: &mut Vec<u8>, set: &NumSet<N>) {
    ranges(out, set.ranges());
}

/// Appends `1:100` or `-1:-100`: RFC 9394 §4.
pub fn page_range(out: &mut Vec<u8>, range: PageRange) {
    let (sign, a, b) = match range {
        PageRange::First(a, b) => (b"".as_slice(), a, b),
        PageRange::Last(a, b) => (b"-".as_slice(), a, b),
    };
    out.extend_from_slice(sign);
    number(out, u64::from(a.get()));
    out.push(b':');
    out.extend_from_slice(sign);
    number(out, u64::from(b.get()));
}

/// Appends ranges as a set, in their order: `5,3:4`.
pub fn ranges(out: &mut Vec<u8>, ranges: &[(u32, u32)]) {
    for (i, &(low, high)) in ranges.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        number(out, u64::from(low));
        if low != high {
            out.push(b':');
            number(out, u64::from(high));
        }
    }
}

/// Appends a date and time in quotes.
pub fn date_time(out: &mut Vec<u8>, at: DateTime) {
    out.push(b'"');
    at.print(out);
    out.push(b'"');
}

/// Appends `[2.HEADER.FIELDS (DATE)]`, brackets included.
pub fn section(out: &mut Vec<u8>, section: &Section) {
    if let Some(names) = section_head(out, section) {
        list(out, names, |out, name| astring(out, name.as_bytes()));
    }
    out.push(b']');
}

/// Appends a section as far as the names of header fields, which are returned if there are any.
pub(crate) fn section_head<'a>(out: &mut Vec<u8>, section: &'a Section) -> Option<&'a [String]> {
    out.push(b'[');
    part_path(out, &section.part.0);
    let name: &[u8] = match &section.text {
        SectionText::Whole => b"",
        SectionText::Header => b"HEADER",
        SectionText::HeaderFields(_) => b"HEADER.FIELDS ",
        SectionText::HeaderFieldsNot(_) => b"HEADER.FIELDS.NOT ",
        SectionText::Mime => b"MIME",
        SectionText::Text => b"TEXT",
    };
    if !section.part.0.is_empty() && !name.is_empty() {
        out.push(b'.');
    }
    out.extend_from_slice(name);
    match &section.text {
        SectionText::HeaderFields(names) | SectionText::HeaderFieldsNot(names) => Some(names),
        _ => None,
    }
}

/// Appends `1.2.3`.
pub fn part_path(out: &mut Vec<u8>, part: &[u32]) {
    for (i, &n) in part.iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        number(out, u64::from(n));
    }
}

/// Appends `(a b c)`.
pub(crate) fn list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut one: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'(');
    spaced(out, items, &mut one);
    out.push(b')');
}

/// Appends `a b c`.
pub(crate) fn spaced<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut one: impl FnMut(&mut Vec<u8>, T),
) {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        one(out, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PartPath;
    use crate::response::Code;

    fn printed(print: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        print(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers() {
        for n in [0, 9, 10, 99, 100, 4_294_967_295, u64::MAX] {
            assert_eq!(printed(|out| number(out, n)), n.to_string());
        }
    }

    #[test]
    fn codes_without_a_value_are_names_and_others_stay_in_their_line() {
        for (name, bare) in &BARE_CODES {
            assert_eq!(printed(|out| code(out, bare)), format!("[{name}]"));
        }
        let charsets = Code::BadCharset(vec!["UTF-8".into()]);
        assert_eq!(printed(|out| code(out, &charsets)), "[BADCHARSET (UTF-8)]");
        let other = Code::Other("X".into(), Some(format!("a\r\nb\0é{}\n", "c".repeat(40))));
        assert_eq!(printed(|out| code(out, &other)), format!("[X a  b é{} ]", "c".repeat(40)));
    }

    #[test]
    fn strings_are_quoted_if_they_can_be() {
        assert_eq!(printed(|out| string(out, b"a \"b\\")), r#""a \"b\\""#);
        assert_eq!(printed(|out| string(out, "é".as_bytes())), "{2}\r\né");
        assert_eq!(printed(|out| string(out, b"a\r\nb")), "{4}\r\na\r\nb");
        assert_eq!(printed(|out| string(out, b"a\0b")), "{3}\r\na?b");
        assert!(printed(|out| string(out, &[b'x'; 1001])).starts_with("{1001}\r\n"));
        assert_eq!(printed(|out| astring(out, b"a]")), "a]");
        assert_eq!(printed(|out| astring(out, b"nil")), "\"nil\"");
        assert_eq!(printed(|out| astring(out, b"")), "\"\"");
        assert_eq!(printed(|out| nstring(out, None)), "NIL");
    }

    #[test]
    fn names_follow_the_connection() {
        let name = MailboxArg::from_text("Entwürfe/R&D");
        assert_eq!(printed(|out| mailbox(out, &name, NameEncoding::Utf7)), "Entw&APw-rfe/R&-D");
        assert_eq!(printed(|out| mailbox(out, &name, NameEncoding::Utf8)), "\"Entwürfe/R&D\"");
    }

    #[test]
    fn sections() {
        let fields = SectionText::HeaderFields(vec!["DATE".into(), "From".into()]);
        let two = Section { part: PartPath(vec![2, 1]), text: fields };
        assert_eq!(printed(|out| section(out, &two)), "[2.1.HEADER.FIELDS (DATE From)]");
        assert_eq!(printed(|out| section(out, &Section::default())), "[]");
    }
}
