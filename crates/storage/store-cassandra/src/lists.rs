//! Mailbox lists and the directory: one conditional write each.
//!
//! A list is one value: even a thousand mailboxes are 60 KB, and lists change seldom. A new mailbox's partition is made before the list
//! that names it, a removed one's is closed after; what a crash leaves between is found by the sweep.
//!
//! A list carries a fence, as a mailbox does ([`crate::lifetime`]): the sweep replaces it before it closes a mailbox that the list
//! does not name, so that no change under way can still name it.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::ModSeq;
use posthaste_mail_model::{AccountId, Id, MailboxId};
use posthaste_store::{
    CommitOutcome, DirectoryChange, DirectoryEntry, ListCommit, MailboxList, Result, StoreError,
};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlValue;
use std::collections::BTreeSet;

use crate::commit::Batch;
use crate::engine::CassandraEngine;
use crate::lifetime::{Fence, Partition};
use crate::read::{AT_ONCE, RESTARTS_MAX};
use crate::schema::DIRECTORY_BUCKETS;
use crate::seal::{place, seal, unseal};
use crate::session::{ATTEMPTS_MAX, Attempt, blob};
use crate::values::{LIST_COMMITS_MAX, StoredList};

/// Bytes of a list at most: what Cassandra takes as one mutation with room to spare; some 100,000 mailboxes.
const LIST_BYTES_MAX: usize = 8 << 20;

/// For the checksum's place.
const KIND: u8 = 7;

fn entry_place(name: &str) -> u32 {
    crc32c::crc32c_append(place(KIND, Id::new(0, 0), 0), name.as_bytes())
}

/// The bucket of a directory record.
fn bucket_of(name: &str) -> i32 {
    (crc32c::crc32c(name.as_bytes()) % DIRECTORY_BUCKETS).cast_signed()
}

/// A directory record as stored.
struct StoredEntry {
    entry: DirectoryEntry,
    commit: Vec<u8>,
}

/// A mailbox list, and the fence it was read with.
pub(crate) struct FencedList {
    pub(crate) list: MailboxList,
    /// The last commits, oldest first.
    commits: Vec<Id>,
    pub(crate) fence: Fence,
}

impl FencedList {
    /// The version as its column has it: nothing for an account without a list.
    pub(crate) fn version_value(&self) -> Option<CqlValue> {
        let version = self.list.version;
        (version != ModSeq::ZERO).then(|| CqlValue::BigInt(version.value().cast_signed()))
    }
}

/// A change of a list whose mailboxes have been made.
pub(crate) struct ReadyList {
    stored: FencedList,
    /// Partitions of the mailboxes that the change removes, as they were before it.
    removed: Vec<(MailboxId, Partition)>,
}

impl CassandraEngine {
    pub(crate) async fn stored_list(&self, account: AccountId) -> Result<FencedList> {
        self.list_by(&self.statements.list, account).await
    }

    pub(crate) async fn list_by(
        &self,
        statement: &PreparedStatement,
        account: AccountId,
    ) -> Result<FencedList> {
        let key = account.0.to_bytes();
        type Found = (Option<i64>, Option<Vec<u8>>, Fence);
        let rows = self.database.read::<Found>(statement, (&key[..],)).await?;
        let (version, value, fence) = rows.into_iter().next().unwrap_or_default();
        if version.is_none() {
            return Ok(FencedList { list: MailboxList::empty(account), commits: Vec::new(), fence });
        }
        let StoredList { list, commits } = StoredList::decode(account, &value.unwrap_or_default())
            .ok_or_else(|| StoreError::Corrupt(format!("the mailbox list of account {account}")))?;
        Ok(FencedList { list, commits, fence })
    }

    pub(crate) async fn change_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        for attempt in 0..RESTARTS_MAX {
            let Some(ready) = self.prepare_list(&commit).await? else { return Ok(CommitOutcome::Conflict) };
            if self.put_list(&commit, ready).await? == CommitOutcome::Done {
                return Ok(CommitOutcome::Done);
            }
            // A sweep may have fenced the list: then nothing else changed, and the mailboxes are looked after once more.
            let now = self.list_by(&self.statements.list_settled, commit.account).await?;
            if now.list.version != commit.expected {
                return Ok(CommitOutcome::Conflict);
            }
            self.database.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    /// Makes the mailboxes that a change names; `None` if the list is at another version.
    pub(crate) async fn prepare_list(&self, commit: &ListCommit) -> Result<Option<ReadyList>> {
        let stored = self.stored_list(commit.account).await?;
        if stored.list.version != commit.expected {
            return Ok(None);
        }
        let known: BTreeSet<MailboxId> = stored.list.entries.iter().map(|entry| entry.id).collect();
        let new = commit.upsert.iter().map(|entry| entry.id).filter(|id| !known.contains(id));
        for id in new {
            self.create_mailbox(commit.account, id).await?;
        }
        let removed = stream::iter(commit.remove.clone())
            .map(|id| async move { Ok::<_, StoreError>((id, self.partition(id).await?)) })
            .buffer_unordered(AT_ONCE);
        Ok(Some(ReadyList { stored, removed: removed.try_collect().await? }))
    }

    /// Writes a list that [`Self::prepare_list`] prepared, then closes the mailboxes it no longer names.
    pub(crate) async fn put_list(&self, commit: &ListCommit, ready: ReadyList) -> Result<CommitOutcome> {
        let ReadyList { stored, removed } = ready;
        let id = self.database.new_id();
        let list = stored.list.apply(commit);
        let forget = (stored.commits.len() + 1).saturating_sub(LIST_COMMITS_MAX);
        let commits = stored.commits.iter().skip(forget).copied().chain([id]).collect();
        let value = StoredList { list, commits }.encode();
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
            stored.version_value(),
            stored.fence.map(CqlValue::Blob),
        ];
        let applied = || async move {
            let now = self.list_by(&self.statements.list_settled, account).await?;
            Ok(now.commits.contains(&id))
        };
        let outcome = self.conditionally(vec![(&self.statements.list_put, values)], applied).await?;
        if outcome == CommitOutcome::Done {
            let close = |(mailbox, partition)| self.close_removed(account, mailbox, partition);
            let removed = stream::iter(removed).map(Ok);
            removed.try_for_each_concurrent(AT_ONCE, close).await.unwrap_or_else(
                // The list is what counts; the sweep closes what it does not name.
                |error| tracing::warn!(%account, %error, "a removed mailbox is left for the sweep to close"),
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
        // The change of the list came after the fence was read, and refuses whoever is about to name the mailbox again.
        if !self.close_mailbox(mailbox, &fence).await? {
            self.close_unlisted(account, mailbox).await?;
        }
        Ok(())
    }

    /// Sends a conditional write until it is known what became of it. `applied` tells ours from another's.
    pub(crate) async fn conditionally<F>(
        &self,
        batch: Batch<'_>,
        applied: impl Fn() -> F,
    ) -> Result<CommitOutcome>
    where
        F: Future<Output = Result<bool>>,
    {
        let mut failure = StoreError::Busy;
        for attempt in 0..ATTEMPTS_MAX {
            match self.database.attempt(&batch).await? {
                Attempt::Applied => return Ok(CommitOutcome::Done),
                Attempt::Refused => match applied().await {
                    Ok(true) => return Ok(CommitOutcome::Done),
                    Ok(false) => return Ok(CommitOutcome::Conflict),
                    Err(error @ StoreError::Unavailable(_)) => failure = error,
                    Err(error) => return Err(error),
                },
                Attempt::Unknown(error) => failure = error,
            }
            self.database.pause(attempt).await;
        }
        match applied().await {
            Ok(true) => Ok(CommitOutcome::Done),
            _ => Err(failure),
        }
    }

    pub(crate) async fn entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        Ok(self.entry_by(&self.statements.entry, name).await?.map(|stored| stored.entry))
    }

    async fn entry_by(&self, statement: &PreparedStatement, name: &str) -> Result<Option<StoredEntry>> {
        type Found = (Option<i64>, Option<Vec<u8>>, Option<Vec<u8>>);
        let rows = self.database.read::<Found>(statement, (bucket_of(name), name)).await?;
        let Some((Some(version), commit, value)) = rows.into_iter().next() else { return Ok(None) };
        let entry = entry_from(name.to_owned(), version, &value.unwrap_or_default())?;
        Ok(Some(StoredEntry { entry, commit: commit.unwrap_or_default() }))
    }

    pub(crate) async fn scan(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        type Found = (String, Option<i64>, Option<Vec<u8>>);
        let from = after.map_or(prefix, |after| after.max(prefix));
        // One more, for `after` itself.
        let most = i32::try_from(limit).unwrap_or(i32::MAX).saturating_add(1);
        let buckets = stream::iter(0..DIRECTORY_BUCKETS.cast_signed()).map(|bucket| async move {
            self.database.read::<Found>(&self.statements.entries, (bucket, from, most)).await
        });
        let found: Vec<Vec<Found>> = buckets.buffer_unordered(AT_ONCE).try_collect().await?;
        let mut found: Vec<Found> = found.into_iter().flatten().collect();
        found.retain(|(name, version, _)| {
            version.is_some() && name.starts_with(prefix) && after.is_none_or(|after| name.as_str() > after)
        });
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        found.truncate(limit);
        let entry = |(name, version, value): Found| {
            entry_from(name, version.unwrap_or(0), &value.unwrap_or_default())
        };
        found.into_iter().map(entry).collect()
    }

    pub(crate) async fn change_entry(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        let id = self.database.new_id();
        let name = change.name.as_str();
        let (bucket, expected) = (Some(CqlValue::Int(bucket_of(name))), change.expected.cast_signed());
        let key = Some(CqlValue::Text(name.to_owned()));
        let condition = (expected != 0).then_some(CqlValue::BigInt(expected));
        let Some(value) = &change.value else {
            let now = self.entry_by(&self.statements.entry_settled, name).await?;
            return match now {
                // Nothing is there, and nothing shall be.
                None if expected == 0 => Ok(CommitOutcome::Done),
                Some(now) if now.entry.version == change.expected => {
                    // Gone means done: only a removal of this very version, ours or another's, takes it away first.
                    let gone = || async move {
                        Ok(self.entry_by(&self.statements.entry_settled, name).await?.is_none())
                    };
                    self.conditionally(
                        vec![(&self.statements.entry_delete, vec![bucket, key, condition])],
                        gone,
                    )
                    .await
                }
                _ => Ok(CommitOutcome::Conflict),
            };
        };
        let values = vec![
            Some(CqlValue::BigInt(expected + 1)),
            Some(blob(id)),
            Some(CqlValue::Blob(seal(entry_place(name), value))),
            bucket,
            key,
            condition,
        ];
        let applied = || async move {
            let now = self.entry_by(&self.statements.entry_settled, name).await?;
            Ok(now.is_some_and(|now| now.commit == id.to_bytes()))
        };
        self.conditionally(vec![(&self.statements.entry_put, values)], applied).await
    }
}

fn entry_from(name: String, version: i64, value: &[u8]) -> Result<DirectoryEntry> {
    let content = unseal(entry_place(&name), value)
        .ok_or_else(|| StoreError::Corrupt(format!("the directory record {name}")))?;
    Ok(DirectoryEntry { value: Bytes::copy_from_slice(content), name, version: version.cast_unsigned() })
}
