//! Reads of mailboxes, except for their summaries (`summaries`). Each call is one reading
//! transaction, from its first byte to its last.

use heed::RoTxn;
use posthaste_mail_model::{BodyId, MailboxId, ModSeq, NumSet};
use posthaste_store::{Changes, Counts, Loaded, MailboxHead, Result, Row, StoreError};

use crate::index::heads::StoredHead;
use crate::index::{Index, chunk, damaged, expunged, rows};

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

/// The counts of heads, in the requested order. One head is in memory at a time.
pub(crate) fn counts(index: &Index, mailboxes: &[MailboxId]) -> Result<Vec<Option<Counts>>> {
    let txn = index.read()?;
    mailboxes.iter().map(|m| Ok(index.head(&txn, *m)?.map(|stored| stored.head.counts))).collect()
}

/// Streams all rows.
pub(crate) fn load(
    index: &Index,
    mailbox: MailboxId,
    visit: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
) -> Result<MailboxHead> {
    let txn = index.read()?;
    let head = head_of(index, &txn, mailbox)?.head;
    visit_rows(index, &txn, (mailbox, head.counts.messages), visit)?;
    Ok(head)
}

/// [`load`], if there are at most this many messages.
pub(crate) fn load_up_to(
    index: &Index,
    mailbox: MailboxId,
    most: u32,
    visit: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
) -> Result<Loaded> {
    let txn = index.read()?;
    let head = head_of(index, &txn, mailbox)?.head;
    let messages = head.counts.messages;
    if messages > most {
        return Ok(Loaded::TooMany(messages));
    }
    visit_rows(index, &txn, (mailbox, messages), visit)?;
    Ok(Loaded::All(head))
}

/// Streams the rows of a mailbox, whose head counts this many messages.
fn visit_rows(
    index: &Index,
    txn: &RoTxn,
    (mailbox, messages): (MailboxId, u32),
    visit: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
) -> Result<()> {
    let messages = messages as usize;
    // A small mailbox needs no whole slice.
    let mut slice = Vec::with_capacity(messages.min(SLICE + chunk::ROWS_MAX));
    let mut count = 0;
    for chunk in rows::chunks(index, txn, mailbox)? {
        chunk?.add_rows(&mut slice)?;
        if slice.len() >= SLICE {
            count += slice.len();
            visit(&slice);
            slice.clear();
        }
    }
    // A flipped bit in a key moves a chunk to another mailbox.
    if count + slice.len() != messages {
        return Err(StoreError::Corrupt(format!("rows of mailbox {mailbox}: some are missing")));
    }
    if !slice.is_empty() {
        visit(&slice);
    }
    Ok(())
}

/// The changes after a mod-sequence.
pub(crate) fn changes_since(index: &Index, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
    let txn = index.read()?;
    let stored = head_of(index, &txn, mailbox)?;
    let complete = since >= stored.forgotten;
    let head = stored.head;
    let (mut changed, mut chunk_rows) = (Vec::new(), Vec::new());
    if since >= head.modseq {
        return Ok(Changes { head, rows: changed, expunged: NumSet::new(), complete });
    }
    for chunk in rows::chunks(index, &txn, mailbox)? {
        let chunk = chunk?;
        if chunk.modseq_max()? > since {
            chunk_rows.clear();
            chunk.add_rows(&mut chunk_rows)?;
            changed.extend(chunk_rows.iter().filter(|row| row.modseq() > since));
        }
    }
    let expunged = expunged::since(index, &txn, mailbox, since)?;
    Ok(Changes { head, rows: changed, expunged, complete })
}

/// The location of a body; an error if there is no such body.
pub(crate) fn body_location(index: &Index, body: BodyId) -> Result<crate::index::bodies::BodyLocation> {
    let txn = index.read()?;
    index.body(&txn, body)?.ok_or_else(damaged(format_args!("body {body} is not in the store")))
}
