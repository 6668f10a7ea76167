//! The last bodies of packs whose ends no index knows.
//!
//! A batch has its bodies before its commits. So bodies at the end of a pack belong to a batch that
//! a crash cut off, or maintenance copied them there.

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
    /// Bodies of the packs before it that may belong to the last batch of a process.
    older: Vec<(u32, Vec<LocatedRecord>)>,
    /// The highest sequence number of all records, bodies excepted.
    seq: u64,
    /// The highest such number of records before the first gap of their pack.
    before_gap: u64,
}

impl UncommittedBodies {
    pub(super) fn add(&mut self, pack: u32, last: LastBodies, is_end_known: bool) {
        self.seq = self.seq.max(last.seq);
        self.before_gap = self.before_gap.max(last.before_gap);
        self.older.extend(self.newest.take());
        // Most are ruled out at once, so that few are kept in memory.
        self.rule_out(self.before_gap);
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
        self.older.into_iter().chain(self.newest)
    }

    fn rule_out(&mut self, seq: u64) {
        for (_, bodies) in &mut self.older {
            bodies.retain(|body| body.header.seq > seq);
        }
        self.older.retain(|(_, bodies)| !bodies.is_empty());
    }
}
