//! Tables with checkpoints of ranges in the log: lists, removed mailboxes and the directory.
//!
//! The newest intact checkpoint of each range is put into the new index before anything is
//! replayed. Commits that it contains are skipped. Two passes are kept in the log, with every
//! change since the earlier one. Where a range of the later one is damaged, nothing is lost.

use std::collections::BTreeMap;

use super::catalog::Entry;
use crate::index::passes::Passes;
use crate::log::range::{KeyPosition, Table};
use crate::log::record::Kind;

/// The checkpoints of ranges in the log, and the counts of its other records.
#[derive(Default)]
pub(super) struct Ranges {
    pub(super) found: Vec<Entry>,
    pub(super) restored: Coverage,
    /// The passes that the new index records.
    pub(super) passes: Passes,
}

impl Ranges {
    /// The sequence number up to which checkpoints contain the log's records of a key; 0: no
    /// checkpoint.
    pub(super) fn upto(&self, table: Table, key: &[u8]) -> u64 {
        self.restored.upto(&KeyPosition::of(table, key))
    }

    /// Counts a record that checkpoints of ranges may supersede.
    pub(super) fn count(&mut self, entry: &Entry) {
        let (kind, bytes) = (entry.found.header.kind, entry.found.header.record_len());
        if kind.is_in_ranges() {
            self.passes.add(entry.seq(), entry.pack, bytes);
            let is_change = matches!(kind, Kind::List | Kind::Directory);
            self.passes.changes += if is_change { bytes } else { 0 };
        }
    }
}

/// Ranges that do not overlap, each with a sequence number.
#[derive(Default)]
pub(super) struct Coverage {
    /// The end of each range, and its number.
    ranges: BTreeMap<KeyPosition, (KeyPosition, u64)>,
    /// The same without numbers. Ranges that touch are one: forged checkpoints may be very many,
    /// and each may contain all others.
    joined: BTreeMap<KeyPosition, KeyPosition>,
}

impl Coverage {
    /// The parts of a range that are not covered, in their order.
    pub(super) fn gaps(&self, from: &KeyPosition, to: &KeyPosition) -> Vec<(KeyPosition, KeyPosition)> {
        let (mut gaps, mut at) = (Vec::new(), from);
        let before = self.joined.range(..=from).next_back();
        let inside = self.joined.range((std::ops::Bound::Excluded(from), std::ops::Bound::Excluded(to)));
        for (low, high) in before.into_iter().chain(inside) {
            if at < low {
                gaps.push((at.clone(), low.clone()));
            }
            at = at.max(high);
        }
        if at < to {
            gaps.push((at.clone(), to.clone()));
        }
        gaps
    }

    /// Covers a range, and gives its gaps a number.
    pub(super) fn cover(
        &mut self,
        (mut from, mut to): (KeyPosition, KeyPosition),
        gaps: Vec<(KeyPosition, KeyPosition)>,
        upto: u64,
    ) {
        self.ranges.extend(gaps.into_iter().map(|(from, to)| (from, (to, upto))));
        // It is joined with those that it meets, from the last one on.
        loop {
            let last = self.joined.range(..=&to).next_back().filter(|(_, end)| **end >= from);
            let Some(begin) = last.map(|(begin, _)| begin.clone()) else { break };
            to = to.max(self.joined.remove(&begin).unwrap_or_else(|| begin.clone()));
            from = from.min(begin);
        }
        self.joined.insert(from, to);
    }

    fn upto(&self, place: &KeyPosition) -> u64 {
        let nearest = self.ranges.range(..=place).next_back();
        nearest.filter(|(_, (to, _))| place < to).map_or(0, |(_, (_, upto))| *upto)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    properties! {
        /// Each key has the number of the first range that covered it.
        #[test]
        fn the_first_range_counts(ranges in prop::collection::vec((0_u8..40, 1_u8..20), 0..12)) {
            let place = |key: u8| KeyPosition::of(Table::Directory, &[key]);
            let mut coverage = Coverage::default();
            let mut model = [0; 64];
            for (n, (from, len)) in ranges.into_iter().enumerate() {
                let upto = n as u64 + 1;
                let gaps = coverage.gaps(&place(from), &place(from + len));
                prop_assert!(gaps.iter().all(|(low, high)| low < high));
                prop_assert!(gaps.is_sorted_by(|(_, high), (low, _)| high < low));
                coverage.cover((place(from), place(from + len)), gaps, upto);
                let keys = usize::from(from)..usize::from(from + len);
                model[keys].iter_mut().filter(|known| **known == 0).for_each(|known| *known = upto);
            }
            // The beginnings of joined ranges: a key that is covered after one that is not.
            let begins = (0..64).filter(|key| model[*key] > 0 && (*key == 0 || model[key - 1] == 0));
            prop_assert_eq!(coverage.joined.len(), begins.count());
            for (key, upto) in model.into_iter().enumerate() {
                prop_assert_eq!(coverage.upto(&place(key as u8)), upto);
            }
        }
    }
}
