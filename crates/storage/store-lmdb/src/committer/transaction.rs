//! Index transactions: begun where all that counts is in the index, filled, and committed at once or *held*.

use heed::RwTxn;
use posthaste_store::Result;
use std::ops::Add;
use std::sync::Arc;
use std::time::Instant;

use super::Committer;
use crate::apply::Apply;
use crate::index::Indexed;
use crate::packs::record::Batch;
use crate::shared::Shared;

/// What may wait for the index: some 10 ms of replaying after a crash. Commits on more messages than that do not wait at all: writing
/// their pages costs more than syncing them, and a disk that has no room for so many should say so before it is too late.
const HELD_COMMITS: usize = 512;
pub(super) const HELD_MESSAGES: usize = 256;
const HELD_BYTES: u64 = 4 << 20;

/// What commits ask of the index.
#[derive(Clone, Copy, Default)]
pub(super) struct Demand {
    /// Messages whose rows or summaries they write.
    pub(super) messages: usize,
    /// Room, their records in packs included.
    pub(super) bytes: u64,
}

impl Demand {
    fn and_bytes(self, bytes: u64) -> Self {
        Self { bytes: self.bytes + bytes, ..self }
    }
}

impl Add for Demand {
    type Output = Self;
    fn add(self, more: Self) -> Self {
        Self { messages: self.messages + more.messages, bytes: self.bytes + more.bytes }
    }
}

/// An index transaction with commits that were acknowledged, or that are about to be.
pub(super) struct Held<'e> {
    txn: RwTxn<'e>,
    /// The next sequence number in it.
    seq: u64,
    /// Acknowledged commits in it.
    commits: usize,
    /// What they come to.
    demand: Demand,
    /// When the index is to have them.
    pub(super) due: Instant,
}

impl Held<'_> {
    pub(super) fn is_full(&self) -> bool {
        self.commits >= HELD_COMMITS
            || self.demand.messages >= HELD_MESSAGES
            || self.demand.bytes >= HELD_BYTES
    }
}

/// What a piece of work leaves to do.
pub(super) enum Wrote {
    /// Nothing was changed.
    Nothing,
    /// The index must have it before it counts.
    Now,
    /// It may count before.
    Later(Demand),
}

impl Committer {
    /// Runs `work` in a transaction of its own and makes it durable if it says that it wrote.
    pub(crate) fn with_transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Apply<'_, '_>) -> Result<(T, bool)>,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        self.work(&shared, &mut None, |apply| {
            let (value, wrote) = work(apply)?;
            Ok((value, if wrote { Wrote::Now } else { Wrote::Nothing }))
        })
    }

    /// Runs `work` in the transaction that is held, or in a new one, and leaves it held if it may be.
    pub(super) fn work<'e, T>(
        &mut self,
        shared: &'e Shared,
        held: &mut Option<Held<'e>>,
        work: impl FnOnce(&mut Apply<'_, '_>) -> Result<(T, Wrote)>,
    ) -> Result<T> {
        if self.writer.lacks_pack() {
            self.settle(shared, held)?;
            self.acquire_pack(shared)?;
        }
        let place = held.as_ref().and_then(|_| self.writer.place());
        let begun = match held.take() {
            Some(held) => held,
            None => self.begin(shared)?,
        };
        let (value, rest) = self.attempt(shared, begun, work).inspect_err(|_| {
            // The acknowledged part of the transaction went with it.
            self.redo = self.redo.or(place);
        })?;
        *held = rest;
        Ok(value)
    }

    fn attempt<'e, T>(
        &mut self,
        shared: &'e Shared,
        held: Held<'e>,
        work: impl FnOnce(&mut Apply<'_, '_>) -> Result<(T, Wrote)>,
    ) -> Result<(T, Option<Held<'e>>)> {
        let index = &shared.index;
        let Held { txn, seq: begun_at, commits, demand, due } = held;
        let mut seq = begun_at;
        let batch = self.writer.begin(index, &txn, &mut seq)?;
        let before = batch.len();
        let (scratch, links_from) = (&mut self.scratch, shared.links_from);
        let mut apply = Apply { index, txn, batch, seq, links_from, scratch };
        let (value, wrote) = work(&mut apply)?;
        let Apply { txn, batch, seq, .. } = apply;
        let held = Held { txn, seq, commits, demand: demand.and_bytes(batch.len()), due };
        match wrote {
            Wrote::Nothing => {
                let unchanged = Held { seq: begun_at, demand, ..held };
                Ok((value, Some(unchanged).filter(|h| h.commits > 0)))
            }
            // What maintenance does in the index alone needs no record.
            _ if batch.len() == before => commit(shared, held.txn).map(|()| (value, None)),
            Wrote::Later(more) if self.may_be_held(more) => {
                let held = Held { commits: held.commits + 1, demand: held.demand + more, ..held };
                let end = self.write(shared, &held, &batch)?;
                self.writer.advance(end);
                Ok((value, Some(held)))
            }
            Wrote::Later(_) | Wrote::Now => {
                let end = self.write(shared, &held, &batch)?;
                self.commit_at(shared, held, batch.pack, end).inspect_err(|_| self.writer.abandon())?;
                self.writer.advance(end);
                Ok((value, None))
            }
        }
    }

    /// Whether the index may follow by itself with what commits ask of it. What is to be said of packs it must have at once.
    fn may_be_held(&self, demand: Demand) -> bool {
        self.ahead.is_some() && !self.writer.has_marks() && demand.messages < HELD_MESSAGES
    }

    /// Puts a batch where it stays; answers where it ends.
    fn write(&mut self, shared: &Shared, held: &Held<'_>, batch: &Batch) -> Result<u64> {
        shared.index.reserve(held.demand.bytes)?;
        self.writer.write(batch)?;
        Ok(batch.start + batch.len())
    }

    /// Commits the index with this end of this pack.
    fn commit_at(&mut self, shared: &Shared, held: Held<'_>, pack: u32, end: u64) -> Result<()> {
        let Held { mut txn, seq, .. } = held;
        shared.index.put_seq(&mut txn, seq)?;
        self.writer.record(&shared.index, &mut txn, pack, end)?;
        commit(shared, txn)?;
        self.writer.marked();
        shared.pending.clear();
        Ok(())
    }

    /// Brings the index up to all that was acknowledged.
    pub(super) fn settle<'e>(&mut self, shared: &'e Shared, held: &mut Option<Held<'e>>) -> Result<()> {
        let settled = match (held.take(), self.writer.place()) {
            (Some(held), Some((pack, end))) => {
                self.commit_at(shared, held, pack, end).inspect_err(|_| self.redo = Some((pack, end)))
            }
            _ if self.redo.is_some() || shared.pending.any() => self.begin(shared).map(drop),
            _ => Ok(()),
        };
        settled.inspect_err(|error| tracing::error!(%error, "the index is behind what was acknowledged"))
    }

    /// A transaction that begins where every commit that counts is in the index.
    pub(super) fn begin<'e>(&mut self, shared: &'e Shared) -> Result<Held<'e>> {
        loop {
            let txn = shared.index.env.write_txn().indexed()?;
            let place = match self.redo {
                None => self.tail_of_others(shared, &txn)?,
                redo => redo,
            };
            if let Some(place) = place {
                self.redo_tail(shared, txn, place)?;
                continue;
            }
            let seq = shared.index.seq(&txn)?;
            let due = Instant::now() + self.ahead.unwrap_or_default();
            return Ok(Held { txn, seq, commits: 0, demand: Demand::default(), due });
        }
    }

    fn acquire_pack(&mut self, shared: &Shared) -> Result<()> {
        let Held { mut txn, .. } = self.begin(shared)?;
        if !self.writer.acquire(&shared.index, &mut txn)? {
            return Ok(());
        }
        let committed = shared.index.reserve(0).and_then(|()| commit(shared, txn));
        match &committed {
            Ok(()) => self.writer.acquired(),
            Err(_) => self.writer.not_acquired(),
        }
        committed
    }
}

/// Commits an index transaction and counts it as our own.
pub(super) fn commit(shared: &Shared, txn: heed::RwTxn<'_>) -> Result<()> {
    shared.own.begin(txn.id() as u64);
    let committed = txn.commit().indexed();
    match committed {
        Ok(()) => shared.own.committed(),
        Err(_) => shared.own.failed(),
    }
    committed
}
