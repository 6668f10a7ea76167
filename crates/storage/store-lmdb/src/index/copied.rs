//! The table `copied`: copies whose references are not counted yet.
//!
//! Key: sequence number (8). Value: sum (4), mailbox (16), set of UIDs.

use heed::RoTxn;
use posthaste_mail_model::{MailboxId, NumSet};
use posthaste_store::Result;
use posthaste_store::octets::{Octets, put_set};

use super::{Hex, Index, Indexed, Writing, damaged};
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};

/// A note of copies: mailbox and set.
pub(crate) fn copied_from(key: &[u8], value: &[u8]) -> Result<(MailboxId, NumSet)> {
    let read = |mut read: Octets<'_>| Some((MailboxId(read.id()?), read.set()?));
    unseal(seed_of_key(key), value)
        .and_then(read)
        .ok_or_else(damaged(format_args!("note of copies under {}", Hex(key))))
}

/// The bytes of a note of copies.
pub(crate) fn copied_value(key: &[u8], mailbox: MailboxId, set: &NumSet) -> Vec<u8> {
    let mut value = open_value();
    value.extend_from_slice(&mailbox.0.to_bytes());
    put_set(&mut value, set);
    seal(seed_of_key(key), value)
}

/// A note of copies whose bodies must be counted.
pub(crate) struct CopiedNote {
    key: Vec<u8>,
    pub(crate) mailbox: MailboxId,
    pub(crate) set: NumSet,
}

/// Notes copies under the sequence number that they took.
pub(crate) fn note(
    index: &Index,
    txn: &mut Writing,
    seq: u64,
    mailbox: MailboxId,
    set: &NumSet,
) -> Result<()> {
    let key = seq.to_be_bytes();
    index.copied.put(txn, &key, &copied_value(&key, mailbox, set)).indexed()
}

/// Whether all copies are counted.
pub(crate) fn is_empty(index: &Index, txn: &RoTxn) -> Result<bool> {
    index.copied.is_empty(txn).indexed()
}

/// The first note.
pub(crate) fn first(index: &Index, txn: &RoTxn) -> Result<Option<CopiedNote>> {
    let Some((key, value)) = index.copied.first(txn).indexed()? else { return Ok(None) };
    let (mailbox, set) = copied_from(key, value)?;
    Ok(Some(CopiedNote { key: key.to_vec(), mailbox, set }))
}

/// The notes: mailboxes and UIDs.
pub(crate) fn all<'t>(
    index: &Index,
    txn: &'t RoTxn,
) -> Result<impl Iterator<Item = Result<(MailboxId, NumSet)>> + use<'t>> {
    let records = index.copied.iter(txn).indexed()?;
    Ok(records.map(|item| item.indexed().and_then(|(key, value)| copied_from(key, value))))
}

/// Reduces a note to the copies that are not counted yet.
pub(crate) fn leave(index: &Index, txn: &mut Writing, note: &CopiedNote, rest: &NumSet) -> Result<()> {
    if rest.is_empty() {
        return index.copied.delete(txn, &note.key).indexed().map(drop);
    }
    index.copied.put(txn, &note.key, &copied_value(&note.key, note.mailbox, rest)).indexed()
}
