//! The bytes of a message that a FETCH requests: RFC 9051 §6.4.5.1, `section` and `partial` of
//! §9.

use crate::cursor::{Cursor, Parsed};
use crate::limits::{HEADER_FIELDS_MAX, PART_PATH_MAX};

/// Part numbers from the outside in: `2.1` is `[2, 1]`; empty is the message itself. No number is
/// 0.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PartPath(pub Vec<u32>);

/// `BODY[…]`: a part, and the requested section of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Section {
    /// The part.
    pub part: PartPath,
    /// The requested text of the part.
    pub text: SectionText,
}

/// The texts of a part.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum SectionText {
    /// All of it: `BODY[]`, `BODY[1.2]`.
    #[default]
    Whole,
    /// `HEADER`: the header of the message, or of the message that the part holds.
    Header,
    /// `HEADER.FIELDS (…)`: names as the client wrote them, never empty.
    HeaderFields(Vec<String>),
    /// `HEADER.FIELDS.NOT (…)`.
    HeaderFieldsNot(Vec<String>),
    /// `MIME`: the part's own header; only with a part number.
    Mime,
    /// `TEXT`.
    Text,
}

/// `<offset.count>`: a substring in bytes. 63 bits each (RFC 9051 §9, number64).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Partial {
    /// First byte, from 0.
    pub offset: u64,
    /// The most bytes that are returned; may be 0.
    pub count: u64,
}

impl PartPath {
    /// `1.2.3`; empty if there is no number here.
    pub(crate) fn parse(c: &mut Cursor<'_>) -> Parsed<Self> {
        let mut part = Vec::new();
        while matches!(c.peek(), Some(b'0'..=b'9')) {
            if part.len() == PART_PATH_MAX {
                return c.limit("The part number has too many levels");
            }
            part.push(c.nz_number("a part number")?);
            // `1.TEXT`: the dot belongs to what follows.
            if !(c.peek() == Some(b'.') && matches!(c.peek_second(), Some(b'0'..=b'9'))) {
                break;
            }
            c.advance(1);
        }
        Ok(Self(part))
    }
}

impl Section {
    /// `[…]` with its brackets: RFC 9051 §9, section.
    pub(crate) fn parse(c: &mut Cursor<'_>) -> Parsed<Self> {
        c.expect(b'[', "[")?;
        let part = PartPath::parse(c)?;
        let wanted = if part.0.is_empty() { c.peek() != Some(b']') } else { c.eat(b'.') };
        let text = if wanted { SectionText::parse(c, &part)? } else { SectionText::Whole };
        c.expect(b']', "] at the end of the section")?;
        Ok(Self { part, text })
    }
}

impl SectionText {
    fn parse(c: &mut Cursor<'_>, part: &PartPath) -> Parsed<Self> {
        let at = c.clone();
        let names = |c: &mut Cursor<'_>| {
            c.sp()?;
            let at = c.clone();
            let names = c.list(HEADER_FIELDS_MAX, "Too many header fields", |c| {
                c.astring_text("the name of a header field")
            })?;
            if names.is_empty() { at.fail("at least one header field") } else { Ok(names) }
        };
        Ok(match c.word().as_bytes() {
            b"HEADER" => Self::Header,
            b"HEADER.FIELDS" => Self::HeaderFields(names(c)?),
            b"HEADER.FIELDS.NOT" => Self::HeaderFieldsNot(names(c)?),
            b"TEXT" => Self::Text,
            // RFC 9051 §6.4.5.1: MIME only with a part.
            b"MIME" if !part.0.is_empty() => Self::Mime,
            _ => return at.fail("HEADER, HEADER.FIELDS, HEADER.FIELDS.NOT, TEXT or a part's MIME"),
        })
    }
}

impl Partial {
    /// `<offset.count>`, if it is here.
    pub(crate) fn parse(c: &mut Cursor<'_>) -> Parsed<Option<Self>> {
        if !c.eat(b'<') {
            return Ok(None);
        }
        let offset = c.number64("the first byte of a partial fetch")?;
        c.expect(b'.', ". between first byte and count")?;
        // RFC 9051 §9 has a count from 1 on. Clients of servers in the field also send 0.
        let count = c.number64("the count of a partial fetch")?;
        c.expect(b'>', "> at the end of a partial fetch")?;
        Ok(Some(Self { offset, count }))
    }
}
