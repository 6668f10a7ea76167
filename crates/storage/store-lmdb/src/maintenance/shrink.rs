//! Compacts a pack from its end, for a disk that is full.
//!
//! Compaction of a whole pack frees its space at the end, when the file is removed. Before that,
//! it takes up to half of this. A full disk has no such space. So the live records of the pack's
//! last part are copied, as far as there is space, and the file is cut. Each round frees at least
//! the space that it took, except for some pages of the index.
//!
//! Two transactions make a cut. The first copies the records. The second logs the cut and lowers
//! the pack's end. So a rebuild that finds the record finds the copies, even if the second
//! transaction was not committed. The file is cut last, while no snapshot and no check reads
//! ([`crate::log::readers`]). A reader that had looked a location up before looks again.

use std::collections::VecDeque;

use posthaste_mail_model::BodyId;
use posthaste_store::{Report, Result, StoreError};

use super::fault::Moving;
use super::packs::{Limits, compact, leave_damaged, move_records};
use super::superseded::{Liveness, liveness};
use crate::index::packs::PackState;
use crate::log::reader::ReadFault;
use crate::log::record::{Header, Kind};
use crate::log::scan::{LocatedRecord, Scan, pack_format};
use crate::log::{path_of, readers};
use crate::shared::Shared;
use crate::writer::apply::Apply;
use crate::writer::{IndexCommit, Writer};

/// The outcome of the first transaction.
enum Copied {
    /// The records from this offset on were copied or are dead; this many bytes are dead.
    From { offset: u64, dead: u64 },
    /// Nothing: there is space for the whole pack.
    Fits,
    /// Nothing: the pack is damaged or was retired.
    No,
}

/// Copies at most `bytes` of live records, or one record, from a pack's end and cuts it there.
pub(super) fn shrink(writer: &mut Writer<'_>, pack: u32, bytes: u64) -> Result<Report> {
    let shared = writer.shared;
    // An earlier round could not cut the file, because a reader used it.
    cut_file(shared, pack)?;
    let (mut report, copied) = writer.work(|apply| {
        let mut report = Report::default();
        let copied = copy_end(shared, apply, pack, bytes, &mut report)?;
        let wrote = if matches!(copied, Copied::Fits) { IndexCommit::Nothing } else { IndexCommit::Now };
        Ok(((report, copied), wrote))
    })?;
    let (offset, dead) = match copied {
        Copied::From { offset, dead } => (offset, dead),
        Copied::Fits => return compact(writer, pack),
        Copied::No => return Ok(report),
    };
    report.reclaimed_bytes = writer.work(|apply| {
        let Some(state) = apply.index.pack(&apply.txn, pack)? else { return Ok((0, IndexCommit::Nothing)) };
        let dead = state.dead.saturating_sub(dead);
        apply.cut(pack, PackState { end: offset, dead, ..state })?;
        Ok((state.end.saturating_sub(offset), IndexCommit::Now))
    })?;
    cut_file(shared, pack)?;
    Ok(report)
}

/// The first transaction.
fn copy_end(
    shared: &Shared,
    apply: &mut Apply<'_, '_>,
    pack: u32,
    bytes: u64,
    report: &mut Report,
) -> Result<Copied> {
    let Some(state) = apply.index.pack(&apply.txn, pack)? else { return Ok(Copied::No) };
    let file = shared.reader.file(pack);
    let file = file.map_err(|e| StoreError::Unavailable(format!("pack {pack}: {e}")))?;
    let mut scan = match pack_format(&*file, pack, shared.store) {
        Ok(Some(format)) => Scan::new(&*file, format, state.emptied, state.end),
        Ok(None) => {
            let fault = ReadFault::Damaged("its head is damaged");
            return leave_damaged(apply, pack, 0, &fault, report).map(|()| Copied::No);
        }
        Err(fault) => return leave_damaged(apply, pack, 0, &fault, report).map(|()| Copied::No),
    };
    let start = scan.offset();
    let done = begin_of_end(apply, pack, &mut scan, bytes).and_then(|offset| {
        if offset == start {
            return Ok(Copied::Fits);
        }
        let dead = dead_records(apply, pack, &mut scan.from(offset))?;
        let mut end = scan.from(offset);
        let all = Limits { bytes: u64::MAX, records: u64::MAX };
        let moved = move_records(apply, pack, &mut end, all, report);
        scan = end;
        moved.map(|_| Copied::From { offset, dead })
    });
    match done {
        Ok(copied) => Ok(copied),
        Err(Moving::Store(error)) => Err(error),
        Err(Moving::Pack(fault)) => {
            leave_damaged(apply, pack, scan.offset(), &fault, report).map(|()| Copied::No)
        }
    }
}

/// The offset from which live records of at most `bytes`, or the last one, follow.
fn begin_of_end(apply: &Apply<'_, '_>, pack: u32, scan: &mut Scan<'_>, bytes: u64) -> Result<u64, Moving> {
    let mut begin = scan.offset();
    // Ends and lengths of the live records from `begin` on.
    let mut live: VecDeque<(u64, u64)> = VecDeque::new();
    let mut sum = 0;
    while let Some(found) = scan.advance()? {
        if !is_live(apply, pack, scan, &found)? {
            continue;
        }
        sum += found.header.record_len();
        live.push_back((found.end(), found.header.record_len()));
        while sum > bytes && live.len() > 1 {
            let Some((end, len)) = live.pop_front() else { break };
            sum -= len;
            begin = end;
        }
    }
    Ok(begin)
}

/// Bytes of the dead records, by the counts of the index.
fn dead_records(apply: &Apply<'_, '_>, pack: u32, scan: &mut Scan<'_>) -> Result<u64, Moving> {
    let (mut dead, superseded) = (0, apply.index.passes(&apply.txn)?.superseded);
    while let Some(found) = scan.advance()? {
        let Header { kind, seq, .. } = found.header;
        let is_counted = !kind.is_in_ranges() || seq < superseded;
        if is_counted && !is_live(apply, pack, scan, &found)? {
            dead += found.header.record_len();
        }
    }
    Ok(dead)
}

fn is_live(apply: &Apply<'_, '_>, pack: u32, scan: &Scan<'_>, found: &LocatedRecord) -> Result<bool, Moving> {
    if found.header.kind != Kind::Body {
        return Ok(matches!(liveness(apply.index, &apply.txn, scan, found)?, Liveness::Live(_)));
    }
    let place = apply.index.body(&apply.txn, BodyId(found.header.id))?;
    Ok(place.is_some_and(|place| place.pack == pack && place.offset == found.offset))
}

/// Cuts the file of a sealed pack to the end that the index has of it, if nobody reads an earlier
/// state.
fn cut_file(shared: &Shared, pack: u32) -> Result<()> {
    let failed = |e| StoreError::Unavailable(format!("pack {pack}: {e}"));
    let Some(_alone) = readers::exclude(&shared.packs) else { return Ok(()) };
    let state = shared.index.pack(&*shared.index.read()?, pack)?;
    let Some(state) = state.filter(|state| state.sealed) else { return Ok(()) };
    let file = shared.disk.open(&path_of(&shared.packs, pack)).map_err(failed)?;
    if file.size().map_err(failed)? > state.end {
        file.truncate(state.end).map_err(failed)?;
        // A journal gives freed blocks back when it commits.
        file.sync().map_err(failed)?;
    }
    Ok(())
}
