//! A cache of the most recently used values, within a budget of bytes.

use std::collections::BTreeMap;
use std::hash::Hash;

use foldhash::HashMap;

/// Entries in use cannot be evicted. This is how many of them one round of eviction examines at
/// most. They move to the front, so the next round examines others.
const HELD_LOOKED_AT_MAX: usize = 16;

/// The cost of an entry besides the cost given for it: its places in both maps.
const OVERHEAD_BYTES: usize = 128;

pub(crate) struct Cache<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// By time of last use.
    order: BTreeMap<u64, K>,
    now: u64,
    bytes: usize,
    budget: usize,
}

struct Entry<V> {
    value: V,
    used: u64,
    bytes: usize,
}

impl<K: Copy + Eq + Hash, V> Cache<K, V> {
    pub fn new(budget: usize) -> Self {
        Self { entries: HashMap::default(), order: BTreeMap::new(), now: 0, bytes: 0, budget }
    }

    /// The value, without counting as a use.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|e| &e.value)
    }

    /// The value and the time of its last use, without counting as a use.
    pub fn peek_used(&self, key: &K) -> Option<(&V, u64)> {
        self.entries.get(key).map(|e| (&e.value, e.used))
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|e| &e.value)
    }

    /// The key of a value for which this is true.
    pub fn find(&self, condition: impl Fn(&V) -> bool) -> Option<K> {
        self.entries.iter().find(|(_, entry)| condition(&entry.value)).map(|(key, _)| *key)
    }

    /// The value; counts as a use.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        // A client often uses one value several times. It is the last already.
        if entry.used < self.now {
            self.now += 1;
            self.order.remove(&entry.used);
            entry.used = self.now;
            self.order.insert(self.now, *key);
        }
        Some(&entry.value)
    }

    /// The value, made if it is missing; counts as a use.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> V
    where
        V: Clone,
    {
        if let Some(value) = self.get(&key) {
            return value.clone();
        }
        let value = make();
        self.insert(key, value.clone(), 0);
        value
    }

    pub fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.remove_if(&key, |_| true);
        self.now += 1;
        self.order.insert(self.now, key);
        let bytes = bytes + OVERHEAD_BYTES;
        self.bytes += bytes;
        self.entries.insert(key, Entry { value, used: self.now, bytes });
    }

    pub fn remove_if(&mut self, key: &K, condition: impl FnOnce(&V) -> bool) -> Option<V> {
        if !self.entries.get(key).is_some_and(|e| condition(&e.value)) {
            return None;
        }
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.used);
        self.bytes -= entry.bytes;
        Some(entry.value)
    }

    /// Updates the cost of an entry.
    pub fn set_bytes(&mut self, key: &K, bytes: usize) {
        if let Some(entry) = self.entries.get_mut(key) {
            self.bytes = self.bytes - entry.bytes + bytes + OVERHEAD_BYTES;
            entry.bytes = bytes + OVERHEAD_BYTES;
        }
    }

    /// Evicts the least recently used values until the rest is within the budget.
    pub fn evict(&mut self, is_held: impl Fn(&V) -> bool) -> Vec<V> {
        let mut out = Vec::new();
        let mut held = 0;
        while self.bytes > self.budget && held < HELD_LOOKED_AT_MAX {
            let Some((_, &key)) = self.order.first_key_value() else { break };
            match self.remove_if(&key, |value| !is_held(value)) {
                Some(value) => out.push(value),
                None => {
                    held += 1;
                    self.get(&key);
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first_and_the_held_stay() {
        let mut cache = Cache::new(3 * (OVERHEAD_BYTES + 100));
        for key in 0..3 {
            cache.insert(key, key, 100);
        }
        assert!(cache.evict(|_| false).is_empty());
        cache.get(&0);
        cache.insert(3, 3, 100);
        assert_eq!(cache.evict(|v| *v == 1), [2]);
        cache.set_bytes(&3, 400);
        assert_eq!(cache.evict(|v| *v == 1), [0, 3]);
        assert_eq!(cache.values().collect::<Vec<_>>(), [&1]);
        assert_eq!(cache.bytes, OVERHEAD_BYTES + 100);
    }

    #[test]
    fn a_value_that_was_used_last_keeps_its_place() {
        let mut cache = Cache::new(2 * (OVERHEAD_BYTES + 100));
        for key in 0..2 {
            cache.insert(key, key, 100);
        }
        let now = cache.now;
        assert_eq!(cache.get(&1), Some(&1));
        assert_eq!(cache.now, now, "it was used last");
        for key in [0, 0, 7] {
            assert_eq!(cache.get(&key).is_some(), key == 0);
        }
        assert_eq!((cache.now, cache.order.len()), (now + 1, 2));
        cache.insert(2, 2, 100);
        assert_eq!(cache.evict(|_| false), [1]);
    }
}
