//! The table `expunged`: UIDs expunged from a mailbox, for clients that were disconnected.
//!
//! Key: mailbox (16), mod-sequence (8). Value: sum (4), set of UIDs.

use heed::RoTxn;
use posthaste_mail_model::{MailboxId, ModSeq, NumSet};
use posthaste_store::Result;
use posthaste_store::octets::put_set;

use super::{Hex, Index, Indexed, Writing, between, damaged};
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};

/// The set stored under a key.
pub(crate) fn set_from(key: &[u8], value: &[u8]) -> Result<NumSet> {
    unseal(seed_of_key(key), value)
        .and_then(|mut read| read.set())
        .ok_or_else(damaged(format_args!("set of UIDs under {}", Hex(key))))
}

/// The bytes of a set under a key.
pub(super) fn set_value(key: &[u8], set: &NumSet) -> Vec<u8> {
    let mut value = open_value();
    put_set(&mut value, set);
    seal(seed_of_key(key), value)
}

/// The key of a numbered record of a mailbox.
pub(crate) fn numbered_key(mailbox: MailboxId, number: u64) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&mailbox.0.to_bytes());
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number of such a key.
pub(super) fn number_of_key(key: &[u8]) -> Option<u64> {
    key.get(16..)?.try_into().ok().map(u64::from_be_bytes)
}

/// A note, borrowed from the map.
pub(crate) struct ExpungedNote<'t> {
    key: &'t [u8],
    value: &'t [u8],
}

impl ExpungedNote<'_> {
    /// The mod-sequence of the expunge.
    pub(crate) fn modseq(&self) -> Result<ModSeq> {
        let modseq = number_of_key(self.key).and_then(ModSeq::new);
        modseq.ok_or_else(damaged("key of a note of expunges"))
    }

    /// The bytes of its set as they are stored.
    pub(crate) fn len(&self) -> usize {
        self.value.len()
    }

    /// The expunged UIDs.
    pub(crate) fn set(&self) -> Result<NumSet> {
        set_from(self.key, self.value)
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
    let key = numbered_key(mailbox, modseq.value());
    index.expunged.put(txn, &key, &set_value(&key, set)).indexed()
}

/// The notes of a mailbox, by mod-sequence.
pub(crate) fn notes<'t>(
    index: &Index,
    txn: &'t RoTxn,
    mailbox: MailboxId,
) -> Result<impl Iterator<Item = Result<ExpungedNote<'t>>> + use<'t>> {
    let records = index.expunged.prefix_iter(txn, &mailbox.0.to_bytes()).indexed()?;
    Ok(records.map(|item| item.indexed().map(|(key, value)| ExpungedNote { key, value })))
}

/// The UIDs expunged after a mod-sequence.
pub(crate) fn since(index: &Index, txn: &RoTxn, mailbox: MailboxId, since: ModSeq) -> Result<NumSet> {
    let (low, high) = (numbered_key(mailbox, since.value() + 1), numbered_key(mailbox, u64::MAX));
    let mut ranges = Vec::new();
    for item in index.expunged.range(txn, &between(&low, &high)).indexed()? {
        let (key, value) = item.indexed()?;
        ranges.extend_from_slice(set_from(key, value)?.ranges());
    }
    Ok(NumSet::from_ranges(ranges))
}

/// Forgets the notes up to a mod-sequence.
pub(crate) fn forget_upto(index: &Index, txn: &mut Writing, mailbox: MailboxId, upto: ModSeq) -> Result<()> {
    let (low, high) = (numbered_key(mailbox, 0), numbered_key(mailbox, upto.value()));
    index.expunged.delete_range(txn, &between(&low, &high)).indexed().map(drop)
}

/// Forgets all notes of a mailbox.
pub(crate) fn forget_all(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    let (low, high) = (numbered_key(mailbox, 0), numbered_key(mailbox, u64::MAX));
    index.expunged.delete_range(txn, &between(&low, &high)).indexed().map(drop)
}

/// Puts a note without a set under any number.
#[cfg(test)]
pub(crate) fn put_empty(index: &Index, txn: &mut Writing, mailbox: MailboxId, number: u64) {
    index.expunged.put(txn, &numbered_key(mailbox, number), &[]).unwrap();
}
