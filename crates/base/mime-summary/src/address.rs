//! Address lists in the form that ENVELOPE has.
//!
//! Names stay raw: unquoted, but encoded words are not decoded, because the client does that. A
//! group is a pair of marks around its members: (NIL NIL "name" NIL) and (NIL NIL NIL NIL).
//! RFC 9051 §7.5.2; syntax RFC 5322 §3.4 with the obsolete forms of §4.4 (routes, names in
//! comments).

use std::borrow::Cow;

use crate::header::skip_cfws;
use crate::in_bounds::InBounds;
use crate::params::read_quoted;
use crate::scan::is_space;

/// Addresses of one message, those of its nested messages included: more than any list that a
/// person wrote. Each takes 96 bytes of memory while the summary is made.
pub const ADDRESSES_MAX: usize = 10_000;

/// Words of one address. The next ones are skipped: no name that a person wrote is so long.
const WORDS_MAX: usize = 1_000;

/// One address, or a mark of a group: without a host it begins a group, without mailbox and host
/// it ends one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Address<'m> {
    /// Display name, unquoted, with encoded words unchanged.
    pub name: Option<Cow<'m, [u8]>>,
    /// Source route (`@a,@b`), obsolete.
    pub route: Option<Cow<'m, [u8]>>,
    /// Local part, or the name of the group that begins.
    pub mailbox: Option<Cow<'m, [u8]>>,
    /// Domain; empty for an address without one.
    pub host: Option<Cow<'m, [u8]>>,
}

/// Reads an address list. Invalid text is skipped up to the next comma.
pub fn address_list(value: &[u8]) -> Vec<Address<'_>> {
    addresses_up_to(ADDRESSES_MAX, value)
}

/// Reads at most this many addresses of a list.
pub(crate) fn addresses_up_to(max: usize, value: &[u8]) -> Vec<Address<'_>> {
    if max == 0 {
        return Vec::new();
    }
    // An address is 96 bytes: a list that grows by doubling would take three times as much for a
    // moment.
    let about = memchr::memchr3_iter(b',', b';', b':', value).take(max).count() + 1;
    let made = Vec::with_capacity(about.min(max));
    let mut reader = Reader { bytes: value, at: 0, made, max, in_group: false, words: Words::default() };
    reader.run();
    reader.made.truncate(max);
    reader.made
}

/// Writes addresses as people write them: `Name <local@domain>, local@domain`, groups as `name:
/// member, member;`. Names are written without quotes, so that a search for a name finds it
/// however it was quoted; comments that are no name are left out.
pub(crate) fn write_addresses(addresses: &[Address<'_>], into: &mut Vec<u8>) {
    let (mut is_first, mut in_group) = (true, false);
    for address in addresses {
        let Some(mailbox) = &address.mailbox else {
            // The end of a group. One may be left out of a list that is too long.
            into.extend_from_slice(if in_group { b";" } else { b"" });
            (is_first, in_group) = (false, false);
            continue;
        };
        if !is_first {
            into.extend_from_slice(b", ");
        }
        is_first = false;
        let Some(host) = &address.host else {
            into.extend_from_slice(mailbox);
            into.extend_from_slice(b": ");
            (is_first, in_group) = (true, true);
            continue;
        };
        let is_angled = address.name.is_some() || address.route.is_some();
        if let Some(name) = &address.name {
            into.extend_from_slice(name);
            into.push(b' ');
        }
        if is_angled {
            into.push(b'<');
        }
        if let Some(route) = &address.route {
            into.extend_from_slice(route);
            into.push(b':');
        }
        into.extend_from_slice(mailbox);
        if !host.is_empty() {
            into.push(b'@');
            into.extend_from_slice(host);
        }
        if is_angled {
            into.push(b'>');
        }
    }
}

/// A word, and its position among the others.
#[derive(Debug)]
struct Word<'m> {
    text: Cow<'m, [u8]>,
    /// Whether white space or a comment came before it.
    is_apart: bool,
    is_quoted: bool,
}

impl Word<'_> {
    /// Whether it is this special, and not a quoted one.
    fn is(&self, special: u8) -> bool {
        #[cfg(test)]
        tests::LOOKED_AT.set(tests::LOOKED_AT.get() + 1);
        !self.is_quoted && *self.text == [special]
    }
}

/// The words collected since the last separator.
#[derive(Default)]
struct Words<'m> {
    all: Vec<Word<'m>>,
    /// Whether one of them is `@`. They are not looked at again for each colon after them.
    has_sign: bool,
    /// The last comment that followed a word.
    comment: Option<Cow<'m, [u8]>>,
}

impl<'m> Words<'m> {
    fn push(&mut self, word: Word<'m>) {
        if self.all.len() < WORDS_MAX {
            self.has_sign |= word.is(b'@');
            self.all.push(word);
        }
    }

    /// Remembers a comment. A comment before all words does not belong to an address.
    fn comment(&mut self, comment: Cow<'m, [u8]>) {
        if !self.all.is_empty() {
            self.comment = Some(comment);
        }
    }

    fn clear(&mut self) {
        self.all.clear();
        self.has_sign = false;
        self.comment = None;
    }

    /// The words as a display name (RFC 5322 §3.2.5).
    fn phrase(&mut self) -> Option<Cow<'m, [u8]>> {
        join(&mut self.all, |_, next| next.is_apart)
    }

    /// Local part and domain: at the last sign outside quotes, without white space and comments
    /// around dots and the sign (RFC 5322 §4.4).
    fn address(&mut self) -> (Cow<'m, [u8]>, Cow<'m, [u8]>) {
        let Some(sign) = self.all.iter().rposition(|word| word.is(b'@')) else {
            return (join(&mut self.all, is_spaced).unwrap_or_default(), Cow::Borrowed(b""));
        };
        let (local, domain) = self.all.split_at_mut(sign);
        let domain = &mut domain[1..];
        (join(local, is_spaced).unwrap_or_default(), join(domain, is_spaced).unwrap_or_default())
    }

    /// The separate words after the domain.
    fn split_off_rest(&mut self) -> Vec<Word<'m>> {
        let Some(sign) = self.all.iter().rposition(|word| word.is(b'@')) else { return Vec::new() };
        let behind = self.all.in_bounds(sign + 1..).windows(2);
        let apart = behind.take_while(|pair| !is_spaced(&pair[0], &pair[1])).count();
        self.all.split_off((sign + 2 + apart).min(self.all.len()))
    }
}

/// Whether white space between two words of an address stays: not around dots and the sign.
fn is_spaced(last: &Word<'_>, next: &Word<'_>) -> bool {
    let begins = !next.is_quoted && next.text.starts_with(b".");
    let ends = !last.is_quoted && last.text.ends_with(b".");
    next.is_apart && !begins && !ends && !next.is(b'@') && !last.is(b'@')
}

/// Words one after the other, with a space where `is_spaced` says so; nothing is copied of one.
fn join<'m>(
    words: &mut [Word<'m>],
    is_spaced: impl Fn(&Word<'_>, &Word<'_>) -> bool,
) -> Option<Cow<'m, [u8]>> {
    let [first, rest @ ..] = words else { return None };
    if rest.is_empty() {
        return Some(std::mem::take(&mut first.text));
    }
    let mut text = first.text.to_vec();
    let mut last = &*first;
    for word in &*rest {
        if is_spaced(last, word) {
            text.push(b' ');
        }
        text.extend_from_slice(&word.text);
        last = word;
    }
    Some(Cow::Owned(text))
}

struct Reader<'m> {
    bytes: &'m [u8],
    at: usize,
    made: Vec<Address<'m>>,
    max: usize,
    in_group: bool,
    words: Words<'m>,
}

impl<'m> Reader<'m> {
    fn run(&mut self) {
        let mut is_apart = false;
        while self.made.len() < self.max {
            let Some(&byte) = self.bytes.get(self.at) else { break };
            let was_apart = std::mem::replace(&mut is_apart, false);
            match byte {
                _ if is_space(byte) || byte == 0 => {
                    self.at += 1;
                    is_apart = true;
                }
                b'(' => {
                    let comment = self.comment();
                    self.words.comment(comment);
                    is_apart = true;
                }
                b'<' => self.angle(),
                // It closes nothing: the address ends before it.
                b'>' => self.at += 1,
                b',' | b';' => {
                    self.at += 1;
                    self.bare();
                    if byte == b';' {
                        self.end_group();
                    }
                }
                b':' if !self.in_group && !self.words.has_sign => {
                    self.at += 1;
                    let name = self.words.phrase().unwrap_or_default();
                    self.words.clear();
                    self.made.push(Address { mailbox: Some(name), ..Address::default() });
                    self.in_group = true;
                }
                _ => {
                    let word = Word { is_apart: was_apart, ..self.word() };
                    self.words.push(word);
                }
            }
        }
        self.bare();
        self.end_group();
    }

    /// One atom or `@`; any byte that means nothing here counts as part of an atom.
    fn atom(&mut self) -> Cow<'m, [u8]> {
        let rest = self.bytes.in_bounds(self.at..);
        let is_end =
            |&b: &u8| is_space(b) || matches!(b, 0 | b'(' | b'"' | b'<' | b'>' | b',' | b';' | b':' | b'@');
        let more = rest.in_bounds(1..);
        let len = match rest.first() {
            Some(b'@') => 1,
            // A domain literal (RFC 5322 §3.4.1) may hold colons.
            Some(b'[') => memchr::memchr3(b']', b',', b'>', rest)
                .map_or(rest.len(), |end| end + usize::from(rest.get(end) == Some(&b']'))),
            _ => 1 + more.iter().position(is_end).unwrap_or(more.len()),
        };
        self.at += len;
        clean(rest.in_bounds(..len))
    }

    /// A comment's content (RFC 5322 §3.2.2), quoted pairs resolved.
    fn comment(&mut self) -> Cow<'m, [u8]> {
        let start = self.at;
        self.at = comment_end(self.bytes, start);
        let content = self.bytes.in_bounds(start + 1..self.at);
        let content = clean(content.strip_suffix(b")").unwrap_or(content));
        if !content.contains(&b'\\') {
            return content;
        }
        let (mut plain, mut rest) = (Vec::with_capacity(content.len()), content.iter());
        while let Some(&byte) = rest.next() {
            plain.extend(if byte == b'\\' { rest.next().copied() } else { Some(byte) });
        }
        Cow::Owned(plain)
    }

    /// `<route:local@domain>` after a display name. If the `>` is missing, the address ends where
    /// another one begins: at a comma, at the end of a group, at another `<`.
    fn angle(&mut self) {
        let name = self.words.phrase().filter(|name| !name.is_empty());
        self.words.clear();
        self.at += 1;
        let (mut route, mut next) = (None, Vec::new());
        let (mut is_apart, mut is_empty) = (false, true);
        while let Some(&byte) = self.bytes.get(self.at) {
            let start = self.at;
            let was_apart = std::mem::replace(&mut is_apart, false);
            match byte {
                b'>' => {
                    self.at += 1;
                    break;
                }
                b';' => break,
                b',' if route.is_some() || !self.route_goes_on() => break,
                b'<' if !is_empty => {
                    next = self.words.split_off_rest();
                    break;
                }
                _ if is_space(byte) || matches!(byte, 0 | b'<') => {
                    self.at += 1;
                    is_apart = true;
                    continue;
                }
                b'(' => {
                    self.at = comment_end(self.bytes, start);
                    is_apart = true;
                    continue;
                }
                // RFC 5322 §4.4: a route begins with a sign and ends with a colon.
                b':' if route.is_none() && self.words.all.first().is_some_and(|word| word.is(b'@')) => {
                    self.at += 1;
                    route = join(&mut self.words.all, |_, _| false);
                    self.words.clear();
                }
                _ => {
                    let is_apart = was_apart && !matches!(byte, b',' | b':');
                    let word = Word { is_apart, ..self.word() };
                    self.words.push(word);
                }
            }
            is_empty = false;
        }
        if !is_empty || name.is_some() {
            let (mailbox, host) = self.words.address();
            self.made.push(Address { name, route, mailbox: Some(mailbox), host: Some(host) });
        }
        self.words.clear();
        for word in next {
            self.words.push(word);
        }
    }

    /// A quoted string, an atom, or one of the separators.
    fn word(&mut self) -> Word<'m> {
        let start = self.at;
        let (text, is_quoted) = match self.bytes.get(start) {
            Some(b'"') => {
                let (text, end) = read_quoted(self.bytes, start);
                self.at = end;
                (text, true)
            }
            Some(b',' | b':') => {
                self.at += 1;
                (Cow::Borrowed(self.bytes.in_bounds(start..self.at)), false)
            }
            _ => (self.atom(), false),
        };
        Word { text, is_apart: false, is_quoted }
    }

    /// Whether the comma is one of a route: another domain with its sign follows, another comma, or
    /// the route's end (RFC 5322 §4.4, obs-domain-list).
    fn route_goes_on(&self) -> bool {
        let next = self.bytes.get(skip_cfws(self.bytes, self.at + 1));
        self.words.all.first().is_some_and(|word| word.is(b'@')) && matches!(next, Some(b'@' | b',' | b':'))
    }

    /// An address without angle brackets; the comment is its name, as in `a@b (Name)`.
    fn bare(&mut self) {
        if !self.words.all.is_empty() {
            let (mailbox, host) = self.words.address();
            let name = self.words.comment.take().filter(|name| !name.is_empty());
            self.made.push(Address { name, route: None, mailbox: Some(mailbox), host: Some(host) });
        }
        self.words.clear();
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

/// The position where the comment that begins at `at` ends.
fn comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut at, mut depth) = (at, 0_u32);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return at,
            b')' => depth -= 1,
            b'\\' => at += 1,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// How often words were compared with a special.
        pub(super) static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn words_are_not_looked_at_again_for_each_colon() {
        const COLONS: usize = 10_000;
        let value = ["a ".repeat(WORDS_MAX - 1), "@".to_owned(), ":".repeat(COLONS)].concat();
        let before = LOOKED_AT.get();
        assert_eq!(address_list(value.as_bytes()).len(), 1);
        let looked_at = LOOKED_AT.get() - before;
        assert!(looked_at < 10 * (WORDS_MAX + COLONS), "{looked_at}");
    }
}
