//! The one thread that writes: takes all that waits, makes one transaction of it, answers all.
//!
//! | step | on failure |
//! | --- | --- |
//! | begin the index transaction, unless one is open: waits for a writer in another process | all that wait are answered `Unavailable` |
//! | check each commit against what is there and apply it | this one is answered; the others go on |
//! | reserve room in index and pack | `Full`, nothing was written; deletions use the reserve |
//! | write the records, sync the pack | `Unavailable`; the pack is given up at its old end |
//! | commit the index, durably | the same |
//! | answer | |
//!
//! A commit that waits alone goes at once: the group is whatever gathered while the one before was
//! on its way to the disk.
//!
//! **A serving process answers before the index commits**: the synced pack has all that the commit
//! is, and what the index lacks of it is applied again should the process end (`redo`). It *holds*
//! the index transaction open, for some milliseconds at most, and puts the next groups into it;
//! whoever wants to read what is in it has it committed first (`unindexed`). So a durable commit is
//! one sync of the disk, and the index's two are shared by all that come within those milliseconds.
//! While a transaction is open no other process writes: what follows a pack's recorded end under
//! the index's next sequence number is therefore always what an ended process left.

pub(crate) mod apply;
mod recover;
pub(crate) mod redo;
mod transaction;
pub(crate) mod turn;
pub(crate) mod unindexed;
mod wait;

use posthaste_mail_model::FlagSet;
use posthaste_store::{
    CommitOutcome, Content, DirectoryChange, ListCommit, MailboxCommit, Report, Result, StoreError,
};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

use self::recover::Others;
use self::transaction::{OpenTransaction, Wrote};
use self::wait::{Received, receive};
use crate::data_dir::reserve::Purpose;
use crate::index::rows::Scratch;
use crate::log::appender::Appender;
use crate::maintenance::{self, checkpoints::Prepared};
use crate::shared::Shared;
use crate::writer::apply::Applied;

/// Commits in one transaction. A transaction's time is that of its slowest client's patience; 512
/// appends of 4 KiB take some 5 ms.
pub(crate) const GROUP_MAX: usize = 512;
/// Bytes of new messages in one transaction, which are in memory anyway; more would keep other
/// processes from writing.
const GROUP_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Commits that may wait; whoever comes then waits for room.
pub(crate) const QUEUE_MAX: usize = 1024;

/// Bytes up to which a directory record is a change and not new content: settings of an account
/// have a few hundred.
const RECORD_SMALL: usize = 4096;

/// Where the outcome goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// What can be asked of the writer.
pub(crate) enum Job {
    /// A change, and where its outcome goes.
    Change(Change, Reply<CommitOutcome>),
    /// A round of maintenance, which may write these checkpoints of mailboxes.
    Maintain(Vec<Prepared>, Reply<Report>),
    /// Bring the index up to all that was acknowledged.
    Checkpoint(Reply<()>),
}

/// One of the kinds of commit.
pub(crate) enum Change {
    /// On a mailbox.
    Mailbox(MailboxCommit),
    /// On two mailboxes, both or neither.
    Pair(Box<[MailboxCommit; 2]>),
    /// On a mailbox list.
    List(ListCommit),
    /// On the directory.
    Directory(DirectoryChange),
}

impl Change {
    /// Bytes of new messages.
    fn weight(&self) -> usize {
        let bytes = |c: &Content| if let Content::New { bytes, .. } = c { bytes.len() } else { 0 };
        self.on_mailboxes().iter().flat_map(|commit| &commit.appended).map(|m| bytes(&m.content)).sum()
    }

    /// Its commits on mailboxes: they may be acknowledged before the index has them. Lists and the
    /// directory are what other processes read and change beside a server, and are changed seldom.
    fn on_mailboxes(&self) -> &[MailboxCommit] {
        match self {
            Self::Mailbox(commit) => std::slice::from_ref(commit),
            Self::Pair(pair) => &pair[..],
            Self::List(_) | Self::Directory(_) => &[],
        }
    }

    /// What it wants room for.
    fn purpose(&self) -> Purpose {
        match self {
            Self::Mailbox(commit) if commit.appended.is_empty() => deletes(commit),
            Self::Mailbox(_) => Purpose::Content,
            // A MOVE brings summaries and takes as many away. Many clients delete so.
            Self::Pair(pair) if self.weight() == 0 => {
                pair.iter().map(deletes).max().unwrap_or(Purpose::Content)
            }
            Self::Pair(_) => Purpose::Content,
            Self::List(_) => Purpose::Deletion,
            Self::Directory(change) => match &change.value {
                None => Purpose::Deletion,
                Some(value) if value.len() <= RECORD_SMALL => Purpose::Change,
                Some(_) => Purpose::Content,
            },
        }
    }
}

/// What a commit without new messages wants room for. A message is marked as deleted before it is
/// expunged.
fn deletes(commit: &MailboxCommit) -> Purpose {
    let is_marked = commit.changed.iter().any(|row| row.flags().contains(FlagSet::DELETED));
    if is_marked || !commit.expunged.is_empty() { Purpose::Deletion } else { Purpose::Change }
}

/// A pack and where in it what was acknowledged ends.
type Place = (u32, u64);

/// The writer's own state.
pub(crate) struct Writer<'e> {
    pub(crate) shared: &'e Shared,
    pub(crate) appender: Appender,
    /// How long the index may stay behind; `None` if nothing is acknowledged before it is
    /// committed.
    checkpoint_within: Option<Duration>,
    /// What the current work wants room for.
    purpose: Purpose,
    /// What was acknowledged and then failed to reach the index.
    redo: Option<Place>,
    /// Packs whose tails hold no commit that can be redone.
    dead_tails: Vec<u32>,
    others: Others,
    scratch: Scratch,
    /// Acknowledged commits that the index is to have, and those that are about to be acknowledged.
    open: Option<OpenTransaction<'e>>,
}

impl<'e> Writer<'e> {
    pub(crate) fn new(shared: &'e Shared, appender: Appender, checkpoint_within: Option<Duration>) -> Self {
        Self {
            shared,
            appender,
            checkpoint_within,
            purpose: Purpose::Deletion,
            redo: None,
            dead_tails: Vec::new(),
            others: Others::default(),
            scratch: Scratch::default(),
            open: None,
        }
    }

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
            let mut weight = 0;
            let mut next = Some(job);
            while let Some(job) = next {
                match job {
                    Job::Change(change, reply) => {
                        weight += change.weight();
                        group.push((change, reply));
                    }
                    Job::Maintain(prepared, reply) => maintain.push((prepared, reply)),
                    Job::Checkpoint(reply) => checkpoints.push(reply),
                }
                let full = group.len() >= GROUP_MAX || weight >= GROUP_BYTES_MAX;
                next = if full { None } else { jobs.try_recv().ok() };
            }
            self.group(&mut group);
            let due = self.open.as_ref().is_some_and(|open| open.is_full() || open.due <= Instant::now());
            if due || !maintain.is_empty() || !checkpoints.is_empty() {
                let checkpoint = self.checkpoint();
                checkpoints.drain(..).for_each(|reply| drop(reply.send(checkpoint.clone())));
            }
            for (prepared, reply) in maintain {
                let round =
                    self.with_reserve(Purpose::Deletion, |writer| maintenance::round(writer, &prepared));
                let _ = reply.send(round);
            }
        }
        if !self.shared.killed.load(Ordering::Acquire) {
            let _ = self.checkpoint();
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
            // One of them met a damaged record: the others shall not suffer for it.
            Err(e) if !e.is_temporary() && changes.len() > 1 => {
                changes.iter().map(|change| self.alone(change)).collect()
            }
            Err(e) => {
                tracing::error!(error = %e, commits = changes.len(), "commits were not written");
                changes.iter().map(|_| Err(e.clone())).collect()
            }
        };
        for ((_, reply), outcome) in group.drain(..).zip(outcomes) {
            // A caller that went away does not undo the commit.
            let _ = reply.send(outcome);
        }
    }

    /// Each change of a group for which there was no room, by itself: what deletes may use the
    /// reserve.
    fn on_full_disk(&mut self, changes: &[&Change], why: &str) -> Vec<Result<CommitOutcome>> {
        // Bytes of new messages for which there is no room.
        let mut too_much = if changes.len() > 1 { usize::MAX } else { 0 };
        let mut refused = 0;
        let mut each = |change: &Change| {
            let purpose = change.purpose();
            if purpose == Purpose::Content && change.weight() >= too_much {
                refused += 1;
                return Err(StoreError::Full(why.to_owned()));
            }
            let outcome = self.with_reserve(purpose, |writer| writer.alone(change));
            if matches!(outcome, Err(StoreError::Full(_))) {
                refused += 1;
                if purpose == Purpose::Content {
                    too_much = too_much.min(change.weight());
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
        self.transaction(&[change])?.pop().unwrap_or(Err(StoreError::Busy))
    }

    /// One transaction: each change's outcome, or why none was made.
    fn transaction(&mut self, changes: &[&Change]) -> Result<Vec<Result<CommitOutcome>>> {
        let outcomes = self.work(|apply| {
            let mut outcomes = Vec::with_capacity(changes.len());
            for change in changes {
                let applied = match change {
                    Change::Mailbox(commit) => apply.mailbox(commit)?,
                    Change::Pair(pair) => apply.pair(pair)?,
                    Change::List(commit) => apply.list(commit)?,
                    Change::Directory(change) => apply.directory(change)?,
                };
                outcomes.push(match applied {
                    Applied::Done => Ok(CommitOutcome::Done),
                    Applied::Conflict => Ok(CommitOutcome::Conflict),
                    Applied::Refused(error) => Err(error),
                });
            }
            let wrote = match done(changes, &outcomes).count() {
                0 => Wrote::Nothing,
                _ if done(changes, &outcomes).all(|c| !c.on_mailboxes().is_empty()) => Wrote::Later,
                _ => Wrote::Now,
            };
            Ok((outcomes, wrote))
        })?;
        if self.open.is_some() {
            let commits = done(changes, &outcomes).flat_map(Change::on_mailboxes);
            commits.for_each(|commit| self.shared.unindexed.note(commit));
        }
        Ok(outcomes)
    }
}

/// The changes of a group that were made.
fn done<'c>(
    changes: &'c [&Change],
    outcomes: &'c [Result<CommitOutcome>],
) -> impl Iterator<Item = &'c Change> {
    let made = |(change, outcome): (&'c &Change, &Result<CommitOutcome>)| {
        matches!(outcome, Ok(CommitOutcome::Done)).then_some(*change)
    };
    changes.iter().zip(outcomes).filter_map(made)
}
