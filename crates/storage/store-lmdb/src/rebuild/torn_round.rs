//! Rounds of maintenance that a crash left incomplete, in a pack whose end no index knows.
//!
//! A round copies records of one pack to the end of another, under the sequence numbers that they
//! have. Its last record may retire or cut the first pack. A round is one batch: if a part is
//! missing, nothing of it was committed, and the records are still at their old locations. A round
//! that was committed and damaged later may also be cut off, if the records are still there.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use posthaste_store::Result;

use super::catalog::{Catalog, Entry};
use super::controls::{Ends, Statement};
use super::pack::Pack;
use super::statements::statement_of;
use crate::log::PackOffset;
use crate::log::record::Kind;
use crate::log::scan::LocatedRecord;
use crate::log::search::Search;
use crate::maintenance::COPY_MAX;

/// The last round of maintenance that may have written to a pack.
pub(super) struct LastRound {
    /// The last records of the pack: bodies, and others with numbers below a commit before them.
    /// The last of them may retire or cut a pack.
    records: VecDeque<LocatedRecord>,
    /// The bytes of these records.
    len: u64,
    /// The highest sequence number of the records before them, bodies excepted.
    seq: u64,
}

impl LastRound {
    /// For a pack. `seq` is the highest sequence number in the packs before it.
    pub(super) fn after(seq: u64) -> Self {
        Self { records: VecDeque::new(), len: 0, seq }
    }

    pub(super) fn add(&mut self, found: LocatedRecord) {
        // The end of a batch.
        if self.records.back().is_some_and(is_closing) {
            self.clear();
        }
        if found.header.kind != Kind::Body && found.header.seq > self.seq {
            self.seq = found.header.seq;
            if !is_closing(&found) {
                return self.clear();
            }
        }
        let last = found.header.record_len();
        // A round ends with the record with which it reaches its limit.
        while self.len >= COPY_MAX
            && let Some(first) = self.records.pop_front()
        {
            self.len -= first.header.record_len();
        }
        self.records.push_back(found);
        self.len += last;
    }

    fn clear(&mut self) {
        self.records.clear();
        self.len = 0;
    }

    /// The part of the round after a torn record.
    pub(super) fn torn(self, pack: u32, search: &Search<'_>) -> Option<TornRound> {
        let at = self.records.iter().position(|found| !search.is_whole(found))?;
        let mut records = Vec::from(self.records).split_off(at);
        let closing = records.pop_if(|last| is_closing(last));
        let statement = closing.and_then(|closing| statement_of(search, &closing));
        let first = records.first()?.offset;
        let is_last = search.is_readable(first) && !search.has_later_batch(first);
        is_last.then_some(TornRound { pack, from: first, records, statement })
    }
}

fn is_closing(found: &LocatedRecord) -> bool {
    matches!(found.header.kind, Kind::Retire | Kind::Cut)
}

/// A round that was written in part.
pub(super) struct TornRound {
    pub(super) pack: u32,
    /// The offset of its first torn record.
    pub(super) from: u64,
    /// The records from there on except the last one.
    records: Vec<LocatedRecord>,
    /// The statement of the last record.
    statement: Option<Statement>,
}

impl TornRound {
    /// Whether nothing is lost if the pack ends before the torn record: each record from there on
    /// is whole in another place that counts, and the pack from which they were copied exists.
    /// `ends`: where anything may end each pack.
    pub(super) fn is_redundant(
        &self,
        packs: &BTreeMap<u32, Pack>,
        whole: &WholeRecords,
        ends: &Ends,
    ) -> bool {
        let is_there = match &self.statement {
            Some(Statement::Retired(pack) | Statement::Cut(PackOffset { pack, .. })) => {
                packs.contains_key(pack)
            }
            Some(Statement::Abandoned(_) | Statement::Checkpoint(_)) => false,
            Some(Statement::Damaged(_)) | None => true,
        };
        let numbers: HashSet<u64> = self.records.iter().map(|copy| copy.header.seq).collect();
        if !is_there || numbers.len() < self.records.len() {
            return false;
        }
        let is_original = |entry: &Entry, copy: &LocatedRecord| {
            let (pack, offset) = (entry.pack, entry.found.offset);
            copy.header.is_copy_of(&entry.found.header)
                && (pack != self.pack || offset < self.from)
                && ends.get(&pack).is_none_or(|end| offset < *end)
        };
        self.records.iter().all(|copy| {
            let places = whole.0.get(&copy.header.seq);
            places.is_some_and(|places| places.iter().any(|entry| is_original(entry, copy)))
        })
    }
}

/// The whole records of the catalog that have the numbers of records of torn rounds, by number.
pub(super) struct WholeRecords(HashMap<u64, Vec<Entry>>);

impl WholeRecords {
    /// Reads the catalog once for all rounds: each pack of a forged backup may have one.
    pub(super) fn of(rounds: &[TornRound], packs: &BTreeMap<u32, Pack>, catalog: &Catalog) -> Result<Self> {
        let numbers = rounds.iter().flat_map(|round| &round.records).map(|copy| copy.header.seq);
        let mut found: HashMap<u64, Vec<Entry>> = numbers.map(|number| (number, Vec::new())).collect();
        let (Some(lowest), Some(highest)) = (found.keys().min().copied(), found.keys().max().copied()) else {
            return Ok(Self(found));
        };
        let txn = catalog.read()?;
        for entry in catalog.bodies(&txn)?.chain(catalog.log(&txn, lowest)?) {
            let entry = entry?;
            if entry.found.header.kind != Kind::Body && entry.seq() > highest {
                break;
            }
            if let Some(places) = found.get_mut(&entry.seq())
                && packs.get(&entry.pack).is_some_and(|pack| pack.content(&entry.found).is_ok())
            {
                places.push(entry);
            }
        }
        Ok(Self(found))
    }
}
