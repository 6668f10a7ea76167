//! Annotations of messages: RFC 5257 §5.

use bytes::Bytes;

use crate::annotation::{EntryName, entry_name, value};
use crate::chars::is_astring_char;
use crate::cursor::{Cursor, Parsed};
use crate::limits::{ENTRY_NAME_BYTES_MAX, LIST_ITEMS_MAX};

/// The scope of a value: RFC 5257 §3.3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ValueScope {
    /// `.priv`: each user's own.
    Private,
    /// `.shared`: the value of all users of the mailbox.
    Shared,
}

impl ValueScope {
    /// The two scopes, in the order in which they are printed.
    pub const BOTH: [Self; 2] = [Self::Private, Self::Shared];

    /// The end of an attribute's name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Private => ".priv",
            Self::Shared => ".shared",
        }
    }
}

/// An attribute of an annotation, without its scope: RFC 5257 §3.2.2.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValueKind {
    /// `value`
    Value,
    /// `size`: octets of the value.
    Size,
}

impl ValueKind {
    /// The beginning of an attribute's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Size => "size",
        }
    }
}

/// An attribute that FETCH requests; without a scope the values of both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ValueAttribute {
    /// The kind of the value.
    pub kind: ValueKind,
    /// The scope; `None` for both.
    pub scope: Option<ValueScope>,
}

/// `ANNOTATION (entries attribs)` of FETCH.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AnnotationItem {
    /// Names of entries, which may have the wildcards `*` and `%`; never empty.
    pub entries: Vec<EntryPattern>,
    /// Never empty.
    pub attributes: Vec<ValueAttribute>,
}

/// A value that STORE or APPEND sets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueChange {
    /// The entry.
    pub entry: EntryName,
    /// The scope.
    pub scope: ValueScope,
    /// The value: any octets; `None` removes it.
    pub value: Option<Bytes>,
}

/// The key `ANNOTATION` of SEARCH: a text in the value of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnnotationKey {
    /// The entries.
    pub entries: EntryPattern,
    /// The scope; `None` for both.
    pub scope: Option<ValueScope>,
    /// The text that the value must contain, or any octets of a literal8.
    pub text: Bytes,
}

/// An entry in a FETCH response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnnotationData {
    /// The entry.
    pub entry: EntryName,
    /// Attributes with their values. `None` if the response only reports that the entry has
    /// changed (RFC 5257 §4.4).
    pub attributes: Vec<(String, Option<Bytes>)>,
}

/// `ANNOTATE` in brackets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AnnotateCode {
    /// `TOOBIG`: a value has too many octets.
    TooBig,
    /// `TOOMANY`: the message has as many annotations as it can have.
    TooMany,
}

/// `ANNOTATIONS` in brackets: the mailbox's support for annotations (RFC 5257 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AnnotationSupport {
    /// `NONE`
    None,
    /// `READ-ONLY`
    ReadOnly,
    /// Octets that a value may have.
    Octets(u32),
}

/// The name of an entry with wildcards: `*` matches anything, `%` anything without `/`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EntryPattern(Box<str>);

impl EntryPattern {
    /// `None` for a text that matches no name.
    pub fn new(text: &str) -> Option<Self> {
        let starts = text.starts_with(['/', '*', '%']);
        let is_pattern = starts && !text.ends_with('/') && !text.contains("//");
        (is_pattern && text.bytes().all(|b| matches!(b, 0x20..=0x7e))).then(|| Self(text.into()))
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, if there is no wildcard in it.
    pub fn name(&self) -> Option<EntryName> {
        EntryName::new(&self.0)
    }

    /// Whether it matches a name. RFC 5257 §3.2: names are case-sensitive.
    pub fn matches(&self, name: &str) -> bool {
        // Which beginnings of the pattern match what was read of the name: one pass, however many
        // wildcards there are. Both have at most 256 octets.
        let pattern = self.0.as_bytes();
        let close = |at: &mut [bool]| {
            for (i, b) in pattern.iter().enumerate() {
                if at[i] && matches!(b, b'*' | b'%') {
                    at[i + 1] = true;
                }
            }
        };
        let (mut at, mut next) = (vec![false; pattern.len() + 1], vec![false; pattern.len() + 1]);
        at[0] = true;
        close(&mut at);
        for b in name.bytes() {
            next.fill(false);
            for (i, p) in pattern.iter().enumerate().filter(|(i, _)| at[*i]) {
                match p {
                    b'*' => next[i] = true,
                    b'%' => next[i] = next[i] || b != b'/',
                    p if *p == b => next[i + 1] = true,
                    _ => {}
                }
            }
            close(&mut next);
            std::mem::swap(&mut at, &mut next);
        }
        at[pattern.len()]
    }
}

impl std::fmt::Debug for EntryPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// `entry-match`
fn entry_pattern(c: &mut Cursor<'_>) -> Parsed<EntryPattern> {
    let at = c.clone();
    let text = match c.peek() {
        Some(b'"' | b'{') => c.astring_text("the name of an annotation")?,
        _ => c.text(c.clone().take_while(is_pattern_char)).inspect(|_| {
            c.take_while(is_pattern_char);
        })?,
    };
    if text.len() > ENTRY_NAME_BYTES_MAX {
        return at.limit("The name of the annotation is too long");
    }
    EntryPattern::new(&text).map_or_else(|| at.fail("the name of an annotation, such as /comment"), Ok)
}

/// `list-char`, as far as a name may have it.
pub(crate) fn is_pattern_char(b: u8) -> bool {
    is_astring_char(b) || matches!(b, b'*' | b'%')
}

/// `attrib`
fn attribute(c: &mut Cursor<'_>) -> Parsed<ValueAttribute> {
    let at = c.clone();
    // RFC 5257 §3.2: names of attributes are case-sensitive.
    let name = c.astring("an attribute")?;
    let of = |kind, scope| Ok(ValueAttribute { kind, scope });
    match &*name {
        b"value" => of(ValueKind::Value, None),
        b"value.priv" => of(ValueKind::Value, Some(ValueScope::Private)),
        b"value.shared" => of(ValueKind::Value, Some(ValueScope::Shared)),
        b"size" => of(ValueKind::Size, None),
        b"size.priv" => of(ValueKind::Size, Some(ValueScope::Private)),
        b"size.shared" => of(ValueKind::Size, Some(ValueScope::Shared)),
        _ => at.fail("value or size, alone or with .priv or .shared"),
    }
}

/// `att-search`; with a scope: `att-sort`.
fn value_attribute(c: &mut Cursor<'_>) -> Parsed<Option<ValueScope>> {
    let at = c.clone();
    match attribute(c)? {
        ValueAttribute { kind: ValueKind::Value, scope } => Ok(scope),
        _ => at.fail("value, value.priv or value.shared"),
    }
}

/// One of these, or several in parentheses.
fn one_or_more<T>(c: &mut Cursor<'_>, item: impl Fn(&mut Cursor<'_>) -> Parsed<T>) -> Parsed<Vec<T>> {
    if c.peek() != Some(b'(') {
        return Ok(vec![item(c)?]);
    }
    let at = c.clone();
    let items = c.list(LIST_ITEMS_MAX, "Too many annotations", item)?;
    if items.is_empty() { at.fail("at least one in the parentheses") } else { Ok(items) }
}

/// `"(" entries SP attribs ")"`
pub(crate) fn annotation_item(c: &mut Cursor<'_>) -> Parsed<AnnotationItem> {
    c.expect(b'(', "(")?;
    let entries = one_or_more(c, entry_pattern)?;
    c.sp()?;
    let attributes = one_or_more(c, attribute)?;
    c.expect(b')', ")")?;
    Ok(AnnotationItem { entries, attributes })
}

/// `entry-match SP att-search SP value`
pub(crate) fn annotation_key(c: &mut Cursor<'_>) -> Parsed<AnnotationKey> {
    let entries = entry_pattern(c)?;
    c.sp()?;
    let scope = value_attribute(c)?;
    c.sp()?;
    // `value = nstring / literal8`; other clients write an atom.
    let is_literal8 = c.peek() == Some(b'~') && c.peek_second() == Some(b'{');
    let text = match c.nil() {
        true => Bytes::new(),
        false if is_literal8 => c.nstring_bytes("the text to search for")?.unwrap_or_default(),
        false => c.astring("the text to search for")?.into_owned().into(),
    };
    Ok(AnnotationKey { entries, scope, text })
}

/// `entry SP att-sort`
pub(crate) fn annotation_sort(c: &mut Cursor<'_>) -> Parsed<(EntryName, ValueScope)> {
    let entry = entry_name(c)?;
    c.sp()?;
    let at = c.clone();
    let scope = value_attribute(c)?;
    scope.map_or_else(|| at.fail("value.priv or value.shared"), |scope| Ok((entry, scope)))
}

/// `"(" entry-att *(SP entry-att) ")"`, as STORE and APPEND have it.
pub(crate) fn value_changes(c: &mut Cursor<'_>) -> Parsed<Vec<ValueChange>> {
    let at = c.clone();
    let mut changes = Vec::new();
    c.list(LIST_ITEMS_MAX, "Too many annotations", |c| {
        let entry = entry_name(c)?;
        c.sp()?;
        let inner = c.clone();
        let before = changes.len();
        c.list(LIST_ITEMS_MAX, "Too many values", |c| {
            let at = c.clone();
            // RFC 5257 §3.3: the client says whose the value is; §3.2.2: the size is read-only.
            let Some(scope) = value_attribute(c)? else { return at.fail("value.priv or value.shared") };
            c.sp()?;
            let at = c.clone();
            let value = value(c)?;
            if changes.len() == LIST_ITEMS_MAX {
                return at.limit("Too many annotations");
            }
            changes.push(ValueChange { entry: entry.clone(), scope, value });
            Ok(())
        })?;
        if changes.len() == before { inner.fail("at least one value") } else { Ok(()) }
    })?;
    if changes.is_empty() { at.fail("at least one annotation") } else { Ok(changes) }
}

/// The result of FETCH, as a client reads it.
pub(crate) fn annotation_data(c: &mut Cursor<'_>) -> Parsed<Vec<AnnotationData>> {
    c.expect(b'(', "annotations in parentheses")?;
    let mut all = Vec::new();
    loop {
        c.spaces();
        if c.eat(b')') {
            return Ok(all);
        }
        let entry = entry_name(c)?;
        c.spaces();
        let mut attributes = Vec::new();
        if c.peek() == Some(b'(') {
            attributes = c.list(usize::MAX, "", |c| {
                let name = c.astring_text("an attribute")?;
                c.sp()?;
                Ok((name, c.nstring_bytes("a string, a literal or NIL")?))
            })?;
        }
        all.push(AnnotationData { entry, attributes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_the_rfc_says() {
        for (pattern, name, matches) in [
            ("/comment", "/comment", true),
            ("/comment", "/Comment", false),
            ("/%", "/comment", true),
            ("/%", "/1/comment", false),
            ("/*", "/1/comment", true),
            ("*", "/vendor/a/b", true),
            ("/1%/comment", "/1.2/comment", true),
            ("/%/comment", "/1.2/flags/comment", false),
            ("/*/c*t", "/1/x/comment", true),
            ("/*a*a*a*a*a*b", &format!("/{}", "a".repeat(250)), false),
        ] {
            assert_eq!(EntryPattern::new(pattern).unwrap().matches(name), matches, "{pattern} {name}");
        }
        for text in ["", "comment", "/a/", "//a", "/\u{fc}"] {
            assert!(EntryPattern::new(text).is_none(), "{text}");
        }
    }
}
