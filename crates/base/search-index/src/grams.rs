//! The trigrams of one message, each once.

/// Bytes of a gram. Words that are shorter are in no index.
pub const GRAM_LEN: usize = 3;

/// Bits of a hashed gram: 12 more, the message's number, make 32. Mail has some 30,000 different
/// trigrams, so of 2^20 hashes few stand for two of them.
pub(crate) const HASH_BITS: u32 = 20;

/// Words of the bit map: 128 KiB, so that it stays in a processor's second cache.
const SEEN_WORDS: usize = (1 << HASH_BITS) / 64;

/// Collects the different trigrams of a message. It is used for one message after the other.
#[derive(Debug, Clone)]
pub struct Grams {
    seen: Vec<u64>,
    grams: Vec<u32>,
}

impl Default for Grams {
    fn default() -> Self {
        Self { seen: vec![0; SEEN_WORDS], grams: Vec::new() }
    }
}

/// The hash of a trigram.
fn hash(window: [u8; GRAM_LEN]) -> u32 {
    let [a, b, c] = window;
    // Multiplication with an odd constant spreads the bits upwards, so the upper ones are taken.
    u32::from_le_bytes([a, b, c, 0]).wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)
}

/// The hashed trigrams of a text, in its order.
fn hashes(text: &[u8]) -> impl Iterator<Item = u32> + '_ {
    text.array_windows::<GRAM_LEN>().map(|window| hash(*window))
}

/// The different trigrams of a word.
pub(crate) fn of_word(word: &[u8]) -> Vec<u32> {
    let mut grams: Vec<u32> = hashes(word).collect();
    grams.sort_unstable();
    grams.dedup();
    grams
}

impl Grams {
    /// Adds the trigrams of a folded text. Trigrams that lie across two texts are not in the index:
    /// a text that comes in pieces repeats the last two bytes of the piece before.
    pub fn add(&mut self, folded: &[u8]) {
        for gram in hashes(folded) {
            let Some(word) = self.seen.get_mut(gram as usize / 64) else { continue };
            let bit = 1 << (gram % 64);
            if *word & bit == 0 {
                *word |= bit;
                self.grams.push(gram);
            }
        }
    }

    /// The grams so far, without an order.
    pub(crate) fn all(&self) -> &[u32] {
        &self.grams
    }

    /// How many different grams were added.
    pub fn count(&self) -> usize {
        self.grams.len()
    }

    /// Forgets all: the next message begins.
    pub fn clear(&mut self) {
        for gram in self.grams.drain(..) {
            if let Some(word) = self.seen.get_mut(gram as usize / 64) {
                *word = 0;
            }
        }
    }
}
