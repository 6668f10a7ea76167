//! A message's text, out of whichever of its properties has it.

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use posthaste_mime_summary::{CharsetReader, InBounds, html_lines};

use super::report;
use crate::error::Damage;
use crate::model::{Message, Value};
use crate::rtf::Picture;
use crate::tags::{attribute, property};
use crate::{charset, rtf};

/// The number of bytes that texts may still take, and pictures in them. One is shared by all
/// messages of a conversion.
pub(super) struct TextBudget {
    left: usize,
    limit: usize,
    picture_bytes: usize,
    pictures: usize,
    /// Pictures that are not shown.
    pub unshown: usize,
}

impl TextBudget {
    /// Limits for the bytes of texts, and for those of pictures.
    pub fn new(limit: usize, picture_bytes: usize) -> Self {
        Self { left: limit, limit, picture_bytes, pictures: rtf::PICTURES_MAX, unshown: 0 }
    }

    pub fn left(&self) -> usize {
        self.left
    }

    pub fn take(&mut self, len: usize) -> Result<(), Damage> {
        self.left = self.left.checked_sub(len).ok_or(Damage::Expands { limit: self.limit })?;
        Ok(())
    }
}

/// A message's text, in the forms that it has.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    pub text: Option<String>,
    pub html: Option<String>,
    /// Pictures of RTF that the HTML shows.
    pub pictures: Vec<Picture>,
}

impl Bodies {
    /// HTML is taken from its own property, or from RTF that encapsulates it, or is made from RTF.
    /// Text is taken from its own property, or from RTF, or is made from HTML. A report has a text
    /// of its own: MS-OXOMSG §2.2.2. A form without words does not hide another one.
    pub fn of(message: &Message, budget: &mut TextBudget) -> Result<Self, Damage> {
        let is_word = |c: char| !c.is_whitespace() && !matches!(c, '\0' | '\u{feff}');
        let has_words = |text: &String| text.contains(is_word);
        let text = message.text(property::BODY).filter(has_words);
        let text = text.or_else(|| message.attribute_text(attribute::BODY)).filter(has_words);
        let mut bodies =
            Self { text, html: html(message).map(without_mark).filter(has_words), pictures: Vec::new() };
        let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        budget.take(len(&bodies.text) + len(&bodies.html))?;
        if let (None, Some(Value::Binary(compressed))) =
            (&bodies.html, message.property(property::RTF_COMPRESSED))
            && !compressed.is_empty()
        {
            let document = document(compressed, budget)?;
            bodies.html = document.html;
            bodies.pictures = document.pictures;
            bodies.text.get_or_insert(document.text);
        }
        let html = bodies.html.filter(has_words);
        let mut text = bodies.text.filter(has_words);
        if text.is_none() {
            let made = match &html {
                Some(html) => Some(html_lines(html)),
                None => report::own_text(message),
            };
            budget.take(len(&made))?;
            text = made.filter(has_words);
        }
        Ok(Self { text, html, pictures: bodies.pictures })
    }
}

/// The document in compressed RTF.
fn document(compressed: &[u8], budget: &mut TextBudget) -> Result<rtf::Document, Damage> {
    let limits = rtf::Limits { text: budget.left(), pictures: budget.picture_bytes };
    let slim = rtf::decompress_to_read(compressed, limits)?;
    budget.take(slim.rtf.len() - slim.picture_len)?;
    let document = rtf::read_within(&slim.rtf, budget.left(), budget.pictures)?;
    budget.take(document.text.len() + document.html.as_ref().map_or(0, String::len))?;
    let picture_bytes: usize = document.pictures.iter().map(|picture| picture.bytes.len()).sum();
    budget.picture_bytes = budget.picture_bytes.saturating_sub(picture_bytes);
    budget.pictures = budget.pictures.saturating_sub(document.pictures.len());
    budget.unshown = budget.unshown.saturating_add(document.unshown);
    Ok(document)
}

/// Text without a byte order mark before it. Mail names its charset, so the mark would be text.
fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

fn html(message: &Message) -> Option<String> {
    let value = message.property(property::HTML)?;
    if let Value::String(text) = value {
        return Some(text.clone());
    }
    let bytes = value.bytes()?;
    match code_page(message, value) {
        Some(code_page) => Some(charset::decode(code_page, bytes).into_owned()),
        None if bytes.starts_with(b"\xFF\xFE") => {
            Some(UTF_16LE.decode_with_bom_removal(bytes).0.into_owned())
        }
        None if bytes.starts_with(b"\xFE\xFF") => {
            Some(UTF_16BE.decode_with_bom_removal(bytes).0.into_owned())
        }
        None => {
            let mut text = String::new();
            let mut reader = CharsetReader::new(declared_charset(bytes), bytes);
            reader.read(bytes, &mut text);
            reader.finish(&mut text);
            Some(text)
        }
    }
}

/// The code page of HTML. Bytes are in that of the Internet (MS-OXCMSG §2.2.1.56.6). 8-bit text is
/// in that of the message, as other 8-bit text. The default code page of attributes does not count.
fn code_page(message: &Message, html: &Value) -> Option<u32> {
    let of = |id: u16| {
        let number = message.property(id).and_then(Value::number);
        number.and_then(|n| u32::try_from(n).ok()).filter(|n| *n != 0)
    };
    // HTML has tags, and in UTF-16 these have NULs.
    let fits = |n: &u32| !matches!(*n, 1200 | 1201) || has_nuls(html);
    let internet = of(property::INTERNET_CODEPAGE).filter(fits);
    match html {
        Value::String8(_) => {
            let attributes = Some(message.code_page).filter(|n| !matches!(*n, 0 | CODE_PAGE_DEFAULT));
            of(property::MESSAGE_CODEPAGE).filter(fits).or(internet).or(attributes)
        }
        _ => internet,
    }
}

fn has_nuls(value: &Value) -> bool {
    value.bytes().is_some_and(|bytes| memchr::memchr(0, bytes).is_some())
}

/// The code page of a message that names none.
const CODE_PAGE_DEFAULT: u32 = 1252;

/// The charset that HTML declares near its beginning; empty if it declares none.
fn declared_charset(html: &[u8]) -> &[u8] {
    const HEAD_MAX: usize = 1024;
    const WORD: &[u8] = b"charset=";
    let head = html.get(..HEAD_MAX).unwrap_or(html);
    let found = head.windows(WORD.len()).position(|piece| piece.eq_ignore_ascii_case(WORD));
    let rest = found.and_then(|at| head.get(at + WORD.len()..)).unwrap_or_default();
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest);
    let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || b"-_".contains(b)).count();
    let name = rest.in_bounds(..len);
    // The HTML standard, §13.2.3.2: what can be read here is not in UTF-16.
    let is_utf_16 = Encoding::for_label(name).is_some_and(|one| one == UTF_16LE || one == UTF_16BE);
    if is_utf_16 { &[] } else { name }
}
