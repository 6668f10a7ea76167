//! Strings of a script: constant, or with variables in them. RFC 5228 §2.4.2.4, RFC 5229 §3.

use posthaste_mime_summary::InBounds;

use crate::error::{CompileError, Position};

/// A string as a run reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text {
    Constant(Box<str>),
    Pieces(Box<[Piece]>),
}

/// A piece of a string with variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(Box<str>),
    Variable(Variable),
    /// `${1}`: what the last match took.
    Match(usize),
}

/// The place of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Variable {
    /// In the run of this script, by its number.
    Local(u16),
    /// In the whole run, by its name in lower case (RFC 6609 §3.4).
    Global(Box<str>),
}

impl Text {
    pub(crate) fn constant(&self) -> Option<&str> {
        match self {
            Text::Constant(text) => Some(text),
            Text::Pieces(_) => None,
        }
    }
}

/// The reference between `${` and `}`.
pub(crate) enum Reference<'s> {
    /// A number.
    Match(usize),
    /// `name`, or `namespace.name` as two parts.
    Name(Option<&'s str>, &'s str),
}

/// Cuts a string into literals and references. Text that is no valid reference is literal (RFC
/// 5229 §3).
pub(crate) fn split<'s>(source: &'s str, mut piece: impl FnMut(Result<Reference<'s>, &'s str>)) {
    let mut literal_start = 0;
    let mut at = 0;
    while let Some(found) = source.get(at..).and_then(|rest| rest.find("${")) {
        let start = at + found;
        match reference(source.in_bounds(start + 2..)) {
            Some((reference, len)) => {
                piece(Err(source.in_bounds(literal_start..start)));
                piece(Ok(reference));
                at = start + 2 + len;
                literal_start = at;
            }
            None => at = start + 1,
        }
    }
    piece(Err(source.in_bounds(literal_start..)));
}

/// variable-ref = "${" [namespace] variable-name "}"; returns how long it is with its brace.
fn reference(rest: &str) -> Option<(Reference<'_>, usize)> {
    let end = rest.bytes().position(|b| !b.is_ascii_alphanumeric() && b != b'_' && b != b'.')?;
    let inside = rest.get(..end).filter(|_| rest.as_bytes().get(end) == Some(&b'}'))?;
    if !inside.is_empty() && inside.bytes().all(|b| b.is_ascii_digit()) {
        // A number beyond what can be counted is a match variable that is empty.
        return Some((Reference::Match(inside.parse().unwrap_or(usize::MAX)), end + 1));
    }
    let (namespace, name) = match inside.split_once('.') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, inside),
    };
    let is_name = |name: &str| {
        !name.is_empty()
            && name.split('.').all(|part| is_identifier(part) || part.bytes().all(|b| b.is_ascii_digit()))
    };
    (is_identifier(namespace.unwrap_or(name)) && is_name(name))
        .then_some((Reference::Name(namespace, name), end + 1))
}

/// RFC 5229 §3: a letter or an underscore first.
pub(crate) fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Undoes `${hex:…}` and `${unicode:…}`. RFC 5228 §2.4.2.4.
pub(crate) fn decode_characters(source: &str, place: Position) -> Result<String, CompileError> {
    let mut bytes = Vec::with_capacity(source.len());
    let mut rest = source;
    while let Some(found) = rest.find("${") {
        let (before, after) = rest.split_at(found);
        bytes.extend_from_slice(before.as_bytes());
        match encoded(after, place)? {
            Some((decoded, len)) => {
                bytes.extend_from_slice(&decoded);
                rest = after.in_bounds(len..);
            }
            None => {
                bytes.extend_from_slice(b"${");
                rest = after.in_bounds(2..);
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    let made = String::from_utf8(bytes).map_err(|_| {
        CompileError::new(place, "the bytes of ${hex:} are no UTF-8: write the character with ${unicode:}")
    })?;
    match made.contains('\0') {
        true => Err(CompileError::new(place, "the string has a NUL, which no string may have")),
        false => Ok(made),
    }
}

/// The bytes of one encoded sequence, and how long it is; `None` if it is literal.
fn encoded(source: &str, place: Position) -> Result<Option<(Vec<u8>, usize)>, CompileError> {
    let Some(end) = source.find('}') else { return Ok(None) };
    let inside = source.in_bounds(2..end);
    let Some((kind, digits)) = inside.split_once(':') else { return Ok(None) };
    let is_hex = kind.eq_ignore_ascii_case("hex");
    if !is_hex && !kind.eq_ignore_ascii_case("unicode") {
        return Ok(None);
    }
    let mut decoded = Vec::new();
    let mut words = digits.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()).peekable();
    if words.peek().is_none() {
        return Ok(None);
    }
    for word in words {
        if !word.bytes().all(|b| b.is_ascii_hexdigit()) || is_hex && word.len() > 2 {
            return Ok(None);
        }
        let value = u32::from_str_radix(word, 16).ok();
        match (is_hex, value.and_then(char::from_u32)) {
            (true, _) => decoded.push(value.unwrap_or_default() as u8),
            (false, Some(c)) => decoded.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            // RFC 5228 §2.4.2.4: a value outside of Unicode is an error.
            (false, None) => {
                let message = format!(
                    "{word:?} is not a character of Unicode: write a number up to 10FFFF outside D800 to DFFF"
                );
                return Err(CompileError::new(place, message));
            }
        }
    }
    Ok(Some((decoded, end + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_characters() {
        let place = Position { line: 1, column: 1 };
        for (source, expected) in [
            ("$${hex:40}", "$@"),
            ("${hex: 40 }", "@"),
            ("${HEX: 40}", "@"),
            ("${hex:40", "${hex:40"),
            ("${hex:400}", "${hex:400}"),
            ("${hex:4${hex:30}}", "${hex:40}"),
            ("${unicode:40}", "@"),
            ("${ unicode:40}", "${ unicode:40}"),
            ("${UNICODE:40}", "@"),
            ("${UnICoDE:0000fc 41}", "üA"),
            ("${Unicode:40 xx}", "${Unicode:40 xx}"),
            ("${hex:c3 bc}", "ü"),
            ("${hex:}", "${hex:}"),
        ] {
            assert_eq!(decode_characters(source, place).unwrap(), expected, "{source}");
        }
        for source in ["${unicode:200000}", "${unicode:DF01}", "${hex:ff}", "${hex:00}"] {
            assert!(decode_characters(source, place).is_err(), "{source}");
        }
    }

    #[test]
    fn references() {
        let show = |source: &str| {
            let mut made = String::new();
            split(source, |piece| match piece {
                Ok(Reference::Match(n)) => made.push_str(&format!("<{n}>")),
                Ok(Reference::Name(namespace, name)) => {
                    made.push_str(&format!("<{}|{name}>", namespace.unwrap_or_default()));
                }
                Err(literal) => made.push_str(literal),
            });
            made
        };
        for (source, expected) in [
            ("&%${}!", "&%${}!"),
            ("${doh!}", "${doh!}"),
            ("${company}", "<|company>"),
            ("a${1}b${02}", "a<1>b<2>"),
            ("${${name}}", "${<|name>}"),
            ("${global.x}", "<global|x>"),
            ("${1x}", "${1x}"),
            ("${a", "${a"),
            ("${a.}", "${a.}"),
        ] {
            assert_eq!(show(source), expected, "{source}");
        }
    }
}
