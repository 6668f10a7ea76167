//! ANNOTATION of FETCH: RFC 5257 §4.3, §4.4.
//!
//! The texts of annotations are made before the first response is printed. Patterns are compared
//! with every entry, so this happens in steps, and other sessions run between the steps. All of an
//! account's annotations have some MB.

use std::collections::BTreeMap;

use posthaste_directory::MessageAnnotations;
use posthaste_imap_codec::command::FetchItem;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{AnnotationItem, ValueAttribute, ValueKind, ValueScope, print};
use posthaste_mail_model::NumSet;
use posthaste_net::BytePermit;

use super::reader::{AnnotationReader, ByUid, ReadValues, scope_of};
use crate::heavy::Pace;
use crate::reply::{Failure, Reply};

/// Octets of all patterns of one item at most: each is compared with each entry.
const PATTERN_BYTES_MAX: usize = 1024;

/// Entries and patterns of one FETCH at most: those that are named are printed for each message.
const ENTRIES_MAX: usize = 32;

/// Items of one FETCH at most: each has another copy of all values. Clients send one.
const ITEMS_MAX: usize = 2;

/// Steps of comparing two names.
const COMPARED_STEPS: usize = 10;

/// An item of FETCH, printed for each message.
#[derive(Default)]
pub(crate) struct Rendered {
    by_uid: BTreeMap<u32, Vec<u8>>,
    /// The text for all other messages.
    without: Vec<u8>,
    /// Memory for what is printed.
    _paid: Option<BytePermit>,
}

impl std::fmt::Debug for Rendered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rendered({})", self.by_uid.len())
    }
}

impl Rendered {
    /// The item with its value.
    pub(crate) fn of(&self, uid: u32) -> &[u8] {
        self.by_uid.get(&uid).unwrap_or(&self.without)
    }
}

/// Prints each item of the FETCH that requests annotations, in the order of the items.
pub(crate) async fn render(
    reader: AnnotationReader<'_>,
    items: &[FetchItem],
    uids: &NumSet,
) -> Result<Vec<Rendered>, Failure> {
    let wanted = items.iter().filter_map(|item| match item {
        FetchItem::Annotation(item) => Some(item),
        _ => None,
    });
    let wanted: Vec<&AnnotationItem> = wanted.collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    if wanted.len() > ITEMS_MAX {
        let text = format!("A FETCH has at most {ITEMS_MAX} items ANNOTATION");
        return Err(Reply::no(Code::Limit, text).into());
    }
    let patterns = wanted.iter().flat_map(|item| &item.entries).map(|pattern| pattern.as_str().len());
    if patterns.sum::<usize>() > PATTERN_BYTES_MAX {
        let text = format!("The entries of a FETCH have at most {PATTERN_BYTES_MAX} octets");
        return Err(Reply::no(Code::Limit, text).into());
    }
    if wanted.iter().map(|item| item.entries.len()).sum::<usize>() > ENTRIES_MAX {
        let text = format!("A FETCH has at most {ENTRIES_MAX} entries of annotations");
        return Err(Reply::no(Code::Limit, text).into());
    }
    // Memory for the values and for the text of all items, which is held until the last message
    // is printed.
    let made = |all: &MessageAnnotations| wanted.iter().map(|item| text_max(item, all)).sum();
    let ReadValues { by_uid, mut paid } = reader.read_for(Some(uids), &made).await?;
    let mut pace = Pace::default();
    let mut all = Vec::with_capacity(wanted.len());
    for item in wanted {
        let rendered = one(item, &by_uid, &mut pace).await;
        all.push(Rendered { _paid: paid.take(), ..rendered });
    }
    Ok(all)
}

async fn one(item: &AnnotationItem, found: &ByUid, pace: &mut Pace) -> Rendered {
    let without = print_item(item, &MessageAnnotations::default(), pace).await;
    let mut rendered = Rendered { without, ..Rendered::default() };
    for (uid, annotations) in found {
        rendered.by_uid.insert(*uid, print_item(item, annotations, pace).await);
    }
    rendered
}

/// Octets of the item of a message at most.
fn text_max(item: &AnnotationItem, annotations: &MessageAnnotations) -> u64 {
    // Quotes and backslashes of names and values may double them. Each entry has at most four
    // attributes: their names, spaces, sizes and the heads of literals have 40 octets each.
    const ENTRY: usize = 10 + 4 * 40;
    let named = item.entries.iter().filter_map(|pattern| pattern.name());
    let named: usize = named.map(|name| 2 * name.as_str().len() + ENTRY).sum();
    let has_pattern = item.entries.iter().any(|pattern| pattern.name().is_none());
    let matched = if has_pattern { annotations.len() * ENTRY } else { 0 };
    (named + matched + 2 * annotations.octets() + ENTRY + "ANNOTATION ()".len() + "/comment".len()) as u64
}

/// `ANNOTATION (/comment (value.priv "x" value.shared NIL))`. An entry that is named is there, also
/// without a value. A pattern shows the entries that there are.
async fn print_item(item: &AnnotationItem, annotations: &MessageAnnotations, pace: &mut Pace) -> Vec<u8> {
    let mut entries: Vec<String> = Vec::new();
    for pattern in &item.entries {
        if let Some(name) = pattern.name() {
            if !entries.iter().any(|entry| entry == name.as_str()) {
                entries.push(name.as_str().to_owned());
            }
            continue;
        }
        for (_, entry, _) in annotations.iter() {
            // A name has 256 octets at most, and a message 200 values.
            let steps = pattern.as_str().len() * entry.len() + entries.len() * COMPARED_STEPS;
            pace.worked(steps as u64).await;
            if pattern.matches(entry) && !entries.iter().any(|known| known == entry) {
                entries.push(entry.to_owned());
            }
        }
    }
    if entries.is_empty() {
        // RFC 5257 §5: there is at least one entry. An entry without a value is as if omitted.
        entries.push("/comment".to_owned());
    }
    let mut attributes: Vec<(ValueKind, ValueScope)> = Vec::new();
    for ValueAttribute { kind, scope } in &item.attributes {
        for one in ValueScope::BOTH.into_iter().filter(|one| scope.is_none_or(|scope| scope == *one)) {
            if !attributes.contains(&(*kind, one)) {
                attributes.push((*kind, one));
            }
        }
    }
    let mut out = b"ANNOTATION (".to_vec();
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        let before = out.len();
        print::astring(&mut out, entry.as_bytes());
        out.extend_from_slice(b" (");
        for (at, (kind, scope)) in attributes.iter().enumerate() {
            if at > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(kind.name().as_bytes());
            out.extend_from_slice(scope.suffix().as_bytes());
            out.push(b' ');
            let value = annotations.get(scope_of(*scope), entry);
            match kind {
                ValueKind::Value => print::annotation_value(&mut out, value.map(|value| &**value)),
                // RFC 5257 §3.2.2: 0 without a value.
                ValueKind::Size => {
                    let octets = value.map_or(0, |value| value.len());
                    print::quoted(&mut out, octets.to_string().as_bytes());
                }
            }
        }
        out.push(b')');
        // Two values of 64 KiB at most, whose quotes may double them.
        pace.worked((out.len() - before) as u64).await;
    }
    out.push(b')');
    out
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use posthaste_directory::Scope;
    use posthaste_imap_codec::EntryPattern;

    use super::*;

    /// The reserved octets are enough for any names and values.
    #[tokio::test]
    async fn an_item_has_no_more_octets_than_are_paid_for() {
        let quotes = "\"".repeat(300);
        let values = ["", "x", "a\"b\\c", quotes.as_str(), "\r\n", "\0"];
        let names = ["/a", "/b\"c", "/\"\"\"\"\"\"\"\"", "/b/c"];
        let patterns = ["/a", "*", "/%", "/none", "/b*", "/\"\"\"\"\"\"\"\""];
        let both = [ValueKind::Value, ValueKind::Size];
        let attributes = both.map(|kind| ValueAttribute { kind, scope: None }).to_vec();
        let mut checked = 0;
        for count in 0..=names.len() * values.len() {
            let mut all = MessageAnnotations::default();
            for at in 0..count {
                let (name, value) = (names[at % names.len()], values[at / names.len()]);
                let scope = if at % 3 == 0 { Scope::Shared } else { Scope::Private };
                all.set(scope, name, Some(Bytes::from(value.to_owned())));
            }
            for end in 1..=patterns.len() {
                for begin in 0..end {
                    let entries = patterns[begin..end].iter().filter_map(|text| EntryPattern::new(text));
                    let item = AnnotationItem { entries: entries.collect(), attributes: attributes.clone() };
                    let printed = print_item(&item, &all, &mut Pace::default()).await;
                    let max = text_max(&item, &all);
                    assert!(printed.len() as u64 <= max, "{max}: {}", String::from_utf8_lossy(&printed));
                    checked += 1;
                }
            }
        }
        assert_eq!(checked, 25 * 21);
    }
}
