//! Content-Type, Content-Disposition, Content-Language and Content-Transfer-Encoding as values.

use std::borrow::Cow;

use crate::header::{skip_cfws, unfold};
use crate::in_bounds::InBounds;
use crate::params::{Params, read_quoted};
use crate::scan::{is_space, trim_end};
use crate::transfer::Encoding;

/// Longest name of a media type, of a subtype and of a transfer encoding. RFC 6838 §4.2.
pub(crate) const TOKEN_MAX: usize = 127;

/// A media type with its parameters. RFC 2045 §5.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media<'m> {
    /// Type, in the case in which it was written.
    pub top: &'m [u8],
    /// Subtype, in the case in which it was written.
    pub sub: &'m [u8],
    /// Parameters; empty for the default type, whose charset is then us-ascii.
    pub params: Params<'m>,
}

/// Kinds of text that search and preview treat differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// text/html.
    Html,
    /// Any other text type.
    Plain,
}

impl<'m> Media<'m> {
    /// The type of a part without a usable Content-Type. RFC 2045 §5.2.
    pub const TEXT_PLAIN: Media<'static> = Media { top: b"text", sub: b"plain", params: Params::NONE };
    /// The type of a part of multipart/digest. RFC 2046 §5.1.5.
    pub const MESSAGE_RFC822: Media<'static> =
        Media { top: b"message", sub: b"rfc822", params: Params::NONE };
    /// The type of a part that cannot be opened. RFC 2045 §6.4.
    pub const OCTET_STREAM: Media<'static> =
        Media { top: b"application", sub: b"octet-stream", params: Params::NONE };

    /// Whether type and subtype are these, in any case.
    pub fn is(&self, top: &str, sub: &str) -> bool {
        self.top.eq_ignore_ascii_case(top.as_bytes()) && self.sub.eq_ignore_ascii_case(sub.as_bytes())
    }

    /// Whether it is a multipart.
    pub fn is_multipart(&self) -> bool {
        self.top.eq_ignore_ascii_case(b"multipart")
    }

    /// Whether it is a message that can be opened. RFC 9051 §7.5.2 counts message/global
    /// (RFC 6532) among them.
    pub fn is_message(&self) -> bool {
        self.is("message", "rfc822") || self.is("message", "global")
    }

    /// The kind of text, if it is text.
    pub fn text_kind(&self) -> Option<TextKind> {
        match self.top.eq_ignore_ascii_case(b"text") {
            true if self.sub.eq_ignore_ascii_case(b"html") => Some(TextKind::Html),
            true => Some(TextKind::Plain),
            false => None,
        }
    }

    /// The boundary of a multipart, without white space at its end. RFC 2046 §5.1.1.
    pub(crate) fn boundary(&self) -> Option<Box<[u8]>> {
        match self.params.value("boundary") {
            Some(boundary) => Some(trim_end(boundary).into()),
            None => self.params.decoded("boundary").map(|b| trim_end(b.as_bytes()).into()),
        }
    }

    /// The charset, empty if none is given.
    pub fn charset(&self) -> &[u8] {
        self.params.value("charset").unwrap_or_default()
    }
}

/// Reads the value of a Content-Type field; `None` if it is not `type "/" subtype`.
pub(crate) fn media_of(value: &[u8]) -> Option<Media<'_>> {
    let (top, at) = token(value, 0)?;
    let at = skip_cfws(value, at);
    if value.get(at) != Some(&b'/') {
        return None;
    }
    let (sub, at) = token(value, at + 1)?;
    Some(Media { top, sub, params: Params::parse(value.in_bounds(at..)) })
}

/// A token after comments and white space, and where it ends. RFC 2045 §5.1.
fn token(value: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let start = skip_cfws(value, at);
    let rest = value.get(start..)?;
    let is_end =
        |&b: &u8| is_space(b) || b < b' ' || matches!(b, b'/' | b';' | b'=' | b'(' | b')' | b'"' | b',');
    let len = rest.iter().position(is_end).unwrap_or(rest.len());
    // RFC 6838 §4.2 for types; transfer encodings have no bound of their own, and a longer one is
    // unknown anyway.
    ((1..=TOKEN_MAX).contains(&len)).then(|| (rest.in_bounds(..len), start + len))
}

/// Reads the value of a Content-Transfer-Encoding field. RFC 2045 §6.1; programs also write
/// `8-bit`, `7 bit` and `quoted printable`.
pub(crate) fn parse_encoding(value: &[u8]) -> Encoding {
    let Some((token, _)) = token(value, 0) else {
        return if unfold(value).is_empty() { Encoding::SevenBit } else { Encoding::Unknown };
    };
    defined_encoding(token).unwrap_or_else(|| misspelt_encoding(value))
}

/// An encoding as RFC 2045 §6.1 names it.
fn defined_encoding(token: &[u8]) -> Option<Encoding> {
    match token.len() {
        4 if token.eq_ignore_ascii_case(b"7bit") => Some(Encoding::SevenBit),
        4 if token.eq_ignore_ascii_case(b"8bit") => Some(Encoding::EightBit),
        6 if token.eq_ignore_ascii_case(b"binary") => Some(Encoding::Binary),
        6 if token.eq_ignore_ascii_case(b"base64") => Some(Encoding::Base64),
        16 if token.eq_ignore_ascii_case(b"quoted-printable") => Some(Encoding::QuotedPrintable),
        _ => None,
    }
}

/// An encoding whose name has hyphens and spaces in wrong places.
fn misspelt_encoding(value: &[u8]) -> Encoding {
    let is_part = |b: &u8| !is_space(*b) && !matches!(b, b'-' | b'_');
    let letters = value.iter().filter(|b| is_part(b)).map(u8::to_ascii_lowercase);
    let is = |name: &[u8]| letters.clone().eq(name.iter().copied());
    match () {
        () if is(b"7bit") => Encoding::SevenBit,
        () if is(b"8bit") => Encoding::EightBit,
        () if is(b"base64") => Encoding::Base64,
        () if is(b"quotedprintable") => Encoding::QuotedPrintable,
        () => Encoding::Unknown,
    }
}

/// The body-fld-enc of a Content-Transfer-Encoding field: its token, or the defined name of one
/// that is misspelt, because a client knows that one alone. `None` if there is no token.
pub(crate) fn encoding_token(value: &[u8]) -> Option<&[u8]> {
    let (token, _) = token(value, 0)?;
    if defined_encoding(token).is_some() {
        return Some(token);
    }
    Some(match misspelt_encoding(value) {
        Encoding::SevenBit => b"7bit",
        Encoding::EightBit => b"8bit",
        Encoding::Base64 => b"base64",
        Encoding::QuotedPrintable => b"quoted-printable",
        Encoding::Binary | Encoding::Unknown => token,
    })
}

/// A Content-Disposition. RFC 2183 §2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disposition<'m> {
    /// `inline`, `attachment` or another word, in the case in which it was written.
    pub kind: Cow<'m, [u8]>,
    /// `filename` and others.
    pub params: Params<'m>,
}

impl<'m> Disposition<'m> {
    /// Reads the value of a Content-Disposition field; `None` if it has no word to begin with.
    pub fn parse(value: &'m [u8]) -> Option<Self> {
        let start = skip_cfws(value, 0);
        let (kind, at) = match value.get(start) {
            // Against the grammar, but written.
            Some(b'"') => read_quoted(value, start),
            _ => token(value, start).map(|(kind, at)| (Cow::Borrowed(kind), at))?,
        };
        Some(Disposition { kind, params: Params::parse(value.in_bounds(at..)) })
    }
}

/// The tags of a Content-Language field: a list with commas. RFC 3282 §2.
pub fn language_tags(value: &[u8]) -> Vec<&[u8]> {
    /// The most tags that are read; one or two are usual.
    const TAGS_MAX: usize = 50;
    value.split(|&b| b == b',').filter_map(|item| token(item, 0)).map(|(tag, _)| tag).take(TAGS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_encodings_have_the_defined_name() {
        for (value, name) in [
            ("7 bit", "7bit"),
            ("8-bit", "8bit"),
            ("Quoted Printable", "quoted-printable"),
            ("BASE-64", "base64"),
            ("BASE64 (yes)", "BASE64"),
            ("x-uuencode", "x-uuencode"),
        ] {
            assert_eq!(encoding_token(value.as_bytes()), Some(name.as_bytes()), "{value}");
        }
        assert_eq!(encoding_token(b" "), None);
    }

    #[test]
    fn encodings_as_they_are_written() {
        for (value, encoding) in [
            (" base64 (comment)\r\n", Encoding::Base64),
            ("8-bit", Encoding::EightBit),
            ("7 bit", Encoding::SevenBit),
            ("quoted printable", Encoding::QuotedPrintable),
            ("Base-64", Encoding::Base64),
            ("", Encoding::SevenBit),
            ("x-uuencode", Encoding::Unknown),
        ] {
            assert_eq!(parse_encoding(value.as_bytes()), encoding, "{value:?}");
        }
    }
}
