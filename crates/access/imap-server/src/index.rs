//! The search index: which messages of a mailbox may hold a word, kept in memory.
//!
//! A search that reads the texts of many messages collects their trigrams, and leaves segments of
//! them here. Later searches read the messages that the segments propose and those in no segment.
//! A message's texts never change, so a segment is right for every view of its mailbox. UIDs of
//! expunged messages are in no view, so proposals of them do no harm.
//!
//! Nothing depends on the index: a mailbox that is not here is searched by reading its texts.
//! docs/search.md has the form, the reasons and the figures.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use posthaste_mail_model::{MailboxId, NumSet};
use posthaste_search_index::{Builder, GRAM_LEN, Grams, Segment};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of all segments, unless the configuration says something else.
pub(crate) const INDEX_BYTES_DEFAULT: usize = 32 << 20;

/// Messages that a segment has at least. The table of grams would be larger than the rest in a
/// smaller one. So up to 255 messages behind the last segment are read by each search.
pub(crate) const SEGMENT_MESSAGES_MIN: usize = 256;

/// Steps of a question to one segment: eight lists and their tables.
const SEGMENT_STEPS: u64 = 10_000;

/// What is known of a mailbox.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    segments: Vec<Arc<Segment>>,
    /// UIDs of the messages in the segments.
    pub(crate) covered: Arc<NumSet>,
}

impl Known {
    /// The UIDs of the messages that may hold a folded word. `None` if the index cannot say.
    pub(crate) fn propose(&self, word: &[u8]) -> Option<NumSet> {
        if word.len() < GRAM_LEN {
            return None;
        }
        let proposed = self.segments.iter().filter_map(|segment| segment.propose(word));
        let mut uids: Vec<u32> = proposed.flatten().collect();
        uids.sort_unstable();
        uids.dedup();
        let mut set = NumSet::new();
        uids.into_iter().for_each(|uid| set.push(uid));
        Some(set)
    }

    /// Steps that a word takes at most.
    pub(crate) fn steps(&self) -> u64 {
        self.segments.len() as u64 * SEGMENT_STEPS + self.covered.count() * 2
    }
}

/// Segments of the mailboxes that were searched last. Clones are the same index.
#[derive(Clone, Debug)]
pub struct SearchIndex {
    bytes_max: usize,
    state: Arc<Mutex<State>>,
    /// One search collects at a time. That bounds the memory of builders.
    place: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    mailboxes: HashMap<MailboxId, Kept>,
    bytes: usize,
    /// Counts uses, so that the mailbox searched longest ago is known.
    uses: u64,
}

#[derive(Debug, Default)]
struct Kept {
    known: Known,
    bytes: usize,
    used: u64,
}

impl SearchIndex {
    /// An index of this many bytes. With 0 there is none: each search reads the texts.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: Arc::default(), place: Arc::new(Semaphore::new(1)) }
    }

    /// The bytes of all segments.
    pub fn bytes(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// What is known of a mailbox; nothing if it was not searched lately.
    pub(crate) fn known(&self, mailbox: MailboxId) -> Known {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.uses += 1;
        let used = state.uses;
        let kept = state.mailboxes.get_mut(&mailbox);
        kept.map_or_else(Known::default, |kept| {
            kept.used = used;
            kept.known.clone()
        })
    }

    /// Begins to collect a mailbox. `None` if another search does it.
    pub(crate) fn collect(&self, mailbox: MailboxId) -> Option<Collecting> {
        if self.bytes_max == 0 {
            return None;
        }
        let place = Arc::clone(&self.place).try_acquire_owned().ok()?;
        // Read behind the place: nobody else adds segments.
        let covered = self.known(mailbox).covered;
        let (builder, grams) = (Builder::default(), Some(Grams::default()));
        Some(Collecting { covered, builder, grams, _place: place })
    }

    /// Adds a segment of a mailbox. If there is no room, the mailboxes searched longest ago leave.
    pub(crate) fn add(&self, mailbox: MailboxId, segment: Segment) {
        let more = segment.as_bytes().len();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let own = state.mailboxes.get(&mailbox).map_or(0, |kept| kept.bytes);
        if own + more > self.bytes_max {
            // The segments that it has stay: the rest of the mailbox is read.
            return;
        }
        while state.bytes + more > self.bytes_max {
            let others = state.mailboxes.iter().filter(|(id, _)| **id != mailbox);
            let oldest = others.min_by_key(|(_, kept)| kept.used).map(|(id, _)| *id);
            let Some(kept) = oldest.and_then(|id| state.mailboxes.remove(&id)) else { break };
            state.bytes -= kept.bytes;
        }
        state.uses += 1;
        state.bytes += more;
        let used = state.uses;
        let kept = state.mailboxes.entry(mailbox).or_default();
        let mut uids = NumSet::new();
        segment.uids().for_each(|uid| uids.push(uid));
        kept.known.covered = Arc::new(kept.known.covered.union(&uids));
        kept.known.segments.push(Arc::new(segment));
        kept.bytes += more;
        kept.used = used;
    }
}

/// The messages that one search collects.
pub(crate) struct Collecting {
    covered: Arc<NumSet>,
    builder: Builder,
    /// Lent while a message is read.
    grams: Option<Grams>,
    _place: OwnedSemaphorePermit,
}

impl Collecting {
    /// The place for a message's grams, if it is in no segment. It comes back with
    /// [`Collecting::add`].
    pub(crate) fn lend(&mut self, uid: u32) -> Option<Grams> {
        if self.covered.contains(uid) { None } else { self.grams.take() }
    }

    /// Adds a message that was read. Returns a builder that is full.
    pub(crate) fn add(&mut self, uid: u32, mut grams: Grams) -> Option<Builder> {
        self.builder.add(uid, &grams);
        grams.clear();
        self.grams = Some(grams);
        self.builder.is_full().then(|| std::mem::take(&mut self.builder))
    }

    /// The messages at the end, if they are enough for a segment.
    pub(crate) fn end(self) -> Option<Builder> {
        Some(self.builder).filter(|builder| builder.messages() >= SEGMENT_MESSAGES_MIN)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    fn segment(uids: std::ops::Range<u32>) -> Segment {
        let (mut builder, mut grams) = (Builder::default(), Grams::default());
        grams.add(b"some words");
        uids.for_each(|uid| assert!(builder.add(uid, &grams)));
        builder.build()
    }

    #[test]
    fn the_mailbox_searched_longest_ago_leaves_first() {
        let mailbox = |n: u8| MailboxId(Id::from_bytes([n; 16]));
        let bytes = segment(1..300).as_bytes().len();
        let index = SearchIndex::new(2 * bytes + bytes / 2);
        index.add(mailbox(1), segment(1..300));
        index.add(mailbox(2), segment(1..300));
        assert_eq!(index.known(mailbox(1)).covered.count(), 299);
        index.add(mailbox(3), segment(1..300));
        assert!(index.known(mailbox(2)).covered.is_empty());
        assert_eq!(index.bytes(), 2 * bytes);
        // A mailbox alone stays within the budget as well.
        (1..4).for_each(|n| index.add(mailbox(3), segment(n * 300..n * 300 + 299)));
        assert_eq!(index.known(mailbox(3)).covered.count(), 299 + 299);
        assert_eq!(index.bytes(), 2 * bytes);
    }

    #[test]
    fn one_search_collects_at_a_time() {
        let mailbox = MailboxId(Id::from_bytes([1; 16]));
        let index = SearchIndex::new(1 << 20);
        let first = index.collect(mailbox);
        assert!(first.is_some() && index.collect(mailbox).is_none());
        drop(first);
        assert!(index.collect(mailbox).is_some());
        assert!(SearchIndex::new(0).collect(mailbox).is_none());
    }
}
