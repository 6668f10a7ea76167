//! The memory of mailboxes: which segments they have, segments themselves, and the terms of recent
//! messages. The mailbox used longest ago leaves first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use posthaste_mail_model::{MailboxId, ModSeq, NumSet};
use posthaste_search_index::Segment;

use crate::recent::Recent;
use crate::stored::Meta;

/// A segment in the store; itself, if it is in memory.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) meta: Arc<Meta>,
    pub(crate) segment: Option<Arc<Segment>>,
}

/// The segments and terms of one mailbox. A clone shares all that is large.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The mod-sequence of the segments' mailbox when they were listed; `None` if it never was.
    listed_at: Option<ModSeq>,
    stored: Arc<[Kept]>,
    /// UIDs of the messages that the stored segments have, and of those that they have looked at.
    indexed: Arc<NumSet>,
    scanned: Arc<NumSet>,
    /// Segments that a search made, on their way to the store.
    pub(crate) unsaved: Vec<Arc<Segment>>,
    pub(crate) recent: Arc<Recent>,
}

impl Known {
    pub(crate) fn listed_at(&self) -> Option<ModSeq> {
        self.listed_at
    }

    pub(crate) fn stored(&self) -> &[Kept] {
        &self.stored
    }

    /// The segments in the store, listed at this mod-sequence.
    pub(crate) fn list(&mut self, at: ModSeq, stored: Vec<Kept>) {
        let ranges = |of: fn(&Meta) -> &NumSet| {
            Arc::new(NumSet::from_ranges(
                stored.iter().flat_map(|kept| of(&kept.meta).ranges().iter().copied()),
            ))
        };
        (self.indexed, self.scanned) = (ranges(|meta| &meta.indexed), ranges(|meta| &meta.scanned));
        (self.listed_at, self.stored) = (Some(at), stored.into());
    }

    /// UIDs of all messages that are in stored or other segments, or among the recent ones.
    pub(crate) fn covered(&self) -> Arc<NumSet> {
        if self.unsaved.is_empty() && self.recent.len() == 0 {
            return Arc::clone(&self.indexed);
        }
        let unsaved = self.unsaved.iter().flat_map(|segment| segment.uids().map(|uid| (uid, uid)));
        let others = NumSet::from_ranges(unsaved).union(&self.recent.indexed());
        Arc::new(self.indexed.union(&others))
    }

    /// UIDs that need not be looked at.
    pub(crate) fn scanned(&self) -> NumSet {
        self.scanned.union(&self.recent.scanned)
    }

    fn memory_bytes(&self) -> usize {
        let stored: usize = self
            .stored
            .iter()
            .map(|kept| kept.meta.memory_bytes() + kept.segment.as_ref().map_or(0, |s| s.as_bytes().len()))
            .sum();
        let unsaved: usize = self.unsaved.iter().map(|segment| segment.as_bytes().len()).sum();
        let ranges = (self.indexed.ranges().len() + self.scanned.ranges().len()) * 8;
        std::mem::size_of::<Self>() + stored + unsaved + ranges + self.recent.memory_bytes()
    }

    /// Lets segments go until the rest fits: the last ones first, then all that is not stored.
    fn shrink(&mut self, bytes_max: usize) {
        while self.memory_bytes() > bytes_max {
            if let Some(last) = self.stored.iter().rposition(|kept| kept.segment.is_some()) {
                let without = |(at, kept): (usize, &Kept)| {
                    let segment = kept.segment.clone().filter(|_| at < last);
                    Kept { meta: Arc::clone(&kept.meta), segment }
                };
                self.stored = self.stored.iter().enumerate().map(without).collect();
            } else if self.unsaved.pop().is_none() {
                self.recent = Arc::default();
                break;
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes_max: usize,
    bytes: usize,
    mailboxes: HashMap<MailboxId, Entry>,
    /// By time of last use.
    order: BTreeMap<u64, MailboxId>,
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    known: Known,
    bytes: usize,
    used: u64,
}

impl Memory {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, mailboxes: HashMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether so many more bytes fit without another mailbox leaving.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes) <= self.bytes_max
    }

    /// The segments and terms of a mailbox; counts as a use.
    pub(crate) fn known(&mut self, mailbox: MailboxId) -> Known {
        self.uses += 1;
        let Some(entry) = self.mailboxes.get_mut(&mailbox) else { return Known::default() };
        self.order.remove(&entry.used);
        entry.used = self.uses;
        self.order.insert(entry.used, mailbox);
        entry.known.clone()
    }

    /// Changes the segments and terms of a mailbox.
    pub(crate) fn change(&mut self, mailbox: MailboxId, change: impl FnOnce(&mut Known)) {
        let mut known = self.known(mailbox);
        change(&mut known);
        known.shrink(self.bytes_max);
        self.forget(mailbox);
        let bytes = known.memory_bytes();
        while self.bytes + bytes > self.bytes_max {
            let Some((_, &oldest)) = self.order.first_key_value() else { break };
            self.forget(oldest);
        }
        self.bytes += bytes;
        self.order.insert(self.uses, mailbox);
        self.mailboxes.insert(mailbox, Entry { known, bytes, used: self.uses });
    }

    /// Forgets a mailbox.
    pub(crate) fn forget(&mut self, mailbox: MailboxId) {
        if let Some(entry) = self.mailboxes.remove(&mailbox) {
            self.order.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
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
            let mut one = Memory::new(1 << 20);
            one.change(mailbox(1), |known| known.unsaved.push(segment(1..300)));
            one.bytes()
        };
        let mut memory = Memory::new(2 * bytes + bytes / 2);
        memory.change(mailbox(1), |known| known.unsaved.push(segment(1..300)));
        memory.change(mailbox(2), |known| known.unsaved.push(segment(1..300)));
        assert_eq!(memory.known(mailbox(1)).covered().count(), 299);
        memory.change(mailbox(3), |known| known.unsaved.push(segment(1..300)));
        assert!(memory.known(mailbox(2)).covered().is_empty());
        assert_eq!(memory.known(mailbox(1)).covered().count(), 299);
        // A mailbox alone stays within the budget as well.
        (1..9).for_each(|n| {
            memory.change(mailbox(3), |known| known.unsaved.push(segment(n * 300..n * 300 + 299)));
        });
        assert!(memory.bytes() <= 2 * bytes + bytes / 2);
        assert!(memory.known(mailbox(3)).unsaved.len() >= 2);
        memory.forget(mailbox(3));
        memory.forget(mailbox(1));
        assert_eq!(memory.bytes(), 0);
    }
}
