//! Checkpoints of mailboxes in the log: the replay begins with them.
//!
//! The newest checkpoint of each mailbox whose content is intact is put into the new index before
//! anything is replayed. Commits with lower sequence numbers than it names are skipped. If the
//! newest is damaged, the one before it is used. If there is no other, only the commits are
//! redone. Then the mailbox is in doubt, because commits that the checkpoint contained may have
//! been dropped.

use std::collections::HashMap;

use posthaste_mail_model::MailboxId;

use super::catalog::Entry;

/// The checkpoints of the log.
#[derive(Default)]
pub(super) struct Checkpoints {
    /// The checkpoints of each mailbox, by sequence number.
    pub(super) found: HashMap<MailboxId, Vec<Entry>>,
    /// By mailbox: records before this sequence number are in its checkpoint.
    pub(super) upto: HashMap<MailboxId, u64>,
    /// Bytes of superseded records, by pack.
    pub(super) superseded: HashMap<u32, u64>,
}

impl Checkpoints {
    /// Whether a record about a mailbox is in its checkpoint.
    pub(super) fn has(&self, mailbox: MailboxId, seq: u64) -> bool {
        self.upto.get(&mailbox).is_some_and(|upto| seq < *upto)
    }

    /// Counts dead bytes.
    pub(super) fn count_dead(&mut self, pack: u32, bytes: u64) {
        *self.superseded.entry(pack).or_default() += bytes;
    }
}
