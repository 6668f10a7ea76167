//! Parameters of a structured field: `; name=value` pairs, kept raw and decoded on request.
//!
//! ```abnf
//! parameter := attribute "=" value          ; RFC 2045 §5.1
//! value     := token / quoted-string
//! ```
//! Reading is lenient: an unquoted value may hold spaces, an unfinished quoted string ends with the
//! field. Names with `*` (RFC 2231 continuations and charsets) are kept raw. [`Params::joined`]
//! puts continuations together, as BODYSTRUCTURE shows them; [`Params::decoded`] decodes them, too.

use std::borrow::Cow;

use crate::charset::decode_bytes;
use crate::header::skip_cfws;
use crate::in_bounds::InBounds;
use crate::scan::{is_space, trim_end};
use crate::words::decode_words;

/// The most parameters of one field that are read.
const PARAMS_MAX: usize = 100;

/// One raw parameter, its value without quotes and folding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param<'m> {
    /// The parameter's name in the case in which it was written.
    pub name: &'m [u8],
    /// The parameter's value.
    pub value: Cow<'m, [u8]>,
}

/// The parameters of a field, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Params<'m>(Vec<Param<'m>>);

impl<'m> Params<'m> {
    /// The list without parameters.
    pub const NONE: Params<'static> = Params(Vec::new());

    /// Reads the parameters after the first value of a field: `; name=value` and so on.
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
            let name = bytes.in_bounds(name_start..at);
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

    /// The parameters in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Param<'m>> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same with continuations put together (RFC 2231 §3): `name*0=a; name*1=b` is `name=ab`,
    /// and `name*=…` if a piece is encoded (§4). Charset and percent encoding stay: a value of
    /// BODYSTRUCTURE says in no other way which charset it has. A parameter whose numbers do not
    /// begin with 0, or have a gap, stays unchanged.
    pub fn joined(mut self) -> Self {
        if !self.0.iter().any(|param| piece_of(param.name).is_some()) {
            return self;
        }
        let mut at = 0;
        while let Some(name) = self.0.get(at).map(|param| param.name) {
            if let Some((base, ..)) = piece_of(name) {
                self.join(at, base);
            }
            at += 1;
        }
        self
    }

    /// Puts the pieces of this parameter together, in the place of the first one of them.
    fn join(&mut self, at: usize, base: &'m [u8]) {
        let mut pieces: Vec<(u32, bool, usize)> = Vec::new();
        for (place, param) in self.0.iter().enumerate() {
            match piece_of(param.name) {
                Some((other, number, is_encoded)) if other.eq_ignore_ascii_case(base) => {
                    pieces.push((number, is_encoded, place));
                }
                _ => {}
            }
        }
        pieces.sort_unstable();
        if !pieces.iter().zip(0..).all(|(piece, number)| piece.0 == number) {
            return;
        }
        let is_encoded = pieces.iter().any(|piece| piece.1);
        let mut value = Vec::new();
        if is_encoded && pieces.first().is_some_and(|first| !first.1) {
            // No piece has named the charset.
            value.extend_from_slice(b"''");
        }
        for &(_, is_piece_encoded, place) in &pieces {
            for &byte in self.0[place].value.as_ref() {
                match byte {
                    b'%' if is_encoded && !is_piece_encoded => value.extend_from_slice(b"%25"),
                    _ => value.push(byte),
                }
            }
        }
        // The name with the first `*`, or without it.
        let param = &mut self.0[at];
        let name = param.name.get(..base.len() + usize::from(is_encoded)).unwrap_or(param.name);
        *param = Param { name, value: Cow::Owned(value) };
        let mut place = 0;
        self.0.retain(|_| {
            let is_joined = place != at && pieces.iter().any(|piece| piece.2 == place);
            place += 1;
            !is_joined
        });
    }

    /// The raw value of the first parameter of this name.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|p| p.name.eq_ignore_ascii_case(name.as_bytes())).map(|p| p.value.as_ref())
    }

    /// The value of the parameter as text. RFC 2231 continuations are joined and decoded. Otherwise
    /// it is the plain value with encoded words decoded. RFC 2047 §5 forbids those there, but many
    /// programs write them.
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
            let tail = tail.in_bounds(1..);
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

/// `name*2` and `name*2*` (RFC 2231 §3, §4.1): the name, the number, and whether it is encoded.
fn piece_of(name: &[u8]) -> Option<(&[u8], u32, bool)> {
    let star = memchr::memchr(b'*', name)?;
    let (base, digits) = (name.get(..star)?, name.get(star + 1..)?);
    let (digits, is_encoded) = digits.strip_suffix(b"*").map_or((digits, false), |digits| (digits, true));
    // No zeros before it, so that no number is there twice.
    let is_number =
        digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || digits.first() != Some(&b'0'));
    let number = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
    Some((base, number, is_encoded))
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
    let rest = bytes.in_bounds(at..);
    let token_len =
        rest.iter().position(|&b| is_space(b) || matches!(b, b';' | b'(' | 0)).unwrap_or(rest.len());
    let after = skip_cfws(rest, token_len);
    let is_whole = matches!(rest.get(after), None | Some(b';'));
    let len = if is_whole { token_len } else { memchr::memchr(b';', rest).unwrap_or(rest.len()) };
    let value = trim_end(rest.in_bounds(..len));
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
    let rest = bytes.in_bounds(start..);
    let plain = rest.iter().position(|b| matches!(b, b'"' | b'\\' | b'\r' | b'\n' | 0)).unwrap_or(rest.len());
    if rest.get(plain) == Some(&b'"') {
        return (Cow::Borrowed(rest.in_bounds(..plain)), start + plain + 1);
    }
    let mut content = rest.in_bounds(..plain).to_vec();
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

#[cfg(test)]
mod tests {
    use super::Params;

    #[test]
    fn continuations_are_put_together() {
        for (params, joined) in [
            ("; name*0*=utf-8''%e2%82; name*1*=%ac; name*2=\" 5%\"", "name*=utf-8''%e2%82%ac 5%25"),
            ("; a=1; Name*1=name.txt; x=y; name*0=\"long \"", "a=1 Name=long name.txt x=y"),
            ("; name*0=a; name*1*=%41", "name*=''a%41"),
            ("; name*=utf-8''a%20b; name=plain", "name*=utf-8''a%20b name=plain"),
            // A gap, no beginning, a number twice, no number.
            ("; n*1=b; n*0=a; n*3=d", "n*1=b n*0=a n*3=d"),
            ("; n*1=b", "n*1=b"),
            ("; n*0=a; n*0=b", "n*0=a n*0=b"),
            ("; n*00=a; n**=b; *=c; n*x=d", "n*00=a n**=b *=c n*x=d"),
            ("; n*0=a; m*0=b; n*1=c; m*1=d", "n=ac m=bd"),
        ] {
            let made: Vec<String> = Params::parse(params.as_bytes())
                .joined()
                .iter()
                .map(|p| format!("{}={}", String::from_utf8_lossy(p.name), String::from_utf8_lossy(&p.value)))
                .collect();
            assert_eq!(made.join(" "), joined, "{params}");
        }
    }
}
