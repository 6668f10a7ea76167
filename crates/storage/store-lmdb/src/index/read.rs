//! What is read of mailboxes, except for their summaries (`summaries`). Each call is one reading
//! transaction, from its first byte to its last.

use heed::RoTxn;
use posthaste_mail_model::{BodyId, MailboxId, ModSeq, NumSet};
use posthaste_store::{Changes, MailboxHead, Result, Row, StoreError};

use crate::index::chunk::{self, uid_of};
use crate::index::expunged::{number_of_key, numbered_key, set_from};
use crate::index::heads::StoredHead;
use crate::index::rows::read_chunk;
use crate::index::{Index, Indexed, between, damaged};

/// Rows handed over at a time: 28 KiB, which stays in the first-level cache.
const SLICE: usize = 1024;

pub(crate) fn head_of(index: &Index, txn: &RoTxn, mailbox: MailboxId) -> Result<StoredHead> {
    index.head(txn, mailbox)?.ok_or(StoreError::NoMailbox(mailbox))
}

/// Heads in the requested order.
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
    let mut count = 0;
    for item in index.rows.prefix_iter(&txn, &mailbox.0.to_bytes()).indexed()? {
        let (key, value) = item.indexed()?;
        let low = uid_of(mailbox, key).ok_or_else(damaged("key of a chunk"))?;
        chunk::decode(mailbox, low, value, &mut slice)
            .ok_or_else(damaged(format_args!("rows of mailbox {mailbox} from UID {low}")))?;
        if slice.len() >= SLICE {
            count += slice.len();
            rows(&slice);
            slice.clear();
        }
    }
    // A key in which a bit turned takes a chunk to another mailbox.
    if count + slice.len() != stored.head.counts.messages as usize {
        return Err(StoreError::Corrupt(format!("rows of mailbox {mailbox}: some are missing")));
    }
    if !slice.is_empty() {
        rows(&slice);
    }
    Ok(stored.head)
}

/// The changes after a mod-sequence.
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

/// UIDs of expunged messages whose summaries are still there.
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

/// Where a body lies, or that there is none.
pub(crate) fn body_place(index: &Index, body: BodyId) -> Result<crate::index::bodies::BodyPlace> {
    let txn = index.read()?;
    index.body(&txn, body)?.ok_or_else(damaged(format_args!("body {body} is not in the store")))
}
