//! The part table: the position of each part of a message, without reading the message.
//!
//! One row of 24 bytes a part, little-endian, in breadth-first order. The children of a part are
//! neighbours, so that the n-th child is one multiplication away. A path of part numbers costs its
//! length, whatever the number of parts.
//!
//! | offset | size | what |
//! | --- | --- | --- |
//! | 0 | 4 | where the header begins |
//! | 4 | 4 | where the header ends and the body begins |
//! | 8 | 4 | where the body ends |
//! | 12 | 4 | row of the first child |
//! | 16 | 4 | number of children |
//! | 20 | 1 | kind: 0 leaf, 1 multipart, 2 message |
//! | 21 | 1 | encoding: 0 7bit, 1 8bit, 2 binary, 3 base64, 4 quoted-printable, 5 unknown |
//! | 22 | 1 | text: 0 none, 1 plain or other text, 2 html |
//! | 23 | 1 | 1 if its decoded bytes are a message, whose parts are not in the table; else 0 |

use crate::media::TextKind;
use crate::scan::Span;
use crate::structure::{Kind, Structure};
use crate::transfer::Encoding;

/// Size of a row in bytes.
pub(crate) const ROW_LEN: usize = 24;

/// The requested item of a part. RFC 9051 §6.4.5.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// The part's body; without a path, the whole message.
    Body,
    /// The header of the message, or of the message that the part is.
    Header,
    /// The body of the message, or of the message that the part is.
    Text,
    /// The header of the part.
    Mime,
}

/// The position of a section, and its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located {
    /// The section's bytes in the message.
    pub span: Span,
    /// The transfer encoding of a part's body, which BINARY undoes; identity for all else.
    pub encoding: Encoding,
    /// The kind of the part's content.
    pub kind: Kind,
}

/// One part, as the table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartRow {
    /// The part's header with the blank line.
    pub header: Span,
    /// The part's content.
    pub body: Span,
    /// Row of the first child.
    pub first_child: u32,
    /// Number of children; they are neighbours.
    pub child_count: u32,
    /// The kind of its content.
    pub kind: Kind,
    /// The transfer encoding of the body.
    pub encoding: Encoding,
    /// The kind of text, if it is text.
    pub text: Option<TextKind>,
    /// Whether the part is a leaf whose decoded bytes are a message.
    pub is_encoded_message: bool,
}

/// A section of a message within the message, which is in base64 or quoted-printable.
/// [`crate::DecodedParts`] finds it in the decoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InDecoded<'p> {
    /// The bytes of that message, as they are in the message around it.
    pub span: Span,
    /// The transfer encoding of the bytes.
    pub encoding: Encoding,
    /// The path of the section within.
    pub path: &'p [u32],
}

impl PartRow {
    fn write(&self, into: &mut Vec<u8>) {
        for number in [self.header.start, self.body.start, self.body.end, self.first_child, self.child_count]
        {
            into.extend_from_slice(&number.to_le_bytes());
        }
        let kind = match self.kind {
            Kind::Leaf => 0,
            Kind::Multipart => 1,
            Kind::Message => 2,
        };
        let encoding = match self.encoding {
            Encoding::SevenBit => 0,
            Encoding::EightBit => 1,
            Encoding::Binary => 2,
            Encoding::Base64 => 3,
            Encoding::QuotedPrintable => 4,
            Encoding::Unknown => 5,
        };
        let text = match self.text {
            None => 0,
            Some(TextKind::Plain) => 1,
            Some(TextKind::Html) => 2,
        };
        into.extend_from_slice(&[kind, encoding, text, u8::from(self.is_encoded_message)]);
    }

    /// Reads row number `row` of the table; `None` if there is no such row, or if it makes no
    /// sense.
    pub(crate) fn read(table: &[u8], row: u32) -> Option<Self> {
        let start = (row as usize).checked_mul(ROW_LEN)?;
        let bytes: &[u8; ROW_LEN] = table.get(start..)?.first_chunk()?;
        let [
            h0,
            h1,
            h2,
            h3,
            b0,
            b1,
            b2,
            b3,
            e0,
            e1,
            e2,
            e3,
            f0,
            f1,
            f2,
            f3,
            c0,
            c1,
            c2,
            c3,
            kind,
            encoding,
            text,
            is_encoded_message,
        ] = *bytes;
        let header_start = u32::from_le_bytes([h0, h1, h2, h3]);
        let body_start = u32::from_le_bytes([b0, b1, b2, b3]);
        let body_end = u32::from_le_bytes([e0, e1, e2, e3]);
        if header_start > body_start || body_start > body_end {
            return None;
        }
        Some(PartRow {
            header: Span::new(header_start, body_start),
            body: Span::new(body_start, body_end),
            first_child: u32::from_le_bytes([f0, f1, f2, f3]),
            child_count: u32::from_le_bytes([c0, c1, c2, c3]),
            kind: match kind {
                0 => Kind::Leaf,
                1 => Kind::Multipart,
                2 => Kind::Message,
                _ => return None,
            },
            encoding: match encoding {
                0 => Encoding::SevenBit,
                1 => Encoding::EightBit,
                2 => Encoding::Binary,
                3 => Encoding::Base64,
                4 => Encoding::QuotedPrintable,
                _ => Encoding::Unknown,
            },
            text: match text {
                1 => Some(TextKind::Plain),
                2 => Some(TextKind::Html),
                _ => None,
            },
            is_encoded_message: is_encoded_message == 1,
        })
    }

    fn child(&self, table: &[u8], number: u32) -> Option<PartRow> {
        let place = number.checked_sub(1).filter(|place| *place < self.child_count)?;
        PartRow::read(table, self.first_child.checked_add(place)?)
    }

    /// Part `number` of a part.
    fn part(&self, table: &[u8], number: u32) -> Option<PartRow> {
        match self.kind {
            Kind::Multipart => self.child(table, number),
            Kind::Message => part_of(table, self.child(table, 1)?, number),
            Kind::Leaf => None,
        }
    }

    fn body_located(&self) -> Located {
        Located { span: self.body, encoding: self.encoding, kind: self.kind }
    }

    fn bytes_located(&self, span: Span) -> Located {
        Located { span, encoding: Encoding::Binary, kind: self.kind }
    }
}

/// Appends the table of a message's parts.
pub(crate) fn write_table(message: &[u8], structure: &Structure, into: &mut Vec<u8>) {
    let mut queue: Vec<u32> = Vec::with_capacity(structure.parts().len());
    queue.push(0);
    let mut at = 0;
    while let Some(&index) = queue.get(at) {
        at += 1;
        let Some(part) = structure.part(index) else { continue };
        let first_child = queue.len() as u32;
        queue.extend(structure.children(index).map(|(child, _)| child));
        let text = if part.kind == Kind::Leaf { part.media(message).text_kind() } else { None };
        let row = PartRow {
            header: part.header,
            body: part.body,
            first_child,
            child_count: queue.len() as u32 - first_child,
            kind: part.kind,
            encoding: part.encoding,
            text,
            is_encoded_message: part.is_encoded_message,
        };
        row.write(into);
    }
}

/// The rows of a table.
pub(crate) fn rows(table: &[u8]) -> impl Iterator<Item = PartRow> + Clone + '_ {
    (0..(table.len() / ROW_LEN) as u32).filter_map(move |row| PartRow::read(table, row))
}

/// Finds a section. RFC 9051 §6.4.5.1: every message has a part 1, which is the message's own body
/// if it is not a multipart. If a part is a message, its parts are those of the message inside.
pub(crate) fn locate(table: &[u8], path: &[u32], section: Section) -> Option<Located> {
    let root = PartRow::read(table, 0)?;
    let Some((&first, rest)) = path.split_first() else {
        return match section {
            Section::Body => Some(root.bytes_located(Span::new(root.header.start, root.body.end))),
            Section::Header => Some(root.bytes_located(root.header)),
            Section::Text => Some(root.bytes_located(root.body)),
            Section::Mime => None,
        };
    };
    let mut part = part_of(table, root, first)?;
    for &number in rest {
        part = part.part(table, number)?;
    }
    let inner = || part.child(table, 1).filter(|_| part.kind == Kind::Message);
    match section {
        Section::Body => Some(part.body_located()),
        Section::Mime => Some(part.bytes_located(part.header)),
        Section::Header => inner().map(|inner| inner.bytes_located(inner.header)),
        Section::Text => inner().map(|inner| inner.bytes_located(inner.body)),
    }
}

/// The message that has to be decoded for a section, if [`locate`] does not find it.
pub(crate) fn locate_in_decoded<'p>(
    table: &[u8],
    path: &'p [u32],
    section: Section,
) -> Option<InDecoded<'p>> {
    let (&first, mut path) = path.split_first()?;
    let mut part = part_of(table, PartRow::read(table, 0)?, first)?;
    loop {
        let is_inside = !path.is_empty() || matches!(section, Section::Header | Section::Text);
        if part.is_encoded_message && is_inside {
            return Some(InDecoded { span: part.body, encoding: part.encoding, path });
        }
        let (&number, rest) = path.split_first()?;
        part = part.part(table, number)?;
        path = rest;
    }
}

/// Part `number` of a message with this root.
fn part_of(table: &[u8], root: PartRow, number: u32) -> Option<PartRow> {
    match root.kind {
        Kind::Multipart => root.child(table, number),
        _ => (number == 1).then_some(root),
    }
}
