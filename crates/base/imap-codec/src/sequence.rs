//! Sets of message numbers as written, before `*` and `$` are resolved.

use std::num::NonZeroU32;

use posthaste_mail_model::{NumSet, SeqNum, Uid};

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

/// A range as it is written: `3`, `1:*`, `9:5`. A single number is a range from itself to itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SetRange {
    /// The end written first.
    pub from: Bound,
    /// The other end. It may be the lower one.
    pub to: Bound,
}

impl SetRange {
    /// The count of its numbers, where `*` is `largest`.
    pub fn count(self, largest: u32) -> u64 {
        u64::from(self.from.resolve(largest).abs_diff(self.to.resolve(largest))) + 1
    }
}

/// `sequence-set` of RFC 9051 §9, with the `$` of RFC 5182 §2.1. Sequence numbers ([`SeqSet`])
/// and UIDs ([`UidSet`]) share this grammar.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SequenceSet {
    /// Ranges as written, in any order. Never empty.
    Ranges(Vec<SetRange>),
    /// `$`: the result that a `SEARCH RETURN (SAVE)` kept. The ranges that the set also has
    /// (`sequence-set =/ seq-last-command`), mostly none.
    Saved(Vec<SetRange>),
}

impl SequenceSet {
    /// `1:*`.
    pub fn all() -> Self {
        Self::Ranges(vec![SetRange { from: Bound::Number(NonZeroU32::MIN), to: Bound::Largest }])
    }

    /// `sequence-set`, `$` included.
    pub(crate) fn parse(c: &mut Cursor<'_>) -> Parsed<Self> {
        let (mut ranges, mut has_saved) = (Vec::new(), false);
        for _ in 0..SET_RANGES_MAX {
            if c.eat(b'$') {
                has_saved = true;
            } else {
                let from = bound(c, "a message number, * or $")?;
                let to = if c.eat(b':') { bound(c, "a message number or *")? } else { from };
                ranges.push(SetRange { from, to });
            }
            if !c.eat(b',') {
                return Ok(if has_saved { Self::Saved(ranges) } else { Self::Ranges(ranges) });
            }
        }
        c.limit("The set has too many ranges")
    }

    /// Whether `$` is in it.
    pub fn has_saved(&self) -> bool {
        matches!(self, Self::Saved(_))
    }

    /// The ranges, without `$`.
    pub fn ranges(&self) -> &[SetRange] {
        match self {
            Self::Ranges(ranges) | Self::Saved(ranges) => ranges,
        }
    }

    /// One number, or `*` if that may be.
    pub(crate) fn one(c: &mut Cursor<'_>, may_be_largest: bool) -> Parsed<Self> {
        if !may_be_largest && c.peek() == Some(b'*') {
            return c.fail("a UID");
        }
        let from = bound(c, "a message number")?;
        Ok(Self::Ranges(vec![SetRange { from, to: from }]))
    }

    /// The numbers of the ranges, where `*` is `largest` (0: the mailbox is empty, and `*` names
    /// nothing). `5:*` holds the largest even where that is below 5 (RFC 9051 §9, seq-range).
    /// Numbers above `largest` stay in. `$` adds none.
    fn numbers<N>(&self, largest: u32) -> NumSet<N> {
        let named =
            |range: &&SetRange| largest > 0 || (range.from != Bound::Largest && range.to != Bound::Largest);
        let ranges = self.ranges().iter().filter(named);
        NumSet::from_ranges(ranges.map(|range| (range.from.resolve(largest), range.to.resolve(largest))))
    }
}

/// `seq-number`: a number, or `*`.
fn bound(c: &mut Cursor<'_>, expected: &'static str) -> Parsed<Bound> {
    if c.eat(b'*') {
        return Ok(Bound::Largest);
    }
    let at = c.clone();
    match Bound::number(c.nz_number(expected)?) {
        Some(bound) => Ok(bound),
        None => at.fail("a message number that is not 0"),
    }
}

/// A set of message sequence numbers, as written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SeqSet(pub SequenceSet);

impl SeqSet {
    /// The sequence numbers in a mailbox of this many messages. Numbers above that stay in: a
    /// server refuses them (RFC 9051 §9, seq-number). Without `$`, which is kept as UIDs.
    pub fn resolve(&self, exists: u32) -> NumSet<SeqNum> {
        self.0.numbers(exists)
    }
}

/// A set of UIDs, as written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UidSet(pub SequenceSet);

impl UidSet {
    /// The UIDs in a mailbox whose last UID is `last`, and whose saved search result is `saved`.
    /// UIDs above `last` stay in: a server passes over those that do not exist (RFC 9051 §6.4.9).
    pub fn resolve(&self, last: Option<Uid>, saved: &NumSet) -> NumSet {
        let numbers = self.0.numbers(last.map_or(0, Uid::value));
        if self.0.has_saved() { numbers.union(saved) } else { numbers }
    }
}

/// The messages that a command names, by sequence number or, with `UID` before it, by UID.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum MessageSet {
    /// By sequence number.
    Seq(SeqSet),
    /// By UID.
    Uid(UidSet),
}

impl MessageSet {
    /// A set with the numbering that its command has.
    pub const fn new(numbering: Numbering, written: SequenceSet) -> Self {
        match numbering {
            Numbering::Seq => Self::Seq(SeqSet(written)),
            Numbering::Uid => Self::Uid(UidSet(written)),
        }
    }

    /// Whether its numbers are UIDs or sequence numbers.
    pub const fn numbering(&self) -> Numbering {
        match self {
            Self::Seq(_) => Numbering::Seq,
            Self::Uid(_) => Numbering::Uid,
        }
    }

    /// The set as it is written.
    pub const fn written(&self) -> &SequenceSet {
        match self {
            Self::Seq(SeqSet(written)) | Self::Uid(UidSet(written)) => written,
        }
    }
}

/// A set of known numbers: one range for each of its ranges. An error for the empty set, which the
/// grammar cannot write.
impl<N> TryFrom<&NumSet<N>> for SequenceSet {
    type Error = EmptySet;

    fn try_from(set: &NumSet<N>) -> Result<Self, EmptySet> {
        let range = |&(a, b): &(u32, u32)| Some(SetRange { from: Bound::number(a)?, to: Bound::number(b)? });
        let ranges: Vec<_> = set.ranges().iter().filter_map(range).collect();
        if ranges.is_empty() { Err(EmptySet) } else { Ok(Self::Ranges(ranges)) }
    }
}

/// The grammar has no empty set of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a sequence set names at least one message")]
pub struct EmptySet;

/// `uid-set` of RFC 4315 §4 in the order it is written. COPYUID pairs the numbers of two of them by
/// place, and a server may have copied in any order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct UidRanges(pub Vec<(u32, u32)>);

impl UidRanges {
    /// The number of UIDs.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|&(a, b)| u64::from(a.abs_diff(b)) + 1).sum()
    }

    /// The UIDs in order; a range written backwards counts up anyway (RFC 4315 §3).
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
        SequenceSet::Ranges(
            ranges.iter().map(|&(from, to)| SetRange { from: bound(from), to: bound(to) }).collect(),
        )
    }

    #[test]
    fn a_star_is_the_largest_number_on_either_side() {
        let seqs = |set: SequenceSet, exists| SeqSet(set).resolve(exists).to_string();
        assert_eq!(seqs(SequenceSet::all(), 5), "1:5");
        assert_eq!(seqs(set(&[(9, 0)]), 5), "5:9");
        assert_eq!(seqs(set(&[(0, 2), (7, 7), (0, 0)]), 4), "2:4,7");
        assert_eq!(seqs(set(&[(1, 0), (3, 3)]), 0), "3");
        let uids = UidSet(set(&[(9, 0)])).resolve(Uid::new(5), &NumSet::range(1, 1));
        assert_eq!(uids.to_string(), "5:9");
        assert_eq!(UidSet(set(&[(1, 0), (3, 3)])).resolve(None, &NumSet::new()).to_string(), "3");
    }

    #[test]
    fn a_range_counts_its_numbers() {
        let counts: Vec<u64> =
            set(&[(3, 3), (9, 5), (4, 0), (9, 0)]).ranges().iter().map(|range| range.count(7)).collect();
        assert_eq!(counts, [1, 5, 4, 3]);
    }

    #[test]
    fn the_saved_result_is_uids_in_either_numbering() {
        let saved = NumSet::range(2, 3);
        assert_eq!(UidSet(SequenceSet::Saved(Vec::new())).resolve(Uid::new(4), &saved), saved);
        assert!(SeqSet(SequenceSet::Saved(Vec::new())).resolve(4).is_empty());
        let SequenceSet::Ranges(ranges) = set(&[(7, 7), (0, 0)]) else { panic!("ranges") };
        let both = SequenceSet::Saved(ranges);
        assert_eq!(UidSet(both.clone()).resolve(Uid::new(9), &saved).to_string(), "2:3,7,9");
        assert_eq!(SeqSet(both).resolve(9).to_string(), "7,9");
    }

    #[test]
    fn a_uid_set_counts_up_in_written_order() {
        let set = UidRanges(vec![(7, 7), (3, 1)]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [7, 1, 2, 3]);
        assert_eq!(set.count(), 4);
    }
}
