//! How much of the log is about mailbox lists, the directory and packs, and the positions of the
//! passes over these tables.
//!
//! A *pass* writes checkpoints of ranges that together have every row of the tables. The last two
//! complete passes are kept. Where a range of the last one is damaged, the one before has it, and
//! the log has every change since. Records before both are superseded.
//!
//! | key | value |
//! | --- | --- |
//! | `03` | sum (4), [`Passes`] |
//! | `04` | sum (4), set of the packs that were ever retired |

use heed::RoTxn;
use posthaste_mail_model::NumSet;
use posthaste_store::Result;
use posthaste_store::octets::{Octets, put_counted, put_set, put_varint};

use super::{Index, Indexed, Writing, damaged};
use crate::index::logged::ByPack;
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};
use crate::log::PackBytes;
use crate::log::range::{KeyPosition, Table};
use crate::log::record::Kind;

pub(crate) const PASSES_KEY: [u8; 1] = [3];
const RETIRED_KEY: [u8; 1] = [4];

/// Bytes of changes for each byte of a pass, from which on another pass is due. As two passes are
/// kept, the log of these tables is then at most some eight times their size.
const MULTIPLE: u64 = 2;
/// A pass is due at this multiple of the bytes from which a mailbox gets a checkpoint: from 1
/// MiB.
const LEAST: u64 = 64;

/// The sizes of the tables' records in the log, and the passes over them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Passes {
    /// The next sequence number when the last pass began; 0: there was none.
    pub(crate) begun: u64,
    /// The next sequence number when the pass before it began.
    pub(crate) before: u64,
    /// Records before this sequence number are superseded.
    pub(crate) superseded: u64,
    /// The position at which the last pass continues; `None` if it is complete.
    pub(crate) next: Option<KeyPosition>,
    /// Bytes of the last pass's records.
    pub(crate) size: u64,
    /// Bytes of changes of lists and of the directory since it began.
    pub(crate) changes: u64,
    /// Bytes of records: since the last pass began, since the one before, and earlier.
    pub(crate) records: [ByPack; 3],
}

impl Passes {
    /// Whether a pass is under way or due. `least`: the bytes from which a mailbox gets a
    /// checkpoint; 0 has a pass after each change.
    pub(crate) fn is_due(&self, least: u64) -> bool {
        let from = if least == 0 { 1 } else { (MULTIPLE * self.size).max(LEAST * least) };
        self.next.is_some() || self.changes >= from
    }

    /// Counts a record, by its sequence number.
    pub(crate) fn add(&mut self, seq: u64, pack: u32, bytes: u64) {
        self.age_of(seq).add(PackBytes { pack, bytes });
    }

    /// Maintenance copied a record to another pack.
    pub(crate) fn moved(&mut self, seq: u64, (from, to): (u32, u32), bytes: u64) {
        let by_pack = self.age_of(seq);
        by_pack.remove(PackBytes { pack: from, bytes });
        by_pack.add(PackBytes { pack: to, bytes });
    }

    /// Forgets the bytes in a pack that was removed.
    pub(crate) fn left(&mut self, pack: u32) {
        self.records.iter_mut().for_each(|by_pack| by_pack.remove(PackBytes { pack, bytes: u64::MAX }));
    }

    fn age_of(&mut self, seq: u64) -> &mut ByPack {
        let [since, before, earlier] = &mut self.records;
        match seq {
            _ if seq >= self.begun => since,
            _ if seq >= self.before => before,
            _ => earlier,
        }
    }

    /// A pass begins.
    pub(crate) fn begin(&mut self, seq: u64) {
        let [since, before, earlier] = self.records;
        self.records = [ByPack::default(), since, sum(earlier, &before)];
        (self.before, self.begun) = (self.begun, seq);
        self.next = Some(KeyPosition::start_of(Table::ALL[0]));
        (self.size, self.changes) = (0, 0);
    }

    /// Records that a checkpoint of a range was written and that the pass continues at `to`.
    /// Answers the dead bytes if the pass is complete.
    pub(crate) fn advance(&mut self, to: KeyPosition, bytes: u64) -> ByPack {
        self.size = self.size.saturating_add(bytes);
        if to.table().is_some() {
            self.next = Some(to);
            return ByPack::default();
        }
        self.next = None;
        self.superseded = self.before;
        std::mem::take(&mut self.records[2])
    }

    /// The pass cannot be made complete. The next change that makes one due begins another.
    pub(crate) fn cancel(&mut self) {
        let [since, before, earlier] = self.records;
        self.records = [sum(since, &before), earlier, ByPack::default()];
        (self.begun, self.before) = (self.before, self.superseded);
        self.next = None;
    }

    pub(crate) fn to_value(&self) -> Vec<u8> {
        let mut out = open_value();
        for number in [self.begun, self.before, self.superseded, self.size, self.changes] {
            put_varint(&mut out, number);
        }
        put_counted(&mut out, self.next.as_ref().map_or(&[], |next| &next.0[..]));
        self.records.iter().for_each(|by_pack| by_pack.put(&mut out));
        seal(seed_of_key(&PASSES_KEY), out)
    }

    pub(crate) fn from_value(value: &[u8]) -> Option<Self> {
        let mut read: Octets<'_> = unseal(seed_of_key(&PASSES_KEY), value)?;
        let mut number = || read.varint();
        let (begun, before, superseded) = (number()?, number()?, number()?);
        let (size, changes) = (number()?, number()?);
        let next = Some(KeyPosition(read.counted()?.to_vec())).filter(|next| !next.0.is_empty());
        let mut by_pack = || ByPack::read(&mut read);
        let records = [by_pack()?, by_pack()?, by_pack()?];
        read.is_empty().then_some(Self { begun, before, superseded, next, size, changes, records })
    }
}

fn sum(mut all: ByPack, more: &ByPack) -> ByPack {
    more.iter().for_each(|more| all.add(more));
    all
}

impl Index {
    /// The sizes of the records of lists, directory and packs in the log. Nothing in an index of
    /// format 5 or older.
    pub(crate) fn passes(&self, txn: &RoTxn) -> Result<Passes> {
        let Some(value) = self.main.get(txn, &PASSES_KEY).indexed()? else { return Ok(Passes::default()) };
        Passes::from_value(value).ok_or_else(damaged("the record of the checkpoint passes in the log"))
    }

    /// Sets the sizes.
    pub(crate) fn put_passes(&self, txn: &mut Writing, passes: &Passes) -> Result<()> {
        self.main.put(txn, &PASSES_KEY, &passes.to_value()).indexed()
    }

    /// Counts a record that was logged on a list, the directory or a pack.
    pub(crate) fn log_grew(
        &self,
        txn: &mut Writing,
        kind: Kind,
        seq: u64,
        PackBytes { pack, bytes }: PackBytes,
    ) -> Result<()> {
        let mut passes = self.passes(txn)?;
        passes.add(seq, pack, bytes);
        if kind.is_change_in_ranges() {
            passes.changes = passes.changes.saturating_add(bytes);
        }
        self.put_passes(txn, &passes)
    }

    /// Every pack that was retired. In an index of format 5 or older: every number that was given
    /// and is no pack.
    pub(crate) fn ever_retired(&self, txn: &RoTxn) -> Result<NumSet> {
        if let Some(value) = self.main.get(txn, &RETIRED_KEY).indexed()? {
            let set = unseal(seed_of_key(&RETIRED_KEY), value).and_then(|mut read| read.set());
            return set.ok_or_else(damaged("the set of retired packs"));
        }
        let packs: NumSet = self.all_packs(txn)?.into_iter().map(|(number, _)| number).collect();
        let next = self.next_pack(txn)?.unwrap_or(1);
        // The index of a forged backup may name any next number: one by one, the others would take
        // gigabytes.
        Ok(NumSet::range(1, next.saturating_sub(1)).difference(&packs))
    }

    /// Adds packs to the set of retired ones.
    pub(crate) fn add_retired(&self, txn: &mut Writing, packs: &NumSet) -> Result<()> {
        let all = self.ever_retired(txn)?.union(packs);
        let mut value = open_value();
        put_set(&mut value, &all);
        self.main.put(txn, &RETIRED_KEY, &seal(seed_of_key(&RETIRED_KEY), value)).indexed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::packs::PackState;

    fn bytes(by_pack: &ByPack) -> Vec<(u32, u64)> {
        by_pack.iter().map(|PackBytes { pack, bytes }| (pack, bytes)).collect()
    }

    /// Goes over all tables in one step.
    fn pass(passes: &mut Passes, seq: u64, pack: u32) -> ByPack {
        passes.begin(seq);
        passes.add(seq, pack, 100);
        passes.advance(KeyPosition::end_of(Table::Directory), 100)
    }

    #[test]
    fn they_come_back() {
        let mut passes = Passes::default();
        assert_eq!(Passes::from_value(&passes.to_value()), Some(passes.clone()));
        pass(&mut passes, 30, 2);
        passes.begin(70);
        passes.add(75, 3, 900);
        passes.advance(KeyPosition::of(Table::Directory, b"account/x"), 900);
        passes.changes = 5;
        assert_eq!(Passes::from_value(&passes.to_value()), Some(passes));
    }

    /// The four billion numbers before the next pack took 32 GB.
    #[test]
    fn the_packs_that_an_old_index_lacks_take_little_memory() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 20, 8).unwrap();
        let mut txn = index.write().unwrap();
        assert!(index.ever_retired(&txn).unwrap().is_empty());
        for pack in [3, 4, 9] {
            index.put_pack(&mut txn, pack, PackState::default()).unwrap();
        }
        index.put_next_pack(&mut txn, 10).unwrap();
        assert_eq!(index.ever_retired(&txn).unwrap().ranges(), [(1, 2), (5, 8)]);
        index.put_next_pack(&mut txn, u32::MAX).unwrap();
        assert_eq!(index.ever_retired(&txn).unwrap().ranges(), [(1, 2), (5, 8), (10, u32::MAX - 1)]);
        index.add_retired(&mut txn, &NumSet::new()).unwrap();
        index.add_retired(&mut txn, &NumSet::range(3, 3)).unwrap();
        assert_eq!(index.ever_retired(&txn).unwrap().ranges(), [(1, 3), (5, 8), (10, u32::MAX - 1)]);
    }

    #[test]
    fn records_before_two_complete_passes_are_dead() {
        let mut passes = Passes::default();
        passes.add(1, 1, 1_000);
        assert_eq!(bytes(&pass(&mut passes, 10, 1)), [], "no pass was before it");
        assert_eq!(passes.superseded, 0);
        passes.add(12, 1, 500);
        assert_eq!(bytes(&pass(&mut passes, 20, 2)), [(1, 1_000)]);
        assert_eq!((passes.superseded, passes.next.is_none()), (10, true));
        passes.moved(12, (1, 3), 500);
        assert_eq!(bytes(&pass(&mut passes, 30, 2)), [(1, 100), (3, 500)]);
        assert_eq!(passes.superseded, 20);
    }

    #[test]
    fn a_pass_that_is_given_up_supersedes_nothing() {
        let mut passes = Passes::default();
        passes.add(1, 1, 1_000);
        pass(&mut passes, 10, 1);
        pass(&mut passes, 20, 1);
        let before = passes.clone();
        passes.begin(30);
        passes.advance(KeyPosition::start_of(Table::Lists), 7);
        passes.cancel();
        assert_eq!((passes.begun, passes.superseded), (20, 10));
        assert_eq!(bytes(&passes.records[0]), bytes(&before.records[0]));
        // Two complete passes are kept still.
        let dead = pass(&mut passes, 40, 2);
        assert_eq!((passes.superseded, bytes(&dead)), (20, vec![(1, 100)]));
    }

    #[test]
    fn a_pass_is_due_when_changes_are_twice_its_size() {
        let mut passes = Passes::default();
        assert!(!passes.is_due(0) && !passes.is_due(1_000));
        passes.changes = 1;
        assert!(passes.is_due(0) && !passes.is_due(1_000));
        passes.changes = 64_000;
        assert!(passes.is_due(1_000));
        passes.size = 50_000;
        assert!(!passes.is_due(1_000));
        passes.changes = 100_000;
        assert!(passes.is_due(1_000));
        passes.begin(9);
        assert!(passes.is_due(1_000), "until it is complete");
    }
}
