//! What is read of mailboxes. Each call is one reading transaction, from its first byte to its last.

use heed::RoTxn;
use posthaste_mail_model::{BodyId, MailboxId, ModSeq, NumSet, Uid};
use posthaste_store::{Changes, MailboxHead, Result, Row, StoreError, Stored, Visit};
use std::ops::ControlFlow;

use crate::ahead::ask_ahead;
use crate::chunk::{self, uid_key, uid_of};
use crate::index::{Index, Indexed, between, damaged, number_of_key, numbered_key, set_from};
use crate::links::{Follow, GAP};
use crate::proven::Proven;
use crate::rows::read_chunk;
use crate::sum::seed;
use crate::values::{Kept, LINK_LEN, StoredHead, is_summary_good, summary_parts};

/// Rows handed over at a time: 28 KiB, which stays in the first-level cache.
const SLICE: usize = 1024;

fn head_of(index: &Index, txn: &RoTxn, mailbox: MailboxId) -> Result<StoredHead> {
    index.head(txn, mailbox)?.ok_or(StoreError::NoMailbox(mailbox))
}

/// Heads in the order asked.
pub(crate) fn heads(index: &Index, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
    let txn = index.read()?;
    mailboxes.iter().map(|m| Ok(index.head(&txn, *m)?.map(|stored| stored.head))).collect()
}

/// Streams all rows.
pub(crate) fn load(
    index: &Index,
    mailbox: MailboxId,
    rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
) -> Result<MailboxHead> {
    let txn = index.read()?;
    let stored = head_of(index, &txn, mailbox)?;
    let mut slice = Vec::with_capacity(SLICE + chunk::ROWS_MAX);
    for item in index.rows.prefix_iter(&txn, &mailbox.0.to_bytes()).indexed()? {
        let (key, value) = item.indexed()?;
        let low = uid_of(mailbox, key).ok_or_else(damaged("key of a chunk"))?;
        chunk::decode(mailbox, low, value, &mut slice)
            .ok_or_else(damaged(format_args!("rows of mailbox {mailbox} from UID {low}")))?;
        if slice.len() >= SLICE {
            rows(&slice);
            slice.clear();
        }
    }
    if !slice.is_empty() {
        rows(&slice);
    }
    Ok(stored.head)
}

/// What changed after a mod-sequence.
pub(crate) fn changes_since(index: &Index, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
    let txn = index.read()?;
    let stored = head_of(index, &txn, mailbox)?;
    let complete = since >= stored.forgotten;
    let head = stored.head;
    let (mut rows, mut chunk_rows) = (Vec::new(), Vec::new());
    if since >= head.modseq {
        return Ok(Changes { head, rows, expunged: NumSet::new(), complete });
    }
    for item in index.rows.prefix_iter(&txn, &mailbox.0.to_bytes()).indexed()? {
        let (key, value) = item.indexed()?;
        let low = uid_of(mailbox, key).ok_or_else(damaged("key of a chunk"))?;
        let newest = chunk::modseq_max(mailbox, low, value)
            .ok_or_else(damaged(format_args!("rows of mailbox {mailbox} from UID {low}")))?;
        if newest > since {
            read_chunk(mailbox, low, value, &mut chunk_rows)?;
            rows.extend(chunk_rows.iter().filter(|row| row.modseq() > since));
        }
    }
    let expunged = expunged_since(index, &txn, mailbox, since)?;
    Ok(Changes { head, rows, expunged, complete })
}

fn expunged_since(index: &Index, txn: &RoTxn, mailbox: MailboxId, since: ModSeq) -> Result<NumSet> {
    let (low, high) = (numbered_key(mailbox, since.value() + 1), numbered_key(mailbox, u64::MAX));
    let mut ranges = Vec::new();
    for item in index.expunged.range(txn, &between(&low, &high)).indexed()? {
        let (key, value) = item.indexed()?;
        ranges.extend_from_slice(set_from(key, value)?.ranges());
    }
    Ok(NumSet::from_ranges(ranges))
}

/// UIDs whose summaries are there though the messages are gone.
pub(crate) fn leftovers(index: &Index, txn: &RoTxn, mailbox: MailboxId) -> Result<NumSet> {
    let mut ranges = Vec::new();
    for item in index.expunging.prefix_iter(txn, &mailbox.0.to_bytes()).indexed()? {
        let (key, value) = item.indexed()?;
        if number_of_key(key).is_some() {
            ranges.extend_from_slice(set_from(key, value)?.ranges());
        }
    }
    Ok(NumSet::from_ranges(ranges))
}

/// Visits summaries in UID order.
pub(crate) fn summaries(
    index: &Index,
    proven: &Proven,
    mailbox: MailboxId,
    uids: &NumSet,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let txn = index.read()?;
    if uids.is_empty() {
        return head_of(index, &txn, mailbox).map(|_| ());
    }
    // The head proves that the mailbox is there; what it says is not needed.
    head_of(index, &txn, mailbox)?;
    let leftovers = leftovers(index, &txn, mailbox)?;
    let wanted = if leftovers.is_empty() { None } else { Some(uids.difference(&leftovers)) };
    let ranges = wanted.as_ref().unwrap_or(uids).ranges();
    let follow = Follow::new(index, &txn, proven);
    let mut walk = Walk { txn: &txn, mailbox, seed: seed(mailbox.0), proven: proven.walk(mailbox), follow };
    let mut rest = ranges;
    while let Some(&(low, _)) = rest.first() {
        let joined = 1 + rest.windows(2).take_while(|w| w[1].0 - w[0].1 <= GAP).count();
        let (span, after) = rest.split_at(joined.min(rest.len()));
        rest = after;
        let high = span.last().map_or(low, |r| r.1);
        if walk.span(index, span, (low, high), visit)?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// A walk over summaries of one mailbox.
struct Walk<'w> {
    txn: &'w RoTxn<'w, heed::WithoutTls>,
    mailbox: MailboxId,
    seed: u64,
    proven: crate::proven::Walk<'w>,
    follow: Follow<'w>,
}

impl Walk<'_> {
    /// Visits the summaries of ranges that lie close together, with one cursor.
    fn span(
        &mut self,
        index: &Index,
        span: &[(u32, u32)],
        (low, high): (u32, u32),
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        let (mailbox, seed) = (self.mailbox, self.seed);
        let (low, high) = (uid_key(mailbox, low), uid_key(mailbox, high));
        let mut ranges = span.iter().copied();
        let mut range = ranges.next().unwrap_or((1, 0));
        for item in index.summaries.range(self.txn, &between(&low, &high)).indexed()? {
            let (key, value) = item.indexed()?;
            if value.len() > LINK_LEN {
                ask_ahead(value);
            }
            // Both ends are this mailbox's, so whatever lies between is too.
            let uid = key.last_chunk::<4>().map_or(0, |k| u32::from_be_bytes(*k));
            while uid > range.1 {
                match ranges.next() {
                    Some(next) => range = next,
                    None => return Ok(ControlFlow::Continue(())),
                }
            }
            if uid < range.0 {
                continue;
            }
            let good = self.proven.is_good(uid, || is_summary_good(seed, uid, value));
            let (true, Some(found), Some(uid)) = (good, summary_parts(value), Uid::new(uid)) else {
                return Err(damaged(format_args!("summary of UID {uid} in mailbox {mailbox}"))());
            };
            let summary = match found.kept {
                Kept::Here(summary) => summary,
                Kept::At(origin) => self.follow.summary(origin, found.body)?,
            };
            let stored = Stored { uid, body: found.body, saved: found.saved, summary };
            if visit(stored).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Where a body lies, or that there is none.
pub(crate) fn body_place(index: &Index, body: BodyId) -> Result<crate::values::BodyPlace> {
    let txn = index.read()?;
    index.body(&txn, body)?.ok_or_else(damaged(format_args!("body {body} is not in the store")))
}
