//! Pages of a result: PARTIAL of RFC 9394 §3.1, §3.3 and §4.

use std::num::NonZeroU32;

use posthaste_mail_model::NumSet;

use crate::cursor::{Cursor, Parsed};

/// `partial-range` of RFC 9394 §4: places in a result, in the order they were written. `500:400`
/// is the same as `400:500`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PageRange {
    /// `1:100`: 1 is the match with the lowest UID.
    First(NonZeroU32, NonZeroU32),
    /// `-1:-100`: -1 is the match with the highest UID.
    Last(NonZeroU32, NonZeroU32),
}

impl PageRange {
    /// `partial-range-first / partial-range-last`: both ends have the same sign, and neither is
    /// `*`.
    pub(crate) fn parse(c: &mut Cursor<'_>) -> Parsed<Self> {
        let place = |c: &mut Cursor<'_>| {
            let at = c.clone();
            match NonZeroU32::new(c.nz_number("a place in the result, from 1")?) {
                Some(place) => Ok(place),
                None => at.fail("a place in the result, from 1"),
            }
        };
        let from_last = c.eat(b'-');
        let from = place(c)?;
        c.expect(b':', ": and the other end of the range")?;
        if from_last {
            c.expect(b'-', "- before the other end, too")?;
        }
        let to = place(c)?;
        Ok(if from_last { Self::Last(from, to) } else { Self::First(from, to) })
    }

    /// The two places, the lower first.
    pub fn places(self) -> (u32, u32) {
        let (Self::First(a, b) | Self::Last(a, b)) = self;
        (a.min(b).get(), a.max(b).get())
    }

    /// The numbers of a result that are on this page. The cost is that of the set's ranges.
    pub fn of<N>(self, found: &NumSet<N>) -> NumSet<N> {
        let (low, high) = self.places();
        let skipped = u64::from(low - 1);
        let wanted = u64::from(high) - skipped;
        match self {
            Self::First(..) => first(found, skipped, wanted),
            Self::Last(..) => {
                // Places from the end, counted from the beginning.
                let end = found.count().saturating_sub(skipped);
                let start = end.saturating_sub(wanted);
                first(found, start, end - start)
            }
        }
    }
}

/// So many numbers of a set, after the first `skipped`.
fn first<N>(set: &NumSet<N>, mut skipped: u64, mut wanted: u64) -> NumSet<N> {
    let mut page = NumSet::new();
    for &(low, high) in set.ranges() {
        if wanted == 0 {
            break;
        }
        let count = u64::from(high - low) + 1;
        if skipped >= count {
            skipped -= count;
            continue;
        }
        let taken = wanted.min(count - skipped);
        // Both are less than `count`, so the sums are at most `high`.
        let from = low + skipped as u32;
        page.push_range(from, from + (taken - 1) as u32);
        (skipped, wanted) = (0, wanted - taken);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    #[test]
    fn a_page_is_what_counting_gives() {
        let found: NumSet = NumSet::from_ranges([(2, 4), (7, 7), (9, 12), (u32::MAX, u32::MAX)]);
        let all: Vec<u32> = found.iter().collect();
        for a in 1..=11u32 {
            for b in 1..=11u32 {
                let (low, high) = (a.min(b) as usize, a.max(b) as usize);
                let counted = |numbers: &[u32]| -> NumSet {
                    numbers.iter().skip(low - 1).take(high + 1 - low).copied().collect()
                };
                assert_eq!(PageRange::First(n(a), n(b)).of(&found), counted(&all), "{a}:{b}");
                let mut backwards = all.clone();
                backwards.reverse();
                let mut page: Vec<u32> =
                    backwards.iter().skip(low - 1).take(high + 1 - low).copied().collect();
                page.reverse();
                assert_eq!(PageRange::Last(n(a), n(b)).of(&found), page.into_iter().collect(), "-{a}:-{b}");
            }
        }
    }

    #[test]
    fn the_largest_places() {
        let all: NumSet = NumSet::range(1, u32::MAX);
        assert_eq!(PageRange::Last(n(u32::MAX), n(1)).of(&all), all);
        let few: NumSet = NumSet::range(1, 9);
        assert!(PageRange::First(n(u32::MAX), n(u32::MAX)).of(&few).is_empty());
    }
}
