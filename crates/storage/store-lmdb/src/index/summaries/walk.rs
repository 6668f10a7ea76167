//! The walk along the summaries of one mailbox, with one cursor for ranges that lie close together.
//!
//! Invariants: UIDs are visited or reported in ascending order, each once. The walk keeps the rest
//! of the set ([`RemainingRange`]). A record may only shorten it from the front. So records out of
//! order, which damage may cause, can neither repeat a message nor hide one.

use std::ops::ControlFlow;

use heed::RoTxn;
use posthaste_mail_model::{MailboxId, Uid};
use posthaste_store::{Result, StoreError, Stored, Visit};

use super::progress::Progress;
use super::row_cache::RowCache;
use super::table;
use crate::index::Indexed;
use crate::index::checksum::seed;
use crate::index::chunk::uid_of;
use crate::index::links::{Follow, GAP};
use crate::index::prefetch::prefetch;
use crate::index::summaries::record::{Arrival, LINK_LEN, RecordKind, is_summary_good, summary_parts};
use crate::index::verified;
use crate::shared::Shared;

type Txn<'w> = RoTxn<'w, heed::WithoutTls>;

/// Octets of summaries between two pauses: their checksums take some 0.5 ms. The last summary may
/// exceed it by 10 MiB, which take some 3 ms. With a quarter of it, a listing of usual summaries
/// would pause as well.
const SLICE_OCTETS: usize = 2 << 20;

/// How a slice of a walk ended.
pub(crate) enum Walked {
    /// Everything was visited, or the visitor wants no more.
    Whole,
    /// Many octets were read, and the rest has to wait.
    Paused,
    /// The next messages are damaged, or lack a summary. They are in UID order.
    Damaged(Vec<u32>),
}

/// A walk over summaries of one mailbox.
pub(super) struct SummaryWalk<'w> {
    shared: &'w Shared,
    txn: &'w Txn<'w>,
    mailbox: MailboxId,
    seed: u64,
    verified: verified::VerifiedWalk<'w>,
    follow: Follow<'w>,
    rows: RowCache<'w>,
    progress: &'w mut Progress,
    /// The octets of the summaries that were visited.
    octets: usize,
    /// How the walk ends.
    end: Walked,
}

/// A range of requested UIDs, neither visited nor reported yet. 64 bits, so that the highest UID
/// has a successor.
#[derive(Clone, Copy)]
struct RemainingRange {
    low: u64,
    high: u64,
}

impl RemainingRange {
    fn of((low, high): (u32, u32)) -> Self {
        Self { low: u64::from(low), high: u64::from(high) }
    }
}

impl<'w> SummaryWalk<'w> {
    pub(super) fn new(shared: &'w Shared, txn: &'w Txn<'w>, progress: &'w mut Progress) -> Self {
        let mailbox = progress.mailbox;
        Self {
            shared,
            txn,
            mailbox,
            seed: seed(mailbox.0),
            verified: shared.verified.walk(mailbox),
            follow: Follow::new(&shared.index, txn, &shared.verified),
            rows: RowCache::new(&shared.index, mailbox),
            progress,
            octets: 0,
            end: Walked::Whole,
        }
    }

    /// How the walk ended.
    pub(super) fn end(self) -> Walked {
        self.end
    }

    /// Visits the summaries of these ranges in UID order, from where the call has come to up to the
    /// end of the slice.
    pub(super) fn visit_all(&mut self, ranges: &[(u32, u32)], visit: &mut Visit<'_>) -> Result<()> {
        let done = self.progress.after;
        let mut rest = &ranges[ranges.partition_point(|range| range.1 <= done)..];
        while !rest.is_empty() {
            let joined = 1 + rest.windows(2).take_while(|w| w[1].0 - w[0].1 <= GAP).count();
            let (span, after) = rest.split_at(joined.min(rest.len()));
            rest = after;
            if self.span(span, visit)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Visits the summaries of ranges that lie close together, with one cursor.
    fn span(&mut self, span: &[(u32, u32)], visit: &mut Visit<'_>) -> Result<ControlFlow<()>> {
        let Some(&(low, _)) = span.first() else { return Ok(ControlFlow::Continue(())) };
        // Only the first range may begin before the place that the call has come to.
        let low = low.max(self.progress.after.saturating_add(1));
        let mut ranges = span.iter().copied().map(RemainingRange::of);
        let mut rest = ranges.next().unwrap_or(RemainingRange { low: 1, high: 0 });
        rest.low = rest.low.max(u64::from(low));
        if !self.progress.is_broken {
            let there = match table::cursor_from(&self.shared.index, self.txn, self.mailbox, low) {
                Ok(there) => Some(there),
                Err(error) => self.stop_on(error).map(|()| None)?,
            };
            // No adapter over the cursor: each would copy the item again, which costs some 4 ns a
            // message.
            let Some(there) = there else { return self.absent_all(rest, ranges) };
            for item in there {
                let (key, value) = match item {
                    Ok(found) => found,
                    Err(error) => {
                        self.stop_on(error)?;
                        break;
                    }
                };
                if value.len() > LINK_LEN {
                    prefetch(value);
                }
                // After the mailbox's last record come those of another.
                let Some(uid) = uid_of(self.mailbox, key) else { break };
                while u64::from(uid) > rest.high {
                    if self.absent(rest)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    match ranges.next() {
                        Some(next) => rest = next,
                        None => return Ok(ControlFlow::Continue(())),
                    }
                }
                if u64::from(uid) < rest.low {
                    continue;
                }
                let before = RemainingRange { low: rest.low, high: u64::from(uid) - 1 };
                if before.low <= before.high && self.absent(before)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                rest.low = u64::from(uid) + 1;
                if self.record(uid, value, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        self.absent_all(rest, ranges)
    }

    /// The UIDs that the cursor did not reach.
    fn absent_all(
        &mut self,
        rest: RemainingRange,
        ranges: impl Iterator<Item = RemainingRange>,
    ) -> Result<ControlFlow<()>> {
        for left in std::iter::once(rest).chain(ranges) {
            if self.absent(left)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Goes on without this transaction if LMDB met a damaged page; any other error is the
    /// caller's.
    #[cold]
    fn stop_on(&mut self, error: heed::Error) -> Result<()> {
        match Err::<(), _>(error).indexed() {
            Err(StoreError::Corrupt(what)) => {
                tracing::error!(mailbox = %self.mailbox, %what, "a page of the index is damaged");
                self.progress.is_broken = true;
                Ok(())
            }
            other => other,
        }
    }

    /// A record that was requested.
    #[inline]
    fn record(&mut self, uid: u32, value: &[u8], visit: &mut Visit<'_>) -> Result<ControlFlow<()>> {
        let seed = self.seed;
        let index = &self.shared.index;
        let good = index.holds(value) && self.verified.is_good(uid, || is_summary_good(seed, uid, value));
        let (true, Some(found), Some(of)) = (good, summary_parts(value), Uid::new(uid)) else {
            return Ok(self.damaged(vec![uid]));
        };
        let is_shared = found.kind.origin().is_some();
        let summary = match found.kind {
            RecordKind::Summary(summary) => summary,
            RecordKind::Link(origin) => match self.follow.summary(origin, found.body) {
                Ok(summary) => summary,
                Err(StoreError::Corrupt(_)) => return Ok(self.damaged(vec![uid])),
                Err(error) => return Err(error),
            },
        };
        self.octets += summary.len();
        let Arrival { body, saved, created } = found.arrival();
        let next = visit(Stored { uid: of, body, saved, created, summary, is_shared });
        if self.octets < SLICE_OCTETS || next.is_break() {
            return Ok(next);
        }
        self.progress.after = uid;
        self.end = Walked::Paused;
        Ok(ControlFlow::Break(()))
    }

    /// Ends the slice at messages that have to be read again.
    #[cold]
    fn damaged(&mut self, uids: Vec<u32>) -> ControlFlow<()> {
        self.end = Walked::Damaged(uids);
        ControlFlow::Break(())
    }

    /// Requested UIDs without a record on the walk. UIDs that have a row are looked for again.
    fn absent(&mut self, rest: RemainingRange) -> Result<ControlFlow<()>> {
        let (Ok(mut low), Ok(high)) = (u32::try_from(rest.low), u32::try_from(rest.high)) else {
            return Ok(ControlFlow::Continue(()));
        };
        while low <= high {
            let (uids, upto) = self.rows.between(low, high)?;
            if !uids.is_empty() {
                return Ok(self.damaged(uids));
            }
            let Some(next) = upto.checked_add(1) else { break };
            low = next;
        }
        Ok(ControlFlow::Continue(()))
    }
}
