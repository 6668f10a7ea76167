//! Creates, fences, closes and erases a mailbox's partition, each by one conditional write.
//!
//! A **fence** is an id in the mailbox's partition. A commit reads it before it writes anything,
//! and its batch applies only while the fence is still the same. The sweep replaces the fence, and
//! reads the rows after that: a commit that began before can no longer apply, however late its
//! batch comes. An account's list has a fence of the same kind.
//!
//! No clock is used. A fence is never used twice, so that a new partition under an old id refuses
//! commits that were made for the old partition.

use posthaste_mail_model::{AccountId, MailboxId, ModSeq};
use posthaste_store::{CommitOutcome, IN_ANOTHER_LIST, MailboxHead, Result, StoreError};
use scylla::response::PagingState;
use scylla::value::CqlValue;

use crate::cluster::connection::{Attempt, Batch, RESTARTS_MAX};
use crate::cluster::ids::blob;
use crate::mailboxes::Mailboxes;
use crate::mailboxes::rows::{Fence, put_values};
use crate::mailboxes::summaries::bucket;
use crate::stored::chunk::Chunk;
use crate::stored::values::{LogEntry, StoredHead};

/// A mailbox's partition, by a read that first completes, or rules out, every conditional write in
/// flight.
pub(crate) enum Partition {
    /// The partition does not exist.
    Missing,
    /// The mailbox was removed. Its rows and summaries may still exist.
    Closed,
    /// The mailbox is in use.
    Open(Fence),
}

/// The value that a condition on a fence is bound to.
pub(crate) fn fence_value(fence: &Fence) -> Option<CqlValue> {
    fence.clone().map(CqlValue::Blob)
}

impl Mailboxes {
    /// The state of a mailbox's partition.
    pub(crate) async fn partition(&self, mailbox: MailboxId) -> Result<Partition> {
        type Columns = (Option<i64>, Option<Vec<u8>>, Fence);
        let values = (&mailbox.0.to_bytes()[..],);
        let found =
            self.cluster.read::<Columns>(&self.cluster.statements.mailbox.head_serial, values).await?;
        Ok(match found.into_iter().next() {
            Some((Some(modseq), _, fence)) if modseq >= 0 => Partition::Open(fence),
            Some((Some(_), _, _)) => Partition::Closed,
            _ => Partition::Missing,
        })
    }

    /// Replaces a mailbox's fence. Afterwards no commit applies that began before the call.
    /// `false`: the mailbox is not in use, and no commit applies at all.
    pub(crate) async fn fence(&self, mailbox: MailboxId) -> Result<bool> {
        let Partition::Open(old) = self.partition(mailbox).await? else { return Ok(false) };
        let new = self.cluster.new_id();
        for attempt in 0..RESTARTS_MAX {
            let values = vec![Some(blob(new)), Some(blob(mailbox.0)), fence_value(&old)];
            if let Attempt::Applied =
                self.cluster.attempt(&[(&self.cluster.statements.mailbox.fence, values)]).await?
            {
                return Ok(true);
            }
            // An answer may have been lost, or another fence may have come first. It came after
            // the read above, and has the same effect.
            match self.partition(mailbox).await? {
                Partition::Open(now) if now == old => {}
                Partition::Open(_) => return Ok(true),
                Partition::Closed | Partition::Missing => return Ok(false),
            }
            self.cluster.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    /// Makes a mailbox's partition: a head, an empty last chunk, an empty log. An existing one
    /// gets a new fence, so that a sweep that was about to close it does not. One that was made
    /// for another account is refused. A closed one is erased first, and begins empty.
    pub(crate) async fn create_mailbox(&self, account: AccountId, mailbox: MailboxId) -> Result<()> {
        for attempt in 0..RESTARTS_MAX {
            match self.partition(mailbox).await? {
                Partition::Open(_) => {
                    if self.is_of_another(account, mailbox).await? {
                        return Err(IN_ANOTHER_LIST);
                    }
                    if self.fence(mailbox).await? {
                        return Ok(());
                    }
                }
                Partition::Closed => self.erase_mailbox(mailbox).await?,
                Partition::Missing => {
                    let batch = self.creation(account, mailbox);
                    if let Attempt::Applied = self.cluster.attempt(&batch).await? {
                        return Ok(());
                    }
                }
            }
            self.cluster.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    /// Whether a mailbox's partition was made for another account: its list may have it. The
    /// account of a partition never changes.
    pub(crate) async fn is_of_another(&self, account: AccountId, mailbox: MailboxId) -> Result<bool> {
        type Columns = (Option<Vec<u8>>,);
        let values = (&mailbox.0.to_bytes()[..],);
        let found = self.cluster.read::<Columns>(&self.cluster.statements.mailbox.owner, values).await?;
        Ok(matches!(found.into_iter().next(), Some((Some(owner),)) if owner != account.0.to_bytes()))
    }

    fn creation(&self, account: AccountId, mailbox: MailboxId) -> Batch<'_> {
        let head = StoredHead { head: MailboxHead::default(), forgotten: ModSeq::ZERO }.encode(mailbox);
        let entry = LogEntry { commit: mailbox.0, rows: Some(Vec::new()), expunged: Vec::new() };
        let values = vec![
            Some(CqlValue::Blob(head)),
            Some(blob(account.0)),
            Some(blob(self.cluster.new_id())),
            Some(blob(mailbox.0)),
        ];
        let chunk = Chunk::default().encode(mailbox, 0);
        vec![
            (&self.cluster.statements.mailbox.create, values),
            (&self.cluster.statements.mailbox.put, put_values(mailbox, 0, 0, chunk)),
            (
                &self.cluster.statements.mailbox.put,
                put_values(mailbox, 1, 0, entry.encode(mailbox, ModSeq::ZERO)),
            ),
        ]
    }

    /// Closes a mailbox if its fence is still this one: it answers `NoMailbox` from then on.
    /// `false`: it has another fence.
    pub(crate) async fn close_mailbox(&self, mailbox: MailboxId, fence: &Fence) -> Result<bool> {
        let values = vec![Some(blob(mailbox.0)), fence_value(fence)];
        let batch = vec![(&self.cluster.statements.mailbox.close, values)];
        let closed = || async move { Ok(!matches!(self.partition(mailbox).await?, Partition::Open(_))) };
        Ok(self.cluster.conditionally(batch, closed).await? == CommitOutcome::Done)
    }

    /// Removes a closed mailbox's summaries, then its rows. Any node may do so, at any time, and
    /// several at once. Summaries are removed by the ids of their commits, which are never used
    /// again. They are removed only if the mailbox is still closed after the ids were read: it
    /// may have been created again. Rows are removed on condition that the mailbox is closed.
    pub(crate) async fn erase_mailbox(&self, mailbox: MailboxId) -> Result<()> {
        let last = self.floor(mailbox, u32::MAX).await?.map_or(0, |floor| floor.head.head.uid_next.value());
        for n in 0..=bucket(last) {
            let mut from = Some(PagingState::start());
            while let Some(state) = from {
                let (keys, next) = self.summary_keys(mailbox, n, state).await?;
                if !keys.is_empty() {
                    if !matches!(self.partition(mailbox).await?, Partition::Closed) {
                        return Ok(());
                    }
                    self.delete_summaries(mailbox, n, &keys).await?;
                }
                from = next;
            }
        }
        let key = || Some(blob(mailbox.0));
        let rows =
            |kind| (&self.cluster.statements.mailbox.erase_rows, vec![key(), Some(CqlValue::TinyInt(kind))]);
        let batch = vec![(&self.cluster.statements.mailbox.erase, vec![key()]), rows(0), rows(1)];
        let erased = || async move { Ok(!matches!(self.partition(mailbox).await?, Partition::Closed)) };
        self.cluster.conditionally(batch, erased).await.map(drop)
    }
}
