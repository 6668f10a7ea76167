//! The task in the background: new messages are read, and their terms become segments.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{BodyId, MailboxId, NumSet, Uid};
use posthaste_mime_summary::{SummaryRef, TextSearch};
use posthaste_net::Holder;
use posthaste_search_index::{Builder, Segment, Terms};
use posthaste_store::{Place, Result, StoreError, Stored};
use tokio::time::Instant;

use crate::blocking::blocking;
use crate::index::SearchIndex;
use crate::memory::doubled;
use crate::outline::Outline;
use crate::recent::Recent;
use crate::terms::{TermReader, summary_steps};
use crate::{SEGMENT_MESSAGES_MIN, places, stored};

/// The wait after a change: messages that arrive within this time are read together. A search that
/// comes earlier reads the new messages itself.
const PAUSE: Duration = Duration::from_millis(250);

/// Time between two searches for segments of mailboxes that another process deleted.
const CLEANUP_EVERY: Duration = Duration::from_secs(60 * 60);

/// Messages that are listed in one call of the engine, and bytes of their summaries.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 256 * 1024;

/// Messages that are read before another mailbox has its turn: those of one full segment.
const TURN: usize = posthaste_search_index::MESSAGES_MAX;

/// Terms of one turn at most: some 16 MiB.
const TURN_TERMS: usize = 2 << 20;

/// Messages up to this size are read without reserving memory.
const WHOLE_BYTES_MAX: u64 = 128 * 1024;

/// How long one turn waits for memory to read messages. Mailboxes of others wait meanwhile.
const READ_WITHIN: Duration = Duration::from_millis(250);

/// After this time messages that found no memory are tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Steps between two pauses of a task: 2 ms at most.
const SLICE_STEPS: u64 = 2_000_000;

/// Steps that reading a message counts for, however small it is: some 40 µs.
const MESSAGE_STEPS: u64 = 50_000;

/// The same of a message whose body was read in this turn.
const COPY_STEPS: u64 = 2_000;

/// Steps for a byte of a summary that is listed: it is verified, and copied to new memory.
const LISTED_STEPS: u64 = 2;

/// Whether a mailbox is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkOutcome {
    Done,
    /// There is more: others have their turn first.
    Again,
    /// There was no memory for some messages, from this UID on. They are tried again later.
    Later(Uid),
}

/// A mailbox that waits, with the first UID that may be new.
type Waiting = (MailboxId, Uid);

/// Messages that were read in one turn.
struct ReadMessages {
    recent: Recent,
    turn: WorkOutcome,
}

/// How a turn reads messages.
#[derive(Default)]
struct Reader {
    terms: TermReader,
    /// Steps since the last pause.
    steps: u64,
    /// The first message that found no memory. No other one waits for it in this turn.
    left: Option<u32>,
    /// The terms of the bodies that were read: copies have the same.
    known: HashMap<BodyId, Arc<Terms>>,
}

/// A message to read.
struct PendingMessage {
    uid: u32,
    body: BodyId,
    summary: Bytes,
}

impl SearchIndex {
    /// Keeps the index up to date with the mailboxes that change in this process. Never returns:
    /// spawn it, and drop it to end it.
    #[boxed]
    pub async fn run(self) {
        if !self.shared.is_on {
            return std::future::pending().await;
        }
        let changed = Arc::clone(self.shared.store.changed());
        changed.begin();
        let mut sweeps = tokio::time::interval(CLEANUP_EVERY);
        let (mut queue, mut later) = (VecDeque::new(), VecDeque::new());
        loop {
            if queue.is_empty() {
                tokio::select! {
                    () = changed.wait() => tokio::time::sleep(PAUSE).await,
                    _ = sweeps.tick() => self.sweep().await,
                    () = first_due(&later) => {}
                }
            }
            queue.extend(changed.take());
            while let Some((_, waiting)) = later.pop_front_if(|(due, _)| *due <= Instant::now()) {
                queue.push_back(waiting);
            }
            let Some((mailbox, from)) = queue.pop_front() else { continue };
            match self.work(mailbox, from).await {
                Ok(WorkOutcome::Done) => {}
                Ok(WorkOutcome::Again) => queue.push_back((mailbox, from)),
                Ok(WorkOutcome::Later(left)) => {
                    later.push_back((Instant::now() + TRY_AGAIN, (mailbox, left)))
                }
                // It was deleted meanwhile.
                Err(StoreError::NoMailbox(_)) => {}
                // A search tries again, or the delivery that makes a segment of them.
                Err(error) => tracing::warn!(%error, %mailbox, "new messages are not indexed"),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Brings the index of a mailbox up to date: all that waits, in several turns if necessary.
    /// For commands while the server runs.
    #[boxed]
    pub async fn update(&self, mailbox: MailboxId) -> Result<()> {
        loop {
            match self.work(mailbox, Uid::MIN).await? {
                WorkOutcome::Done => return Ok(()),
                WorkOutcome::Again => {}
                WorkOutcome::Later(_) => tokio::time::sleep(TRY_AGAIN).await,
            }
        }
    }

    /// Removes the segments of a mailbox and makes them again.
    #[boxed]
    pub async fn rebuild(&self, mailbox: MailboxId) -> Result<()> {
        let store = &self.shared.store;
        if store.status(&[places::of(mailbox)]).await?.into_iter().flatten().next().is_some() {
            let opened = store.open_for_upkeep(places::of(mailbox)).await?;
            let view = opened.current().await?;
            let all = view.uids_of_seqs(&view.all());
            if !all.is_empty() {
                stored::remove(store, mailbox, &all).await?;
            }
        }
        self.shared.memory.lock().forget(mailbox);
        self.update(mailbox).await
    }

    /// One turn of a mailbox. Messages from this UID on may be new. Older ones that are not in
    /// memory are read when a segment is made of them, so that no delivery reads earlier messages.
    pub(crate) async fn work(&self, mailbox: MailboxId, from: Uid) -> Result<WorkOutcome> {
        if places::is_place(mailbox) {
            return Ok(WorkOutcome::Done);
        }
        let Some(head) = self.shared.store.status(&[mailbox]).await?.into_iter().flatten().next() else {
            self.shared.memory.lock().forget(mailbox);
            stored::remove_place(&self.shared.store, mailbox).await?;
            return Ok(WorkOutcome::Done);
        };
        let outline = self.outline(mailbox).await?;
        let outline = self.save_unsaved(mailbox, outline).await?;
        let recent = self.recent(mailbox, &outline);
        let all = NumSet::range(1, head.uid_next.value() - 1);
        // Messages that are in no segment.
        let loose = all.difference(&outline.scanned);
        let mut todo = loose.difference(&recent.scanned);
        let is_few = loose.count() < SEGMENT_MESSAGES_MIN as u64;
        if is_few {
            todo = todo.intersection(&NumSet::range(from.value(), u32::MAX));
        }
        if is_few && todo.is_empty() {
            return self.tidy(mailbox, &head, outline).await;
        }
        let fresh = self.read(mailbox, todo).await?;
        let outline = self.keep(mailbox, outline, recent, fresh.recent).await?;
        match fresh.turn {
            WorkOutcome::Done => self.tidy(mailbox, &head, outline).await,
            turn => Ok(turn),
        }
    }

    /// The outline of a mailbox's segments. No segment is read, unless others changed them.
    pub(crate) async fn outline(&self, mailbox: MailboxId) -> Result<Outline> {
        let heads = self.shared.store.status(&[places::of(mailbox)]).await?;
        let Some(head) = heads.into_iter().flatten().next() else { return Ok(Outline::empty()) };
        let is_right = |outline: &Outline| outline.at == Some(head.modseq);
        let known = self.shared.memory.lock().latest.get(mailbox).outline;
        if let Some(outline) = known.filter(|outline| is_right(outline)) {
            return Ok(Outline::clone(&outline));
        }
        if let Some(outline) = stored::outline(&self.shared.store, mailbox).await?.filter(is_right) {
            self.remember(mailbox, &outline);
            return Ok(outline);
        }
        let mut known = self.refresh(mailbox).await?;
        // Each is compared with all before it, and a set may have very many ranges.
        let segments = known.clone();
        let doubled = blocking(move || doubled(segments.stored())).await?;
        if let Some(doubled) = doubled {
            stored::remove(&self.shared.store, mailbox, &doubled).await?;
            known = self.refresh(mailbox).await?;
        }
        let Some(at) = known.listed_at() else { return Ok(Outline::empty()) };
        let outline = Outline::of(at, known.stored().iter().map(|kept| &*kept.meta));
        self.set_outline(mailbox, outline).await
    }

    fn remember(&self, mailbox: MailboxId, outline: &Outline) {
        let outline = Some(Arc::new(outline.clone()));
        self.shared.memory.lock().latest.change(mailbox, |latest| latest.outline = outline);
    }

    /// Keeps and stores an outline.
    pub(crate) async fn set_outline(&self, mailbox: MailboxId, outline: Outline) -> Result<Outline> {
        self.remember(mailbox, &outline);
        stored::set_outline(&self.shared.store, mailbox, &outline).await?;
        Ok(outline)
    }

    /// The messages in memory that are in no segment.
    fn recent(&self, mailbox: MailboxId, outline: &Outline) -> Arc<Recent> {
        let mut memory = self.shared.memory.lock();
        let recent = memory.latest.get(mailbox).recent;
        if recent.scanned.intersection(&outline.scanned).is_empty() {
            return recent;
        }
        // Others have stored them.
        memory.latest.change(mailbox, |latest| Arc::make_mut(&mut latest.recent).forget(&outline.scanned));
        memory.latest.get(mailbox).recent
    }

    /// Stores what searches have made, unless it is stored already.
    async fn save_unsaved(&self, mailbox: MailboxId, mut outline: Outline) -> Result<Outline> {
        let unsaved = self.shared.memory.lock().segments.get(mailbox).unsaved;
        for segment in &unsaved {
            let uids = NumSet::from_ranges(segment.uids().map(|uid| (uid, uid)));
            if !uids.difference(&outline.scanned).is_empty() {
                outline = self.store_segment(mailbox, outline, Arc::clone(segment)).await?;
            }
            self.shared.memory.lock().segments.change(mailbox, |known| {
                known.unsaved.retain(|other| !Arc::ptr_eq(other, segment));
            });
        }
        if unsaved.is_empty() { Ok(outline) } else { self.set_outline(mailbox, outline).await }
    }

    /// Reads messages, up to the number in a segment.
    async fn read(&self, mailbox: MailboxId, mut todo: NumSet) -> Result<ReadMessages> {
        let (mut recent, mut reader) = (Recent::default(), Reader::default());
        while !todo.is_empty() {
            if recent.len() >= TURN || recent.terms() >= TURN_TERMS {
                return Ok(ReadMessages { recent, turn: WorkOutcome::Again });
            }
            let found = self.find(mailbox, &todo).await?;
            rest(&mut reader.steps, found_bytes(&found) as u64 * LISTED_STEPS).await;
            let until = match found.last() {
                Some(last) if found.len() >= BATCH || found_bytes(&found) >= BATCH_BYTES => last.uid,
                _ => u32::MAX,
            };
            let until = NumSet::range(1, until);
            let mut scanned = todo.intersection(&until);
            for message in found {
                if let Some(terms) = reader.known.get(&message.body) {
                    recent.add(message.uid, Arc::clone(terms));
                    rest(&mut reader.steps, COPY_STEPS).await;
                    continue;
                }
                match self.read_one(mailbox, &message, &mut reader).await {
                    Ok(()) => {
                        let terms = Arc::new(reader.terms.finish());
                        reader.known.insert(message.body, Arc::clone(&terms));
                        recent.add(message.uid, terms);
                    }
                    // The other messages do not wait for it.
                    Err(StoreError::Busy | StoreError::Unavailable(_)) => {
                        drop(reader.terms.finish());
                        reader.left.get_or_insert(message.uid);
                        scanned = scanned.difference(&NumSet::range(message.uid, message.uid));
                    }
                    // A message that cannot be read is in no segment: searches say so.
                    // A superseded one has a new UID once somebody reads it.
                    Err(
                        StoreError::Corrupt(_)
                        | StoreError::Body { .. }
                        | StoreError::TooLarge { .. }
                        | StoreError::Superseded(_),
                    ) => {
                        drop(reader.terms.finish());
                    }
                    Err(error) => return Err(error),
                }
            }
            recent.scanned = recent.scanned.union(&scanned);
            todo = todo.difference(&until);
        }
        let turn = reader.left.and_then(Uid::new).map_or(WorkOutcome::Done, WorkOutcome::Later);
        Ok(ReadMessages { recent, turn })
    }

    /// Messages of a set, with their summaries: the first ones.
    async fn find(&self, mailbox: MailboxId, uids: &NumSet) -> Result<Vec<PendingMessage>> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut visit = |stored: Stored<'_>| {
            bytes += stored.summary.len();
            found.push(PendingMessage {
                uid: stored.uid.value(),
                body: stored.body,
                summary: Bytes::copy_from_slice(stored.summary),
            });
            if found.len() >= BATCH || bytes >= BATCH_BYTES {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        // A message that cannot be read is in no segment: searches say so.
        let store = &self.shared.store;
        let _ = store.made_summaries(Place::Mailbox(mailbox), mailbox, uids, &mut visit).await?;
        Ok(found)
    }

    /// Collects the terms of one message. `Busy`: there is no memory for it now.
    async fn read_one(&self, mailbox: MailboxId, found: &PendingMessage, reader: &mut Reader) -> Result<()> {
        let summary = SummaryRef::new(&found.summary)
            .map_err(|error| StoreError::Corrupt(format!("the summary of UID {}: {error}", found.uid)))?;
        let size = u64::from(summary.message_size());
        let permit = match &self.shared.reads {
            Some(reads) if size > WHOLE_BYTES_MAX => {
                let bytes = usize::try_from(size).unwrap_or(usize::MAX);
                if bytes > reads.largest() {
                    // So much memory is never free. Searches read the message.
                    return Err(StoreError::TooLarge { what: "message", limit: reads.largest() as u64 });
                }
                let permit = reads.begin(Holder::Account(found.body.0.to_bytes()));
                let within = if reader.left.is_none() { READ_WITHIN } else { Duration::ZERO };
                permit.grow_to_within(bytes, within).await.map_err(|_| StoreError::Busy)?;
                permit.complete();
                Some(permit)
            }
            _ => None,
        };
        self.shared.messages_read.fetch_add(1, Ordering::Relaxed);
        rest(&mut reader.steps, MESSAGE_STEPS).await;
        let message = self.shared.store.read_body(Place::Mailbox(mailbox), found.body, 0..size).await?;
        if size > WHOLE_BYTES_MAX || summary_steps(&summary) > SLICE_STEPS {
            let terms = std::mem::take(&mut reader.terms);
            reader.terms = elsewhere(terms, message, found.summary.clone()).await?;
        } else {
            here(&mut reader.terms, &message, &summary, &mut reader.steps).await;
        }
        drop(permit);
        Ok(())
    }

    /// Stores the terms that were read in a segment if there are enough, and keeps them in memory
    /// otherwise. Messages of a segment are not read again, even if most are expunged by then.
    async fn keep(
        &self,
        mailbox: MailboxId,
        mut outline: Outline,
        recent: Arc<Recent>,
        fresh: Recent,
    ) -> Result<Outline> {
        let mut recent = Arc::unwrap_or_clone(recent);
        recent.extend(fresh);
        if recent.scanned.count() < SEGMENT_MESSAGES_MIN as u64 {
            self.shared.memory.lock().latest.change(mailbox, |latest| latest.recent = Arc::new(recent));
            return Ok(outline);
        }
        for segment in blocking(move || build(&recent)).await? {
            outline = self.store_segment(mailbox, outline, Arc::new(segment)).await?;
        }
        self.shared.memory.lock().latest.change(mailbox, |latest| latest.recent = Arc::default());
        self.set_outline(mailbox, outline).await
    }

    /// Stores a segment, unless its mailbox was deleted. Returns the outline with it.
    pub(crate) async fn store_segment(
        &self,
        mailbox: MailboxId,
        outline: Outline,
        segment: Arc<Segment>,
    ) -> Result<Outline> {
        let added = stored::add(&self.shared.store, mailbox, &segment).await?;
        if self.shared.store.engine().heads(&[mailbox]).await?.into_iter().flatten().next().is_none() {
            stored::remove_place(&self.shared.store, mailbox).await?;
        }
        Ok(match added {
            Some((meta, at)) => outline.with(&meta, at),
            None => Outline { at: None, ..outline },
        })
    }
}

/// Waits until the first mailbox may be tried again.
async fn first_due(later: &VecDeque<(Instant, Waiting)>) {
    match later.front() {
        Some((due, _)) => tokio::time::sleep_until(*due).await,
        None => std::future::pending().await,
    }
}

fn found_bytes(found: &[PendingMessage]) -> usize {
    found.iter().map(|found| found.summary.len()).sum()
}

/// Builds segments of these messages. Together the segments cover all UIDs that were scanned.
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

/// Collects the terms of a small message, with pauses.
async fn here(terms: &mut TermReader, message: &[u8], summary: &SummaryRef<'_>, steps: &mut u64) {
    let mut search = TextSearch::new(&[], summary);
    terms.begin(summary);
    *steps += summary_steps(summary);
    while let Some(more) = terms.step(&mut search, &[], message) {
        rest(steps, more).await;
    }
}

/// Counts steps, and lets other tasks run now and then.
async fn rest(steps: &mut u64, more: u64) {
    *steps += more;
    if *steps >= SLICE_STEPS {
        *steps = 0;
        tokio::task::yield_now().await;
    }
}

/// Collects the terms of a large message on a thread of its own.
async fn elsewhere(mut terms: TermReader, message: Bytes, summary: Bytes) -> Result<TermReader> {
    let work = move || {
        if let Ok(summary) = SummaryRef::new(&summary) {
            let mut search = TextSearch::new(&[], &summary);
            terms.begin(&summary);
            while terms.step(&mut search, &[], &message).is_some() {}
        }
        terms
    };
    blocking(work).await
}
