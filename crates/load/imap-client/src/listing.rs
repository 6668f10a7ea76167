//! The contents of LIST, STATUS and SEARCH responses, and of response codes.

use posthaste_mail_model::NumSet;

use crate::fetch::{Value, value};
use crate::scan::{leading_number, number, number64};

/// One `* LIST (attributes) delimiter name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The mailbox name as the server writes it (not decoded).
    pub name: String,
    /// The hierarchy delimiter.
    pub delimiter: Option<char>,
    /// Whether it can be selected.
    pub selectable: bool,
}

/// Reads the text after `* LIST `.
pub fn list(text: &[u8]) -> Option<Listed> {
    let (Value::List(attributes), rest) = value(text)? else { return None };
    let (delimiter, rest) = value(rest.strip_prefix(b" ")?)?;
    let (name, _) = value(rest.strip_prefix(b" ")?)?;
    let has = |what: &[u8]| attributes.split(|&b| b == b' ').any(|a| a.eq_ignore_ascii_case(what));
    Some(Listed {
        name: text_of(name)?,
        delimiter: match delimiter {
            Value::String(d) => d.last().map(|&b| char::from(b)),
            _ => None,
        },
        selectable: !has(b"\\Noselect") && !has(b"\\NonExistent"),
    })
}

/// One `* STATUS name (item value …)`: the name and its numbers.
pub fn status(text: &[u8]) -> Option<(String, Vec<(String, u64)>)> {
    let (name, rest) = value(text)?;
    let (Value::List(items), _) = value(rest.strip_prefix(b" ")?)? else { return None };
    let words: Vec<&[u8]> = items.split(|&b| b == b' ').collect();
    let pairs = words
        .chunks_exact(2)
        .filter_map(|pair| match pair {
            [name, n] => Some((String::from_utf8_lossy(name).to_ascii_uppercase(), number64(n)?)),
            _ => None,
        })
        .collect();
    Some((text_of(name)?, pairs))
}

/// The prefix of a user's own mailboxes, from the text after `* NAMESPACE ` (RFC 2342 §5).
pub fn personal_prefix(text: &[u8]) -> Option<String> {
    let (Value::List(personal), _) = value(text)? else { return None };
    let (Value::List(first), _) = value(personal)? else { return None };
    text_of(value(first)?.0)
}

fn text_of(value: Value<'_>) -> Option<String> {
    match value {
        Value::String(s) if s.contains(&b'\\') => Some(unescape(s)),
        Value::String(s) | Value::Atom(s) => Some(String::from_utf8_lossy(s).into_owned()),
        _ => None,
    }
}

fn unescape(quoted: &[u8]) -> String {
    let mut out = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter();
    while let Some(&byte) = bytes.next() {
        out.push(if byte == b'\\' { bytes.next().copied().unwrap_or(byte) } else { byte });
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The numbers of `* SEARCH 2 4 7`.
pub fn search(text: &[u8]) -> Vec<u32> {
    let (mut numbers, mut rest) = (Vec::new(), text);
    while let Some((number, after)) = leading_number(rest)
        && let Some(after) = after.strip_prefix(b" ")
    {
        numbers.push(number);
        rest = after;
    }
    numbers.extend(rest.split(|&b| b == b' ').filter_map(number));
    numbers
}

/// The numbers of `* ESEARCH … ALL 1:3,5` (RFC 4731 §3.1), lowest first, up to this many.
pub fn esearch(text: &[u8], most: usize) -> Vec<u32> {
    let mut words = text.split(|&b| b == b' ');
    let all = words.by_ref().find(|w| *w == b"ALL").and_then(|_| words.next());
    all.and_then(set).map(|set| set.iter().take(most).collect()).unwrap_or_default()
}

/// A set as a server writes it in a response code or VANISHED (no `*`): `4392:4400,5000`.
pub fn set(text: &[u8]) -> Option<NumSet> {
    let mut ranges = Vec::new();
    for part in text.split(|&b| b == b',') {
        let mut ends = part.splitn(2, |&b| b == b':');
        let low = number(ends.next()?)?;
        let high = match ends.next() {
            Some(high) => number(high)?,
            None => low,
        };
        ranges.push((low, high));
    }
    Some(NumSet::from_ranges(ranges))
}

/// The text between the brackets at the start of a condition's text.
pub fn code(text: &str) -> Option<&str> {
    text.strip_prefix('[')?.split_once(']').map(|(code, _)| code)
}

/// `[APPENDUID validity set]` (RFC 4315 §3).
pub fn append_uid(text: &str) -> Option<(u32, NumSet)> {
    let mut words = code(text)?.split(' ');
    if words.next()? != "APPENDUID" {
        return None;
    }
    Some((words.next()?.parse().ok()?, set(words.next()?.as_bytes())?))
}

/// `[COPYUID validity from to]` (RFC 4315 §3): validity of the target, source UIDs, target UIDs.
pub fn copy_uid(text: &str) -> Option<(u32, NumSet, NumSet)> {
    let mut words = code(text)?.split(' ');
    if words.next()? != "COPYUID" {
        return None;
    }
    Some((words.next()?.parse().ok()?, set(words.next()?.as_bytes())?, set(words.next()?.as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_lines() {
        let a = list(br#"(\HasNoChildren \Noselect) "/" "a \"b\"""#).unwrap();
        assert_eq!((a.name.as_str(), a.delimiter, a.selectable), ("a \"b\"", Some('/'), false));
        let b = list(b"() NIL {3}\r\nabc").unwrap();
        assert_eq!((b.name.as_str(), b.delimiter, b.selectable), ("abc", None, true));
        assert_eq!(list(b"nonsense"), None);
    }

    #[test]
    fn status_lines() {
        let (name, items) = status(b"INBOX (MESSAGES 4 UIDNEXT 9)").unwrap();
        assert_eq!((name.as_str(), items[1].1), ("INBOX", 9));
    }

    #[test]
    fn search_lines() {
        assert_eq!(search(b"2 84 4294967295 7"), [2, 84, u32::MAX, 7]);
        assert_eq!(search(b"2 84000 (MODSEQ 9)"), [2, 84_000]);
        assert_eq!(search(b"1 x 123456789012 5x 30"), [1, 30]);
        assert_eq!(search(b""), [] as [u32; 0]);
        assert_eq!(esearch(b"(TAG \"a1\") UID COUNT 3 ALL 1:2,5", 10), [1, 2, 5]);
        assert_eq!(esearch(b"(TAG \"a1\") UID ALL 1:4294967295", 2), [1, 2]);
        assert_eq!(esearch(b"(TAG \"a1\") UID COUNT 0", 10), [] as [u32; 0]);
    }

    #[test]
    fn the_prefix_of_own_mailboxes() {
        let prefix = |text: &[u8]| personal_prefix(text);
        let courier = br##"(("INBOX." ".")) NIL (("#shared." ".")("shared." "."))"##;
        assert_eq!(prefix(courier).as_deref(), Some("INBOX."));
        assert_eq!(prefix(br#"(("" "/")) NIL NIL"#).as_deref(), Some(""));
        assert_eq!(prefix(b"NIL NIL NIL"), None);
        assert_eq!(prefix(b""), None);
    }

    #[test]
    fn codes_with_uids() {
        assert_eq!(append_uid("[APPENDUID 5 7:9] ok").unwrap().1.count(), 3);
        let (validity, from, to) = copy_uid("[COPYUID 1 2,4 8:9] ok").unwrap();
        assert_eq!((validity, from.count(), to.first()), (1, 2, Some(8)));
        assert_eq!(append_uid("[TRYCREATE] no"), None);
    }
}
