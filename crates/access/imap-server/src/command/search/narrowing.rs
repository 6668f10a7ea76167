//! Bounds of a search: the flags that each match must have, and sets that contain each match.
//! They narrow a search down before a message is read.

use std::sync::Arc;

use posthaste_mail_model::{FlagSet, NumSet, SeqNum};
use posthaste_store::View;

use super::criteria::{Criterion, Question, Watched};
use crate::offload::{range_steps, row_steps};

/// Most sets used to narrow down which messages are evaluated.
const SETS_MAX: usize = 16;

impl Question {
    /// Steps of one operation on all sets of the criterion, and of one comparison of the flags.
    pub(super) fn narrowing_steps(&self, view: &View) -> u64 {
        let rows =
            if self.criterion.flags() == (FlagSet::EMPTY, FlagSet::EMPTY) { 0 } else { row_steps(view) };
        rows + self.within_steps()
    }

    /// Steps of [`Criterion::within`].
    pub(super) fn within_steps(&self) -> u64 {
        range_steps(self.criterion.ranges_to_narrow())
    }
}

impl Criterion {
    /// The flags that every match must have and must lack, as far as they are known. They let the
    /// view skip whole chunks.
    pub(super) fn flags(&self) -> (FlagSet, FlagSet) {
        match self {
            Self::Flags { with, without } => (*with, *without),
            Self::And(all) => all
                .iter()
                .map(Self::flags)
                .fold((FlagSet::EMPTY, FlagSet::EMPTY), |a, b| (a.0.union(b.0), a.1.union(b.1))),
            _ => (FlagSet::EMPTY, FlagSet::EMPTY),
        }
    }

    pub(super) fn watch(&self, watched: &mut Watched) {
        match self {
            Self::And(all) => all.iter().for_each(|criterion| criterion.watch(watched)),
            Self::Or(a, b) => {
                a.watch(watched);
                b.watch(watched);
            }
            Self::Not(inner) => inner.watch(watched),
            Self::Flags { with, without } => watched.flags = watched.flags.union(*with).union(*without),
            Self::ModSeq(_) => watched.modseq = true,
            _ => {}
        }
    }

    /// The number of ranges, if the criterion is a set.
    fn ranges(&self) -> Option<usize> {
        match self {
            Self::Seqs(seqs) => Some(seqs.ranges().len()),
            Self::Uids(uids) => Some(uids.ranges().len()),
            _ => None,
        }
    }

    /// The number of ranges that [`Self::within`] works on.
    fn ranges_to_narrow(&self) -> usize {
        match self {
            Self::And(all) => all.iter().filter_map(Self::ranges).sum(),
            Self::Or(a, b) => a.ranges().zip(b.ranges()).map_or(0, |(a, b)| a + b),
            _ => self.ranges().unwrap_or(0),
        }
    }

    /// A set that several keys may share, and whether it is negated.
    pub(super) fn shared_set(&self) -> Option<(*const NumSet, bool)> {
        match self {
            Self::Uids(uids) | Self::Recent(uids) => Some((Arc::as_ptr(uids), false)),
            Self::Not(inner) => match &**inner {
                Self::Uids(uids) | Self::Recent(uids) => Some((Arc::as_ptr(uids), true)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Sequence numbers that contain each match; `None` if the key does not bound them.
    pub(super) fn within(&self, view: &View) -> Option<NumSet<SeqNum>> {
        match self {
            Self::Seqs(seqs) => Some(NumSet::clone(seqs)),
            Self::Uids(uids) => Some(view.seqs_of_uids(uids)),
            // The few smallest sets suffice. The others are evaluated message by message.
            Self::And(all) => {
                let mut sets: Vec<&Self> = all.iter().filter(|c| c.ranges().is_some()).collect();
                sets.sort_by_key(|c| c.ranges());
                let sets = sets.into_iter().take(SETS_MAX);
                sets.filter_map(|c| c.within(view)).reduce(|a, b| a.intersection(&b))
            }
            Self::Or(a, b) if a.ranges().is_some() && b.ranges().is_some() => {
                Some(a.within(view)?.union(&b.within(view)?))
            }
            _ => None,
        }
    }
}
