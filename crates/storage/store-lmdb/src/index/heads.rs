//! The table `heads`: the state of a mailbox without its rows, and the sizes of its records in the
//! log.
//!
//! Key: mailbox (16). Value: sum (4), the mod-sequence up to which expunges are forgotten (8),
//! head, [`Logged`]. Every commit on a mailbox writes it.

use std::sync::Arc;

use heed::RoTxn;
use posthaste_mail_model::{Id, Keyword, KeywordTable, MailboxId, ModSeq, Uid};
use posthaste_store::octets::{Octets, put_counted, put_varint};
use posthaste_store::{Counts, MailboxHead, Result};

use super::{Index, Indexed, Writing, damaged, removed, rows};
use crate::index::checksum::seed;
use crate::index::logged::Logged;
use crate::index::sealed::{open_value, seal, unseal};

/// Writes a head's fields.
pub(crate) fn put_head(out: &mut Vec<u8>, head: &MailboxHead) {
    out.extend_from_slice(&head.modseq.value().to_le_bytes());
    out.extend_from_slice(&head.uid_next.value().to_le_bytes());
    out.extend_from_slice(&head.first_recent.value().to_le_bytes());
    out.extend_from_slice(&head.counts.messages.to_le_bytes());
    out.extend_from_slice(&head.counts.unseen.to_le_bytes());
    out.extend_from_slice(&head.counts.deleted.to_le_bytes());
    out.extend_from_slice(&head.counts.bytes.to_le_bytes());
    put_varint(out, head.keywords.keywords().len() as u64);
    for keyword in head.keywords.keywords() {
        put_counted(out, keyword.as_str().as_bytes());
    }
}

/// Reads what [`put_head`] wrote.
pub(crate) fn read_head(read: &mut Octets<'_>) -> Option<MailboxHead> {
    let modseq = ModSeq::new(read.u64()?)?;
    let (uid_next, first_recent) = (Uid::new(read.u32()?)?, Uid::new(read.u32()?)?);
    let (messages, unseen, deleted) = (read.u32()?, read.u32()?, read.u32()?);
    let counts = Counts { messages, unseen, deleted, bytes: read.u64()? };
    let n = read.varint()?.min(KeywordTable::SLOTS as u64 + 1);
    let keywords = (0..n).map(|_| Keyword::new(read.text()?).ok()).collect::<Option<Vec<_>>>()?;
    let keywords = Arc::new(KeywordTable::from_keywords(keywords).ok()?);
    Some(MailboxHead { modseq, uid_next, first_recent, keywords, counts })
}

/// A head as stored.
pub(crate) struct StoredHead {
    pub(crate) head: MailboxHead,
    /// The mod-sequence below which expunges have been forgotten.
    pub(crate) forgotten: ModSeq,
    /// The sizes of the mailbox's records in the log.
    pub(crate) logged: Logged,
}

pub(crate) fn head_value(mailbox: MailboxId, stored: &StoredHead) -> Vec<u8> {
    let mut out = open_value();
    out.extend_from_slice(&stored.forgotten.value().to_le_bytes());
    put_head(&mut out, &stored.head);
    stored.logged.put(&mut out);
    seal(seed(mailbox.0), out)
}

pub(crate) fn head_from(mailbox: MailboxId, value: &[u8]) -> Option<StoredHead> {
    let mut read = unseal(seed(mailbox.0), value)?;
    let forgotten = ModSeq::new(read.u64()?)?;
    let head = read_head(&mut read)?;
    let logged = Logged::read(&mut read)?;
    Some(StoredHead { head, forgotten, logged })
}

impl Index {
    /// The head of a mailbox; `None` if it was removed, or never was in a list.
    pub(crate) fn head(&self, txn: &RoTxn, mailbox: MailboxId) -> Result<Option<StoredHead>> {
        if let Some(value) = self.heads.get(txn, &mailbox.0.to_bytes()).indexed()? {
            let head = head_from(mailbox, value);
            return head.map(Some).ok_or_else(damaged(format_args!("head of mailbox {mailbox}")));
        }
        // A mailbox without a head was removed, or never existed. A mailbox that has rows lost
        // its head to damage. If it were reported as deleted, clients would remove it.
        if !removed::has(self, txn, mailbox)? && rows::has_any(self, txn, mailbox)? {
            return Err(damaged(format_args!("the head of mailbox {mailbox} is missing"))());
        }
        Ok(None)
    }

    /// Sets the head of a mailbox.
    pub(crate) fn put_head(&self, txn: &mut Writing, mailbox: MailboxId, stored: &StoredHead) -> Result<()> {
        self.heads.put(txn, &mailbox.0.to_bytes(), &head_value(mailbox, stored)).indexed()
    }

    /// Creates a mailbox whose id was never used.
    pub(crate) fn create_mailbox(&self, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
        let key = mailbox.0.to_bytes();
        let known = self.heads.get(txn, &key).indexed()?.is_some();
        if known || removed::has(self, txn, mailbox)? {
            return Ok(());
        }
        let (head, logged) = (MailboxHead::default(), Logged::default());
        self.put_head(txn, mailbox, &StoredHead { head, forgotten: ModSeq::ZERO, logged })
    }
}

/// Whether a mailbox has a head, damaged or not.
pub(super) fn has(index: &Index, txn: &RoTxn, mailbox: MailboxId) -> Result<bool> {
    Ok(index.heads.get(txn, &mailbox.0.to_bytes()).indexed()?.is_some())
}

/// Deletes the head of a mailbox, damaged or not.
pub(super) fn remove(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    index.heads.delete(txn, &mailbox.0.to_bytes()).indexed().map(drop)
}

/// Every mailbox that has a head, damaged or not; `None` for a key that is no mailbox's.
pub(crate) fn mailboxes<'t>(
    index: &Index,
    txn: &'t RoTxn,
) -> Result<impl Iterator<Item = Result<Option<MailboxId>>> + use<'t>> {
    let records = index.heads.iter(txn).indexed()?;
    Ok(records.map(|item| Ok(item.indexed()?.0.try_into().ok().map(|id| MailboxId(Id::from_bytes(id))))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::PackBytes;

    #[test]
    fn a_head_comes_back_under_its_key_alone() {
        let (a, b) = (MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2)));
        let head = posthaste_store::suite::sample_head();
        let mut logged = Logged::default();
        logged.grew(PackBytes { pack: 3, bytes: 120 }, 4, 0);
        let stored = StoredHead { head: head.clone(), forgotten: ModSeq::new(9).unwrap(), logged };
        let value = head_value(a, &stored);
        let back = head_from(a, &value).unwrap();
        assert_eq!((back.head, back.forgotten.value(), back.logged), (head, 9, logged));
        assert!(head_from(b, &value).is_none());
    }
}
