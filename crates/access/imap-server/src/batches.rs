//! A walk over messages and their summaries, in batches: what FETCH and SEARCH share.
//!
//! The engine answers sets, so the walk asks for some hundred messages at a time; it can be stopped
//! at any message (a full buffer has to be sent first) and goes on behind it. Nothing is allocated
//! per message, and the memory of a walk does not grow with the folder.
//!
//! The walk visits every message, counts it as expunged, or names it as unreadable.
//! It leaves none out in silence.

use std::ops::ControlFlow;

use posthaste_mail_model::{NumSet, SeqNum, Uid};
use posthaste_store::{Mailbox, Result, Row, Runs, Stored, Unreadable, View};

/// Messages asked for at once. With the usual 350 bytes of response each, two batches fill the
/// output buffer once. Twice as many would overshoot it by half. Looking the next place up costs
/// about as much as one message.
const BATCH: usize = 128;

/// Called for each message of a batch that has a summary.
pub(crate) type Each<'e> = dyn FnMut(SeqNum, &Row, Stored<'_>) -> ControlFlow<()> + Send + 'e;

/// The walk.
pub(crate) struct Batches<'v> {
    runs: Runs<'v>,
    /// The rest of the last run: its first sequence number and its rows.
    rest: (u32, &'v [Row]),
    batch: Vec<(SeqNum, Row)>,
    /// Number of messages of the batch that were already visited.
    at: usize,
    expunged: u32,
    unreadable: Vec<u32>,
}

impl<'v> Batches<'v> {
    /// A walk over these messages of a view, in order.
    pub(crate) fn new(view: &'v View, seqs: &'v NumSet) -> Self {
        Self {
            runs: view.runs(seqs),
            rest: (0, &[]),
            batch: Vec::with_capacity(BATCH),
            at: 0,
            expunged: 0,
            unreadable: Vec::new(),
        }
    }

    /// Messages expunged by someone while this session still knows them.
    pub(crate) const fn expunged(&self) -> u32 {
        self.expunged
    }

    /// Notes a message that was visited and turned out to be unreadable.
    pub(crate) fn note_unreadable(&mut self, uid: Uid) {
        self.unreadable.push(uid.value());
    }

    /// UIDs of the messages that exist and cannot be read.
    pub(crate) fn unreadable(&self) -> NumSet {
        self.unreadable.iter().copied().collect()
    }

    /// Whether messages are left. Takes the next batch once the last one is finished.
    pub(crate) fn more(&mut self) -> bool {
        if self.at < self.batch.len() {
            return true;
        }
        self.batch.clear();
        self.at = 0;
        while self.batch.len() < BATCH {
            if self.rest.1.is_empty() {
                match self.runs.next() {
                    Some((seq, rows)) => self.rest = (seq.value(), rows),
                    None => break,
                }
            }
            let (first, rows) = self.rest;
            let (taken, left) = rows.split_at(rows.len().min(BATCH - self.batch.len()));
            let numbered = taken.iter().zip(first..);
            self.batch.extend(numbered.filter_map(|(row, seq)| Some((SeqNum::new(seq)?, *row))));
            self.rest = (first + taken.len() as u32, left);
        }
        !self.batch.is_empty()
    }

    /// Visits the rest of the batch, up to the first `Break`. The message that caused the `Break`
    /// counts as visited.
    pub(crate) async fn visit(&mut self, mailbox: &Mailbox, each: &mut Each<'_>) -> Result<()> {
        let Some(batch) = self.batch.get(self.at..) else { return Ok(()) };
        let (mut done, mut missing, mut stopped) = (0, 0, false);
        let mut uids = NumSet::new();
        batch.iter().for_each(|(_, row)| uids.push(row.uid().value()));
        let mut visit = |stored: Stored<'_>| {
            while let Some((seq, row)) = batch.get(done) {
                if row.uid() > stored.uid {
                    // Not requested.
                    return ControlFlow::Continue(());
                }
                done += 1;
                if row.uid() == stored.uid {
                    let flow = each(*seq, row, stored);
                    stopped = flow.is_break();
                    return flow;
                }
                missing += 1;
            }
            ControlFlow::Break(())
        };
        let Unreadable(unreadable) = mailbox.summaries(&uids, &mut visit).await?;
        if !stopped {
            missing += batch.len() - done;
            done = batch.len();
        }
        self.at += done;
        // A message that was neither visited nor unreadable no longer has a row.
        self.expunged += (missing as u32).saturating_sub(unreadable.count() as u32);
        self.unreadable.extend(unreadable.iter());
        Ok(())
    }
}
