//! Words in a segment: what the word before has too is not stored again.
//!
//! A word is a byte that says how many of its first bytes the word before has too, and its other
//! bytes. Words ascend, so neighbours begin alike: this saves more than half of their bytes. The
//! byte is below the bytes of words, so it also separates them. The first word of a block is
//! stored whole, and so a block is read alone.
//!
//! A piece is looked for without unpacking: what the beginning of a word matches of the piece was
//! found at the word before.

use crate::word_set::SEPARATOR;
use crate::words::WORD_MAX;

/// The lowest byte of a word: digits, letters, and bytes of other characters.
const LOWEST: u8 = b'0';

// A word shares fewer bytes than the longest word has.
const _: () = assert!(WORD_MAX < LOWEST as usize);

/// The number of first bytes that two words share.
pub(crate) fn shared_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Appends a word that comes after `before` in its block; `before` is empty for the first one.
/// Returns how many bytes they share.
pub(crate) fn put_word(before: &[u8], word: &[u8], packed: &mut Vec<u8>) -> usize {
    let shared = shared_len(before, word).min(WORD_MAX);
    packed.push(shared as u8);
    packed.extend_from_slice(&word[shared..]);
    shared
}

/// Reads the words of whole blocks, one after the other.
#[derive(Debug)]
pub(crate) struct WordReader<'p> {
    rest: &'p [u8],
    word: Vec<u8>,
}

impl<'p> WordReader<'p> {
    pub(crate) fn new(packed: &'p [u8]) -> Self {
        Self { rest: packed, word: Vec::new() }
    }

    /// Reads the next word. Returns whether there is one.
    pub(crate) fn advance(&mut self) -> bool {
        let Some((&shared, after)) = self.rest.split_first() else { return false };
        let others;
        (others, self.rest) = after.split_at(after.iter().take_while(|byte| **byte >= LOWEST).count());
        // In a damaged segment a word may share more than there is.
        self.word.truncate(usize::from(shared));
        self.word.extend_from_slice(others);
        true
    }

    /// The word that was read last.
    pub(crate) fn word(&self) -> &[u8] {
        &self.word
    }
}

/// A piece of a word that is looked for, as an automaton (Knuth, Morris and Pratt).
pub(crate) struct Matcher {
    /// For each number of bytes of the piece that are matched, the number after one more byte.
    next: Vec<[u8; 256]>,
}

impl Matcher {
    /// For a piece of at most 255 bytes.
    pub(crate) fn new(piece: &[u8]) -> Self {
        let mut next = vec![[0; 256]; piece.len()];
        // What is matched of the piece if its first byte is left out.
        let mut shorter = 0;
        for (at, byte) in piece.iter().map(|byte| usize::from(*byte)).enumerate() {
            next[at] = next[shorter];
            next[at][byte] = at as u8 + 1;
            if at > 0 {
                shorter = usize::from(next[shorter][byte]);
            }
        }
        Self { next }
    }

    /// How much is matched after a byte. What is matched whole stays so.
    fn step(&self, matched: u8, byte: u8) -> u8 {
        self.next.get(usize::from(matched)).map_or(matched, |next| next[usize::from(byte)])
    }

    /// The words of a block that hold the piece, as bits. Separators are before and after a word.
    pub(crate) fn words_with(&self, block: &[u8]) -> u64 {
        let Some((_, rest)) = block.split_first() else { return 0 };
        let mut matched = self.step(0, SEPARATOR);
        // After each byte of the word, and before the first one.
        let mut after = vec![matched];
        let (mut words, mut word) = (0, 1_u64);
        let end = |matched, word| match usize::from(self.step(matched, SEPARATOR)) == self.next.len() {
            true => word,
            false => 0,
        };
        for &byte in rest {
            if byte < LOWEST {
                words |= end(matched, word);
                word <<= 1;
                after.truncate(usize::from(byte) + 1);
                matched = after.last().copied().unwrap_or_default();
            } else {
                matched = self.step(matched, byte);
                after.push(matched);
            }
        }
        words | end(matched, word)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn packed(words: &[&str]) -> Vec<u8> {
        let (mut packed, mut before) = (Vec::new(), "");
        for word in words {
            put_word(before.as_bytes(), word.as_bytes(), &mut packed);
            before = word;
        }
        packed
    }

    /// The words, with separators before, between and after them.
    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let (mut reader, mut words) = (WordReader::new(packed), vec![SEPARATOR]);
        while reader.advance() {
            words.extend_from_slice(reader.word());
            words.push(SEPARATOR);
        }
        words
    }

    #[test]
    fn the_beginning_of_the_word_before_is_not_stored_again() {
        let words = ["ab", "abc", "abd", "b"];
        assert_eq!(packed(&words), b"\0ab\x02c\x02d\0b");
        assert_eq!(unpacked(&packed(&words)), b"\0ab\0abc\0abd\0b\0");
        assert_eq!(unpacked(b""), b"\0");
        let long = "x".repeat(WORD_MAX - 1);
        let (one, other) = (format!("{long}1"), format!("{long}2"));
        let packed = packed(&[&long, &one, &other]);
        assert_eq!(packed.len(), 1 + long.len() + 2 + 2);
        assert_eq!(unpacked(&packed), format!("\0{long}\0{one}\0{other}\0").as_bytes());
    }

    properties! {
        #[test]
        fn words_are_unpacked_as_they_were(
            words in prop::collection::btree_set("[0-9A-Za-cé漢]{1,6}", 0..80),
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let framed: String = words.iter().map(|word| format!("\0{word}")).collect();
            prop_assert_eq!(unpacked(&packed(&words)), format!("{framed}\0").into_bytes());
        }

        /// As a search in the unpacked words finds them.
        #[test]
        fn words_with_a_piece_are_found(
            words in prop::collection::btree_set("[ab]{1,9}", 1..64),
            piece in r"\x00?[ab]{1,5}\x00?",
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let found = Matcher::new(piece.as_bytes()).words_with(&packed(&words));
            for (at, word) in words.iter().enumerate() {
                let holds = format!("\0{word}\0").contains(&piece);
                prop_assert_eq!(found >> at & 1 == 1, holds, "{:?} in {:?}", piece, word);
            }
            prop_assert!(found >> (words.len() - 1) <= 1);
        }

        #[test]
        fn any_bytes_are_some_words(bytes in prop::collection::vec(0_u8..60, 0..200)) {
            let words = unpacked(&bytes);
            let _ = Matcher::new(b"\x34\x35").words_with(&bytes);
            prop_assert!(words.len() <= 1 + bytes.len() * (1 + usize::from(u8::MAX)));
            prop_assert!(words.iter().all(|byte| *byte == SEPARATOR || *byte >= LOWEST));
        }
    }
}
