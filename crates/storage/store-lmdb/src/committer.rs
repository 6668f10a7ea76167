//! The one thread that writes: takes all that waits, makes one transaction of it, answers all.
//!
//! | step | on failure |
//! | --- | --- |
//! | begin the index transaction: waits for a writer in another process | all that wait are answered `Unavailable` |
//! | check each commit against what is there and apply it | this one is answered; the others go on |
//! | reserve room behind the index and in the pack | `Unavailable`; nothing was written |
//! | write the records, sync the pack | `Unavailable`; the pack is given up at its old end |
//! | commit the index, durably | the same |
//! | answer | |
//!
//! A commit that waits alone goes at once: the group is whatever gathered while the one before was on its way to the disk.

use posthaste_store::{
    CommitOutcome, Content, DirectoryChange, ListCommit, MailboxCommit, Report, Result, StoreError,
};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

use crate::apply::{Applied, Apply};
use crate::engine::Shared;
use crate::index::Indexed;
use crate::maintain;
use crate::packs::writer::PackWriter;
use crate::rows::Scratch;

/// Commits in one transaction. A transaction's time is that of its slowest client's patience; 512 appends of 4 KiB take some 5 ms.
const GROUP_MAX: usize = 512;
/// Bytes of new messages in one transaction, which are in memory anyway; more would keep other processes from writing.
const GROUP_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Commits that may wait; whoever comes then waits for room.
pub(crate) const QUEUE_MAX: usize = 1024;

/// Where the outcome goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// What can be asked of the committer.
pub(crate) enum Job {
    /// A change, and where its outcome goes.
    Change(Change, Reply<CommitOutcome>),
    /// A round of maintenance.
    Maintain(Reply<Report>),
}

/// One of the three kinds of commit.
pub(crate) enum Change {
    /// On a mailbox.
    Mailbox(MailboxCommit),
    /// On a mailbox list.
    List(ListCommit),
    /// On the directory.
    Directory(DirectoryChange),
}

impl Change {
    /// Bytes of new messages.
    fn weight(&self) -> usize {
        let Self::Mailbox(commit) = self else { return 0 };
        let bytes = |c: &Content| if let Content::New { bytes, .. } = c { bytes.len() } else { 0 };
        commit.appended.iter().map(|m| bytes(&m.content)).sum()
    }
}

/// The committer's own state.
pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) writer: PackWriter,
    scratch: Scratch,
}

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>, writer: PackWriter) -> Self {
        Self { shared, writer, scratch: Scratch::default() }
    }

    /// Runs until every sender is gone.
    pub(crate) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut group = Vec::new();
        while let Some(job) = jobs.blocking_recv() {
            let mut maintain = Vec::new();
            let mut weight = 0;
            let mut next = Some(job);
            while let Some(job) = next {
                match job {
                    Job::Change(change, reply) => {
                        weight += change.weight();
                        group.push((change, reply));
                    }
                    Job::Maintain(reply) => maintain.push(reply),
                }
                let full = group.len() >= GROUP_MAX || weight >= GROUP_BYTES_MAX;
                next = if full { None } else { jobs.try_recv().ok() };
            }
            self.group(&mut group);
            for reply in maintain {
                let _ = reply.send(maintain::round(&mut self));
            }
        }
    }

    /// Commits a group and answers each of it.
    fn group(&mut self, group: &mut Vec<(Change, Reply<CommitOutcome>)>) {
        if group.is_empty() {
            return;
        }
        let changes: Vec<&Change> = group.iter().map(|(change, _)| change).collect();
        let outcomes = match self.transaction(&changes) {
            Ok(outcomes) => outcomes,
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

    fn alone(&mut self, change: &Change) -> Result<CommitOutcome> {
        self.transaction(&[change])?.pop().unwrap_or(Err(StoreError::Busy))
    }

    /// One transaction: each change's outcome, or why none was made.
    fn transaction(&mut self, changes: &[&Change]) -> Result<Vec<Result<CommitOutcome>>> {
        self.with_transaction(|apply| {
            let mut outcomes = Vec::with_capacity(changes.len());
            for change in changes {
                let applied = match change {
                    Change::Mailbox(commit) => apply.mailbox(commit)?,
                    Change::List(commit) => apply.list(commit)?,
                    Change::Directory(change) => apply.directory(change)?,
                };
                outcomes.push(match applied {
                    Applied::Done => Ok(CommitOutcome::Done),
                    Applied::Conflict => Ok(CommitOutcome::Conflict),
                    Applied::Refused(error) => Err(error),
                });
            }
            let wrote = outcomes.iter().any(|o| matches!(o, Ok(CommitOutcome::Done)));
            Ok((outcomes, wrote))
        })
    }

    /// Runs `work` in a transaction and makes it durable if it says that it wrote.
    pub(crate) fn with_transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Apply<'_, '_>) -> Result<(T, bool)>,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        let index = &shared.index;
        if self.writer.lacks_pack() {
            self.acquire_pack(&shared)?;
        }
        let txn = index.env.write_txn().indexed()?;
        let mut seq = index.seq(&txn)?;
        let batch = self.writer.begin(&mut seq)?;
        let before = batch.len();
        let mut apply = Apply { index, txn, batch, seq, scratch: &mut self.scratch };
        let (value, wrote) = work(&mut apply)?;
        if !wrote {
            return Ok(value);
        }
        let Apply { mut txn, batch, seq, .. } = apply;
        // What maintenance does in the index alone needs no record.
        let logged = batch.len() > before;
        if logged {
            index.put_seq(&mut txn, seq)?;
            self.writer.record(index, &mut txn, &batch)?;
            index.reserve(batch.len())?;
            self.writer.write(&batch)?;
        }
        let committed = commit(&shared, txn);
        match (logged, &committed) {
            (true, Ok(())) => self.writer.committed(&batch),
            (true, Err(_)) => self.writer.abandon(),
            (false, _) => {}
        }
        committed.map(|()| value)
    }

    fn acquire_pack(&mut self, shared: &Shared) -> Result<()> {
        let mut txn = shared.index.env.write_txn().indexed()?;
        if !self.writer.acquire(&shared.index, &mut txn)? {
            return Ok(());
        }
        let committed = shared.index.reserve(0).and_then(|()| commit(shared, txn));
        committed.inspect_err(|_| self.writer.not_acquired())
    }
}

/// Commits an index transaction and counts it as our own.
fn commit(shared: &Shared, txn: heed::RwTxn<'_>) -> Result<()> {
    shared.own.begin(txn.id() as u64);
    let committed = txn.commit().indexed();
    match committed {
        Ok(()) => shared.own.committed(),
        Err(_) => shared.own.failed(),
    }
    committed
}
