//! The front of a segment: its UIDs, and the keys of SORT and THREAD. It is read without the
//! words.

use crate::layout::{Damaged, HEAD_LEN, MAGIC, MESSAGES_MAX, RANGES_MAX, number};
use crate::sort_keys::KeyTable;

/// The position in the head of the number of bytes of the columns, and of the front's checksum.
pub(crate) const KEYS_LEN_AT: usize = 52;
pub(crate) const FRONT_SUM_AT: usize = 56;

/// The beginning of a segment that was verified.
#[derive(Debug, Clone, Copy)]
pub struct Front<'b> {
    uids: &'b [[u8; 4]],
    keys: KeyTable<'b>,
}

/// The positions of the parts of a front, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrontParts {
    pub(crate) messages: usize,
    pub(crate) ranges: usize,
    pub(crate) uids_at: usize,
    pub(crate) opaque_at: usize,
    pub(crate) keys_at: usize,
    pub(crate) end: usize,
}

impl FrontParts {
    /// Reads them from the head. `None` if this is no head of a segment.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        let count = |at| number(head, at).map(|count| count as usize);
        let (messages, ranges, keys_len) = (count(12)?, count(16)?, count(KEYS_LEN_AT)?);
        if head.len() < HEAD_LEN || messages > MESSAGES_MAX || ranges > RANGES_MAX {
            return None;
        }
        let uids_at = HEAD_LEN + ranges * 8;
        let opaque_at = uids_at + messages * 4;
        let keys_at = opaque_at + messages.div_ceil(8);
        Some(Self { messages, ranges, uids_at, opaque_at, keys_at, end: keys_at + keys_len })
    }
}

/// The checksum of a front, which lies in its head and does not cover itself.
pub(crate) fn sum_of(front: &[u8]) -> Option<u32> {
    let head = crc32c::crc32c(front.get(12..FRONT_SUM_AT)?);
    Some(crc32c::crc32c_append(head, front.get(HEAD_LEN..)?))
}

impl<'b> Front<'b> {
    /// Bytes of a segment that say how long its front is.
    pub const HEAD_LEN: usize = HEAD_LEN;

    /// The length of the front of a segment that begins with these bytes. `None` if they begin no
    /// segment.
    pub fn len_of(head: &[u8]) -> Option<usize> {
        FrontParts::of(head).filter(|_| head.starts_with(&MAGIC)).map(|parts| parts.end)
    }

    /// Reads a front, which fills the bytes, and verifies its checksum.
    pub fn read(bytes: &'b [u8]) -> Result<Self, Damaged> {
        let is_right =
            Self::len_of(bytes) == Some(bytes.len()) && sum_of(bytes) == number(bytes, FRONT_SUM_AT);
        let front = is_right.then(|| Self::verified(bytes)).flatten();
        front.filter(|front| front.uids().is_sorted_by(|a, b| a < b)).ok_or(Damaged)
    }

    /// [`Self::read`] without the checksum, which was verified before.
    pub fn verified(bytes: &'b [u8]) -> Option<Self> {
        FrontParts::of(bytes).and_then(|parts| Self::of(bytes, &parts))
    }

    pub(crate) fn of(bytes: &'b [u8], parts: &FrontParts) -> Option<Self> {
        let keys = KeyTable::read(parts.messages, bytes.get(parts.keys_at..parts.end)?)?;
        let (uids, _) = bytes.get(parts.uids_at..parts.opaque_at)?.as_chunks();
        Some(Self { uids, keys })
    }

    /// UIDs of the messages, ascending.
    pub fn uids(&self) -> impl ExactSizeIterator<Item = u32> + 'b {
        self.uids.iter().map(|uid| u32::from_le_bytes(*uid))
    }

    /// The values of the messages, in the same order.
    pub fn keys(&self) -> &KeyTable<'b> {
        &self.keys
    }
}
