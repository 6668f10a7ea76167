//! A segment: for each word the messages that have it.
//!
//! All numbers are little-endian.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–7 | `PHSEARC` and the version, 7 |
//! | 8–11 | CRC-32C of all that follows |
//! | 12–15 | number of messages, at most 4,096 |
//! | 16–19 | number of ranges of UIDs that were looked at |
//! | 20–27 | bytes of the text that the segment covers |
//! | 28–51 | for each scope: number of words (4), bytes of its words (4), bytes of its lists (4) |
//! | 52–55 | bytes of the values that SORT and THREAD compare |
//! | 56–59 | CRC-32C of the front: bytes 12 to 55, and those from 60 to the end of the values |
//! | … | each range: first and last UID (8), ascending |
//! | … | UID of each message (4), ascending |
//! | … | bit map of the messages that may hold anything |
//! | … | what SORT and THREAD compare ([`sort_keys`](crate::sort_keys)) |
//! | … | for each scope: words, lists, blocks, rows |
//!
//! The ranges name the messages that need not be indexed again. Messages in the ranges that the
//! segment does not have were expunged, or cannot be indexed.
//!
//! *Words*: ascending, without the bytes that the word before has too ([`packed`](crate::packed)).
//! 64 words are a block, and its first word is whole. *Lists*: for each word the messages that have
//! it. If there is one, its ordinal in two bytes; the first is the upper one, and below 16.
//! Otherwise the length of a list plus 16 as a varint, and the list. A list is the ordinals of the
//! messages, ascending. Either it is a bit map with a bit for each message, or varints: the first
//! ordinal, then the gaps less one. The shorter form is used; the bit map where both are as long.
//! So a list as long as a bit map is one. *Blocks*: for each one where its words (4) and its lists
//! (4) begin. *Rows*: 1,024 bit maps with a bit for each block. A block is in the row of each hash
//! of three neighbouring bytes of its words. So a piece of a word is looked for in few blocks.

use crate::Scope;
use crate::front::{Front, FrontParts};
use crate::layout::{Damaged, HEAD_LEN, MAGIC, MESSAGES_MAX, number};
use crate::packed::{Matcher, WordReader};
use crate::query::Query;

/// Words of a bit map of all messages.
pub(crate) const MAP_WORDS: usize = MESSAGES_MAX / 64;

/// Words of a block: as many as a mask has bits.
pub(crate) const BLOCK: usize = 64;

/// Rows of a scope: two bytes for each word. A block has some 400 different triples. With twice as
/// many rows, a piece of five letters would be looked for in a fifth of the blocks. A segment would
/// be larger by a tenth.
pub(crate) const ROWS: usize = 1024;

/// The first byte of a list's length is not below this: lower ones begin an ordinal, which has 12
/// bits.
pub(crate) const LEN_BASE: usize = MESSAGES_MAX >> 8;

/// Words of one segment that hold a piece. With more, all messages are proposed: reading the lists
/// would take longer than it saves.
const HELD_MAX: u32 = 1024;

/// Messages as bits.
pub(crate) type Map = [u64; MAP_WORDS];

/// A look-up of a query under way, a piece at a time.
#[derive(Debug, Clone)]
pub struct LookUp {
    /// The messages that hold all pieces so far.
    proposed: Map,
    pieces: usize,
}

impl Default for LookUp {
    fn default() -> Self {
        Self { proposed: [u64::MAX; MAP_WORDS], pieces: 0 }
    }
}

/// The positions of the parts of one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Section {
    words: usize,
    words_at: usize,
    lists_at: usize,
    blocks_at: usize,
    rows_at: usize,
}

impl Section {
    fn blocks(&self) -> usize {
        self.words.div_ceil(BLOCK)
    }

    fn row_len(&self) -> usize {
        self.blocks().div_ceil(8)
    }
}

/// A segment that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    bytes: Vec<u8>,
    front: FrontParts,
    sections: [Section; 2],
}

impl Segment {
    /// Reads a segment, and verifies its checksum.
    pub fn read(bytes: Vec<u8>) -> Result<Self, Damaged> {
        let magic = bytes.get(..8).ok_or(Damaged)?;
        let sum = number(&bytes, 8).ok_or(Damaged)?;
        if magic != MAGIC || sum != crc32c::crc32c(bytes.get(12..).ok_or(Damaged)?) {
            return Err(Damaged);
        }
        Self::laid_out(bytes).filter(Self::is_ordered).ok_or(Damaged)
    }

    /// A segment whose parts fill it exactly.
    pub(crate) fn laid_out(bytes: Vec<u8>) -> Option<Self> {
        let count = |at| number(&bytes, at).map(|count| count as usize);
        let front = FrontParts::of(&bytes)?;
        let mut at = front.end;
        let mut section = |head: usize| {
            let (words, words_len, lists_len) = (count(head)?, count(head + 4)?, count(head + 8)?);
            let lists_at = at + words_len;
            let blocks_at = lists_at + lists_len;
            let blocks = words.div_ceil(BLOCK);
            let rows_at = blocks_at + blocks * 8;
            let end = rows_at + ROWS * blocks.div_ceil(8);
            Some(Section { words, words_at: std::mem::replace(&mut at, end), lists_at, blocks_at, rows_at })
        };
        let sections = [section(28)?, section(40)?];
        (bytes.len() == at && Front::of(&bytes, &front).is_some()).then_some(Segment {
            bytes,
            front,
            sections,
        })
    }

    /// A segment of nothing.
    pub(crate) fn empty() -> Self {
        let at = HEAD_LEN;
        let front = FrontParts { messages: 0, ranges: 0, uids_at: at, opaque_at: at, keys_at: at, end: at };
        let section = Section { words: 0, words_at: at, lists_at: at, blocks_at: at, rows_at: at };
        Self { bytes: vec![0; HEAD_LEN], front, sections: [section; 2] }
    }

    /// Whether UIDs and ranges ascend, as all who use them expect.
    fn is_ordered(&self) -> bool {
        let mut before = None;
        let ranges_ascend = self.scanned().all(|(low, high)| {
            let fits = low > 0 && low <= high && before.is_none_or(|before| before < low);
            before = Some(high);
            fits
        });
        ranges_ascend && self.uids().is_sorted_by(|a, b| a < b)
    }

    /// The segment as it is stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of messages that the segment covers.
    pub fn messages(&self) -> usize {
        self.front.messages
    }

    /// Bytes of the text that it covers.
    pub fn text_bytes(&self) -> u64 {
        self.bytes.get(20..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// The segment's front; `None` does not occur in a segment that was verified.
    pub fn front(&self) -> Option<Front<'_>> {
        Front::of(&self.bytes, &self.front)
    }

    /// Bytes of the keys of SORT and THREAD.
    pub fn sort_key_bytes(&self) -> u64 {
        (self.front.end - self.front.keys_at) as u64
    }

    /// The UIDs of the messages that it covers, ascending.
    pub fn uids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.front.messages).filter_map(|i| number(&self.bytes, self.front.uids_at + i * 4))
    }

    /// The ranges of UIDs that were looked at, ascending.
    pub fn scanned(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.front.ranges).filter_map(|i| {
            let at = HEAD_LEN + i * 8;
            number(&self.bytes, at).zip(number(&self.bytes, at + 4))
        })
    }

    /// The messages that may hold anything, as bits.
    pub(crate) fn opaque(&self) -> Map {
        let mut map = [0; MAP_WORDS];
        set_bits(&self.bytes[self.front.opaque_at..self.front.keys_at], &mut map);
        map
    }

    pub(crate) fn map_len(&self) -> usize {
        self.front.messages.div_ceil(8)
    }

    fn section(&self, scope: Scope) -> &Section {
        let [envelope, texts] = &self.sections;
        if scope == Scope::Envelope { envelope } else { texts }
    }

    /// The UIDs of the messages that may match a query, ascending: all that match and perhaps
    /// others.
    pub fn propose(&self, query: &Query) -> Vec<u32> {
        let mut look_up = LookUp::default();
        while self.look_up(query, &mut look_up) {}
        self.proposed(&look_up)
    }

    /// Looks up the next piece of a query. Returns whether there is another one to look up. A piece
    /// that is in many words takes some milliseconds in a large segment.
    pub fn look_up(&self, query: &Query, so_far: &mut LookUp) -> bool {
        let Some(needle) = query.needles().get(so_far.pieces) else { return false };
        so_far.pieces += 1;
        let holds = self.holders(self.section(query.scope()), needle.needle());
        so_far.proposed.iter_mut().zip(holds).for_each(|(all, holds)| *all &= holds);
        so_far.pieces < query.needles().len() && so_far.proposed.iter().any(|word| *word != 0)
    }

    /// The UIDs of the messages that may match a query whose pieces were looked up.
    pub fn proposed(&self, look_up: &LookUp) -> Vec<u32> {
        let mut proposed = look_up.proposed;
        proposed.iter_mut().zip(self.opaque()).for_each(|(all, opaque)| *all |= opaque);
        let uid = |i| number(&self.bytes, self.front.uids_at + i * 4);
        ones(&proposed).take_while(|i| *i < self.front.messages).filter_map(uid).collect()
    }

    /// The messages that have a word which holds the piece.
    fn holders(&self, section: &Section, piece: &[u8]) -> Map {
        let (mut holders, mut held, matcher) = ([0; MAP_WORDS], 0, Matcher::new(piece));
        for block in self.blocks_with(section, piece) {
            let mask = self.block(section, block).map_or(0, |(words, _)| matcher.words_with(words));
            held += mask.count_ones();
            if held > HELD_MAX {
                return [u64::MAX; MAP_WORDS];
            }
            self.lists_of(section, block, mask, &mut |list| add_list(list, self.map_len(), &mut holders));
        }
        holders
    }

    /// The blocks that have each three neighbouring bytes of the piece.
    fn blocks_with(&self, section: &Section, piece: &[u8]) -> Vec<usize> {
        let row_len = section.row_len();
        let mut left = vec![u8::MAX; row_len];
        for triple in piece.array_windows::<3>() {
            let at = section.rows_at + row_of(*triple) * row_len;
            let row = &self.bytes[at..at + row_len];
            left.iter_mut().zip(row).for_each(|(left, row)| *left &= row);
        }
        let blocks = section.blocks();
        let bits = |(i, byte): (usize, &u8)| {
            let byte = *byte;
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| i * 8 + bit)
        };
        let set = left.iter().enumerate().filter(|(_, byte)| **byte != 0);
        set.flat_map(bits).take_while(|block| *block < blocks).collect()
    }

    /// The words of a block as they are stored, and their lists.
    fn block(&self, section: &Section, block: usize) -> Option<(&[u8], &[u8])> {
        let at = |block: usize, part: usize| {
            number(&self.bytes, section.blocks_at + block * 8 + part).map(|at| at as usize)
        };
        let (words, lists) = (at(block, 0)?, at(block, 4)?);
        let (words_end, lists_end) = if block + 1 < section.blocks() {
            (at(block + 1, 0)?, at(block + 1, 4)?)
        } else {
            (section.lists_at - section.words_at, section.blocks_at - section.lists_at)
        };
        let all_words = self.bytes.get(section.words_at..section.lists_at)?;
        let all_lists = self.bytes.get(section.lists_at..section.blocks_at)?;
        Some((all_words.get(words..words_end)?, all_lists.get(lists..lists_end)?))
    }

    /// Gives the lists of the words of a block that the mask names.
    fn lists_of(&self, section: &Section, block: usize, mask: u64, each: &mut dyn FnMut(List<'_>)) {
        let Some((_, mut lists)) = self.block(section, block).filter(|_| mask != 0) else { return };
        for word in 0..=mask.ilog2() {
            let Some((list, rest)) = first_list(lists) else { return };
            if mask >> word & 1 == 1 {
                each(list);
            }
            lists = rest;
        }
    }

    /// The words of a scope, each with its list, ascending.
    pub(crate) fn words(&self, scope: Scope) -> Words<'_> {
        let section = self.section(scope);
        let words = WordReader::new(&self.bytes[section.words_at..section.lists_at]);
        let lists = &self.bytes[section.lists_at..section.blocks_at];
        let mut words = Words { words, lists, list: None };
        words.advance();
        words
    }
}

/// The words of a scope, with their lists. One is held at a time.
#[derive(Debug)]
pub(crate) struct Words<'s> {
    words: WordReader<'s>,
    /// The lists of the words that follow.
    lists: &'s [u8],
    /// That of the word at hand.
    list: Option<List<'s>>,
}

impl<'s> Words<'s> {
    /// The word at hand and its list; `None` after the last one.
    pub(crate) fn current(&self) -> Option<(&[u8], List<'s>)> {
        self.list.map(|list| (self.words.word(), list))
    }

    /// Goes to the next word.
    pub(crate) fn advance(&mut self) {
        let next = self.words.advance().then(|| first_list(self.lists)).flatten();
        self.list = next.map(|(list, rest)| {
            self.lists = rest;
            list
        });
    }
}

/// The messages of a word, as they are stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum List<'l> {
    /// The ordinal of the only one.
    One(usize),
    /// A bit map, or varints.
    Several(&'l [u8]),
}

/// The first list, and the rest after it.
fn first_list(lists: &[u8]) -> Option<(List<'_>, &[u8])> {
    let (&first, rest) = lists.split_first()?;
    let first = usize::from(first);
    let (len, rest) = match first {
        ..LEN_BASE => {
            let (&low, rest) = rest.split_first()?;
            return Some((List::One(first << 8 | usize::from(low)), rest));
        }
        LEN_BASE..0x80 => (first, rest),
        _ => rest.split_first().map(|(high, rest)| (first & 0x7F | usize::from(*high) << 7, rest))?,
    };
    let (list, rest) = rest.split_at_checked(len.checked_sub(LEN_BASE)?)?;
    Some((List::Several(list), rest))
}

/// The row of three neighbouring bytes.
pub(crate) fn row_of([a, b, c]: [u8; 3]) -> usize {
    // Multiplication with an odd constant spreads the bits upwards, so the upper ones are taken.
    (u32::from_le_bytes([a, b, c, 0]).wrapping_mul(0x9E37_79B1) >> (32 - ROWS.ilog2())) as usize
}

/// The places of the bits that are set, ascending.
pub(crate) fn ones(map: &Map) -> impl Iterator<Item = usize> + '_ {
    map.iter().enumerate().flat_map(|(i, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(i * 64 + bit)
        })
    })
}

fn set_bits(bits: &[u8], map: &mut Map) {
    for (i, byte) in bits.iter().enumerate() {
        if let Some(word) = map.get_mut(i / 8) {
            *word |= u64::from(*byte) << (i % 8 * 8);
        }
    }
}

/// Adds the messages of a list.
pub(crate) fn add_list(list: List<'_>, map_len: usize, map: &mut Map) {
    match list {
        List::Several(bits) if bits.len() == map_len => set_bits(bits, map),
        list => each_ordinal(list, map_len, |ordinal| {
            if let Some(word) = map.get_mut(ordinal / 64) {
                *word |= 1 << (ordinal % 64);
            }
        }),
    }
}

/// Calls for the ordinal of each message of a list, ascending.
pub(crate) fn each_ordinal(list: List<'_>, map_len: usize, mut each: impl FnMut(usize)) {
    let list = match list {
        List::One(ordinal) => return each(ordinal),
        List::Several(bits) if bits.len() == map_len => {
            for (i, byte) in bits.iter().enumerate() {
                let mut left = *byte;
                while left != 0 {
                    each(i * 8 + left.trailing_zeros() as usize);
                    left &= left - 1;
                }
            }
            return;
        }
        List::Several(list) => list,
    };
    let (mut bytes, mut next) = (list.iter(), 0);
    while let Some(&byte) = bytes.next() {
        let mut gap = usize::from(byte & 0x7F);
        if byte >= 0x80 {
            gap |= bytes.next().map_or(0, |high| usize::from(*high) << 7);
        }
        next += gap;
        each(next);
        next += 1;
    }
}
