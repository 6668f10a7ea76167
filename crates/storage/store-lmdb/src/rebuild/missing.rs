//! Packs that are missing between the others.

use posthaste_mail_model::NumSet;

use super::survey::{OldPacks, Survey};

/// Sentences that name missing packs. There is one for those beside each other, and a few bytes of
/// a forged checkpoint may leave a pack out.
const SENTENCES_MAX: usize = 1_000;

/// Missing packs.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MissingPacks {
    None,
    /// Packs that the old index has as sealed: it has all their commits.
    InOldIndex,
    /// Packs that may have had commits that are nowhere else.
    Unknown,
}

/// Names the missing packs. `next` is the number of the next pack in the old index.
pub(super) fn missing_packs(
    found: &Survey,
    before: &OldPacks,
    next: u32,
    faults: &mut Vec<String>,
) -> MissingPacks {
    let highest = found.packs.keys().max().copied().unwrap_or(0).max(next.saturating_sub(1));
    let were_empty = before.packs.iter().filter(|(_, state)| state.end == 0).map(|(number, _)| number);
    let numbers = found.packs.keys().chain(were_empty).chain(&found.empty).chain(&before.retired);
    let known = found.retired.ranges().iter().copied().chain(numbers.map(|number| (*number, *number)));
    let known: NumSet = NumSet::from_ranges(known);
    // One by one, the missing packs before a forged number would take gigabytes.
    let gaps = NumSet::range(1, highest).difference(&known);
    let (named, others) = gaps.ranges().split_at(gaps.ranges().len().min(SENTENCES_MAX));
    faults.extend(named.iter().map(|(low, high)| match low == high {
        true => format!("pack {low} is missing: restore it, or lose the mail in it"),
        false => format!("packs {low} to {high} are missing: restore them, or lose the mail in them"),
    }));
    if let (Some((low, _)), Some((_, high))) = (others.first(), others.last()) {
        let places = others.len();
        faults.push(format!("more packs are missing at {places} places between pack {low} and pack {high}"));
    }
    let mut missing = MissingPacks::None;
    for &(low, high) in gaps.ranges() {
        let sealed = before.packs.range(low..=high).filter(|(_, state)| state.sealed).count();
        let is_in_old = sealed as u64 == u64::from(high - low) + 1;
        missing = missing.max(if is_in_old { MissingPacks::InOldIndex } else { MissingPacks::Unknown });
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::packs::PackState;

    fn old(packs: &[(u32, u64)]) -> OldPacks {
        let state = |end| PackState { end, sealed: true, ..PackState::default() };
        let packs = packs.iter().map(|(number, end)| (*number, state(*end))).collect();
        OldPacks { packs, ..OldPacks::default() }
    }

    /// What is missing before the next pack of the old index.
    fn missing(found: &Survey, before: &OldPacks, next: u32) -> (MissingPacks, Vec<String>) {
        let mut faults = Vec::new();
        (missing_packs(found, before, next, &mut faults), faults)
    }

    #[test]
    fn packs_that_were_empty_or_retired_are_not_missing() {
        let found = Survey { empty: [4].into(), retired: NumSet::range(5, 6), ..Survey::default() };
        let before = OldPacks { retired: [1].into(), ..old(&[(2, 0), (3, 700)]) };
        let (kind, faults) = missing(&found, &before, 7);
        assert_eq!((kind, faults.len()), (MissingPacks::InOldIndex, 1), "{faults:?}");
        assert!(faults[0].starts_with("pack 3 is missing"), "{faults:?}");
        let (kind, faults) = missing(&found, &before, 10);
        assert_eq!((kind, faults.len()), (MissingPacks::Unknown, 2), "{faults:?}");
        assert!(faults[1].starts_with("packs 7 to 9 are missing"), "{faults:?}");
        assert_eq!(missing(&Survey::default(), &OldPacks::default(), 0).0, MissingPacks::None);
    }

    /// A sentence for each took fifty times as much memory as the checkpoint that leaves it out.
    #[test]
    fn many_gaps_between_packs_take_few_sentences() {
        let retired = |last: u32| -> NumSet { (2..=last).step_by(2).collect() };
        let few = Survey { retired: retired(1_000), ..Survey::default() };
        let (kind, faults) = missing(&few, &OldPacks::default(), 1_001);
        assert_eq!((kind, faults.len()), (MissingPacks::Unknown, 500));
        let many = Survey { retired: retired(100_000), ..Survey::default() };
        let (kind, faults) = missing(&many, &OldPacks::default(), 100_001);
        assert_eq!((kind, faults.len()), (MissingPacks::Unknown, SENTENCES_MAX + 1));
        let last = "more packs are missing at 49000 places between pack 2001 and pack 99999";
        assert_eq!(faults.last().map(String::as_str), Some(last));
    }

    /// A sentence for each would take 400 GB.
    #[test]
    fn four_billion_missing_packs_take_one_sentence() {
        let (kind, faults) = missing(&Survey::default(), &old(&[(9, 700)]), u32::MAX);
        assert_eq!((kind, faults.len()), (MissingPacks::Unknown, 1), "{faults:?}");
    }
}
