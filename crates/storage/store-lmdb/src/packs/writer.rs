//! Appends transactions to this process's own pack.
//!
//! A pack is reserved by writing zeroes ahead (`reserve`): overwriting and syncing such bytes costs 24 µs of CPU here, appending and
//! syncing 53 µs, and a full disk shows before anything of a transaction is written. The index holds each pack's end, and
//! what lies beyond it never happened. A write, sync or index commit that fails leaves a pack whose tail cannot be
//! trusted: it is sealed where the index says it ends, and the next transaction goes to a new pack and names that end there
//! (an *abandon* record), so that a rebuild without the index knows it too.

use heed::{RoTxn, RwTxn};
use posthaste_mail_model::Id;
use posthaste_store::{Result, StoreError};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::record::{Batch, Kind, PACK_HEADER};
use super::{number_of, path_of};
use crate::disk::{Disk, DiskFile};
use crate::index::Index;
use crate::logged::abandon_content;
use crate::values::PackState;

/// Bytes written ahead at least and at most: as much again as the pack holds, within these. A store that only keeps
/// accounts stays small; a busy one pays one longer sync in 2,000 messages of 4 KiB.
const RESERVE_MIN: u64 = 256 * 1024;
const RESERVE_MAX: u64 = 8 * 1024 * 1024;

/// What zeroes are written from.
static ZEROES: [u8; 256 * 1024] = [0; 256 * 1024];

struct Current {
    number: u32,
    file: Arc<dyn DiskFile>,
    end: u64,
    /// Bytes of the file: zero from `end` on.
    reserved: u64,
    /// Made by this process, and not yet known to the index.
    fresh: bool,
}

/// The writer of one process.
pub(crate) struct PackWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    store: Id,
    /// A pack this large is followed by a new one.
    pack_bytes: u64,
    /// Whether commits are acknowledged before the index has them, which the index must know of a pack beforehand.
    ahead: bool,
    current: Option<Current>,
    /// Looked through what other processes left behind.
    recovered: bool,
    /// Packs to seal with the next transaction.
    seal: Vec<u32>,
    /// Packs to seal whose tails may hold what never happened, and where they end.
    abandoned: Vec<(u32, u64)>,
}

/// A pack error in the store's words.
fn unavailable(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> StoreError {
    move |e| StoreError::Unavailable(format!("{what}: {e}"))
}

impl PackWriter {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf, store: Id, pack_bytes: u64, ahead: bool) -> Self {
        let (seal, abandoned) = (Vec::new(), Vec::new());
        Self { disk, dir, store, pack_bytes, ahead, current: None, recovered: false, seal, abandoned }
    }

    /// The current pack and where what was acknowledged ends.
    pub(crate) fn place(&self) -> Option<(u32, u64)> {
        self.current.as_ref().map(|c| (c.number, c.end))
    }

    /// Whether the next transaction has more to say of packs than where the current one ends.
    pub(crate) fn has_marks(&self) -> bool {
        !self.seal.is_empty() || !self.abandoned.is_empty()
    }

    /// The pack that is being written.
    pub(crate) fn current(&self) -> Option<u32> {
        self.current.as_ref().map(|c| c.number)
    }

    /// Ends the current pack with the next transaction.
    pub(crate) fn rotate(&mut self) {
        if let Some(current) = self.current.take() {
            // The rest was only ever zeroes; that it goes is a courtesy, and failing at it harms nothing.
            let _ = current.file.truncate(current.end);
            self.seal.push(current.number);
        }
    }

    /// Whether [`PackWriter::acquire`] must be called before the next transaction.
    pub(crate) fn lacks_pack(&self) -> bool {
        self.current.as_ref().is_none_or(|c| c.end >= self.pack_bytes)
    }

    /// Finds or makes a pack to write to. A new one is put into the index, and that transaction committed, before
    /// anything is written to it: so a pack with records that the index does not know can only mean that the index is older than the packs.
    /// Answers whether the transaction has anything to commit.
    pub(crate) fn acquire(&mut self, index: &Index, txn: &mut RwTxn) -> Result<bool> {
        if !self.recovered {
            self.recover(index, txn)?;
            self.recovered = true;
        }
        if let Some(current) = self.current.as_ref().filter(|c| c.end < self.pack_bytes) {
            let state = index.pack(txn, current.number)?.unwrap_or_default();
            let changes = state.ahead != self.ahead;
            if changes {
                index.put_pack(txn, current.number, PackState { ahead: self.ahead, ..state })?;
            }
            return Ok(changes);
        }
        self.rotate();
        let new = self.create(index, txn)?;
        index.put_pack(txn, new.number, PackState { ahead: self.ahead, ..PackState::default() })?;
        self.current = Some(new);
        Ok(true)
    }

    /// The acquired pack is in the index.
    pub(crate) fn acquired(&mut self) {
        if let Some(current) = &mut self.current {
            current.fresh = false;
        }
    }

    /// Begins a transaction's records. Takes `seq`, the next sequence number, further by what it writes itself.
    pub(crate) fn begin(&mut self, index: &Index, txn: &RoTxn, seq: &mut u64) -> Result<Batch> {
        let Some(current) = &self.current else {
            return Err(StoreError::Unavailable("no pack to write to".into()));
        };
        let mut batch = Batch::new(current.number, current.end);
        if current.end == 0 {
            batch.pack_header(self.store);
        }
        for (pack, end) in &mut self.abandoned {
            // Another process may have found the tail worth keeping meanwhile.
            let (pack, known) = (*pack, index.pack(txn, *pack)?.map_or(0, |s| s.end));
            *end = known.max(*end);
            let end = *end;
            batch.record(Kind::Abandon, *seq, Id::from_bytes([0; 16]), abandon_content(pack, end));
            *seq += 1;
        }
        Ok(batch)
    }

    /// The acquired pack did not make it into the index: a new file goes, lest a full disk gather one with every try.
    pub(crate) fn not_acquired(&mut self) {
        if let Some(current) = self.current.take().filter(|c| c.fresh) {
            // If it stays, it stays empty, and the next process that writes removes it.
            let _ = self.disk.remove(&path_of(&self.dir, current.number));
        }
    }

    /// Looks through the packs no process has: an untouched one is taken over, one with a tail is abandoned. A file the index does not
    /// know is removed if it is empty or was emptied (its number is below one the index has); any other is left for `check` to report. Runs
    /// inside a write transaction, as does every creation: no other process is at it.
    fn recover(&mut self, index: &Index, txn: &RoTxn) -> Result<()> {
        let packs = index.all_packs(txn)?;
        for &(number, state) in packs.iter().rev().filter(|(_, s)| !s.sealed) {
            let path = path_of(&self.dir, number);
            let file = match self.disk.open(&path) {
                // A pack that is missing is for the check to report; writing can go on without it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(unavailable(path.display()))?,
            };
            if !file.try_lock().map_err(unavailable(path.display()))? {
                continue;
            }
            let reserved = file.size().map_err(unavailable(path.display()))?;
            let clean = tail_is_clean(&*file, state.end, reserved).map_err(unavailable(path.display()))?;
            if !clean {
                self.abandoned.push((number, state.end));
            } else if self.current.is_none() && state.end < self.pack_bytes {
                self.current = Some(Current { number, file, end: state.end, reserved, fresh: false });
            }
        }
        let highest = packs.last().map_or(0, |(n, _)| *n);
        for name in self.disk.list(&self.dir).map_err(unavailable(self.dir.display()))? {
            let Some(number) = number_of(&name) else { continue };
            if packs.iter().any(|(n, _)| *n == number) {
                continue;
            }
            let path = path_of(&self.dir, number);
            let file = self.disk.open(&path).map_err(unavailable(path.display()))?;
            let size = file.size().map_err(unavailable(path.display()))?;
            if (number < highest || size == 0) && file.try_lock().map_err(unavailable(path.display()))? {
                self.disk.remove(&path).map_err(unavailable(path.display()))?;
            }
        }
        Ok(())
    }

    /// A new pack, above every number the index or the disk has.
    fn create(&self, index: &Index, txn: &RoTxn) -> Result<Current> {
        let known = index.all_packs(txn)?.last().map_or(0, |(n, _)| *n);
        let names = self.disk.list(&self.dir).map_err(unavailable(self.dir.display()))?;
        let there = names.iter().filter_map(|n| number_of(n)).max().unwrap_or(0);
        let abandoned = self.abandoned.iter().map(|(n, _)| *n).max().unwrap_or(0);
        let number = known.max(there).max(abandoned) + 1;
        let path = path_of(&self.dir, number);
        let file = self.disk.create(&path).map_err(unavailable(path.display()))?;
        file.try_lock().map_err(unavailable(path.display()))?;
        self.disk.sync_dir(&self.dir).map_err(unavailable(self.dir.display()))?;
        Ok(Current { number, file, end: 0, reserved: 0, fresh: true })
    }

    /// Puts a batch where a crash cannot undo it. After an error nothing of the batch counts.
    pub(crate) fn write(&mut self, batch: &Batch) -> Result<()> {
        let Some(current) = &mut self.current else {
            return Err(StoreError::Unavailable("no pack to write to".into()));
        };
        let path = path_of(&self.dir, current.number);
        // An error here is no reason to give the pack up: zeroes are all that was written.
        reserve(current, batch.start + batch.len()).map_err(unavailable(path.display()))?;
        let written = write_pieces(current, batch).and_then(|()| current.file.sync());
        written.map_err(|e| {
            self.abandon();
            unavailable(path.display())(e)
        })
    }

    /// Records the state of all packs this transaction touches: its own ends at `end`.
    pub(crate) fn record(&self, index: &Index, txn: &mut RwTxn, pack: u32, end: u64) -> Result<()> {
        for &pack in self.seal.iter().chain(self.abandoned.iter().map(|(n, _)| n)) {
            if let Some(state) = index.pack(txn, pack)? {
                index.put_pack(txn, pack, PackState { sealed: true, ..state })?;
            }
        }
        let state = index.pack(txn, pack)?.unwrap_or_default();
        index.put_pack(txn, pack, PackState { end, ..state })
    }

    /// What was written up to `end` counts.
    pub(crate) fn advance(&mut self, end: u64) {
        if let Some(current) = &mut self.current {
            current.end = end;
        }
    }

    /// The index knows what was to be said of packs.
    pub(crate) fn marked(&mut self) {
        self.seal.clear();
        self.abandoned.clear();
    }

    /// What was written did not come to count: the pack is given up at the end it had.
    pub(crate) fn abandon(&mut self) {
        if let Some(current) = self.current.take() {
            self.abandoned.push((current.number, current.end));
        }
    }
}

fn write_pieces(current: &Current, batch: &Batch) -> io::Result<()> {
    let mut at = batch.start;
    for piece in batch.pieces().filter(|p| !p.is_empty()) {
        current.file.write_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// Writes zeroes up to `need` and a step beyond; where the disk has no room for the step, `need` is enough.
fn reserve(current: &mut Current, need: u64) -> io::Result<()> {
    if need <= current.reserved {
        return Ok(());
    }
    let to = need.saturating_add(need.clamp(RESERVE_MIN, RESERVE_MAX)).next_multiple_of(4096);
    // What an earlier try left behind may be longer than is known.
    while current.reserved < to {
        let n = (to - current.reserved).min(ZEROES.len() as u64);
        match current.file.write_at(&ZEROES[..n as usize], current.reserved) {
            Ok(()) => current.reserved += n,
            Err(_) if current.reserved >= need => break,
            Err(e) => return Err(e),
        }
    }
    debug_assert!(current.reserved >= PACK_HEADER as u64);
    Ok(())
}

/// Whether all bytes from `end` on are zero.
fn tail_is_clean(file: &dyn DiskFile, end: u64, size: u64) -> io::Result<bool> {
    if size < end {
        return Ok(false);
    }
    let mut buffer = vec![0; ZEROES.len()];
    let mut at = end;
    while at < size {
        let n = (size - at).min(buffer.len() as u64) as usize;
        let read = file.read_at(&mut buffer[..n], at)?;
        if buffer[..read].iter().any(|b| *b != 0) {
            return Ok(false);
        }
        if read < n {
            break;
        }
        at += n as u64;
    }
    Ok(true)
}
