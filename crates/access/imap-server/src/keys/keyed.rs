//! Hashes of texts and identifiers, for the tables that number them.

use std::hash::{BuildHasher, RandomState};

/// A hash function that no sender knows, so that nobody can choose subjects or identifiers whose
/// places in a table are the same. It is chosen at random for each table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed {
    start: u64,
    factor: u64,
}

impl Default for Keyed {
    fn default() -> Self {
        let random = RandomState::new();
        // An odd factor loses no bit of the lower half of the product.
        Self { start: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }
}

impl Keyed {
    /// The hash of a text: eight bytes at a time, then those that are left.
    pub(super) fn text(self, text: &[u8]) -> u64 {
        let (words, rest) = text.as_chunks::<8>();
        let mut hash = self.start ^ text.len() as u64;
        for word in words {
            hash = self.mixed(hash ^ u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.mixed(self.mixed(hash ^ u64::from_le_bytes(last)))
    }

    /// The hash of a number.
    pub(super) fn number(self, number: u64) -> u64 {
        self.mixed(self.start ^ number)
    }

    /// The two halves of a product, mixed.
    fn mixed(self, value: u64) -> u64 {
        let product = u128::from(value) * u128::from(self.factor);
        product as u64 ^ (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_spread_evenly() {
        let keyed = Keyed::default();
        const PLACES: usize = 1 << 12;
        let mut places = vec![0u32; PLACES];
        for n in 0..8 * PLACES {
            // Texts that differ in few bits, and in their length.
            let text = format!("subject {n:x}{}", "\0".repeat(n % 3));
            places[keyed.text(text.as_bytes()) as usize % PLACES] += 1;
        }
        // Each place has eight on average. The chance that one has 40 is less than one in 10^12.
        assert!(places.iter().all(|count| *count < 40));
        assert_eq!(keyed.text(b"the same"), keyed.text(b"the same"));
        assert_ne!(keyed.text(b"the same"), keyed.text(b"the same\0"));
    }
}
