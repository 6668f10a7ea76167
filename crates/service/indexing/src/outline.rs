//! A short description of the segments of a mailbox, for deliveries. It is stored in the record
//! that says that the mailbox has segments, so that no segment is read for a delivery.
//!
//! An outline is right as long as the mailbox of the segments has its mod-sequence. Any other is
//! made again from the segments.
//!
//! The record, version 1; all numbers are little-endian:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0 | 1 |
//! | 1–8 | mod-sequence of the segments' mailbox |
//! | 9–16 | number of messages in the segments |
//! | 17–20 | number of ranges of UIDs that were looked at, at most 1,024 |
//! | … | each range: first and last UID (8), ascending |
//! | … | each small segment: UID (4), body (16), number of messages (4), bytes (8); at most 64 |

use bytes::Bytes;
use posthaste_mail_model::{BodyId, Id, ModSeq, NumSet, Uid};
use posthaste_search_index::MESSAGES_MAX;

use crate::meta::Meta;

const VERSION: u8 = 1;

/// Ranges of UIDs that a record has: 8 KiB. A mailbox whose messages were all looked at has one.
const RANGES_MAX: usize = 1024;

/// Small segments that are remembered: those with the fewest messages. Four of them can be merged.
const SMALL_MAX: usize = 64;

/// Messages of a small segment. A larger one stays as it is.
const SMALL_MESSAGES_MAX: u32 = MESSAGES_MAX as u32 / 2;

const SMALL_LEN: usize = 32;

/// A segment that may be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Small {
    pub(crate) uid: Uid,
    pub(crate) body: BodyId,
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

impl Small {
    pub(crate) fn of(meta: &Meta) -> Self {
        let messages = u32::try_from(meta.indexed.count()).unwrap_or(u32::MAX);
        Self { uid: meta.uid, body: meta.body, messages, bytes: meta.bytes }
    }
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The mod-sequence of the segments' mailbox. `None` if someone else changed it meanwhile.
    pub(crate) at: Option<ModSeq>,
    /// Messages in the segments, expunged ones included.
    pub(crate) messages: u64,
    /// UIDs that need not be looked at.
    pub(crate) scanned: NumSet,
    /// The small segments, those with the fewest messages first.
    pub(crate) small: Vec<Small>,
}

impl Outline {
    /// The outline of a mailbox without segments.
    pub(crate) fn empty() -> Self {
        Self { at: Some(ModSeq::ZERO), ..Self::default() }
    }

    /// The outline of these segments, which were listed at this mod-sequence.
    pub(crate) fn of<'m>(at: ModSeq, metas: impl Iterator<Item = &'m Meta> + Clone) -> Self {
        let ranges = metas.clone().flat_map(|meta| meta.scanned.ranges().iter().copied());
        let mut outline = Self { at: Some(at), scanned: NumSet::from_ranges(ranges), ..Self::default() };
        for meta in metas {
            outline.messages += meta.indexed.count();
            outline.small.push(Small::of(meta));
        }
        outline.sort();
        outline
    }

    /// The same after a segment was stored.
    pub(crate) fn with(mut self, meta: &Meta, at: ModSeq) -> Self {
        self.follow(at);
        self.messages += meta.indexed.count();
        self.scanned = self.scanned.union(&meta.scanned);
        self.small.push(Small::of(meta));
        self.sort();
        self
    }

    /// The same after small segments were removed. Another one has their messages.
    pub(crate) fn without(mut self, removed: &[Small], at: ModSeq) -> Self {
        self.follow(at);
        let messages: u64 = removed.iter().map(|small| u64::from(small.messages)).sum();
        self.messages = self.messages.saturating_sub(messages);
        self.small.retain(|small| !removed.contains(small));
        self
    }

    /// A change of the segments' mailbox was made. If it was not the next one, others changed it.
    fn follow(&mut self, at: ModSeq) {
        self.at = self.at.filter(|before| before.next() == at).map(|_| at);
    }

    fn sort(&mut self) {
        self.small.retain(|small| small.messages <= SMALL_MESSAGES_MAX);
        self.small.sort_by_key(|small| (small.messages, small.uid));
        self.small.truncate(SMALL_MAX);
    }

    /// The record; `None` if it would be too long or is not right any more.
    pub(crate) fn to_bytes(&self) -> Option<Bytes> {
        let ranges = self.scanned.ranges();
        if ranges.len() > RANGES_MAX {
            return None;
        }
        let mut bytes = vec![VERSION];
        bytes.extend(self.at?.value().to_le_bytes());
        bytes.extend(self.messages.to_le_bytes());
        bytes.extend((ranges.len() as u32).to_le_bytes());
        for (low, high) in ranges {
            bytes.extend(low.to_le_bytes());
            bytes.extend(high.to_le_bytes());
        }
        for small in &self.small {
            bytes.extend(small.uid.value().to_le_bytes());
            bytes.extend(small.body.0.to_bytes());
            bytes.extend(small.messages.to_le_bytes());
            bytes.extend(small.bytes.to_le_bytes());
        }
        Some(bytes.into())
    }

    /// Reads a record; `None` if it has no outline.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<21>()?;
        let at = ModSeq::new(u64::from_le_bytes(*head.get(1..)?.first_chunk()?))?;
        let messages = u64::from_le_bytes(*head.get(9..)?.first_chunk()?);
        let count = u32::from_le_bytes(*head.get(17..)?.first_chunk()?) as usize;
        if head.first() != Some(&VERSION) || count > RANGES_MAX || rest.len() < count * 8 {
            return None;
        }
        let (ranges, small) = rest.split_at(count * 8);
        let mut scanned = NumSet::new();
        for range in ranges.chunks_exact(8) {
            let low = u32::from_le_bytes(*range.first_chunk()?);
            let high = u32::from_le_bytes(*range.last_chunk()?);
            if low == 0 || low > high || scanned.last().is_some_and(|last| last >= low - 1) {
                return None;
            }
            scanned.push_range(low, high);
        }
        if small.len() % SMALL_LEN != 0 || small.len() / SMALL_LEN > SMALL_MAX {
            return None;
        }
        let small = small.chunks_exact(SMALL_LEN).map(read_small).collect::<Option<_>>()?;
        Some(Self { at: Some(at), messages, scanned, small })
    }

    /// The bytes of the outline in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let small = self.small.capacity() * std::mem::size_of::<Small>();
        std::mem::size_of::<Self>() + self.scanned.ranges().len() * 8 + small
    }
}

fn read_small(bytes: &[u8]) -> Option<Small> {
    Some(Small {
        uid: Uid::new(u32::from_le_bytes(*bytes.first_chunk()?))?,
        body: BodyId(Id::from_bytes(*bytes.get(4..)?.first_chunk()?)),
        messages: u32::from_le_bytes(*bytes.get(20..)?.first_chunk()?),
        bytes: u64::from_le_bytes(*bytes.get(24..)?.first_chunk()?),
    })
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn meta(uid: u32, low: u32, high: u32) -> Meta {
        let (uid, body) = (Uid::new(uid).unwrap(), BodyId(Id::new(u64::from(uid), 3)));
        let uids = NumSet::range(low, high);
        Meta { uid, body, bytes: 9, sort_key_bytes: 0, text_bytes: 8, scanned: uids.clone(), indexed: uids }
    }

    #[test]
    fn it_follows_its_own_changes_and_no_others() {
        let at = |n| ModSeq::new(n).unwrap();
        let one = Outline::empty().with(&meta(1, 1, 300), at(1)).with(&meta(2, 301, 3000), at(2));
        assert_eq!((one.at, one.messages, one.small.len()), (Some(at(2)), 3000, 1));
        assert_eq!(one.scanned, NumSet::range(1, 3000));
        let less = one.clone().without(&one.small, at(3));
        assert_eq!((less.at, less.messages, less.small.len()), (Some(at(3)), 2700, 0));
        assert_eq!(less.scanned, one.scanned);
        assert_eq!(one.with(&meta(3, 3001, 3002), at(4)).at, None, "others made change 3");
        let metas = [meta(5, 1, 300), meta(4, 301, 3000)];
        let listed = Outline::of(at(7), metas.iter());
        assert_eq!((listed.messages, listed.small.len()), (3000, 1));
    }

    properties! {
        #[test]
        fn records_read_back(
            at in 0_u64..1 << 40,
            uids in prop::collection::btree_set(1_u32..5000, 0..200),
            small in prop::collection::vec((1_u32.., any::<[u8; 16]>(), any::<u32>(), any::<u64>()), 0..SMALL_MAX),
        ) {
            let small = small.into_iter().map(|(uid, body, messages, bytes)| {
                Small { uid: Uid::new(uid).unwrap(), body: BodyId(Id::from_bytes(body)), messages, bytes }
            });
            let outline = Outline {
                at: ModSeq::new(at),
                messages: at / 3,
                scanned: uids.into_iter().collect(),
                small: small.collect(),
            };
            prop_assert_eq!(Outline::read(&outline.to_bytes().unwrap()), Some(outline));
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Some(outline) = Outline::read(&bytes) {
                prop_assert_eq!(&outline.to_bytes().unwrap()[..], &bytes[..]);
            }
        }
    }
}
