//! Messages that are in no segment yet, with their terms.

use std::sync::Arc;

use posthaste_mail_model::NumSet;
use posthaste_search_index::Terms;

/// See the module.
#[derive(Debug, Default, Clone)]
pub(crate) struct Recent {
    /// UIDs that were looked at.
    pub(crate) scanned: NumSet,
    /// Their messages, by UID. One that cannot be read is not here.
    messages: Vec<(u32, Arc<Terms>)>,
    terms: usize,
}

impl Recent {
    /// Adds a message. Messages of one scan of a mailbox come in the order of their UIDs.
    pub(crate) fn add(&mut self, uid: u32, terms: Arc<Terms>) {
        self.terms += terms.count();
        self.messages.push((uid, terms));
    }

    /// Adds the messages of a later look.
    pub(crate) fn extend(&mut self, other: Self) {
        self.scanned = self.scanned.union(&other.scanned);
        self.messages.extend(other.messages);
        self.messages.sort_unstable_by_key(|(uid, _)| *uid);
        self.messages.dedup_by_key(|(uid, _)| *uid);
        self.terms = self.messages.iter().map(|(_, terms)| terms.count()).sum();
    }

    /// Forgets the messages of these UIDs: they are in a segment.
    pub(crate) fn forget(&mut self, uids: &NumSet) {
        self.scanned = self.scanned.difference(uids);
        self.messages.retain(|(uid, _)| !uids.contains(*uid));
        self.terms = self.messages.iter().map(|(_, terms)| terms.count()).sum();
    }

    /// Forgets the oldest messages until the rest fits. They are looked at again.
    pub(crate) fn shrink(&mut self, bytes_max: usize) {
        let (mut over, mut count) = (self.memory_bytes().saturating_sub(bytes_max), 0);
        while let Some((_, terms)) = self.messages.get(count).filter(|_| over > 0) {
            over = over.saturating_sub(message_bytes(terms));
            count += 1;
        }
        let last = self.messages.drain(..count).next_back();
        if let Some((last, _)) = last {
            self.scanned = self.scanned.difference(&NumSet::range(1, last));
        }
        if over > 0 {
            // The ranges alone are too much.
            self.scanned = NumSet::new();
        }
        self.terms = self.messages.iter().map(|(_, terms)| terms.count()).sum();
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Terms of all its messages.
    pub(crate) fn terms(&self) -> usize {
        self.terms
    }

    pub(crate) fn messages(&self) -> &[(u32, Arc<Terms>)] {
        &self.messages
    }

    /// The UIDs of its messages.
    pub(crate) fn indexed(&self) -> NumSet {
        self.messages.iter().map(|(uid, _)| *uid).collect()
    }

    /// The bytes of this part in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let messages: usize = self.messages.iter().map(|(_, terms)| message_bytes(terms)).sum();
        std::mem::size_of::<Self>() + self.scanned.ranges().len() * 8 + messages
    }
}

fn message_bytes(terms: &Terms) -> usize {
    32 + terms.memory_bytes()
}
