//! The last steps of a rebuild: summaries, reference counts, the state of the packs.

use std::collections::{BTreeMap, HashMap};

use posthaste_mail_model::{BodyId, MailboxId};
use posthaste_store::Result;
use posthaste_store::form::{FormHeader, restores};

use super::catalog::Catalog;
use super::salvage::OldIndex;
use super::survey::Survey;
use crate::index::bodies::BodyLocation;
use crate::index::checksum::seed;
use crate::index::packs::PackState;
use crate::index::summaries::record::{Arrival, Origin, put_summary, summary_from};
use crate::index::{Index, Indexed, Writing, damaged, summaries};
use crate::log::reader::PackReader;
use crate::log::record::{PACK_HEADER, body_record_len};
use crate::shared::{Summarize, summary_of};

/// Bodies, or summaries, of one index transaction.
const STEP: usize = 5_000;
/// Octets of summaries of one index transaction: LMDB keeps what it writes in memory. The last
/// summary may exceed it by 10 MiB. With usual summaries, [`STEP`] of them take 2 MiB.
const STEP_OCTETS: usize = 16 << 20;
/// Messages whose bodies are read in the order of the packs: some 30 MB of memory. A pack has the
/// mail of all mailboxes mixed, so the order of the index would read the packs at random.
const IN_ORDER: usize = 250_000;

/// Puts all bodies that count into the index, without references. The last of several copies is
/// used, and another one if it cannot be read: the catalog has their locations. An earlier copy
/// is used if it has a rich original that the last one lacks.
pub(crate) fn place_bodies(
    index: &Index,
    reader: &PackReader,
    catalog: &Catalog,
    survey: &Survey,
) -> Result<()> {
    let read = catalog.read()?;
    let (mut txn, mut copies) = (index.write()?, catalog.write()?);
    let mut placed = 0;
    for entry in catalog.bodies(&read)? {
        let entry = entry?;
        if survey.packs.get(&entry.pack).is_some_and(|pack| !pack.counts(entry.found.offset)) {
            continue;
        }
        let (body, len) = (BodyId(entry.found.header.id), entry.found.header.len);
        let mut location = BodyLocation { pack: entry.pack, offset: entry.found.offset, len, refs: 0 };
        if let Some(mut other) = index.body(&txn, body)? {
            if other.len != location.len && restores_at(reader, body, (location, other)) {
                std::mem::swap(&mut location, &mut other);
            }
            catalog.add_copy(&mut copies, body, other)?;
        }
        index.put_body(&mut txn, body, location)?;
        placed += 1;
        if placed % STEP == 0 {
            txn.commit()?;
            copies.commit().indexed()?;
            (txn, copies) = (index.write()?, catalog.write()?);
        }
    }
    copies.commit().indexed()?;
    txn.commit()
}

/// Whether the copy of a body at one location lacks the rich original that another copy has.
fn restores_at(reader: &PackReader, body: BodyId, (location, other): (BodyLocation, BodyLocation)) -> bool {
    let begin = |location| reader.read(body, location, 0..FormHeader::LEN as u64);
    matches!((begin(location), begin(other)), (Ok(stored), Ok(bytes)) if restores(&stored, &bytes))
}

/// Makes the summaries and counts the references.
pub(crate) struct SummaryMaker<'a> {
    pub(crate) index: &'a Index,
    pub(crate) reader: &'a PackReader,
    pub(crate) summarize: Summarize,
    pub(crate) catalog: &'a Catalog,
    pub(crate) old: Option<&'a OldIndex>,
    pub(crate) faults: &'a mut Vec<String>,
    /// The body that was read last. Neighbours in the order of the packs may have the same one: all
    /// messages of a forged store may have one large body, or one whose many copies are damaged.
    pub(crate) last: Option<(BodyId, ReadSummary)>,
}

/// The summary of a body, or why it cannot be read.
type ReadSummary = std::result::Result<Vec<u8>, String>;

/// A message without a summary.
struct WithoutSummary {
    mailbox: MailboxId,
    uid: u32,
    arrival: Arrival,
}

impl SummaryMaker<'_> {
    pub(crate) fn make_all(&mut self, progress: &mut dyn FnMut(f64)) -> Result<()> {
        let total = summaries::count(self.index, &*self.index.read()?)?.max(1);
        let (mut after, mut done): (Option<Origin>, usize) = (None, 0);
        loop {
            let bare = self.next_bare(after)?;
            let Some(last) = bare.last() else { return Ok(()) };
            after = Some((last.mailbox, last.uid));
            for step in self.in_pack_order(bare)?.chunks(STEP) {
                self.make(step)?;
                done += step.len();
                progress(done as f64 / total as f64);
            }
        }
    }

    fn make(&mut self, messages: &[WithoutSummary]) -> Result<()> {
        let mut txn = self.index.write()?;
        let (mut value, mut octets) = (Vec::new(), 0);
        for message in messages {
            if octets >= STEP_OCTETS {
                txn.commit()?;
                (txn, octets) = (self.index.write()?, 0);
            }
            let WithoutSummary { mailbox, uid, arrival } = *message;
            let summary = self.summary(&mut txn, message)?;
            put_summary(&mut value, seed(mailbox.0), uid, arrival, &summary);
            summaries::put(self.index, &mut txn, mailbox, uid, &value)?;
            octets += value.len();
        }
        txn.commit()
    }

    /// The messages in the order of their bodies in the packs.
    fn in_pack_order(&self, messages: Vec<WithoutSummary>) -> Result<Vec<WithoutSummary>> {
        let txn = self.index.read()?;
        let mut placed = Vec::with_capacity(messages.len());
        for message in messages {
            let location =
                self.index.body(&txn, message.arrival.body)?.map(|location| (location.pack, location.offset));
            placed.push((location, message));
        }
        placed.sort_by_key(|(location, _)| *location);
        Ok(placed.into_iter().map(|(_, message)| message).collect())
    }

    fn next_bare(&self, after: Option<Origin>) -> Result<Vec<WithoutSummary>> {
        let txn = &*self.index.read()?;
        let mut bare = Vec::new();
        for item in summaries::records_after(self.index, txn, after)?.take(IN_ORDER) {
            let ((mailbox, uid), value) = item?;
            let found = summary_from(seed(mailbox.0), uid, value).ok_or_else(damaged("a new summary"))?;
            bare.push(WithoutSummary { mailbox, uid, arrival: found.arrival() });
        }
        Ok(bare)
    }

    /// The summary of a message, made from its body. If the body cannot be read, the summary in
    /// the old index. Otherwise an empty one, and each read of the message tries to rebuild it.
    fn summary(&mut self, txn: &mut Writing, message: &WithoutSummary) -> Result<Vec<u8>> {
        let WithoutSummary { mailbox, uid, arrival: Arrival { body, .. } } = *message;
        let why = match self.index.body(txn, body)? {
            None => "its body is in no pack".to_owned(),
            Some(location) => {
                let (location, read) = self.read_once(body, location)?;
                self.index.put_body(txn, body, BodyLocation { refs: location.refs + 1, ..location })?;
                match read {
                    Ok(summary) => return Ok(summary),
                    Err(why) => why,
                }
            }
        };
        let old = self.old.and_then(|old| old.summary(mailbox, uid, body));
        let kept = if old.is_some() { "; its headers are taken from the old index" } else { "" };
        self.faults.push(format!("mailbox {mailbox}, UID {uid}, body {body}: {why}{kept}"));
        Ok(old.unwrap_or_default())
    }

    /// The summary of a body, and where the body is read. It is not read again for a message with
    /// the body of the message before.
    fn read_once(&mut self, body: BodyId, location: BodyLocation) -> Result<(BodyLocation, ReadSummary)> {
        if let Some((_, read)) = self.last.as_ref().filter(|(last, _)| *last == body) {
            return Ok((location, read.clone()));
        }
        let (location, read) = self.read_any(body, location)?;
        self.last = Some((body, read.clone()));
        Ok((location, read))
    }

    /// The summary of a body from the first of its copies that can be read.
    fn read_any(&self, body: BodyId, location: BodyLocation) -> Result<(BodyLocation, ReadSummary)> {
        let read = |copy: BodyLocation| self.reader.read(body, copy, 0..copy.len);
        let first = match read(location) {
            Ok(bytes) => return Ok((location, Ok(summary_of(self.summarize, &bytes)))),
            Err(fault) => fault.to_string(),
        };
        let others = self.catalog.copies(body, location)?;
        Ok(match others.into_iter().find_map(|copy| Some((copy, read(copy).ok()?))) {
            Some((copy, bytes)) => (copy, Ok(summary_of(self.summarize, &bytes))),
            None => (location, Err(first)),
        })
    }
}

/// Removes bodies without references, and records the packs. All packs with records are sealed,
/// so that new records never follow old tails. So are those that the log abandons. A pack whose
/// tail was cut off is not sealed. The next process that writes finds the tail, seals the pack,
/// and logs it. Otherwise a rebuild without an index would find the tail's whole commits. After
/// faults, all packs are marked as damaged: maintenance then does not change them. `superseded`:
/// bytes of dead log records, by pack.
pub(crate) fn record_packs(
    index: &Index,
    catalog: &Catalog,
    survey: &Survey,
    superseded: &HashMap<u32, u64>,
    is_damaged: bool,
) -> Result<()> {
    let live = remove_unheld(index)?;
    let mut bodies: BTreeMap<u32, u64> = BTreeMap::new();
    for entry in catalog.bodies(&*catalog.read()?)? {
        let entry = entry?;
        *bodies.entry(entry.pack).or_default() += entry.found.header.record_len();
    }
    let mut txn = index.write()?;
    for (&number, pack) in &survey.packs {
        let end = pack.counted_end();
        // A pack without a record that counts: its head need not be whole.
        let end = if end > PACK_HEADER as u64 { end } else { 0 };
        let all = bodies.get(&number).copied().unwrap_or(0);
        let of = |counts: &HashMap<u32, u64>| counts.get(&number).copied().unwrap_or(0);
        let dead = (all.saturating_sub(of(&live)) + of(superseded)).min(end);
        let sealed = !survey.cut_off.contains(&number);
        let state = PackState { end, dead, emptied: 0, sealed, damaged: is_damaged };
        index.put_pack(&mut txn, number, state)?;
    }
    for &number in &survey.empty {
        let sealed = survey.abandoned.contains(&number);
        index.put_pack(&mut txn, number, PackState { sealed, ..PackState::default() })?;
    }
    txn.commit()
}

/// Removes the bodies without references. Returns the bytes of all others, by pack.
fn remove_unheld(index: &Index) -> Result<HashMap<u32, u64>> {
    let mut live: HashMap<u32, u64> = HashMap::new();
    let mut after = None;
    loop {
        let mut txn = index.write()?;
        let (mut unheld, mut seen) = (Vec::new(), 0);
        for item in index.bodies_after(&txn, after)?.take(STEP) {
            let (body, location) = item?;
            (after, seen) = (Some(body), seen + 1);
            if location.refs == 0 {
                unheld.push(body);
            } else {
                *live.entry(location.pack).or_default() += body_record_len(location.len);
            }
        }
        for body in unheld {
            index.remove_body(&mut txn, body)?;
        }
        txn.commit()?;
        if seen < STEP {
            return Ok(live);
        }
    }
}
