//! Which records about packs count: those that abandon a pack, cut it or retire it.
//!
//! Such a record may itself be in a tail that was abandoned. Then it does not count: the process
//! that wrote it failed to commit. Another process may have redone a tail that the first was about
//! to abandon. A pack that the first was about to retire is still needed.

use std::collections::{BTreeSet, HashMap};

use crate::index::packs::PackState;
use crate::log::PackOffset;
use crate::log::record::Kind;

/// A statement of a record about packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statement {
    /// The pack was abandoned at this offset: records from there on do not count.
    Abandoned(PackOffset),
    /// The pack's records from this offset on were copied elsewhere.
    Cut(PackOffset),
    /// The file of this pack may be missing.
    Retired(u32),
    /// The record is damaged. At worst a tail does not count, or a file is not removed.
    Damaged(Kind),
}

/// A record about packs, and its offset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Control {
    pub(super) pack: u32,
    pub(super) offset: u64,
    pub(super) statement: Statement,
}

/// The records about packs, and the ends of packs without them.
#[derive(Default, Clone)]
pub(super) struct Controls {
    all: Vec<Control>,
    /// The certain ends of packs: of sealed ones, and of those with a tail that was cut off.
    ends: HashMap<u32, u64>,
}

/// The statements that count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ValidStatements {
    /// The ends of packs.
    pub(super) ends: HashMap<u32, u64>,
    /// Packs whose tail a record abandons from their end on, so that every later rebuild knows.
    pub(super) abandoned: BTreeSet<u32>,
    pub(super) retired: BTreeSet<u32>,
    pub(super) faults: Vec<String>,
}

impl Controls {
    pub(super) fn add(&mut self, control: Control) {
        self.all.push(control);
    }

    /// Ends a pack at `end`, whatever records say.
    pub(super) fn ends_at(&mut self, pack: u32, end: u64) {
        self.ends.entry(pack).and_modify(|known| *known = end.min(*known)).or_insert(end);
    }

    /// Whether anything found so far may end a pack before this place.
    pub(super) fn may_be_ended(&self, pack: u32, offset: u64) -> bool {
        let is_before = |statement: &Statement| match *statement {
            Statement::Abandoned(at) | Statement::Cut(at) => at.pack == pack && offset >= at.offset,
            Statement::Retired(_) | Statement::Damaged(_) => false,
        };
        self.ends.get(&pack).is_some_and(|end| offset >= *end)
            || self.all.iter().any(|control| is_before(&control.statement))
    }

    /// Judges all records. `packs` are those of the old index.
    pub(super) fn judge(mut self, packs: &[(u32, PackState)]) -> ValidStatements {
        self.refuse(packs);
        let mut by_pack: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, control) in self.all.iter().enumerate() {
            if let Statement::Abandoned(end) | Statement::Cut(end) = control.statement {
                by_pack.entry(end.pack).or_default().push(at);
            }
        }
        let mut judgement = Judgement { controls: &self, by_pack, counts: vec![None; self.all.len()] };
        let counting: Vec<bool> = (0..self.all.len()).map(|at| judgement.counts(at)).collect();
        let mut judged = ValidStatements { ends: self.ends.clone(), ..ValidStatements::default() };
        for (control, _) in self.all.iter().zip(&counting).filter(|(_, counts)| **counts) {
            match control.statement {
                Statement::Abandoned(at) | Statement::Cut(at) => {
                    let end = judged.ends.entry(at.pack).or_insert(at.offset);
                    *end = at.offset.min(*end);
                }
                Statement::Retired(pack) => drop(judged.retired.insert(pack)),
                Statement::Damaged(kind) => {
                    let Control { pack, offset, .. } = control;
                    judged.faults.push(format!(
                        "{kind:?} record in pack {pack} at byte {offset} is damaged and was passed over"
                    ));
                }
            }
        }
        let abandoned = self.all.iter().zip(&counting).filter(|(_, counts)| **counts);
        judged.abandoned = abandoned
            .filter_map(|(control, _)| match control.statement {
                Statement::Abandoned(at) if judged.ends.get(&at.pack) == Some(&at.offset) => Some(at.pack),
                _ => None,
            })
            .collect();
        judged
    }
}

impl Controls {
    /// Ends packs at records that abandon commits of the old index. Another process had redone that
    /// tail, or the commit of the index had failed only in part. The index lacks such a record, and
    /// an opening abandons the tail that begins with it.
    fn refuse(&mut self, packs: &[(u32, PackState)]) {
        let known: HashMap<u32, u64> = packs.iter().map(|(n, state)| (*n, state.end)).collect();
        let end_of = |pack: u32| known.get(&pack).copied().unwrap_or(0);
        let refused = |control: &&Control| match control.statement {
            Statement::Abandoned(at) => at.offset < end_of(at.pack) && control.offset >= end_of(control.pack),
            _ => false,
        };
        let refused: Vec<Control> = self.all.iter().filter(refused).copied().collect();
        for Control { pack, offset, .. } in refused {
            self.ends_at(pack, offset);
        }
    }
}

/// A judgement under way.
struct Judgement<'c> {
    controls: &'c Controls,
    /// The records that say where a pack ends.
    by_pack: HashMap<u32, Vec<usize>>,
    /// Whether each record counts, if that is known. A record counts while it is being judged.
    counts: Vec<Option<bool>>,
}

impl Judgement<'_> {
    /// Whether a record counts: no record that counts ends its pack before it. A record that ends a
    /// pack is written later than the pack's records, so no record depends on itself. The last of
    /// several is judged first: after repeated failures it is the one that was committed.
    fn counts(&mut self, at: usize) -> bool {
        if let Some(counts) = self.counts[at] {
            return counts;
        }
        let Control { pack, offset, .. } = self.controls.all[at];
        self.counts[at] = Some(true);
        let ending = self.by_pack.get(&pack).cloned().unwrap_or_default();
        let is_ended = self.controls.ends.get(&pack).is_some_and(|end| offset >= *end)
            || ending.into_iter().rev().any(|other| self.ends_before(other, offset) && self.counts(other));
        self.counts[at] = Some(!is_ended);
        !is_ended
    }

    fn ends_before(&self, at: usize, offset: u64) -> bool {
        let statement = self.controls.all[at].statement;
        matches!(statement, Statement::Abandoned(end) | Statement::Cut(end) if offset >= end.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pack, offset and the statement there.
    fn abandoned(pack: u32, offset: u64) -> Statement {
        Statement::Abandoned(PackOffset { pack, offset })
    }

    fn judged(controls: &[(u32, u64, Statement)], packs: &[(u32, PackState)]) -> ValidStatements {
        let mut all = Controls::default();
        for &(pack, offset, statement) in controls {
            all.add(Control { pack, offset, statement });
        }
        all.judge(packs)
    }

    fn ends(judged: &ValidStatements) -> Vec<(u32, u64)> {
        let mut ends: Vec<_> = judged.ends.iter().map(|(pack, end)| (*pack, *end)).collect();
        ends.sort_unstable();
        ends
    }

    /// Pack 2 was to abandon pack 1 at 500 and was abandoned itself. Meanwhile another process
    /// redid pack 1 up to 900.
    #[test]
    fn a_record_in_a_tail_that_was_given_up_gives_nothing_up() {
        let refused = (2, 64, abandoned(1, 500));
        let later = [(3, 64, abandoned(1, 900)), (3, 128, abandoned(2, 0))];
        assert_eq!(ends(&judged(&[refused], &[])), [(1, 500)]);
        assert_eq!(ends(&judged(&[refused, later[0], later[1]], &[])), [(1, 900), (2, 0)]);
        // The abandoning of pack 2 was abandoned, too.
        let last = (4, 64, abandoned(3, 0));
        assert_eq!(ends(&judged(&[refused, later[0], later[1], last], &[])), [(1, 500), (3, 0)]);
    }

    #[test]
    fn a_retirement_that_was_given_up_retires_nothing() {
        let all = [(2, 900, Statement::Retired(1)), (3, 64, abandoned(2, 500))];
        assert_eq!(judged(&all[..1], &[]).retired, BTreeSet::from([1]));
        assert!(judged(&all, &[]).retired.is_empty());
    }

    #[test]
    fn a_damaged_record_in_a_tail_that_was_given_up_is_no_fault() {
        let all = [(2, 900, Statement::Damaged(Kind::Retire)), (3, 64, abandoned(2, 500))];
        assert_eq!(judged(&all[..1], &[]).faults.len(), 1);
        assert!(judged(&all, &[]).faults.is_empty());
    }

    #[test]
    fn below_the_end_in_the_old_index_nothing_is_given_up() {
        let packs = [(1, PackState { end: 900, ..PackState::default() })];
        let refused = judged(&[(2, 64, abandoned(1, 500)), (2, 128, Statement::Retired(1))], &packs);
        assert_eq!(
            (ends(&refused), refused.retired.len()),
            (vec![(2, 64)], 0),
            "nor does the rest of it count"
        );
        let cut = [(2, 64, Statement::Cut(PackOffset { pack: 1, offset: 500 }))];
        assert_eq!(ends(&judged(&cut, &packs)), [(1, 500)], "what was cut lies elsewhere");
    }

    #[test]
    fn nothing_after_a_known_end_counts() {
        let mut all = Controls::default();
        all.ends_at(2, 700);
        all.ends_at(2, 500);
        all.add(Control { pack: 2, offset: 500, statement: Statement::Retired(1) });
        let judged = all.judge(&[]);
        assert_eq!((ends(&judged), judged.retired.len()), (vec![(2, 500)], 0));
    }
}
