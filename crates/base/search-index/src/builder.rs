//! Makes a segment of the terms of many messages.

use crate::Scope;
use crate::layout::MESSAGES_MAX;
use crate::packed::shared_len;
use crate::segment::{BLOCK, Segment};
use crate::sort_keys::KeyColumns;
use crate::terms::Terms;
use crate::word_set::{Word, WordSet, words};
use crate::write::{Head, Writer};

/// Pairs of word and message after which a builder is full: 16 MiB. A full segment of messages with
/// 4 KiB of text has some 2 million.
const PAIRS_MAX: usize = 4 << 20;

/// Bytes of different words after which a builder is full.
const WORD_BYTES_MAX: usize = 16 << 20;

/// Bits of an ordinal in a pair. The rest is the number of a word.
const ORDINAL_BITS: u32 = MESSAGES_MAX.ilog2();

/// A segment takes at most 35 % of its text, and 96 bytes a message, besides its sort keys. So
/// the messages with the most words that no other one has are not indexed, but always proposed:
/// long random texts.
const TEXT_SHARE: (u64, u64) = (35, 100);
const SLACK_BYTES: u64 = 96;

/// The bytes of a word besides its own text: the one before it, the length of its list, and its
/// shares of a block and of the rows.
const WORD_BYTES: u64 = 5;

/// Words, each with a number, and which messages have them.
#[derive(Debug, Default)]
struct Lexicon {
    set: WordSet,
    /// The numbers of words as pairs with an ordinal.
    pairs: Vec<u32>,
}

impl Lexicon {
    /// Adds a word of a message. Returns false if there is no number left for it.
    fn add(&mut self, word: Word<'_>, ordinal: u32) -> bool {
        let number = self.set.add(word);
        let has_number = number >> (32 - ORDINAL_BITS) == 0;
        if has_number {
            self.pairs.push(number << ORDINAL_BITS | ordinal);
        }
        has_number
    }
}

/// Collects messages for a segment.
#[derive(Debug, Default)]
pub struct Builder {
    uids: Vec<u32>,
    /// The length of the text of each message.
    texts: Vec<u64>,
    opaque: Vec<bool>,
    lexicons: [Lexicon; 2],
    keys: KeyColumns,
}

impl Builder {
    /// Adds a message; UIDs ascend. Returns false, and adds nothing, if the message does not come
    /// after the others or the builder is full.
    pub fn add(&mut self, uid: u32, terms: &Terms) -> bool {
        if self.is_full() || self.uids.last().is_some_and(|last| *last >= uid) {
            return false;
        }
        let ordinal = self.push(uid, terms.text_bytes());
        self.keys.push(terms.sort_keys());
        let mut is_opaque = terms.is_opaque();
        for (scope, lexicon) in Scope::ALL.into_iter().zip(&mut self.lexicons) {
            for word in words(terms.words(scope)) {
                is_opaque |= !lexicon.add(word, ordinal);
            }
        }
        if let Some(last) = self.opaque.last_mut() {
            *last = is_opaque;
        }
        true
    }

    fn push(&mut self, uid: u32, text: u64) -> u32 {
        self.uids.push(uid);
        self.texts.push(text);
        self.opaque.push(false);
        self.uids.len() as u32 - 1
    }

    /// Whether it is full.
    pub fn is_full(&self) -> bool {
        let [envelope, texts] = &self.lexicons;
        self.uids.len() >= MESSAGES_MAX
            || envelope.pairs.len() + texts.pairs.len() >= PAIRS_MAX
            || envelope.set.bytes().len() + texts.set.bytes().len() >= WORD_BYTES_MAX
    }

    /// The number of its messages.
    pub fn messages(&self) -> usize {
        self.uids.len()
    }

    /// Makes the segment. `scanned`: ranges of UIDs that were looked at, ascending; its messages
    /// are among them. It sorts words and lists: that is long work.
    pub fn build(self, scanned: &[(u32, u32)]) -> Segment {
        let Self { uids, texts, mut opaque, lexicons, keys } = self;
        let keys = keys.finish();
        let lists = lexicons.each_ref().map(Lists::of);
        let orders = lexicons.each_ref().map(|lexicon| in_order(&lexicon.set));
        let mut noise = Noise::new(&texts);
        for ((lexicon, lists), order) in lexicons.iter().zip(&lists).zip(&orders) {
            noise.count(&lexicon.set, lists, order);
        }
        noise.leave_out(&texts, &mut opaque);
        let text_bytes = texts.iter().sum();
        let head = Head { uids: &uids, opaque: &opaque, scanned, text_bytes, keys: &keys };
        let mut writer = Writer::new(&head);
        let (has_opaque, mut kept) = (opaque.contains(&true), Vec::new());
        for ((lexicon, lists), order) in lexicons.iter().zip(&lists).zip(orders) {
            for number in order {
                let mut list = lists.list(number);
                if has_opaque {
                    kept.clear();
                    kept.extend(list.iter().filter(|ordinal| !opaque[usize::from(**ordinal)]));
                    list = &kept;
                }
                writer.word(lexicon.set.word(number), list);
            }
            writer.end_scope();
        }
        writer.finish()
    }
}

/// Bits of the beginning of a word by which words are divided, before they are sorted.
const DIVIDING_BITS: u32 = 14;

/// The numbers of words in the order of the words. Most comparisons read no word: the beginnings
/// of words are sorted, each with the number of its word.
fn in_order(set: &WordSet) -> Vec<u32> {
    let part_of = |beginning: u64| (beginning >> (u64::BITS - DIVIDING_BITS)) as usize;
    let mut ends = vec![0_u32; 1 << DIVIDING_BITS];
    for beginning in set.beginnings() {
        ends[part_of(*beginning)] += 1;
    }
    starts_of(&mut ends);
    let mut order = vec![0_u128; set.len()];
    for (number, beginning) in (0_u32..).zip(set.beginnings()) {
        let at = &mut ends[part_of(*beginning)];
        order[*at as usize] = u128::from(*beginning) << 32 | u128::from(number);
        *at += 1;
    }
    let beginning = |numbered: &u128| (numbered >> 32) as u64;
    for part in order.chunk_by_mut(|a, b| part_of(beginning(a)) == part_of(beginning(b))) {
        part.sort_unstable();
    }
    for alike in order.chunk_by_mut(|a, b| beginning(a) == beginning(b)).filter(|alike| alike.len() > 1) {
        alike.sort_unstable_by_key(|numbered| set.word(*numbered as u32));
    }
    order.into_iter().map(|numbered| numbered as u32).collect()
}

/// Makes of the sizes of parts where each part begins.
fn starts_of(sizes: &mut [u32]) {
    let mut sum = 0;
    for size in sizes {
        sum += std::mem::replace(size, sum);
    }
}

/// The messages of each word.
struct Lists {
    /// The end of the list of each word.
    ends: Vec<u32>,
    ordinals: Vec<u16>,
}

impl Lists {
    /// Sorts pairs by their words in one pass.
    fn of(lexicon: &Lexicon) -> Self {
        let mut ends = vec![0_u32; lexicon.set.len()];
        let number = |pair: u32| (pair >> ORDINAL_BITS) as usize;
        for pair in &lexicon.pairs {
            ends[number(*pair)] += 1;
        }
        // For now, where the list begins.
        starts_of(&mut ends);
        let mut ordinals = vec![0_u16; lexicon.pairs.len()];
        for pair in &lexicon.pairs {
            let at = &mut ends[number(*pair)];
            ordinals[*at as usize] = (pair & (MESSAGES_MAX as u32 - 1)) as u16;
            *at += 1;
        }
        Self { ends, ordinals }
    }

    /// The ordinals of a word, ascending.
    fn list(&self, number: u32) -> &[u16] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.ordinals[start as usize..self.ends[number] as usize]
    }
}

/// Bytes of a list as varints. One ordinal takes two bytes, and no length.
fn list_bytes(list: &[u16]) -> u64 {
    if list.len() == 1 {
        return 1;
    }
    let (mut bytes, mut next) = (0, 0);
    for &ordinal in list {
        bytes += if ordinal - next < 0x80 { 1 } else { 2 };
        next = ordinal + 1;
    }
    bytes
}

/// Bytes of a segment, and those that leave it with each message.
struct Noise {
    total: u64,
    /// For each message the bytes of the words that only it has.
    charges: Vec<u64>,
}

impl Noise {
    fn new(texts: &[u64]) -> Self {
        Self { total: 0, charges: vec![0; texts.len()] }
    }

    /// Counts the words of a scope, which come in their order.
    fn count(&mut self, set: &WordSet, lists: &Lists, order: &[u32]) {
        let map_len = self.charges.len().div_ceil(8) as u64;
        let mut shared = 0;
        for (at, number) in order.iter().enumerate() {
            let (word, list) = (set.word(*number), lists.list(*number));
            let next = order.get(at + 1).map_or(0, |next| shared_len(word, set.word(*next)));
            let bytes = WORD_BYTES + list_bytes(list).min(map_len);
            // The first word of a block is whole.
            let stored = if at.is_multiple_of(BLOCK) { word.len() } else { word.len() - shared };
            self.total += bytes + stored as u64;
            if let [only] = list
                && let Some(charge) = self.charges.get_mut(usize::from(*only))
            {
                // Without it, the next word shares less with the one before.
                *charge += bytes + (word.len() - shared.max(next)) as u64;
            }
            shared = next;
        }
    }

    /// Marks messages as opaque until the segment is small enough.
    fn leave_out(&self, texts: &[u64], opaque: &mut [bool]) {
        let text: u64 = texts.iter().sum();
        let (part, whole) = TEXT_SHARE;
        let mut over = self.total.saturating_sub(text * part / whole + texts.len() as u64 * SLACK_BYTES);
        if over == 0 {
            return;
        }
        let charges = self.charges.iter().zip(texts);
        let mut by_noise: Vec<(u64, usize)> =
            charges.map(|(charge, text)| charge * 1000 / (text + 1)).zip(0..).collect();
        by_noise.sort_unstable_by(|a, b| b.cmp(a));
        for (_, ordinal) in by_noise {
            let (Some(charge), Some(is_opaque)) = (self.charges.get(ordinal), opaque.get_mut(ordinal)) else {
                continue;
            };
            if over == 0 {
                break;
            }
            over = over.saturating_sub(*charge);
            *is_opaque = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_their_order() {
        let mut set = WordSet::default();
        let words = ["b", "aa", "invoices", "invoice", "a", "invoices2", "invoices10", "é", "zz", "inv"];
        for word in words {
            set.add(Word::new(word.as_bytes()));
        }
        let ordered: Vec<&[u8]> = in_order(&set).iter().map(|number| set.word(*number)).collect();
        let mut sorted = words;
        sorted.sort_unstable();
        assert_eq!(ordered, sorted.map(str::as_bytes));
    }
}
