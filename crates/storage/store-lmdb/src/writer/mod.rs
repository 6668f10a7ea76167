//! The writer thread: takes all waiting jobs, commits them in one transaction, and answers them.
//!
//! | step | on failure |
//! | --- | --- |
//! | begin the index transaction, unless one is open | waiting jobs are answered `Unavailable` |
//! | check each commit and apply it | this one is answered; the others continue |
//! | preallocate space in index and pack | `Full`, nothing was written; deletions use the reserve |
//! | write the records, sync the pack | `Unavailable`; the pack is abandoned at its old end |
//! | commit the index, durably | the same |
//! | answer | |
//!
//! The transaction begins once no other process writes. A commit is checked against the present
//! state. A single waiting commit is written at once. A group has the commits that came while the
//! previous group was being written.
//!
//! **A serving process answers before the index commits.** The synced pack has the whole commit.
//! If the process ends, `redo` applies the missing commits to the index. It *holds* the index
//! transaction open, for some milliseconds at most, and puts the next groups into it. A reader
//! that needs a commit of the transaction first waits until the transaction is committed
//! (`unindexed`). So a durable commit costs one sync of the disk. All commits within those
//! milliseconds share the two syncs of the index. While a transaction is open, no other process
//! writes. So records after a pack's recorded end, under the index's next sequence number, are
//! always from an ended process.

pub(crate) mod apply;
mod job;
pub(crate) mod queue_lock;
mod recover;
pub(crate) mod redo;
mod state;
mod transaction;
pub(crate) mod unindexed;
mod wait;

use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use posthaste_store::{CommitOutcome, Result, StoreError, SummaryOf};
use tokio::sync::mpsc;

pub(crate) use self::job::{Change, Job, Reply, pass};
pub(crate) use self::state::Writer;
pub(crate) use self::transaction::IndexCommit;
use self::wait::{Received, receive};
use crate::data_dir::reserve::Purpose;
use crate::log::GROUP_MAX;
use crate::maintenance;
use crate::writer::apply::Applied;

/// Bytes that a group adds to one transaction: new messages, summaries, pages of changed rows.
/// More would keep other processes from writing. One commit is never cut, so it alone may have
/// more.
const GROUP_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Jobs in the queue. Further ones wait for a free place.
pub(crate) const QUEUE_MAX: usize = 1024;

impl Writer<'_> {
    /// Runs until every sender was dropped.
    pub(crate) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut group = Vec::new();
        loop {
            let due = self.open.as_ref().map(|open| open.due);
            let job = match receive(&mut jobs, due) {
                Received::Job(job) => job,
                Received::Closed => break,
                Received::Nothing => {
                    let _ = self.checkpoint();
                    continue;
                }
            };
            let (mut maintain, mut checkpoints) = (Vec::new(), Vec::new());
            let (mut accepts, mut summaries) = (Vec::new(), Vec::new());
            let mut weight = 0;
            let mut next = Some(job);
            while let Some(job) = next {
                match job {
                    Job::Change(change, reply) => {
                        weight += change.weight();
                        group.push((change, reply));
                    }
                    Job::Summary(added, reply) => {
                        weight += added.1.len();
                        summaries.push((added, reply));
                    }
                    Job::Maintain(prepared, reply) => maintain.push((prepared, reply)),
                    Job::AcceptLoss(reply) => accepts.push(reply),
                    Job::Checkpoint(reply) => checkpoints.push(reply),
                }
                let full = group.len() + summaries.len() >= GROUP_MAX || weight >= GROUP_BYTES_MAX;
                next = if full { None } else { jobs.try_recv().ok() };
            }
            self.group(&mut group);
            let due = self.open.as_ref().is_some_and(|open| open.is_full() || open.due <= Instant::now());
            let in_index = !summaries.is_empty() || !maintain.is_empty() || !accepts.is_empty();
            if due || in_index || !checkpoints.is_empty() {
                let checkpoint = self.checkpoint();
                checkpoints.drain(..).for_each(|reply| drop(reply.send(checkpoint.clone())));
            }
            self.add_summaries(summaries);
            for (prepared, reply) in maintain {
                let round =
                    self.with_reserve(Purpose::Deletion, |writer| maintenance::round(writer, &prepared));
                let _ = reply.send(round);
            }
            for reply in accepts {
                let accepted = self.with_reserve(Purpose::Deletion, maintenance::accept_loss);
                let _ = reply.send(accepted);
            }
        }
        if !self.shared.killed.load(Ordering::Acquire) {
            let _ = self.checkpoint();
        }
    }

    /// Adds summaries to the index, all in one transaction. Each message is new content: it may not
    /// use the reserve.
    fn add_summaries(&mut self, summaries: Vec<((SummaryOf, Bytes), Reply<CommitOutcome>)>) {
        if summaries.is_empty() {
            return;
        }
        self.purpose = Purpose::Content;
        let added = self.work(|apply| {
            let added = summaries.iter().map(|(added, _)| added);
            let added = added.map(|(message, summary)| apply.add_summary(message, summary));
            let outcomes = added.collect::<Result<Vec<_>>>()?;
            let is_done = |outcome: &CommitOutcome| *outcome == CommitOutcome::Done;
            let wrote = if outcomes.iter().any(is_done) { IndexCommit::Now } else { IndexCommit::Nothing };
            Ok((outcomes, wrote))
        });
        match added {
            Ok(outcomes) => {
                let replies = summaries.into_iter().map(|(_, reply)| reply);
                replies.zip(outcomes).for_each(|(reply, outcome)| drop(reply.send(Ok(outcome))));
            }
            Err(error) => {
                tracing::error!(%error, summaries = summaries.len(), "summaries were not added");
                summaries.into_iter().for_each(|(_, reply)| drop(reply.send(Err(error.clone()))));
            }
        }
    }

    /// Commits a group and answers each of it.
    fn group(&mut self, group: &mut Vec<(Change, Reply<CommitOutcome>)>) {
        if group.is_empty() {
            return;
        }
        let changes: Vec<&Change> = group.iter().map(|(change, _)| change).collect();
        self.purpose = changes.iter().map(|change| change.purpose()).min().unwrap_or(Purpose::Content);
        let outcomes = match self.transaction(&changes) {
            Ok(outcomes) => outcomes,
            Err(StoreError::Full(why)) => self.on_full_disk(&changes, &why),
            // One of them met a damaged record: the others are tried without it.
            Err(e) if !e.is_temporary() && changes.len() > 1 => {
                changes.iter().map(|change| self.alone(change)).collect()
            }
            Err(e) => {
                tracing::error!(error = %e, commits = changes.len(), "commits were not written");
                changes.iter().map(|_| Err(e.clone())).collect()
            }
        };
        for ((_, reply), outcome) in group.drain(..).zip(outcomes) {
            // A caller that no longer waits does not undo the commit.
            let _ = reply.send(outcome);
        }
    }

    /// Commits each change of a group by itself after the disk was full: deletions may use the
    /// reserve.
    fn on_full_disk(&mut self, changes: &[&Change], why: &str) -> Vec<Result<CommitOutcome>> {
        // Bytes of new messages for which the disk has no space.
        let mut too_much = if changes.len() > 1 { usize::MAX } else { 0 };
        let mut refused = 0;
        let mut each = |change: &Change| {
            let purpose = change.purpose();
            if purpose == Purpose::Content && change.new_bytes() >= too_much {
                refused += 1;
                return Err(StoreError::Full(why.to_owned()));
            }
            let outcome = self.with_reserve(purpose, |writer| writer.alone(change));
            if matches!(outcome, Err(StoreError::Full(_))) {
                refused += 1;
                if purpose == Purpose::Content {
                    too_much = too_much.min(change.new_bytes());
                }
            }
            outcome
        };
        let outcomes = changes.iter().map(|change| each(change)).collect();
        if refused > 0 {
            tracing::error!(why, commits = refused, "the disk is full; commits were not written");
        }
        outcomes
    }

    fn alone(&mut self, change: &Change) -> Result<CommitOutcome> {
        let outcome = self.transaction(&[change])?.pop();
        debug_assert!(outcome.is_some(), "a transaction has an outcome for each change");
        outcome.unwrap_or_else(|| Err(StoreError::Corrupt("a transaction without an outcome".to_owned())))
    }

    /// Does a transaction, and returns the outcome of each change. The error says why no change
    /// was made.
    fn transaction(&mut self, changes: &[&Change]) -> Result<Vec<Result<CommitOutcome>>> {
        let outcomes = self.work(|apply| {
            let mut outcomes = Vec::with_capacity(changes.len());
            for change in changes {
                let applied = match change {
                    Change::Mailbox(commit) => apply.mailbox(commit)?,
                    Change::Pair(pair) => apply.pair(pair)?,
                    Change::List(commit) => apply.list(commit)?,
                    Change::Directory(change) => apply.directory(change)?,
                    Change::Recode(body, bytes, holders) => apply.recode(*body, bytes, *holders)?,
                };
                outcomes.push(match applied {
                    Applied::Done => Ok(CommitOutcome::Done),
                    Applied::Conflict => Ok(CommitOutcome::Conflict),
                    Applied::Refused(error) => Err(error),
                });
            }
            let wrote = match done(changes, &outcomes).count() {
                0 => IndexCommit::Nothing,
                _ if done(changes, &outcomes).all(|c| !c.on_mailboxes().is_empty()) => IndexCommit::Later,
                _ => IndexCommit::Now,
            };
            Ok((outcomes, wrote))
        })?;
        if self.open.is_some() {
            let commits = done(changes, &outcomes).flat_map(Change::on_mailboxes);
            commits.for_each(|commit| self.shared.unindexed.add(commit));
        }
        Ok(outcomes)
    }
}

/// The changes of a group that were applied.
fn done<'c>(
    changes: &'c [&Change],
    outcomes: &'c [Result<CommitOutcome>],
) -> impl Iterator<Item = &'c Change> {
    let made = |(change, outcome): (&'c &Change, &Result<CommitOutcome>)| {
        matches!(outcome, Ok(CommitOutcome::Done)).then_some(*change)
    };
    changes.iter().zip(outcomes).filter_map(made)
}
