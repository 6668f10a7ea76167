//! The table `due`: mailboxes that need a checkpoint record in the log.
//!
//! Key: mailbox (16). Value: nothing.

use heed::RoTxn;
use posthaste_mail_model::{Id, MailboxId};
use posthaste_store::Result;

use super::{Index, Indexed, Writing, damaged};

/// Notes a mailbox.
pub(crate) fn note(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    index.due.put(txn, &mailbox.0.to_bytes(), &[]).indexed()
}

/// Forgets a mailbox, whether it was noted or not.
pub(crate) fn forget(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    index.due.delete(txn, &mailbox.0.to_bytes()).indexed().map(drop)
}

/// Whether no mailbox is noted.
pub(crate) fn is_empty(index: &Index, txn: &RoTxn) -> Result<bool> {
    index.due.is_empty(txn).indexed()
}

/// The first of the mailboxes, at most `limit`.
pub(crate) fn first(index: &Index, txn: &RoTxn, limit: usize) -> Result<Vec<MailboxId>> {
    let mut due = Vec::new();
    for item in index.due.iter(txn).indexed()?.take(limit) {
        let id = item.indexed()?.0.try_into().ok().map(Id::from_bytes);
        due.push(MailboxId(id.ok_or_else(damaged("key of a mailbox that is due"))?));
    }
    Ok(due)
}
