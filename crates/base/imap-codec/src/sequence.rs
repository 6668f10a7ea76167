//! Sets of message numbers as they are written, before anyone knows what `*` and `$` mean.

use std::num::NonZeroU32;

use posthaste_mail_model::NumSet;

use crate::cursor::{Cursor, Parsed};
use crate::limits::SET_RANGES_MAX;

/// Whether numbers are sequence numbers or UIDs: the `UID` before FETCH, STORE, COPY, MOVE, SEARCH.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Numbering {
    /// Message sequence numbers.
    Seq,
    /// Unique identifiers.
    Uid,
}

/// One end of a range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bound {
    /// A number.
    Number(NonZeroU32),
    /// `*`: the largest number in use.
    Largest,
}

impl Bound {
    /// The bound of a number; `None` for 0.
    pub fn number(n: u32) -> Option<Self> {
        NonZeroU32::new(n).map(Self::Number)
    }

    fn resolve(self, largest: u32) -> u32 {
        match self {
            Self::Number(n) => n.get(),
            Self::Largest => largest,
        }
    }
}

/// `sequence-set` of RFC 9051 §9, or `$` of RFC 5182 §2.1.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SequenceSet {
    /// Ranges as written, in any order; a single number is a range from itself to itself. Never
    /// empty.
    Ranges(Vec<(Bound, Bound)>),
    /// `$`: the result that a `SEARCH RETURN (SAVE)` kept.
    Saved,
}

impl SequenceSet {
    /// `1:*`.
    pub fn all() -> Self {
        Self::Ranges(vec![(Bound::Number(NonZeroU32::MIN), Bound::Largest)])
    }

    /// `sequence-set`, `$` included.
    pub(crate) fn parse(c: &mut Cursor<'_>) -> Parsed<Self> {
        if c.eat(b'$') {
            return Ok(Self::Saved);
        }
        let bound = |c: &mut Cursor<'_>| {
            if c.eat(b'*') {
                return Ok(Bound::Largest);
            }
            let at = c.clone();
            match Bound::number(c.nz_number("a message number, * or $")?) {
                Some(bound) => Ok(bound),
                None => at.fail("a message number that is not 0"),
            }
        };
        let mut ranges = Vec::new();
        loop {
            if ranges.len() == SET_RANGES_MAX {
                return c.limit("The set has too many ranges");
            }
            let low = bound(c)?;
            let high = if c.eat(b':') { bound(c)? } else { low };
            ranges.push((low, high));
            if !c.eat(b',') {
                return Ok(Self::Ranges(ranges));
            }
        }
    }

    /// What the set means in a mailbox whose largest number is `largest` (0: it is empty, and `*`
    /// names nothing) and whose saved search result is `saved`. `5:*` holds the largest even where
    /// that is below 5 (RFC 9051 §9, seq-range). Numbers above `largest` stay in: a server refuses
    /// them in a sequence-number set and passes over them in a UID set.
    pub fn resolve(&self, largest: u32, saved: &NumSet) -> NumSet {
        match self {
            Self::Saved => saved.clone(),
            Self::Ranges(ranges) => NumSet::from_ranges(
                ranges
                    .iter()
                    .filter(|(a, b)| largest > 0 || (*a != Bound::Largest && *b != Bound::Largest))
                    .map(|(a, b)| (a.resolve(largest), b.resolve(largest))),
            ),
        }
    }
}

/// A set of known numbers: one range for each of its ranges. `None` for the empty set, which the
/// grammar cannot write.
impl TryFrom<&NumSet> for SequenceSet {
    type Error = EmptySet;

    fn try_from(set: &NumSet) -> Result<Self, EmptySet> {
        let pair = |&(a, b): &(u32, u32)| Some((Bound::number(a)?, Bound::number(b)?));
        let ranges: Vec<_> = set.ranges().iter().filter_map(pair).collect();
        if ranges.is_empty() { Err(EmptySet) } else { Ok(Self::Ranges(ranges)) }
    }
}

/// The grammar has no empty set of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a sequence set names at least one message")]
pub struct EmptySet;

/// `uid-set` of RFC 4315 §4 in the order it is written: COPYUID pairs the numbers of two of them
/// by place, and a server may have copied in any order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct UidRanges(pub Vec<(u32, u32)>);

impl UidRanges {
    /// How many UIDs.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|&(a, b)| u64::from(a.abs_diff(b)) + 1).sum()
    }

    /// The UIDs in order; a range written backwards counts up all the same (RFC 4315 §3).
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|&(a, b)| a.min(b)..=a.max(b))
    }
}

impl From<&NumSet> for UidRanges {
    fn from(set: &NumSet) -> Self {
        Self(set.ranges().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(u32, u32)]) -> SequenceSet {
        let bound = |n| Bound::number(n).unwrap_or(Bound::Largest);
        SequenceSet::Ranges(ranges.iter().map(|&(a, b)| (bound(a), bound(b))).collect())
    }

    #[test]
    fn a_star_is_the_largest_whichever_side_it_stands() {
        let none = NumSet::new();
        assert_eq!(SequenceSet::all().resolve(5, &none).to_string(), "1:5");
        assert_eq!(set(&[(9, 0)]).resolve(5, &none).to_string(), "5:9");
        assert_eq!(set(&[(0, 2), (7, 7), (0, 0)]).resolve(4, &none).to_string(), "2:4,7");
        assert_eq!(set(&[(1, 0), (3, 3)]).resolve(0, &none).to_string(), "3");
        assert_eq!(SequenceSet::Saved.resolve(4, &NumSet::range(2, 3)).to_string(), "2:3");
    }

    #[test]
    fn a_uid_set_counts_up_in_written_order() {
        let set = UidRanges(vec![(7, 7), (3, 1)]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [7, 1, 2, 3]);
        assert_eq!(set.count(), 4);
    }
}
