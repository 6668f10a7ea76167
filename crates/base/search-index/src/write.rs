//! Writes the bytes of a segment, word by word.

use crate::front::{FRONT_SUM_AT, KEYS_LEN_AT, sum_of};
use crate::layout::{HEAD_LEN, MAGIC, RANGES_MAX};
use crate::packed::put_word;
use crate::segment::{BLOCK, LEN_BASE, ROWS, Segment, row_of};
use crate::word_set::SEPARATOR;

/// Gaps below it take one byte.
const SHORT_GAP: u16 = 0x80;

/// The head of a segment, before the words.
pub(crate) struct Head<'h> {
    pub(crate) uids: &'h [u32],
    pub(crate) opaque: &'h [bool],
    pub(crate) scanned: &'h [(u32, u32)],
    pub(crate) text_bytes: u64,
    /// The stored keys of SORT and THREAD.
    pub(crate) keys: &'h [u8],
}

/// A segment on its way: the words of each scope come in their order.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    front_len: usize,
    messages: usize,
    /// The position of the next scope's numbers in the head.
    counts_at: usize,
    scope: Parts,
}

/// The parts of the scope under way.
#[derive(Default)]
struct Parts {
    count: usize,
    words: Vec<u8>,
    lists: Vec<u8>,
    blocks: Vec<u8>,
    /// The rows that blocks are in, one block after the other; and where those of each block begin.
    rows: Vec<u16>,
    rows_at: Vec<usize>,
    /// The word before with a separator on each side.
    framed: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(head: &Head<'_>) -> Self {
        // Messages of ranges that are left out are looked at again.
        let scanned = &head.scanned[..head.scanned.len().min(RANGES_MAX)];
        let mut bytes = vec![0; HEAD_LEN];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 12, &(head.uids.len() as u32).to_le_bytes());
        put(&mut bytes, 16, &(scanned.len() as u32).to_le_bytes());
        put(&mut bytes, 20, &head.text_bytes.to_le_bytes());
        for (low, high) in scanned {
            bytes.extend_from_slice(&low.to_le_bytes());
            bytes.extend_from_slice(&high.to_le_bytes());
        }
        head.uids.iter().for_each(|uid| bytes.extend_from_slice(&uid.to_le_bytes()));
        for eight in head.opaque.chunks(8) {
            bytes.push(eight.iter().zip(0..).fold(0, |bits, (opaque, bit)| bits | u8::from(*opaque) << bit));
        }
        put(&mut bytes, KEYS_LEN_AT, &(head.keys.len() as u32).to_le_bytes());
        bytes.extend_from_slice(head.keys);
        let front_len = bytes.len();
        Self { bytes, front_len, messages: head.uids.len(), counts_at: 28, scope: Parts::default() }
    }

    /// Adds a word with the ordinals of its messages, ascending. A word without any is left out.
    pub(crate) fn word(&mut self, word: &[u8], ordinals: &[u16]) {
        if ordinals.is_empty() {
            return;
        }
        let Parts { count, words, lists, blocks, rows, rows_at, framed } = &mut self.scope;
        if count.is_multiple_of(BLOCK) {
            blocks.extend_from_slice(&(words.len() as u32).to_le_bytes());
            blocks.extend_from_slice(&(lists.len() as u32).to_le_bytes());
            rows_at.push(rows.len());
            framed.clear();
            framed.extend_from_slice(&[SEPARATOR; 2]);
        }
        *count += 1;
        let shared = put_word(&framed[1..framed.len() - 1], word, words);
        framed.truncate(1 + shared);
        framed.extend_from_slice(&word[shared..]);
        framed.push(SEPARATOR);
        // The word before has put the block into the rows of what they share.
        let triples = framed[shared.saturating_sub(1)..].array_windows::<3>();
        rows.extend(triples.map(|triple| row_of(*triple) as u16));
        put_list(ordinals, self.messages.div_ceil(8), lists);
    }

    /// Ends the words of a scope.
    pub(crate) fn end_scope(&mut self) {
        let Parts { count, mut words, mut lists, mut blocks, rows, rows_at, .. } =
            std::mem::take(&mut self.scope);
        for number in [count, words.len(), lists.len()] {
            put(&mut self.bytes, self.counts_at, &(number as u32).to_le_bytes());
            self.counts_at += 4;
        }
        self.bytes.append(&mut words);
        self.bytes.append(&mut lists);
        self.bytes.append(&mut blocks);
        let (at, row_len) = (self.bytes.len(), rows_at.len().div_ceil(8));
        self.bytes.resize(at + ROWS * row_len, 0);
        let ends = rows_at.iter().skip(1).copied().chain([rows.len()]);
        for (block, (from, until)) in rows_at.iter().zip(ends).enumerate() {
            for row in &rows[*from..until] {
                self.bytes[at + usize::from(*row) * row_len + block / 8] |= 1 << (block % 8);
            }
        }
    }

    pub(crate) fn finish(mut self) -> Segment {
        let front_sum = sum_of(&self.bytes[..self.front_len]).unwrap_or_default();
        put(&mut self.bytes, FRONT_SUM_AT, &front_sum.to_le_bytes());
        let sum = crc32c::crc32c(&self.bytes[12..]);
        put(&mut self.bytes, 8, &sum.to_le_bytes());
        let segment = Segment::laid_out(self.bytes);
        debug_assert!(segment.is_some(), "the parts of a segment do not fill it");
        segment.unwrap_or_else(Segment::empty)
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Appends the list of one word, with its length before it.
fn put_list(ordinals: &[u16], map_len: usize, lists: &mut Vec<u8>) {
    if let [one] = ordinals {
        return lists.extend_from_slice(&one.to_be_bytes());
    }
    let len = gaps_len(ordinals, map_len);
    match len + LEN_BASE {
        len @ ..0x80 => lists.push(len as u8),
        len => lists.extend_from_slice(&[0x80 | (len & 0x7F) as u8, (len >> 7) as u8]),
    }
    if len == map_len {
        let at = lists.len();
        lists.resize(at + map_len, 0);
        let map = &mut lists[at..];
        for &ordinal in ordinals {
            map[usize::from(ordinal) / 8] |= 1 << (ordinal % 8);
        }
        return;
    }
    let mut next = 0;
    for &ordinal in ordinals {
        // Gaps are below 4,096, so two bytes suffice.
        let gap = ordinal - next;
        if gap < SHORT_GAP {
            lists.push(gap as u8);
        } else {
            lists.extend_from_slice(&[0x80 | (gap & 0x7F) as u8, (gap >> 7) as u8]);
        }
        next = ordinal + 1;
    }
}

/// Bytes of a list as varints; those of a bit map, if that is not longer.
fn gaps_len(ordinals: &[u16], map_len: usize) -> usize {
    if ordinals.len() >= map_len {
        return map_len;
    }
    let first = ordinals.first().is_some_and(|first| *first >= SHORT_GAP);
    let long = ordinals.array_windows().filter(|[a, b]| b - a > SHORT_GAP).count();
    map_len.min(ordinals.len() + usize::from(first) + long)
}
