//! MIME as rich mail, and back byte for byte.
//!
//! [`enrich`] makes a [`Message`] that any reader of TNEF understands: subject, sender, text, HTML
//! and attachments with their bytes. One property more, the *frame*, has what those lack: the
//! header, the boundaries, and for each text and attachment how it was encoded. [`restore`] puts
//! all of it together again. What cannot be made again from text or attachment, such as base64 of
//! uneven lines, is in the frame as it was.
//!
//! The frame is one byte with its version, and pieces:
//!
//! | first byte | then | what it is |
//! | --- | --- | --- |
//! | 0 | length (4), bytes | bytes as they were |
//! | 1 | source (4) | a source as it is |
//! | 2 | source (4), line length (4), end (1) | a source in base64; lines end in CRLF, the last one if `end` is 1 |
//!
//! Source 0 is the text, 1 the HTML, 2 and more are the attachments in their order. Numbers are
//! little-endian.

use std::borrow::Cow;

use posthaste_mime_summary::{
    CharsetReader, Disposition, Encoding, Field, InBounds, Kind, Part, Span, Structure, TextKind,
    address_list, decode_transfer, decode_words, sent_date, unfold,
};

use super::convert::is_sealed;
use super::sources::{Sources, sources};
use crate::encode::encode_after;
use crate::error::Damage;
use crate::model::{Attachment, Attribute, Message, Name, NameKey, Property, Value};
use crate::reader::Reader;
use crate::tags::{Guid, attribute, property};

/// The set of the frame's name.
const SET: Guid =
    [0x9e, 0x21, 0x5c, 0x70, 0xb4, 0x0d, 0x4f, 0x46, 0xa8, 0x13, 0x66, 0xe2, 0x5b, 0x9f, 0x3a, 0xd1];
/// The frame's name in its set.
const NAME: &str = "Frame";
/// The version of frames.
const VERSION: u8 = 1;
/// Attachments at most; further ones are in the frame.
const ATTACHMENTS_MAX: usize = 1_000;
/// Text in other charsets than UTF-8 up to this length becomes a property. It takes up to eight
/// times its length meanwhile; longer text is in the frame alone.
const READ_MAX: usize = 1 << 20;
/// The code page of text in UTF-8.
const UTF_8: i32 = 65_001;

/// The name of the structure, for errors.
const FRAME: &str = "the frame";

const AS_WAS: u8 = 0;
const AS_IS: u8 = 1;
const IN_BASE64: u8 = 2;
const TEXT: u32 = 0;
const HTML: u32 = 1;
const FIRST_ATTACHMENT: u32 = 2;

/// A message as TNEF; `None` if it is signed or encrypted, or would not come back as it was.
pub fn enrich(message: &[u8]) -> Option<Vec<u8>> {
    enrich_parsed(&Structure::parse(message), message)
}

/// [`enrich`] of a message that has this structure.
pub fn enrich_parsed(structure: &Structure, message: &[u8]) -> Option<Vec<u8>> {
    enrich_after(&[], structure, message)
}

/// [`enrich_parsed`], with these bytes before the result. A header gets its place so, and the
/// result is not copied behind it.
pub fn enrich_after(begin: &[u8], structure: &Structure, message: &[u8]) -> Option<Vec<u8>> {
    if is_sealed(structure, message) {
        return None;
    }
    let rich = encode_after(begin, &Framing::new(message).message(structure)).ok()?;
    (restore(rich.get(begin.len()..)?, message.len()).ok()? == message).then_some(rich)
}

/// The message of which [`enrich`] made this. It has `len` bytes; more is damage.
pub fn restore(rich: &[u8], len: usize) -> Result<Vec<u8>, Damage> {
    let found = sources(rich, (&SET, NAME))?;
    let frame = found.frame.flatten().ok_or(Damage::Frame)?;
    let mut read = Reader::new(frame);
    if read.u8(FRAME)? != VERSION {
        return Err(Damage::Frame);
    }
    let mut out = Vec::with_capacity(len.min(rich.len().saturating_mul(2)));
    while read.left() > 0 {
        match read.u8(FRAME)? {
            AS_WAS => {
                let len = read.len(FRAME)?;
                out.extend_from_slice(read.take(len, FRAME)?);
            }
            AS_IS => out.extend_from_slice(source(&found, read.u32(FRAME)?)?),
            IN_BASE64 => {
                let bytes = source(&found, read.u32(FRAME)?)?;
                let (line, has_end) = (read.len(FRAME)?, read.u8(FRAME)? == 1);
                base64_into(&mut out, bytes, line, has_end);
            }
            _ => return Err(Damage::Frame),
        }
        if out.len() > len {
            return Err(Damage::Frame);
        }
    }
    Ok(out)
}

/// Memory that [`restore`] takes at most for a message of this many bytes: the message while it
/// grows, and the base64 of one attachment.
pub fn restore_memory_max(len: usize) -> usize {
    len.saturating_mul(4).saturating_add(64 << 10)
}

/// The bytes of a source.
fn source<'b>(found: &Sources<'b>, number: u32) -> Result<&'b [u8], Damage> {
    let bytes = match number {
        TEXT => found.text.flatten(),
        HTML => found.html.flatten(),
        other => {
            let at = other.checked_sub(FIRST_ATTACHMENT).and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| found.files.get(at).copied().flatten())
        }
    };
    bytes.ok_or(Damage::Frame)
}

/// Appends base64 in lines of this length; 0 is one line. Lines of whole groups of four characters
/// (RFC 4648 §4) are encoded some at a time: their text needs little memory, which stays in the
/// processor's cache.
fn base64_into(out: &mut Vec<u8>, bytes: &[u8], line: usize, has_end: bool) {
    use base64::Engine;
    /// With the usual 76 characters, 5 KiB.
    const LINES_AT_ONCE: usize = 64;
    let has_groups = line > 0 && line.is_multiple_of(4);
    let at_once = if has_groups { (line / 4 * 3).saturating_mul(LINES_AT_ONCE) } else { bytes.len() };
    let (begin, mut text) = (out.len(), Vec::<u8>::new());
    for some in bytes.chunks(at_once.max(1)) {
        text.resize(some.len().div_ceil(3) * 4, 0);
        // The room is that of its text.
        let _ = base64::engine::general_purpose::STANDARD.encode_slice(some, &mut text);
        for one in text.chunks(if line == 0 { usize::MAX } else { line }) {
            if out.len() > begin {
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(one);
        }
    }
    if has_end {
        out.extend_from_slice(b"\r\n");
    }
}

/// The layout of a part's content as bytes.
enum Layout {
    AsIs,
    Base64 { line: u32, has_end: bool },
}

/// The layout that gives a part's bytes again, if there is one.
fn layout(part: &Part, body: &[u8], content: &[u8]) -> Option<Layout> {
    if body == content {
        return Some(Layout::AsIs);
    }
    if part.encoding != Encoding::Base64 {
        return None;
    }
    let line = memchr::memchr(b'\r', body).unwrap_or(0);
    let (line, has_end) = (u32::try_from(line).ok()?, body.ends_with(b"\r\n"));
    let mut again = Vec::with_capacity(body.len());
    base64_into(&mut again, content, line as usize, has_end);
    (again == body).then_some(Layout::Base64 { line, has_end })
}

/// A message on its way into TNEF.
struct Framing<'m> {
    message: &'m [u8],
    frame: Vec<u8>,
    /// Bytes up to here are in the frame.
    done: usize,
}

impl<'m> Framing<'m> {
    fn new(message: &'m [u8]) -> Self {
        Self { message, frame: vec![VERSION], done: 0 }
    }

    fn message(mut self, structure: &Structure) -> Message {
        let class = b"IPM.Microsoft Mail.Note\0".to_vec();
        let header = Header { message: self.message, fields: structure.fields() };
        let mut rich = Message {
            attributes: vec![Attribute { id: attribute::MESSAGE_CLASS, data: class }],
            properties: header_properties(&header),
            recipients: recipients(&header),
            ..Message::default()
        };
        for part in structure.parts().iter().filter(|part| part.kind == Kind::Leaf) {
            // The parts of a message inside stay with it, in the frame.
            if !is_inside(structure, part) {
                self.leaf(part, &mut rich);
            }
        }
        self.as_was(self.message.len());
        let name = Name { set: SET, key: NameKey::Text(NAME.to_owned()) };
        let value = Value::Binary(self.frame);
        rich.properties.push(Property { id: 0x8000, name: Some(Box::new(name)), value });
        rich
    }

    /// A part becomes the text, the HTML or an attachment.
    fn leaf(&mut self, part: &Part, rich: &mut Message) {
        let body = part.body.of(self.message);
        let Ok(content) = decode_transfer(part.encoding, body) else { return };
        let layout = layout(part, body, &content);
        let media = part.media(self.message);
        let disposition = part.fields.disposition.and_then(|span| Disposition::parse(span.of(self.message)));
        let is_attached = disposition.as_ref().is_some_and(|d| d.kind.eq_ignore_ascii_case(b"attachment"));
        match media.text_kind().filter(|_| !is_attached) {
            Some(TextKind::Plain) if rich.property(property::BODY).is_none() => {
                if is_utf8(media.charset(), &content) {
                    rich.properties.push(Property::new(property::MESSAGE_CODEPAGE, Value::Int32(UTF_8)));
                    rich.properties.push(Property::new(property::BODY, Value::String8(content)));
                    self.piece(part.body, TEXT, layout);
                } else if content.len() <= READ_MAX {
                    let text = read_text(media.charset(), &content);
                    rich.properties.push(Property::new(property::BODY, Value::String(text)));
                }
            }
            Some(TextKind::Html) if rich.property(property::HTML).is_none() => {
                rich.properties.push(Property::new(property::HTML, Value::Binary(content)));
                self.piece(part.body, HTML, layout);
            }
            _ if layout.is_some() && rich.attachments.len() < ATTACHMENTS_MAX => {
                let number = FIRST_ATTACHMENT + rich.attachments.len() as u32;
                let file = disposition.and_then(|d| d.params.decoded("filename"));
                let name = file.or_else(|| media.params.decoded("name")).unwrap_or_default();
                let kind = [media.top, b"/", media.sub].concat();
                let id = part.fields.id.map(|span| unfold(span.of(self.message)).into_owned());
                rich.attachments.push(attachment(&name, &kind, id.as_deref(), content));
                self.piece(part.body, number, layout);
            }
            _ => {}
        }
    }

    /// Puts bytes up to `end` into the frame as they are.
    fn as_was(&mut self, end: usize) {
        let bytes = self.message.in_bounds(self.done..end);
        if !bytes.is_empty() {
            self.frame.push(AS_WAS);
            self.number(bytes.len() as u32);
            self.frame.extend_from_slice(bytes);
        }
        self.done = end;
    }

    /// A part is made of a source, if it has a layout.
    fn piece(&mut self, body: Span, source: u32, layout: Option<Layout>) {
        let range = body.range();
        let Some(layout) = layout.filter(|_| range.start >= self.done) else { return };
        self.as_was(range.start);
        match layout {
            Layout::AsIs => {
                self.frame.push(AS_IS);
                self.number(source);
            }
            Layout::Base64 { line, has_end } => {
                self.frame.push(IN_BASE64);
                self.number(source);
                self.number(line);
                self.frame.push(u8::from(has_end));
            }
        }
        self.done = range.end;
    }

    fn number(&mut self, number: u32) {
        self.frame.extend_from_slice(&number.to_le_bytes());
    }
}

fn is_inside(structure: &Structure, part: &Part) -> bool {
    let mut at = part.parent();
    while let Some(parent) = at.and_then(|at| structure.part(at)) {
        if parent.kind == Kind::Message {
            return true;
        }
        at = parent.parent();
    }
    false
}

/// Whether text can stay as it is in a property of 8-bit text. A NUL would end it. Text without a
/// charset is ASCII (RFC 2045 §5.2); in practice it may be UTF-8.
fn is_utf8(charset: &[u8], content: &[u8]) -> bool {
    let is = |prefix: &[u8]| charset.get(..prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(prefix));
    let is_declared = charset.is_empty()
        || charset.eq_ignore_ascii_case(b"utf-8")
        || charset.eq_ignore_ascii_case(b"us-ascii")
        // These contain ASCII, and begin no other charset in it.
        || content.is_ascii() && (is(b"iso-8859-") || is(b"windows-125"));
    is_declared && memchr::memchr(0, content).is_none() && std::str::from_utf8(content).is_ok()
}

fn read_text(charset: &[u8], content: &[u8]) -> String {
    let mut text = String::with_capacity(content.len());
    let mut reader = CharsetReader::new(charset, content);
    reader.read(content, &mut text);
    reader.finish(&mut text);
    text
}

fn text(id: u16, text: String) -> Property {
    Property::new(id, Value::String(text))
}

/// The fields of a header, which were found before.
struct Header<'m> {
    message: &'m [u8],
    fields: &'m [Field],
}

impl<'m> Header<'m> {
    fn value(&self, name: &str) -> Option<Cow<'m, [u8]>> {
        let found = self.fields.iter().find(|field| field.is(self.message, name))?;
        Some(found.value(self.message))
    }
}

/// What properties say of a header: for those who read them, since the header is in the frame.
fn header_properties(header: &Header<'_>) -> Vec<Property> {
    let words = |name| header.value(name).map(|value| decode_words(&value).into_owned());
    let mut properties = Vec::new();
    properties.extend(words("subject").map(|subject| text(property::SUBJECT, subject)));
    properties.extend(words("message-id").map(|id| text(property::INTERNET_MESSAGE_ID, id)));
    properties.extend(words("in-reply-to").map(|id| text(property::IN_REPLY_TO_ID, id)));
    properties.extend(words("references").map(|ids| text(property::INTERNET_REFERENCES, ids)));
    if let Some(from) = people(header, "from").into_iter().next() {
        properties.push(text(property::SENT_REPRESENTING_NAME, from.0));
        properties.push(text(property::SENT_REPRESENTING_SMTP_ADDRESS, from.1));
    }
    let sent = header.value("date").and_then(|value| sent_date(&value));
    let ticks = sent.and_then(|sent| u64::try_from(sent.unix_s.checked_add(SECONDS_FROM_1601)?).ok());
    let time = ticks.and_then(|seconds| seconds.checked_mul(10_000_000));
    properties.extend(time.map(|time| Property::new(property::CLIENT_SUBMIT_TIME, Value::Time(time))));
    properties
}

/// From 1601, where the times of properties begin, to 1970.
const SECONDS_FROM_1601: i64 = 11_644_473_600;

fn recipients(header: &Header<'_>) -> Vec<Vec<Property>> {
    let of = |name, role| people(header, name).into_iter().map(move |person| (role, person));
    let row = |(role, (name, address)): (i32, (String, String))| {
        vec![
            text(property::DISPLAY_NAME, name),
            text(property::SMTP_ADDRESS, address),
            Property::new(property::RECIPIENT_TYPE, Value::Int32(role)),
        ]
    };
    of("to", 1).chain(of("cc", 2)).take(RECIPIENTS_MAX).map(row).collect()
}

/// Rows of recipients at most. The header has them all.
const RECIPIENTS_MAX: usize = 1_000;

/// Names and addresses of a field.
fn people(header: &Header<'_>, name: &str) -> Vec<(String, String)> {
    let Some(value) = header.value(name) else { return Vec::new() };
    let found = address_list(&value).into_iter().filter_map(|address| {
        let (mailbox, host) = (address.mailbox?, address.host.filter(|host| !host.is_empty())?);
        let mailbox = [&mailbox[..], b"@", &host[..]].concat();
        let mailbox = String::from_utf8_lossy(&mailbox).into_owned();
        let name = address.name.map(|name| decode_words(&name).into_owned());
        Some((name.unwrap_or_else(|| mailbox.clone()), mailbox))
    });
    found.collect()
}

fn attachment(name: &str, kind: &[u8], id: Option<&[u8]>, content: Vec<u8>) -> Attachment {
    // Old clients read this name: ASCII, with its NUL.
    let title: String =
        name.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).chain(['\0']).collect();
    let mut properties = vec![text(property::ATTACH_MIME_TAG, String::from_utf8_lossy(kind).into_owned())];
    if !name.is_empty() {
        properties.push(text(property::ATTACH_LONG_FILENAME, name.to_owned()));
    }
    let id = id.map(|id| String::from_utf8_lossy(id).trim_matches(['<', '>', ' ']).to_owned());
    properties.extend(id.map(|id| text(property::ATTACH_CONTENT_ID, id)));
    Attachment {
        attributes: vec![
            Attribute { id: attribute::ATTACH_TITLE, data: title.into_bytes() },
            Attribute { id: attribute::ATTACH_DATA, data: content },
        ],
        properties,
        ..Attachment::default()
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
