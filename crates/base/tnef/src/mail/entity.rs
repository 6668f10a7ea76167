//! MIME entities, and how they are printed.
//!
//! Invariants: no printed line is a delimiter of a multipart around it, unless it is an intended
//! one. Generated lines begin with two hyphens nowhere else. A file that is a message is printed
//! unchanged, unless one of its lines would be such a delimiter. The sender's multiparts count,
//! too. Boundaries are made from a hash of the message and a count. So the same message gives the
//! same bytes, and no message contains its own boundary. No boundary begins with a boundary of the
//! message (RFC 2046 §5.1.1).

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_mime_summary::InBounds;

use super::file::{AsItIs, MESSAGE, has_delimiter};

/// A MIME entity before it is printed.
#[derive(Debug)]
pub(super) enum Entity<'m> {
    /// Text in UTF-8: its media type, and more fields.
    Text { media: String, fields: Vec<(&'static str, String)>, text: String },
    /// Bytes: its media type, and more fields.
    Bytes { media: String, fields: Vec<(&'static str, String)>, bytes: Cow<'m, [u8]> },
    /// A file that is a message: parameters of its type, and more fields.
    File { params: String, fields: Vec<(&'static str, String)>, bytes: &'m [u8], encoding: AsItIs },
    /// Several entities: a subtype of multipart.
    Multi(&'static str, Vec<Entity<'m>>),
    /// A message with its own header: the fields of the part, the lines of the message's header,
    /// its content.
    Message { fields: Vec<(&'static str, String)>, header: String, content: Box<Entity<'m>> },
    /// A part of the original message, with its header.
    Verbatim(&'m [u8]),
}

impl<'m> Entity<'m> {
    /// One entity, or several in a multipart of this subtype. `None` if there are none.
    pub fn group(subtype: &'static str, mut parts: Vec<Entity<'m>>) -> Option<Entity<'m>> {
        match parts.len() {
            0 | 1 => parts.pop(),
            _ => Some(Entity::Multi(subtype, parts)),
        }
    }
}

impl Entity<'_> {
    /// A file or an image as an attachment, whatever it was: RFC 2183 §2.2.
    #[must_use]
    pub fn attached(mut self) -> Self {
        if let Entity::Bytes { fields, .. } | Entity::File { fields, .. } = &mut self {
            let dispositions = fields.iter_mut().filter(|(name, _)| *name == "Content-Disposition");
            for (_, value) in dispositions {
                if let Some(rest) = value.strip_prefix("inline") {
                    *value = format!("attachment{rest}");
                }
            }
        }
        self
    }

    /// Whether octets over 127 may be in it as they are.
    pub fn is_8bit(&self) -> bool {
        match self {
            Entity::File { encoding, .. } => *encoding == AsItIs::EightBit,
            Entity::Multi(_, parts) => parts.iter().any(Entity::is_8bit),
            Entity::Message { content, .. } => content.is_8bit(),
            Entity::Text { .. } | Entity::Bytes { .. } | Entity::Verbatim(_) => false,
        }
    }
}

/// Prints entities.
pub(super) struct Printer {
    pub out: Vec<u8>,
    /// Boundaries of the multiparts around what is printed.
    pub around: Vec<Box<[u8]>>,
    /// The beginning of all boundaries.
    stem: String,
    boundaries: usize,
}

impl Printer {
    /// `stem` is what boundaries begin with.
    pub fn new(stem: String) -> Self {
        Self { out: Vec::new(), around: Vec::new(), stem, boundaries: 0 }
    }

    pub fn line(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    pub fn field(&mut self, name: &str, value: &str) {
        self.line(&format!("{name}: {value}"));
    }

    fn fields(&mut self, fields: &[(&'static str, String)]) {
        for (name, value) in fields {
            self.field(name, value);
        }
    }

    /// An entity: its fields, a blank line, its content. It does not end with a line end, except
    /// where its content does.
    pub fn entity(&mut self, entity: &Entity<'_>) {
        match entity {
            Entity::Verbatim(bytes) => self.out.extend_from_slice(bytes),
            Entity::Text { media, fields, text } => {
                let text = with_crlf(text);
                let encoding = TextEncoding::of(&text);
                let charset = if text.is_ascii() { "us-ascii" } else { "utf-8" };
                self.field("Content-Type", &format!("{media}; charset={charset}"));
                self.field("Content-Transfer-Encoding", encoding.name());
                self.fields(fields);
                self.line("");
                match encoding {
                    TextEncoding::SevenBit => self.out.extend_from_slice(text.as_bytes()),
                    TextEncoding::QuotedPrintable => quoted_printable(text.as_bytes(), &mut self.out),
                    TextEncoding::Base64 => base64_lines(text.as_bytes(), &mut self.out),
                }
            }
            Entity::Bytes { media, fields, bytes } => self.in_base64(media, fields, bytes),
            Entity::File { params, fields, bytes, .. } if self.would_end_a_part(bytes) => {
                self.in_base64(&format!("application/octet-stream{params}"), fields, bytes);
            }
            Entity::File { params, fields, bytes, encoding } => {
                self.field("Content-Type", &format!("{MESSAGE}{params}"));
                self.field("Content-Transfer-Encoding", encoding.name());
                self.fields(fields);
                self.line("");
                self.out.extend_from_slice(bytes);
            }
            Entity::Multi(subtype, parts) => self.multipart(subtype, entity, parts),
            Entity::Message { fields, header, content } => {
                self.field("Content-Type", MESSAGE);
                self.composite_encoding(entity);
                self.fields(fields);
                self.line("");
                self.out.extend_from_slice(header.as_bytes());
                self.field("MIME-Version", "1.0");
                self.entity(content);
            }
        }
    }

    fn in_base64(&mut self, media: &str, fields: &[(&'static str, String)], bytes: &[u8]) {
        self.field("Content-Type", media);
        self.field("Content-Transfer-Encoding", "base64");
        self.fields(fields);
        self.line("");
        base64_lines(bytes, &mut self.out);
    }

    /// Whether a multipart around these bytes would end within them, or be divided.
    fn would_end_a_part(&self, bytes: &[u8]) -> bool {
        let around = self.around.iter().map(|boundary| &**boundary);
        has_delimiter(bytes, around.chain(std::iter::once(self.stem.as_bytes())))
    }

    /// RFC 2045 §6.4: what contains 8bit says so.
    fn composite_encoding(&mut self, entity: &Entity<'_>) {
        if entity.is_8bit() {
            self.field("Content-Transfer-Encoding", AsItIs::EightBit.name());
        }
    }

    fn multipart(&mut self, subtype: &str, entity: &Entity<'_>, parts: &[Entity<'_>]) {
        self.boundaries += 1;
        // RFC 2046 §5.1.1: none is the beginning of another, so all have the same length.
        let boundary = format!("{}_{:06}", self.stem, self.boundaries);
        self.field("Content-Type", &format!("multipart/{subtype};\r\n boundary=\"{boundary}\""));
        self.composite_encoding(entity);
        self.line("");
        for part in parts {
            self.line(&format!("--{boundary}"));
            self.entity(part);
            self.line("");
        }
        self.line(&format!("--{boundary}--"));
    }
}

/// The encoding of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextEncoding {
    SevenBit,
    QuotedPrintable,
    Base64,
}

impl TextEncoding {
    /// The shortest encoding of the text.
    fn of(text: &str) -> Self {
        let escaped =
            text.bytes().filter(|b| !matches!(b, b' '..=b'~' | b'\t' | b'\r' | b'\n') || *b == b'=');
        let escaped = escaped.count();
        // RFC 5322 §2.1.1: 998. Shorter here, so that lines are not broken on their way.
        let is_short = |line: &str| line.len() <= 200 && !line.starts_with('-') && !line.starts_with("From ");
        let is_clean = |line: &str| is_short(line) && !line.ends_with([' ', '\t']);
        let is_plain = text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t' | b'\r' | b'\n'));
        if is_plain && text.split("\r\n").all(is_clean) {
            TextEncoding::SevenBit
        } else if escaped * 6 > text.len() {
            TextEncoding::Base64
        } else {
            TextEncoding::QuotedPrintable
        }
    }

    fn name(self) -> &'static str {
        match self {
            TextEncoding::SevenBit => "7bit",
            TextEncoding::QuotedPrintable => "quoted-printable",
            TextEncoding::Base64 => "base64",
        }
    }
}

/// Text whose lines all end with CRLF.
fn with_crlf(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let is_bare = |at: usize| match bytes.get(at) {
        Some(b'\n') => at == 0 || bytes.get(at - 1) != Some(&b'\r'),
        _ => bytes.get(at + 1) != Some(&b'\n'),
    };
    if !memchr::memchr2_iter(b'\r', b'\n', bytes).any(is_bare) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest.as_bytes()) {
        let (line, end) = rest.split_at(at);
        out.push_str(line);
        out.push_str("\r\n");
        rest = end.strip_prefix("\r\n").unwrap_or_else(|| end.in_bounds(1..));
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// RFC 2045 §6.7, of text with CRLF.
fn quoted_printable(text: &[u8], out: &mut Vec<u8>) {
    const LINE_MAX: usize = 75;
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut column = 0;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let rest = text.in_bounds(at..);
        at += 1;
        if rest.starts_with(b"\r\n") {
            out.extend_from_slice(b"\r\n");
            at += 1;
            column = 0;
            continue;
        }
        let ends_line = matches!(rest.get(1..3), Some(b"\r\n")) || rest.len() == 1;
        let is_plain = match byte {
            b' ' | b'\t' => !ends_line,
            // A hyphen might begin a delimiter, and `From ` a message of an mbox.
            b'-' => column > 0,
            b'F' => column > 0 || !rest.starts_with(b"From "),
            b'=' => false,
            _ => matches!(byte, b'!'..=b'~'),
        };
        let width = if is_plain { 1 } else { 3 };
        if column + width > LINE_MAX {
            out.extend_from_slice(b"=\r\n");
            column = 0;
            // What begins a line is judged as such.
            at -= 1;
            continue;
        }
        if is_plain {
            out.push(byte);
        } else {
            out.extend([b'=', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        column += width;
    }
}

fn base64_lines(bytes: &[u8], out: &mut Vec<u8>) {
    // 57 octets make a line of 76 characters: RFC 2045 §6.8.
    let mut line = String::with_capacity(76);
    for chunk in bytes.chunks(57) {
        line.clear();
        STANDARD.encode_string(chunk, &mut line);
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mime_summary::{Encoding, decode_transfer};
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn line_ends_become_crlf() {
        for (text, expected) in
            [("a\nb\r\nc\rd", "a\r\nb\r\nc\r\nd"), ("\n\n", "\r\n\r\n"), ("a", "a"), ("\r\r\n", "\r\n\r\n")]
        {
            assert_eq!(with_crlf(text), expected, "{text:?}");
        }
    }

    properties! {
        #[test]
        fn text_can_be_read_back_and_is_no_delimiter(text in "(--|[ -~\n]|From |\t |ü|\u{1F600}){0,200}") {
            let mut printer = Printer::new("x".to_owned());
            let entity = Entity::Text { media: "text/plain".into(), fields: vec![], text: text.clone() };
            printer.entity(&entity);
            let at = memchr::memmem::find(&printer.out, b"\r\n\r\n").expect("a blank line");
            let (head, body) = printer.out.split_at(at + 4);
            let head = String::from_utf8_lossy(head);
            let encoding = match head.contains("quoted-printable") {
                true => Encoding::QuotedPrintable,
                false if head.contains("base64") => Encoding::Base64,
                false => Encoding::SevenBit,
            };
            prop_assert!(body.split(|b| *b == b'\n').all(|line| !line.starts_with(b"-") && line.len() < 202));
            let read = decode_transfer(encoding, body).expect("an encoding");
            prop_assert_eq!(String::from_utf8(read).expect("UTF-8"), with_crlf(&text));
        }
    }
}
