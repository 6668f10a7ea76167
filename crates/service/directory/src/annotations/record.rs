//! The annotations of one mailbox as values and as bytes.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 1 | version: 1 |
//! | then, for each entry in the order of its name in small letters: | |
//! | 2 | octets of the name |
//! | … | the name, as it was spelt |
//! | 4 | octets of the value |
//! | … | the value |
//!
//! Integers are little-endian.

use std::collections::BTreeMap;

use bytes::Bytes;

/// The form described here.
const VERSION: u8 = 1;

/// The annotations of a mailbox, or those of the server that belong to one account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotations {
    /// By their names in small letters.
    entries: BTreeMap<String, Entry>,
}

/// An annotation: a name and a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The entry's name, as it was spelt when it was first set.
    pub name: String,
    /// Any octets.
    pub value: Bytes,
}

impl Annotations {
    /// The value of an entry, by its name in any spelling.
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        if self.is_empty() {
            // Nearly no mailbox has any: no name is copied for them.
            return None;
        }
        self.entries.get(&name.to_ascii_lowercase()).map(|entry| &entry.value)
    }

    /// The entries, by their names.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the record is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Gives an entry a value, or removes it. An entry keeps the spelling of its name.
    pub fn set(&mut self, name: &str, value: Option<Bytes>) {
        let key = name.to_ascii_lowercase();
        match (value, self.entries.get_mut(&key)) {
            (Some(value), Some(entry)) => entry.value = value,
            (Some(value), None) => {
                self.entries.insert(key, Entry { name: name.to_owned(), value });
            }
            (None, _) => {
                self.entries.remove(&key);
            }
        }
    }

    /// Octets of all names and values.
    pub fn octets(&self) -> usize {
        self.iter().map(|entry| entry.name.len() + entry.value.len()).sum()
    }

    /// From the bytes of a record; values share their memory. `None` if they are not in the form
    /// described above.
    pub(super) fn parse(record: &Bytes) -> Option<Self> {
        let mut rest = record.clone();
        if rest.is_empty() || rest.split_to(1) != [VERSION].as_slice() {
            return None;
        }
        let mut entries = BTreeMap::new();
        while !rest.is_empty() {
            let len = u16::from_le_bytes(take(&mut rest, 2)?.as_ref().try_into().ok()?);
            let name = take(&mut rest, len.into())?;
            let name = str::from_utf8(&name).ok()?.to_owned();
            let len = u32::from_le_bytes(take(&mut rest, 4)?.as_ref().try_into().ok()?);
            let value = take(&mut rest, usize::try_from(len).ok()?)?;
            let key = name.to_ascii_lowercase();
            if entries.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return None;
            }
            entries.insert(key, Entry { name, value });
        }
        Some(Self { entries })
    }

    /// The bytes of a record. `None` for a name or a value that the form cannot hold.
    pub(super) fn print(&self) -> Option<Bytes> {
        let mut out = Vec::with_capacity(1 + self.octets() + 6 * self.len());
        out.push(VERSION);
        for Entry { name, value } in self.iter() {
            out.extend_from_slice(&u16::try_from(name.len()).ok()?.to_le_bytes());
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&u32::try_from(value.len()).ok()?.to_le_bytes());
            out.extend_from_slice(value);
        }
        Some(out.into())
    }
}

fn take(rest: &mut Bytes, len: usize) -> Option<Bytes> {
    (len <= rest.len()).then(|| rest.split_to(len))
}

#[cfg(test)]
mod tests {
    use posthaste_property::{one_of, properties};
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    /// Names, some of them the same in another spelling.
    fn name() -> impl Strategy<Value = String> {
        one_of!["/private/[a-cA-C]{1,2}", "/shared/[!-~]{0,300}"]
    }

    fn annotations() -> impl Strategy<Value = Annotations> {
        vec((name(), option::weighted(0.8, vec(any::<u8>(), 0..40))), 0..20).prop_map(|sets| {
            let mut annotations = Annotations::default();
            for (name, value) in sets {
                annotations.set(&name, value.map(Bytes::from));
            }
            annotations
        })
    }

    properties! {
        #[test]
        fn printed_records_parse_to_the_same(annotations in annotations()) {
            let record = annotations.print().unwrap();
            prop_assert_eq!(Annotations::parse(&record), Some(annotations));
        }

        #[test]
        fn parsed_records_print_to_the_same(mut record in annotations().prop_map(|a| a.print().unwrap().to_vec()),
                                   cut in any::<prop::sample::Index>(), flip in any::<u8>()) {
            let at = cut.index(record.len());
            record[at] ^= flip;
            for record in [Bytes::from(record[..at].to_vec()), Bytes::from(record)] {
                if let Some(annotations) = Annotations::parse(&record) {
                    prop_assert_eq!(annotations.print(), Some(record));
                }
            }
        }
    }

    #[test]
    fn a_name_has_one_value_in_whatever_spelling() {
        let mut annotations = Annotations::default();
        annotations.set("/Private/Comment", Some("a".into()));
        annotations.set("/private/comment", Some("b".into()));
        assert_eq!(annotations.get("/PRIVATE/comment").unwrap(), "b");
        assert_eq!(
            annotations.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(),
            ["/Private/Comment"]
        );
        annotations.set("/PRIVATE/COMMENT", None);
        assert!(annotations.is_empty());
    }

    #[test]
    fn a_record_that_is_not_ours_is_refused() {
        for bytes in [&b""[..], &[2], &[1, 5, 0, b'/'], &[1, 1, 0, b'/', 9, 0, 0, 0, 1]] {
            assert_eq!(Annotations::parse(&Bytes::copy_from_slice(bytes)), None, "{bytes:?}");
        }
    }
}
