//! The tree of MIME parts of a message, each with its exact byte ranges, from one pass over its
//! lines.
//!
//! Real mail breaks every rule of MIME. This pass handles it as follows:
//! * A delimiter line is `--boundary` or `--boundary--` followed by nothing but white space. It
//!   is compared with the boundaries of all open multiparts, innermost first: so one boundary may
//!   begin with another. If no boundary matches whole, a boundary with which the line begins
//!   counts (RFC 2046 §5.1.1). A delimiter of an outer multipart ends all inner ones, even in the
//!   middle of a header.
//! * After its close delimiter, a multipart's boundary has no meaning: the rest is epilogue.
//! * A multipart that has no boundary, or in which no delimiter occurs, is text/plain
//!   (RFC 2045 §5.2), so that its content can still be read.
//! * A message/rfc822 in base64 or quoted-printable is a leaf of its type, and marked:
//!   [`Structure::decode_messages`] reads what is in it.
//! * A message/rfc822 in an unknown encoding, or a composite part nested deeper than [`MAX_DEPTH`],
//!   is a leaf of type application/octet-stream (RFC 2045 §6.4).
//! * Beyond [`MAX_PARTS`] parts, further parts are not parsed: the bytes are in the body, but have
//!   no number.
//! * The same two rules hold beyond what a summary may print of the message (see
//!   [`crate::PrintBudget`]).
//!
//! The line end before a delimiter belongs to the delimiter (RFC 2046 §5.1.1). Work is linear in
//! the message.

use crate::boundaries::Boundaries;
use crate::content::ContentFields;
use crate::estimate::{EnvelopeField, MESSAGE_BYTES, nested_estimate, part_estimate, printed_max};
use crate::header::Field;
use crate::in_bounds::InBounds;
use crate::known::FieldId;
use crate::media::{Media, encoding_token, media_of, parse_encoding};
use crate::scan::{Span, count_lines, is_blank, line_end, newline_before, trim_end};
use crate::transfer::Encoding;

/// The most levels of nested parts: composite parts below them become leaves. Real mail stays
/// under 20; a hundred keeps every recursion over the tree (printing, dropping) within a few
/// kilobytes of stack.
pub const MAX_DEPTH: usize = 100;

/// The most parts that a message may have. It is twice the 10,000 that we promise to serve. Each
/// costs 24 bytes in the stored record and some 60 in BODYSTRUCTURE.
pub const MAX_PARTS: usize = 20_000;

/// The most fields of the message's own header that are listed. Real headers have under 200; the
/// rest is served from the message itself.
pub const MAX_FIELDS: usize = 10_000;

/// Longest boundary that is looked for. RFC 2046 §5.1.1 allows 70; a line may have 998.
const BOUNDARY_LEN_MAX: usize = 998;

/// The place of a part in [`Structure::parts`].
pub type PartIndex = u32;

/// No part.
const NONE: PartIndex = PartIndex::MAX;

/// The kind of a part's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Content that is not divided further.
    Leaf,
    /// A sequence of parts: at least one.
    Multipart,
    /// A message of its own: exactly one child, the nested message's root.
    Message,
}

/// The media type that a part has in effect, whatever its Content-Type field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effective {
    /// The type in the field.
    Declared,
    /// text/plain; charset=us-ascii: the field is absent or makes no sense. RFC 2045 §5.2.
    TextPlain,
    /// message/rfc822: absent inside multipart/digest. RFC 2046 §5.1.5.
    Message,
    /// application/octet-stream: a composite type that could not be opened.
    Opaque,
}

/// One part. The message itself is a part, and so is the root of each nested message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The kind of its content.
    pub kind: Kind,
    /// The transfer encoding of the content.
    pub encoding: Encoding,
    effective: Effective,
    parent: PartIndex,
    first_child: PartIndex,
    last_child: PartIndex,
    next_sibling: PartIndex,
    /// The part's header with the blank line, if there is one. The body begins where the header
    /// ends.
    pub header: Span,
    /// The part's content, without the line end that belongs to the delimiter after it.
    pub body: Span,
    /// The number of lines that end in the body.
    pub lines: u32,
    /// The text before the first delimiter of a multipart.
    pub preamble: Span,
    /// The text after the close delimiter of a multipart.
    pub epilogue: Span,
    /// The part's Content-* fields.
    pub fields: ContentFields,
    /// Whether the part is a leaf whose decoded bytes are a message: see
    /// [`Structure::decode_messages`].
    pub is_encoded_message: bool,
}

impl Part {
    /// The part's media type in effect, with parameters.
    pub fn media<'m>(&self, message: &'m [u8]) -> Media<'m> {
        match (self.effective, self.fields.media) {
            (Effective::Declared, Some(span)) => media_of(span.of(message)).unwrap_or(Media::TEXT_PLAIN),
            (Effective::Message, _) => Media::MESSAGE_RFC822,
            (Effective::Opaque, _) => Media::OCTET_STREAM,
            _ => Media::TEXT_PLAIN,
        }
    }

    /// Whether its media type is text/plain only because nothing (sensible) is declared: its
    /// charset is us-ascii.
    pub fn is_text_by_default(&self, message: &[u8]) -> bool {
        match self.effective {
            Effective::TextPlain => true,
            Effective::Declared => self.fields.media.is_none_or(|span| media_of(span.of(message)).is_none()),
            Effective::Message | Effective::Opaque => false,
        }
    }

    /// The Content-Transfer-Encoding of the part, unchanged or with corrected spelling; `7bit` if
    /// it is absent.
    pub fn encoding_name<'m>(&self, message: &'m [u8]) -> &'m [u8] {
        self.fields.encoding.and_then(|span| encoding_token(span.of(message))).unwrap_or(b"7bit")
    }

    /// Makes an encoded message opaque.
    pub(crate) fn refuse_message(&mut self) {
        self.is_encoded_message = false;
        self.effective = Effective::Opaque;
    }

    /// The part that holds this one; `None` for the message itself.
    pub fn parent(&self) -> Option<PartIndex> {
        (self.parent != NONE).then_some(self.parent)
    }
}

/// The parts of a message and the fields of its header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Structure {
    pub(crate) parts: Vec<Part>,
    fields: Vec<Field>,
    fields_complete: bool,
    /// About the octets that its parts print.
    pub(crate) printed: usize,
    /// The number of levels of nested parts.
    pub(crate) depth: usize,
}

impl Structure {
    /// Finds all parts of `message`. Never fails: every sequence of bytes is some message.
    pub fn parse(message: &[u8]) -> Self {
        Self::made_by(Pass::new(message))
    }

    /// The same of a message that was decoded. Messages in it that are encoded again are opaque: so
    /// the bytes of a message are decoded once at most.
    pub(crate) fn parse_decoded(message: &[u8]) -> Self {
        let mut pass = Pass::new(message);
        pass.is_decoded = true;
        let mut made = Self::made_by(pass);
        made.fields = Vec::new();
        made
    }

    fn made_by(mut pass: Pass<'_>) -> Self {
        pass.open_part(NONE);
        pass.run();
        pass.made.printed = pass.printed;
        pass.made
    }

    /// The parts: the message first, then in the order in which they begin.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The message itself.
    pub fn root(&self) -> &Part {
        // A pass begins with the root, so the list is never empty.
        &self.parts[0]
    }

    /// The part at this place.
    pub fn part(&self, index: PartIndex) -> Option<&Part> {
        self.parts.get(index as usize)
    }

    /// The children of a part, in order, with their places.
    pub fn children(&self, index: PartIndex) -> impl Iterator<Item = (PartIndex, &Part)> {
        let mut next = self.part(index).map_or(NONE, |part| part.first_child);
        std::iter::from_fn(move || {
            let part = self.part(next)?;
            Some((std::mem::replace(&mut next, part.next_sibling), part))
        })
    }

    /// The fields of the message's own header, the first [`MAX_FIELDS`] of them.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Whether [`Structure::fields`] has them all.
    pub fn fields_complete(&self) -> bool {
        self.fields_complete
    }
}

/// A part whose end has not been seen yet.
struct OpenPart {
    part: PartIndex,
    /// Lines ended before its body.
    lines_before: u32,
    /// It is a multipart that is not closed yet: `Pass::boundaries` has its boundary.
    has_boundary: bool,
    is_digest: bool,
}

/// A delimiter line.
struct Delimiter {
    /// The level of the open part that it belongs to.
    level: usize,
    is_close: bool,
    line: Span,
}

/// The position of a part.
#[derive(Clone, Copy)]
struct PartContext {
    /// The part's type is message/rfc822 unless its header names another (RFC 2046 §5.1.5).
    in_digest: bool,
    /// The part may have parts.
    may_nest: bool,
}

/// The owner of the header that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeaderOf {
    /// The message's own: its fields are listed.
    Message,
    /// The header of a nested message: BODY and BODYSTRUCTURE print its envelope.
    Nested,
    /// The header of a part.
    Part,
}

struct Pass<'m> {
    message: &'m [u8],
    at: usize,
    /// Lines ended before `at`.
    lines: u32,
    open: Vec<OpenPart>,
    /// The boundaries of parts in `open`, by their levels.
    boundaries: Boundaries,
    /// The estimated bytes that the parts so far print, and the limit.
    printed: usize,
    printed_max: usize,
    /// These bytes were decoded: messages in it that are encoded are opaque.
    is_decoded: bool,
    made: Structure,
}

impl<'m> Pass<'m> {
    fn new(message: &'m [u8]) -> Self {
        let message = message.get(..u32::MAX as usize).unwrap_or(message);
        let (parts, fields) = (Vec::with_capacity(8), Vec::with_capacity(40));
        let made = Structure { parts, fields, fields_complete: true, ..Structure::default() };
        Pass {
            message,
            at: 0,
            lines: 0,
            open: Vec::with_capacity(8),
            boundaries: Boundaries::default(),
            printed: 0,
            printed_max: printed_max(message.len()),
            is_decoded: false,
            made,
        }
    }

    /// Goes from delimiter to delimiter until the message ends.
    fn run(&mut self) {
        while let Some(delimiter) = self.next_delimiter() {
            let start = delimiter.line.start as usize;
            let newline = newline_before(self.message, start);
            let mut body_end = start - newline;
            let mut body_lines = self.lines - u32::from(newline > 0);
            while self.open.len() > delimiter.level + 1 {
                // A child that ends later than that has its header cut by the delimiter: its holder
                // ends with it.
                (body_end, body_lines) = self.close_part(body_end, body_lines);
            }
            self.end_preamble(delimiter.level, body_end);
            self.at = delimiter.line.end as usize;
            self.lines += count_lines(delimiter.line.of(self.message));
            if delimiter.is_close {
                self.end_parts(delimiter.level);
            } else if self.made.parts.len() < MAX_PARTS
                && self.printed < self.printed_max
                && let Some(open) = self.open.get(delimiter.level)
            {
                self.open_part(open.part);
            }
        }
        self.lines += count_lines(self.message.in_bounds(self.at..));
        while !self.open.is_empty() {
            self.close_part(self.message.len(), self.lines);
        }
    }

    /// The first delimiter of its multipart ends the preamble.
    fn end_preamble(&mut self, level: usize, end: usize) {
        if let Some(open) = self.open.get(level)
            && let Some(part) = self.made.parts.get_mut(open.part as usize)
            && part.preamble.end == u32::MAX
        {
            part.preamble = Span::new(part.body.start, end as u32);
        }
    }

    /// The close delimiter was seen: all that follows is epilogue.
    fn end_parts(&mut self, level: usize) {
        if let Some(open) = self.open.get_mut(level) {
            open.has_boundary = false;
            self.boundaries.remove(level);
            if let Some(part) = self.made.parts.get_mut(open.part as usize) {
                part.epilogue = Span::new(self.at as u32, u32::MAX);
            }
        }
    }

    /// Begins a part here, and the message inside it if it contains one.
    fn open_part(&mut self, parent: PartIndex) {
        let mut parent = parent;
        loop {
            let in_digest = self.open.last().is_some_and(|open| open.is_digest);
            let role = match self.made.parts.get(parent as usize) {
                None => HeaderOf::Message,
                Some(holder) if holder.kind == Kind::Message => HeaderOf::Nested,
                Some(_) => HeaderOf::Part,
            };
            let (header, fields) = self.read_header(role);
            let of_message = if role == HeaderOf::Nested { MESSAGE_BYTES } else { 0 };
            self.printed += part_estimate(&fields) + of_message;
            let index = self.made.parts.len() as PartIndex;
            let may_nest = self.open.len() < MAX_DEPTH
                && self.made.parts.len() + 1 < MAX_PARTS
                && self.printed < self.printed_max;
            let (part, boundary) = self.classify(header, fields, PartContext { in_digest, may_nest });
            let kind = part.kind;
            let is_digest = kind == Kind::Multipart && part.media(self.message).is("multipart", "digest");
            self.link(parent, part);
            let has_boundary = boundary.is_some();
            if let Some(boundary) = boundary {
                self.boundaries.insert(boundary, self.open.len());
            }
            self.open.push(OpenPart { part: index, lines_before: self.lines, has_boundary, is_digest });
            self.made.depth = self.made.depth.max(self.open.len());
            if kind != Kind::Message {
                return;
            }
            parent = index;
        }
    }

    /// Decides the kind of a part with this header.
    fn classify(
        &self,
        header: Span,
        fields: ContentFields,
        PartContext { in_digest, may_nest }: PartContext,
    ) -> (Part, Option<Box<[u8]>>) {
        let declared = fields.media.and_then(|span| media_of(span.of(self.message)));
        let encoding =
            fields.encoding.map_or(Encoding::SevenBit, |span| parse_encoding(span.of(self.message)));
        let mut boundary = None;
        let (kind, effective) = match &declared {
            None if in_digest && fields.media.is_none() => self.nest(Effective::Message, encoding, may_nest),
            None => (Kind::Leaf, Effective::TextPlain),
            Some(media) if media.is_multipart() => {
                boundary = media.boundary().filter(|b| !b.is_empty() && b.len() <= BOUNDARY_LEN_MAX);
                match (&boundary, may_nest) {
                    (None, _) => (Kind::Leaf, Effective::TextPlain),
                    (Some(_), true) => (Kind::Multipart, Effective::Declared),
                    (Some(_), false) => (Kind::Leaf, Effective::Opaque),
                }
            }
            Some(media) if media.is_message() => self.nest(Effective::Declared, encoding, may_nest),
            Some(_) => (Kind::Leaf, Effective::Declared),
        };
        let boundary = boundary.filter(|_| kind == Kind::Multipart);
        // Without a type of its own, it is in a digest.
        let is_message = effective == Effective::Message || declared.is_some_and(|media| media.is_message());
        let is_encoded_message = kind == Kind::Leaf && effective != Effective::Opaque && is_message;
        // u32::MAX: not ended yet; closing the part corrects it.
        let preamble =
            Span { start: header.end, end: if boundary.is_some() { u32::MAX } else { header.end } };
        let part = Part {
            kind,
            encoding,
            effective,
            parent: NONE,
            first_child: NONE,
            last_child: NONE,
            next_sibling: NONE,
            header,
            body: Span { start: header.end, end: header.end },
            lines: 0,
            preamble,
            epilogue: Span { start: header.end, end: header.end },
            fields,
            is_encoded_message,
        };
        (part, boundary)
    }

    fn nest(&self, effective: Effective, encoding: Encoding, may_nest: bool) -> (Kind, Effective) {
        match encoding {
            Encoding::SevenBit | Encoding::EightBit | Encoding::Binary if may_nest => {
                (Kind::Message, effective)
            }
            // RFC 2046 §5.2.1 forbids them for message/rfc822, which programs write anyway; RFC
            // 6532 §3.7 allows them for message/global.
            Encoding::Base64 | Encoding::QuotedPrintable if may_nest && !self.is_decoded => {
                (Kind::Leaf, effective)
            }
            _ => (Kind::Leaf, Effective::Opaque),
        }
    }

    fn link(&mut self, parent: PartIndex, mut part: Part) {
        let index = self.made.parts.len() as PartIndex;
        part.parent = parent;
        if let Some(holder) = self.made.parts.get_mut(parent as usize) {
            let before = std::mem::replace(&mut holder.last_child, index);
            if before == NONE {
                holder.first_child = index;
            } else if let Some(sibling) = self.made.parts.get_mut(before as usize) {
                sibling.next_sibling = index;
            }
        }
        self.made.parts.push(part);
    }

    /// Closes the innermost open part: its body ends at `end`, before which `lines` lines have
    /// ended; or where it begins, if that is later. Returns where it ends, and the lines before
    /// that.
    fn close_part(&mut self, end: usize, lines: u32) -> (usize, u32) {
        let Some(open) = self.open.pop() else { return (end, lines) };
        if open.has_boundary {
            self.boundaries.remove(self.open.len());
        }
        let Some(part) = self.made.parts.get_mut(open.part as usize) else { return (end, lines) };
        // A delimiter right after the header: its line end is the header's, and the body is empty.
        let (end, lines) = match part.body.start {
            start if start as usize > end => (start, lines + 1),
            _ => (end as u32, lines),
        };
        part.body.end = end;
        part.lines = if part.body.is_empty() { 0 } else { lines.saturating_sub(open.lines_before) };
        part.preamble.end = part.preamble.end.min(end);
        part.epilogue.start = part.epilogue.start.min(end);
        part.epilogue.end = if part.epilogue.end == u32::MAX { end } else { part.epilogue.start };
        if part.kind == Kind::Multipart && part.first_child == NONE {
            part.kind = Kind::Leaf;
            part.effective = Effective::TextPlain;
            part.preamble = Span::new(part.body.start, part.body.start);
            part.epilogue = Span::new(end, end);
        }
        (end as usize, lines)
    }

    /// Reads a header from here up to and including the blank line, or up to a delimiter of an open
    /// multipart.
    fn read_header(&mut self, role: HeaderOf) -> (Span, ContentFields) {
        let start = self.at;
        let mut fields = ContentFields::default();
        let mut current: Option<Field> = None;
        while self.at < self.message.len() {
            let end = line_end(self.message, self.at);
            let line = self.message.in_bounds(self.at..end);
            if line.starts_with(b"--") && self.match_delimiter(self.at, end).is_some() {
                break;
            }
            self.lines += u32::from(line.ends_with(b"\n"));
            let line_start = std::mem::replace(&mut self.at, end);
            if is_blank(line) {
                break;
            }
            match &mut current {
                Some(field) if matches!(line.first(), Some(b' ' | b'\t')) => field.end = end as u32,
                _ => {
                    let next = Field::on_line(self.message, line_start, end);
                    if let Some(done) = current.replace(next) {
                        self.note_field(&mut fields, done, role);
                    }
                }
            }
        }
        if let Some(done) = current {
            self.note_field(&mut fields, done, role);
        }
        (Span::new(start as u32, self.at as u32), fields)
    }

    fn note_field(&mut self, fields: &mut ContentFields, field: Field, role: HeaderOf) {
        fields.note(self.message, &field);
        match role {
            HeaderOf::Message if self.made.fields.len() < MAX_FIELDS => self.made.fields.push(field),
            HeaderOf::Message => self.made.fields_complete = false,
            HeaderOf::Nested => {
                let role = match FieldId::of(field.name(self.message)) {
                    FieldId::FROM => EnvelopeField::From,
                    FieldId::SENDER | FieldId::REPLY_TO | FieldId::TO | FieldId::CC | FieldId::BCC => {
                        EnvelopeField::List
                    }
                    FieldId::DATE | FieldId::SUBJECT | FieldId::IN_REPLY_TO | FieldId::MESSAGE_ID => {
                        EnvelopeField::Text
                    }
                    _ => return,
                };
                self.printed += nested_estimate(role, field.raw_value(self.message));
            }
            HeaderOf::Part => {}
        }
    }

    /// The next delimiter line from here on; counts the lines skipped. Without one, goes to the
    /// end.
    fn next_delimiter(&mut self) -> Option<Delimiter> {
        while !self.boundaries.is_empty() {
            let rest = self.message.in_bounds(self.at..);
            let skip = if rest.starts_with(b"--") { 0 } else { memchr::memmem::find(rest, b"\n--")? + 1 };
            self.lines += count_lines(rest.in_bounds(..skip));
            self.at += skip;
            let end = line_end(self.message, self.at);
            if let Some(delimiter) = self.match_delimiter(self.at, end) {
                return Some(delimiter);
            }
            self.lines += u32::from(newline_before(self.message, end) > 0);
            self.at = end;
            if end >= self.message.len() {
                break;
            }
        }
        None
    }

    /// Whether the line is a delimiter of an open multipart, and of which.
    fn match_delimiter(&self, start: usize, end: usize) -> Option<Delimiter> {
        if self.boundaries.is_empty() {
            return None;
        }
        let said = trim_end(self.message.get(start + 2..end)?);
        let (level, is_close) = self.boundaries.find(said)?;
        Some(Delimiter { level, is_close, line: Span::new(start as u32, end as u32) })
    }
}

#[cfg(test)]
#[path = "structure_tests.rs"]
mod tests;
