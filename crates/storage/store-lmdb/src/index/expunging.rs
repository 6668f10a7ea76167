//! The table `expunging`: expunged messages whose summaries maintenance has yet to remove.
//!
//! Key: mailbox (16), mod-sequence (8). Value: sum (4), set of UIDs. The highest number, with the
//! empty set, means all messages of a removed mailbox.

use heed::RoTxn;
use posthaste_mail_model::{Id, MailboxId, ModSeq, NumSet};
use posthaste_store::Result;

use super::expunged::{number_of_key, numbered_key, set_from, set_value};
use super::{Index, Indexed, Writing, damaged};

/// Means "every UID": above every mod-sequence, which has 63 bits.
const ALL_OF_MAILBOX: u64 = u64::MAX;

/// Messages of a mailbox whose summaries must be removed.
pub(crate) struct RemovalNote {
    pub(crate) mailbox: MailboxId,
    number: u64,
    pub(crate) set: NumSet,
}

impl RemovalNote {
    /// Whether the whole mailbox must be removed.
    pub(crate) fn is_all_of_mailbox(&self) -> bool {
        self.number == ALL_OF_MAILBOX
    }

    fn from_record(key: &[u8], value: &[u8]) -> Result<Self> {
        let parts = || Some((MailboxId(Id::from_bytes(*key.first_chunk()?)), number_of_key(key)?));
        let (mailbox, number) = parts().ok_or_else(damaged("key of a note of expunges"))?;
        let set = match number {
            ALL_OF_MAILBOX => NumSet::range(0, u32::MAX),
            _ => set_from(key, value)?,
        };
        Ok(Self { mailbox, number, set })
    }
}

/// Notes the messages that were expunged with a mod-sequence.
pub(crate) fn note(
    index: &Index,
    txn: &mut Writing,
    mailbox: MailboxId,
    modseq: ModSeq,
    set: &NumSet,
) -> Result<()> {
    put(index, txn, mailbox, modseq.value(), set)
}

/// Notes that all of a mailbox must be removed.
pub(super) fn note_all(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    put(index, txn, mailbox, ALL_OF_MAILBOX, &NumSet::new())
}

fn put(index: &Index, txn: &mut Writing, mailbox: MailboxId, number: u64, set: &NumSet) -> Result<()> {
    let key = numbered_key(mailbox, number);
    index.expunging.put(txn, &key, &set_value(&key, set)).indexed()
}

/// Whether nothing must be removed.
pub(crate) fn is_empty(index: &Index, txn: &RoTxn) -> Result<bool> {
    index.expunging.is_empty(txn).indexed()
}

/// The first note.
pub(crate) fn first(index: &Index, txn: &RoTxn) -> Result<Option<RemovalNote>> {
    let Some((key, value)) = index.expunging.first(txn).indexed()? else { return Ok(None) };
    RemovalNote::from_record(key, value).map(Some)
}

/// Reduces a note to the messages whose summaries are not removed yet.
pub(crate) fn leave(index: &Index, txn: &mut Writing, note: &RemovalNote, rest: &NumSet) -> Result<()> {
    put(index, txn, note.mailbox, note.number, rest)
}

/// Removes a note whose summaries are all removed.
pub(crate) fn forget(index: &Index, txn: &mut Writing, note: &RemovalNote) -> Result<()> {
    index.expunging.delete(txn, &numbered_key(note.mailbox, note.number)).indexed().map(drop)
}

/// Removes the note that all of a mailbox must be removed: this index has no record of it.
pub(crate) fn forget_all(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    index.expunging.delete(txn, &numbered_key(mailbox, ALL_OF_MAILBOX)).indexed().map(drop)
}

/// UIDs of expunged messages whose summaries are not removed yet.
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

/// Removed mailboxes that still have records.
pub(crate) fn removed_mailboxes(index: &Index, txn: &RoTxn) -> Result<Vec<MailboxId>> {
    let mut removed = Vec::new();
    for item in index.expunging.iter(txn).indexed()? {
        let key = item.indexed()?.0;
        if number_of_key(key) == Some(ALL_OF_MAILBOX) {
            removed.extend(key.first_chunk().map(|id| MailboxId(Id::from_bytes(*id))));
        }
    }
    Ok(removed)
}
