//! Annotations of a mailbox or of the server: RFC 5464.

use std::fmt;

use bytes::Bytes;

use crate::cursor::{Cursor, Parsed};
use crate::limits::{ENTRY_NAME_BYTES_MAX, LIST_ITEMS_MAX};

/// The name of an annotation, such as `/private/comment`: RFC 5464 §3.2. It keeps its spelling;
/// names that differ in case only are the same name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EntryName(Box<str>);

impl EntryName {
    /// `None` for a text that is no name: RFC 5464 §3.2. Control characters are those below 0x20
    /// and DEL. (The RFC says "0x00 to 0x19", which is taken as a slip.)
    pub fn new(text: &str) -> Option<Self> {
        let is_char = |b: u8| matches!(b, 0x20..=0x7e) && !matches!(b, b'*' | b'%');
        let is_name = text.starts_with('/') && !text.ends_with('/') && !text.contains("//");
        (is_name && text.bytes().all(is_char)).then(|| Self(text.into()))
    }

    /// The name as it was spelt.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An annotation: a name and its value. `None` is `NIL`: there is no such entry, or it is removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Annotation {
    /// The name of the entry.
    pub name: EntryName,
    /// The value: any octets.
    pub value: Option<Bytes>,
}

/// The depth to which GETMETADATA looks below the requested names: RFC 5464 §4.2.2.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Depth {
    /// Not at all.
    #[default]
    Zero,
    /// One level.
    One,
    /// All levels.
    Infinity,
}

impl Depth {
    /// The depths that exist.
    pub const ALL: [Self; 3] = [Self::Zero, Self::One, Self::Infinity];

    /// The word on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zero => "0",
            Self::One => "1",
            Self::Infinity => "infinity",
        }
    }
}

/// The response codes of `METADATA`: RFC 5464 §5.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MetadataCode {
    /// `LONGENTRIES n`: octets of the longest value that MAXSIZE left out.
    LongEntries(u64),
    /// `MAXSIZE n`: octets that a value may have.
    MaxSize(u64),
    /// `TOOMANY`: there is no room for one more entry.
    TooMany,
    /// `NOPRIVATE`: no private entries here.
    NoPrivate,
}

/// `entry`
pub(crate) fn entry_name(c: &mut Cursor<'_>) -> Parsed<EntryName> {
    let at = c.clone();
    let name = c.astring("the name of an annotation")?;
    if name.len() > ENTRY_NAME_BYTES_MAX {
        return at.limit("The name of the annotation is too long");
    }
    match std::str::from_utf8(&name).ok().and_then(EntryName::new) {
        Some(name) => Ok(name),
        None => at.fail("the name of an annotation, which begins with a slash"),
    }
}

/// `entries`: one name, or several in parentheses.
pub(crate) fn entries(c: &mut Cursor<'_>) -> Parsed<Vec<EntryName>> {
    if c.peek() != Some(b'(') {
        return Ok(vec![entry_name(c)?]);
    }
    let at = c.clone();
    let names = c.list(LIST_ITEMS_MAX, "Too many annotations", entry_name)?;
    if names.is_empty() { at.fail("at least one annotation") } else { Ok(names) }
}

/// `value = nstring / literal8`: RFC 5464 §5.
pub(crate) fn value(c: &mut Cursor<'_>) -> Parsed<Option<Bytes>> {
    let at = c.clone();
    let may_hold_nul = c.peek() == Some(b'~');
    let value = c.nstring_bytes("a string, a literal or NIL")?;
    if !may_hold_nul && value.as_ref().is_some_and(|value| value.contains(&0)) {
        return at.fail("a literal8 (~{n}) for a value with NUL");
    }
    Ok(value)
}

/// `entry-values`: `"(" entry SP value *(SP entry SP value) ")"`.
pub(crate) fn entry_values(c: &mut Cursor<'_>) -> Parsed<Vec<Annotation>> {
    let at = c.clone();
    let values = c.list(LIST_ITEMS_MAX, "Too many annotations", |c| {
        let name = entry_name(c)?;
        c.sp()?;
        Ok(Annotation { name, value: value(c)? })
    })?;
    if values.is_empty() { at.fail("at least one annotation") } else { Ok(values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["/private/comment", "/shared/vendor/x/y z", "/a", "/private/A.b-c_d"] {
            assert_eq!(EntryName::new(name).unwrap().as_str(), name);
        }
        for text in ["", "/", "comment", "//a", "/a//b", "/a/", "/a*", "/a/%", "/a\u{1f}", "/a\u{7f}", "/ü"]
        {
            assert_eq!(EntryName::new(text), None, "{text:?}");
        }
    }
}
