//! The task in the background: new messages are read, and their terms become segments.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, MailboxId, NumSet};
use posthaste_mime_summary::{SummaryRef, TextSearch};
use posthaste_net::Holder;
use posthaste_search_index::{Builder, Segment};
use posthaste_store::{Result, StoreError, Stored};

use crate::index::SearchIndex;
use crate::memory::Known;
use crate::recent::Recent;
use crate::terms::{Lent, summary_steps};
use crate::{SEGMENT_MESSAGES_MIN, places, stored};

/// After a change, others are waited for: messages that come within this time are read together. A
/// search that comes earlier reads the new messages itself.
const PAUSE: Duration = Duration::from_millis(250);

/// Between two looks for segments of mailboxes that another process deleted.
const SWEEP: Duration = Duration::from_secs(60 * 60);

/// Messages that are listed in one call of the engine, and bytes of their summaries.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 256 * 1024;

/// Messages that are read before another mailbox has its turn: those of one full segment.
const TURN: usize = posthaste_search_index::MESSAGES_MAX;

/// Terms of one turn at most: some 16 MiB.
const TURN_TERMS: usize = 2 << 20;

/// Bytes of the terms of a message, about: for the question whether there is room for them.
const TERMS_BYTES: u64 = 4096;

/// Messages up to this size are read without reserving memory.
const WHOLE_BYTES_MAX: u64 = 128 * 1024;

/// How long the index waits for memory to read a message.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// Steps between two pauses of a task: 2 ms at most.
const SLICE_STEPS: u64 = 2_000_000;

/// Whether a mailbox is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Done,
    /// There is more: others have their turn first.
    Again,
}

/// A message to read.
struct Found {
    uid: u32,
    body: BodyId,
    summary: Vec<u8>,
}

impl SearchIndex {
    /// Keeps the index up to date with the mailboxes that change in this process. Never returns:
    /// spawn it, and drop it to end it.
    pub async fn run(self) {
        if !self.shared.is_on {
            return std::future::pending().await;
        }
        let changed = Arc::clone(self.shared.store.changed());
        changed.begin();
        let mut sweeps = tokio::time::interval(SWEEP);
        let mut queue = VecDeque::new();
        loop {
            if queue.is_empty() {
                tokio::select! {
                    () = changed.wait() => tokio::time::sleep(PAUSE).await,
                    _ = sweeps.tick() => self.sweep().await,
                }
            }
            queue.extend(changed.take());
            let Some(mailbox) = queue.pop_front() else { continue };
            match self.work(mailbox).await {
                Ok(Turn::Done) => {}
                Ok(Turn::Again) => queue.push_back(mailbox),
                // The next change of the mailbox tries again.
                Err(error) => tracing::warn!(%error, %mailbox, "a mailbox is not indexed"),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Brings the index of a mailbox up to date: all that waits, in as many turns as it takes. For
    /// commands beside the server.
    pub async fn update(&self, mailbox: MailboxId) -> Result<()> {
        while self.work(mailbox).await? == Turn::Again {}
        Ok(())
    }

    /// Removes the segments of a mailbox and makes them again.
    pub async fn rebuild(&self, mailbox: MailboxId) -> Result<()> {
        let store = &self.shared.store;
        if store.status(&[places::of(mailbox)]).await?.into_iter().flatten().next().is_some() {
            let opened = store.open(places::of(mailbox)).await?;
            let view = opened.current().await?;
            stored::remove(store, mailbox, &view.uids_of_seqs(&view.all())).await?;
        }
        self.shared.memory.lock().forget(mailbox);
        self.update(mailbox).await
    }

    /// One turn of a mailbox.
    pub(crate) async fn work(&self, mailbox: MailboxId) -> Result<Turn> {
        if places::is_place(mailbox) {
            return Ok(Turn::Done);
        }
        let Some(head) = self.shared.store.status(&[mailbox]).await?.into_iter().flatten().next() else {
            self.shared.memory.lock().forget(mailbox);
            stored::remove_place(&self.shared.store, mailbox).await?;
            return Ok(Turn::Done);
        };
        self.save_unsaved(mailbox).await?;
        let known = self.refresh(mailbox).await?;
        let all = NumSet::range(1, head.uid_next.value() - 1);
        let todo = all.difference(&known.scanned());
        let is_few = todo.count() < SEGMENT_MESSAGES_MIN as u64;
        let room = usize::try_from(todo.count() * TERMS_BYTES).unwrap_or(usize::MAX);
        // Without room, the same messages would be read with each delivery.
        if todo.is_empty() || (is_few && !self.shared.memory.lock().has_room_for(room)) {
            return self.tidy(mailbox, &head, known).await;
        }
        let (fresh, turn) = self.read(mailbox, todo).await?;
        self.keep(mailbox, known, fresh).await?;
        if turn == Turn::Again {
            return Ok(turn);
        }
        let known = self.refresh(mailbox).await?;
        self.tidy(mailbox, &head, known).await
    }

    /// Stores what searches have made, unless it is stored already.
    async fn save_unsaved(&self, mailbox: MailboxId) -> Result<()> {
        let known = self.refresh(mailbox).await?;
        let scanned = known.scanned();
        for segment in &known.unsaved {
            let uids = NumSet::from_ranges(segment.uids().map(|uid| (uid, uid)));
            if !uids.difference(&scanned).is_empty() {
                self.store_segment(mailbox, Arc::clone(segment)).await?;
            }
            self.shared.memory.lock().change(mailbox, |known| {
                known.unsaved.retain(|other| !Arc::ptr_eq(other, segment));
            });
        }
        Ok(())
    }

    /// Reads messages, up to as many as a segment has.
    async fn read(&self, mailbox: MailboxId, mut todo: NumSet) -> Result<(Recent, Turn)> {
        let (mut fresh, mut lent, mut steps) = (Recent::default(), Lent::default(), 0);
        while !todo.is_empty() {
            if fresh.len() >= TURN || fresh.terms() >= TURN_TERMS {
                return Ok((fresh, Turn::Again));
            }
            let found = self.find(mailbox, &todo).await?;
            let until = match found.last() {
                Some(last) if found.len() >= BATCH || found_bytes(&found) >= BATCH_BYTES => last.uid,
                _ => u32::MAX,
            };
            for message in found {
                match self.read_one(&message, &mut lent, &mut steps).await {
                    Ok(()) => fresh.add(message.uid, lent.finish()),
                    // A message that cannot be read is in no segment: searches say so.
                    Err(StoreError::Corrupt(_) | StoreError::Body { .. }) => drop(lent.finish()),
                    Err(error) => return Err(error),
                }
            }
            let until = NumSet::range(1, until);
            fresh.scanned = fresh.scanned.union(&todo.intersection(&until));
            todo = todo.difference(&until);
        }
        Ok((fresh, Turn::Done))
    }

    /// Messages of a set, with their summaries: the first ones.
    async fn find(&self, mailbox: MailboxId, uids: &NumSet) -> Result<Vec<Found>> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut visit = |stored: Stored<'_>| {
            bytes += stored.summary.len();
            found.push(Found {
                uid: stored.uid.value(),
                body: stored.body,
                summary: stored.summary.to_vec(),
            });
            if found.len() >= BATCH || bytes >= BATCH_BYTES {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        // A message that cannot be read is in no segment: searches say so.
        let _ = self.shared.store.engine().summaries(mailbox, uids, &mut visit).await?;
        Ok(found)
    }

    /// Collects the terms of one message.
    async fn read_one(&self, found: &Found, lent: &mut Lent, steps: &mut u64) -> Result<()> {
        let summary = SummaryRef::new(&found.summary)
            .map_err(|error| StoreError::Corrupt(format!("the summary of UID {}: {error}", found.uid)))?;
        let size = u64::from(summary.message_size());
        let permit = match &self.shared.reads {
            Some(reads) if size > WHOLE_BYTES_MAX => {
                let permit = reads.begin(Holder::Account(found.body.0.to_bytes()));
                let bytes = usize::try_from(size).unwrap_or(usize::MAX);
                permit.grow_to_within(bytes, READ_WITHIN).await.map_err(|_| StoreError::Busy)?;
                permit.complete();
                Some(permit)
            }
            _ => None,
        };
        let message = self.shared.store.read_body(found.body, 0..u64::MAX).await?;
        if size > WHOLE_BYTES_MAX || summary_steps(&summary) > SLICE_STEPS {
            *lent = elsewhere(std::mem::take(lent), message, found.summary.clone()).await?;
        } else {
            here(lent, &message, &summary, steps).await;
        }
        drop(permit);
        Ok(())
    }

    /// Keeps the terms that were read: in a segment if there is enough, else in memory.
    async fn keep(&self, mailbox: MailboxId, known: Known, fresh: Recent) -> Result<()> {
        if known.recent.len() + fresh.len() < SEGMENT_MESSAGES_MIN {
            self.shared.memory.lock().change(mailbox, |known| Arc::make_mut(&mut known.recent).extend(fresh));
            return Ok(());
        }
        let mut recent = Arc::unwrap_or_clone(known.recent);
        recent.extend(fresh);
        for segment in blocking(move || build(&recent)).await? {
            self.store_segment(mailbox, Arc::new(segment)).await?;
        }
        self.shared.memory.lock().change(mailbox, |known| known.recent = Arc::default());
        Ok(())
    }

    /// Stores a segment, unless its mailbox was deleted.
    pub(crate) async fn store_segment(&self, mailbox: MailboxId, segment: Arc<Segment>) -> Result<()> {
        stored::add(&self.shared.store, mailbox, &segment).await?;
        if self.shared.store.engine().heads(&[mailbox]).await?.into_iter().flatten().next().is_none() {
            stored::remove_place(&self.shared.store, mailbox).await?;
        }
        Ok(())
    }
}

fn found_bytes(found: &[Found]) -> usize {
    found.iter().map(|found| found.summary.len()).sum()
}

/// Segments of all these messages. Together they have looked at all that was looked at.
fn build(recent: &Recent) -> Vec<Segment> {
    let (mut segments, mut from) = (Vec::new(), 1);
    let mut builder = Builder::default();
    let mut end = |builder: Builder, until: u32| {
        let scanned = recent.scanned.intersection(&NumSet::range(from, until));
        segments.push(builder.build(scanned.ranges()));
        from = until.saturating_add(1);
    };
    let mut last = 0;
    for (uid, terms) in recent.messages() {
        if builder.is_full() {
            end(std::mem::take(&mut builder), last);
        }
        builder.add(*uid, terms);
        last = *uid;
    }
    end(builder, u32::MAX);
    segments
}

/// Collects a small message, with pauses.
async fn here(lent: &mut Lent, message: &[u8], summary: &SummaryRef<'_>, steps: &mut u64) {
    let mut search = TextSearch::new(&[], summary);
    lent.begin(summary);
    *steps += summary_steps(summary);
    while let Some(more) = lent.step(&mut search, &[], message) {
        *steps += more;
        if *steps >= SLICE_STEPS {
            *steps = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Collects a large message on a thread of its own.
async fn elsewhere(mut lent: Lent, message: Bytes, summary: Vec<u8>) -> Result<Lent> {
    let work = move || {
        if let Ok(summary) = SummaryRef::new(&summary) {
            let mut search = TextSearch::new(&[], &summary);
            lent.begin(&summary);
            while lent.step(&mut search, &[], &message).is_some() {}
        }
        lent
    };
    blocking(work).await
}

/// Runs long work on another thread. Its cost counts as that of the task.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let session = posthaste_metrics::current();
    tokio::task::spawn_blocking(move || session.run(work)).await.map_err(|error| {
        tracing::error!(%error, "a computation of the search index failed");
        StoreError::Busy
    })
}
