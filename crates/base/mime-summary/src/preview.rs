//! The preview of a message: the beginning of its text for people, HTML without its tags. RFC 8970.

use crate::charset::CharsetReader;
use crate::html::Rendering;
use crate::media::{Disposition, Media, TextKind};
use crate::structure::{Kind, Part, Structure};
use crate::transfer::TransferDecoder;

/// Longest preview, in characters. RFC 8970 §3: at most 256, 200 recommended.
const PREVIEW_CHARS_MAX: usize = 200;
/// The most bytes of a plain text that are read for a preview.
const PLAIN_READ_MAX: usize = 1024;
/// The most bytes of HTML that are read for a preview: style sheets come first.
const HTML_READ_MAX: usize = 16 * 1024;
/// The most parts that are tried.
const PARTS_TRIED_MAX: usize = 50;
/// The bytes of HTML that are rendered first. If that gives too little text, twice as much
/// follows.
const HTML_PIECE: usize = 1024;

/// The preview: of the first plain text that is no attachment, else of the first HTML. If all texts
/// are attachments, it is of these: there is nothing else to see (RFC 8970 §3.2 has the empty
/// string for what no preview can be made of).
pub(crate) fn preview(message: &[u8], structure: &Structure) -> String {
    preview_among(message, structure, |part| !is_attachment(message, part))
        .or_else(|| preview_among(message, structure, |_| true))
        .unwrap_or_default()
}

/// The preview of some of the parts; `None` if no text is among them.
fn preview_among(message: &[u8], structure: &Structure, is_wanted: impl Fn(&Part) -> bool) -> Option<String> {
    let (mut html, mut plain) = (None, None);
    for part in structure.parts().iter().take(PARTS_TRIED_MAX).filter(|part| part.kind == Kind::Leaf) {
        let media = part.media(message);
        let Some(kind) = media.text_kind().filter(|_| is_wanted(part)) else { continue };
        match kind {
            TextKind::Plain => {
                let text = squeeze(beginning(message, part, &media, PLAIN_READ_MAX).chars());
                if !text.is_empty() {
                    return Some(text);
                }
                plain = Some(text);
            }
            TextKind::Html => html = html.or(Some((part, media))),
        }
    }
    let html = html.map(|(part, media)| seen(&beginning(message, part, &media, HTML_READ_MAX)));
    html.or(plain)
}

fn is_attachment(message: &[u8], part: &Part) -> bool {
    part.fields
        .disposition
        .and_then(|span| Disposition::parse(span.of(message)))
        .is_some_and(|disposition| disposition.kind.eq_ignore_ascii_case(b"attachment"))
}

fn beginning(message: &[u8], part: &Part, media: &Media<'_>, raw_max: usize) -> String {
    let mut text = String::new();
    let Ok(mut decoder) = TransferDecoder::new(part.encoding) else { return text };
    let body = part.body.of(message);
    let mut bytes = Vec::with_capacity(raw_max.min(body.len()));
    decoder.decode(body.get(..raw_max).unwrap_or(body), &mut bytes);
    let is_whole = body.len() <= raw_max;
    if is_whole {
        decoder.finish(&mut bytes);
    }
    let mut reader = CharsetReader::new(media.charset(), &bytes);
    reader.read(&bytes, &mut text);
    // A character cut by the limit is left out.
    if is_whole || text.is_empty() {
        reader.finish(&mut text);
    }
    text
}

/// The beginning of the text that a reader of this HTML sees.
fn seen(html: &str) -> String {
    let (mut rendering, mut text) = (Rendering::default(), String::new());
    let (mut rest, mut len) = (html, HTML_PIECE);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at_checked(rest.floor_char_boundary(len)).unwrap_or((rest, ""));
        rendering.push(piece, &mut text);
        let made = squeeze(text.chars());
        if made.chars().count() >= PREVIEW_CHARS_MAX {
            return made;
        }
        (rest, len) = (after, len * 2);
    }
    rendering.finish(&mut text);
    squeeze(text.chars())
}

/// White space as one space each, no control characters, not too long.
fn squeeze(chars: impl Iterator<Item = char>) -> String {
    let mut made = String::with_capacity(PREVIEW_CHARS_MAX);
    let mut count = 0;
    let mut wants_space = false;
    for c in chars {
        if !c.is_ascii_graphic() {
            if c.is_whitespace() {
                wants_space = count > 0;
                continue;
            }
            // Zero-width fillers are how newsletters pad their own previews.
            if c.is_control() || matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{feff}') {
                continue;
            }
        }
        if count + usize::from(wants_space) >= PREVIEW_CHARS_MAX {
            break;
        }
        if std::mem::take(&mut wants_space) {
            made.push(' ');
            count += 1;
        }
        made.push(c);
        count += 1;
    }
    made
}
