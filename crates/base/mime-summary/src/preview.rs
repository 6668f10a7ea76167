//! The preview of a message: the beginning of its text for people, HTML without its tags. RFC 8970.

use mail_parser::decoders::html::add_html_token;

use crate::charset::CharsetReader;
use crate::in_bounds::InBounds;
use crate::media::{Disposition, Media, TextKind};
use crate::structure::{Kind, Part, Structure};
use crate::transfer::TransferDecoder;

/// Longest preview, in characters. RFC 8970 §3: at most 256, 200 recommended.
const PREVIEW_CHARS_MAX: usize = 200;
/// How much of a plain text is read for it.
const PLAIN_READ_MAX: usize = 1024;
/// How much of HTML is read for it: style sheets come first.
const HTML_READ_MAX: usize = 16 * 1024;
/// How many parts are tried.
const PARTS_TRIED_MAX: usize = 50;
/// Longest entity, in bytes: `&CounterClockwiseContourIntegral;`.
const ENTITY_LEN_MAX: usize = 33;
/// Elements within a word: their tags are no blanks.
const WITHIN_WORDS: [&str; 28] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins",
    "kbd", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "u", "wbr",
];

/// The preview: of the first plain text that is no attachment, else of the first HTML. A message
/// that is one text has it even if it calls itself an attachment: there is nothing else to see
/// (RFC 8970 §3.2 has the empty string for what no preview can be made of).
pub(crate) fn preview(message: &[u8], structure: &Structure) -> String {
    let mut html = None;
    let is_alone = structure.parts().len() == 1;
    for part in structure.parts().iter().take(PARTS_TRIED_MAX).filter(|part| part.kind == Kind::Leaf) {
        let media = part.media(message);
        let Some(kind) = media.text_kind() else { continue };
        if !is_alone && is_attachment(message, part) {
            continue;
        }
        match kind {
            TextKind::Plain => {
                let text = squeeze(beginning(message, part, &media, PLAIN_READ_MAX).chars());
                if !text.is_empty() {
                    return text;
                }
            }
            TextKind::Html => html = html.or(Some((part, media))),
        }
    }
    html.map(|(part, media)| {
        let text = beginning(message, part, &media, HTML_READ_MAX);
        squeeze(Html { rest: &text })
    })
    .unwrap_or_default()
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

/// White space as one space each, no control characters, not too long.
fn squeeze(chars: impl Iterator<Item = char>) -> String {
    let mut made = String::with_capacity(PREVIEW_CHARS_MAX);
    let mut count = 0;
    let mut wants_space = false;
    for c in chars {
        if c.is_whitespace() {
            wants_space = count > 0;
            continue;
        }
        // Zero-width fillers are how newsletters pad their own previews.
        if c.is_control() || matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{feff}') {
            continue;
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

/// The characters of HTML that a reader would see, more or less.
struct Html<'t> {
    rest: &'t str,
}

impl Html<'_> {
    /// Moves past what stands up to and including `end`, or to the end of the text.
    fn skip_past(&mut self, end: &str) {
        let at = memchr::memmem::find(self.rest.as_bytes(), end.as_bytes());
        self.rest = at.and_then(|at| self.rest.get(at + end.len()..)).unwrap_or_default();
    }

    /// At `<`: skips the tag, and the content of elements that show nothing. Returns what is shown
    /// for it: a blank, or nothing visible.
    fn tag(&mut self) -> char {
        const NOTHING: char = '\u{200b}';
        let starts_with =
            |name: &str| self.rest.get(1..=name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
        if self.rest.starts_with("<!--") {
            self.skip_past("-->");
            return NOTHING;
        }
        let name = self.rest.trim_start_matches(['<', '/']);
        let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        // Words of neighbouring elements do not run together.
        let is_within = WITHIN_WORDS.iter().any(|within| name.eq_ignore_ascii_case(within));
        let shown = if is_within { NOTHING } else { ' ' };
        let hidden = ["style", "script", "title"].into_iter().find(|name| starts_with(name));
        self.skip_past(">");
        if let Some(name) = hidden {
            loop {
                self.skip_past("</");
                let closes = self.rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
                if closes || self.rest.is_empty() {
                    self.skip_past(">");
                    return shown;
                }
            }
        }
        shown
    }

    /// At `&`: the character that an entity names, by its name in HTML or its number.
    fn entity(&mut self) -> Option<char> {
        let len = self.rest.bytes().take(ENTITY_LEN_MAX).position(|b| b == b';')? + 1;
        let mut named = String::new();
        // What it does not know it appends as it is: three characters or more.
        add_html_token(&mut named, self.rest.get(..len)?.as_bytes(), false);
        let mut chars = named.chars();
        let c = chars.next().filter(|_| chars.next().is_none())?;
        self.rest = self.rest.in_bounds(len..);
        Some(c)
    }
}

impl Iterator for Html<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        match c {
            '<' => Some(self.tag()),
            '&' => match self.entity() {
                Some(c) => Some(c),
                None => {
                    self.rest = self.rest.in_bounds(1..);
                    Some('&')
                }
            },
            _ => {
                self.rest = self.rest.in_bounds(c.len_utf8()..);
                Some(c)
            }
        }
    }
}
