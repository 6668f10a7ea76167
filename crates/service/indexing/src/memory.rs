//! The memory of mailboxes: their segments, for searches; and the terms of recent messages, for
//! deliveries. Each has its own share of the memory.

use std::sync::Arc;

use posthaste_mail_model::{MailboxId, ModSeq, NumSet, Uid};
use posthaste_search_index::Segment;

use crate::lru::{Lru, Weighed};
use crate::meta::Meta;
use crate::outline::Outline;
use crate::recent::Recent;

/// The share of the recent messages in the memory: a quarter.
const LATEST_SHARE: usize = 4;

/// A segment in the store; itself, if it is in memory.
#[derive(Debug, Clone)]
pub(crate) struct StoredSegment {
    pub(crate) meta: Arc<Meta>,
    pub(crate) segment: Option<Arc<Segment>>,
}

/// The segments of one mailbox. A clone shares all that is large.
#[derive(Debug, Clone, Default)]
pub(crate) struct MailboxSegments {
    /// The mod-sequence of the segments' mailbox when they were listed; `None` if it never was.
    listed_at: Option<ModSeq>,
    stored: Arc<[StoredSegment]>,
    /// UIDs of the messages that the stored segments have.
    indexed: Arc<NumSet>,
    /// Segments that a search made, on their way to the store.
    pub(crate) unsaved: Vec<Arc<Segment>>,
}

impl MailboxSegments {
    pub(crate) fn listed_at(&self) -> Option<ModSeq> {
        self.listed_at
    }

    pub(crate) fn stored(&self) -> &[StoredSegment] {
        &self.stored
    }

    /// The segment that is this message.
    pub(crate) fn find(&self, uid: Uid) -> Option<StoredSegment> {
        self.stored.iter().find(|kept| kept.meta.uid == uid).cloned()
    }

    /// The segments in the store, listed at this mod-sequence.
    pub(crate) fn list(&mut self, at: ModSeq, stored: Vec<StoredSegment>) {
        let indexed = stored.iter().flat_map(|kept| kept.meta.indexed.ranges().iter().copied());
        self.indexed = Arc::new(NumSet::from_ranges(indexed));
        (self.listed_at, self.stored) = (Some(at), stored.into());
    }

    /// UIDs of all messages that are in stored or other segments.
    pub(crate) fn covered(&self) -> Arc<NumSet> {
        if self.unsaved.is_empty() {
            return Arc::clone(&self.indexed);
        }
        let unsaved = self.unsaved.iter().flat_map(|segment| segment.uids().map(|uid| (uid, uid)));
        Arc::new(self.indexed.union(&NumSet::from_ranges(unsaved)))
    }
}

impl Weighed for MailboxSegments {
    fn memory_bytes(&self) -> usize {
        let stored: usize = self
            .stored
            .iter()
            .map(|kept| kept.meta.memory_bytes() + kept.segment.as_ref().map_or(0, |s| s.as_bytes().len()))
            .sum();
        let unsaved: usize = self.unsaved.iter().map(|segment| segment.as_bytes().len()).sum();
        std::mem::size_of::<Self>() + stored + unsaved + self.indexed.ranges().len() * 8
    }

    /// The last segments go first, then those that are not stored.
    fn shrink(&mut self, bytes_max: usize) {
        while self.memory_bytes() > bytes_max {
            if let Some(last) = self.stored.iter().rposition(|kept| kept.segment.is_some()) {
                let without = |(at, kept): (usize, &StoredSegment)| {
                    let segment = kept.segment.clone().filter(|_| at < last);
                    StoredSegment { meta: Arc::clone(&kept.meta), segment }
                };
                self.stored = self.stored.iter().enumerate().map(without).collect();
            } else if self.unsaved.pop().is_none() {
                break;
            }
        }
    }
}

/// Segments all of whose messages another one has: two nodes made them, or a crash left them.
pub(crate) fn doubled(all: &[StoredSegment]) -> Option<NumSet> {
    let mut by_size: Vec<&StoredSegment> = all.iter().collect();
    by_size.sort_by_key(|kept| (std::cmp::Reverse(kept.meta.indexed.count()), kept.meta.uid));
    let (mut indexed, mut scanned) = (NumSet::new(), NumSet::new());
    let mut doubled = NumSet::new();
    for (number, kept) in by_size.into_iter().enumerate() {
        let meta = &kept.meta;
        let is_new =
            !meta.scanned.difference(&scanned).is_empty() || !meta.indexed.difference(&indexed).is_empty();
        if !is_new && number > 0 {
            doubled = doubled.union(&NumSet::range(meta.uid.value(), meta.uid.value()));
        }
        (indexed, scanned) = (indexed.union(&meta.indexed), scanned.union(&meta.scanned));
    }
    Some(doubled).filter(|doubled| !doubled.is_empty())
}

/// The newest messages of a mailbox in memory: all that a delivery needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latest {
    pub(crate) outline: Option<Arc<Outline>>,
    pub(crate) recent: Arc<Recent>,
}

impl Weighed for Latest {
    fn memory_bytes(&self) -> usize {
        let outline = self.outline.as_ref().map_or(0, |outline| outline.memory_bytes());
        std::mem::size_of::<Self>() + outline + self.recent.memory_bytes()
    }

    /// The terms of the oldest messages go first.
    fn shrink(&mut self, bytes_max: usize) {
        let others = self.memory_bytes() - self.recent.memory_bytes();
        if self.memory_bytes() > bytes_max {
            Arc::make_mut(&mut self.recent).shrink(bytes_max.saturating_sub(others));
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Memory {
    /// For searches.
    pub(crate) segments: Lru<MailboxSegments>,
    /// For deliveries. No search takes this memory.
    pub(crate) latest: Lru<Latest>,
}

impl Memory {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let latest = bytes_max / LATEST_SHARE;
        Self { segments: Lru::new(bytes_max - latest), latest: Lru::new(latest) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.segments.bytes() + self.latest.bytes()
    }

    /// Forgets a mailbox.
    pub(crate) fn forget(&mut self, mailbox: MailboxId) {
        self.segments.forget(mailbox);
        self.latest.forget(mailbox);
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;
    use posthaste_search_index::{Builder, Collector, Scope};

    use super::*;

    fn segment(uids: std::ops::Range<u32>) -> Arc<Segment> {
        let mut collector = Collector::default();
        collector.add(Scope::Texts, b"some words");
        let terms = collector.finish();
        let mut builder = Builder::default();
        uids.for_each(|uid| assert!(builder.add(uid, &terms)));
        Arc::new(builder.build(&[(1, 1000)]))
    }

    #[test]
    fn the_mailbox_used_longest_ago_leaves_first() {
        let mailbox = |n: u8| MailboxId(Id::from_bytes([n; 16]));
        let bytes = {
            let mut one = Lru::<MailboxSegments>::new(1 << 20);
            one.change(mailbox(1), |known| known.unsaved.push(segment(1..300)));
            one.bytes()
        };
        let mut memory = Lru::<MailboxSegments>::new(2 * bytes + bytes / 2);
        memory.change(mailbox(1), |known| known.unsaved.push(segment(1..300)));
        memory.change(mailbox(2), |known| known.unsaved.push(segment(1..300)));
        assert_eq!(memory.get(mailbox(1)).covered().count(), 299);
        memory.change(mailbox(3), |known| known.unsaved.push(segment(1..300)));
        assert!(memory.get(mailbox(2)).covered().is_empty());
        assert_eq!(memory.get(mailbox(1)).covered().count(), 299);
        // A mailbox alone stays within the budget as well.
        (1..9).for_each(|n| {
            memory.change(mailbox(3), |known| known.unsaved.push(segment(n * 300..n * 300 + 299)));
        });
        assert!(memory.bytes() <= 2 * bytes + bytes / 2);
        assert!(memory.get(mailbox(3)).unsaved.len() >= 2);
        memory.forget(mailbox(3));
        memory.forget(mailbox(1));
        assert_eq!(memory.bytes(), 0);
    }

    /// If a mailbox has more terms than fit into memory, the newest messages stay.
    #[test]
    fn the_oldest_terms_of_a_mailbox_leave_first() {
        let mailbox = MailboxId(Id::from_bytes([1; 16]));
        let mut memory = Memory::new(LATEST_SHARE * 4000);
        for uid in 1..100 {
            let mut collector = Collector::default();
            collector.add(Scope::Texts, b"some words of a message");
            memory.latest.change(mailbox, |latest| {
                let recent = Arc::make_mut(&mut latest.recent);
                recent.add(uid, Arc::new(collector.finish()));
                recent.scanned.push(uid);
            });
        }
        let recent = memory.latest.get(mailbox).recent;
        assert!(memory.bytes() <= 4000 && recent.len() > 3, "{} bytes", memory.bytes());
        assert_eq!(recent.indexed(), recent.scanned);
        assert_eq!(recent.indexed(), NumSet::range(100 - recent.len() as u32, 99));
    }
}
