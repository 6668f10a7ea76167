//! Keys that rows decide alone (dates, sizes, mod-sequences, flags) as one comparison of numbers.
//!
//! A row is 28 bytes, and a listing of rows is read at the speed of memory. A general evaluation of
//! keys costs ten times as much.

use std::ops::Range;

use posthaste_mail_model::{FlagSet, ModSeq, NumSet, SeqNum};
use posthaste_store::{Row, View};

use super::criteria::Criterion;
use crate::heavy::Pace;
use crate::offload::RANGE_STEPS;

/// Steps for a row that is compared and perhaps added to the result. The rows of a large mailbox
/// are in no cache of the processor, and cost four times as much as those of a small one.
const ROW_STEPS: u64 = 16;

/// The conditions that a row must meet to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowFilter {
    /// Internal dates, unix seconds.
    dates: Range<i64>,
    sizes: Range<u64>,
    modseq: ModSeq,
    with: FlagSet,
    without: FlagSet,
}

impl RowFilter {
    /// The filter of a criterion that rows decide alone, without any set of messages.
    pub(super) fn of(criterion: &Criterion) -> Option<Self> {
        let mut filter = Self {
            dates: i64::MIN..i64::MAX,
            sizes: 0..u64::MAX,
            modseq: ModSeq::ZERO,
            with: FlagSet::EMPTY,
            without: FlagSet::EMPTY,
        };
        match criterion {
            Criterion::And(all) => all.iter().try_for_each(|criterion| filter.narrow(criterion))?,
            one => filter.narrow(one)?,
        }
        Some(filter)
    }

    /// Adds a criterion; `None` if more than the row is needed.
    fn narrow(&mut self, criterion: &Criterion) -> Option<()> {
        match criterion {
            Criterion::All => {}
            Criterion::Flags { with, without } => {
                self.with = self.with.union(*with);
                self.without = self.without.union(*without);
            }
            Criterion::Arrived { from, to } => {
                self.dates = self.dates.start.max(*from)..self.dates.end.min(*to);
            }
            Criterion::Larger(size) => self.sizes.start = self.sizes.start.max(size.saturating_add(1)),
            Criterion::Smaller(size) => self.sizes.end = self.sizes.end.min(*size),
            Criterion::ModSeq(modseq) => self.modseq = self.modseq.max(*modseq),
            _ => return None,
        }
        Some(())
    }

    /// Whether the rows of a view decide: those of messages without items do not have their sizes.
    pub(super) fn decides(&self, view: &View) -> bool {
        self.sizes == (0..u64::MAX) || view.counts().without_items() == 0
    }

    #[inline]
    fn has(&self, row: &Row) -> bool {
        let flags = row.flags();
        self.dates.contains(&i64::from(row.date()))
            && self.sizes.contains(&u64::from(row.size()))
            && row.modseq() >= self.modseq
            && flags.contains(self.with)
            && flags.bits() & self.without.bits() == 0
    }

    /// The candidates that match.
    pub(super) async fn matching(
        &self,
        view: &View,
        candidates: &NumSet<SeqNum>,
        pace: &mut Pace,
    ) -> NumSet<SeqNum> {
        let mut found = NumSet::new();
        for (seq, rows) in view.runs(candidates) {
            for (seq, row) in (seq.value()..).zip(rows) {
                if self.has(row) {
                    found.push(seq);
                }
            }
            pace.worked(RANGE_STEPS + rows.len() as u64 * ROW_STEPS).await;
        }
        found
    }
}
