//! The destinations for which a visit may begin, by time.
//!
//! If a key has no room for another visit, the destinations of that key wait behind it. They are
//! not looked at again before it has room. So they delay no other destination, however many they
//! are.

use std::collections::{BTreeSet, HashMap};

use crate::item::Destination;
use crate::keys::Key;

/// A destination, and the time when it is due.
type Entry = (i64, Destination);

/// The destinations, by time.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// Those that wait behind no key.
    ready: BTreeSet<Entry>,
    /// The others, behind each of their keys. A key without destinations has no entry.
    behind: HashMap<Key, BTreeSet<Entry>>,
}

impl Due {
    /// Adds a destination, behind these keys or behind none.
    pub fn insert(&mut self, entry: Entry, keys: &[Key]) {
        for key in keys {
            self.behind.entry(*key).or_default().insert(entry.clone());
        }
        if keys.is_empty() {
            self.ready.insert(entry);
        }
    }

    /// Removes a destination, which waits behind these keys or behind none.
    pub fn remove(&mut self, entry: &Entry, keys: &[Key]) {
        if keys.is_empty() {
            self.ready.remove(entry);
        }
        for key in keys {
            if let Some(entries) = self.behind.get_mut(key) {
                entries.remove(entry);
                if entries.is_empty() {
                    self.behind.remove(key);
                }
            }
        }
    }

    /// The keys behind which destinations wait.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.behind.keys().copied()
    }

    /// The first destination of those that wait behind no key or behind one of these.
    pub fn first(&self, open: &[Key]) -> Option<&Entry> {
        let behind = open.iter().filter_map(|key| self.behind.get(key)?.first());
        self.ready.first().into_iter().chain(behind).min()
    }

    /// The time of the first destination that waits behind no key.
    pub fn next_time(&self) -> Option<i64> {
        self.ready.first().map(|(at, _)| *at)
    }

    /// All destinations with their times, and the keys behind which they wait.
    #[cfg(test)]
    pub fn all(&self) -> Vec<(Entry, Option<Key>)> {
        let behind = self.behind.iter();
        let behind = behind.flat_map(|(key, of_key)| of_key.iter().map(move |one| (one, Some(*key))));
        let all = self.ready.iter().map(|one| (one, None)).chain(behind);
        all.map(|(one, key)| (one.clone(), key)).collect()
    }
}
