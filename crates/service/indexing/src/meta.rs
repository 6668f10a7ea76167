//! The description of a segment without its words.

use posthaste_mail_model::{BodyId, NumSet, Uid};
use posthaste_search_index::Segment;

/// The facts about a segment in the store.
#[derive(Debug)]
pub(crate) struct Meta {
    /// The message that it is.
    pub(crate) uid: Uid,
    pub(crate) body: BodyId,
    /// Bytes of the segment.
    pub(crate) bytes: u64,
    /// Bytes of them that are what SORT and THREAD compare.
    pub(crate) sort_key_bytes: u64,
    /// Bytes of the text that it covers.
    pub(crate) text_bytes: u64,
    /// UIDs that it has looked at.
    pub(crate) scanned: NumSet,
    /// UIDs of the messages that it has.
    pub(crate) indexed: NumSet,
}

impl Meta {
    pub(crate) fn of(uid: Uid, body: BodyId, segment: &Segment) -> Self {
        let mut indexed = NumSet::new();
        segment.uids().for_each(|uid| indexed.push(uid));
        let bytes = segment.as_bytes().len() as u64;
        let scanned = NumSet::from_ranges(segment.scanned());
        let (sort_key_bytes, text_bytes) = (segment.sort_key_bytes(), segment.text_bytes());
        Self { uid, body, bytes, sort_key_bytes, text_bytes, scanned, indexed }
    }

    /// Its bytes in memory without the segment.
    pub(crate) fn memory_bytes(&self) -> usize {
        std::mem::size_of::<Self>() + (self.scanned.ranges().len() + self.indexed.ranges().len()) * 8
    }
}
