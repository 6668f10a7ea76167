//! Different words, each with a number.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;

/// The byte that is before, between and after words, and in no word.
pub(crate) const SEPARATOR: u8 = 0;

/// Places of the table in which words are looked up, at the beginning.
const PLACES_MIN: usize = 64;

/// Places that are kept for the next message: enough for 8 KiB of text.
const PLACES_KEPT: usize = 4096;

/// Bytes and numbers of words for which memory is kept.
const BYTES_KEPT: usize = 1 << 16;
const WORDS_KEPT: usize = 1 << 12;

/// Bytes of a [`beginning`].
const BEGINNING: usize = 8;

/// The first eight bytes of a word as a number. No word has a zero, so the numbers of different
/// words are in the order of the words, or equal. They are equal only if both words have eight
/// bytes or more.
#[inline]
pub(crate) fn beginning(word: &[u8]) -> u64 {
    match word.first_chunk() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => word.iter().rev().fold(0, |number, byte| number >> 8 | u64::from(*byte) << 56),
    }
}

/// A word with its [`beginning`]. Those who find a word in a text have read it already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word<'w> {
    bytes: &'w [u8],
    beginning: u64,
}

impl<'w> Word<'w> {
    pub(crate) fn new(bytes: &'w [u8]) -> Self {
        Self { bytes, beginning: beginning(bytes) }
    }

    /// A word at the beginning of these eight bytes.
    #[inline]
    pub(crate) fn at_start_of(eight: u64, bytes: &'w [u8]) -> Self {
        let others = u64::MAX.unbounded_shr(8 * bytes.len() as u32);
        Self { bytes, beginning: eight & !others }
    }

    #[cfg(test)]
    pub(crate) fn bytes(self) -> &'w [u8] {
        self.bytes
    }
}

/// Different words, numbered in the order in which they came.
#[derive(Debug, Clone)]
pub(crate) struct WordSet {
    /// A separator, and each word with one after it.
    bytes: Vec<u8>,
    /// The position where each word begins.
    starts: Vec<u32>,
    /// The beginning of each word: most comparisons read nothing else.
    beginnings: Vec<u64>,
    /// Numbers of words, plus 1; 0 for a free place. A word's place is found by its hash.
    table: Vec<u32>,
    /// Keyed, so that no sender can choose words with equal hashes.
    hasher: RandomState,
}

impl Default for WordSet {
    fn default() -> Self {
        Self {
            bytes: vec![SEPARATOR],
            starts: Vec::new(),
            beginnings: Vec::new(),
            table: vec![0; PLACES_MIN],
            hasher: RandomState::default(),
        }
    }
}

impl WordSet {
    /// A separator, and each word with one after it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The word of this number.
    #[inline]
    pub(crate) fn word(&self, number: u32) -> &[u8] {
        let from = self.starts[number as usize] as usize;
        let next = self.starts.get(number as usize + 1).map_or(self.bytes.len(), |next| *next as usize);
        &self.bytes[from..next - 1]
    }

    /// The beginning of each word, by its number.
    pub(crate) fn beginnings(&self) -> &[u64] {
        &self.beginnings
    }

    /// The place where the search for a word begins. No two words are hashed one after the other,
    /// so the length need not be hashed.
    #[inline]
    fn first_place(&self, word: Word<'_>, mask: usize) -> usize {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(word.beginning);
        if let Some(rest) = word.bytes.get(BEGINNING..).filter(|rest| !rest.is_empty()) {
            hasher.write(rest);
        }
        hasher.finish() as usize & mask
    }

    /// Adds a word, unless it is there. Returns its number.
    #[inline]
    pub(crate) fn add(&mut self, word: Word<'_>) -> u32 {
        self.add_parts(word.beginning, word.bytes)
    }

    /// [`Self::add`] with the parts of a word in registers.
    fn add_parts(&mut self, beginning: u64, bytes: &[u8]) -> u32 {
        let word = Word { bytes, beginning };
        let mask = self.table.len() - 1;
        let mut place = self.first_place(word, mask);
        while let Some(number) = self.table[place].checked_sub(1) {
            let is_same = self.beginnings[number as usize] == word.beginning;
            if is_same && (word.bytes.len() < BEGINNING || self.word(number) == word.bytes) {
                return number;
            }
            place = (place + 1) & mask;
        }
        self.push(beginning, bytes, place)
    }

    /// Adds a word that is not there, at its place.
    fn push(&mut self, beginning: u64, bytes: &[u8], place: usize) -> u32 {
        let start = self.bytes.len();
        self.starts.push(start as u32);
        self.beginnings.push(beginning);
        if bytes.len() < BEGINNING {
            // Zeros follow, and the first one is the separator.
            self.bytes.extend_from_slice(&beginning.to_be_bytes());
            self.bytes.truncate(start + bytes.len() + 1);
        } else {
            self.bytes.extend_from_slice(bytes);
            self.bytes.push(SEPARATOR);
        }
        let number = self.starts.len() as u32;
        self.table[place] = number;
        if self.starts.len() * 2 > self.table.len() {
            self.grow();
        }
        number - 1
    }

    #[cold]
    fn grow(&mut self) {
        let mut table = vec![0_u32; self.table.len() * 2];
        let mask = table.len() - 1;
        for (number, beginning) in (0..).zip(&self.beginnings) {
            let word = Word { bytes: self.word(number), beginning: *beginning };
            let mut place = self.first_place(word, mask);
            while table[place] != 0 {
                place = (place + 1) & mask;
            }
            table[place] = number + 1;
        }
        self.table = table;
    }

    /// Forgets all words. The memory for some is kept.
    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(1);
        self.bytes.shrink_to(BYTES_KEPT);
        self.starts.clear();
        self.starts.shrink_to(WORDS_KEPT);
        self.beginnings.clear();
        self.beginnings.shrink_to(WORDS_KEPT);
        self.table.truncate(PLACES_KEPT);
        self.table.shrink_to_fit();
        self.table.fill(0);
    }
}

/// The words of bytes that have separators before, between and after them.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = Word<'_>> + '_ {
    let mut rest = bytes.get(1..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (bytes, after) = rest.split_at_checked(separator_at(rest)?)?;
        let word = match rest.first_chunk() {
            Some(eight) => Word::at_start_of(u64::from_be_bytes(*eight), bytes),
            None => Word::new(bytes),
        };
        rest = after.get(1..)?;
        Some(word)
    })
}

/// The position of the first separator. Eight bytes are looked at together.
#[inline]
fn separator_at(bytes: &[u8]) -> Option<usize> {
    const LOW_BITS: u64 = u64::from_ne_bytes([0x7F; 8]);
    let mut at = 0;
    while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let eight = u64::from_be_bytes(*eight);
        // The upper bit of each byte that is not zero.
        let others = (((eight & LOW_BITS) + LOW_BITS) | eight) & !LOW_BITS;
        if others != !LOW_BITS {
            return Some(at + (others ^ !LOW_BITS).leading_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    rest.iter().position(|byte| *byte == SEPARATOR).map(|found| at + found)
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    properties! {
        #[test]
        fn words_have_the_numbers_of_their_first_place(
            words in prop::collection::vec("[a-cé]{1,3}|[ab]{7,10}|b{14,18}", 0..300),
        ) {
            let (mut set, mut known) = (WordSet::default(), Vec::<&str>::new());
            for _ in 0..2 {
                for word in &words {
                    let number = known.iter().position(|other| other == word).unwrap_or(known.len());
                    prop_assert_eq!(set.add(Word::new(word.as_bytes())) as usize, number);
                    known.extend((number == known.len()).then_some(word.as_str()));
                }
                prop_assert_eq!(set.len(), known.len());
                let listed: Vec<&[u8]> = self::words(set.bytes()).map(Word::bytes).collect();
                prop_assert_eq!(&listed, &known.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
                for (number, word) in (0..).zip(&listed) {
                    prop_assert_eq!(set.word(number), *word);
                }
                set.clear();
                known.clear();
            }
        }

        #[test]
        fn beginnings_are_in_the_order_of_their_words(
            a in prop::collection::vec(1_u8.., 0..12),
            b in prop::collection::vec(1_u8.., 0..12),
        ) {
            let eight = |word: &[u8]| word[..word.len().min(8)].to_vec();
            prop_assert_eq!(beginning(&a).cmp(&beginning(&b)), eight(&a).cmp(&eight(&b)));
        }
    }
}
