//! Which records about packs count: those that abandon a pack, cut it or retire it.
//!
//! Such a record may itself be in a tail that was abandoned. Then it does not count: the process
//! that wrote it failed to commit. Another process may have redone a tail that the first was about
//! to abandon. A pack that the first was about to retire is still needed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use posthaste_mail_model::NumSet;

use super::endings::Endings;
use crate::index::packs::PackState;
use crate::log::PackOffset;
use crate::log::range::Packs;
use crate::log::record::Kind;

/// A statement of a record about packs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    /// The pack was abandoned at this offset: records from there on do not count.
    Abandoned(PackOffset),
    /// The pack's records from this offset on were copied elsewhere.
    Cut(PackOffset),
    /// The files of these packs may be missing. A few bytes of a forged checkpoint may name four
    /// billion.
    Retired(NumSet),
    /// The record is damaged. At worst a tail does not count, or a file is not removed.
    Damaged(Kind),
}

impl Statement {
    /// The statements of a checkpoint of the table of packs. It retires packs, and abandons sealed
    /// ones at their ends. Each statement is judged by itself: a record in a sealed pack may have
    /// ended the pack of the checkpoint.
    pub(super) fn of_checkpoint(Packs { retired, sealed }: Packs) -> Vec<Self> {
        let retired = Some(retired).filter(|packs| !packs.is_empty()).map(Self::Retired);
        retired.into_iter().chain(sealed.into_iter().map(Self::Abandoned)).collect()
    }

    /// The pack that it ends, and where.
    fn end(&self) -> Option<PackOffset> {
        match self {
            Self::Abandoned(at) | Self::Cut(at) => Some(*at),
            Self::Retired(_) | Self::Damaged(_) => None,
        }
    }
}

/// A record about packs, and its offset. Of a checkpoint, there is one for each statement.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) pack: u32,
    pub(super) offset: u64,
    pub(super) statement: Statement,
}

/// The ends of packs.
pub(super) type Ends = HashMap<u32, u64>;

/// Ends a pack at an offset, or earlier if it ends there.
pub(super) fn end_at(ends: &mut Ends, pack: u32, end: u64) {
    ends.entry(pack).and_modify(|known| *known = end.min(*known)).or_insert(end);
}

/// The records about packs, and the ends of packs without them.
#[derive(Default)]
pub(super) struct Controls {
    all: Vec<Control>,
    /// The certain ends of packs: of sealed ones, and of those with a tail that was cut off.
    ends: Ends,
}

/// The statements that count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ValidStatements {
    /// The ends of packs.
    pub(super) ends: Ends,
    /// Packs whose tail a record abandons from their end on, so that every later rebuild knows.
    pub(super) abandoned: BTreeSet<u32>,
    pub(super) retired: NumSet,
    pub(super) faults: Vec<String>,
}

impl Controls {
    pub(super) fn add(&mut self, control: Control) {
        self.all.push(control);
    }

    /// Ends a pack at `end`, whatever records say.
    pub(super) fn ends_at(&mut self, pack: u32, end: u64) {
        end_at(&mut self.ends, pack, end);
    }

    /// The lowest offset at which anything found so far may end each pack.
    pub(super) fn possible_ends(&self) -> Ends {
        let mut ends = self.ends.clone();
        for at in self.all.iter().filter_map(|control| control.statement.end()) {
            end_at(&mut ends, at.pack, at.offset);
        }
        ends
    }

    /// Judges all records. `packs` are those of the old index.
    pub(super) fn judge(&self, packs: &BTreeMap<u32, PackState>) -> ValidStatements {
        let ends = self.certain_ends(packs);
        let counts = Judgement::new(&self.all, &ends).of_all();
        let counting =
            || self.all.iter().zip(&counts).filter(|(_, counts)| **counts).map(|(control, _)| control);
        let mut judged = ValidStatements { ends, ..ValidStatements::default() };
        let mut retired = Vec::new();
        for Control { pack, offset, statement } in counting() {
            if let Some(at) = statement.end() {
                end_at(&mut judged.ends, at.pack, at.offset);
            }
            match statement {
                Statement::Abandoned(_) | Statement::Cut(_) => {}
                Statement::Retired(packs) => retired.extend_from_slice(packs.ranges()),
                Statement::Damaged(kind) => judged.faults.push(format!(
                    "{kind:?} record in pack {pack} at byte {offset} is damaged and was passed over"
                )),
            }
        }
        judged.retired = NumSet::from_ranges(retired);
        let abandoned = counting().filter_map(|control| match control.statement {
            Statement::Abandoned(at) if judged.ends.get(&at.pack) == Some(&at.offset) => Some(at.pack),
            _ => None,
        });
        judged.abandoned = abandoned.collect();
        judged
    }

    /// The certain ends, and those at records that abandon commits of the old index. Another
    /// process had redone that tail, or the commit of the index had failed only in part. The index
    /// lacks such a record, and an opening abandons the tail that begins with it.
    fn certain_ends(&self, packs: &BTreeMap<u32, PackState>) -> Ends {
        let end_of = |pack: u32| packs.get(&pack).map_or(0, |state| state.end);
        let mut ends = self.ends.clone();
        for Control { pack, offset, statement } in &self.all {
            if let Statement::Abandoned(at) = statement
                && at.offset < end_of(at.pack)
                && *offset >= end_of(*pack)
            {
                end_at(&mut ends, *pack, *offset);
            }
        }
        ends
    }
}

/// A judgement under way.
struct Judgement<'c> {
    controls: &'c [Control],
    ends: &'c Ends,
    /// The records that end each pack, if it has records here.
    endings: HashMap<u32, Endings>,
    /// Whether each record counts, if that is known. A record counts while it is being judged.
    counts: Vec<Option<bool>>,
}

impl<'c> Judgement<'c> {
    fn new(controls: &'c [Control], ends: &'c Ends) -> Self {
        let mut stated: HashMap<u32, Vec<(u64, usize)>> =
            controls.iter().map(|control| (control.pack, Vec::new())).collect();
        for (record, control) in controls.iter().enumerate() {
            if let Some(at) = control.statement.end()
                && let Some(stated) = stated.get_mut(&at.pack)
            {
                stated.push((at.offset, record));
            }
        }
        let endings = stated.into_iter().map(|(pack, stated)| (pack, Endings::new(stated))).collect();
        Self { controls, ends, endings, counts: vec![None; controls.len()] }
    }

    /// Whether each record counts: no record that counts ends its pack before it. A record that
    /// ends a pack is written later than the pack's records, so no record depends on itself. The
    /// last of several is judged first: after repeated failures it is the one that was committed.
    fn of_all(mut self) -> Vec<bool> {
        // Each depends on the one after it. A forged chain of them is as long as the pack.
        let mut under_way = Vec::new();
        for first in 0..self.controls.len() {
            under_way.extend(self.counts[first].is_none().then_some(first));
            while let Some(&record) = under_way.last() {
                self.counts[record].get_or_insert(true);
                match self.ending(record) {
                    Some(Ending::Record(other)) if self.counts[other].is_none() => under_way.push(other),
                    ending => {
                        self.counts[record] = Some(ending.is_none());
                        under_way.pop();
                    }
                }
            }
        }
        self.counts.into_iter().map(|counts| counts == Some(true)).collect()
    }

    /// What may end the pack of a record before it. Records that do not count are left out.
    fn ending(&mut self, record: usize) -> Option<Ending> {
        let Control { pack, offset, .. } = &self.controls[record];
        if self.ends.get(pack).is_some_and(|end| offset >= end) {
            return Some(Ending::Certain);
        }
        let endings = self.endings.get_mut(pack)?;
        loop {
            let (number, other) = endings.last_before(*offset)?;
            if self.counts[other] != Some(false) {
                return Some(Ending::Record(other));
            }
            endings.remove(number);
        }
    }
}

/// What ends a pack.
enum Ending {
    /// A fact that no record states.
    Certain,
    /// The record of this number, if it counts.
    Record(usize),
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    /// Pack, offset and the statement there.
    fn abandoned(pack: u32, offset: u64) -> Statement {
        Statement::Abandoned(PackOffset { pack, offset })
    }

    fn retired(pack: u32) -> Statement {
        Statement::Retired(NumSet::range(pack, pack))
    }

    fn judged(controls: &[(u32, u64, Statement)], packs: &[(u32, PackState)]) -> ValidStatements {
        let mut all = Controls::default();
        for (pack, offset, statement) in controls.iter().cloned() {
            all.add(Control { pack, offset, statement });
        }
        all.judge(&packs.iter().copied().collect())
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
        let all = [
            (2, 64, abandoned(1, 500)),
            (3, 64, abandoned(1, 900)),
            (3, 128, abandoned(2, 0)),
            // The abandoning of pack 2 was abandoned, too.
            (4, 64, abandoned(3, 0)),
        ];
        assert_eq!(ends(&judged(&all[..1], &[])), [(1, 500)]);
        assert_eq!(ends(&judged(&all[..3], &[])), [(1, 900), (2, 0)]);
        assert_eq!(ends(&judged(&all, &[])), [(1, 500), (3, 0)]);
    }

    #[test]
    fn a_retirement_that_was_given_up_retires_nothing() {
        let all = [(2, 900, retired(1)), (3, 64, abandoned(2, 500))];
        assert_eq!(judged(&all[..1], &[]).retired, NumSet::range(1, 1));
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
        let refused = judged(&[(2, 64, abandoned(1, 500)), (2, 128, retired(1))], &packs);
        assert_eq!(
            (ends(&refused), refused.retired.count()),
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
        all.add(Control { pack: 2, offset: 500, statement: retired(1) });
        let judged = all.judge(&BTreeMap::new());
        assert_eq!((ends(&judged), judged.retired.count()), (vec![(2, 500)], 0));
    }

    #[test]
    fn a_checkpoint_of_packs_states_them_all() {
        let sealed = vec![PackOffset { pack: 1, offset: 500 }, PackOffset { pack: 2, offset: 700 }];
        let checkpoint = Statement::of_checkpoint(Packs { retired: NumSet::range(4, u32::MAX), sealed });
        assert_eq!(checkpoint.len(), 3);
        let cut = Statement::Cut(PackOffset { pack: 2, offset: 300 });
        let mut all = vec![(1, 600, retired(3)), (3, 128, cut)];
        all.extend(checkpoint.into_iter().map(|statement| (3, 64, statement)));
        let judged = judged(&all, &[]);
        assert_eq!(ends(&judged), [(1, 500), (2, 300)]);
        assert_eq!(judged.abandoned, BTreeSet::from([1]), "pack 2 was cut");
        assert_eq!(judged.retired, NumSet::range(4, u32::MAX), "one by one, they would take 100 GB");
    }

    /// A checkpoint in a tail that was given up has pack 2 as sealed. Then an older index was put
    /// back, and a process wrote to pack 2. Judged as one, the checkpoint ended that pack.
    #[test]
    fn a_checkpoint_in_a_tail_that_was_given_up_ends_no_pack() {
        let at = |pack| PackOffset { pack, offset: 64 };
        let packs = Packs { retired: NumSet::range(9, 9), sealed: vec![at(2), at(5)] };
        let checkpoint = Statement::of_checkpoint(packs);
        let mut all: Vec<_> = checkpoint.into_iter().map(|statement| (1, 700, statement)).collect();
        all.push((2, 64, abandoned(1, 500)));
        let judged = judged(&all, &[]);
        assert_eq!((ends(&judged), judged.retired.count()), (vec![(1, 500)], 0));
    }

    /// Each record is in the tail that the next one abandons. One call in the other for each would
    /// overflow the stack, and the packs of a backup may be forged.
    #[test]
    fn a_long_chain_of_records_is_judged() {
        const RECORDS: u64 = 100_000;
        let all: Vec<_> = (1..=RECORDS).map(|n| (1, 64 * n, abandoned(1, 64 * (n - 1)))).collect();
        assert!(judged(&all, &[]).ends.is_empty(), "each abandons itself, too");
    }

    /// What the rules at [`Judgement::of_all`] say, with a call for each record.
    fn counts(controls: &[Control], known: &Ends, found: &mut [Option<bool>], at: usize) -> bool {
        if let Some(counts) = found[at] {
            return counts;
        }
        let Control { pack, offset, .. } = &controls[at];
        found[at] = Some(true);
        let is_ended = known.get(pack).is_some_and(|end| offset >= end)
            || (0..controls.len()).rev().any(|other| {
                let ends = |end: PackOffset| end.pack == *pack && end.offset <= *offset;
                controls[other].statement.end().is_some_and(ends) && counts(controls, known, found, other)
            });
        found[at] = Some(!is_ended);
        !is_ended
    }

    fn statement() -> impl Strategy<Value = Statement> {
        (0..5_u8, 0..4_u32, 0..6_u64).prop_map(|(kind, pack, offset)| match kind {
            0 => retired(pack),
            1 => Statement::Cut(PackOffset { pack, offset }),
            _ => abandoned(pack, offset),
        })
    }

    properties! {
        /// Also where records end each other's packs, as forged ones may.
        #[test]
        fn records_are_judged_by_the_rules(
            all in prop::collection::vec((0..4_u32, 0..6_u64, statement()), 0..14),
            end in 0..8_u64,
        ) {
            let all = all.into_iter().map(|(pack, offset, statement)| Control { pack, offset, statement });
            let (all, known): (Vec<Control>, _) = (all.collect(), Ends::from([(2, end)]));
            let mut found = vec![None; all.len()];
            let expected: Vec<bool> = (0..all.len()).map(|at| counts(&all, &known, &mut found, at)).collect();
            prop_assert_eq!(Judgement::new(&all, &known).of_all(), expected);
        }
    }
}
