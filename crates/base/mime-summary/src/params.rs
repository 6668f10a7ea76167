//! Parameters of a structured field: `; name=value` pairs, kept as they stand and decoded on
//! request.
//!
//! ```abnf
//! parameter := attribute "=" value          ; RFC 2045 §5.1
//! value     := token / quoted-string
//! ```
//! Reading is lenient: an unquoted value may hold spaces, an unfinished quoted string ends with the
//! field. Names with `*` (RFC 2231 continuations and charsets) are kept raw, because BODYSTRUCTURE
//! shows them so; [`Params::decoded`] puts them together.

use std::borrow::Cow;

use crate::charset::decode_bytes;
use crate::header::skip_cfws;
use crate::scan::{is_space, trim_end};
use crate::words::decode_words;

/// How many parameters of one field are read.
const PARAMS_MAX: usize = 100;

/// One parameter as it stands, the value without quotes and folding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param<'m> {
    /// Its name in the case in which it was written.
    pub name: &'m [u8],
    /// Its value.
    pub value: Cow<'m, [u8]>,
}

/// The parameters of a field, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Params<'m>(Vec<Param<'m>>);

impl<'m> Params<'m> {
    /// No parameters.
    pub const NONE: Params<'static> = Params(Vec::new());

    /// Reads what follows the first value of a field: `; name=value` and so on.
    pub(crate) fn parse(bytes: &'m [u8]) -> Self {
        let mut params = Vec::new();
        let mut at = 0;
        while params.len() < PARAMS_MAX {
            let Some(semicolon) = bytes.get(at..).and_then(|rest| memchr::memchr(b';', rest)) else { break };
            at = skip_cfws(bytes, at + semicolon + 1);
            let name_start = at;
            while bytes.get(at).is_some_and(|&b| !is_space(b) && !matches!(b, b'=' | b';' | b'(')) {
                at += 1;
            }
            let name = bytes.get(name_start..at).unwrap_or_default();
            at = skip_cfws(bytes, at);
            if bytes.get(at) != Some(&b'=') || name.is_empty() {
                continue;
            }
            at = skip_cfws(bytes, at + 1);
            let (value, end) = read_value(bytes, at);
            params.push(Param { name, value });
            at = end;
        }
        Params(params)
    }

    /// All parameters.
    pub fn iter(&self) -> std::slice::Iter<'_, Param<'m>> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the first parameter of this name, as it stands.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|p| p.name.eq_ignore_ascii_case(name.as_bytes())).map(|p| p.value.as_ref())
    }

    /// The value of the parameter as text: RFC 2231 continuations put together and decoded; else
    /// the plain value, with encoded words decoded, which RFC 2047 §5 forbids there and many
    /// programs write.
    pub fn decoded(&self, name: &str) -> Option<String> {
        self.extended(name).or_else(|| self.value(name).map(|value| decode_words(value).into_owned()))
    }

    /// RFC 2231 §3, §4: `name*=`, `name*0=`, `name*0*=`.
    fn extended(&self, name: &str) -> Option<String> {
        let mut pieces: Vec<(u32, bool, &[u8])> = Vec::new();
        for param in &self.0 {
            let Some((head, tail)) = param.name.split_at_checked(name.len()) else { continue };
            if !head.eq_ignore_ascii_case(name.as_bytes()) || tail.first() != Some(&b'*') {
                continue;
            }
            let tail = tail.get(1..).unwrap_or_default();
            let (digits, is_encoded) = match tail.strip_suffix(b"*") {
                Some(digits) => (digits, true),
                None => (tail, tail.is_empty()),
            };
            let number = std::str::from_utf8(digits).ok().and_then(|d| d.parse().ok()).unwrap_or(0);
            pieces.push((number, is_encoded, param.value.as_ref()));
        }
        pieces.sort_by_key(|piece| piece.0);
        let mut charset: &[u8] = b"";
        let mut bytes = Vec::new();
        for (index, &(_, is_encoded, value)) in pieces.iter().enumerate() {
            let mut value = value;
            if index == 0 && is_encoded {
                let mut quoted = value.splitn(3, |&b| b == b'\'');
                if let (Some(label), Some(_), Some(rest)) = (quoted.next(), quoted.next(), quoted.next()) {
                    (charset, value) = (label, rest);
                }
            }
            if is_encoded { percent_decode(value, &mut bytes) } else { bytes.extend_from_slice(value) }
        }
        (!pieces.is_empty()).then(|| decode_bytes(charset, &bytes).into_owned())
    }
}

impl<'m> IntoIterator for Params<'m> {
    type Item = Param<'m>;
    type IntoIter = std::vec::IntoIter<Param<'m>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

fn percent_decode(value: &[u8], into: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        let digits = (byte == b'%').then(|| value.get(at + 1..at + 3)).flatten();
        match digits.and_then(|d| std::str::from_utf8(d).ok()).and_then(|d| u8::from_str_radix(d, 16).ok()) {
            Some(decoded) => {
                into.push(decoded);
                at += 3;
            }
            None => {
                into.push(byte);
                at += 1;
            }
        }
    }
}

/// A value from `at`: a quoted string, or all up to the semicolon or a comment.
fn read_value(bytes: &[u8], at: usize) -> (Cow<'_, [u8]>, usize) {
    if bytes.get(at) == Some(&b'"') {
        return read_quoted(bytes, at);
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let token_len =
        rest.iter().position(|&b| is_space(b) || matches!(b, b';' | b'(' | 0)).unwrap_or(rest.len());
    let after = skip_cfws(rest, token_len);
    let is_whole = matches!(rest.get(after), None | Some(b';'));
    let len = if is_whole { token_len } else { memchr::memchr(b';', rest).unwrap_or(rest.len()) };
    let value = trim_end(rest.get(..len).unwrap_or_default());
    let value = if value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        Cow::Owned(value.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n' | 0)).collect())
    } else {
        Cow::Borrowed(value)
    };
    (value, at + len)
}

/// A quoted string that begins at `at`: its content without escapes and folding, and where it ends.
pub(crate) fn read_quoted(bytes: &[u8], at: usize) -> (Cow<'_, [u8]>, usize) {
    let start = at + 1;
    let rest = bytes.get(start..).unwrap_or_default();
    let plain = rest.iter().position(|b| matches!(b, b'"' | b'\\' | b'\r' | b'\n' | 0)).unwrap_or(rest.len());
    if rest.get(plain) == Some(&b'"') {
        return (Cow::Borrowed(rest.get(..plain).unwrap_or_default()), start + plain + 1);
    }
    let mut content = rest.get(..plain).unwrap_or_default().to_vec();
    let mut at = start + plain;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => break,
            b'\\' => {
                if let Some(&escaped) = bytes.get(at) {
                    if !matches!(escaped, b'\r' | b'\n' | 0) {
                        content.push(escaped);
                    }
                    at += 1;
                }
            }
            b'\r' | b'\n' | 0 => {}
            _ => content.push(byte),
        }
    }
    (Cow::Owned(content), at)
}
