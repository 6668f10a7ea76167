//! A bounded map that drops approximately the least recently used entries.
//!
//! It has two generations. A used entry moves to the young one. When the young one is full, it
//! becomes the old one, and the old one is dropped. An entry survives as long as it is used once
//! while `capacity` others are. Every call is constant time, without the links a strict
//! least-recently-used list would keep for each entry.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

/// The map.
pub struct Recent<K, V, S = RandomState> {
    young: HashMap<K, V, S>,
    old: HashMap<K, V, S>,
    /// Entries of one generation.
    capacity: usize,
}

/// For keys that are hashes under a secret key. Strangers cannot choose them to be alike, and
/// another hash costs more than the rest of a look-up.
pub type AsIs = BuildHasherDefault<Hashed>;

/// The first eight octets of a key that is a hash.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, octets: &[u8]) {
        // A slice has its length before it, which is the same for all keys of a map.
        if let Some(first) = octets.first_chunk() {
            self.0 ^= u64::from_ne_bytes(*first);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 ^= hash;
    }
}

impl<K: Hash + Eq + Copy, V: Clone> Recent<K, V> {
    /// Holds the `capacity` entries used last, and at most twice as many.
    pub fn new(capacity: usize) -> Self {
        Self::with_capacity(capacity)
    }
}

impl<K: Hash + Eq + Copy, V: Clone> Recent<K, V, AsIs> {
    /// As [`Recent::new`], for keys that are hashes.
    pub fn of_hashes(capacity: usize) -> Self {
        Self::with_capacity(capacity)
    }
}

impl<K: Hash + Eq + Copy, V: Clone, S: BuildHasher + Default> Recent<K, V, S> {
    fn with_capacity(capacity: usize) -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), capacity: capacity.max(1) }
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

    #[test]
    fn hashes_are_not_hashed_again() {
        for key in [0, 1, u64::MAX / 3] {
            assert_eq!(AsIs::default().hash_one(key), key);
        }
        // Octets of a hash differ anywhere, and their hash is of the first ones.
        let of = |first: u8, last: u8| {
            let mut key = [7; 32];
            (key[0], key[31]) = (first, last);
            key
        };
        let hash = |key: [u8; 32]| AsIs::default().hash_one(key);
        assert_ne!(hash(of(1, 1)), hash(of(2, 1)));
        let mut map = Recent::of_hashes(10);
        map.insert(of(1, 1), "one");
        map.insert(of(1, 2), "two");
        assert_eq!(
            [(1, 1), (1, 2), (2, 1)].map(|(a, b)| map.get(&of(a, b))),
            [Some("one"), Some("two"), None]
        );
    }
}
