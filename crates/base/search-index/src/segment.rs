//! A segment: for each gram the messages that have it.
//!
//! All numbers are little-endian. Offsets count from the beginning of the segment.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–7 | `PHSEARC` and the version, 1 |
//! | 8–11 | CRC-32C of all that follows |
//! | 12–15 | number of messages, at most 4,096 |
//! | 16–19 | number of grams |
//! | … | UID of each message (4), ascending |
//! | … | for each gram, ascending: gram (4), end of its list (4), counted from the first list |
//! | … | the lists |
//!
//! A list is the ordinals of the messages that have the gram, ascending. Either it is a bit map
//! with a bit for each message, or varints: the first ordinal, then the gaps less one. The shorter
//! form is used; the bit map where both are as long. So a list as long as a bit map is one.

use crate::grams::{GRAM_LEN, Grams, HASH_BITS, of_word};

/// Messages of a segment: the other 12 bits of a pair.
pub const MESSAGES_MAX: usize = 1 << (32 - HASH_BITS);

/// Pairs of gram and message after which a builder is full: 8 MiB, some 1,500 messages with 4 KiB
/// of text. With half of it, the tables of grams would be twice as large a part of the index.
const PAIRS_MAX: usize = 2 << 20;

/// Lists that are read for a word. Those of the rarest grams are taken; more would leave out few
/// further messages.
const LISTS_MAX: usize = 8;

const MAGIC: [u8; 8] = *b"PHSEARC\x01";
const HEAD_LEN: usize = 20;

/// Bytes that are no segment, or one that was damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a segment of the search index is damaged; it can be removed and is made again")
    }
}

impl std::error::Error for Damaged {}

/// Collects messages for a segment.
#[derive(Debug, Default)]
pub struct Builder {
    uids: Vec<u32>,
    /// Gram and ordinal, in no order.
    pairs: Vec<u32>,
}

impl Builder {
    /// Adds a message; UIDs ascend. Returns false, and adds nothing, if the message does not come
    /// after the others or the builder is full.
    pub fn add(&mut self, uid: u32, grams: &Grams) -> bool {
        if self.is_full() || self.uids.last().is_some_and(|last| *last >= uid) {
            return false;
        }
        let ordinal = self.uids.len() as u32;
        self.uids.push(uid);
        self.pairs.extend(grams.all().iter().map(|gram| gram << (32 - HASH_BITS) | ordinal));
        true
    }

    /// Whether it takes no further message.
    pub fn is_full(&self) -> bool {
        self.uids.len() >= MESSAGES_MAX || self.pairs.len() >= PAIRS_MAX
    }

    /// How many messages it has.
    pub fn messages(&self) -> usize {
        self.uids.len()
    }

    /// Makes the segment. It sorts up to 3 million numbers: that is long work.
    pub fn build(mut self) -> Segment {
        self.pairs.sort_unstable();
        let map_len = self.uids.len().div_ceil(8);
        let (mut table, mut lists) = (Vec::new(), Vec::new());
        let mut count = 0_u32;
        for same in self.pairs.chunk_by(|a, b| gram(*a) == gram(*b)) {
            let start = lists.len();
            put_list(same, map_len, &mut lists);
            debug_assert!(lists.len() - start <= map_len);
            table.extend_from_slice(&same.first().map_or(0, |pair| gram(*pair)).to_le_bytes());
            table.extend_from_slice(&(lists.len() as u32).to_le_bytes());
            count += 1;
        }
        let mut bytes = Vec::with_capacity(HEAD_LEN + self.uids.len() * 4 + table.len() + lists.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(self.uids.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
        self.uids.iter().for_each(|uid| bytes.extend_from_slice(&uid.to_le_bytes()));
        bytes.append(&mut table);
        bytes.append(&mut lists);
        let sum = crc32c::crc32c(bytes.get(12..).unwrap_or_default());
        if let Some(place) = bytes.get_mut(8..12) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        Segment { bytes, messages: self.uids.len(), grams: count as usize }
    }
}

const fn gram(pair: u32) -> u32 {
    pair >> (32 - HASH_BITS)
}

const fn ordinal(pair: u32) -> u32 {
    pair & (MESSAGES_MAX as u32 - 1)
}

/// Appends the list of one gram.
fn put_list(pairs: &[u32], map_len: usize, lists: &mut Vec<u8>) {
    let start = lists.len();
    let mut next = 0;
    for &pair in pairs {
        // Gaps are below 4,096, so two bytes suffice.
        let gap = ordinal(pair) - next;
        if gap < 0x80 {
            lists.push(gap as u8);
        } else {
            lists.extend_from_slice(&[0x80 | (gap & 0x7F) as u8, (gap >> 7) as u8]);
        }
        next = ordinal(pair) + 1;
        if lists.len() - start >= map_len {
            break;
        }
    }
    if lists.len() - start < map_len {
        return;
    }
    lists.truncate(start);
    lists.resize(start + map_len, 0);
    for &pair in pairs {
        if let Some(byte) = lists.get_mut(start + ordinal(pair) as usize / 8) {
            *byte |= 1 << (ordinal(pair) % 8);
        }
    }
}

/// A segment that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    bytes: Vec<u8>,
    messages: usize,
    grams: usize,
}

impl Segment {
    /// Reads a segment, and verifies its checksum.
    pub fn read(bytes: Vec<u8>) -> Result<Self, Damaged> {
        let magic = bytes.get(..8).ok_or(Damaged)?;
        let sum = number(&bytes, 8).ok_or(Damaged)?;
        if magic != MAGIC || sum != crc32c::crc32c(bytes.get(12..).ok_or(Damaged)?) {
            return Err(Damaged);
        }
        let messages = number(&bytes, 12).ok_or(Damaged)? as usize;
        let grams = number(&bytes, 16).ok_or(Damaged)? as usize;
        let segment = Segment { bytes, messages, grams };
        let fits = messages <= MESSAGES_MAX && grams <= 1 << HASH_BITS;
        if fits && segment.bytes.len() == segment.expected_len().ok_or(Damaged)? {
            return Ok(segment);
        }
        Err(Damaged)
    }

    fn expected_len(&self) -> Option<usize> {
        let lists = match self.grams {
            0 => 0,
            grams => number(&self.bytes, self.table_at() + grams * 8 - 4)?,
        };
        Some(self.lists_at() + lists as usize)
    }

    fn table_at(&self) -> usize {
        HEAD_LEN + self.messages * 4
    }

    fn lists_at(&self) -> usize {
        self.table_at() + self.grams * 8
    }

    /// The segment as it is stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many messages it covers.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// The UIDs of the messages that it covers, ascending.
    pub fn uids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.messages).filter_map(|i| number(&self.bytes, HEAD_LEN + i * 4))
    }

    /// The UIDs of the messages that may hold a folded word, ascending: all that hold it and
    /// perhaps others. `None` if the word is too short to say.
    pub fn propose(&self, word: &[u8]) -> Option<Vec<u32>> {
        if word.len() < GRAM_LEN {
            return None;
        }
        let mut lists = Vec::new();
        for gram in of_word(word) {
            match self.list(gram) {
                Some(list) => lists.push(list),
                None => return Some(Vec::new()),
            }
        }
        lists.sort_unstable_by_key(|list| list.len());
        let map_len = self.messages.div_ceil(8);
        let mut proposed = [u64::MAX; MESSAGES_MAX / 64];
        for list in lists.into_iter().take(LISTS_MAX) {
            let holds = ordinals(list, map_len);
            proposed.iter_mut().zip(holds).for_each(|(all, holds)| *all &= holds);
        }
        let is_in = |i: &usize| proposed.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1);
        let uid = |i| number(&self.bytes, HEAD_LEN + i * 4);
        Some((0..self.messages).filter(is_in).filter_map(uid).collect())
    }

    /// The list of a gram, found by halving.
    fn list(&self, gram: u32) -> Option<&[u8]> {
        let table = self.bytes.get(self.table_at()..self.lists_at())?;
        let (entries, _) = table.as_chunks::<8>();
        let at = entries.partition_point(|entry| number(entry, 0).is_some_and(|other| other < gram));
        let entry = entries.get(at).filter(|entry| number(*entry, 0) == Some(gram))?;
        let start = match at.checked_sub(1) {
            Some(before) => number(entries.get(before)?, 4)?,
            None => 0,
        };
        let end = number(entry, 4)?;
        self.bytes.get(self.lists_at()..)?.get(start as usize..end as usize)
    }
}

/// A list as a bit map.
fn ordinals(list: &[u8], map_len: usize) -> [u64; MESSAGES_MAX / 64] {
    let mut map = [0; MESSAGES_MAX / 64];
    if list.len() == map_len {
        for (i, byte) in list.iter().enumerate() {
            if let Some(word) = map.get_mut(i / 8) {
                *word |= u64::from(*byte) << (i % 8 * 8);
            }
        }
        return map;
    }
    let (mut bytes, mut next) = (list.iter(), 0);
    while let Some(&byte) = bytes.next() {
        let mut gap = usize::from(byte & 0x7F);
        if byte >= 0x80 {
            gap |= bytes.next().map_or(0, |high| usize::from(*high) << 7);
        }
        next += gap;
        if let Some(word) = map.get_mut(next / 64) {
            *word |= 1 << (next % 64);
        }
        next += 1;
    }
    map
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_le_bytes(*four))
}
