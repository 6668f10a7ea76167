//! The annotations of one message as values and as bytes.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 1 | version: 1 |
//! | then, for each value in the order of its scope and its entry: | |
//! | 1 | scope: 0 private, 1 shared |
//! | 2 | octets of the entry's name |
//! | … | the name |
//! | 4 | octets of the value |
//! | … | the value |
//!
//! Integers are little-endian.

use std::collections::BTreeMap;

use bytes::Bytes;

/// The form described here.
const VERSION: u8 = 1;
/// Octets of a value in addition to its name and its content.
const VALUE_HEAD: usize = 7;

/// The scope of a value: RFC 5257 §3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Visible to the account that sets it.
    Private,
    /// Visible to everyone who can read the mailbox.
    Shared,
}

impl Scope {
    /// Both scopes.
    pub const ALL: &'static [Self] = &[Self::Private, Self::Shared];
}

/// The values that an account keeps of one message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageAnnotations {
    values: BTreeMap<(Scope, Box<str>), Bytes>,
}

impl MessageAnnotations {
    /// The value of an entry. Names are case-sensitive (RFC 5257 §3.2).
    pub fn get(&self, scope: Scope, entry: &str) -> Option<&Bytes> {
        self.values.get(&(scope, entry.into()))
    }

    /// The values of the message, those of one scope after the other.
    pub fn iter(&self) -> impl Iterator<Item = (Scope, &str, &Bytes)> {
        self.values.iter().map(|((scope, entry), value)| (*scope, &**entry, value))
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the record is empty.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Octets of all names and values.
    pub fn octets(&self) -> usize {
        self.values.iter().map(|((_, entry), value)| entry.len() + value.len()).sum()
    }

    /// Octets of the record that has them; none without a value.
    pub(super) fn record_octets(&self) -> usize {
        match self.is_empty() {
            true => 0,
            false => 1 + self.octets() + self.len() * VALUE_HEAD,
        }
    }

    /// Gives an entry a value, or removes it.
    pub fn set(&mut self, scope: Scope, entry: &str, value: Option<Bytes>) {
        let key = (scope, entry.into());
        match value {
            Some(value) => self.values.insert(key, value),
            None => self.values.remove(&key),
        };
    }

    /// Adds all values of another message, or of another account.
    pub fn merge(&mut self, other: Self) {
        self.values.extend(other.values);
    }

    /// Removes the values of other scopes than these.
    pub fn retain(&mut self, scopes: &[Scope]) {
        self.values.retain(|(of, _), _| scopes.contains(of));
    }

    pub(super) fn parse(bytes: &Bytes) -> Option<Self> {
        let mut values = BTreeMap::new();
        let (&version, mut rest) = bytes.split_first()?;
        if version != VERSION {
            return None;
        }
        while let Some((&scope, after)) = rest.split_first() {
            let scope = match scope {
                0 => Scope::Private,
                1 => Scope::Shared,
                _ => return None,
            };
            let (len, after) = after.split_first_chunk::<2>()?;
            let (entry, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            let entry = std::str::from_utf8(entry).ok()?;
            let (len, after) = after.split_first_chunk::<4>()?;
            let (value, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            values.insert((scope, entry.into()), bytes.slice_ref(value));
            rest = after;
        }
        Some(Self { values })
    }

    /// `None` if a name or a value is longer than any that is taken.
    pub(super) fn print(&self) -> Option<Bytes> {
        let mut bytes = vec![VERSION];
        for ((scope, entry), value) in &self.values {
            bytes.push(match scope {
                Scope::Private => 0,
                Scope::Shared => 1,
            });
            bytes.extend_from_slice(&u16::try_from(entry.len()).ok()?.to_le_bytes());
            bytes.extend_from_slice(entry.as_bytes());
            bytes.extend_from_slice(&u32::try_from(value.len()).ok()?.to_le_bytes());
            bytes.extend_from_slice(value);
        }
        Some(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_case_sensitive_and_scopes_apart() {
        let mut all = MessageAnnotations::default();
        for (scope, entry) in [(Scope::Private, "/a"), (Scope::Shared, "/a"), (Scope::Private, "/A")] {
            all.set(scope, entry, Some(Bytes::from_static(b"x")));
        }
        assert_eq!((all.len(), all.octets()), (3, 9));
        let mut shared = all.clone();
        shared.retain(&[Scope::Shared]);
        assert_eq!(shared.len(), 1);
        all.set(Scope::Private, "/A", None);
        assert!(all.get(Scope::Private, "/A").is_none() && all.get(Scope::Private, "/a").is_some());
    }

    properties! {
        #[test]
        fn bytes_are_values_and_back(
            values in proptest::collection::vec((any::<bool>(), "/[ -~]{0,9}", any::<Vec<u8>>()), 0..6)
        ) {
            let mut all = MessageAnnotations::default();
            for (is_shared, entry, value) in values {
                let scope = if is_shared { Scope::Shared } else { Scope::Private };
                all.set(scope, &entry, Some(value.into()));
            }
            let printed = all.print().unwrap();
            prop_assert!(all.is_empty() || all.record_octets() == printed.len());
            prop_assert_eq!(MessageAnnotations::parse(&printed), Some(all));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = MessageAnnotations::parse(&bytes.into());
        }
    }
}
