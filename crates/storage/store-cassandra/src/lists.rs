//! Mailbox lists and the directory: one conditional write each.
//!
//! A list is one value: even a thousand mailboxes are 60 KB, and lists change seldom. A new mailbox's partition is made before the list
//! that names it, a removed one's is closed after; what a crash leaves between is found by the sweep.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::ModSeq;
use posthaste_mail_model::{AccountId, Id, MailboxId};
use posthaste_store::{
    CommitOutcome, DirectoryChange, DirectoryEntry, ListCommit, MailboxHead, MailboxList, Result, StoreError,
};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlValue;
use std::collections::BTreeSet;

use crate::chunk::Chunk;
use crate::commit::Batch;
use crate::engine::CassandraEngine;
use crate::read::AT_ONCE;
use crate::schema::DIRECTORY_BUCKETS;
use crate::seal::{place, seal, unseal};
use crate::session::{ATTEMPTS_MAX, Attempt, blob};
use crate::values::{LIST_COMMITS_MAX, LogEntry, StoredHead, StoredList};

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

impl CassandraEngine {
    pub(crate) async fn stored_list(&self, account: AccountId) -> Result<StoredList> {
        self.list_by(&self.statements.list, account).await
    }

    async fn list_by(&self, statement: &PreparedStatement, account: AccountId) -> Result<StoredList> {
        let key = account.0.to_bytes();
        let rows = self.database.read::<(Option<i64>, Option<Vec<u8>>)>(statement, (&key[..],)).await?;
        match rows.into_iter().next() {
            Some((Some(_), value)) => StoredList::decode(account, &value.unwrap_or_default())
                .ok_or_else(|| StoreError::Corrupt(format!("the mailbox list of account {account}"))),
            _ => Ok(StoredList { list: MailboxList::empty(account), commits: Vec::new() }),
        }
    }

    pub(crate) async fn change_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        let stored = self.stored_list(commit.account).await?;
        if stored.list.version != commit.expected {
            return Ok(CommitOutcome::Conflict);
        }
        let known: BTreeSet<MailboxId> = stored.list.entries.iter().map(|entry| entry.id).collect();
        let new = commit.upsert.iter().map(|entry| entry.id).filter(|id| !known.contains(id));
        for id in new {
            self.create_mailbox(commit.account, id).await?;
        }
        let id = self.database.new_id();
        let list = stored.list.apply(&commit);
        let forget = (stored.commits.len() + 1).saturating_sub(LIST_COMMITS_MAX);
        let commits = stored.commits.iter().skip(forget).copied().chain([id]).collect();
        let value = StoredList { list, commits }.encode();
        if value.len() > LIST_BYTES_MAX {
            return Err(StoreError::TooLarge {
                what: "a mailbox list of bytes",
                limit: LIST_BYTES_MAX as u64,
            });
        }
        let number = |n: u64| CqlValue::BigInt(n.cast_signed());
        let expected = (commit.expected != ModSeq::ZERO).then(|| number(commit.expected.value()));
        let values = vec![
            Some(number(commit.version.value())),
            Some(CqlValue::Blob(value)),
            Some(blob(commit.account.0)),
            expected,
        ];
        let account = commit.account;
        let applied = || async move {
            let now = self.list_by(&self.statements.list_settled, account).await?;
            Ok(now.commits.contains(&id))
        };
        let outcome = self.conditionally(vec![(&self.statements.list_put, values)], applied).await?;
        if outcome == CommitOutcome::Done {
            let removed = stream::iter(commit.remove.clone()).map(Ok);
            removed.try_for_each_concurrent(AT_ONCE, |mailbox| self.close_mailbox(mailbox)).await.unwrap_or_else(
                // The list is what counts; the sweep closes what it does not name.
                |error| tracing::warn!(%account, %error, "a removed mailbox is left for the sweep to close"),
            );
        }
        Ok(outcome)
    }

    /// Sends a conditional write until it is known what became of it. `applied` tells ours from another's.
    async fn conditionally<F>(&self, batch: Batch<'_>, applied: impl Fn() -> F) -> Result<CommitOutcome>
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

    /// Makes a mailbox's partition: a head, an empty last chunk, an empty log.
    async fn create_mailbox(&self, account: AccountId, mailbox: MailboxId) -> Result<()> {
        let head = StoredHead { head: MailboxHead::default(), forgotten: ModSeq::ZERO }.encode(mailbox);
        let entry = LogEntry { commit: mailbox.0, rows: Some(Vec::new()), expunged: Vec::new() };
        let batch = vec![
            (
                &self.statements.create,
                vec![Some(CqlValue::Blob(head)), Some(blob(account.0)), Some(blob(mailbox.0))],
            ),
            (&self.statements.put, self.put_values(mailbox, 0, 0, Chunk::default().encode(mailbox, 0))),
            (&self.statements.put, self.put_values(mailbox, 1, 0, entry.encode(mailbox, ModSeq::ZERO))),
        ];
        // Whoever made it, it is there: ids are made once.
        let there = || async move { Ok(self.head(&self.statements.head_settled, mailbox).await?.is_some()) };
        match self.conditionally(batch, there).await? {
            CommitOutcome::Done => Ok(()),
            CommitOutcome::Conflict => Err(StoreError::NoMailbox(mailbox)),
        }
    }

    /// Lets a mailbox answer `NoMailbox` for good.
    pub(crate) async fn close_mailbox(&self, mailbox: MailboxId) -> Result<()> {
        let batch = vec![(&self.statements.remove, vec![Some(blob(mailbox.0))])];
        let closed = || async move { Ok(self.head(&self.statements.head_settled, mailbox).await?.is_none()) };
        self.conditionally(batch, closed).await.map(drop)
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
