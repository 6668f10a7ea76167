//! The table `summaries`: reads and writes of its records (`record`).
//!
//! Key: mailbox (16), UID (4).

use std::ops::Bound;

use heed::types::Bytes;
use heed::{RoRange, RoTxn};
use posthaste_mail_model::{Id, MailboxId};
use posthaste_store::Result;

use super::record::Origin;
use crate::index::chunk::{uid_key, uid_of};
use crate::index::{Index, Indexed, Writing, beginning_with, between, damaged};

/// Keys and values of a range, as LMDB hands them out.
pub(in crate::index) type Cursor<'t> = RoRange<'t, Bytes, Bytes>;

/// The record of a message.
pub(crate) fn record<'t>(
    index: &Index,
    txn: &'t RoTxn,
    mailbox: MailboxId,
    uid: u32,
) -> Result<Option<&'t [u8]>> {
    index.summaries.get(txn, &uid_key(mailbox, uid)).indexed()
}

/// A cursor over the records from a message on, for walks that a listing waits for. It does not
/// end with the mailbox: the walk looks at each key in any case, so that the cursor need not.
pub(super) fn cursor_from<'t>(
    index: &Index,
    txn: &'t RoTxn,
    mailbox: MailboxId,
    low: u32,
) -> heed::Result<Cursor<'t>> {
    index.summaries.range(txn, &beginning_with(&uid_key(mailbox, low)))
}

/// A cursor over the records of a mailbox, both UIDs included.
pub(in crate::index) fn cursor<'t>(
    index: &Index,
    txn: &'t RoTxn,
    mailbox: MailboxId,
    (low, high): (u32, u32),
) -> heed::Result<Cursor<'t>> {
    index.summaries.range(txn, &between(&uid_key(mailbox, low), &uid_key(mailbox, high)))
}

/// UIDs and records of a mailbox, both UIDs included.
pub(crate) fn records<'t>(
    index: &Index,
    txn: &'t RoTxn,
    mailbox: MailboxId,
    range: (u32, u32),
) -> Result<impl Iterator<Item = Result<(u32, &'t [u8])>> + use<'t>> {
    let records = cursor(index, txn, mailbox, range).indexed()?;
    Ok(records.map(move |item| {
        let (key, value) = item.indexed()?;
        Ok((uid_of(mailbox, key).ok_or_else(damaged("key of a summary"))?, value))
    }))
}

/// The same, from the highest UID down.
pub(crate) fn records_back<'t>(
    index: &Index,
    txn: &'t RoTxn,
    mailbox: MailboxId,
    (low, high): (u32, u32),
) -> Result<impl Iterator<Item = Result<(u32, &'t [u8])>> + use<'t>> {
    let (low, high) = (uid_key(mailbox, low), uid_key(mailbox, high));
    let records = index.summaries.rev_range(txn, &between(&low, &high)).indexed()?;
    Ok(records.map(move |item| {
        let (key, value) = item.indexed()?;
        Ok((uid_of(mailbox, key).ok_or_else(damaged("key of a summary"))?, value))
    }))
}

/// The records of all mailboxes after a message's record, or from the first on.
pub(crate) fn records_after<'t>(
    index: &Index,
    txn: &'t RoTxn,
    after: Option<Origin>,
) -> Result<impl Iterator<Item = Result<(Origin, &'t [u8])>> + use<'t>> {
    let after = after.map(|(mailbox, uid)| uid_key(mailbox, uid));
    let low = after.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(&key[..]));
    let records = index.summaries.range(txn, &(low, Bound::Unbounded)).indexed()?;
    Ok(records.map(|item| {
        let (key, value) = item.indexed()?;
        let mailbox = key.first_chunk().map(|id| MailboxId(Id::from_bytes(*id)));
        let place = mailbox.and_then(|mailbox| Some((mailbox, uid_of(mailbox, key)?)));
        Ok((place.ok_or_else(damaged("key of a summary"))?, value))
    }))
}

/// The number of records of all mailboxes.
pub(crate) fn count(index: &Index, txn: &RoTxn) -> Result<u64> {
    index.summaries.len(txn).indexed()
}

/// Puts the record of a message.
pub(crate) fn put(
    index: &Index,
    txn: &mut Writing,
    mailbox: MailboxId,
    uid: u32,
    record: &[u8],
) -> Result<()> {
    index.summaries.put(txn, &uid_key(mailbox, uid), record).indexed()
}

/// Deletes the record of a message.
pub(crate) fn remove(index: &Index, txn: &mut Writing, mailbox: MailboxId, uid: u32) -> Result<()> {
    index.summaries.delete(txn, &uid_key(mailbox, uid)).indexed().map(drop)
}

/// Deletes the records of a range of a mailbox, both UIDs included.
pub(crate) fn remove_range(
    index: &Index,
    txn: &mut Writing,
    mailbox: MailboxId,
    (low, high): (u32, u32),
) -> Result<()> {
    let (low, high) = (uid_key(mailbox, low), uid_key(mailbox, high));
    index.summaries.delete_range(txn, &between(&low, &high)).indexed().map(drop)
}
