//! Packs that are missing between the others.

use posthaste_mail_model::NumSet;

use super::survey::{OldPacks, Survey};

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
    let mut missing = MissingPacks::None;
    // One by one, the missing packs before a forged number would take gigabytes.
    for &(low, high) in NumSet::range(1, highest).difference(&known).ranges() {
        faults.push(match low == high {
            true => format!("pack {low} is missing: restore it, or lose the mail in it"),
            false => format!("packs {low} to {high} are missing: restore them, or lose the mail in them"),
        });
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

    /// A sentence for each would take 400 GB.
    #[test]
    fn four_billion_missing_packs_take_one_sentence() {
        let (kind, faults) = missing(&Survey::default(), &old(&[(9, 700)]), u32::MAX);
        assert_eq!((kind, faults.len()), (MissingPacks::Unknown, 1), "{faults:?}");
    }
}
