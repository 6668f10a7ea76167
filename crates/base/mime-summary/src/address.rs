//! Address lists in the form that ENVELOPE has.
//!
//! Names stay raw: unquoted, but encoded words are not decoded, because the client does that. A
//! group is a pair of marks around its members: (NIL NIL "name" NIL) and (NIL NIL NIL NIL).
//! RFC 9051 §7.5.2; syntax RFC 5322 §3.4 with the obsolete forms of §4.4 (routes, names in
//! comments).

use std::borrow::Cow;

use crate::header::skip_cfws;
use crate::params::read_quoted;
use crate::scan::{is_space, trim};

/// Addresses of one message, those of its nested messages included: more than any list that a
/// person wrote. Each takes 96 bytes of memory while the summary is made.
pub const ADDRESSES_MAX: usize = 10_000;

/// One address, or a mark of a group: host none begins a group, mailbox and host none end it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Address<'m> {
    /// Display name, unquoted, encoded words as they stand.
    pub name: Option<Cow<'m, [u8]>>,
    /// Source route (`@a,@b`), obsolete.
    pub route: Option<Cow<'m, [u8]>>,
    /// Local part, or the name of the group that begins.
    pub mailbox: Option<Cow<'m, [u8]>>,
    /// Domain; empty for an address without one.
    pub host: Option<Cow<'m, [u8]>>,
}

/// Reads an address list; what makes no sense is skipped up to the next comma.
pub fn address_list(value: &[u8]) -> Vec<Address<'_>> {
    addresses_up_to(ADDRESSES_MAX, value)
}

/// Reads no more than so many addresses of a list.
pub(crate) fn addresses_up_to(max: usize, value: &[u8]) -> Vec<Address<'_>> {
    if max == 0 {
        return Vec::new();
    }
    // An address is 96 bytes: a list that grows by doubling would take three times as much for a
    // moment.
    let about = memchr::memchr3_iter(b',', b';', b':', value).take(max).count() + 1;
    let made = Vec::with_capacity(about.min(max));
    let mut reader = Reader { bytes: value, at: 0, made, max, in_group: false };
    reader.run();
    reader.made.truncate(max);
    reader.made
}

/// The words collected since the last separator.
#[derive(Default)]
struct Words<'m> {
    text: Option<Cow<'m, [u8]>>,
    /// Where the last word ended: words that touch are joined without a space.
    end: usize,
    comment: Option<Cow<'m, [u8]>>,
}

impl<'m> Words<'m> {
    fn push(&mut self, word: Cow<'m, [u8]>, start: usize, end: usize) {
        self.text = Some(match self.text.take() {
            None => word,
            Some(text) => {
                let mut text = text.into_owned();
                if start > self.end {
                    text.push(b' ');
                }
                text.extend_from_slice(&word);
                Cow::Owned(text)
            }
        });
        self.end = end;
    }
}

struct Reader<'m> {
    bytes: &'m [u8],
    at: usize,
    made: Vec<Address<'m>>,
    max: usize,
    in_group: bool,
}

impl<'m> Reader<'m> {
    fn run(&mut self) {
        let mut words = Words::default();
        // Where an unquoted @ stands in the collected text: `user@host` without angle brackets.
        let mut at_sign: Option<usize> = None;
        while self.made.len() < self.max {
            let Some(&byte) = self.bytes.get(self.at) else { break };
            let start = self.at;
            match byte {
                _ if is_space(byte) || byte == 0 => self.at += 1,
                b'(' => {
                    let comment = self.comment();
                    words.comment.get_or_insert(comment);
                }
                b'"' => {
                    let (text, end) = read_quoted(self.bytes, start);
                    self.at = end;
                    words.push(text, start, end);
                }
                b'<' => {
                    let address = self.angle(std::mem::take(&mut words));
                    self.made.extend(address);
                    at_sign = None;
                }
                b',' | b';' => {
                    self.at += 1;
                    self.bare(std::mem::take(&mut words), at_sign.take());
                    if byte == b';' {
                        self.end_group();
                    }
                }
                b':' if !self.in_group && at_sign.is_none() => {
                    self.at += 1;
                    let name = std::mem::take(&mut words).text.unwrap_or_default();
                    self.made.push(Address { mailbox: Some(name), ..Address::default() });
                    self.in_group = true;
                }
                b'@' => {
                    self.at += 1;
                    at_sign = at_sign.or(Some(words.text.as_ref().map_or(0, |t| t.len())));
                    words.end = words.end.max(start);
                    words.push(Cow::Borrowed(b"@"), words.end, self.at);
                    // White space after the sign is no part of the domain.
                    self.at = skip_cfws(self.bytes, self.at).max(self.at);
                    words.end = self.at;
                }
                _ => {
                    self.atom();
                    words.push(
                        Cow::Borrowed(self.bytes.get(start..self.at).unwrap_or_default()),
                        start,
                        self.at,
                    );
                }
            }
        }
        self.bare(words, at_sign);
        self.end_group();
    }

    /// Moves past one atom; any byte that means nothing here counts as one.
    fn atom(&mut self) {
        let rest = self.bytes.get(self.at + 1..).unwrap_or_default();
        let is_end = |&b: &u8| is_space(b) || matches!(b, 0 | b'(' | b'"' | b'<' | b',' | b';' | b':' | b'@');
        self.at += 1 + rest.iter().position(is_end).unwrap_or(rest.len());
    }

    /// A comment's content, without nested parentheses' escapes.
    fn comment(&mut self) -> Cow<'m, [u8]> {
        let start = self.at;
        let mut depth = 0_u32;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'(' => depth += 1,
                b')' if depth == 1 => {
                    return clean(self.bytes.get(start + 1..self.at - 1).unwrap_or_default());
                }
                b')' => depth -= 1,
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        self.at = self.bytes.len();
        clean(self.bytes.get(start + 1..).unwrap_or_default())
    }

    /// `<route:local@domain>` after a display name.
    fn angle(&mut self, words: Words<'m>) -> Option<Address<'m>> {
        let start = self.at + 1;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let mut len = 0;
        while let Some(&byte) = rest.get(len) {
            match byte {
                b'"' => {
                    len = read_quoted(rest, len).1;
                    continue;
                }
                b'>' => break,
                _ => len += 1,
            }
        }
        let inner = trim(rest.get(..len.min(rest.len())).unwrap_or_default());
        self.at = (start + len + 1).min(self.bytes.len());
        let (route, inner) = match inner.first() {
            Some(b'@') => match memchr::memchr(b':', inner) {
                Some(colon) => (inner.get(..colon), inner.get(colon + 1..).unwrap_or_default()),
                None => (None, inner),
            },
            _ => (None, inner),
        };
        let name = words.text.or(words.comment).filter(|name| !name.is_empty());
        if inner.is_empty() && name.is_none() {
            return None;
        }
        let (mailbox, host) = split_address(inner);
        Some(Address { name, route: route.map(clean), mailbox: Some(mailbox), host: Some(host) })
    }

    /// An address without angle brackets; the comment is its name, as in `a@b (Name)`.
    fn bare(&mut self, words: Words<'m>, at_sign: Option<usize>) {
        let Some(text) = words.text else { return };
        let (mailbox, host) = match at_sign {
            Some(at) => split_at(text, at),
            None => (text, Cow::Borrowed(&b""[..])),
        };
        let name = words.comment.filter(|name| !name.is_empty());
        self.made.push(Address { name, route: None, mailbox: Some(mailbox), host: Some(host) });
    }

    fn end_group(&mut self) {
        if std::mem::take(&mut self.in_group) {
            self.made.push(Address::default());
        }
    }
}

/// Without folding and NULs, and trimmed.
fn clean(bytes: &[u8]) -> Cow<'_, [u8]> {
    crate::header::unfold(bytes)
}

fn split_at(text: Cow<'_, [u8]>, at: usize) -> (Cow<'_, [u8]>, Cow<'_, [u8]>) {
    match text {
        Cow::Borrowed(text) => (
            Cow::Borrowed(text.get(..at).unwrap_or_default()),
            Cow::Borrowed(text.get(at + 1..).unwrap_or_default()),
        ),
        Cow::Owned(text) => (
            Cow::Owned(text.get(..at).unwrap_or_default().to_vec()),
            Cow::Owned(text.get(at + 1..).unwrap_or_default().to_vec()),
        ),
    }
}

/// `local@domain` at the last sign outside quotes; the local part unquoted.
fn split_address(inner: &[u8]) -> (Cow<'_, [u8]>, Cow<'_, [u8]>) {
    if inner.first() == Some(&b'"') {
        let (local, end) = read_quoted(inner, 0);
        let after = inner.get(end..).unwrap_or_default();
        let host =
            after.iter().position(|&b| b == b'@').and_then(|at| after.get(at + 1..)).unwrap_or_default();
        return (local, clean(host));
    }
    match memchr::memrchr(b'@', inner) {
        Some(at) => {
            (clean(inner.get(..at).unwrap_or_default()), clean(inner.get(at + 1..).unwrap_or_default()))
        }
        None => (clean(inner), Cow::Borrowed(&b""[..])),
    }
}
