//! Index transactions: begun when the index has all commits that count, filled, and then
//! committed or left *open*.

use std::time::Instant;

use posthaste_store::{Result, StoreError};

use super::state::{HELD_BYTES, OpenTransaction, Writer};
use crate::data_dir::reserve::Purpose;
use crate::index::Writing;
use crate::log::Preallocation;
use crate::log::record::Batch;
use crate::shared::Shared;
use crate::writer::apply::Apply;

/// The remaining step of a piece of work.
pub(crate) enum IndexCommit {
    /// Nothing was changed.
    Nothing,
    /// The index must have the change before it counts.
    Now,
    /// The change may count before the index has it.
    Later,
}

impl<'e> Writer<'e> {
    /// Runs `work` for this purpose. While the disk is full, and the purpose may use the reserve,
    /// it is tried again with more of it.
    pub(super) fn with_reserve<T>(
        &mut self,
        purpose: Purpose,
        mut work: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.purpose = purpose;
        loop {
            match work(self) {
                Err(StoreError::Full(_)) if release(self.shared, purpose) => {}
                done => return done,
            }
        }
    }

    /// Runs `work` in the transaction that is open, or in a new one, and leaves it open if it may
    /// be.
    pub(crate) fn work<T>(
        &mut self,
        work: impl FnOnce(&mut Apply<'_, '_>) -> Result<(T, IndexCommit)>,
    ) -> Result<T> {
        if self.appender.lacks_pack() {
            self.checkpoint()?;
            self.acquire_pack()?;
        }
        let position = self.open.as_ref().and_then(|_| self.appender.position());
        let begun = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        let (value, rest) = self.attempt(begun, work).inspect_err(|_| {
            // The acknowledged part of the transaction was rolled back with it.
            self.redo = self.redo.or(position);
        })?;
        self.open = rest;
        Ok(value)
    }

    fn attempt<T>(
        &mut self,
        open: OpenTransaction<'e>,
        work: impl FnOnce(&mut Apply<'_, '_>) -> Result<(T, IndexCommit)>,
    ) -> Result<(T, Option<OpenTransaction<'e>>)> {
        let (index, links_from) = (&self.shared.index, self.shared.links_from);
        let before = open.bytes();
        let OpenTransaction { txn, seq: begun_at, commits, logged, due } = open;
        let mut seq = begun_at;
        let batch = self.appender.begin(index, &txn, &mut seq)?;
        let begun_len = batch.len();
        let scratch = &mut self.scratch;
        let shared = self.shared;
        let mut apply = Apply { shared, index, txn, batch, seq, links_from, scratch };
        let (value, wrote) = work(&mut apply)?;
        let Apply { txn, batch, seq, .. } = apply;
        let open = OpenTransaction { txn, seq, commits, logged: logged + batch.len(), due };
        match wrote {
            IndexCommit::Nothing => {
                let unchanged = OpenTransaction { seq: begun_at, logged, ..open };
                Ok((value, Some(unchanged).filter(|h| h.commits > 0)))
            }
            // Maintenance of the index alone needs no record.
            _ if batch.len() == begun_len => {
                let mut txn = open.txn;
                self.appender.record_ended(index, &mut txn)?;
                self.preallocate_pages(&txn)?;
                commit(self.shared, txn)?;
                self.appender.ended();
                Ok((value, None))
            }
            IndexCommit::Later if self.may_be_held(open.bytes() - before) => {
                let open = OpenTransaction { commits: open.commits + 1, ..open };
                let end = self.write(&open, &batch)?;
                self.appender.advance(end);
                Ok((value, Some(open)))
            }
            IndexCommit::Later | IndexCommit::Now => {
                let end = self.write(&open, &batch)?;
                self.commit_at(open, batch.pack, end).inspect_err(|_| self.appender.abandon())?;
                self.appender.advance(end);
                Ok((value, None))
            }
        }
    }

    /// Whether the index may follow later with this many bytes of commits. Changes of packs must
    /// reach it at once.
    fn may_be_held(&self, bytes: u64) -> bool {
        self.checkpoint_within.is_some() && !self.appender.has_marks() && bytes < HELD_BYTES
    }

    /// Preallocates pages for a transaction that writes nothing to a pack. If neither the disk
    /// nor the reserve has space left, LMDB may still find free pages.
    fn preallocate_pages(&self, txn: &Writing<'_>) -> Result<()> {
        match self.shared.index.preallocate(txn, || admit(self.shared, self.purpose)) {
            Err(StoreError::Full(_)) if self.shared.reserve.is_used_up() => Ok(()),
            preallocated => preallocated,
        }
    }

    /// Writes and syncs a batch. Returns its end.
    fn write(&mut self, open: &OpenTransaction<'_>, batch: &Batch) -> Result<u64> {
        let admit = || self::admit(self.shared, self.purpose);
        self.shared.index.preallocate(&open.txn, admit)?;
        self.appender.write(batch, admit)?;
        Ok(batch.start + batch.len())
    }

    /// Commits the index with this end of this pack.
    fn commit_at(&mut self, open: OpenTransaction<'_>, pack: u32, end: u64) -> Result<()> {
        let shared = self.shared;
        let OpenTransaction { mut txn, seq, .. } = open;
        shared.index.put_seq(&mut txn, seq)?;
        self.appender.record(&shared.index, &mut txn, pack, end)?;
        commit(shared, txn)?;
        self.appender.marked();
        shared.unindexed.clear();
        Ok(())
    }

    /// Brings the index up to all that was acknowledged.
    pub(super) fn checkpoint(&mut self) -> Result<()> {
        let checkpoint = match (self.open.take(), self.appender.position()) {
            (Some(open), Some(end)) => {
                self.commit_at(open, end.pack, end.offset).inspect_err(|_| self.redo = Some(end))
            }
            _ if self.redo.is_some() || self.shared.unindexed.any() => self.begin().map(drop),
            _ => Ok(()),
        };
        let checkpoint = match checkpoint {
            // A redo may use the reserve.
            Err(StoreError::Full(_)) if self.redo.is_some() => self.begin().map(drop),
            other => other,
        };
        checkpoint.inspect_err(|error| tracing::error!(%error, "a checkpoint failed: acknowledged commits are not in the index yet"))
    }

    /// Begins a transaction in which the index has every commit that counts.
    pub(super) fn begin(&mut self) -> Result<OpenTransaction<'e>> {
        let shared = self.shared;
        loop {
            let txn = shared.queue_lock.hold(|| shared.index.write())?;
            let place = match self.redo {
                None => self.tail_of_others(&txn)?,
                redo => redo,
            };
            if let Some(place) = place {
                match self.redo_tail(txn, place) {
                    // Acknowledged commits may use the reserve, in a server and in a command.
                    Err(StoreError::Full(_)) if release(shared, Purpose::Deletion) => {}
                    redone => redone?,
                }
                continue;
            }
            self.give_up_tails(&txn)?;
            let seq = shared.index.seq(&txn)?;
            let due = Instant::now() + self.checkpoint_within.unwrap_or_default();
            return Ok(OpenTransaction { txn, seq, commits: 0, logged: 0, due });
        }
    }

    fn acquire_pack(&mut self) -> Result<()> {
        let shared = self.shared;
        let OpenTransaction { mut txn, .. } = self.begin()?;
        if !self.appender.acquire(&shared.index, &mut txn)? {
            return Ok(());
        }
        if let Err(error) = shared.index.preallocate(&txn, || admit(shared, self.purpose)) {
            // Inside the transaction: after it another process may begin to write to this file.
            self.appender.not_acquired();
            return Err(error);
        }
        let committed = commit(shared, txn);
        match &committed {
            Ok(()) => self.appender.acquired(),
            Err(_) => self.appender.not_acquired(),
        }
        committed
    }
}

/// Whether files may be made longer for this purpose, and how far.
pub(super) fn admit(shared: &Shared, purpose: Purpose) -> Result<Preallocation> {
    let packs = shared.index.packs_len(&*shared.index.read()?)?;
    shared.reserve.admit(purpose, packs)
}

/// Releases space of the reserve for this purpose. Returns whether there was any.
fn release(shared: &Shared, purpose: Purpose) -> bool {
    let packs = shared.index.read().and_then(|txn| shared.index.packs_len(&txn));
    packs.is_ok_and(|packs| shared.reserve.release(purpose, packs))
}

/// Commits an index transaction and counts it as our own.
pub(super) fn commit(shared: &Shared, txn: Writing<'_>) -> Result<()> {
    shared.own.begin(txn.id() as u64);
    let committed = txn.commit();
    match &committed {
        Ok(()) => shared.own.committed(),
        Err(error) => {
            shared.own.failed();
            end_if_dead(shared, error);
        }
    }
    committed
}

/// After a failed commit of the index: lets the process end if LMDB refuses every further
/// transaction.
pub(super) fn end_if_dead(shared: &Shared, cause: &StoreError) {
    if let Some(dead) = shared.index.is_dead() {
        tracing::error!(%cause, "{dead}");
        (shared.on_dead_index)(&dead);
    }
}
