//! Writes checkpoints of mailboxes, so that the log follows the store and not its history.
//!
//! A commit that makes a mailbox's log large enough notes the mailbox as due. The checkpoint is
//! *prepared* from a reading transaction, by the thread that requests maintenance: commits go on
//! meanwhile. It has what all records before the transaction's next sequence number say, whatever
//! is written to the mailbox afterwards. The writer then adds it to the log in one batch.
//!
//! It counts when the index names it, which is after its pack was synced. From then on the records
//! before it are dead weight in their packs, and compacting drops them.

use bytes::Bytes;
use heed::RoTxn;
use posthaste_mail_model::{Id, MailboxId, NumSet};
use posthaste_store::{Report, Result, StoreError};

use crate::index::checksum::seed;
use crate::index::chunk::{self, uid_key, uid_of};
use crate::index::expunged::{number_of_key, set_from};
use crate::index::heads::StoredHead;
use crate::index::logged::{Logged, MESSAGE};
use crate::index::summaries::record::summary_from;
use crate::index::{Index, Indexed, between, damaged};
use crate::log::checkpoint;
use crate::shared::Shared;
use crate::writer::apply::Apply;

/// Mailboxes, and bytes, of one round: some milliseconds of the writer's time.
const ROUND_MAILBOXES: usize = 64;
const ROUND_BYTES: u64 = 1 << 20;

/// Bytes of a checkpoint at most: it is in memory twice while it is written, and other commits wait
/// for its sync. A mailbox of more than 2,500,000 messages keeps its log.
const BYTES_MAX: u64 = 128 << 20;

/// A checkpoint, prepared for the writer.
pub(super) struct Prepared {
    mailbox: MailboxId,
    /// The records that it has: those before this sequence number.
    upto: u64,
    /// The counts of them.
    before: Logged,
    /// None if there can be none now: the mailbox is damaged, or too large.
    content: Option<Bytes>,
}

/// Prepares checkpoints of mailboxes that are due, for one round.
pub(super) fn prepare(shared: &Shared, txn: &RoTxn) -> Result<Vec<Prepared>> {
    let index = &shared.index;
    let mut due = Vec::new();
    for item in index.due.iter(txn).indexed()?.take(ROUND_MAILBOXES) {
        let id = item.indexed()?.0.try_into().ok().map(Id::from_bytes);
        due.push(MailboxId(id.ok_or_else(damaged("key of a mailbox that is due"))?));
    }
    let upto = index.seq(txn)?;
    // The superseded records go only when their packs are compacted, which takes room, too.
    let room = shared.reserve.room() / 4;
    let (mut prepared, mut bytes) = (Vec::new(), 0);
    for mailbox in due {
        let Ok(Some(stored)) = index.head(txn, mailbox) else {
            prepared.push(Prepared { mailbox, upto, before: Logged::default(), content: None });
            continue;
        };
        let before = stored.logged;
        let size = u64::from(stored.head.counts.messages) * MESSAGE;
        if size > BYTES_MAX {
            prepared.push(Prepared { mailbox, upto, before, content: None });
            continue;
        }
        if bytes > 0 && bytes + size > ROUND_BYTES.min(room) {
            break;
        }
        // It waits for more room; the smaller ones behind it need not.
        if size > room {
            continue;
        }
        let content = intact(content(index, txn, mailbox, stored, upto))?;
        bytes += content.as_ref().map_or(0, |content| content.len() as u64);
        prepared.push(Prepared { mailbox, upto, before, content });
    }
    Ok(prepared)
}

/// A damaged mailbox keeps its log: the next rebuild repairs it from there.
fn intact(content: Result<Vec<u8>>) -> Result<Option<Bytes>> {
    match content {
        Ok(content) => Ok(Some(content.into())),
        Err(StoreError::Corrupt(why)) => {
            tracing::warn!(why, "no checkpoint of a damaged mailbox is written; see `posthaste check`");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The content of a mailbox's checkpoint.
fn content(index: &Index, txn: &RoTxn, mailbox: MailboxId, stored: StoredHead, upto: u64) -> Result<Vec<u8>> {
    let mut expunged: Vec<(posthaste_mail_model::ModSeq, NumSet)> = Vec::new();
    for item in index.expunged.prefix_iter(txn, &mailbox.0.to_bytes()).indexed()? {
        let (key, value) = item.indexed()?;
        let modseq = number_of_key(key).and_then(posthaste_mail_model::ModSeq::new);
        expunged.push((modseq.ok_or_else(damaged("key of a note of expunges"))?, set_from(key, value)?));
    }
    let mut out = checkpoint::begin(upto, stored.forgotten, &stored.head, &expunged);
    let (low, high) = (uid_key(mailbox, 0), uid_key(mailbox, u32::MAX));
    let mut summaries = index.summaries.range(txn, &between(&low, &high)).indexed()?;
    let (mut rows, mut count) = (Vec::new(), 0);
    for item in index.rows.prefix_iter(txn, &mailbox.0.to_bytes()).indexed()? {
        let (key, value) = item.indexed()?;
        let low = uid_of(mailbox, key).ok_or_else(damaged("key of a chunk"))?;
        crate::index::rows::read_chunk(mailbox, low, value, &mut rows)?;
        count += rows.len();
        for row in &rows {
            let uid = chunk::number(row);
            let missing = || damaged(format!("summary of UID {uid} in mailbox {mailbox}"));
            // Summaries of expunged messages are passed over.
            let value = loop {
                let (key, value) = summaries.next().ok_or_else(missing())?.indexed()?;
                match uid_of(mailbox, key) {
                    Some(at) if at < uid => {}
                    Some(at) if at == uid => break value,
                    _ => return Err(missing()()),
                }
            };
            let found = summary_from(seed(mailbox.0), uid, value).ok_or_else(missing())?;
            checkpoint::add_message(&mut out, row, found.body, found.saved);
        }
    }
    if count != stored.head.counts.messages as usize {
        return Err(damaged(format_args!("rows of mailbox {mailbox}: some are missing"))());
    }
    Ok(out)
}

/// Adds prepared checkpoints to the log.
pub(super) fn write(apply: &mut Apply<'_, '_>, prepared: &[Prepared], report: &mut Report) -> Result<()> {
    for Prepared { mailbox, upto, before, content } in prepared {
        report.examined += 1;
        apply.index.due.delete(&mut apply.txn, &mailbox.0.to_bytes()).indexed()?;
        let Ok(Some(stored)) = apply.index.head(&apply.txn, *mailbox) else { continue };
        // Another one was written since this one was prepared.
        if stored.logged.checkpoint != before.checkpoint {
            continue;
        }
        if let Some(content) = content {
            apply.checkpoint(*mailbox, stored, (*upto, before), content.clone())?;
        }
    }
    Ok(())
}
