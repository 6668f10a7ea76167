//! The last bodies of packs whose ends no index knows.
//!
//! A batch has its bodies before its commits. So bodies at the end of a pack belong to a batch that
//! a crash cut off, or maintenance copied them there.

use std::collections::BTreeMap;

use crate::log::record::Kind;
use crate::log::scan::LocatedRecord;

/// The last bodies of a pack.
#[derive(Default)]
pub(super) struct LastBodies {
    bodies: Vec<LocatedRecord>,
    /// The highest sequence number of the pack's records that are no bodies.
    seq: u64,
    /// The highest such number before the first gap between records: records after a gap may not
    /// count.
    before_gap: u64,
    /// The end of the last record.
    end: Option<u64>,
    has_gap: bool,
}

impl LastBodies {
    pub(super) fn add(&mut self, found: LocatedRecord) {
        self.has_gap |= self.end.is_some_and(|end| end != found.offset);
        self.end = Some(found.end());
        if found.header.kind == Kind::Body {
            self.bodies.push(found);
            return;
        }
        self.bodies.clear();
        self.seq = self.seq.max(found.header.seq);
        if !self.has_gap {
            self.before_gap = self.seq;
        }
    }
}

/// Last bodies to which no commit may refer, in packs whose ends the old index does not know.
#[derive(Default)]
pub(super) struct UncommittedBodies {
    /// Bodies of the last pack with records.
    newest: Option<(u32, Vec<LocatedRecord>)>,
    /// Bodies of the packs before it that may belong to the last batch of a process, by sequence
    /// number, pack and offset. Each pack of a forged backup may add some that stay: none is
    /// looked at again before it is ruled out.
    older: BTreeMap<(u64, u32, u64), LocatedRecord>,
    /// The highest sequence number of all records, bodies excepted.
    seq: u64,
    /// The highest such number of records before the first gap of their pack.
    before_gap: u64,
}

impl UncommittedBodies {
    pub(super) fn add(&mut self, pack: u32, last: LastBodies, is_end_known: bool) {
        self.seq = self.seq.max(last.seq);
        self.before_gap = self.before_gap.max(last.before_gap);
        // Most are ruled out at once, so that few are kept in memory.
        let seq = self.before_gap;
        self.rule_out(seq);
        if let Some((pack, bodies)) = self.newest.take() {
            let kept = bodies.into_iter().filter(|body| body.header.seq > seq);
            self.older.extend(kept.map(|body| ((body.header.seq, pack, body.offset), body)));
        }
        self.newest = Some((pack, last.bodies)).filter(|_| !is_end_known);
    }

    /// The highest sequence number of the packs so far.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// The bodies without commits, by pack. `counted` is the highest sequence number that was
    /// committed. In a pack before the newest one, only bodies with higher numbers are among them:
    /// bodies that maintenance copied there have lower ones, and count.
    pub(super) fn batches(mut self, counted: u64) -> impl Iterator<Item = (u32, Vec<LocatedRecord>)> {
        self.rule_out(counted);
        let mut older: BTreeMap<u32, Vec<LocatedRecord>> = BTreeMap::new();
        for ((_, pack, _), body) in self.older {
            older.entry(pack).or_default().push(body);
        }
        older.values_mut().for_each(|bodies| bodies.sort_unstable_by_key(|body| body.offset));
        older.into_iter().chain(self.newest)
    }

    fn rule_out(&mut self, seq: u64) {
        while let Some(lowest) = self.older.first_entry().filter(|lowest| lowest.key().0 <= seq) {
            lowest.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;
    use crate::log::record::Header;

    /// Bodies at the end of a pack, and the sequence number of a commit before them.
    fn pack(commit: u64, bodies: &[u64]) -> LastBodies {
        let mut last = LastBodies::default();
        let record = |kind, seq| Header { kind, steps: 0, seq, len: 0, id: Id::new(1, 1), content_crc: 0 };
        let mut offset = 64;
        for header in std::iter::once(record(Kind::Mailbox, commit))
            .chain(bodies.iter().map(|seq| record(Kind::Body, *seq)))
        {
            last.add(LocatedRecord { offset, header });
            offset += header.record_len();
        }
        last
    }

    properties! {
        /// Each pack looked at all bodies of the packs before it.
        #[test]
        fn bodies_stay_until_a_commit_rules_them_out(
            packs in prop::collection::vec((0..20_u64, prop::collection::vec(0..40_u64, 0..5)), 1..8),
            counted in 0..40_u64,
        ) {
            let mut uncommitted = UncommittedBodies::default();
            for (number, (commit, bodies)) in (1..).zip(&packs) {
                uncommitted.add(number, pack(*commit, bodies), false);
            }
            let newest = packs.len() as u32;
            let committed = packs.iter().map(|(commit, _)| *commit).max().unwrap_or(0).max(counted);
            let expected = (1..).zip(&packs).map(|(number, (_, bodies))| {
                let stays = |seq: &u64| number == newest || *seq > committed;
                (number, bodies.iter().copied().filter(stays).collect::<Vec<u64>>())
            });
            let expected: Vec<_> =
                expected.filter(|(number, bodies)| *number == newest || !bodies.is_empty()).collect();
            let found = uncommitted.batches(counted);
            let seqs = |bodies: Vec<LocatedRecord>| -> Vec<u64> {
                bodies.iter().map(|body| body.header.seq).collect()
            };
            let found: Vec<(u32, Vec<u64>)> = found.map(|(number, bodies)| (number, seqs(bodies))).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
