//! Mailbox lists: one conditional write each.
//!
//! A list is one value: even a thousand mailboxes are 60 KB, and lists change seldom. A new
//! mailbox's partition is made before the list that names it, a removed one's is closed after. The
//! sweep finds mailboxes that a crash leaves in between.
//!
//! A list carries a fence, as a mailbox does ([`crate::mailboxes::partition`]). The sweep replaces
//! it before it closes a mailbox that the list does not name. So no change under way can still name
//! that mailbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{AccountId, Id, MailboxId, ModSeq};
use posthaste_store::{CommitOutcome, ListCommit, MailboxList, Result, StoreError};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlValue;

use crate::cluster::Cluster;
use crate::cluster::connection::{AT_ONCE, Attempt, RESTARTS_MAX};
use crate::cluster::ids::{blob, modseq_column};
use crate::list_work::ListWork;
use crate::mailboxes::Mailboxes;
use crate::mailboxes::partition::{Partition, fence_value};
use crate::mailboxes::rows::Fence;
use crate::stored::values::StoredList;

/// Bytes of a list at most: well below the largest mutation of Cassandra; some 100,000 mailboxes.
const LIST_BYTES_MAX: usize = 8 << 20;

/// A mailbox list, and the fence it was read with.
pub(crate) struct FencedList {
    pub(crate) list: MailboxList,
    /// The last commits, oldest first.
    commits: Vec<Id>,
    /// Octets of the stored value.
    octets: usize,
    pub(crate) fence: Fence,
}

impl FencedList {
    /// The version as a column's value: nothing for an account without a list.
    pub(crate) fn version_value(&self) -> Option<CqlValue> {
        let version = self.list.version;
        (version != ModSeq::ZERO).then(|| CqlValue::BigInt(version.value().cast_signed()))
    }
}

/// A change of a list whose mailboxes have been made.
pub(crate) struct ReadyList {
    stored: FencedList,
    /// Partitions of the mailboxes that the change removes, read before the change.
    removed: Vec<(MailboxId, Partition)>,
}

/// The mailbox lists of accounts.
pub(crate) struct Lists {
    cluster: Arc<Cluster>,
    mailboxes: Arc<Mailboxes>,
    work: ListWork,
}

impl Lists {
    pub(crate) fn new(cluster: Arc<Cluster>, mailboxes: Arc<Mailboxes>) -> Self {
        Self { cluster, mailboxes, work: ListWork::new() }
    }

    pub(crate) async fn read(&self, account: AccountId) -> Result<FencedList> {
        self.read_by(&self.cluster.statements.list.read, account).await
    }

    /// The mailboxes that an account's list names, by a plain read.
    pub(crate) async fn mailboxes_of(&self, account: AccountId) -> Result<Vec<MailboxId>> {
        Ok(self.read(account).await?.list.entries.iter().map(|entry| entry.id).collect())
    }

    pub(crate) async fn read_by(
        &self,
        statement: &PreparedStatement,
        account: AccountId,
    ) -> Result<FencedList> {
        let key = account.0.to_bytes();
        // The value stays in the memory of the database's answer.
        type Columns = (Option<i64>, Option<Bytes>, Fence);
        let rows = self.cluster.read::<Columns>(statement, (&key[..],)).await?;
        let (version, value, fence) = rows.into_iter().next().unwrap_or_default();
        if version.is_none() && value.is_none() {
            let list = MailboxList::empty(account);
            return Ok(FencedList { list, commits: Vec::new(), octets: 0, fence });
        }
        let value = value.unwrap_or_default();
        let octets = value.len();
        let StoredList { list, commits } = self
            .work
            .decoded(account, value)
            .await?
            .ok_or_else(|| StoreError::Corrupt(format!("the mailbox list of account {account}")))?;
        if version != Some(modseq_column(list.version)) {
            // A change would compare with the column and be refused for ever.
            return Err(StoreError::Corrupt(format!("the version of the mailbox list of account {account}")));
        }
        Ok(FencedList { list, commits, octets, fence })
    }

    pub(crate) async fn change(&self, commit: ListCommit) -> Result<CommitOutcome> {
        for attempt in 0..RESTARTS_MAX {
            let Some(ready) = self.prepare(&commit).await? else { return Ok(CommitOutcome::Conflict) };
            if self.put(&commit, ready).await? == CommitOutcome::Done {
                return Ok(CommitOutcome::Done);
            }
            // A sweep fenced the list: nothing else changed. The mailboxes are made again, in case
            // it closed them.
            let now = self.read_by(&self.cluster.statements.list.read_serial, commit.account).await?;
            if now.list.version != commit.expected {
                return Ok(CommitOutcome::Conflict);
            }
            self.cluster.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    /// Makes the mailboxes that a change names; `None` if the list is at another version.
    pub(crate) async fn prepare(&self, commit: &ListCommit) -> Result<Option<ReadyList>> {
        let stored = self.read(commit.account).await?;
        if stored.list.version != commit.expected {
            return Ok(None);
        }
        let known: BTreeSet<MailboxId> = stored.list.entries.iter().map(|entry| entry.id).collect();
        let new = commit.upsert.iter().map(|entry| entry.id).filter(|id| !known.contains(id));
        for id in new {
            self.mailboxes.create_mailbox(commit.account, id).await?;
        }
        let removed = stream::iter(commit.remove.clone())
            .map(|id| async move { Ok::<_, StoreError>((id, self.mailboxes.partition(id).await?)) })
            .buffer_unordered(AT_ONCE);
        Ok(Some(ReadyList { stored, removed: removed.try_collect().await? }))
    }

    /// Writes a list that [`Self::prepare`] prepared, then closes the mailboxes it no longer names.
    pub(crate) async fn put(&self, commit: &ListCommit, ready: ReadyList) -> Result<CommitOutcome> {
        let ReadyList { stored, removed } = ready;
        let id = self.cluster.new_id();
        let (version, fence) = (stored.version_value(), fence_value(&stored.fence));
        let FencedList { list, commits, octets, .. } = stored;
        let value = self.work.changed(StoredList { list, commits }, octets, commit, id).await?;
        if value.len() > LIST_BYTES_MAX {
            return Err(StoreError::TooLarge {
                what: "a mailbox list of bytes",
                limit: LIST_BYTES_MAX as u64,
            });
        }
        let account = commit.account;
        let values = vec![
            Some(CqlValue::BigInt(commit.version.value().cast_signed())),
            Some(CqlValue::Blob(value)),
            Some(blob(account.0)),
            version,
            fence,
        ];
        let applied = || async move {
            let now = self.read_by(&self.cluster.statements.list.read_serial, account).await?;
            Ok(now.commits.contains(&id))
        };
        let outcome =
            self.cluster.conditionally(vec![(&self.cluster.statements.list.put, values)], applied).await?;
        if outcome == CommitOutcome::Done {
            let close = |(mailbox, partition)| self.close_removed(account, mailbox, partition);
            let removed = stream::iter(removed).map(Ok);
            removed.try_for_each_concurrent(AT_ONCE, close).await.unwrap_or_else(
                // The list decides. The sweep closes mailboxes that it does not name.
                |error| tracing::warn!(%account, %error, "a removed mailbox is not closed yet; the sweep will close it"),
            );
        }
        Ok(outcome)
    }

    /// Closes a mailbox that a change of the list removed; `partition` was read before that change.
    async fn close_removed(
        &self,
        account: AccountId,
        mailbox: MailboxId,
        partition: Partition,
    ) -> Result<()> {
        let Partition::Open(fence) = partition else { return Ok(()) };
        // The change of the list came after the fence was read. It refuses a change that would
        // name the mailbox again.
        if !self.mailboxes.close_mailbox(mailbox, &fence).await? {
            self.close_unlisted(account, mailbox).await?;
        }
        Ok(())
    }

    /// Replaces the fence of an account's list. Returns the list. Afterwards no change of the
    /// list applies that began before the call.
    async fn fence_list(&self, account: AccountId) -> Result<MailboxList> {
        let old = self.read_by(&self.cluster.statements.list.read_serial, account).await?;
        let new = self.cluster.new_id();
        for attempt in 0..RESTARTS_MAX {
            let values =
                vec![Some(blob(new)), Some(blob(account.0)), old.version_value(), fence_value(&old.fence)];
            let applied = self.cluster.attempt(&[(&self.cluster.statements.list.fence, values)]).await?;
            let now = self.read_by(&self.cluster.statements.list.read_serial, account).await?;
            // A change that came first raised the version, which has the same effect.
            let replaced = now.fence != old.fence || now.list.version != old.list.version;
            if replaced || matches!(applied, Attempt::Applied) {
                return Ok(now.list);
            }
            self.cluster.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    /// Closes a mailbox unless the account's list names it, or a change under way is about to;
    /// whether it is closed.
    ///
    /// The order matters. The mailbox's fence is read, the list is fenced, the list is read, and
    /// the mailbox is closed on condition of its fence. A change of the list that names the mailbox
    /// replaces the mailbox's fence first, and reads the list before that. Either the list's fence
    /// refuses this change, or the mailbox's fence refuses the closing.
    pub(crate) async fn close_unlisted(&self, account: AccountId, mailbox: MailboxId) -> Result<bool> {
        let Partition::Open(fence) = self.mailboxes.partition(mailbox).await? else { return Ok(true) };
        let list = self.fence_list(account).await?;
        if list.entries.iter().any(|entry| entry.id == mailbox) {
            return Ok(false);
        }
        self.mailboxes.close_mailbox(mailbox, &fence).await
    }
}
