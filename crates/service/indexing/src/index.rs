//! The index for SEARCH: it looks up words, and takes the terms that a search collected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use posthaste_mail_model::{BodyId, MailboxId, NumSet, Uid};
use posthaste_net::ByteBudget;
use posthaste_search_index::{LookUp, Query, Segment};
use posthaste_store::{Result, Store, StoreError};
use tokio::sync::Semaphore;

use crate::collecting::Collecting;
use crate::memory::{MailboxSegments, Memory, StoredSegment};
use crate::meta::Meta;
use crate::{places, stored};

/// Pieces of keys that are looked up in segments between two pauses. One takes some 10 µs, and
/// about 1 ms if it is in many words. A key has at most eight.
const PIECES_PER_SLICE: usize = 2;

/// Bytes of a segment that count as one more piece: in a large one a piece may be looked for in
/// many blocks in vain.
const PIECE_BYTES: usize = 4 << 20;

/// Bytes of words of recent messages that are searched between two pauses: some 1 ms.
const BYTES_PER_SLICE: usize = 4 << 20;

/// Mailboxes whose records are read at a time.
const PAGE: usize = 256;

/// The search index of a store. Clones are the same index.
#[derive(Clone)]
pub struct SearchIndex {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    /// Memory for messages that are read; `None` for no bound.
    pub(crate) reads: Option<ByteBudget>,
    pub(crate) is_on: bool,
    pub(crate) memory: Mutex<Memory>,
    /// One search collects at a time. That bounds the memory of builders.
    place: Arc<Semaphore>,
    /// The totals, and when they were counted.
    pub(crate) counted: tokio::sync::Mutex<Option<(Instant, Totals)>>,
    segments_read: AtomicU64,
    pub(crate) messages_read: AtomicU64,
}

impl std::fmt::Debug for SearchIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SearchIndex").field("is_on", &self.shared.is_on).finish_non_exhaustive()
    }
}

/// The answer of the index for a mailbox.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// UIDs of the messages that it knows.
    pub covered: Arc<NumSet>,
    /// For each query the UIDs of those that may match it.
    pub proposed: Vec<NumSet>,
}

/// The size of a mailbox's segments in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Segments.
    pub segments: u64,
    /// Messages in them, expunged ones included.
    pub messages: u64,
    /// Bytes, without the sort keys.
    pub bytes: u64,
    /// Bytes of what SORT and THREAD compare.
    pub sort_key_bytes: u64,
    /// Bytes of the text that they cover.
    pub text_bytes: u64,
}

impl std::ops::AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.segments += other.segments;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.sort_key_bytes += other.sort_key_bytes;
        self.text_bytes += other.text_bytes;
    }
}

/// Counts of the reads of an index from the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads {
    /// Segments.
    pub segments: u64,
    /// Messages, in the background. Segments that searches read are not counted.
    pub messages: u64,
}

/// The size of all segments in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Mailboxes that have segments.
    pub mailboxes: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes of the segments in the store, with their sort keys and some 40 bytes of header each.
    pub bytes: u64,
}

impl SearchIndex {
    /// The index of a store, which has this many bytes in memory.
    pub fn new(store: Store, bytes_max: usize) -> Self {
        Self::with(store, bytes_max, None)
    }

    /// The same. Messages over 128 KiB take memory from a budget while they are read.
    pub fn with_reads(store: Store, bytes_max: usize, reads: ByteBudget) -> Self {
        Self::with(store, bytes_max, Some(reads))
    }

    fn with(store: Store, bytes_max: usize, reads: Option<ByteBudget>) -> Self {
        let memory = Mutex::new(Memory::new(bytes_max));
        let place = Arc::new(Semaphore::new(1));
        let counted = tokio::sync::Mutex::default();
        let is_on = bytes_max > 0;
        let (segments_read, messages_read) = <(AtomicU64, AtomicU64)>::default();
        let shared = Shared { store, reads, is_on, memory, place, counted, segments_read, messages_read };
        Self { shared: Arc::new(shared) }
    }

    /// No index: each search reads the texts, and nothing is stored.
    pub fn off(store: Store) -> Self {
        Self::new(store, 0)
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.shared.memory.lock().bytes()
    }

    /// The reads so far.
    pub fn reads(&self) -> Reads {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reads { segments: count(&self.shared.segments_read), messages: count(&self.shared.messages_read) }
    }

    /// Which messages of a mailbox may match queries. `None` if the index knows none of its
    /// messages.
    #[boxed]
    pub async fn query(&self, mailbox: MailboxId, queries: &[Query]) -> Option<Answer> {
        if !self.shared.is_on || queries.is_empty() {
            return None;
        }
        // Messages that are not indexed yet will be, for the next search.
        self.shared.store.changed().note(mailbox, Uid::MIN);
        match self.try_ask(mailbox, queries).await {
            Ok(answer) => Some(answer).filter(|answer| !answer.covered.is_empty()),
            Err(error) => {
                tracing::debug!(%error, "the search index cannot be read: a search reads all texts");
                None
            }
        }
    }

    async fn try_ask(&self, mailbox: MailboxId, queries: &[Query]) -> Result<Answer> {
        // Taken first: if these become a segment meanwhile, the list below has it.
        let recent = self.shared.memory.lock().latest.get(mailbox).recent;
        let known = self.refresh(mailbox).await?;
        let mut proposed = vec![Vec::new(); queries.len()];
        let mut asked = 0;
        let mut covered = known.covered();
        if recent.len() > 0 {
            covered = Arc::new(covered.union(&recent.indexed()));
        }
        for kept in known.stored() {
            match self.load(mailbox, kept).await? {
                Some(segment) => query_segment(&segment, queries, &mut proposed, &mut asked).await,
                // It was damaged after it was listed: its messages are read.
                None => covered = Arc::new(covered.difference(&kept.meta.indexed)),
            }
        }
        for segment in &known.unsaved {
            query_segment(segment, queries, &mut proposed, &mut asked).await;
        }
        let mut bytes = 0;
        for (uid, terms) in recent.messages() {
            for (query, uids) in queries.iter().zip(&mut proposed) {
                if terms.may_match(query) {
                    uids.push(*uid);
                }
                bytes += terms.memory_bytes();
                if bytes >= BYTES_PER_SLICE {
                    bytes = 0;
                    tokio::task::yield_now().await;
                }
            }
        }
        let proposed = proposed.into_iter().map(NumSet::from_iter).collect();
        Ok(Answer { covered, proposed })
    }

    /// Begins to collect a mailbox. `None` if another search does it.
    #[boxed]
    pub async fn collect(&self, mailbox: MailboxId) -> Option<Collecting> {
        if !self.shared.is_on {
            return None;
        }
        let place = Arc::clone(&self.shared.place).try_acquire_owned().ok()?;
        let recent = self.shared.memory.lock().latest.get(mailbox).recent;
        let known = self.refresh(mailbox).await.ok()?;
        Some(Collecting::new(Arc::new(known.covered().union(&recent.indexed())), place))
    }

    /// Adds a segment that a search made. It is stored in the background.
    pub fn add(&self, mailbox: MailboxId, segment: Segment) {
        let segment = Arc::new(segment);
        self.shared.memory.lock().segments.change(mailbox, |known| known.unsaved.push(segment));
        self.shared.store.changed().note(mailbox, Uid::MIN);
    }

    /// The known segments of a mailbox, after a read of the store.
    pub(crate) async fn refresh(&self, mailbox: MailboxId) -> Result<MailboxSegments> {
        let known = self.shared.memory.lock().segments.get(mailbox);
        let heads = self.shared.store.status(&[places::of(mailbox)]).await?;
        let Some(head) = heads.into_iter().flatten().next() else {
            if known.listed_at().is_some() {
                self.shared.memory.lock().segments.forget(mailbox);
                return Ok(MailboxSegments::default());
            }
            return Ok(known);
        };
        if known.listed_at() == Some(head.modseq) {
            return Ok(known);
        }
        match self.list(mailbox, &known).await {
            Ok(stored) => {
                let mut memory = self.shared.memory.lock();
                memory.segments.change(mailbox, |known| known.list(head.modseq, stored));
                Ok(memory.segments.get(mailbox))
            }
            // It was deleted meanwhile.
            Err(StoreError::NoMailbox(_)) => Ok(MailboxSegments::default()),
            Err(error) => Err(error),
        }
    }

    /// Lists the segments in the store, and reads those that are new here.
    async fn list(&self, mailbox: MailboxId, known: &MailboxSegments) -> Result<Vec<StoredSegment>> {
        let (listed, mut damaged) = stored::list(&self.shared.store, mailbox).await?;
        let mut all = Vec::with_capacity(listed.len());
        let mut room = self.shared.memory.lock().segments.bytes_max();
        for (uid, body) in listed {
            let was = known.stored().iter().find(|kept| kept.meta.uid == uid && kept.meta.body == body);
            let kept = match was {
                Some(kept) => Some(kept.clone()),
                None => self.read_segment(mailbox, body).await?.map(|segment| StoredSegment {
                    meta: Arc::new(Meta::of(uid, body, &segment)),
                    segment: Some(Arc::new(segment)),
                }),
            };
            let Some(mut kept) = kept else {
                damaged = damaged.union(&NumSet::range(uid.value(), uid.value()));
                continue;
            };
            // Segments that do not fit into memory are read again by each search.
            match usize::try_from(kept.meta.bytes).ok().and_then(|bytes| room.checked_sub(bytes)) {
                Some(left) => room = left,
                None => kept.segment = None,
            }
            all.push(kept);
            tokio::task::yield_now().await;
        }
        if !damaged.is_empty() {
            self.remove_damaged(mailbox, &damaged).await?;
        }
        Ok(all)
    }

    /// A segment, from memory or from the store; `None` if it was damaged and is removed.
    pub(crate) async fn load(
        &self,
        mailbox: MailboxId,
        kept: &StoredSegment,
    ) -> Result<Option<Arc<Segment>>> {
        if let Some(segment) = &kept.segment {
            return Ok(Some(Arc::clone(segment)));
        }
        self.load_stored(mailbox, kept.meta.uid, kept.meta.body).await
    }

    /// A segment from the store; `None` if it was damaged and is removed.
    pub(crate) async fn load_stored(
        &self,
        mailbox: MailboxId,
        uid: Uid,
        body: BodyId,
    ) -> Result<Option<Arc<Segment>>> {
        let segment = self.read_segment(mailbox, body).await?;
        if segment.is_none() {
            self.remove_damaged(mailbox, &NumSet::range(uid.value(), uid.value())).await?;
        }
        tokio::task::yield_now().await;
        Ok(segment.map(Arc::new))
    }

    async fn read_segment(&self, mailbox: MailboxId, body: BodyId) -> Result<Option<Segment>> {
        self.shared.segments_read.fetch_add(1, Ordering::Relaxed);
        stored::read(&self.shared.store, mailbox, body).await
    }

    /// Removes segments. Their messages are scanned again.
    pub(crate) async fn remove_damaged(&self, mailbox: MailboxId, uids: &NumSet) -> Result<()> {
        tracing::warn!(
            %mailbox,
            "segments of the search index are damaged or of another version; they are made again"
        );
        stored::remove(&self.shared.store, mailbox, uids).await?;
        self.shared.store.changed().note(mailbox, Uid::MIN);
        Ok(())
    }

    /// The mailboxes that have segments, and what these take: those after `after`, in order.
    #[boxed]
    pub async fn sizes(&self, after: Option<MailboxId>) -> Result<Vec<(MailboxId, Size)>> {
        let mut sizes = Vec::new();
        for mailbox in stored::marked(&self.shared.store, after, PAGE).await? {
            let mut size = Size::default();
            for kept in self.refresh(mailbox).await?.stored() {
                size += Size {
                    segments: 1,
                    messages: kept.meta.indexed.count(),
                    bytes: kept.meta.bytes - kept.meta.sort_key_bytes,
                    sort_key_bytes: kept.meta.sort_key_bytes,
                    text_bytes: kept.meta.text_bytes,
                };
            }
            sizes.push((mailbox, size));
        }
        Ok(sizes)
    }
}

/// Looks terms up in a segment, with pauses. `asked`: how many pieces were looked up since the last
/// pause.
async fn query_segment(segment: &Segment, queries: &[Query], proposed: &mut [Vec<u32>], asked: &mut usize) {
    for (query, uids) in queries.iter().zip(proposed) {
        let mut look_up = LookUp::default();
        loop {
            let is_more = segment.look_up(query, &mut look_up);
            *asked += 1 + segment.as_bytes().len() / PIECE_BYTES;
            if *asked >= PIECES_PER_SLICE {
                *asked = 0;
                tokio::task::yield_now().await;
            }
            if !is_more {
                break;
            }
        }
        uids.append(&mut segment.proposed(&look_up));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use posthaste_search_index::{Builder, Collector, Scope};

    use super::*;

    /// Each of 64 pieces may take 1 ms. They were looked up in one poll.
    #[test]
    fn the_pieces_of_keys_are_looked_up_with_pauses() {
        const PIECES: usize = 8;
        let text = (0..PIECES).map(|n| format!("word{n}x")).collect::<Vec<_>>().join(" ");
        let mut builder = Builder::default();
        for uid in 1..=50 {
            let mut collector = Collector::default();
            collector.add(Scope::Texts, text.as_bytes());
            assert!(builder.add(uid, &collector.finish()));
        }
        let segment = builder.build(&[(1, 50)]);
        let queries = vec![Query::new(Scope::Texts, text.as_bytes()).unwrap(); 3];
        let (mut proposed, mut asked, mut pauses) = (vec![Vec::new(); 3], 0, 0);
        {
            let mut work = pin!(query_segment(&segment, &queries, &mut proposed, &mut asked));
            while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                pauses += 1;
            }
        }
        assert_eq!(proposed, vec![(1..=50).collect::<Vec<u32>>(); 3]);
        assert_eq!(pauses, 3 * PIECES / PIECES_PER_SLICE);
    }
}
