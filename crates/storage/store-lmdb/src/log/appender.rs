//! Appends transactions to this process's own pack.
//!
//! A pack is preallocated: zeroes are written after its end (`preallocate`). Overwriting and
//! syncing such bytes costs 24 µs of CPU here, appending and syncing 53 µs. And a full disk is
//! noticed before a transaction writes anything. The index has each pack's end. Records beyond it
//! count only if a redo applies them (`writer::redo`).
//!
//! A write, sync or index commit that fails leaves a pack whose tail cannot be trusted. That pack
//! is sealed where the index says it ends. The next transaction goes to a new pack and logs that
//! end there (an *abandon* record). So a rebuild without the old index finds the end, too.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use heed::RoTxn;
use posthaste_mail_model::Id;
use posthaste_store::{Result, StoreError};

use super::record::{Batch, Kind, PACK_HEADER, PackFormat, record_len};
use super::scan::{pack_format, tail_format};
use super::search::Search;
use super::{PACK_MAX, number_of, path_of};
use crate::data_dir::format::REMEDY;
use crate::index::Index;
use crate::index::Writing;
use crate::index::damaged;
use crate::index::packs::PackState;
use crate::log::disk::{Disk, DiskFile, failed};
use crate::log::entry::{abandon_content, retire_content};
use crate::log::{IndexedEnd, PackBytes, PackOffset, Preallocation};

/// Bytes preallocated at least and at most: as much again as the pack holds, within these. A store
/// that only keeps accounts stays small; a busy one pays one longer sync in 2,000 messages of 4
/// KiB.
const PREALLOCATE_MIN: u64 = 256 * 1024;
const PREALLOCATE_MAX: u64 = 8 * 1024 * 1024;

/// The zeroes that are written.
static ZEROES: [u8; 256 * 1024] = [0; 256 * 1024];

struct CurrentPack {
    number: u32,
    file: Arc<dyn DiskFile>,
    end: u64,
    /// Bytes of the file: zero from `end` on.
    preallocated: u64,
    /// Created by this process, and not yet in the index.
    fresh: bool,
}

impl CurrentPack {
    fn ended(self) -> EndedPack {
        EndedPack { number: self.number, end: self.end, _file: self.file }
    }
}

/// A pack that this process has ended, which the index does not know yet. Its file is kept open,
/// and with it the lock. Otherwise another process could take over a pack without a tail and
/// write to it. When this process seals the pack, those records would be lost.
struct EndedPack {
    number: u32,
    end: u64,
    _file: Arc<dyn DiskFile>,
}

/// The bytes of a pack, of an ended process, beyond its end in the index.
pub(crate) enum TailState {
    /// The file does not exist.
    Missing,
    /// A process writes to it.
    InUse,
    /// Zeroes, up to this size.
    Zero(Arc<dyn DiskFile>, u64),
    /// Records that a crash cut off, or whose commit failed.
    Torn(Arc<dyn DiskFile>),
}

/// The marks of packs that the next transaction must record, besides its own end.
#[derive(Default)]
struct Marks {
    /// Packs to seal.
    seal: Vec<EndedPack>,
    /// Packs to seal whose tails may have records of failed commits.
    abandon: Vec<EndedPack>,
    /// Packs that earlier programs retired without logging it.
    retire: Vec<u32>,
}

/// The writer of one process.
pub(crate) struct Appender {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    store: Id,
    /// A pack this large is followed by a new one.
    pack_bytes: u64,
    current: Option<CurrentPack>,
    /// Whether the packs of ended processes were examined.
    recovered: bool,
    /// The reason why nothing is written until the store is rebuilt. It is kept, because finding
    /// it reads whole tails.
    refusal: Option<String>,
    marks: Marks,
}

/// Packs that earlier programs may have retired without logging it: 256 TiB of them. An index that
/// lacks more is forged. Each would take a record of the log.
const UNLOGGED_MAX: usize = 1 << 20;

fn too_many_unlogged(last: u32) -> StoreError {
    StoreError::Corrupt(format!(
        "the index names pack {last} and lacks more than {UNLOGGED_MAX} packs before it: a state of a pack is damaged. \
         {REMEDY}"
    ))
}

/// Every write acquires a pack first.
const NO_PACK: &str = "no pack is open for writing: report this fault of the program, and restart it";

impl Appender {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf, store: Id, pack_bytes: u64) -> Self {
        let (recovered, marks) = (false, Marks::default());
        Self { disk, dir, store, pack_bytes, current: None, recovered, refusal: None, marks }
    }

    /// The current pack and the end of its acknowledged records.
    pub(crate) fn position(&self) -> Option<PackOffset> {
        self.current.as_ref().map(|c| PackOffset { pack: c.number, offset: c.end })
    }

    /// Whether the next transaction must record more than the end of the current pack.
    pub(crate) fn has_marks(&self) -> bool {
        let Marks { seal, abandon, retire } = &self.marks;
        !seal.is_empty() || !abandon.is_empty() || !retire.is_empty()
    }

    /// The pack that is being written.
    pub(crate) fn current(&self) -> Option<u32> {
        self.current.as_ref().map(|c| c.number)
    }

    /// Whether this process writes the pack, or abandoned it.
    pub(crate) fn owns(&self, pack: u32) -> bool {
        self.current() == Some(pack) || self.marks.abandon.iter().any(|ended| ended.number == pack)
    }

    /// Ends the current pack with the next transaction.
    pub(crate) fn rotate(&mut self) {
        if let Some(current) = self.current.take() {
            // The rest is zero. Truncating only frees its blocks, so a failure does no harm.
            let _ = current.file.truncate(current.end);
            self.marks.seal.push(current.ended());
        }
    }

    /// Whether [`Appender::acquire`] must be called before the next transaction.
    pub(crate) fn lacks_pack(&self) -> bool {
        self.current.as_ref().is_none_or(|c| c.end >= self.pack_bytes)
    }

    /// Finds or creates a pack to write to. A new one is put into the index, and that transaction
    /// is committed, before anything is written to the pack. A pack with records that the index
    /// does not know can therefore only mean that the index is older than the packs. Returns
    /// whether the transaction has anything to commit.
    pub(crate) fn acquire(&mut self, index: &Index, txn: &mut Writing) -> Result<bool> {
        if !self.recovered {
            if let Err(error) = self.recover(index, txn) {
                // A pack that it chose before must not be written to.
                (self.current, self.marks) = (None, Marks::default());
                return Err(error);
            }
            self.recovered = true;
        }
        if self.current.as_ref().is_some_and(|c| c.end < self.pack_bytes) {
            return Ok(false);
        }
        self.rotate();
        let new = self.create(index, txn)?;
        index.put_pack(txn, new.number, PackState::default())?;
        index.put_next_pack(txn, new.number + 1)?;
        self.current = Some(new);
        Ok(true)
    }

    /// The acquired pack is in the index.
    pub(crate) fn acquired(&mut self) {
        if let Some(current) = &mut self.current {
            current.fresh = false;
        }
    }

    /// Begins a transaction's records. Raises `seq`, the next sequence number, by the records it
    /// adds itself.
    pub(crate) fn begin(&mut self, index: &Index, txn: &RoTxn, seq: &mut u64) -> Result<Batch> {
        let Some(current) = &self.current else {
            return Err(StoreError::Unavailable(NO_PACK.into()));
        };
        let mut batch = Batch::new(self.store, current.number, current.end);
        if current.end == 0 {
            batch.pack_header(self.store);
        }
        let mut log = |kind, content| {
            batch.record(kind, *seq, Id::from_bytes([0; 16]), content);
            *seq += 1;
        };
        for EndedPack { number, end, .. } in &mut self.marks.abandon {
            // Another process may have redone part of the tail meanwhile.
            let known = index.pack(txn, *number)?.map_or(0, |s| s.end);
            *end = known.max(*end);
            log(Kind::Abandon, abandon_content(*number, *end));
        }
        for pack in &self.marks.retire {
            log(Kind::Retire, retire_content(*pack));
        }
        Ok(batch)
    }

    /// The acquired pack did not get into the index. Its file is removed, so that a full disk
    /// does not collect a file with each attempt.
    pub(crate) fn not_acquired(&mut self) {
        if let Some(current) = self.current.take().filter(|c| c.fresh) {
            // If it stays, it stays empty, and the next process that writes removes it. The lock
            // is released after the name is removed, so that no process writes to an unlinked
            // file: see `create`.
            let _ = self.disk.remove(&path_of(&self.dir, current.number));
        }
    }

    /// Examines the packs that no process has. Takes over one whose tail is zero, and abandons
    /// those whose tail is not. Files that the index does not know are removed only if they are
    /// empty. Runs inside a write transaction, as does every creation, and after a redo of the
    /// tails.
    fn recover(&mut self, index: &Index, txn: &RoTxn) -> Result<()> {
        let packs = index.all_packs(txn)?;
        for &(number, state) in packs.iter().rev().filter(|(_, s)| !s.sealed) {
            self.recover_pack(index, txn, (number, state))?;
        }
        let is_known = |n: &u32| packs.binary_search_by_key(n, |(n, _)| *n).is_ok();
        if index.next_pack(txn)?.is_none() {
            let last = packs.last().map_or(0, |(n, _)| *n);
            self.marks.retire = (1..last).filter(|n| !is_known(n)).take(UNLOGGED_MAX + 1).collect();
            if self.marks.retire.len() > UNLOGGED_MAX {
                return Err(too_many_unlogged(last));
            }
        }
        let retired = index.retired_packs(txn)?;
        for name in self.disk.list(&self.dir).map_err(failed(self.dir.display()))? {
            let Some(number) = number_of(&name) else { continue };
            if is_known(&number) || retired.binary_search(&number).is_ok() {
                continue;
            }
            let path = path_of(&self.dir, number);
            let file = self.disk.open(&path).map_err(failed(path.display()))?;
            let size = file.size().map_err(failed(path.display()))?;
            if size == 0 && file.try_lock().map_err(failed(path.display()))? {
                self.disk.remove(&path).map_err(failed(path.display()))?;
            }
        }
        Ok(())
    }

    /// [`Self::recover`] for one pack, also while this process writes to another one: its writer
    /// may have ended since. Returns whether no process has it. Before the first
    /// [`Appender::acquire`] it does nothing: that call looks through all packs.
    pub(crate) fn recover_tail(
        &mut self,
        index: &Index,
        txn: &RoTxn,
        pack: (u32, PackState),
    ) -> Result<bool> {
        let is_ended = self.marks.seal.iter().any(|ended| ended.number == pack.0);
        if self.recovered && !is_ended { self.recover_pack(index, txn, pack) } else { Ok(is_ended) }
    }

    fn recover_pack(&mut self, index: &Index, txn: &RoTxn, pack: (u32, PackState)) -> Result<bool> {
        let (number, state) = pack;
        if let Some(refusal) = &self.refusal {
            return Err(StoreError::Corrupt(refusal.clone()));
        }
        let left = self.tail_state(number, state.end, index.seq(txn)?);
        if let Err(StoreError::Corrupt(refusal)) = &left {
            self.refusal = Some(refusal.clone());
        }
        match left? {
            // The check reports a pack that is missing. Writing can continue without it.
            TailState::Missing => {}
            TailState::InUse => return Ok(false),
            TailState::Torn(file) => {
                self.marks.abandon.push(EndedPack { number, end: state.end, _file: file })
            }
            TailState::Zero(file, _) if !self.can_append(number, &*file, state.end) => {
                self.marks.seal.push(EndedPack { number, end: state.end, _file: file });
            }
            TailState::Zero(file, preallocated) if self.current.is_none() && state.end < self.pack_bytes => {
                self.current = Some(CurrentPack { number, file, end: state.end, preallocated, fresh: false });
            }
            TailState::Zero(..) => {}
        }
        Ok(true)
    }

    /// The bytes of a pack, of an ended process, beyond the end that the index has. Fails if
    /// acknowledged commits follow that cannot be redone, because of damage in this pack or in
    /// another one. Writing to another pack would lose them. Call it when no tail is left to
    /// redo.
    pub(crate) fn tail_state(&self, number: u32, end: u64, next_seq: u64) -> Result<TailState> {
        let path = path_of(&self.dir, number);
        let file = match self.disk.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(TailState::Missing),
            other => other.map_err(failed(path.display()))?,
        };
        if !file.try_lock().map_err(failed(path.display()))? {
            return Ok(TailState::InUse);
        }
        let size = file.size().map_err(failed(path.display()))?;
        if tail_is_zero(&*file, end, size).map_err(failed(path.display()))? {
            return Ok(TailState::Zero(file, size));
        }
        self.refuse_lost(&*file, number, IndexedEnd { end, next_seq })?;
        Ok(TailState::Torn(file))
    }

    /// Fails if there are acknowledged commits beyond the end that the index has of a pack, and
    /// they cannot be redone.
    pub(crate) fn refuse_lost(&self, file: &dyn DiskFile, number: u32, indexed: IndexedEnd) -> Result<()> {
        let (IndexedEnd { end, next_seq }, path) = (indexed, path_of(&self.dir, number));
        let size = file.size().map_err(failed(path.display()))?;
        let search = Search { file, format: tail_format(file, number, self.store), size };
        let from = end.max(PACK_HEADER as u64);
        let lost = match search.damage_from(from, next_seq) {
            Some(at) => format!("is damaged at byte {at}, and acknowledged commits follow"),
            None if search.begins_later(from, next_seq) => {
                format!("continues at byte {from}, but the commits before that, in another pack, are damaged")
            }
            None => return Ok(()),
        };
        let path = path.display();
        let refusal = format!("{path} {lost}: the index lacks them, and nothing is written. {REMEDY}");
        Err(StoreError::Corrupt(refusal))
    }

    /// Whether new records may follow in this pack: not in one of an older format.
    fn can_append(&self, number: u32, file: &dyn DiskFile, end: u64) -> bool {
        end == 0 || matches!(pack_format(file, number, self.store), Ok(Some(PackFormat::Bound { .. })))
    }

    /// Creates a pack, under the next number of the index. An empty file of that number may
    /// exist: a process ended before it could commit the index.
    fn create(&self, index: &Index, txn: &RoTxn) -> Result<CurrentPack> {
        let number = match index.next_pack(txn)? {
            Some(number) => number,
            None => self.highest(index, txn)?.saturating_add(1),
        };
        if number > PACK_MAX {
            return Err(StoreError::Corrupt(format!(
                "the next pack would have number {number}, and {PACK_MAX} is the last one: a number in the index or in the \
                 log is damaged. {REMEDY}"
            )));
        }
        let path = path_of(&self.dir, number);
        let file = match self.disk.create(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => self.disk.open(&path),
            file => file,
        };
        let file = file.map_err(failed(path.display()))?;
        let is_ours = file.try_lock().map_err(failed(path.display()))?;
        if file.size().map_err(failed(path.display()))? > 0 {
            return Err(StoreError::Corrupt(format!(
                "{} is in use and the index does not know it. {REMEDY}",
                path.display()
            )));
        }
        // A process whose index commit failed removes the file that it made, and then releases
        // the file's lock. In that case we have locked an unlinked file.
        if !is_ours || self.disk.open(&path).is_err() {
            return Err(StoreError::Unavailable(format!(
                "{}: another process could not make this pack and removes it; try again",
                path.display()
            )));
        }
        self.disk.sync_dir(&self.dir).map_err(failed(self.dir.display()))?;
        Ok(CurrentPack { number, file, end: 0, preallocated: 0, fresh: true })
    }

    /// The highest number of a pack in a store whose index does not keep the next one. An empty
    /// file that the index does not know is from an earlier attempt to create that pack. It is
    /// used, because its number would otherwise be missing for ever.
    fn highest(&self, index: &Index, txn: &RoTxn) -> Result<u32> {
        let mut highest = index.all_packs(txn)?.last().map_or(0, |(n, _)| *n);
        let names = self.disk.list(&self.dir).map_err(failed(self.dir.display()))?;
        for number in names.iter().filter_map(|name| number_of(name)) {
            let path = path_of(&self.dir, number);
            let size = self.disk.open(&path).and_then(|file| file.size());
            if number > highest && size.map_err(failed(path.display()))? > 0 {
                highest = number;
            }
        }
        Ok(highest)
    }

    /// Writes and syncs a batch. After an error nothing of the batch counts. `admit` is called
    /// only if the file must become longer.
    pub(crate) fn write(
        &mut self,
        batch: &Batch,
        admit: impl FnOnce() -> Result<Preallocation>,
    ) -> Result<()> {
        let Some(current) = &mut self.current else {
            return Err(StoreError::Unavailable(NO_PACK.into()));
        };
        let path = path_of(&self.dir, current.number);
        let need = batch.start + batch.len();
        if need > current.preallocated {
            // An error here is no reason to abandon the pack: only zeroes were written.
            preallocate(current, need, admit()?).map_err(failed(path.display()))?;
        }
        let written = write_pieces(current, batch).and_then(|()| current.file.sync());
        written.map_err(|e| {
            self.abandon();
            failed(path.display())(e)
        })
    }

    /// Records the state of all packs this transaction touches: its own ends at `end`. Fails if the
    /// index lacks its pack. [`Appender::acquire`] put it there, so the index is damaged.
    pub(crate) fn record(&self, index: &Index, txn: &mut Writing, pack: u32, end: u64) -> Result<()> {
        self.record_ended(index, txn)?;
        self.marks.abandon.iter().try_for_each(|ended| seal(index, txn, ended.number))?;
        self.count_marks(index, txn, pack)?;
        let state = index.pack(txn, pack)?.ok_or_else(damaged(format_args!(
            "the index lacks pack {pack}, which is being written. {REMEDY}"
        )))?;
        index.put_pack(txn, pack, PackState { end, ..state })
    }

    /// Counts the records with which [`Appender::begin`] began the transaction.
    fn count_marks(&self, index: &Index, txn: &mut Writing, pack: u32) -> Result<()> {
        if !self.has_marks() {
            return Ok(());
        }
        index.add_retired(txn, &self.marks.retire.iter().copied().collect())?;
        let abandon = record_len(abandon_content(0, 0).len()) * self.marks.abandon.len() as u64;
        let retire = record_len(retire_content(0).len()) * self.marks.retire.len() as u64;
        // Their sequence numbers are the transaction's first, which are after any pass. Both
        // kinds count in the same way.
        index.log_grew(txn, Kind::Retire, u64::MAX, PackBytes { pack, bytes: abandon + retire })
    }

    /// Records the packs that were ended. Unlike other marks, this needs no record in the log.
    pub(crate) fn record_ended(&self, index: &Index, txn: &mut Writing) -> Result<()> {
        self.marks.seal.iter().try_for_each(|ended| seal(index, txn, ended.number))
    }

    /// The index has the packs that were ended.
    pub(crate) fn ended(&mut self) {
        self.marks.seal.clear();
    }

    /// The records up to `end` count.
    pub(crate) fn advance(&mut self, end: u64) {
        if let Some(current) = &mut self.current {
            current.end = end;
        }
    }

    /// The index has the marks.
    pub(crate) fn marked(&mut self) {
        self.marks = Marks::default();
    }

    /// A write failed: the pack is abandoned at its previous end.
    pub(crate) fn abandon(&mut self) {
        if let Some(current) = self.current.take() {
            self.marks.abandon.push(current.ended());
        }
    }
}

fn seal(index: &Index, txn: &mut Writing, pack: u32) -> Result<()> {
    match index.pack(txn, pack)? {
        Some(state) => index.put_pack(txn, pack, PackState { sealed: true, ..state }),
        None => Ok(()),
    }
}

fn write_pieces(current: &CurrentPack, batch: &Batch) -> io::Result<()> {
    let mut at = batch.start;
    for piece in batch.pieces().filter(|p| !p.is_empty()) {
        current.file.write_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// Writes zeroes up to `need` and a step beyond. If the disk has no space for the step, it writes
/// them up to `need`.
fn preallocate(current: &mut CurrentPack, need: u64, how_far: Preallocation) -> io::Result<()> {
    let need = need.next_multiple_of(4096);
    let step = match how_far {
        Preallocation::Step => need.clamp(PREALLOCATE_MIN, PREALLOCATE_MAX),
        Preallocation::Needed => 0,
    };
    let to = need.saturating_add(step).next_multiple_of(4096);
    // An earlier attempt may have written zeroes beyond the known length.
    while current.preallocated < to {
        let goal = if current.preallocated < need { need } else { to };
        let n = (goal - current.preallocated).min(ZEROES.len() as u64);
        match current.file.write_at(&ZEROES[..n as usize], current.preallocated) {
            Ok(()) => current.preallocated += n,
            Err(_) if current.preallocated >= need => break,
            Err(e) => return Err(e),
        }
    }
    debug_assert!(current.preallocated >= PACK_HEADER as u64);
    Ok(())
}

/// Whether all bytes from `end` on are zero.
fn tail_is_zero(file: &dyn DiskFile, end: u64, size: u64) -> io::Result<bool> {
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

#[cfg(test)]
#[path = "appender_tests.rs"]
mod tests;
