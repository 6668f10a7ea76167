//! Writes checkpoints of mailboxes, so that the log follows the store and not its history.
//!
//! A commit that makes a mailbox's log large enough notes the mailbox as due. The checkpoint is
//! *prepared* from a reading transaction, by the thread that requests maintenance: commits
//! continue meanwhile. It contains all records before the transaction's next sequence number, and
//! no later ones. The writer then adds it to the log in one batch.
//!
//! It counts when the index names it, which is after its pack was synced. From then on the
//! records before it are dead, and compaction drops them.

use std::cmp::Ordering;

use bytes::Bytes;
use heed::RoTxn;
use posthaste_mail_model::MailboxId;
use posthaste_store::{ExpungedUids, Report, Result, StoreError};

use crate::index::checksum::seed;
use crate::index::heads::StoredHead;
use crate::index::logged::{Logged, MESSAGE};
use crate::index::summaries::record::summary_from;
use crate::index::{Index, chunk, damaged, due, expunged, rows, summaries};
use crate::log::checkpoint;
use crate::shared::Shared;
use crate::writer::apply::Apply;

/// Mailboxes, and bytes, of one round: some milliseconds of the writer's time.
const ROUND_MAILBOXES: usize = 64;
const ROUND_BYTES: u64 = 1 << 20;

/// Bytes of a checkpoint at most: it is in memory twice while it is written, and other commits
/// wait for its sync. A mailbox of more than 2,500,000 messages gets no checkpoint.
const BYTES_MAX: u64 = 128 << 20;

/// A checkpoint, prepared for the writer.
pub(super) struct PreparedCheckpoint {
    mailbox: MailboxId,
    /// The sequence number before which the checkpoint contains all records.
    upto: u64,
    /// The counts of these records.
    before: Logged,
    /// `None` if no checkpoint is possible: the mailbox is damaged, or too large.
    content: Option<Bytes>,
}

/// Prepares checkpoints of mailboxes that are due, for one round.
pub(super) fn prepare(shared: &Shared, txn: &RoTxn) -> Result<Vec<PreparedCheckpoint>> {
    let index = &shared.index;
    let upto = index.seq(txn)?;
    // Superseded records are dropped only when their packs are compacted, which needs space, too.
    let room = shared.reserve.writable() / 4;
    let (mut prepared, mut bytes) = (Vec::new(), 0);
    for mailbox in due::first(index, txn, ROUND_MAILBOXES)? {
        let Ok(Some(stored)) = index.head(txn, mailbox) else {
            prepared.push(PreparedCheckpoint { mailbox, upto, before: Logged::default(), content: None });
            continue;
        };
        let before = stored.logged;
        let size = u64::from(stored.head.counts.messages) * MESSAGE;
        if size > BYTES_MAX {
            prepared.push(PreparedCheckpoint { mailbox, upto, before, content: None });
            continue;
        }
        if bytes > 0 && bytes + size > ROUND_BYTES.min(room) {
            break;
        }
        // This one waits for more space; smaller ones after it need not wait.
        if size > room {
            continue;
        }
        let content = intact(content(index, txn, mailbox, stored, upto))?;
        bytes += content.as_ref().map_or(0, |content| content.len() as u64);
        prepared.push(PreparedCheckpoint { mailbox, upto, before, content });
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
    let mut went: Vec<ExpungedUids> = Vec::new();
    for note in expunged::notes(index, txn, mailbox)? {
        let note = note?;
        went.push((note.modseq()?, note.set()?));
    }
    let mut out = checkpoint::begin(upto, stored.forgotten, &stored.head, &went);
    let mut records = summaries::records(index, txn, mailbox, (0, u32::MAX))?;
    let (mut chunk_rows, mut count) = (Vec::new(), 0);
    for chunk in rows::chunks(index, txn, mailbox)? {
        chunk_rows.clear();
        chunk?.add_rows(&mut chunk_rows)?;
        count += chunk_rows.len();
        for row in &chunk_rows {
            let uid = chunk::number(row);
            let missing = || damaged(format!("summary of UID {uid} in mailbox {mailbox}"));
            // Summaries of expunged messages are skipped.
            let value = loop {
                let (at, value) = records.next().ok_or_else(missing())??;
                match at.cmp(&uid) {
                    Ordering::Less => {}
                    Ordering::Equal => break value,
                    Ordering::Greater => return Err(missing()()),
                }
            };
            let found = summary_from(seed(mailbox.0), uid, value).ok_or_else(missing())?;
            checkpoint::add_message(&mut out, row, found.arrival());
        }
    }
    if count != stored.head.counts.messages as usize {
        return Err(damaged(format_args!("rows of mailbox {mailbox}: some are missing"))());
    }
    Ok(out)
}

/// Adds prepared checkpoints to the log.
pub(super) fn write(
    apply: &mut Apply<'_, '_>,
    prepared: &[PreparedCheckpoint],
    report: &mut Report,
) -> Result<()> {
    for PreparedCheckpoint { mailbox, upto, before, content } in prepared {
        report.examined += 1;
        due::forget(apply.index, &mut apply.txn, *mailbox)?;
        let Ok(Some(stored)) = apply.index.head(&apply.txn, *mailbox) else { continue };
        // Another checkpoint was written since this one was prepared.
        if stored.logged.checkpoint != before.checkpoint {
            continue;
        }
        if let Some(content) = content {
            apply.checkpoint(*mailbox, stored, (*upto, before), content.clone())?;
        }
    }
    Ok(())
}
