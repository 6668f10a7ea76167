//! Different texts of one sort key, each kept once, and their order.
//!
//! Messages refer to a text by its number. So equal subjects take memory once, and a sort compares
//! ranks, which are numbers, instead of texts.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};

use sha2::{Digest, Sha256};

use crate::heavy::Pace;

/// Bytes of a text that are kept. A longer one keeps its beginning and a digest of the whole. So
/// equal texts stay equal and different ones different. Those that differ only behind the beginning
/// stand next to each other, in an order that means nothing and is always the same.
const TEXT_BYTES_MAX: usize = 1000;
/// Bytes of such a digest.
const DIGEST_LEN: usize = 16;

/// Texts that are sorted in one go, without a pause: some 10,000 comparisons.
const RUN: usize = 1024;
/// Steps of a comparison, and of reading both texts, which mostly are not in the processor's cache.
const COMPARE_STEPS: u64 = 40;
/// Comparisons between two looks at the pace.
const COMPARES_PER_REST: usize = 4096;

/// A text with its first eight bytes, which mostly decide.
type Head = (u64, u32);

/// The texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    /// Where each text ends.
    ends: Vec<usize>,
    /// Part of each text's hash.
    hashes: Vec<u32>,
    /// Open addressing: 0, or the number of a text and 1. A power of two, at least a quarter of it
    /// free.
    slots: Vec<u32>,
    /// Keyed at random: no sender can choose subjects that collide.
    hasher: RandomState,
    /// The texts that have a rank, in order.
    sorted: Vec<Head>,
    /// Rank of each text.
    ranks: Vec<u32>,
}

impl Texts {
    /// Prepares for this many more texts.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.ends.reserve(more);
        self.hashes.reserve(more);
        let wanted = (self.ends.len() + more) * 4 / 3 + 1;
        if self.slots.len() < wanted {
            self.grow(wanted);
        }
    }

    /// The number of this text.
    pub(crate) fn number(&mut self, text: &[u8]) -> u32 {
        let whole = self.hasher.hash_one(text);
        if text.len() <= TEXT_BYTES_MAX {
            return self.find_or_add(text, whole);
        }
        let (start, _) = text.split_at(TEXT_BYTES_MAX - DIGEST_LEN);
        let digest = Sha256::digest(text);
        let (digest, _) = digest.split_at(DIGEST_LEN);
        self.find_or_add(&[start, digest].concat(), whole)
    }

    fn find_or_add(&mut self, text: &[u8], hash: u64) -> u32 {
        if self.slots.len() <= (self.ends.len() + 1) * 4 / 3 {
            self.grow((self.ends.len() + 1) * 2);
        }
        let (short, mask) = (hash as u32, self.slots.len() - 1);
        let mut at = hash as usize & mask;
        loop {
            match self.slots.get(at).copied().unwrap_or(0).checked_sub(1) {
                Some(number)
                    if self.hashes.get(number as usize) == Some(&short) && self.text(number) == text =>
                {
                    return number;
                }
                Some(_) => at = (at + 1) & mask,
                None => break,
            }
        }
        let number = self.ends.len() as u32;
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = number + 1;
        }
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        self.hashes.push(short);
        number
    }

    /// Makes at least this many slots.
    fn grow(&mut self, wanted: usize) {
        let len = wanted.next_power_of_two().max(16);
        self.slots = vec![0; len];
        // Hashes have 32 bits. With more slots than that, neighbours only collide more often.
        for (number, hash) in (1u32..).zip(&self.hashes) {
            let mut at = *hash as usize & (len - 1);
            while self.slots.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) & (len - 1);
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = number;
            }
        }
    }

    /// How many texts there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A text by its number.
    pub(crate) fn text(&self, number: u32) -> &[u8] {
        let number = number as usize;
        debug_assert!(number < self.ends.len(), "no text has number {number}");
        let start = if number == 0 { 0 } else { self.ends.get(number - 1).copied().unwrap_or(0) };
        let end = self.ends.get(number).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * 8
            + (self.hashes.capacity() + self.slots.capacity() + self.ranks.capacity()) * 4
            + self.sorted.capacity() * size_of::<Head>()
    }

    /// The rank of each text, by its number. [`rank`](Self::rank) was called after the last new
    /// text.
    pub(crate) fn ranks(&self) -> &[u32] {
        debug_assert_eq!(self.ranks.len(), self.ends.len(), "texts without a rank");
        &self.ranks
    }

    /// Ranks the texts: those that have no rank yet are sorted and merged with the others.
    pub(crate) async fn rank(&mut self, pace: &mut Pace) {
        let first = self.sorted.len();
        if first == self.ends.len() {
            return;
        }
        let mut new = Vec::with_capacity(self.ends.len() - first);
        new.extend((first as u32..self.ends.len() as u32).map(|number| self.head(number)));
        pace.worked((new.len() as u64).min(crate::heavy::SLICE_STEPS)).await;
        let new = self.sort(new, pace).await;
        self.sorted = match first {
            0 => new,
            _ => self.merge_into(&new, pace).await,
        };
        self.ranks.resize(self.ends.len(), 0);
        for (rank, (_, number)) in (0u32..).zip(&self.sorted) {
            if let Some(slot) = self.ranks.get_mut(*number as usize) {
                *slot = rank;
            }
            if (rank as usize).is_multiple_of(COMPARES_PER_REST) {
                pace.worked(COMPARES_PER_REST as u64 * 2).await;
            }
        }
    }

    fn head(&self, number: u32) -> Head {
        let text = self.text(number);
        let mut head = [0; 8];
        head.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        (u64::from_be_bytes(head), number)
    }

    /// RFC 5256 §2: byte by byte, after folding.
    fn compare(&self, a: &Head, b: &Head) -> Ordering {
        a.0.cmp(&b.0).then_with(|| self.text(a.1).cmp(self.text(b.1)))
    }

    /// Sorts runs, then merges them, two by two. It may pause between any two comparisons.
    async fn sort(&self, mut from: Vec<Head>, pace: &mut Pace) -> Vec<Head> {
        for run in from.chunks_mut(RUN) {
            run.sort_unstable_by(|a, b| self.compare(a, b));
            let compares = run.len() as u64 * u64::from(run.len().ilog2());
            pace.worked(compares * COMPARE_STEPS).await;
        }
        let mut width = RUN;
        while width < from.len() {
            let mut to = Vec::with_capacity(from.len());
            for pair in from.chunks(2 * width) {
                let (a, b) = pair.split_at(width.min(pair.len()));
                self.merge(a, b, &mut to, pace).await;
            }
            from = to;
            width *= 2;
        }
        from
    }

    async fn merge(&self, a: &[Head], b: &[Head], to: &mut Vec<Head>, pace: &mut Pace) {
        let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
        let mut compares = 0;
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let next = if self.compare(x, y) == Ordering::Greater { b.next() } else { a.next() };
            to.extend(next);
            compares += 1;
            if compares == COMPARES_PER_REST {
                pace.worked(COMPARES_PER_REST as u64 * COMPARE_STEPS).await;
                compares = 0;
            }
        }
        to.extend(a);
        to.extend(b);
        pace.worked(compares as u64 * COMPARE_STEPS).await;
    }

    /// The ranked texts and these, in order. The place of each is searched for, so that a few new
    /// texts among many cost few comparisons.
    async fn merge_into(&self, new: &[Head], pace: &mut Pace) -> Vec<Head> {
        let mut all = Vec::with_capacity(self.sorted.len() + new.len());
        let mut rest = self.sorted.as_slice();
        for head in new {
            let before = rest.partition_point(|old| self.compare(old, head) == Ordering::Less);
            let (less, more) = rest.split_at(before);
            all.extend_from_slice(less);
            all.push(*head);
            rest = more;
            let compares = u64::from(rest.len().max(1).ilog2()) + 1;
            pace.worked(compares * COMPARE_STEPS + (before as u64).min(crate::heavy::SLICE_STEPS)).await;
        }
        all.extend_from_slice(rest);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(texts: &mut Texts) -> Vec<Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(texts.rank(&mut Pace::default()));
        let mut order: Vec<u32> = (0..texts.ends.len() as u32).collect();
        order.sort_by_key(|number| texts.ranks()[*number as usize]);
        order.into_iter().map(|number| texts.text(number).to_vec()).collect()
    }

    #[test]
    fn ranks_are_the_order_of_the_texts() {
        let mut texts = Texts::default();
        let mut model = std::collections::BTreeMap::new();
        let mut state = 7u64;
        for round in 0..20 {
            // Many at first, then few at a time: both ways of merging.
            for _ in 0..if round == 0 { 20_000 } else { 17 * round } {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let text = format!("subject {:x}", (state >> 40) % 15_000).into_bytes();
                let number = texts.number(&text);
                assert_eq!(*model.entry(text).or_insert(number), number);
            }
            assert_eq!(ranked(&mut texts), model.keys().cloned().collect::<Vec<_>>());
        }
    }

    #[test]
    fn long_texts_keep_their_difference() {
        let mut texts = Texts::default();
        let long = vec![b'x'; 300_000];
        let other: Vec<u8> = long.iter().copied().chain(*b"y").collect();
        let (a, b) = (texts.number(&long), texts.number(&other));
        assert!(a != b && texts.number(&long) == a && texts.number(&other) == b);
        let short = texts.number(b"");
        assert_eq!(texts.number(b""), short);
        assert!(texts.bytes.len() <= 2 * TEXT_BYTES_MAX);
        assert_eq!(ranked(&mut texts)[0], b"");
    }
}
