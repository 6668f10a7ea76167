//! Reads everything and verifies that it is consistent, while commits continue.
//!
//! It verifies that every page of the index is in order (`pages`). Every record of every pack
//! below its end is intact, and no pack is missing or unknown. Every body is at its location in
//! the index, and its reference count is right. Every mailbox's rows are in order, within its
//! head, and match its counts. Each row has its summary and a body of its size. Each mailbox is
//! in a list, and each entry of a list has its mailbox. No record is without an owner.
//!
//! A reading transaction keeps LMDB from using freed pages again, so none is held for long. The
//! check reads in slices, each in a transaction of its own. Between two pages' slices, two packs
//! or two mailboxes it may begin another; one mailbox is judged within one. Some properties hold
//! at one moment only: reference counts, and records without an owner. They are checked if all
//! mailboxes were read in one slice, or no commit came between the slices. If not, the report
//! says so. LMDB reads nothing before the pages are known to be in order: a damaged page could
//! end the process. Memory: 24 bytes a body, 28 a message of the largest mailbox, 16 a mailbox.

mod named;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;

use posthaste_mail_model::{BodyId, MailboxId, NumSet};
use posthaste_store::compressed;
use posthaste_store::{Counts, Report, Result, Row, StoreError};

use crate::index::bodies::BodyLocation;
use crate::index::checksum::seed;
use crate::index::packs::PackState;
use crate::index::summaries::record::{RecordKind, summary_from};
use crate::index::{Index, Reading, chunk, copied, damaged, expunging, heads, links, rows, summaries};
use crate::log::disk::failed;
use crate::log::reader::ReadFault;
use crate::log::record::{Kind, PackFormat};
use crate::log::scan::{LocatedRecord, Scan, pack_format};
use crate::log::{number_of, path_of};
use crate::shared::Shared;
use crate::verify::pages::{PageWalk, WalkEnd};

/// Faults listed at most, so that a destroyed store does not fill the memory with sentences.
const FAULTS_MAX: usize = 1_000;

/// The share of the whole time that reading the packs is estimated to take.
const PACKS_SHARE: f64 = 0.8;

/// The amount that is read in one transaction: 1,000,000 records of the index, or pages, a few
/// seconds. Ten times as many would let the index of a busy server grow by all that it writes in
/// a minute.
pub(crate) const SLICE: u64 = 1_000_000;

/// The known uses of a body.
#[derive(Default)]
struct BodyUse {
    /// The number of messages that hold the body, less the holders that are not counted yet.
    holders: i32,
    /// Whether its record at the location in the index is intact.
    is_met: bool,
}

struct Check<'a> {
    shared: &'a Shared,
    index: &'a Index,
    txn: Reading<'a>,
    /// Records after which another transaction is begun.
    slice: u64,
    /// Records examined when this transaction began.
    slice_began: u64,
    /// A commit came between two slices of the index.
    has_changed: bool,
    report: Report,
    more_faults: u64,
    bodies_used: HashMap<BodyId, BodyUse>,
    /// Files of packs that the index did not know when they were first seen.
    unknown_packs: Vec<u32>,
    summaries_met: u64,
    links_met: u64,
    chunks_met: u64,
}

/// See the head of this file. `slice`: records read in one transaction.
pub(crate) fn check<'s>(
    shared: &'s Shared,
    slice: u64,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<Report> {
    let index = &shared.index;
    let mut report = Report::default();
    if !pages(index, slice, &mut report)? {
        progress(1.0);
        return Ok(report);
    }
    let mut check = Check {
        shared,
        index,
        txn: index.read()?,
        slice,
        slice_began: 0,
        has_changed: false,
        report,
        more_faults: 0,
        bodies_used: HashMap::new(),
        unknown_packs: Vec::new(),
        summaries_met: 0,
        links_met: 0,
        chunks_met: 0,
    };
    let outcome = check.packs(progress);
    check.judged(outcome)?;
    let outcome = check.mailboxes(progress);
    check.judged(outcome)?;
    let rest: [fn(&mut Check<'s>) -> Result<()>; 6] = [
        Check::removed_mailboxes,
        Check::bodies,
        Check::totals,
        Check::lists,
        Check::directory,
        Check::unknown_packs,
    ];
    for part in rest {
        let outcome = part(&mut check);
        check.judged(outcome)?;
    }
    progress(1.0);
    if check.more_faults > 0 {
        check.report.faults.push(format!("{} more faults are not listed", check.more_faults));
    }
    Ok(check.report)
}

/// Judges the pages of the index; `false` if one is damaged, and LMDB must not read them.
fn pages(index: &Index, slice: u64, report: &mut Report) -> Result<bool> {
    let mut walk = PageWalk::default();
    loop {
        let txn = index.read()?;
        match index.pages.snapshot(&txn) {
            // Two commits came before the meta page was read.
            Err(StoreError::Busy) => {}
            snapshot => {
                if walk.slice(&index.pages, &snapshot?, slice)? == WalkEnd::Done {
                    break;
                }
            }
        }
    }
    report.examined += walk.examined;
    let is_good = walk.faults.is_empty();
    report.faults = walk.faults;
    if !is_good {
        let why = "the packs and the records of the index were not examined, because pages of the index are damaged";
        report.faults.push(why.into());
    }
    Ok(is_good)
}

impl Check<'_> {
    fn fault(&mut self, sentence: String) {
        if self.report.faults.len() < FAULTS_MAX {
            self.report.faults.push(sentence);
        } else {
            self.more_faults += 1;
        }
    }

    /// Damage that ended one part of the check is a fault; the other parts continue.
    fn judged(&mut self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(StoreError::Corrupt(why)) => {
                self.fault(why);
                Ok(())
            }
            other => other,
        }
    }

    /// Begins another transaction, which has the commits since the last one.
    fn renew(&mut self) -> Result<()> {
        self.txn = self.index.read()?;
        self.slice_began = self.report.examined;
        Ok(())
    }

    /// Begins another transaction if this one has read enough.
    fn renew_if_long(&mut self) -> Result<()> {
        if self.report.examined - self.slice_began < self.slice {
            return Ok(());
        }
        let before = self.txn.id();
        self.renew()?;
        self.has_changed |= self.txn.id() != before;
        Ok(())
    }

    fn packs(&mut self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<()> {
        let packs = self.index.all_packs(&self.txn)?;
        let total = packs.iter().fold(1_u64, |all, (_, state)| all.saturating_add(state.end));
        let mut done = 0_u64;
        for &(number, state) in &packs {
            self.renew()?;
            // Emptied and removed since, or written to.
            if let Some(now) = self.index.pack(&self.txn, number)? {
                let share = |at| done.saturating_add(at) as f64 / total as f64;
                self.pack(number, now, &mut |at| progress(share(at) * PACKS_SHARE))?;
            }
            done = done.saturating_add(state.end);
        }
        self.renew()?;
        self.unknown_packs = self.packs_not_in_index()?;
        Ok(())
    }

    /// Packs that have records and are not in the index. Maintenance removes retired ones.
    fn packs_not_in_index(&self) -> Result<Vec<u32>> {
        let disk = &self.shared.disk;
        let names = disk.list(&self.shared.packs).map_err(failed(self.shared.packs.display()))?;
        let txn = self.index.read()?;
        let retired = self.index.retired_packs(&txn)?;
        let mut unknown = Vec::new();
        for number in names.iter().filter_map(|name| number_of(name)) {
            let path = path_of(&self.shared.packs, number);
            let size = match disk.open(&path).and_then(|file| file.size()) {
                Ok(size) => size,
                // Removed since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(path.display())(error)),
            };
            let is_retired = retired.binary_search(&number).is_ok();
            if size > 0 && !is_retired && self.index.pack(&txn, number)?.is_none() {
                unknown.push(number);
            }
        }
        Ok(unknown)
    }

    /// Packs that are still unknown at the end. A pack that was just created is in the index by
    /// now, and a retired one is removed.
    fn unknown_packs(&mut self) -> Result<()> {
        let still = self.packs_not_in_index()?;
        for number in std::mem::take(&mut self.unknown_packs) {
            if still.contains(&number) {
                let path = path_of(Path::new("packs"), number);
                let path = path.display();
                self.fault(format!("{path} is not in the index: the index is older than the packs"));
            }
        }
        Ok(())
    }

    fn pack(&mut self, number: u32, state: PackState, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let file = match self.shared.disk.open(&path_of(&self.shared.packs, number)) {
            Ok(file) => file,
            // Emptied and removed since this transaction began.
            Err(_) if self.index.pack(&*self.index.read()?, number)?.is_none() => return Ok(()),
            Err(error) => {
                self.fault(format!("pack {number} cannot be opened: {error}"));
                return Ok(());
            }
        };
        if state.end == 0 {
            return Ok(());
        }
        let format = match pack_format(&*file, number, self.shared.store) {
            Ok(Some(format)) => format,
            Ok(None) => {
                self.fault(format!("pack {number} does not begin as this store's pack {number}"));
                PackFormat::bound(self.shared.store, number)
            }
            Err(fault) => {
                self.fault(format!("pack {number}: {}", described(&fault)));
                return Ok(());
            }
        };
        let mut scan = Scan::new(&*file, format, 0, state.end);
        let mut bodies: Option<Vec<u64>> = None;
        loop {
            let at = scan.offset();
            match scan.advance() {
                Ok(Some(found)) => self.pack_record(number, &scan, &found),
                Ok(None) => return Ok(()),
                Err(fault) => {
                    // A message may contain any marker, so no marker shows where the next record
                    // begins. The index does, for bodies.
                    let known = match &mut bodies {
                        Some(known) => known,
                        bodies => bodies.insert(self.bodies_in(number)?),
                    };
                    let next = known.get(known.partition_point(|offset| *offset <= at)).copied();
                    let until = next.unwrap_or(state.end);
                    self.fault(format!(
                        "pack {number} at byte {at}: {}; bytes {at} to {until} were not read",
                        described(&fault)
                    ));
                    match next {
                        Some(next) => scan = Scan::new(&*file, format, next, state.end),
                        None => return Ok(()),
                    }
                }
            }
            progress(at);
        }
    }

    fn pack_record(&mut self, number: u32, scan: &Scan<'_>, found: &LocatedRecord) {
        self.report.examined += 1;
        let at = found.offset;
        let is_body = found.header.kind == Kind::Body;
        let fault = match scan.content(found) {
            Err(fault) => Some(described(&fault)),
            Ok(content) if is_body => compressed::verify(&content).err().map(str::to_owned),
            Ok(_) => None,
        };
        if let Some(fault) = fault {
            let what = format!("{:?} record {}", found.header.kind, found.header.id);
            self.fault(format!("pack {number} at byte {at}: {what}: {fault}"));
        }
        if is_body {
            let body = BodyId(found.header.id);
            let location = self.index.body(&self.txn, body).ok().flatten();
            if location.is_some_and(|p| (p.pack, p.offset, p.len) == (number, at, found.header.len)) {
                self.bodies_used.entry(body).or_default().is_met = true;
            }
        }
    }

    /// The offsets of a pack's bodies in the index, ascending.
    fn bodies_in(&self, number: u32) -> Result<Vec<u64>> {
        let known = self.index.all_bodies(&self.txn)?.flatten();
        let mut offsets: Vec<u64> = known
            .filter(|(_, location)| location.pack == number)
            .map(|(_, location)| location.offset)
            .collect();
        offsets.sort_unstable();
        Ok(offsets)
    }

    fn mailboxes(&mut self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<()> {
        self.uncounted_copies()?;
        let mut ids = Vec::new();
        for mailbox in heads::mailboxes(self.index, &self.txn)? {
            ids.push(mailbox?.ok_or_else(damaged("key of a head"))?);
        }
        for (done, id) in ids.iter().enumerate() {
            self.renew_if_long()?;
            if let Err(error) = self.mailbox(*id) {
                self.fault(error.to_string());
            }
            progress(PACKS_SHARE + (1.0 - PACKS_SHARE) * done as f64 / ids.len() as f64);
        }
        Ok(())
    }

    /// Copies whose bodies maintenance has not counted yet.
    fn uncounted_copies(&mut self) -> Result<()> {
        for note in copied::all(self.index, &self.txn)? {
            let (mailbox, set) = note?;
            for &range in set.ranges() {
                for item in summaries::records(self.index, &self.txn, mailbox, range)? {
                    let (uid, value) = item?;
                    if let Some(found) = summary_from(seed(mailbox.0), uid, value) {
                        self.bodies_used.entry(found.body).or_default().holders -= 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn mailbox(&mut self, mailbox: MailboxId) -> Result<()> {
        let Some(stored) = self.index.head(&self.txn, mailbox)? else { return Ok(()) };
        let rows = self.rows(mailbox)?;
        let head = &stored.head;
        let mut counts = Counts::default();
        for row in &rows {
            counts.add(row);
            if row.uid() >= head.uid_next || row.modseq() > head.modseq {
                self.fault(format!("mailbox {mailbox}: UID {} is beyond the head", row.uid()));
            }
        }
        if counts != head.counts {
            self.fault(format!("mailbox {mailbox}: the head counts {:?}, the rows {counts:?}", head.counts));
        }
        let leftovers = expunging::leftovers(self.index, &self.txn, mailbox)?;
        self.summaries(mailbox, &rows, &leftovers)
    }

    fn rows(&mut self, mailbox: MailboxId) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        for found in rows::chunks(self.index, &self.txn, mailbox)? {
            let found = found?;
            let (low, before, last) = (found.low, rows.len(), rows.last().map_or(0, chunk::number));
            found.add_rows(&mut rows)?;
            let new = &rows[before..];
            let ascend = new.windows(2).all(|w| w[0].uid() < w[1].uid());
            if !ascend || last >= low || new.first().is_none_or(|r| chunk::number(r) < low) {
                return Err(
                    damaged(format_args!("mailbox {mailbox}: rows from UID {low} are out of order"))(),
                );
            }
            self.chunks_met += 1;
            self.report.examined += 1;
        }
        Ok(rows)
    }

    /// Each row has its summary, each summary a row, or a note that it must be removed.
    fn summaries(&mut self, mailbox: MailboxId, rows: &[Row], leftovers: &NumSet) -> Result<()> {
        let index = self.index;
        let seed = seed(mailbox.0);
        let mut rest = rows.iter().peekable();
        let (mut faults, mut bare) = (Vec::new(), Vec::new());
        // The rows of a removed mailbox are removed last.
        let mut lacking = |row: &Row| {
            if !leftovers.contains(chunk::number(row)) {
                bare.push(format!("mailbox {mailbox}: UID {} has no summary", row.uid()));
            }
        };
        for item in summaries::records(index, &self.txn, mailbox, (0, u32::MAX))? {
            let (uid, value) = item?;
            self.report.examined += 1;
            self.summaries_met += 1;
            while let Some(row) = rest.next_if(|r| chunk::number(r) < uid) {
                lacking(row);
            }
            let row = rest.next_if(|r| chunk::number(r) == uid);
            let Some(found) = summary_from(seed, uid, value) else {
                faults.push(format!("mailbox {mailbox}: the summary of UID {uid} is damaged"));
                continue;
            };
            self.bodies_used.entry(found.body).or_default().holders += 1;
            if let RecordKind::Link(origin) = found.kind {
                self.links_met += 1;
                if !links::has_origin(index, &self.txn, origin, found.body)? {
                    let (from, at) = origin;
                    faults.push(format!(
                        "mailbox {mailbox}: UID {uid} has its summary at UID {at} of mailbox {from}, where it is missing"
                    ));
                }
            }
            match row {
                Some(row) => match index.body(&self.txn, found.body) {
                    Ok(Some(location)) if location.len == u64::from(row.stored_size()) => {}
                    Ok(Some(location)) if self.shared.is_body_of(found.body, location, row) => {}
                    Ok(Some(location)) => faults.push(format!(
                        "mailbox {mailbox}: UID {uid} says {} octets, its body has {}",
                        row.size(),
                        location.len
                    )),
                    Ok(None) => {
                        faults.push(format!("mailbox {mailbox}: UID {uid} has no body {}", found.body))
                    }
                    Err(error) => faults.push(error.to_string()),
                },
                None if leftovers.contains(uid) => {}
                None => {
                    faults.push(format!("mailbox {mailbox}: there is a summary of UID {uid}, but no row"))
                }
            }
        }
        rest.for_each(lacking);
        faults.into_iter().chain(bare).for_each(|f| self.fault(f));
        Ok(())
    }

    /// The records that removed mailboxes still have.
    fn removed_mailboxes(&mut self) -> Result<()> {
        for mailbox in expunging::removed_mailboxes(self.index, &self.txn)? {
            match self.rows(mailbox) {
                Ok(rows) => self.summaries(mailbox, &rows, &NumSet::range(0, u32::MAX))?,
                Err(error) => self.fault(error.to_string()),
            }
        }
        Ok(())
    }

    fn bodies(&mut self) -> Result<()> {
        let (mut faults, mut not_met) = (Vec::new(), Vec::new());
        for item in self.index.all_bodies(&self.txn)? {
            self.report.examined += 1;
            let (body, location) = match item {
                Ok(found) => found,
                Err(error) => {
                    faults.push(error.to_string());
                    continue;
                }
            };
            let held = self.bodies_used.remove(&body).unwrap_or_default();
            if !held.is_met {
                not_met.push((body, location));
            }
            if !self.has_changed && i64::from(held.holders) != i64::from(location.refs) {
                faults.push(format!("body {body} counts {} holders and has {}", location.refs, held.holders));
            }
        }
        faults.into_iter().for_each(|f| self.fault(f));
        // A remaining body has a reference, or was read from a pack and has lost its last
        // reference since.
        let missing = self.bodies_used.drain().filter(|(_, held)| held.holders != 0).map(|(body, _)| body);
        let missing: Vec<BodyId> = missing.collect();
        if !self.has_changed {
            for body in missing {
                self.fault(format!("body {body} is held by a message and not in the index"));
            }
        }
        self.bodies_not_met(&not_met);
        Ok(())
    }

    /// Reads the bodies that the walk through the packs did not read: they were added or moved
    /// since, or their location is wrong.
    fn bodies_not_met(&mut self, bodies: &[(BodyId, BodyLocation)]) {
        for (body, location) in bodies {
            match self.shared.reader.read(*body, *location, 0..u64::MAX) {
                Ok(_) | Err(ReadFault::Missing) => {}
                Err(fault) => {
                    self.fault(format!("body {body} in pack {}: {}", location.pack, described(&fault)))
                }
            }
        }
    }

    /// Reports records that belong to no mailbox.
    fn totals(&mut self) -> Result<()> {
        if self.has_changed {
            let why = "the store changed between the slices of the check. References of bodies and their holders were \
                not compared, and records that belong to no mailbox were not looked for";
            self.report.left_out.push(why.into());
            return Ok(());
        }
        let summaries = summaries::count(self.index, &self.txn)?;
        let chunks = rows::count(self.index, &self.txn)?;
        for (what, there, met) in
            [("summaries", summaries, self.summaries_met), ("row chunks", chunks, self.chunks_met)]
        {
            if there != met {
                self.fault(format!("{} {what} belong to no mailbox", there.abs_diff(met)));
            }
        }
        let mut faults = Vec::new();
        let noted = links::noted(self.index, &self.txn, &mut faults)?;
        faults.into_iter().for_each(|f| self.fault(f));
        if noted != self.links_met {
            let lost = noted.abs_diff(self.links_met);
            self.fault(format!("{lost} links do not match the links noted at their origins"));
        }
        Ok(())
    }
}

fn described(fault: &ReadFault) -> String {
    match fault {
        ReadFault::Missing => "the file is missing".into(),
        ReadFault::Io(error) => error.to_string(),
        ReadFault::Damaged(why) => (*why).into(),
    }
}
