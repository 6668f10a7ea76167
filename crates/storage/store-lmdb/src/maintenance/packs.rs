//! Step 3: packs that are mostly dead are compacted, and retired packs removed.

use heed::RoTxn;
use posthaste_mail_model::BodyId;
use posthaste_store::{Report, Result, StoreError};

use super::fault::Moving;
use super::superseded::{Liveness, Moved, liveness};
use crate::data_dir::reserve::Reserve;
use crate::index::Index;
use crate::index::bodies::BodyLocation;
use crate::index::packs::PackState;
use crate::log::path_of;
use crate::log::reader::ReadFault;
use crate::log::record::Kind;
use crate::log::scan::{LocatedRecord, Scan, pack_format};
use crate::writer::apply::Apply;
use crate::writer::{IndexCommit, Writer};

/// Bytes copied out of a pack in one round: some 10 ms.
pub(crate) const COPY_MAX: u64 = 4 << 20;
/// Records examined in one round.
const RECORDS_MAX: u64 = 20_000;
/// Dead bytes from which the current pack is ended early, so that it can be compacted: a step of
/// preallocation. With less, preallocation would take more space than compaction frees.
const ROTATE_DEAD: u64 = 256 << 10;

/// Removes the files of retired packs. A pack leaves the list of these after its removal is
/// durable: a file that the index does not know at all is never removed.
pub(super) fn remove_retired(writer: &mut Writer<'_>) -> Result<()> {
    let shared = writer.shared;
    let retired = shared.index.retired_packs(&*shared.index.read()?)?;
    if retired.is_empty() {
        return Ok(());
    }
    let unavailable = |e| StoreError::Unavailable(format!("{}: {e}", shared.packs.display()));
    for &pack in &retired {
        // Readers that looked a location up before find the file missing and look again. Readers
        // that have the file open continue.
        shared.reader.forget(pack);
        match shared.disk.remove(&path_of(&shared.packs, pack)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(unavailable(e)),
            _ => {}
        }
    }
    shared.disk.sync_dir(&shared.packs).map_err(unavailable)?;
    writer.work(|apply| {
        for &pack in &retired {
            apply.index.forget_retired(&mut apply.txn, pack)?;
        }
        Ok(((), IndexCommit::Now))
    })
}

/// Whether the disk has space for the records that compaction copies before the pack's file can
/// be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopySpace {
    /// The space is enough for all records.
    Enough,
    /// The space is enough for this many bytes of records.
    Short(u64),
}

impl CopySpace {
    /// The space for a pack in this state. The index needs twice the same in addition: a page for
    /// each body that moves, and LMDB copies pages.
    fn on(reserve: &Reserve, state: &PackState) -> Self {
        let share = reserve.writable() / 4;
        let live = state.end.saturating_sub(state.emptied.max(state.dead));
        if live <= share { Self::Enough } else { Self::Short(share.min(COPY_MAX)) }
    }
}

fn is_wasteful(state: &PackState) -> bool {
    state.emptied > 0 || state.dead * 2 > state.end
}

/// Ends the current pack if it is mostly dead, so that it can be compacted.
pub(super) fn end_wasteful(writer: &mut Writer<'_>) -> Result<()> {
    let Some(current) = writer.appender.current() else { return Ok(()) };
    let shared = writer.shared;
    let state = shared.index.pack(&*shared.index.read()?, current)?;
    if !state.is_some_and(|state| is_wasteful(&state) && state.dead >= ROTATE_DEAD) {
        return Ok(());
    }
    writer.appender.rotate();
    // The index must record it: on a full disk the next commit may come much later.
    writer.work(|_| Ok(((), IndexCommit::Now)))
}

/// The pack to compact next.
pub(super) fn next_pack(index: &Index, txn: &RoTxn, reserve: &Reserve) -> Result<Option<(u32, CopySpace)>> {
    let packs = index.all_packs(txn)?;
    let ready = |(_, s): &&(u32, PackState)| s.sealed && !s.damaged && is_wasteful(s);
    let next = packs.iter().find(ready);
    Ok(next.map(|(n, state)| (*n, CopySpace::on(reserve, state))))
}

/// Clears the marks of damage, so that packs are compacted again. Returns their number. A pack in
/// which compaction meets a damaged record is marked again.
pub(crate) fn accept_loss(writer: &mut Writer<'_>) -> Result<usize> {
    writer.work(|apply| {
        let marked = apply.index.all_packs(&apply.txn)?.into_iter().filter(|(_, state)| state.damaged);
        let marked: Vec<(u32, PackState)> = marked.collect();
        for &(pack, state) in &marked {
            apply.index.put_pack(&mut apply.txn, pack, PackState { damaged: false, ..state })?;
        }
        Ok((marked.len(), IndexCommit::Now))
    })
}

/// Compacts a piece of one pack.
pub(super) fn compact(writer: &mut Writer<'_>, pack: u32) -> Result<Report> {
    let shared = writer.shared;
    let report = writer.work(|apply| {
        let mut report = Report::default();
        let Some(state) = apply.index.pack(&apply.txn, pack)? else {
            return Ok((report, IndexCommit::Nothing));
        };
        let file = shared.reader.file(pack);
        let file = file.map_err(|e| StoreError::Unavailable(format!("pack {pack}: {e}")))?;
        let (moved, at) = match pack_format(&*file, pack, shared.store) {
            Ok(Some(format)) => {
                let mut scan = Scan::new(&*file, format, state.emptied, state.end);
                (move_records(apply, pack, &mut scan, Limits::ROUND, &mut report), scan.offset())
            }
            Ok(None) => (Err(ReadFault::Damaged("its head is damaged").into()), 0),
            Err(fault) => (Err(fault.into()), 0),
        };
        match moved {
            Ok(true) => {
                apply.retire(pack)?;
                report.reclaimed_bytes = state.end;
            }
            Ok(false) => apply.index.put_pack(&mut apply.txn, pack, PackState { emptied: at, ..state })?,
            Err(Moving::Store(error)) => return Err(error),
            Err(Moving::Pack(fault)) => leave_damaged(apply, pack, at, &fault, &mut report)?,
        }
        Ok((report, IndexCommit::Now))
    })?;
    if report.reclaimed_bytes > 0 {
        remove_retired(writer)?;
    }
    Ok(report)
}

/// Reports a damaged pack. Maintenance does not change it from now on.
pub(super) fn leave_damaged(
    apply: &mut Apply<'_, '_>,
    pack: u32,
    at: u64,
    fault: &ReadFault,
    report: &mut Report,
) -> Result<()> {
    report.faults.push(format!("pack {pack} near byte {at}: {fault}; it is left as it is"));
    let Some(state) = apply.index.pack(&apply.txn, pack)? else { return Ok(()) };
    let left = PackState { emptied: 0, damaged: true, ..state };
    apply.index.put_pack(&mut apply.txn, pack, left)
}

/// The limits of one round of copying records.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Bytes copied.
    pub(super) bytes: u64,
    /// Records examined.
    pub(super) records: u64,
}

impl Limits {
    const ROUND: Self = Self { bytes: COPY_MAX, records: RECORDS_MAX };
}

/// Copies live records up to the limits of a round. Returns whether the end of the pack is
/// reached.
pub(super) fn move_records(
    apply: &mut Apply<'_, '_>,
    pack: u32,
    scan: &mut Scan<'_>,
    limits: Limits,
    report: &mut Report,
) -> Result<bool, Moving> {
    let (mut copied, mut moved) = (0, Moved::default());
    let mut is_end = false;
    while copied < limits.bytes && report.examined < limits.records && !is_end {
        report.examined += 1;
        let Some(found) = scan.advance()? else {
            is_end = true;
            break;
        };
        copied += match found.header.kind {
            Kind::Body => move_body(apply, pack, scan, &found)?,
            _ => move_log(apply, scan, &found, &mut moved)?,
        };
    }
    moved.count(apply, pack)?;
    Ok(is_end)
}

fn move_body(
    apply: &mut Apply<'_, '_>,
    pack: u32,
    scan: &Scan<'_>,
    found: &LocatedRecord,
) -> Result<u64, Moving> {
    let body = BodyId(found.header.id);
    let Some(location) = apply.index.body(&apply.txn, body)? else { return Ok(0) };
    if location.pack != pack || location.offset != found.offset {
        return Ok(0);
    }
    let offset = apply.batch.moved(found.header, &scan.whole(found)?);
    let moved = BodyLocation { pack: apply.batch.pack, offset, ..location };
    apply.index.put_body(&mut apply.txn, body, moved)?;
    Ok(found.header.record_len())
}

/// Log records keep their sequence numbers: a rebuild sorts by them.
fn move_log(
    apply: &mut Apply<'_, '_>,
    scan: &Scan<'_>,
    found: &LocatedRecord,
    moved: &mut Moved,
) -> Result<u64, Moving> {
    let record = scan.whole(found)?;
    let Liveness::Live(counted) = liveness(apply.index, &apply.txn, scan, found)? else { return Ok(0) };
    moved.add(&found.header, counted);
    apply.batch.moved(found.header, &record);
    Ok(found.header.record_len())
}
