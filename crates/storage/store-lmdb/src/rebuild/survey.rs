//! Finds every record of every pack, whatever else is damaged.
//!
//! Where no intact record begins and not all that follows is zero, the pack is searched for the
//! next head whose checksum matches at its place. What lies between is reported as damaged. What
//! the disk cannot read is passed over a sector at a time.

use posthaste_mail_model::Id;
use posthaste_store::{Result, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::catalog::{Catalog, Entry};
use super::controls::{Control, Controls, Judged, Says};
use super::unended::{LastBodies, Unended};
use crate::index::Indexed;
use crate::index::packs::PackState;
use crate::log::disk::{Disk, DiskFile};
use crate::log::entry;
use crate::log::range::{self, Rows, Table};
use crate::log::record::{Form, Header, Kind, PACK_HEADER, RECORD_HEADER, form_from};
use crate::log::scan::{Found, Scan};
use crate::log::{number_of, path_of};
use crate::writer::GROUP_MAX;

/// Records of one transaction of the catalog.
const STEP: u64 = 50_000;
/// Bytes searched at a time.
const WINDOW: usize = 1 << 20;
/// What a disk writes whole or not at all, and what is passed over where it cannot read.
const SECTOR: u64 = 512;

/// What the old index says of the packs.
#[derive(Default)]
pub(crate) struct Before<'o> {
    /// Where each pack ends.
    pub(crate) packs: &'o [(u32, PackState)],
    /// Packs whose files are to be removed.
    pub(crate) retired: &'o [u32],
    /// Records from this sequence number on are unknown to it.
    pub(crate) next_seq: u64,
}

/// A pack that takes part.
pub(crate) struct Pack {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) form: Form,
    /// Every record lies below.
    pub(crate) end: u64,
    /// Where a later process gave the pack up: records from there on never happened. Or where
    /// maintenance cut it: they lie elsewhere.
    pub(crate) abandoned: Option<u64>,
}

impl Pack {
    /// The content of one of its records, verified; why not, if it is not available.
    pub(crate) fn content(&self, found: &Found) -> std::result::Result<bytes::Bytes, String> {
        let scan = Scan::new(&*self.file, self.form, 0, self.end);
        scan.content(found).map_err(|fault| fault.to_string())
    }

    /// Where what counts of it ends.
    pub(crate) fn counted_end(&self) -> u64 {
        self.abandoned.map_or(self.end, |end| end.min(self.end))
    }

    /// Makes what counts from `from` on durable, as a redo does: the process that wrote it may have
    /// ended before its sync, or its sync may have failed. So the same bytes are written again.
    /// What cannot be read is left as it is.
    pub(crate) fn make_durable(&self, from: u64) -> std::io::Result<()> {
        let (mut at, end) = (from, self.counted_end());
        let mut sector = [0; SECTOR as usize];
        while at < end {
            let next = (at + 1).next_multiple_of(SECTOR).min(end);
            let piece = sector.get_mut(..(next - at) as usize).unwrap_or_default();
            if self.file.read_at(piece, at).is_ok_and(|read| read == piece.len()) {
                self.file.write_at(piece, at)?;
            }
            at = next;
        }
        self.file.sync()
    }

    pub(crate) fn counts(&self, offset: u64) -> bool {
        self.abandoned.is_none_or(|end| offset < end)
    }
}

/// Bytes of a pack that are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) pack: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// No record of the pack follows: it may be a commit that was cut off.
    pub(crate) is_last: bool,
}

/// What a survey finds.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) packs: BTreeMap<u32, Pack>,
    /// Packs that were emptied, and whose files may be removed.
    pub(crate) retired: BTreeSet<u32>,
    /// Packs that were made and never written: all zero.
    pub(crate) empty: BTreeSet<u32>,
    /// Those of them that a record of the log gives up. What is written to one would not count at
    /// the next rebuild.
    pub(crate) given_up: BTreeSet<u32>,
    /// Packs whose tails were cut off, which no record of the log says yet.
    pub(crate) cut_off: BTreeSet<u32>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) faults: Vec<String>,
}

/// Lists the records of all packs in `dir` in the catalog.
pub(crate) fn survey(
    disk: &dyn Disk,
    dir: &Path,
    store: Id,
    before: &Before<'_>,
    catalog: &Catalog,
    progress: &mut dyn FnMut(f64),
) -> Result<Survey> {
    let names = disk.list(dir).map_err(unavailable(dir))?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    let mut survey = Survey::default();
    let mut controls = Controls::default();
    let is_behind = is_behind(disk, dir, before, &numbers)?;
    let mut unended = Unended::default();
    for (done, &number) in numbers.iter().enumerate() {
        let path = path_of(dir, number);
        let file = disk.open(&path).map_err(unavailable(&path))?;
        let size = file.size().map_err(unavailable(&path))?;
        let whole = Search { file: &*file, form: Form::bound(store, number), size };
        if whole.is_zero() {
            survey.empty.insert(number);
            continue;
        }
        let known = before.packs.iter().find(|(n, _)| *n == number).map(|(_, state)| *state);
        let (form, fault) = form_of(&*file, number, store);
        // A head that the old index does not count was being written.
        survey.faults.extend(fault.filter(|_| known.is_none_or(|state| state.end > 0)));
        // Nothing was written to a pack after it was sealed: what lies beyond its end never
        // happened.
        if let Some(state) = known.filter(|state| state.sealed) {
            controls.ends_at(number, state.end);
        }
        let tail = known.filter(|_| !is_behind);
        let next_seq = before.next_seq;
        let tail = tail.map(|state| Tail { from: state.end, next_seq, is_sealed: state.sealed });
        let is_known = tail.is_some();
        let bodies = survey.pack(Opened { number, file, form, size, tail }, catalog, &mut controls)?;
        unended.note(number, bodies, !is_known);
        progress((done + 1) as f64 / numbers.len() as f64);
    }
    survey.cut_torn_bodies(&unended, &mut controls);
    let Judged { ends, given_up, retired, mut faults } = controls.judge(before.packs);
    survey.retired = retired;
    // They are sealed. Else the next opening would take a body there, whose number is below the
    // next one, for one that maintenance copied, and redo commits that the log gives up.
    survey.cut_off.retain(|pack| !given_up.contains(pack));
    survey.faults.append(&mut faults);
    for (number, end) in ends {
        if let Some(pack) = survey.packs.get_mut(&number) {
            pack.abandoned = Some(end);
        } else if survey.empty.contains(&number) {
            survey.given_up.insert(number);
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
    form: Form,
    size: u64,
    /// Where the old index has its end, if that can be believed.
    tail: Option<Tail>,
}

/// Beyond the end that the old index has of a pack.
#[derive(Clone, Copy)]
struct Tail {
    from: u64,
    /// The next sequence number of the old index.
    next_seq: u64,
    /// Whether the old index has the pack as sealed.
    is_sealed: bool,
}

/// Whether the old index is older than the packs: one of them holds something and the index does
/// not know it. A pack is in the index before anything is written to it.
fn is_behind(disk: &dyn Disk, dir: &Path, before: &Before<'_>, numbers: &[u32]) -> Result<bool> {
    if before.packs.is_empty() {
        return Ok(false);
    }
    let is_known = |n: &u32| before.packs.iter().any(|(known, _)| known == n) || before.retired.contains(n);
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

/// The form of a pack, and what is wrong with its head. Where that is damaged, the first record
/// tells the form.
fn form_of(file: &dyn DiskFile, number: u32, store: Id) -> (Form, Option<String>) {
    let mut head = [0; PACK_HEADER + RECORD_HEADER];
    let read = file.read_at(&mut head, 0).unwrap_or(0);
    let head = head.get(..read).unwrap_or_default();
    if let Some(form) = form_from(head, number, store) {
        return (form, None);
    }
    let bound = Form::bound(store, number);
    let first = head.get(PACK_HEADER..).unwrap_or_default();
    let begins = |form| Header::from_bytes(first, form, PACK_HEADER as u64).is_some();
    // A pack of another store has an intact head that names that store.
    let is_foreign = head.starts_with(b"PHPACK\r\n") && !begins(bound) && !begins(Form::Unbound);
    let fault = match is_foreign {
        true => {
            format!("pack {number} does not begin as this store's pack {number}; it is searched for records")
        }
        false => format!("the head of pack {number} is damaged; its records are used"),
    };
    (if begins(Form::Unbound) { Form::Unbound } else { bound }, Some(fault))
}

impl Survey {
    /// Lists the records of one pack and returns the bodies that it ends with.
    fn pack(&mut self, pack: Opened, catalog: &Catalog, controls: &mut Controls) -> Result<LastBodies> {
        let Opened { number, file, form, size, tail } = pack;
        let mut txn = catalog.write()?;
        let mut last = LastBodies::default();
        let search = Search { file: &*file, form, size };
        let (mut at, mut end, mut added) = (PACK_HEADER as u64, PACK_HEADER as u64, 0_u64);
        while let Some(found) = search.next(at) {
            if let Some(tail) = tail.filter(|tail| at >= tail.from)
                && search.is_cut_off(at, &found, tail.next_seq)
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
            for says in search.says(&found) {
                controls.add(Control { pack: number, offset: found.offset, says });
            }
            catalog.add(&mut txn, &Entry { pack: number, found })?;
            last.note(found);
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
        self.packs.insert(number, Pack { file, form, end, abandoned: None });
        Ok(last)
    }

    /// Cuts packs before the first torn body of a batch whose commits never came, where no old
    /// index says where the log ended. Nobody was answered about such a body.
    fn cut_torn_bodies(&mut self, unended: &Unended, controls: &mut Controls) {
        for &(number, ref bodies) in unended.batches() {
            let Some(pack) = self.packs.get(&number) else { continue };
            let Ok(size) = pack.file.size() else { continue };
            let search = Search { file: &*pack.file, form: pack.form, size };
            if let Some(torn) = bodies.iter().find(|body| !search.is_whole(body))
                && search.is_readable(torn.offset)
            {
                tracing::info!(pack = number, at = torn.offset, "bodies without a commit are not used");
                controls.ends_at(number, torn.offset);
                self.cut_off.insert(number);
            }
        }
    }
}

/// Looks for records in one pack.
struct Search<'f> {
    file: &'f dyn DiskFile,
    form: Form,
    size: u64,
}

impl Search<'_> {
    /// The record at `at`, or else the next one after it.
    fn next(&self, at: u64) -> Option<Found> {
        let mut head = [0; RECORD_HEADER];
        if self.file.read_at(&mut head, at).is_ok_and(|n| n == RECORD_HEADER)
            && let Some(found) = self.record(&head, at)
        {
            return Some(found);
        }
        // A record of form 1 does not say where it belongs: a message may hold the bytes of one.
        if self.form == Form::Unbound {
            return None;
        }
        let mut from = at + 8;
        while from + RECORD_HEADER as u64 <= self.size {
            let (window, next) = self.window(from);
            let heads = window.len().saturating_sub(RECORD_HEADER - 1);
            for skip in (0..heads).step_by(8) {
                let offset = from + skip as u64;
                let head = window.get(skip..).unwrap_or_default();
                if let Some(found) = self.record(head, offset) {
                    return Some(found);
                }
            }
            from = next;
        }
        None
    }

    /// Whether the pack was cut off at `at`, in its tail. `found` is the next record.
    ///
    /// A server acknowledges commits when its pack is synced, so of a tail only the last batch can
    /// be in pieces: a crash lost some of its sectors, which are zero then, as they were written
    /// ahead. Whole commits of the same batch may follow. None of the batch was acknowledged. An
    /// opening does not use it either.
    ///
    /// If commits follow, it is damage, and they count, where no sector is missing, or more follow
    /// than a batch has.
    fn is_cut_off(&self, at: u64, found: &Found, next_seq: u64) -> bool {
        if found.offset == at && self.is_whole(found) {
            return false;
        }
        let (mut from, mut commits) = (at, 0);
        while let Some(found) = self.next(from) {
            let is_new = found.header.kind != Kind::Body && found.header.seq >= next_seq;
            commits += usize::from(is_new && self.is_whole(&found));
            from = found.end();
        }
        let is_last_batch = commits <= GROUP_MAX;
        commits == 0 || (is_last_batch && (self.lacks_sector(at, found.offset) || self.lacks_part(at, found)))
    }

    /// Whether a sector of the record at `at` is missing. A large body is written apart from its
    /// head: the sector that both share may have the head alone.
    fn lacks_part(&self, at: u64, found: &Found) -> bool {
        let content = at + RECORD_HEADER as u64 + found.header.table_len();
        found.offset == at && (self.lacks_sector(at, found.end()) || self.lacks_sector(content, content + 1))
    }

    /// Whether one of the sectors from `from` to `to` is zero, as far as it is not before `from`.
    fn lacks_sector(&self, from: u64, to: u64) -> bool {
        let mut at = from;
        while at < to.min(self.size) {
            let end = (at + 1).next_multiple_of(SECTOR).min(self.size);
            let mut sector = [0; SECTOR as usize];
            let sector = sector.get_mut(..(end - at) as usize).unwrap_or_default();
            if self.file.read_at(sector, at).is_ok_and(|n| n == sector.len())
                && sector.iter().all(|b| *b == 0)
            {
                return true;
            }
            at = end;
        }
        false
    }

    /// What a record says of packs; nothing if it is about something else.
    fn says(&self, found: &Found) -> Vec<Says> {
        let Header { kind, id, .. } = found.header;
        let is_of_packs = match kind {
            Kind::Abandon | Kind::Retire | Kind::Cut => true,
            Kind::Range => id.to_bytes()[0] == Table::Packs as u8,
            _ => false,
        };
        if !is_of_packs {
            return Vec::new();
        }
        let content = Scan::new(self.file, self.form, 0, self.size).content(found).ok();
        let says = content.and_then(|content| match kind {
            Kind::Abandon => entry::abandon_from(&content).map(|(pack, end)| vec![Says::GivenUp(pack, end)]),
            Kind::Cut => entry::abandon_from(&content).map(|(pack, end)| vec![Says::Cut(pack, end)]),
            Kind::Range => said_of_packs(&content),
            _ => entry::retire_from(&content).map(|pack| vec![Says::Retired(pack)]),
        });
        says.unwrap_or_else(|| vec![Says::Damaged(kind)])
    }

    /// Whether the disk can read everything from `from` on.
    fn is_readable(&self, from: u64) -> bool {
        let (mut at, mut bytes) = (from, vec![0; self.window_len(from)]);
        while at < self.size {
            match self.file.read_at(&mut bytes, at) {
                Ok(0) => return true,
                Ok(read) => at += read as u64,
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether a record's content is intact, too.
    fn is_whole(&self, found: &Found) -> bool {
        Scan::new(self.file, self.form, 0, self.size).whole(found).is_ok()
    }

    fn record(&self, head: &[u8], offset: u64) -> Option<Found> {
        let header = Header::from_bytes(head, self.form, offset)?;
        let found = Found { offset, header };
        (found.end() <= self.size).then_some(found)
    }

    /// How much is read at a time from `from` on.
    fn window_len(&self, from: u64) -> usize {
        usize::try_from(self.size.saturating_sub(from)).unwrap_or(WINDOW).min(WINDOW)
    }

    /// Bytes from `from` on and where to go on; none where the disk cannot read.
    fn window(&self, from: u64) -> (Vec<u8>, u64) {
        let mut bytes = vec![0; self.window_len(from)];
        let read = self.file.read_at(&mut bytes, from).unwrap_or_else(|_| self.readable(from, &mut bytes));
        bytes.truncate(read);
        if read == 0 {
            return (bytes, (from + 1).next_multiple_of(SECTOR));
        }
        // Heads that begin in the last bytes are looked at with the next window.
        let heads = (read.saturating_sub(RECORD_HEADER) & !7) as u64;
        (bytes, from + (heads + 8))
    }

    /// Reads what lies before the first sector that the disk cannot read.
    fn readable(&self, from: u64, bytes: &mut [u8]) -> usize {
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            let at = from + read as u64;
            let len = ((SECTOR - at % SECTOR) as usize).min(rest.len());
            match self.file.read_at(rest.get_mut(..len).unwrap_or_default(), at) {
                Ok(n) if n > 0 => read += n,
                _ => break,
            }
        }
        read
    }

    /// Whether nothing was ever written. A byte that cannot be read is not zero. A pack in use is
    /// known by its first bytes.
    fn is_zero(&self) -> bool {
        let mut first = [0; SECTOR as usize];
        let read = self.file.read_at(&mut first, 0).unwrap_or(0);
        used(first.get(..read).unwrap_or_default()) == 0 && self.last_byte(0).is_none()
    }

    /// Where the last byte from `from` on that is not zero ends; none if all are. A byte that
    /// cannot be read is not zero.
    fn last_byte(&self, from: u64) -> Option<u64> {
        let (mut at, mut last) = (from, None);
        let mut bytes = vec![0; self.window_len(from)];
        while at < self.size {
            let buffer = bytes.get_mut(..self.window_len(at)).unwrap_or_default();
            match self.file.read_at(buffer, at) {
                Ok(0) => break,
                Ok(read) => {
                    let used = used(buffer.get(..read).unwrap_or_default());
                    last = if used > 0 { Some(at + used as u64) } else { last };
                    at += read as u64;
                }
                Err(_) => {
                    at = (at + 1).next_multiple_of(SECTOR).min(self.size);
                    last = Some(at);
                }
            }
        }
        last
    }
}

/// What a checkpoint of the table of packs says.
fn said_of_packs(content: &[u8]) -> Option<Vec<Says>> {
    let Rows::Packs(packs) = range::from_content(content)?.rows else { return None };
    let retired = packs.retired.iter().map(Says::Retired);
    Some(retired.chain(packs.sealed.iter().map(|(pack, end)| Says::GivenUp(*pack, *end))).collect())
}

/// Bytes up to the last that is not zero. Packs are made long in advance, so that most of the last
/// one is zeroes: they are compared by the page.
fn used(bytes: &[u8]) -> usize {
    const ZEROES: [u8; 4096] = [0; 4096];
    let mut rest = bytes;
    while let Some((before, page)) =
        rest.len().checked_sub(ZEROES.len()).and_then(|n| rest.split_at_checked(n))
        && page == ZEROES
    {
        rest = before;
    }
    rest.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::Batch;
    use posthaste_mail_model::BodyId;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

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
            survey(&crate::log::disk::RealDisk, dir, STORE, &Before::default(), &catalog, &mut |_| {})
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
    fn what_lies_behind_zeroes_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (file, offsets) = pack(dir.path());
        file.write_all_at(&[0; 12_000], offsets[4]).unwrap();
        let (found, damage, _) = surveyed(dir.path());
        assert_eq!(found, [&offsets[..4], &offsets[7..]].concat());
        assert_eq!(damage.len(), 1);
    }
}
