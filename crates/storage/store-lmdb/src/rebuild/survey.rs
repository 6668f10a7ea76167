//! Finds every record of every pack, whatever else is damaged.
//!
//! Where no intact record begins and not all that follows is zero, the survey searches the pack.
//! It looks for the next head whose checksum matches at its place. The bytes between are reported
//! as damaged. Bytes that the disk cannot read are skipped a sector at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use posthaste_mail_model::{Id, NumSet};
use posthaste_store::{Result, StoreError};

use super::catalog::{Catalog, Entry};
use super::controls::{Control, Controls, ValidStatements, end_at};
use super::last_bodies::{LastBodies, UncommittedBodies};
use super::pack::Pack;
use super::statements::statements_of;
use super::torn_round::{LastRound, TornRound, WholeRecords};
use crate::index::Indexed;
use crate::index::packs::PackState;
use crate::log::disk::{Disk, DiskFile};
use crate::log::record::{Header, PACK_HEADER, PackFormat, RECORD_HEADER, format_from};
use crate::log::scan::LocatedRecord;
use crate::log::search::Search;
use crate::log::tail::TailJudge;
use crate::log::{number_of, path_of};

/// Records of one transaction of the catalog.
const STEP: u64 = 50_000;

/// The packs in the old index.
#[derive(Default)]
pub(crate) struct OldPacks {
    /// The states of the packs.
    pub(crate) packs: BTreeMap<u32, PackState>,
    /// Packs whose files must be removed.
    pub(crate) retired: BTreeSet<u32>,
    /// Records from this sequence number on are unknown to it.
    pub(crate) next_seq: u64,
}

/// Bytes of a pack that are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) pack: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// No record of the pack follows: it may be a commit that was cut off.
    pub(crate) is_last: bool,
}

/// The result of a survey.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) packs: BTreeMap<u32, Pack>,
    /// Packs that were emptied, and whose files may be removed.
    pub(crate) retired: NumSet,
    /// Packs that were made and never written: all zero.
    pub(crate) empty: BTreeSet<u32>,
    /// The empty packs that a record of the log abandons. Records written to one would not count
    /// at the next rebuild.
    pub(crate) abandoned: BTreeSet<u32>,
    /// Packs whose tails were cut off, without a record of the log about it.
    pub(crate) cut_off: BTreeSet<u32>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) faults: Vec<String>,
}

/// Lists the records of all packs in `dir` in the catalog.
pub(crate) fn survey(
    disk: &dyn Disk,
    dir: &Path,
    store: Id,
    before: &OldPacks,
    catalog: &Catalog,
    progress: &mut dyn FnMut(f64),
) -> Result<Survey> {
    let names = disk.list(dir).map_err(unavailable(dir))?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    let mut survey = Survey::default();
    let mut controls = Controls::default();
    let is_behind = is_behind(disk, dir, before, &numbers)?;
    let mut uncommitted = UncommittedBodies::default();
    let mut torn_rounds: Vec<TornRound> = Vec::new();
    for (done, &number) in numbers.iter().enumerate() {
        let path = path_of(dir, number);
        let file = disk.open(&path).map_err(unavailable(&path))?;
        let size = file.size().map_err(unavailable(&path))?;
        let whole = Search { file: &*file, format: PackFormat::bound(store, number), size };
        if whole.is_zero() {
            survey.empty.insert(number);
            continue;
        }
        let known = before.packs.get(&number).copied();
        let (format, fault) = format_of(&*file, number, store);
        // A head beyond the end in the old index was being written.
        survey.faults.extend(fault.filter(|_| known.is_none_or(|state| state.end > 0)));
        // Nothing was written to a pack after it was sealed: records beyond its end do not count.
        if let Some(state) = known.filter(|state| state.sealed) {
            controls.ends_at(number, state.end);
        }
        let tail = known.filter(|_| !is_behind);
        let next_seq = before.next_seq;
        let tail = tail.map(|state| IndexedTail { from: state.end, next_seq, is_sealed: state.sealed });
        let is_known = tail.is_some();
        let (mut bodies, mut round) = (LastBodies::default(), LastRound::after(uncommitted.seq()));
        let mut add = |found| {
            bodies.add(found);
            round.add(found);
        };
        survey.pack(Opened { number, file, format, size, tail }, catalog, &mut controls, &mut add)?;
        uncommitted.add(number, bodies, is_known);
        let search = survey.search(number).filter(|_| !is_known);
        torn_rounds.extend(search.and_then(|search| round.torn(number, &search)));
        progress((done + 1) as f64 / numbers.len() as f64);
    }
    let counted = catalog.last_counted(&controls.judge(&before.packs).ends)?;
    survey.cut_torn_bodies(uncommitted.batches(counted), &mut controls);
    survey.cut_torn_rounds(&torn_rounds, catalog, &mut controls)?;
    let ValidStatements { ends, abandoned, retired, mut faults } = controls.judge(&before.packs);
    survey.retired = retired;
    // Packs that were abandoned are sealed. Otherwise the next opening would redo commits that the
    // log abandons. It would take a body there, whose number is below the next one, for a body that
    // maintenance copied.
    survey.cut_off.retain(|pack| !abandoned.contains(pack));
    survey.faults.append(&mut faults);
    for (number, end) in ends {
        if let Some(pack) = survey.packs.get_mut(&number) {
            pack.abandoned = Some(end);
        } else if survey.empty.contains(&number) {
            survey.abandoned.insert(number);
        }
    }
    let Survey { packs, damage, .. } = &mut survey;
    damage.retain(|damage| packs.get(&damage.pack).is_none_or(|pack| pack.counts(damage.from)));
    Ok(survey)
}

/// A pack that is surveyed.
struct Opened {
    number: u32,
    file: Arc<dyn DiskFile>,
    format: PackFormat,
    size: u64,
    /// The pack's end in the old index, if the index is not older than the packs.
    tail: Option<IndexedTail>,
}

/// The state of a pack beyond its end in the old index.
#[derive(Clone, Copy)]
struct IndexedTail {
    from: u64,
    /// The next sequence number of the old index.
    next_seq: u64,
    /// Whether the pack is sealed in the old index.
    is_sealed: bool,
}

/// Whether the old index is older than the packs: it lacks a pack that has records. A pack enters
/// the index before its first record is written. A pack whose state is damaged there counts as
/// missing: without that state the end of the log is not known.
fn is_behind(disk: &dyn Disk, dir: &Path, before: &OldPacks, numbers: &[u32]) -> Result<bool> {
    if before.packs.is_empty() {
        return Ok(false);
    }
    let is_known = |n: &u32| before.packs.contains_key(n) || before.retired.contains(n);
    for &number in numbers.iter().filter(|n| !is_known(n)) {
        let path = path_of(dir, number);
        let size = disk.open(&path).and_then(|file| file.size()).map_err(unavailable(&path))?;
        if size > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

fn unavailable(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |e| StoreError::Unavailable(format!("{}: {e}", path.display()))
}

/// The format of a pack, and the fault of its head. Where the head is damaged, the first record
/// shows the format.
fn format_of(file: &dyn DiskFile, number: u32, store: Id) -> (PackFormat, Option<String>) {
    let mut head = [0; PACK_HEADER + RECORD_HEADER];
    // A head that cannot be read counts as damaged.
    let read = file.read_at(&mut head, 0).unwrap_or(0);
    let head = &head[..read];
    if let Some(format) = format_from(head, number, store) {
        return (format, None);
    }
    let bound = PackFormat::bound(store, number);
    // A pack may end within its head.
    let first = head.get(PACK_HEADER..).unwrap_or_default();
    let begins = |format| Header::from_bytes(first, format, PACK_HEADER as u64).is_some();
    // A pack of another store has an intact head that names that store.
    let is_foreign = head.starts_with(b"PHPACK\r\n") && !begins(bound) && !begins(PackFormat::Unbound);
    let fault = match is_foreign {
        true => {
            format!("pack {number} does not begin as this store's pack {number}; it is searched for records")
        }
        false => format!("the head of pack {number} is damaged; its records are used"),
    };
    (if begins(PackFormat::Unbound) { PackFormat::Unbound } else { bound }, Some(fault))
}

impl Survey {
    /// Lists the records of one pack. `add` is called with each.
    fn pack(
        &mut self,
        pack: Opened,
        catalog: &Catalog,
        controls: &mut Controls,
        add: &mut dyn FnMut(LocatedRecord),
    ) -> Result<()> {
        let Opened { number, file, format, size, tail } = pack;
        let mut txn = catalog.write()?;
        let search = Search { file: &*file, format, size };
        let mut judge = tail.map(|tail| (tail, TailJudge::new(&search, tail.next_seq)));
        let (mut at, mut end, mut added) = (PACK_HEADER as u64, PACK_HEADER as u64, 0_u64);
        while let Some(found) = search.next(at) {
            if let Some((tail, judge)) = judge.as_mut().filter(|(tail, _)| at >= tail.from)
                && judge.is_cut_off(at, &found)
            {
                tracing::info!(pack = number, at, "commits that were cut off by a crash are not used");
                // A sealed pack ends before its tail.
                controls.ends_at(number, at);
                if !tail.is_sealed && search.is_readable(at) {
                    self.cut_off.insert(number);
                }
                break;
            }
            if found.offset > at {
                self.damage.push(Damage { pack: number, from: at, to: found.offset, is_last: false });
            }
            for statement in statements_of(&search, &found) {
                controls.add(Control { pack: number, offset: found.offset, statement });
            }
            catalog.add(&mut txn, &Entry { pack: number, found })?;
            add(found);
            added += 1;
            if added % STEP == 0 {
                txn.commit().indexed()?;
                txn = catalog.write()?;
            }
            at = found.end();
            end = at;
        }
        txn.commit().indexed()?;
        if let Some(last) = search.last_byte(at) {
            self.damage.push(Damage { pack: number, from: at, to: last, is_last: true });
        }
        self.packs.insert(number, Pack { file, format, end, abandoned: None });
        Ok(())
    }

    /// A search of one pack.
    fn search(&self, number: u32) -> Option<Search<'_>> {
        let pack = self.packs.get(&number)?;
        Some(Search { file: &*pack.file, format: pack.format, size: pack.file.size().ok()? })
    }

    /// Cuts packs before the first torn body of a batch without commits, if no old index has the
    /// end of the log. Such a body was not acknowledged.
    fn cut_torn_bodies(
        &mut self,
        batches: impl Iterator<Item = (u32, Vec<LocatedRecord>)>,
        controls: &mut Controls,
    ) {
        for (number, bodies) in batches {
            let Some(search) = self.search(number) else { continue };
            if let Some(torn) = bodies.iter().find(|body| !search.is_whole(body))
                && search.is_readable(torn.offset)
                && !search.has_later_batch(torn.offset)
            {
                tracing::info!(pack = number, at = torn.offset, "bodies that no commit names are not used");
                controls.ends_at(number, torn.offset);
                self.cut_off.insert(number);
            }
        }
    }

    /// Cuts packs where a round of maintenance is torn, if the copied records are still at their
    /// old locations.
    fn cut_torn_rounds(
        &mut self,
        torn: &[TornRound],
        catalog: &Catalog,
        controls: &mut Controls,
    ) -> Result<()> {
        if torn.is_empty() {
            return Ok(());
        }
        let mut whole = WholeRecords::of(torn, &self.packs, catalog)?;
        let mut ends = controls.possible_ends();
        for round in torn {
            if round.is_redundant(&self.packs, &mut whole, &ends) {
                tracing::info!(
                    pack = round.pack,
                    at = round.from,
                    "records copied by a compaction that a crash interrupted are not used"
                );
                controls.ends_at(round.pack, round.from);
                end_at(&mut ends, round.pack, round.from);
                self.cut_off.insert(round.pack);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use posthaste_mail_model::BodyId;

    use super::*;
    use crate::log::record::{Batch, Kind};

    const STORE: Id = Id::from_bytes([7; 16]);

    /// A pack of ten bodies of 5,000 bytes, the fourth of which holds the bytes of a record.
    fn pack(dir: &Path) -> (File, Vec<u64>) {
        let mut batch = Batch::new(STORE, 1, 0);
        batch.pack_header(STORE);
        let imitation: Vec<u8> = {
            let mut other = Batch::new(Id::from_bytes([8; 16]), 1, 0);
            other.record(Kind::Mailbox, 99, STORE, vec![1; 40]);
            other.pieces().flatten().copied().collect()
        };
        let mut offsets = Vec::new();
        for n in 0..10_u128 {
            let mut bytes = if n == 3 { imitation.clone() } else { vec![0x55; 5_000] };
            bytes.resize(5_000, 0x55);
            offsets.push(batch.body(n as u64, BodyId(Id::new(1, n)), &bytes.into()));
        }
        let bytes: Vec<u8> = batch.pieces().flatten().copied().collect();
        let path = path_of(dir, 1);
        std::fs::write(&path, [&bytes[..], &[0; 100_000]].concat()).unwrap();
        (File::options().read(true).write(true).open(path).unwrap(), offsets)
    }

    /// Offsets of the records found, and the damage.
    fn surveyed(dir: &Path) -> (Vec<u64>, Vec<Damage>, Vec<String>) {
        let temp = tempfile::tempdir().unwrap();
        let catalog = Catalog::make(&temp.path().join("catalog"), 1 << 24).unwrap();
        let found =
            survey(&crate::log::disk::RealDisk, dir, STORE, &OldPacks::default(), &catalog, &mut |_| {})
                .unwrap();
        let txn = catalog.read().unwrap();
        let offsets = catalog.bodies(&txn).unwrap().map(|e| e.unwrap().found.offset).collect();
        (offsets, found.damage, found.faults)
    }

    #[test]
    fn every_record_but_a_damaged_one_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (file, offsets) = pack(dir.path());
        assert_eq!(surveyed(dir.path()), (offsets.clone(), vec![], vec![]));
        for (hit, &at) in offsets.iter().enumerate() {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at + 20).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at + 20).unwrap();
            let (found, damage, _) = surveyed(dir.path());
            let rest: Vec<u64> = offsets.iter().copied().filter(|o| *o != at).collect();
            assert_eq!(found, rest, "an imitation of a record is passed over, too");
            assert_eq!((damage.len(), damage[0].from, damage[0].is_last), (1, at, hit == 9));
            file.write_all_at(&byte, at + 20).unwrap();
        }
    }

    #[test]
    fn a_damaged_head_of_a_pack_costs_no_record() {
        let dir = tempfile::tempdir().unwrap();
        let (file, offsets) = pack(dir.path());
        file.write_all_at(&[0xff; 30], 4).unwrap();
        let (found, damage, faults) = surveyed(dir.path());
        assert_eq!((found, damage), (offsets, vec![]));
        assert!(faults[0].contains("the head of pack 1 is damaged"), "{faults:?}");
    }

    #[test]
    fn records_after_zeroes_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (file, offsets) = pack(dir.path());
        file.write_all_at(&[0; 12_000], offsets[4]).unwrap();
        let (found, damage, _) = surveyed(dir.path());
        assert_eq!(found, [&offsets[..4], &offsets[7..]].concat());
        assert_eq!(damage.len(), 1);
    }
}
