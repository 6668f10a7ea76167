//! A bounded map that drops approximately the least recently used entries.
//!
//! It has two generations. A used entry moves to the young one. When the young one is full, it
//! becomes the old one, and the old one is dropped. An entry survives as long as it is used once
//! while `capacity` others are. Every call is constant time, without the links a strict
//! least-recently-used list would keep for each entry.

use std::collections::HashMap;
use std::hash::Hash;

/// The map.
pub struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    /// Entries of one generation.
    capacity: usize,
}

impl<K: Hash + Eq + Copy, V: Clone> Recent<K, V> {
    /// Holds the `capacity` entries used last, and at most twice as many.
    pub fn new(capacity: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), capacity: capacity.max(1) }
    }

    /// The value of a key, which counts as used.
    pub fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let value = self.old.remove(key)?;
        self.insert(*key, value.clone());
        Some(value)
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if self.young.len() >= self.capacity && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_keeps_what_is_used() {
        let mut map = Recent::new(10);
        map.insert(0, "kept");
        for n in 1..1000 {
            map.insert(n, "passing");
            assert!(map.len() <= 20);
            assert_eq!(map.get(&0), Some("kept"));
        }
        assert_eq!(map.get(&1), None);
        assert_eq!(map.get(&999), Some("passing"));
    }
}
