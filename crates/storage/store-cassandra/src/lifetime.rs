//! A mailbox's partition is made, fenced, closed and erased here: each by one conditional write.
//!
//! A **fence** is an id in the mailbox's partition. A commit reads it before it writes anything, and its batch applies only
//! while the fence is still the same. The sweep replaces the fence, and then judges: a commit that began before can no
//! longer apply, however late its batch comes. An account's list has a fence of the same kind.
//!
//! No clock takes part. A fence is never used twice, so that a partition made again under an old id refuses what was meant
//! for the one before.

use posthaste_mail_model::{AccountId, MailboxId, ModSeq};
use posthaste_store::{CommitOutcome, MailboxHead, MailboxList, Result, StoreError};
use scylla::value::CqlValue;

use crate::chunk::Chunk;
use crate::contents::bucket;
use crate::engine::CassandraEngine;
use crate::read::RESTARTS_MAX;
use crate::session::{Attempt, blob};
use crate::values::{LogEntry, StoredHead};

/// A fence as stored: 16 octets, or nothing in a partition that was made before there were fences.
pub(crate) type Fence = Option<Vec<u8>>;

/// A mailbox's partition, by a read that first completes, or rules out, every conditional write in flight.
pub(crate) enum Partition {
    /// There is none.
    Missing,
    /// The mailbox was removed. Its rows and summaries may still be there.
    Closed,
    /// The mailbox is in use.
    Open(Fence),
}

fn fence_value(fence: &Fence) -> Option<CqlValue> {
    fence.clone().map(CqlValue::Blob)
}

impl CassandraEngine {
    /// The state of a mailbox's partition.
    pub(crate) async fn partition(&self, mailbox: MailboxId) -> Result<Partition> {
        type Found = (Option<i64>, Option<Vec<u8>>, Fence);
        let values = (&mailbox.0.to_bytes()[..],);
        let found = self.database.read::<Found>(&self.statements.head_settled, values).await?;
        Ok(match found.into_iter().next() {
            Some((Some(modseq), _, fence)) if modseq >= 0 => Partition::Open(fence),
            Some((Some(_), _, _)) => Partition::Closed,
            _ => Partition::Missing,
        })
    }

    /// Replaces a mailbox's fence. Afterwards no commit applies that began before the call. `false`: the mailbox is not
    /// in use, and no commit applies at all.
    pub(crate) async fn fence(&self, mailbox: MailboxId) -> Result<bool> {
        let Partition::Open(old) = self.partition(mailbox).await? else { return Ok(false) };
        let new = self.database.new_id();
        for attempt in 0..RESTARTS_MAX {
            let values = vec![Some(blob(new)), Some(blob(mailbox.0)), fence_value(&old)];
            if let Attempt::Applied = self.database.attempt(&[(&self.statements.fence, values)]).await? {
                return Ok(true);
            }
            // An answer may have been lost, or another fence may have come first. It came after the read above, and serves.
            match self.partition(mailbox).await? {
                Partition::Open(now) if now == old => {}
                Partition::Open(_) => return Ok(true),
                Partition::Closed | Partition::Missing => return Ok(false),
            }
            self.database.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    /// Replaces the fence of an account's list; answers with the list. Afterwards no change of the list applies that
    /// began before the call.
    async fn fence_list(&self, account: AccountId) -> Result<MailboxList> {
        let old = self.list_by(&self.statements.list_settled, account).await?;
        let new = self.database.new_id();
        for attempt in 0..RESTARTS_MAX {
            let values =
                vec![Some(blob(new)), Some(blob(account.0)), old.version_value(), fence_value(&old.fence)];
            let applied = self.database.attempt(&[(&self.statements.list_fence, values)]).await?;
            let now = self.list_by(&self.statements.list_settled, account).await?;
            // A change that came first raised the version, which serves as well.
            let replaced = now.fence != old.fence || now.list.version != old.list.version;
            if replaced || matches!(applied, Attempt::Applied) {
                return Ok(now.list);
            }
            self.database.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    /// Makes a mailbox's partition: a head, an empty last chunk, an empty log. One that is there gets a new fence, so that a
    /// sweep that was about to close it does not. One that was closed is erased first, and begins empty.
    pub(crate) async fn create_mailbox(&self, account: AccountId, mailbox: MailboxId) -> Result<()> {
        for attempt in 0..RESTARTS_MAX {
            match self.partition(mailbox).await? {
                Partition::Open(_) => match self.fence(mailbox).await? {
                    true => return Ok(()),
                    false => {}
                },
                Partition::Closed => self.erase_mailbox(mailbox).await?,
                Partition::Missing => {
                    let batch = self.creation(account, mailbox);
                    if let Attempt::Applied = self.database.attempt(&batch).await? {
                        return Ok(());
                    }
                }
            }
            self.database.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    fn creation(&self, account: AccountId, mailbox: MailboxId) -> crate::commit::Batch<'_> {
        let head = StoredHead { head: MailboxHead::default(), forgotten: ModSeq::ZERO }.encode(mailbox);
        let entry = LogEntry { commit: mailbox.0, rows: Some(Vec::new()), expunged: Vec::new() };
        let values = vec![
            Some(CqlValue::Blob(head)),
            Some(blob(account.0)),
            Some(blob(self.database.new_id())),
            Some(blob(mailbox.0)),
        ];
        let chunk = Chunk::default().encode(mailbox, 0);
        vec![
            (&self.statements.create, values),
            (&self.statements.put, self.put_values(mailbox, 0, 0, chunk)),
            (&self.statements.put, self.put_values(mailbox, 1, 0, entry.encode(mailbox, ModSeq::ZERO))),
        ]
    }

    /// Closes a mailbox if its fence is still this one: it answers `NoMailbox` from then on. `false`: it has another fence.
    pub(crate) async fn close_mailbox(&self, mailbox: MailboxId, fence: &Fence) -> Result<bool> {
        let values = vec![Some(blob(mailbox.0)), fence_value(fence)];
        let batch = vec![(&self.statements.remove, values)];
        let closed = || async move { Ok(!matches!(self.partition(mailbox).await?, Partition::Open(_))) };
        Ok(self.conditionally(batch, closed).await? == CommitOutcome::Done)
    }

    /// Closes a mailbox unless the account's list names it, or a change under way is about to; whether it is closed.
    ///
    /// The order is what counts: the mailbox's fence is read, the list is fenced, the list is read, the mailbox is closed on
    /// condition of its fence. A change of the list that names the mailbox replaces the mailbox's fence first, and reads the
    /// list before that. Either the list's fence refuses this change, or the mailbox's fence refuses the closing.
    pub(crate) async fn close_unlisted(&self, account: AccountId, mailbox: MailboxId) -> Result<bool> {
        let Partition::Open(fence) = self.partition(mailbox).await? else { return Ok(true) };
        let list = self.fence_list(account).await?;
        if list.entries.iter().any(|entry| entry.id == mailbox) {
            return Ok(false);
        }
        self.close_mailbox(mailbox, &fence).await
    }

    /// Removes a closed mailbox's summaries, then its rows. Anyone may do so, at any time and together: summaries go by the ids of
    /// their commits, which never come back, and the rows on condition that the mailbox is closed.
    pub(crate) async fn erase_mailbox(&self, mailbox: MailboxId) -> Result<()> {
        let last = self.floor(mailbox, u32::MAX).await?.map_or(0, |floor| floor.head.head.uid_next.value());
        for n in 0..=bucket(last) {
            let mut from = Some(scylla::response::PagingState::start());
            while let Some(state) = from {
                let values = (&mailbox.0.to_bytes()[..], n);
                let keys = self.database.page::<(i64, Vec<u8>)>(&self.statements.summary_keys, values, state);
                let (keys, next) = keys.await?;
                self.delete_summaries(mailbox, n, &keys).await?;
                from = next;
            }
        }
        let key = || Some(blob(mailbox.0));
        let rows = |kind| (&self.statements.erase_rows, vec![key(), Some(CqlValue::TinyInt(kind))]);
        let batch = vec![(&self.statements.erase, vec![key()]), rows(0), rows(1)];
        let erased = || async move { Ok(!matches!(self.partition(mailbox).await?, Partition::Closed)) };
        self.conditionally(batch, erased).await.map(drop)
    }

    /// Removes summaries of one bucket by UID and commit.
    pub(crate) async fn delete_summaries(
        &self,
        mailbox: MailboxId,
        bucket: i32,
        keys: &[(i64, Vec<u8>)],
    ) -> Result<()> {
        for dead in keys.chunks(DELETE_BATCH_MAX) {
            let values = dead.iter().map(|(uid, commit)| {
                let (uid, commit) = (CqlValue::BigInt(*uid), CqlValue::Blob(commit.clone()));
                vec![Some(blob(mailbox.0)), Some(CqlValue::Int(bucket)), Some(uid), Some(commit)]
            });
            let batch: Vec<_> = values.map(|values| (&self.statements.summary_delete, values)).collect();
            self.database.write_all(&batch).await?;
        }
        Ok(())
    }
}

/// Deletions in one write.
const DELETE_BATCH_MAX: usize = 128;
