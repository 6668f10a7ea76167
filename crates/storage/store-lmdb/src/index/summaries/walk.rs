//! The walk along the summaries of one mailbox, with one cursor for ranges that lie close together.
//!
//! Invariants: UIDs are visited or reported in ascending order, each once. The walk keeps the rest
//! of the set ([`RemainingRange`]). A record may only shorten it from the front. So records out of
//! order, which damage may cause, can neither repeat a message nor hide one.

use std::ops::ControlFlow;

use heed::RoTxn;
use posthaste_mail_model::{MailboxId, Uid};
use posthaste_store::{Result, StoreError, Stored, Unreadable, Visit};

use super::repair::Repair;
use super::row_cache::RowCache;
use super::table;
use crate::index::Indexed;
use crate::index::checksum::seed;
use crate::index::chunk::uid_of;
use crate::index::links::{Follow, GAP};
use crate::index::prefetch::prefetch;
use crate::index::summaries::record::{LINK_LEN, RecordKind, is_summary_good, summary_parts};
use crate::index::verified;
use crate::shared::Shared;

type Txn<'w> = RoTxn<'w, heed::WithoutTls>;

/// Octets of summaries between two pauses: their checksums take some 0.5 ms. The last summary may
/// exceed it by 10 MiB, which take some 3 ms. With a quarter of it, a listing of usual summaries
/// would pause as well.
const SLICE_OCTETS: usize = 2 << 20;

/// The outcome of a walk.
#[derive(Default)]
pub(crate) struct Walked {
    /// The messages that have rows and could not be visited.
    pub(crate) unreadable: Unreadable,
    /// The last UID that was visited, if many octets were read and the rest has to wait.
    pub(crate) paused_after: Option<u32>,
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
    repair: Repair<'w>,
    /// LMDB met a damaged page, and this transaction cannot be used any more.
    is_broken: bool,
    /// The octets of the summaries that were visited.
    octets: usize,
    /// The last UID that was visited, if the walk paused after it.
    paused_after: Option<u32>,
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
    pub(super) fn new(shared: &'w Shared, txn: &'w Txn<'w>, mailbox: MailboxId) -> Self {
        Self {
            shared,
            txn,
            mailbox,
            seed: seed(mailbox.0),
            verified: shared.verified.walk(mailbox),
            follow: Follow::new(&shared.index, txn, &shared.verified),
            rows: RowCache::new(&shared.index, mailbox),
            repair: Repair::new(shared, mailbox),
            is_broken: false,
            octets: 0,
            paused_after: None,
        }
    }

    /// The messages that have rows and could not be visited, and where the walk paused.
    pub(super) fn end(self) -> Walked {
        Walked { paused_after: self.paused_after, unreadable: Unreadable(self.repair.unreadable()) }
    }

    /// Visits the summaries of these ranges in UID order, up to the next pause.
    pub(super) fn visit_all(&mut self, ranges: &[(u32, u32)], visit: &mut Visit<'_>) -> Result<()> {
        let mut rest = ranges;
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
        let (Some(&(low, _)), Some(&(_, high))) = (span.first(), span.last()) else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut ranges = span.iter().copied().map(RemainingRange::of);
        let mut rest = ranges.next().unwrap_or(RemainingRange { low: 1, high: 0 });
        if !self.is_broken {
            let there = match table::cursor(&self.shared.index, self.txn, self.mailbox, (low, high)) {
                Ok(there) => Some(there),
                Err(error) => self.stop_on(error).map(|()| None)?,
            };
            // No adapter over the cursor: each would copy the item again, which costs some 4 ns a
            // message.
            let Some(there) = there else { return self.absent_all(rest, ranges, visit) };
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
                // Both ends are this mailbox's keys. So are the keys between them, if the page is
                // in order.
                let Some(uid) = uid_of(self.mailbox, key) else { break };
                while u64::from(uid) > rest.high {
                    if self.absent(rest, visit)?.is_break() {
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
                if before.low <= before.high && self.absent(before, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                rest.low = u64::from(uid) + 1;
                if self.record(uid, value, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        self.absent_all(rest, ranges, visit)
    }

    /// The UIDs that the cursor did not reach.
    fn absent_all(
        &mut self,
        rest: RemainingRange,
        ranges: impl Iterator<Item = RemainingRange>,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        for left in std::iter::once(rest).chain(ranges) {
            if self.absent(left, visit)?.is_break() {
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
                self.is_broken = true;
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
            return self.repair.visit(uid, visit);
        };
        let is_shared = found.kind.origin().is_some();
        let summary = match found.kind {
            RecordKind::Summary(summary) => summary,
            RecordKind::Link(origin) => match self.follow.summary(origin, found.body) {
                Ok(summary) => summary,
                Err(StoreError::Corrupt(_)) => return self.repair.visit(uid, visit),
                Err(error) => return Err(error),
            },
        };
        self.octets += summary.len();
        let next = visit(Stored { uid: of, body: found.body, saved: found.saved, summary, is_shared });
        if self.octets < SLICE_OCTETS || next.is_break() {
            return Ok(next);
        }
        self.paused_after = Some(uid);
        Ok(ControlFlow::Break(()))
    }

    /// Requested UIDs without a record on the walk. UIDs that have a row are looked for again.
    fn absent(&mut self, rest: RemainingRange, visit: &mut Visit<'_>) -> Result<ControlFlow<()>> {
        let (Ok(low), Ok(high)) = (u32::try_from(rest.low), u32::try_from(rest.high)) else {
            return Ok(ControlFlow::Continue(()));
        };
        if low > high {
            return Ok(ControlFlow::Continue(()));
        }
        for uid in self.rows.between(low, high)? {
            if self.repair.visit(uid, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
