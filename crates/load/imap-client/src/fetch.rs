//! The contents of a FETCH response: an iterator over its items, nothing copied.

use crate::scan::{INLINE_LIMIT, number, number64};

/// A value of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number, flag or other bare word.
    Atom(&'a [u8]),
    /// The text between the parentheses.
    List(&'a [u8]),
    /// A quoted string (escapes as they came) or a literal kept inline.
    String(&'a [u8]),
    /// A literal of this many bytes that went to [`crate::Handler::literal`].
    Streamed(u64),
    /// NIL.
    Nil,
}

/// The items of one FETCH response: name (with its section) and value.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a>(&'a [u8]);

/// Items of what [`crate::Response::Fetch`] carries.
pub fn items(bytes: &[u8]) -> Items<'_> {
    Items(bytes)
}

impl<'a> Iterator for Items<'a> {
    type Item = (&'a [u8], Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.0.trim_ascii_start();
        let name_end = name_length(text)?;
        let (name, rest) = text.split_at_checked(name_end)?;
        let (value, rest) = value(rest.strip_prefix(b" ")?)?;
        self.0 = rest;
        Some((name, value))
    }
}

/// Length of an item's name: to its space, brackets closed (`BODY[HEADER.FIELDS (A B)]<0>`).
fn name_length(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        // Names are short: a loop is faster than a search by vectors.
        at += text.get(at..)?.iter().position(|b| matches!(b, b'[' | b' '))?;
        if text.get(at) == Some(&b' ') {
            return (at > 0).then_some(at);
        }
        at += memchr::memchr(b']', text.get(at..)?)?;
    }
}

/// One value and what follows it. Used by LIST and STATUS too.
pub(crate) fn value(text: &[u8]) -> Option<(Value<'_>, &[u8])> {
    match text.first()? {
        b'(' => {
            let end = list_length(text)?;
            Some((Value::List(text.get(1..end - 1)?), text.get(end..)?))
        }
        b'"' => {
            let end = quoted_length(text)?;
            Some((Value::String(text.get(1..end - 1)?), text.get(end..)?))
        }
        b'{' | b'~' => literal(text),
        _ => {
            let end = text.iter().position(|&b| b == b' ' || b == b')').unwrap_or(text.len());
            let (word, rest) = text.split_at_checked(end)?;
            Some((if word.eq_ignore_ascii_case(b"NIL") { Value::Nil } else { Value::Atom(word) }, rest))
        }
    }
}

fn literal(text: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let text = text.strip_prefix(b"~").unwrap_or(text);
    let close = memchr::memchr(b'}', text)?;
    let bytes = number64(text.get(1..close)?)?;
    let rest = text.get(close + 1..)?;
    let rest = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n"))?;
    if bytes > INLINE_LIMIT {
        return Some((Value::Streamed(bytes), rest));
    }
    let (data, rest) = rest.split_at_checked(bytes as usize)?;
    Some((Value::String(data), rest))
}

/// Length of a quoted string with both quotes.
fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text.get(at) == Some(&b'"') {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Length of a parenthesised list with its parentheses, strings and literals inside skipped.
fn list_length(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0usize, 0usize);
    loop {
        match text.get(at)? {
            b'(' => depth += 1,
            b')' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'"' => {
                at += quoted_length(text.get(at..)?)?;
                continue;
            }
            b'{' => {
                let rest = text.get(at..)?;
                let (_, after) = literal(rest)?;
                at += rest.len() - after.len();
                continue;
            }
            _ => {}
        }
        at += 1;
    }
}

/// The items that a listing usually requests: UID, flags, size and modification sequence of one
/// message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary<'a> {
    /// `UID`
    pub uid: Option<u32>,
    /// Between the parentheses of `FLAGS`.
    pub flags: Option<&'a [u8]>,
    /// `RFC822.SIZE`
    pub size: Option<u64>,
    /// `MODSEQ`
    pub modseq: Option<u64>,
    /// The first `BODY[…]`, `RFC822`, … of the response: its name and value.
    pub body: Option<(&'a [u8], Value<'a>)>,
}

/// The items that a reader waits for. The rest after the last of them is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enough {
    /// `UID`.
    Uid,
    /// `UID` and `FLAGS`.
    UidAndFlags,
    /// All there is.
    Everything,
}

impl Enough {
    /// Whether the summary has all of them.
    fn is_in(self, summary: &Summary<'_>) -> bool {
        match self {
            Self::Uid => summary.uid.is_some(),
            Self::UidAndFlags => summary.uid.is_some() && summary.flags.is_some(),
            Self::Everything => false,
        }
    }
}

impl<'a> Summary<'a> {
    /// Reads the known items and skips the rest.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self::until(bytes, Enough::Everything)
    }

    /// Reads the known items until there are enough of them. Envelopes and bodies after those are
    /// not looked at.
    pub fn until(bytes: &'a [u8], enough: Enough) -> Self {
        let mut summary = Self::default();
        for (name, value) in items(bytes) {
            match (name, value) {
                (b"UID", Value::Atom(n)) => summary.uid = number(n),
                (b"FLAGS", Value::List(flags)) => summary.flags = Some(flags),
                (b"RFC822.SIZE", Value::Atom(n)) => summary.size = number64(n),
                (b"MODSEQ", Value::List(n)) => summary.modseq = number64(n),
                (b"ENVELOPE" | b"BODYSTRUCTURE" | b"INTERNALDATE" | b"BODY", _) => {}
                (name, value) if name.starts_with(b"BODY[") || name.starts_with(b"RFC822") => {
                    summary.body.get_or_insert((name, value));
                }
                _ => {}
            }
            if enough.is_in(&summary) {
                break;
            }
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_all_shapes() {
        let text = b"UID 7 FLAGS (\\Seen $X) ENVELOPE (\"a \\\" )\" NIL ((\"b\" NIL {2}\r\n)) NIL))) \
            BODY[HEADER.FIELDS (A B)] {4}\r\nA: b BODY[]<0> {9999}\r\n RFC822.SIZE 12";
        let all: Vec<_> = items(text).collect();
        assert_eq!(all.len(), 6);
        assert_eq!(all[0], (&b"UID"[..], Value::Atom(b"7")));
        assert_eq!(all[1].1, Value::List(b"\\Seen $X"));
        assert_eq!(all[3], (&b"BODY[HEADER.FIELDS (A B)]"[..], Value::String(b"A: b")));
        assert_eq!(all[4], (&b"BODY[]<0>"[..], Value::Streamed(9999)));
        let summary = Summary::of(text);
        assert_eq!((summary.uid, summary.size), (Some(7), Some(12)));
    }

    #[test]
    fn bytes_after_enough_items_are_not_read() {
        let text = b"UID 7 FLAGS (\\Seen) RFC822.SIZE 12 ENVELOPE (broken";
        let read = |enough| {
            let s = Summary::until(text, enough);
            (s.uid, s.flags.is_some(), s.size)
        };
        assert_eq!(read(Enough::Uid), (Some(7), false, None));
        assert_eq!(read(Enough::UidAndFlags), (Some(7), true, None));
        assert_eq!(read(Enough::Everything), (Some(7), true, Some(12)));
    }

    #[test]
    fn nonsense_ends_the_iteration() {
        for text in [&b"UID"[..], b"UID ", b"X (", b"X (((", b"X \"abc", b"X {5}\r\nab", b"", b" ", b"] [ ("]
        {
            assert!(items(text).count() <= 1);
        }
    }
}
