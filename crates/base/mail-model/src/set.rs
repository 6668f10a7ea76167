//! A set of numbers as sorted, disjoint, non-touching ranges: the meaning of a sequence set once
//! `*` is known.
//!
//! A folder of a million messages is one range. Only iteration has a cost per message.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use crate::ids::Uid;

/// A set of numbers of one kind: UIDs, or sequence numbers as `NumSet<SeqNum>`. A set of one kind
/// is not accepted where another is meant. Only a view of a mailbox turns one into the other.
///
/// ```
/// # use posthaste_mail_model::{NumSet, SeqNum};
/// fn expunge(uids: &NumSet) {}
/// let uids: NumSet = NumSet::range(1, 3);
/// expunge(&uids);
/// ```
///
/// ```compile_fail,E0308
/// # use posthaste_mail_model::{NumSet, SeqNum};
/// fn expunge(uids: &NumSet) {}
/// let seqs: NumSet<SeqNum> = NumSet::range(1, 3);
/// expunge(&seqs);
/// ```
///
/// Ranges are sorted, do not overlap and do not touch.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NumSet<N = Uid> {
    ranges: Vec<(u32, u32)>,
    kind: PhantomData<N>,
}

/// The kind of numbers that a response names in the numbering of its command, which it does not
/// repeat. A set of them can only be printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResponseNum {}

impl<N> NumSet<N> {
    /// The empty set.
    pub const fn new() -> Self {
        Self { ranges: Vec::new(), kind: PhantomData }
    }

    /// The numbers, for a response that does not say whether they are UIDs.
    pub fn into_response(self) -> NumSet<ResponseNum> {
        NumSet { ranges: self.ranges, kind: PhantomData }
    }

    /// The set of ranges in any order, overlapping or not; a range written backwards is turned
    /// (RFC 9051 §9, seq-range).
    pub fn from_ranges(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut all: Vec<(u32, u32)> = ranges.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
        all.sort_unstable();
        let mut set = Self::new();
        for (low, high) in all {
            set.push_range(low, high);
        }
        set
    }

    /// The set of all of `low..=high`; empty if `low > high`.
    pub fn range(low: u32, high: u32) -> Self {
        if low > high { Self::new() } else { Self { ranges: vec![(low, high)], kind: PhantomData } }
    }

    /// Adds a number not below any in the set: the cheap way to build one in order.
    pub fn push(&mut self, n: u32) {
        self.push_range(n, n);
    }

    /// Adds a range that starts at or after the start of the last one.
    pub fn push_range(&mut self, low: u32, high: u32) {
        debug_assert!(low <= high && self.ranges.last().is_none_or(|r| r.0 <= low));
        match self.ranges.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => self.ranges.push((low, high)),
        }
    }

    /// The ranges, lowest first.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// Whether `n` is in the set. Logarithmic in the number of ranges.
    pub fn contains(&self, n: u32) -> bool {
        let at = self.ranges.partition_point(|r| r.1 < n);
        self.ranges.get(at).is_some_and(|r| r.0 <= n)
    }

    /// The number of numbers in the set.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|r| u64::from(r.1 - r.0) + 1).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest number.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|r| r.0)
    }

    /// The highest number.
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|r| r.1)
    }

    /// Every number, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|&(low, high)| RangeInclusive::new(low, high))
    }

    /// The set in slices of at most this many numbers, lowest first.
    pub fn slices(&self, most: u64) -> impl Iterator<Item = Self> + '_ {
        let (mut ranges, mut begun) = (self.ranges.iter().copied(), None::<(u32, u32)>);
        std::iter::from_fn(move || {
            let (mut slice, mut room) = (Self::new(), most.max(1));
            while room > 0
                && let Some((low, high)) = begun.take().or_else(|| ranges.next())
            {
                let last = high.min(u32::try_from(u64::from(low) + room - 1).unwrap_or(u32::MAX));
                slice.push_range(low, last);
                room -= u64::from(last - low) + 1;
                begun = (last < high).then(|| (last + 1, high));
            }
            (!slice.is_empty()).then_some(slice)
        })
    }

    /// Numbers in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::new();
        let (mut a, mut b) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let (low, high) = (x.0.max(y.0), x.1.min(y.1));
            if low <= high {
                out.push_range(low, high);
            }
            if x.1 < y.1 {
                a.next();
            } else {
                b.next();
            }
        }
        out
    }

    /// Numbers in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::from_ranges(self.ranges.iter().chain(&other.ranges).copied())
    }

    /// Numbers of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut out = Self::new();
        let mut holes = other.ranges.iter().peekable();
        for &(mut low, high) in &self.ranges {
            let mut open = true;
            while let Some(&&(hole_low, hole_high)) = holes.peek() {
                if hole_high < low {
                    holes.next();
                    continue;
                }
                if hole_low > high {
                    break;
                }
                if hole_low > low {
                    out.push_range(low, hole_low - 1);
                }
                if hole_high >= high {
                    open = false;
                    break;
                }
                low = hole_high + 1;
                holes.next();
            }
            if open {
                out.push_range(low, high);
            }
        }
        out
    }
}

impl<N> Default for NumSet<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N> FromIterator<u32> for NumSet<N> {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        Self::from_ranges(numbers.into_iter().map(|n| (n, n)))
    }
}

/// As IMAP writes it: `1:3,7` (RFC 9051 §9, sequence-set). The empty set prints nothing.
impl<N> fmt::Display for NumSet<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (low, high)) in self.ranges.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if low == high { write!(f, "{comma}{low}")? } else { write!(f, "{comma}{low}:{high}")? }
        }
        Ok(())
    }
}

impl<N> fmt::Debug for NumSet<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NumSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn small_ranges() -> impl Strategy<Value = Vec<(u32, u32)>> {
        prop::collection::vec((1u32..60, 0u32..8).prop_map(|(a, n)| (a, a + n)), 0..8)
    }

    fn naive(ranges: &[(u32, u32)]) -> BTreeSet<u32> {
        ranges.iter().flat_map(|&(a, b)| a..=b).collect()
    }

    properties! {
        #[test]
        fn it_is_a_set(a in small_ranges(), b in small_ranges()) {
            let (x, y): (NumSet, NumSet) = (NumSet::from_ranges(a.clone()), NumSet::from_ranges(b.clone()));
            let (p, q) = (naive(&a), naive(&b));
            prop_assert_eq!(x.iter().collect::<BTreeSet<_>>(), p.clone());
            prop_assert_eq!(x.count(), p.len() as u64);
            prop_assert!((0..70).all(|n| x.contains(n) == p.contains(&n)));
            let same = |set: NumSet, naive: BTreeSet<u32>| set == naive.into_iter().collect::<NumSet>();
            prop_assert!(same(x.intersection(&y), &p & &q));
            prop_assert!(same(x.union(&y), &p | &q));
            prop_assert!(same(x.difference(&y), &p - &q));
        }

        #[test]
        fn slices_are_the_set_in_order(a in small_ranges(), most in 0u64..20) {
            let x: NumSet = NumSet::from_ranges(a);
            let slices: Vec<NumSet> = x.slices(most).collect();
            let together: Vec<u32> = slices.iter().flat_map(NumSet::iter).collect();
            prop_assert_eq!(together, x.iter().collect::<Vec<_>>());
            prop_assert!(slices.iter().rev().skip(1).all(|slice| slice.count() == most.max(1)));
            prop_assert!(slices.last().is_none_or(|slice| slice.count() <= most.max(1)));
            let to_the_end: NumSet = NumSet::range(u32::MAX - 3, u32::MAX);
            prop_assert_eq!(to_the_end.slices(3).count(), 2);
        }
    }

    #[test]
    fn it_prints_as_imap_writes_it() {
        let set: NumSet = NumSet::from_ranges([(9, 7), (1, 3), (4, 4), (u32::MAX, u32::MAX)]);
        assert_eq!(set.to_string(), "1:4,7:9,4294967295");
    }
}
