//! A walk over messages and their summaries, in batches: what FETCH and SEARCH share.
//!
//! The engine answers sets, so the walk requests 128 messages at a time. It shows each message to
//! the command with its summary, in the engine's own memory. The command answers the message at
//! once, or has it deferred. A message that is deferred waits for the end of the engine's call,
//! with a copy of its summary. Then the command may read its body or compute on another thread.
//!
//! The walk can pause at any message, to send a full buffer, and continues after it. Nothing is
//! allocated per message, and the memory of a walk does not grow with the folder.
//!
//! A summary that delivery did not make is made at a pause. The row that a command sees has the
//! size that clients see, which the row of such a message does not have.
//!
//! A message is answered, counted as expunged, or named as unreadable ([`Unanswered`]). None is
//! omitted without a report.

use std::ops::{ControlFlow, Range};

use bytes::Bytes;
use posthaste_mail_model::{BodyId, ModSeq, NumSet, SeqNum, Uid};
use posthaste_metrics::Counter;
use posthaste_mime_summary::SummaryRef;
use posthaste_net::{BytePermit, copying};
use posthaste_store::{Keep, Mailbox, Row, Runs, StoreError, Stored, Unreadable, View};

use crate::freed::freed_elsewhere;
use crate::heavy::{Pace, SLICE_STEPS, STEPS_MAX};
use crate::offload::Threads;
use crate::reply::Failure;

/// Messages requested at once. With the usual 350 bytes of response each, two batches fill the
/// output buffer once. Twice as many would overshoot it by half. Looking the next place up costs
/// about as much as one message.
const BATCH: usize = 128;

/// Bytes of summaries that may be deferred before the walk pauses. A longer summary is not copied:
/// it is read again once its memory is reserved.
const DEFERRED_BYTES_MAX: usize = 64 * 1024;

/// Steps of looking a message up and of showing it, without those that the command counts. It
/// takes 300 ns if the messages are not neighbours.
const SHOWN_STEPS: u64 = 250;

/// Octets of a usual summary. Verifying them is part of looking the message up.
const USUAL_OCTETS: u64 = 4096;

/// Steps of verifying the octets of a summary, four in a step.
fn verified_steps(summary: &[u8]) -> u64 {
    (summary.len() as u64).saturating_sub(USUAL_OCTETS) / 4
}

/// The stored values of a message other than its row.
#[derive(Clone, Copy)]
pub(super) struct StoredMessage<'m> {
    /// The id of the message's body.
    pub(super) body: BodyId,
    /// SAVEDATE, unix seconds.
    pub(super) saved: i64,
    /// CREATEDMODSEQ; [`ModSeq::ZERO`] if it is not known.
    pub(super) created: ModSeq,
    /// The values that delivery computed.
    pub(super) summary: SummaryRef<'m>,
}

impl<'m> StoredMessage<'m> {
    fn of(&Stored { body, saved, created, .. }: &Stored<'_>, summary: SummaryRef<'m>) -> Self {
        Self { body, saved, created, summary }
    }
}

/// A message of the walk.
#[derive(Clone, Copy)]
pub(super) struct Visited<'m> {
    pub(super) seq: SeqNum,
    pub(super) row: &'m Row,
    pub(super) stored: StoredMessage<'m>,
}

/// The outcome of a command for one message.
pub(super) enum VisitOutcome {
    /// The message is answered.
    Done,
    /// The message is answered, and the output buffer is full: the walk pauses.
    Full,
    /// The command answers it later, see [`Walk::deferred`].
    Deferred,
}

/// One pass over a batch, up to the next pause.
#[derive(Default)]
pub(super) struct Pass {
    /// Steps of work done in it. The command adds its own.
    pub(super) steps: u64,
    /// Whether a message of it was deferred: those after it may have to wait, too.
    pub(super) has_deferred: bool,
}

/// The messages that a walk did not answer.
pub(super) struct Unanswered {
    /// The number of messages that others expunged while this session still knows them.
    pub(super) expunged: u32,
    /// UIDs of those that exist and cannot be read.
    pub(super) unreadable: NumSet,
}

impl Unanswered {
    /// The value for a walk that answered all messages.
    pub(super) const fn none() -> Self {
        Self { expunged: 0, unreadable: NumSet::new() }
    }
}

/// Messages that were deferred.
#[derive(Default)]
pub(super) struct DeferredMessages {
    messages: Vec<DeferredMessage>,
    summaries: Vec<u8>,
}

struct DeferredMessage {
    seq: SeqNum,
    row: Row,
    body: BodyId,
    saved: i64,
    created: ModSeq,
    /// The position of the summary's copy; the length of a long summary, which was not copied.
    summary: Result<Range<usize>, usize>,
}

/// A message that was deferred, its summary not yet parsed again.
#[derive(Clone, Copy)]
pub(super) struct Deferred<'a> {
    pub(super) seq: SeqNum,
    pub(super) row: &'a Row,
    pub(super) body: BodyId,
    pub(super) saved: i64,
    pub(super) created: ModSeq,
    pub(super) summary: &'a [u8],
    /// The length of its summary, if that is not here.
    left_out: usize,
}

/// A long summary, with the memory that was reserved for it.
pub(super) struct LongSummary {
    /// `None` if the walk has the copy.
    bytes: Option<Bytes>,
    _paid: BytePermit,
}

/// Memory for a copy, which was used on another thread if it is large: that takes most of the time
/// of a copy.
pub(super) async fn used_memory(octets: usize) -> Vec<u8> {
    let used = move || {
        let mut memory = vec![1_u8; octets];
        memory.clear();
        memory
    };
    copying(octets, used).await
}

/// The outcome for a message with a long summary.
pub(super) enum LongOutcome {
    Read(LongSummary),
    Expunged,
}

impl<'a> Deferred<'a> {
    /// Whether memory is reserved for its summary.
    pub(super) const fn is_long(&self) -> bool {
        self.left_out > 0 || self.summary.len() > DEFERRED_BYTES_MAX
    }

    /// Waits for the memory of a long summary, and reads it.
    pub(super) async fn read_long(self, by: Threads<'_>, mailbox: &Mailbox) -> Result<LongOutcome, Failure> {
        let Threads { service, account } = by;
        let bytes = self.left_out.max(self.summary.len()).min(service.reads.largest());
        let _paid = service.reserve_to_read(account, bytes as u64).await?;
        if self.left_out == 0 {
            return Ok(LongOutcome::Read(LongSummary { bytes: None, _paid }));
        }
        let uid = self.row.uid().value();
        let mut summary = used_memory(self.left_out).await;
        let mut is_there = false;
        let mut visit = |stored: Stored<'_>| {
            summary.extend_from_slice(stored.summary);
            is_there = true;
            ControlFlow::Break(())
        };
        let unreadable = mailbox.summaries(&NumSet::range(uid, uid), &mut visit).await?;
        unreadable.refuse().map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(match is_there {
            true => LongOutcome::Read(LongSummary { bytes: Some(freed_elsewhere(summary)), _paid }),
            false => LongOutcome::Expunged,
        })
    }

    /// The message with its long summary, if it has one.
    pub(super) fn with(self, long: Option<&'a LongSummary>) -> Self {
        match long.and_then(|long| long.bytes.as_deref()) {
            Some(summary) => Self { summary, left_out: 0, ..self },
            None => self,
        }
    }

    /// A message with a summary that was copied elsewhere.
    pub(super) fn of(
        (seq, row): (SeqNum, &'a Row),
        (body, saved, created): (BodyId, i64, ModSeq),
        summary: &'a [u8],
    ) -> Self {
        Self { seq, row, body, saved, created, summary, left_out: 0 }
    }

    /// The message as it was shown first. Its summary was parsed before it was copied, so an error
    /// is a fault of this program. The message then counts as unreadable.
    pub(super) fn read(self) -> Result<Visited<'a>, Failure> {
        let Self { seq, row, body, saved, created, summary, .. } = self;
        let parsed = SummaryRef::new(summary);
        debug_assert!(parsed.is_ok(), "a summary that was parsed cannot be parsed again");
        let summary = parsed.map_err(|error| StoreError::Corrupt(format!("a copied summary: {error}")))?;
        Ok(Visited { seq, row, stored: StoredMessage { body, saved, created, summary } })
    }
}

impl DeferredMessages {
    /// The messages in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Deferred<'_>> {
        self.messages.iter().map(|message| {
            let &DeferredMessage { seq, ref row, body, saved, created, ref summary } = message;
            let (copy, left_out) = match summary {
                Ok(place) => (self.summaries.get(place.clone()), 0),
                Err(len) => (Some(&[][..]), *len),
            };
            debug_assert!(copy.is_some(), "a message was deferred without its summary");
            // An empty summary does not parse, so the message counts as unreadable.
            Deferred { seq, row, body, saved, created, summary: copy.unwrap_or_default(), left_out }
        })
    }

    fn clear(&mut self) {
        self.messages.clear();
        self.summaries.clear();
        self.summaries.shrink_to(2 * DEFERRED_BYTES_MAX);
    }

    /// Defers a message. A long summary is not copied.
    fn push(&mut self, seq: SeqNum, row: &Row, stored: &Stored<'_>) {
        if stored.summary.len() <= DEFERRED_BYTES_MAX {
            return self.push_copy(seq, row, stored);
        }
        let &Stored { body, saved, created, summary, .. } = stored;
        let summary = Err(summary.len());
        self.messages.push(DeferredMessage { seq, row: *row, body, saved, created, summary });
    }

    /// Defers a message whose summary may not be stored.
    fn push_copy(&mut self, seq: SeqNum, row: &Row, stored: &Stored<'_>) {
        let start = self.summaries.len();
        self.summaries.extend_from_slice(stored.summary);
        let summary = Ok(start..self.summaries.len());
        let &Stored { body, saved, created, .. } = stored;
        self.messages.push(DeferredMessage { seq, row: *row, body, saved, created, summary });
    }
}

/// The messages that were not answered.
#[derive(Default)]
pub(super) struct Faults {
    /// UIDs of those that exist and cannot be read.
    unreadable: Vec<u32>,
    expunged: u32,
}

impl Faults {
    /// Counts a message that was expunged after it was deferred.
    pub(super) fn expunged(&mut self) {
        self.expunged += 1;
    }

    /// Returns the outcome of one message. Damage of that message says nothing about others: it is
    /// logged and collected, and the walk continues.
    pub(super) fn collect<T>(&mut self, uid: Uid, outcome: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Failure::Store(error @ (StoreError::Body { .. } | StoreError::Corrupt(_)))) => {
                tracing::error!(%uid, %error, "a message cannot be read");
                self.unreadable.push(uid.value());
                Ok(None)
            }
            // The message has a new UID, and its EXPUNGE is reported next.
            Err(Failure::Store(StoreError::Superseded(_))) => {
                self.expunged();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// A message of the batch.
struct NextMessage {
    seq: SeqNum,
    row: Row,
}

/// A message of the batch whose summary delivery did not make.
struct WithoutSummary {
    body: BodyId,
    saved: i64,
    created: ModSeq,
}

impl WithoutSummary {
    fn of(&Stored { body, saved, created, .. }: &Stored<'_>) -> Self {
        Self { body, saved, created }
    }

    /// Shows the command the message with the summary that was made. Whether its buffer is full
    /// does not matter: the walk has paused.
    fn show<E>(
        &self,
        (next, summary): (&NextMessage, &[u8]),
        (each, pass): (&mut E, &mut Pass),
        deferred: &mut DeferredMessages,
    ) -> Result<(), Failure>
    where
        E: FnMut(Visited<'_>, &mut Pass) -> VisitOutcome,
    {
        let &Self { body, saved, created } = self;
        let read = SummaryRef::new(summary);
        let read = read.map_err(|error| StoreError::Corrupt(format!("a summary that was made: {error}")))?;
        let row = next.row.with_size(read.message_size());
        let stored = StoredMessage { body, saved, created, summary: read };
        if matches!(each(Visited { seq: next.seq, row: &row, stored }, pass), VisitOutcome::Deferred) {
            pass.has_deferred = true;
            let stored = Stored { uid: row.uid(), body, saved, created, summary, is_shared: false };
            deferred.push_copy(next.seq, &row, &stored);
        }
        Ok(())
    }
}

/// Neighbours of the view that are not in a batch yet.
struct Run<'v> {
    /// The sequence number of the first; `None` once no row is left.
    first: Option<SeqNum>,
    rows: &'v [Row],
}

/// The walk.
pub(super) struct Walk<'v> {
    mailbox: &'v Mailbox,
    runs: Runs<'v>,
    run: Run<'v>,
    batch: Vec<NextMessage>,
    batch_size: usize,
    /// Number of messages of the batch that were already shown.
    at: usize,
    deferred: DeferredMessages,
    expunged: u32,
    faults: Faults,
}

impl<'v> Walk<'v> {
    /// A walk over these messages of a view, in order.
    pub(super) fn new(mailbox: &'v Mailbox, view: &'v View, seqs: &'v NumSet<SeqNum>) -> Self {
        Self {
            mailbox,
            runs: view.runs(seqs),
            run: Run { first: None, rows: &[] },
            batch: Vec::new(),
            batch_size: BATCH,
            at: 0,
            deferred: DeferredMessages::default(),
            expunged: 0,
            faults: Faults::default(),
        }
    }

    /// Sets how many messages are requested at once.
    pub(super) fn in_batches_of(self, size: usize) -> Self {
        Self { batch: Vec::with_capacity(size), batch_size: size, ..self }
    }

    /// Whether messages are left. Takes the next batch once the last one is finished.
    pub(super) fn more(&mut self) -> bool {
        if self.at < self.batch.len() {
            return true;
        }
        self.batch.clear();
        self.at = 0;
        while self.batch.len() < self.batch_size {
            let Some(first) = self.run.first else {
                match self.runs.next() {
                    Some((seq, rows)) => self.run = Run { first: Some(seq), rows },
                    None => break,
                }
                continue;
            };
            let rows = self.run.rows;
            let (taken, left) = rows.split_at(rows.len().min(self.batch_size - self.batch.len()));
            let seqs = std::iter::successors(Some(first), |seq| seq.next());
            self.batch.extend(taken.iter().zip(seqs).map(|(row, seq)| NextMessage { seq, row: *row }));
            let first = SeqNum::new(first.value().saturating_add(taken.len() as u32));
            self.run = Run { first: first.filter(|_| !left.is_empty()), rows: left };
        }
        !self.batch.is_empty()
    }

    /// Shows the command the rest of the batch, up to the next pause: after a full buffer, much
    /// work, or many summaries deferred. Then the task yields if its slice is used up.
    pub(super) async fn visit<E>(&mut self, pace: &mut Pace, mut each: E) -> Result<(), Failure>
    where
        E: FnMut(Visited<'_>, &mut Pass) -> VisitOutcome + Send,
    {
        let Self { mailbox, batch, at, deferred, expunged, faults, .. } = self;
        deferred.clear();
        let batch = &batch[*at..];
        let (mut done, mut missing, mut is_paused, mut unmade) = (0, 0, false, None);
        let mut uids = NumSet::new();
        batch.iter().for_each(|next| uids.push(next.row.uid().value()));
        let mut pass = Pass::default();
        let mut visit = |stored: Stored<'_>| {
            while let Some(NextMessage { seq, row }) = batch.get(done) {
                if row.uid() > stored.uid {
                    // The stored message was not requested.
                    return ControlFlow::Continue(());
                }
                done += 1;
                if row.uid() != stored.uid {
                    missing += 1;
                    continue;
                }
                pass.steps += verified_steps(stored.summary);
                let sized;
                let (handled, row) = match SummaryRef::new(stored.summary) {
                    Ok(summary) => {
                        let row = match row.lacks_items() {
                            true => {
                                sized = row.with_size(summary.message_size());
                                &sized
                            }
                            false => row,
                        };
                        let stored = StoredMessage::of(&stored, summary);
                        (each(Visited { seq: *seq, row, stored }, &mut pass), row)
                    }
                    // Delivery did not make the summary. The walk continues with this message
                    // after the pause.
                    Err(_) if stored.summary.is_empty() => {
                        done -= 1;
                        unmade = Some(WithoutSummary::of(&stored));
                        is_paused = true;
                        return ControlFlow::Break(());
                    }
                    Err(error) => {
                        tracing::error!(uid = %stored.uid, %error, "a stored summary has an unknown format; run `posthaste check`");
                        faults.unreadable.push(stored.uid.value());
                        return ControlFlow::Continue(());
                    }
                };
                let is_full = match handled {
                    VisitOutcome::Done => false,
                    VisitOutcome::Full => true,
                    VisitOutcome::Deferred => {
                        pass.has_deferred = true;
                        deferred.push(*seq, row, &stored);
                        deferred.summaries.len() >= DEFERRED_BYTES_MAX
                    }
                };
                is_paused = is_full || pass.steps >= SLICE_STEPS;
                return if is_paused { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
            ControlFlow::Break(())
        };
        let Unreadable(unreadable) = mailbox.summaries(&uids, &mut visit).await?;
        posthaste_metrics::count(Counter::RecordReads, (done - missing) as u64);
        if !is_paused {
            missing += batch.len() - done;
            done = batch.len();
        }
        if let Some(unmade) = unmade
            && let Some(next) = batch.get(done)
        {
            done += 1;
            // Boxed, so that no other walk needs the memory.
            let made = Box::pin(mailbox.made_summary(next.row.uid(), unmade.body, Keep::AsSet)).await;
            if let Some(summary) = faults.collect(next.row.uid(), made.map_err(Failure::from))? {
                let row = unmade.show((next, &summary), (&mut each, &mut pass), deferred);
                faults.collect(next.row.uid(), row)?;
            }
        }
        *at += done;
        if let Some(progress) = pace.progress() {
            // The deferred messages are not read yet.
            progress.advance((done - deferred.messages.len()) as u64);
        }
        // A message that was neither shown nor unreadable no longer has a row.
        *expunged += (missing as u32).saturating_sub(unreadable.count() as u32);
        faults.unreadable.extend(unreadable.iter());
        // More only with a summary of megabytes. Before it a pass has less than a slice. Then come
        // 2.6 million steps for the longest summary. What the command does with it is a slice at
        // most, or it defers the message. So a pass takes under 7 ms, and under 9 ms with the slice
        // that was not full before it.
        pace.worked((pass.steps + done as u64 * SHOWN_STEPS).min(STEPS_MAX)).await;
        Ok(())
    }

    /// The messages that the last visit deferred, and where their faults are noted.
    pub(super) fn deferred(&mut self) -> (&DeferredMessages, &mut Faults) {
        (&self.deferred, &mut self.faults)
    }

    /// Ends the walk.
    pub(super) fn end(self) -> Unanswered {
        let Faults { unreadable, expunged } = self.faults;
        Unanswered { expunged: self.expunged + expunged, unreadable: unreadable.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_of_one_message_is_noted_and_other_errors_end_the_walk() {
        let mut faults = Faults::default();
        let uid = Uid::new(7).unwrap();
        assert!(matches!(faults.collect(uid, Ok(3)), Ok(Some(3))));
        let damage = StoreError::Corrupt("a summary".to_owned());
        assert!(matches!(faults.collect::<()>(uid, Err(damage.into())), Ok(None)));
        let busy = faults.collect::<()>(uid, Err(StoreError::Busy.into()));
        assert!(matches!(busy, Err(Failure::Store(StoreError::Busy))));
        assert_eq!(faults.unreadable, [7]);
    }
}
