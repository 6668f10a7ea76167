//! Step 2: removes the summaries of expunged messages and of removed mailboxes.
//!
//! Those with the highest UIDs come first. Copies within a mailbox have higher UIDs than their
//! origins. So copies that are removed with their origin are removed before it, and get no
//! summaries of their own.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_mail_model::{BodyId, MailboxId};
use posthaste_store::{Report, Result};

use super::holders::{Holder, last_holders};
use crate::index::bodies::BodyLocation;
use crate::index::heads::StoredHead;
use crate::index::{Index, Writing, expunged, expunging, links, rows, summaries};
use crate::log::PackBytes;
use crate::log::record::body_record_len;
use crate::writer::apply::Apply;

/// Messages removed at a time. Copies that link to them get summaries of their own, and count
/// towards the limit of the round: a message may have many copies.
const AT_ONCE: usize = 100;
/// Bytes of summaries that a round writes for copies, for each message that it may remove. With
/// 2,000 messages it is 4 MiB, as much as a round copies of packs. LMDB keeps what a transaction
/// writes in memory, and a summary may have 10 MiB and thousands of copies.
const DETACHED_LEN: usize = 2 << 10;
/// Notes of expunges kept for each mailbox. A client that missed more than 4,096 expunging
/// commits gets the difference by UIDs instead.
const NOTES_MAX: usize = 4_096;

/// Removes at most `limit` summaries and finished notes.
pub(super) fn remove_expunged(apply: &mut Apply<'_, '_>, limit: usize, report: &mut Report) -> Result<()> {
    let (index, txn) = (apply.index, &mut apply.txn);
    let (mut dead, mut shortened) = (BTreeMap::new(), BTreeSet::new());
    let (mut left, mut room) = (limit, limit.saturating_mul(DETACHED_LEN));
    while left > 0 {
        let Some(note) = expunging::first(index, txn)? else { break };
        let mailbox = note.mailbox;
        let found = last_holders(index, txn, mailbox, &note.set, left)?;
        let (mut swept, is_rest) = (0, found.len() < left);
        for some in found.rchunks(AT_ONCE) {
            if left == 0 {
                break;
            }
            let uids: Vec<u32> = some.iter().map(|holder| holder.uid).collect();
            let mut detached = links::detach(index, txn, mailbox, &uids, &mut room)?;
            report.faults.append(&mut detached.faults);
            if detached.is_rest {
                // Their origins stay until the next round.
                left = 0;
                break;
            }
            remove(index, txn, mailbox, some, &mut dead, report)?;
            left = left.saturating_sub(some.len() + detached.copies);
            swept += some.len();
        }
        report.examined += swept as u64 + 1;
        // Swept messages are no longer found. The note stays until none of its messages is found.
        if is_rest && swept == found.len() {
            finish_note(index, txn, &note)?;
            shortened.insert(mailbox);
        }
        // The limit applies to notes, too: a mailbox may have any number of notes of one message,
        // or of no message.
        left = left.saturating_sub(1);
    }
    // Once for all notes of the mailbox: this looks at each of them.
    for mailbox in shortened {
        forget_old_expunges(index, txn, mailbox)?;
    }
    index.add_dead(txn, dead.into_iter().map(|(pack, bytes)| PackBytes { pack, bytes }))
}

/// Removes summaries to which no copies link, except copies among them.
fn remove(
    index: &Index,
    txn: &mut Writing,
    mailbox: MailboxId,
    holders: &[Holder],
    dead: &mut BTreeMap<u32, u64>,
    report: &mut Report,
) -> Result<()> {
    let links: Vec<_> = holders.iter().filter_map(|h| Some((h.origin?, h.uid))).collect();
    links::forget(index, txn, mailbox, &links)?;
    for Holder { uid, body, .. } in holders {
        summaries::remove(index, txn, mailbox, *uid)?;
        match body {
            Some(body) => release(index, txn, *body, dead, report)?,
            None => report.faults.push(format!("summary of UID {uid} in mailbox {mailbox} was damaged")),
        }
    }
    Ok(())
}

/// Decrements the body's reference count.
fn release(
    index: &Index,
    txn: &mut Writing,
    body: BodyId,
    dead: &mut BTreeMap<u32, u64>,
    report: &mut Report,
) -> Result<()> {
    let Some(location) = index.body(txn, body)? else {
        report.faults.push(format!("body {body} of an expunged message is not in the index"));
        return Ok(());
    };
    if location.refs > 1 {
        return index.put_body(txn, body, BodyLocation { refs: location.refs - 1, ..location });
    }
    index.remove_body(txn, body)?;
    *dead.entry(location.pack).or_default() += body_record_len(location.len);
    Ok(())
}

/// A note whose summaries are all removed.
fn finish_note(index: &Index, txn: &mut Writing, note: &expunging::RemovalNote) -> Result<()> {
    expunging::forget(index, txn, note)?;
    if !note.is_all_of_mailbox() {
        return Ok(());
    }
    rows::remove_all(index, txn, note.mailbox)?;
    expunged::forget_all(index, txn, note.mailbox)
}

/// Limits a mailbox's notes of expunges to [`NOTES_MAX`]: if there are more, the older half is
/// removed.
fn forget_old_expunges(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    let mut modseqs = Vec::new();
    for note in expunged::notes(index, txn, mailbox)? {
        modseqs.push(note?.modseq()?);
    }
    if modseqs.len() <= NOTES_MAX {
        return Ok(());
    }
    let Some(stored) = index.head(txn, mailbox)? else { return Ok(()) };
    let Some(forgotten) = modseqs.get(modseqs.len() / 2).copied() else { return Ok(()) };
    expunged::forget_upto(index, txn, mailbox, forgotten)?;
    index.put_head(txn, mailbox, &StoredHead { forgotten, ..stored })
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{Id, ModSeq};
    use posthaste_store::StoreError;

    use super::*;
    use crate::index::logged::Logged;

    const MAILBOX: MailboxId = MailboxId(Id::from_bytes([7; 16]));

    /// An index with a mailbox and a note of an expunge for each of these mod-sequences.
    fn index(dir: &std::path::Path, modseqs: impl Iterator<Item = u64>) -> Index {
        let index = Index::open(dir, 1 << 24, 8).unwrap();
        let mut txn = index.write().unwrap();
        let head = posthaste_store::suite::sample_head();
        let stored = StoredHead { head, forgotten: ModSeq::ZERO, logged: Logged::default() };
        index.put_head(&mut txn, MAILBOX, &stored).unwrap();
        for modseq in modseqs {
            expunged::put_empty(&index, &mut txn, MAILBOX, modseq);
        }
        txn.commit().unwrap();
        index
    }

    fn count(index: &Index, txn: &Writing) -> u64 {
        expunged::notes(index, txn, MAILBOX).unwrap().count() as u64
    }

    #[test]
    fn the_older_half_of_too_many_notes_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path(), 1..=NOTES_MAX as u64 + 1);
        let mut txn = index.write().unwrap();
        forget_old_expunges(&index, &mut txn, MAILBOX).unwrap();
        let stored = index.head(&txn, MAILBOX).unwrap().unwrap();
        assert_eq!(stored.forgotten.value(), NOTES_MAX as u64 / 2 + 1);
        assert_eq!(count(&index, &txn), NOTES_MAX as u64 / 2);
        // There is room again.
        forget_old_expunges(&index, &mut txn, MAILBOX).unwrap();
        assert_eq!(count(&index, &txn), NOTES_MAX as u64 / 2);
    }

    /// Else notes would be removed, and the head would not say that they are forgotten.
    #[test]
    fn a_key_without_a_mod_sequence_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let beyond = u64::MAX - NOTES_MAX as u64;
        let index = index(dir.path(), beyond..=u64::MAX);
        let mut txn = index.write().unwrap();
        let outcome = forget_old_expunges(&index, &mut txn, MAILBOX);
        assert!(
            matches!(outcome, Err(StoreError::Corrupt(why)) if why.contains("key of a note of expunges"))
        );
        assert_eq!(count(&index, &txn), NOTES_MAX as u64 + 1);
    }
}
