//! Step 2: removes the summaries of expunged messages and of removed mailboxes.
//!
//! Those with the highest UIDs come first. Copies within a mailbox have higher UIDs than their
//! origins. So copies that are removed with their origin are removed before it, and get no
//! summaries of their own.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_mail_model::{BodyId, MailboxId, ModSeq, NumSet};
use posthaste_store::{Report, Result};

use super::holders::{Holder, last_holders};
use crate::index::bodies::BodyLocation;
use crate::index::heads::StoredHead;
use crate::index::{Index, Writing, expunged, expunging, links, rows, summaries};
use crate::log::PackBytes;
use crate::log::record::body_record_len;

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
/// Bytes of a mailbox's notes of expunges that are kept. A client that comes back has all those
/// since its last visit put together at once. A note may have a range for every second message.
const NOTES_LEN_MAX: usize = 256 << 10;

/// Removes at most `limit` summaries and finished notes.
pub(super) fn remove_expunged(
    index: &Index,
    txn: &mut Writing,
    limit: usize,
    report: &mut Report,
) -> Result<()> {
    let (mut dead, mut shortened) = (BTreeMap::new(), BTreeSet::new());
    let (mut left, mut room) = (limit, limit.saturating_mul(DETACHED_LEN));
    while left > 0 {
        let Some(note) = expunging::first(index, txn)? else { break };
        let mailbox = note.mailbox;
        let found = last_holders(index, txn, mailbox, &note.set, left)?;
        let (mut swept, mut lowest, is_rest) = (0, None, found.len() < left);
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
            lowest = uids.first().copied();
        }
        report.examined += swept as u64 + 1;
        // Swept messages are no longer found. The note stays until none of its messages is found.
        if is_rest && swept == found.len() {
            finish_note(index, txn, &note)?;
            shortened.insert(mailbox);
        } else if let Some(lowest) = lowest
            && note.set.ranges().len() > 1
        {
            // Else each round would look for all messages that earlier rounds swept.
            let rest = note.set.difference(&NumSet::range(lowest, u32::MAX));
            expunging::leave(index, txn, &note, &rest)?;
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

/// Limits a mailbox's notes of expunges to [`NOTES_MAX`], and to [`NOTES_LEN_MAX`] bytes: if
/// there is more, the older half is removed.
fn forget_old_expunges(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    let mut notes = Vec::new();
    for note in expunged::notes(index, txn, mailbox)? {
        let note = note?;
        notes.push((note.modseq()?, note.len()));
    }
    let of_count = if notes.len() > NOTES_MAX { notes.len() / 2 + 1 } else { 0 };
    let old = of_count.max(beyond_len(&notes));
    let Some(&(forgotten, _)) = old.checked_sub(1).and_then(|last| notes.get(last)) else { return Ok(()) };
    let Some(stored) = index.head(txn, mailbox)? else { return Ok(()) };
    expunged::forget_upto(index, txn, mailbox, forgotten)?;
    index.put_head(txn, mailbox, &StoredHead { forgotten, ..stored })
}

/// How many of the first notes to remove, of notes with these bytes: none unless all are longer
/// than [`NOTES_LEN_MAX`].
fn beyond_len(notes: &[(ModSeq, usize)]) -> usize {
    let sums = notes.iter().rev().scan(0_usize, |sum, (_, len)| {
        *sum += len;
        Some(*sum)
    });
    let kept = sums.take_while(|sum| *sum <= NOTES_LEN_MAX / 2).count();
    let all: usize = notes.iter().map(|(_, len)| len).sum();
    if all > NOTES_LEN_MAX { notes.len() - kept } else { 0 }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;
    use posthaste_store::StoreError;

    use super::*;
    use crate::index::checksum::seed;
    use crate::index::logged::Logged;
    use crate::index::summaries::record::{Arrival, put_summary};

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

    /// Every second UID, from the first on.
    fn odd(count: u32) -> NumSet {
        NumSet::from_ranges((0..count).map(|n| (2 * n + 1, 2 * n + 1)))
    }

    /// Else each round looks for all messages that earlier rounds swept, and the commits of all
    /// accounts wait. A user may have expunged every second message of a large mailbox.
    #[test]
    fn a_note_shrinks_with_each_round() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path(), std::iter::empty());
        let mut txn = index.write().unwrap();
        let body = BodyId(Id::from_bytes([9; 16]));
        let arrival = Arrival { body, saved: 0, created: ModSeq::ZERO };
        let mut record = Vec::new();
        for uid in odd(500).iter() {
            put_summary(&mut record, seed(MAILBOX.0), uid, arrival, &[7]);
            summaries::put(&index, &mut txn, MAILBOX, uid, &record).unwrap();
        }
        let modseq = ModSeq::new(1).unwrap();
        expunging::note(&index, &mut txn, MAILBOX, modseq, &odd(500)).unwrap();
        for left in [500, 400, 300, 200, 100, 0] {
            let note = expunging::first(&index, &txn).unwrap().unwrap();
            assert_eq!(note.set.count(), left);
            remove_expunged(&index, &mut txn, 100, &mut Report::default()).unwrap();
        }
        assert!(expunging::is_empty(&index, &txn).unwrap());
        assert_eq!(summaries::count(&index, &txn).unwrap(), 0);
    }

    /// Else one client that comes back has millions of ranges put together.
    #[test]
    fn notes_are_bounded_by_their_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path(), std::iter::empty());
        let mut txn = index.write().unwrap();
        for modseq in 1..=10 {
            expunged::note(&index, &mut txn, MAILBOX, ModSeq::new(modseq).unwrap(), &odd(20_000)).unwrap();
        }
        forget_old_expunges(&index, &mut txn, MAILBOX).unwrap();
        // Each has some 40,000 bytes.
        assert_eq!(count(&index, &txn), 3);
        assert_eq!(index.head(&txn, MAILBOX).unwrap().unwrap().forgotten.value(), 7);
        // One that alone is too long is forgotten at once.
        let modseq = ModSeq::new(11).unwrap();
        expunged::note(&index, &mut txn, MAILBOX, modseq, &odd(200_000)).unwrap();
        forget_old_expunges(&index, &mut txn, MAILBOX).unwrap();
        assert_eq!(count(&index, &txn), 0);
        assert_eq!(index.head(&txn, MAILBOX).unwrap().unwrap().forgotten, modseq);
    }
}
