//! Different texts of one sort key, each kept once, and their order.
//!
//! Messages refer to a text by its number. So equal subjects take memory once, and a sort compares
//! ranks, which are numbers, instead of texts.

use std::cmp::Ordering;
use std::ops::Range;

use super::keyed::Keyed;
use crate::heavy::Pace;

/// Entries that are sorted in one go, without a pause: some 500,000 comparisons.
const RUN: usize = 32 * 1024;
/// Steps of a comparison of two entries.
const ENTRY_STEPS: u64 = 2;
/// Steps of a comparison of two texts, which mostly are not in the processor's cache.
const COMPARE_STEPS: u64 = 40;
/// Comparisons between two checks of the pace.
const COMPARES_PER_REST: usize = 4096;

/// A text's number in its lowest 32 bits, and above them a part of the text, which mostly decides.
///
/// The highest bits are [`PART`] bytes of the text, with zeros after its end. The next eight bits
/// say how many bytes the text has from the part on, at most one more than the part. So entries
/// compare as the texts do, and different texts are equal in both only if more of them follows.
type Entry = u128;

/// Bytes of a text in an entry.
const PART: usize = 11;
/// Up to this many texts that begin alike are compared whole. More are sorted by their next parts.
const COMPARED_MAX: usize = 24;

/// Texts that get numbers together. Looking one text after the other up takes less time than
/// looking each up between two summaries: the processor fetches several places of the table at
/// once.
#[derive(Debug, Default)]
pub(crate) struct NewTexts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
}

impl NewTexts {
    /// Whether there is no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes a text that `append` appends. Returns what that returns.
    pub(crate) fn push(&mut self, append: impl FnOnce(&mut Vec<u8>) -> usize) -> usize {
        let len = append(&mut self.bytes);
        self.ends.push(self.bytes.len());
        len
    }

    /// Takes a text. Returns its length.
    pub(crate) fn push_text(&mut self, text: &[u8]) -> usize {
        self.push(|bytes| {
            bytes.extend_from_slice(text);
            text.len()
        })
    }
}

/// The texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    /// The end of each text.
    ends: Vec<usize>,
    /// Part of each text's hash.
    hashes: Vec<u32>,
    /// Open addressing: 0, or the number of a text and 1. A power of two, at least a quarter of it
    /// free.
    slots: Vec<u32>,
    keyed: Keyed,
    /// The number of the empty text.
    empty: Option<u32>,
    /// The texts that have a rank, in order.
    sorted: Vec<Entry>,
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

    /// Appends the numbers of these texts.
    pub(crate) fn number(&mut self, new: &mut NewTexts, numbers: &mut Vec<u32>) {
        let NewTexts { bytes, ends, hashes } = new;
        let starts = || std::iter::once(0).chain(ends.iter().copied());
        let texts = || starts().zip(ends.iter()).map(|(start, end)| &bytes[start..*end]);
        hashes.extend(texts().map(|text| self.keyed.text(text)));
        for (text, hash) in texts().zip(hashes.iter()) {
            numbers.push(self.find_or_add(text, *hash));
        }
        bytes.clear();
        ends.clear();
        hashes.clear();
    }

    fn find_or_add(&mut self, text: &[u8], hash: u64) -> u32 {
        if self.slots.len() <= (self.ends.len() + 1) * 4 / 3 {
            self.grow((self.ends.len() + 1) * 2);
        }
        let (short, mask) = (hash as u32, self.slots.len() - 1);
        let mut at = hash as usize & mask;
        loop {
            match self.slots[at].checked_sub(1) {
                Some(number) if self.hashes[number as usize] == short && self.text(number) == text => {
                    return number;
                }
                Some(_) => at = (at + 1) & mask,
                None => break,
            }
        }
        let number = self.ends.len() as u32;
        self.slots[at] = number + 1;
        if text.is_empty() {
            self.empty = Some(number);
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
            while self.slots[at] != 0 {
                at = (at + 1) & (len - 1);
            }
            self.slots[at] = number;
        }
    }

    /// The number of texts.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of the empty text, if it is one of them.
    pub(crate) fn empty(&self) -> Option<u32> {
        self.empty
    }

    /// A text by its number.
    fn text(&self, number: u32) -> &[u8] {
        &self.bytes[self.place(number)]
    }

    /// The place of a text.
    fn place(&self, number: u32) -> Range<usize> {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        start..self.ends[number]
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * 8
            + (self.hashes.capacity() + self.slots.capacity() + self.ranks.capacity()) * 4
            + self.sorted.capacity() * size_of::<Entry>()
    }

    /// The rank of each text, by its number. [`rank`](Self::rank) was called after the last new
    /// text.
    pub(crate) fn ranks(&self) -> &[u32] {
        debug_assert_eq!(self.ranks.len(), self.ends.len(), "texts without a rank");
        &self.ranks
    }

    /// Whether each text has a rank.
    pub(crate) fn is_ranked(&self) -> bool {
        self.ranks.len() == self.ends.len()
    }

    /// Ranks the texts: those that have no rank yet are sorted and merged with the others.
    pub(crate) async fn rank(&mut self, pace: &mut Pace) {
        let first = self.sorted.len();
        if first == self.ends.len() {
            return;
        }
        let mut new = Vec::with_capacity(self.ends.len() - first);
        for number in first as u32..self.ends.len() as u32 {
            new.push(self.entry(number, 0));
            if pace.count(ENTRY_STEPS) {
                pace.rest().await;
            }
        }
        let new = self.sort(new, pace).await;
        self.sorted = match first {
            0 => new,
            _ => self.merge_into(&new, pace).await,
        };
        self.ranks.resize(self.ends.len(), 0);
        for (rank, entry) in (0u32..).zip(&self.sorted) {
            self.ranks[number_of(*entry) as usize] = rank;
            if (rank as usize).is_multiple_of(COMPARES_PER_REST) {
                pace.worked(COMPARES_PER_REST as u64 * 2).await;
            }
        }
    }

    /// The entry of a text, with the part that follows this many bytes.
    fn entry(&self, number: u32, skipped: usize) -> Entry {
        let Range { start, end } = self.place(number);
        let start = (start + skipped).min(end);
        let rest = &self.bytes[start..];
        let word = match rest.first_chunk::<16>() {
            Some(word) => u128::from_be_bytes(*word),
            None => {
                let mut word = [0; 16];
                word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                u128::from_be_bytes(word)
            }
        };
        let left = (end - start).min(PART + 1);
        let others = 128 - 8 * left.min(PART) as u32;
        let part = word & u128::MAX.checked_shl(others).unwrap_or(0);
        part | (left as u128) << 32 | u128::from(number)
    }

    /// RFC 5256 §2: byte by byte, after folding. The entries have the beginnings of the texts.
    fn compare(&self, a: Entry, b: Entry) -> Ordering {
        match is_tied(a, b) {
            true => self.text(number_of(a)).cmp(self.text(number_of(b))),
            false => a.cmp(&b),
        }
    }

    /// Sorts entries with the beginnings of their texts.
    async fn sort(&self, entries: Vec<Entry>, pace: &mut Pace) -> Vec<Entry> {
        let mut entries = sorted(entries, pace).await;
        let mut open = Vec::new();
        let mut rest = entries.as_mut_slice();
        while !rest.is_empty() {
            let len = tied_len(rest, pace).await;
            let (group, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            if group.len() == 1 {
                // Most texts begin like no other.
                if pace.count(ENTRY_STEPS) {
                    pace.rest().await;
                }
                continue;
            }
            open.push((0..group.len(), PART));
            // Texts with the same beginning, then those of them that also continue in the same
            // way.
            while let Some((range, skipped)) = open.pop() {
                let tied = &mut group[range.clone()];
                if tied.len() <= COMPARED_MAX {
                    tied.sort_unstable_by(|a, b| self.compare(*a, *b));
                    let compares = tied.len() as u64 * u64::from(tied.len().ilog2() + 1);
                    pace.worked(compares * COMPARE_STEPS).await;
                    continue;
                }
                let still_tied = self.sort_by_part(tied, skipped, pace).await;
                let at = |range: Range<usize>, start: usize| start + range.start..start + range.end;
                open.extend(still_tied.into_iter().map(|part| (at(part, range.start), skipped + PART)));
            }
        }
        entries
    }

    /// Sorts texts with the same beginning by the part after this many bytes. Returns those with
    /// the same part, too.
    async fn sort_by_part(&self, tied: &mut [Entry], skipped: usize, pace: &mut Pace) -> Vec<Range<usize>> {
        let mut parts = Vec::with_capacity(tied.len());
        for entry in tied.iter() {
            parts.push(self.entry(number_of(*entry), skipped));
            if pace.count(COMPARE_STEPS) {
                pace.rest().await;
            }
        }
        let parts = sorted(parts, pace).await;
        let (mut still_tied, mut at) = (Vec::new(), 0);
        while at < parts.len() {
            let len = tied_len(&parts[at..], pace).await;
            if len > 1 {
                still_tied.push(at..at + len);
            }
            at += len;
            if pace.count(ENTRY_STEPS) {
                pace.rest().await;
            }
        }
        // The entries keep the beginnings of the texts, in the order of this part.
        for (entries, parts) in tied.chunks_mut(RUN).zip(parts.chunks(RUN)) {
            for (entry, part) in entries.iter_mut().zip(parts) {
                *entry = (*entry & !NUMBER) | (part & NUMBER);
            }
            pace.worked(parts.len() as u64 * ENTRY_STEPS).await;
        }
        still_tied
    }

    /// The ranked texts and these, in order. The place of each is searched for, so that a few new
    /// texts among many cost few comparisons.
    async fn merge_into(&self, new: &[Entry], pace: &mut Pace) -> Vec<Entry> {
        let mut all = Vec::with_capacity(self.sorted.len() + new.len());
        let mut rest = self.sorted.as_slice();
        for entry in new {
            let before = rest.partition_point(|old| self.compare(*old, *entry) == Ordering::Less);
            let (less, more) = rest.split_at(before);
            append(&mut all, less, pace).await;
            all.push(*entry);
            rest = more;
            let compares = u64::from(rest.len().max(1).ilog2()) + 1;
            pace.worked(compares * COMPARE_STEPS).await;
        }
        append(&mut all, rest, pace).await;
        all
    }
}

/// The bits of an entry that are the text's number.
const NUMBER: Entry = u32::MAX as Entry;

fn number_of(entry: Entry) -> u32 {
    (entry & NUMBER) as u32
}

/// Whether two entries have the same text in this part and continue after it.
fn is_tied(a: Entry, b: Entry) -> bool {
    (a ^ b) >> 32 == 0 && (a >> 32) as u8 as usize > PART
}

/// The number of entries that are tied with the first one, itself included.
async fn tied_len(entries: &[Entry], pace: &mut Pace) -> usize {
    let Some((first, others)) = entries.split_first() else { return 0 };
    let mut len = 1;
    // All messages of a mailbox may begin alike.
    for run in others.chunks(RUN) {
        let tied = run.iter().take_while(|entry| is_tied(*first, **entry)).count();
        pace.worked(tied as u64 * ENTRY_STEPS).await;
        len += tied;
        if tied < run.len() {
            break;
        }
    }
    len
}

/// Appends entries. Those of a large mailbox take megabytes.
async fn append(to: &mut Vec<Entry>, from: &[Entry], pace: &mut Pace) {
    for run in from.chunks(RUN) {
        to.extend_from_slice(run);
        pace.worked(run.len() as u64 * ENTRY_STEPS).await;
    }
}

/// Sorts entries. Many are first divided by their first byte: what each has is sorted in one go
/// then, without a merge. That is done if no byte has too many.
async fn sorted(mut entries: Vec<Entry>, pace: &mut Pace) -> Vec<Entry> {
    if entries.len() <= RUN {
        sort_run(&mut entries, pace).await;
        return entries;
    }
    let counts = counts_of(&entries, pace).await;
    if counts.iter().any(|count| *count > RUN) {
        return merged(entries, pace).await;
    }
    let mut entries = divided(&entries, &counts, pace).await;
    let mut rest = entries.as_mut_slice();
    for count in counts {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(count);
        rest = after;
        sort_run(part, pace).await;
    }
    entries
}

/// The first byte of an entry's text.
fn first_byte(entry: Entry) -> usize {
    (entry >> (Entry::BITS - 8)) as usize
}

/// How many entries have each first byte.
async fn counts_of(entries: &[Entry], pace: &mut Pace) -> Vec<usize> {
    let mut counts = vec![0; 256];
    for run in entries.chunks(RUN) {
        run.iter().for_each(|entry| counts[first_byte(*entry)] += 1);
        pace.worked(run.len() as u64 * ENTRY_STEPS).await;
    }
    counts
}

/// The entries in the order of their first bytes.
async fn divided(entries: &[Entry], counts: &[usize], pace: &mut Pace) -> Vec<Entry> {
    let (mut places, mut sum) = (counts.to_vec(), 0);
    for place in &mut places {
        sum += std::mem::replace(place, sum);
    }
    let mut divided = vec![0; entries.len()];
    for run in entries.chunks(RUN) {
        for entry in run {
            let place = &mut places[first_byte(*entry)];
            divided[*place] = *entry;
            *place += 1;
        }
        pace.worked(run.len() as u64 * ENTRY_STEPS).await;
    }
    divided
}

/// Sorts so few entries that it needs no pause.
async fn sort_run(run: &mut [Entry], pace: &mut Pace) {
    if run.len() > 1 {
        run.sort_unstable();
        let compares = run.len() as u64 * u64::from(run.len().ilog2() + 1);
        pace.worked(compares * ENTRY_STEPS).await;
    }
}

/// Sorts runs of entries, then merges them, two by two.
async fn merged(mut from: Vec<Entry>, pace: &mut Pace) -> Vec<Entry> {
    for run in from.chunks_mut(RUN) {
        sort_run(run, pace).await;
    }
    let mut width = RUN;
    while width < from.len() {
        let mut to = Vec::with_capacity(from.len());
        for pair in from.chunks(2 * width) {
            let (a, b) = pair.split_at(width.min(pair.len()));
            merge(a, b, &mut to, pace).await;
        }
        from = to;
        width *= 2;
    }
    from
}

async fn merge(a: &[Entry], b: &[Entry], to: &mut Vec<Entry>, pace: &mut Pace) {
    let (mut at_a, mut at_b) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(at_a), b.get(at_b)) {
        // No branch depends on the comparison, because no processor can predict it.
        let takes_b = x > y;
        to.push(if takes_b { *y } else { *x });
        at_a += usize::from(!takes_b);
        at_b += usize::from(takes_b);
        if pace.count(2 * ENTRY_STEPS) {
            pace.rest().await;
        }
    }
    // One of them is at its end.
    let (a, b) = (a.get(at_a..).unwrap_or_default(), b.get(at_b..).unwrap_or_default());
    append(to, a, pace).await;
    append(to, b, pace).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(texts: &mut Texts, text: &[u8]) -> u32 {
        let (mut new, mut numbers) = (NewTexts::default(), Vec::new());
        assert_eq!(new.push_text(text), text.len());
        texts.number(&mut new, &mut numbers);
        assert_eq!((numbers.len(), new.bytes.len(), new.ends.len()), (1, 0, 0));
        numbers[0]
    }

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
                let number = number(&mut texts, &text);
                assert_eq!(*model.entry(text).or_insert(number), number);
            }
            assert_eq!(ranked(&mut texts), model.keys().cloned().collect::<Vec<_>>());
        }
    }

    /// More than are sorted in one go: with many first bytes, and with one.
    #[test]
    fn many_texts_are_ranked() {
        for begin in ["", "s"] {
            let mut texts = Texts::default();
            let mut model: Vec<Vec<u8>> = Vec::new();
            for n in 0..(2 * RUN as u32 + 1000) {
                let text = format!("{begin}{:x}", n.wrapping_mul(0x9E37_79B1)).into_bytes();
                number(&mut texts, &text);
                model.push(text);
            }
            model.sort_unstable();
            assert!(ranked(&mut texts) == model, "texts that begin with {begin:?}");
        }
    }

    /// Texts that begin alike, and that end where others continue, with any bytes.
    #[test]
    fn texts_that_begin_alike_are_ranked() {
        let mut texts = Texts::default();
        let mut model = std::collections::BTreeSet::new();
        let mut state = 5u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) % below
        };
        for round in 0..6 {
            for _ in 0..3_000 {
                // Long runs of one byte: groups that are tied over several parts, of all sizes.
                let mut text = vec![b"\0ab"[random(3) as usize]; random(60) as usize];
                text.extend((0..random(4)).map(|_| [0, 1, 255, b'a'][random(4) as usize]));
                number(&mut texts, &text);
                model.insert(text);
            }
            assert_eq!(ranked(&mut texts), model.iter().cloned().collect::<Vec<_>>(), "round {round}");
            let empty = texts.empty().unwrap();
            assert_eq!((texts.text(empty), texts.ranks()[empty as usize]), (b"".as_slice(), 0));
        }
    }

    #[test]
    fn equal_texts_have_one_number() {
        let mut texts = Texts::default();
        let long = vec![b'x'; 900];
        let other: Vec<u8> = long.iter().copied().chain(*b"y").collect();
        let (a, b) = (number(&mut texts, &long), number(&mut texts, &other));
        assert!(a != b && number(&mut texts, &long) == a && number(&mut texts, &other) == b);
        let short = number(&mut texts, b"");
        assert_eq!(number(&mut texts, b""), short);
        // Several at once, some of them twice.
        let (mut new, mut numbers) = (NewTexts::default(), Vec::new());
        for text in [b"x".as_slice(), &other, b"", b"x", b"y"] {
            new.push_text(text);
        }
        texts.number(&mut new, &mut numbers);
        assert_eq!(numbers, [short + 1, b, short, short + 1, short + 2]);
        assert_eq!(ranked(&mut texts)[0], b"");
    }
}
