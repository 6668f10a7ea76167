//! Rounds of maintenance that a crash left incomplete, in a pack whose end no index knows.
//!
//! A round copies records of one pack to the end of another, under the sequence numbers that they
//! have. Its last record may retire or cut the first pack. A round is one batch: if a part is
//! missing, nothing of it was committed, and the records are still at their old locations. A round
//! that was committed and damaged later may also be cut off, if the records are still there.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use posthaste_store::Result;

use super::catalog::Catalog;
use super::controls::{Ends, Statement};
use super::pack::Pack;
use super::statements::statements_of;
use crate::log::PackOffset;
use crate::log::record::{Header, Kind, PackFormat, RECORD_HEADER};
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
        let statements = closing.map(|closing| statements_of(search, &closing)).unwrap_or_default();
        let first = records.first()?.offset;
        let is_last = search.is_readable(first) && !search.has_later_batch(first);
        is_last.then_some(TornRound { pack, from: first, records, statements })
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
    /// The statements of the last record.
    statements: Vec<Statement>,
}

impl TornRound {
    /// Whether nothing is lost if the pack ends before the torn record: each record from there on
    /// is whole in another place that counts, and the pack from which they were copied exists.
    /// `ends`: where anything may end each pack.
    pub(super) fn is_redundant(
        &self,
        packs: &BTreeMap<u32, Pack>,
        whole: &mut WholeRecords,
        ends: &Ends,
    ) -> bool {
        let is_there = |statement: &Statement| match statement {
            Statement::Retired(retired) => retired.iter().all(|pack| packs.contains_key(&pack)),
            Statement::Cut(at) => packs.contains_key(&at.pack),
            Statement::Abandoned(_) => false,
            Statement::Damaged(_) => true,
        };
        let numbers: HashSet<u64> = self.records.iter().map(|copy| copy.header.seq).collect();
        if !self.statements.iter().all(is_there) || numbers.len() < self.records.len() {
            return false;
        }
        let torn = PackOffset { pack: self.pack, offset: self.from };
        self.records.iter().all(|copy| whole.has(&copy.header, torn, ends))
    }
}

/// The places of the whole records that torn rounds copied, by their heads. Of the places in one
/// pack it has the first: if that does not count, none does. Each pack of a forged backup may have
/// a torn round, and all its records one number.
pub(super) struct WholeRecords(HashMap<[u8; RECORD_HEADER], Vec<PackOffset>>);

/// A head as all copies of its record have it.
fn head_of_all(header: &Header) -> [u8; RECORD_HEADER] {
    Header { steps: 0, ..*header }.to_bytes(PackFormat::Unbound, 0)
}

impl WholeRecords {
    /// Reads the catalog once for all rounds.
    pub(super) fn of(rounds: &[TornRound], packs: &BTreeMap<u32, Pack>, catalog: &Catalog) -> Result<Self> {
        let heads = || rounds.iter().flat_map(|round| &round.records).map(|copy| copy.header);
        let mut found: HashMap<_, Vec<PackOffset>> =
            heads().map(|header| (head_of_all(&header), Vec::new())).collect();
        let numbers = || heads().map(|header| header.seq);
        let (Some(lowest), Some(highest)) = (numbers().min(), numbers().max()) else {
            return Ok(Self(found));
        };
        let txn = catalog.read()?;
        for entry in catalog.bodies(&txn)?.chain(catalog.log(&txn, lowest)?) {
            let entry = entry?;
            if entry.found.header.kind != Kind::Body && entry.seq() > highest {
                break;
            }
            let Some(places) = found.get_mut(&head_of_all(&entry.found.header)) else { continue };
            if places.last().is_none_or(|place| place.pack != entry.pack)
                && packs.get(&entry.pack).is_some_and(|pack| pack.content(&entry.found).is_ok())
            {
                places.push(PackOffset { pack: entry.pack, offset: entry.found.offset });
            }
        }
        Ok(Self(found))
    }

    /// Whether a record is whole in a place that counts, and that is not in the torn round, which
    /// begins at `torn`.
    fn has(&mut self, header: &Header, torn: PackOffset, ends: &Ends) -> bool {
        let Some(places) = self.0.get_mut(&head_of_all(header)) else { return false };
        let mut at = 0;
        while let Some(&PackOffset { pack, offset }) = places.get(at) {
            if ends.get(&pack).is_some_and(|end| offset >= *end) {
                // It does not count for later rounds either: ends only fall.
                places.swap_remove(at);
            } else if pack != torn.pack || offset < torn.offset {
                return true;
            } else {
                at += 1;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use posthaste_mail_model::{BodyId, Id};

    use super::*;
    use crate::log::record::Batch;
    use crate::log::scan::{Scan, pack_format};
    use crate::rebuild::catalog::Entry;

    const STORE: Id = Id::from_bytes([7; 16]);
    const BODY: BodyId = BodyId(Id::new(1, 1));

    /// Adds a pack to the catalog. It has three copies of a body, and many others of its number.
    fn add_pack(dir: &std::path::Path, number: u32, catalog: &Catalog) -> (Pack, Vec<LocatedRecord>) {
        let mut batch = Batch::new(STORE, number, 0);
        batch.pack_header(STORE);
        for n in 0..60_u128 {
            let body = if n % 20 == 9 { BODY } else { BodyId(Id::new(2, n)) };
            batch.body(5, body, &Bytes::from_static(b"the same"));
        }
        let bytes: Vec<u8> = batch.pieces().flatten().copied().collect();
        let path = dir.join(number.to_string());
        std::fs::write(&path, &bytes).unwrap();
        let file = Arc::new(std::fs::File::open(&path).unwrap());
        let format = pack_format(&*file, number, STORE).unwrap().unwrap();
        let mut scan = Scan::new(&*file, format, 0, bytes.len() as u64);
        let mut copies = Vec::new();
        let mut txn = catalog.write().unwrap();
        while let Some(found) = scan.advance().unwrap() {
            catalog.add(&mut txn, &Entry { pack: number, found }).unwrap();
            copies.extend((found.header.id == BODY.0).then_some(found));
        }
        txn.commit().unwrap();
        (Pack { file, format, end: bytes.len() as u64, abandoned: None }, copies)
    }

    /// Each round looked at all records of its numbers, and kept them in memory.
    #[test]
    fn a_record_of_a_torn_round_has_one_place_in_each_pack() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = Catalog::make(&dir.path().join("catalog"), 1 << 24).unwrap();
        let (first, copies) = add_pack(dir.path(), 1, &catalog);
        let (second, others) = add_pack(dir.path(), 2, &catalog);
        let packs = BTreeMap::from([(1, first), (2, second)]);
        let round = |pack, copy: LocatedRecord| TornRound {
            pack,
            from: copy.offset,
            records: vec![copy],
            statements: Vec::new(),
        };
        let rounds = [round(1, copies[0]), round(2, others[2])];
        let whole = || WholeRecords::of(&rounds, &packs, &catalog).unwrap();
        let place = |pack, found: LocatedRecord| PackOffset { pack, offset: found.offset };
        let places: Vec<PackOffset> = whole().0.into_values().flatten().collect();
        assert_eq!(places, [place(1, copies[0]), place(2, others[0])]);

        let is_redundant = |round: usize, ends: &[(u32, u64)]| {
            let ends: Ends = ends.iter().copied().collect();
            rounds[round].is_redundant(&packs, &mut whole(), &ends)
        };
        assert!(is_redundant(0, &[]), "pack 2 has it");
        assert!(!is_redundant(0, &[(2, others[0].offset)]), "pack 1 has it in the round alone");
        assert!(is_redundant(0, &[(2, others[0].offset + 1)]));
        assert!(is_redundant(1, &[(1, 64)]), "the same pack has it before the round");
        assert!(!is_redundant(1, &[(1, 64), (2, 64)]));
    }
}
