//! The table `removed`: mailboxes that were removed. The store never takes their ids again.
//!
//! Key: mailbox (16). Value: nothing.

use heed::RoTxn;
use posthaste_mail_model::MailboxId;
use posthaste_store::Result;

use super::{Index, Indexed, Writing, beginning_with, damaged};

/// Notes that a mailbox was removed.
pub(crate) fn note(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    index.removed.put(txn, &mailbox.0.to_bytes(), &[]).indexed()
}

/// Whether a mailbox of this id was removed.
pub(crate) fn has(index: &Index, txn: &RoTxn, mailbox: MailboxId) -> Result<bool> {
    Ok(index.removed.get(txn, &mailbox.0.to_bytes()).indexed()?.is_some())
}

/// The mailboxes from one on.
pub(crate) fn keys_from<'t>(
    index: &Index,
    txn: &'t RoTxn,
    from: &[u8],
) -> Result<impl Iterator<Item = Result<&'t [u8; 16]>> + use<'t>> {
    let records = index.removed.range(txn, &beginning_with(from)).indexed()?;
    Ok(records.map(|item| item.indexed()?.0.try_into().map_err(|_| damaged("key of a removed mailbox")())))
}
