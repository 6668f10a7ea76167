//! Compares the text before a TNEF part with the text in it.
//!
//! Exchange sends the plain form of a message as `text/plain`, and the whole of it as TNEF. Then
//! both are one text. Any other text is a message of its own: a comment of someone who forwards
//! the file, or a gateway's note. Then both are kept.

use std::collections::HashMap;
use std::rc::Rc;

use posthaste_mime_summary::{
    CharsetReader, Disposition, InBounds, Kind, Part, PartIndex, Structure, decode_transfer, html_lines,
};
use sha2::{Digest, Sha256};

/// Bytes of a text that is compared. If it is longer, both texts are kept: nothing is lost. The
/// copies of a comparison take some ten times as much.
const LEN_MAX: usize = 1 << 20;
/// Bytes of an address in brackets. Longer ones are text.
const ADDRESS_MAX: usize = 4096;

/// The text before a TNEF part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outer {
    plain: Option<Read>,
    /// The visible text of its HTML.
    html: Option<Read>,
}

/// The values that a comparison needs of a text that was read.
#[derive(Debug, Clone, Copy)]
struct Read {
    essence: Essence,
    is_blank: bool,
}

impl Read {
    fn of(text: &str) -> Self {
        Self { essence: Essence::of_any(text), is_blank: text.trim().is_empty() }
    }
}

/// The role of a part beside a TNEF part, by its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartRole {
    Plain,
    Html,
    /// Several forms of a text.
    Forms,
    /// An attachment, or anything else.
    Other,
}

impl PartRole {
    fn of(part: &Part, message: &[u8]) -> Self {
        let media = part.media(message);
        let role = match part.kind {
            Kind::Leaf if media.is("text", "plain") => Self::Plain,
            Kind::Leaf if media.is("text", "html") => Self::Html,
            Kind::Multipart if media.is("multipart", "alternative") || media.is("multipart", "related") => {
                Self::Forms
            }
            _ => Self::Other,
        };
        if role != Self::Other && is_attachment(part, message) { Self::Other } else { role }
    }
}

/// The texts of a message that were read: each once, and its header once, however many TNEF parts
/// there are. A text takes some hundred bytes here.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// By the place of a text's body. `None` if it is too long to be compared.
    by_place: HashMap<usize, Option<Read>>,
    roles: HashMap<PartIndex, PartRole>,
    /// The texts among the parts of a multipart.
    of_multipart: HashMap<PartIndex, Rc<[PartIndex]>>,
    outers: HashMap<PartIndex, Outer>,
}

impl Texts {
    fn read(&mut self, part: &Part, make: impl FnOnce() -> Option<Read>) -> Option<Read> {
        *self.by_place.entry(part.body.range().start).or_insert_with(make)
    }

    pub fn role(&mut self, message: &[u8], structure: &Structure, index: PartIndex) -> PartRole {
        let role = || structure.part(index).map_or(PartRole::Other, |part| PartRole::of(part, message));
        *self.roles.entry(index).or_insert_with(role)
    }

    /// The parts of a multipart that are a text which is shown, or several forms of one.
    pub fn of_multipart(
        &mut self,
        message: &[u8],
        structure: &Structure,
        index: PartIndex,
    ) -> Rc<[PartIndex]> {
        if let Some(texts) = self.of_multipart.get(&index) {
            return Rc::clone(texts);
        }
        let children = structure.children(index).map(|(child, _)| child);
        let texts =
            children.filter(|child| self.role(message, structure, *child) != PartRole::Other).collect();
        Rc::clone(self.of_multipart.entry(index).or_insert(texts))
    }
}

impl Outer {
    /// The forms of a text: of one part, or of a multipart.
    pub fn of(message: &[u8], structure: &Structure, index: PartIndex, texts: &mut Texts) -> Self {
        if let Some(outer) = texts.outers.get(&index) {
            return *outer;
        }
        let mut outer = Self { plain: None, html: None };
        let mut left = vec![index];
        while let Some(at) = left.pop() {
            let Some(part) = structure.part(at) else { continue };
            if part.kind == Kind::Multipart {
                left.extend(structure.children(at).map(|(child, _)| child));
                continue;
            }
            match texts.role(message, structure, at) {
                PartRole::Plain if outer.plain.is_none() => {
                    outer.plain = texts.read(part, || Some(Read::of(&decoded(part, message)?)));
                }
                PartRole::Html if outer.html.is_none() => {
                    let shown = || Some(Read::of(&html_lines(&decoded(part, message)?)));
                    outer.html = texts.read(part, shown);
                }
                _ => {}
            }
        }
        texts.outers.insert(index, outer);
        outer
    }

    /// Whether it is text without any words.
    pub fn is_blank(&self) -> bool {
        self.html.is_none() && self.plain.as_ref().is_some_and(|text| text.is_blank)
    }

    /// Whether its plain form has this text.
    pub fn has_text(&self, text: &Essence) -> bool {
        self.plain.as_ref().is_some_and(|plain| plain.essence == *text)
    }

    /// Whether its HTML shows this text.
    pub fn has_html(&self, text: &Essence) -> bool {
        self.html.as_ref().is_some_and(|html| html.essence == *text)
    }
}

fn is_attachment(part: &Part, message: &[u8]) -> bool {
    let disposition = part.fields.disposition.and_then(|span| Disposition::parse(span.of(message)));
    disposition.is_some_and(|disposition| disposition.kind.eq_ignore_ascii_case(b"attachment"))
}

/// The text of a part; `None` if it is too long to be compared.
fn decoded(part: &Part, message: &[u8]) -> Option<String> {
    let body = part.body.of(message);
    if body.len() > LEN_MAX {
        return None;
    }
    let bytes = decode_transfer(part.encoding, body).ok()?;
    let charset = part.media(message).params.decoded("charset").unwrap_or_default();
    let mut reader = CharsetReader::new(charset.as_bytes(), &bytes);
    let mut text = String::new();
    reader.read(&bytes, &mut text);
    reader.finish(&mut text);
    Some(text)
}

/// The part of a text that is the same in all its forms. Spaces, line ends, bullets, quotation
/// marks and the addresses of links differ. It is a hash, so that those of all texts of a message
/// take little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Essence {
    /// Whether the hash is of letters. A text without any has the hash of its signs.
    has_letters: bool,
    hash: [u8; 32],
}

impl Essence {
    /// `None` if the text is too long to be compared.
    pub fn of(text: &str) -> Option<Self> {
        (text.len() <= LEN_MAX * 4).then(|| Self::of_any(text))
    }

    fn of_any(text: &str) -> Self {
        let letters = letters(text);
        let has_letters = !letters.is_empty();
        let hash = Sha256::digest(if has_letters { letters } else { signs(text) });
        Self { has_letters, hash: hash.into() }
    }
}

fn signs(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The letters and digits of a text, without the addresses that programs add to links and images.
fn letters(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let after = match character {
            '<' => behind_address(
                rest,
                ['<', '>'],
                &["<http:", "<https:", "<mailto:", "<ftp:", "<tel:", "<cid:"],
            ),
            '[' => behind_address(rest, ['[', ']'], &["[cid:", "[http:", "[https:"]),
            'H' => behind_address(rest, ['"', '"'], &["HYPERLINK \""]),
            _ => None,
        };
        if let Some(after) = after {
            rest = after;
            continue;
        }
        if character.is_alphanumeric() {
            out.push(character);
        }
        rest = rest.in_bounds(character.len_utf8()..);
    }
    out
}

/// The text after an address that begins with one of these. A bracket within it begins another
/// one, so brackets that are never closed cost no more than others.
fn behind_address<'t>(text: &'t str, brackets: [char; 2], begins: &[&str]) -> Option<&'t str> {
    let begin = begins.iter().find(|begin| text.starts_with(**begin))?;
    let rest = text.in_bounds(begin.len()..);
    let near = rest.in_bounds(..rest.floor_char_boundary(ADDRESS_MAX));
    let at = near.find(brackets)?;
    rest.in_bounds(at..).strip_prefix(brackets[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_same(one: &str, other: &str) -> bool {
        Essence::of(one).is_some_and(|essence| essence == Essence::of_any(other))
    }

    #[test]
    fn forms_of_one_text_are_the_same() {
        for (one, other) in [
            ("Hello\r\n\r\n  Ana,\r\n", "Hello Ana"),
            ("* one\r\n* two", "\u{b7}\tone\r\n\u{b7}\ttwo"),
            ("see the page <https://x.example/a?b> now", "see the page now"),
            ("see HYPERLINK \"https://x.example\"the page", "see the page"),
            ("[cid:logo@x] Regards", "Regards"),
            (":-)", " :-) "),
            ("a <http: b <https://x.example>", "a http b"),
        ] {
            assert!(is_same(one, other), "{one:?} {other:?}");
        }
        for (one, other) in [
            ("[External mail: be careful]", "The text"),
            ("FYI\r\n\r\nHello", "Hello"),
            ("Hello", "Hello\r\n\r\nAna"),
            (":-)", ":-("),
            ("a <b> c", "a c"),
        ] {
            assert!(!is_same(one, other), "{one:?} {other:?}");
        }
    }
}
