//! The messages imported into a mailbox: the records from which an interrupted import continues.
//!
//! The journal is part of the store's directory, so that it is copied, rebuilt and lost together
//! with the mail.
//!
//! | record | content |
//! | --- | --- |
//! | `import/<account>/<mailbox>` | version 1 (1) · entries that are certain (4) |
//! | `imported/<mailbox>/<number>` | version 1 (1) · UIDNEXT before the batch (4) · body id of its first message (16) · digest of each message (16) |
//!
//! Numbers are eight hexadecimal digits and count from 0 without gaps; integers are little-endian.
//! The n-th message of a batch has the n-th body id after the first.
//!
//! An entry is written before its batch is appended, and the next one after it. So every entry but
//! the last is certain. The last one is in doubt until the record of the mailbox counts it. An
//! import that opens a journal with an entry in doubt checks the mailbox.
//!
//! Each record is written on the condition of its version: of two imports that write into one
//! mailbox, one gets `Conflict`.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{AccountId, BodyId, Id, MailboxId};
use posthaste_store::{
    CommitOutcome, DirectoryChange, DirectoryPages, Engine, Store, StoreError, TargetIds, set_directory_entry,
};

use super::Alone;
use super::digest::{DIGEST_LEN, Digest, ImportedCounts};
use super::doubt::{CommittedBatch, is_there};

const VERSION: u8 = 1;
/// Octets of an entry before its digests.
const ENTRY_HEAD: usize = 1 + 4 + 16;
/// Entries read at the same time: a cluster answers slowly, one after the other. An entry has at
/// most 8 KiB.
const ENTRIES_AT_ONCE: usize = 8;
/// Records of mailboxes read at a time.
const PAGE: usize = 256;

/// Why a journal cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum JournalError {
    /// The journal is in use: another import is writing it.
    #[error("another import writes into this mailbox: wait until it ends, or end it")]
    Another,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The journal of one mailbox, open for writing.
pub(super) struct Journal {
    engine: Arc<dyn Engine>,
    account: AccountId,
    mailbox: MailboxId,
    /// The version of the mailbox's record.
    version: u64,
    /// Entries that are certain.
    entries: u32,
    /// Whether the mailbox's record counts all of them.
    confirmed: bool,
    /// Version of the entry that is written over next; 0 if there is none.
    over: u64,
}

/// An entry as stored.
struct JournalEntry {
    version: u64,
    batch: CommittedBatch,
    digests: Vec<Digest>,
}

fn head_name(account: AccountId, mailbox: MailboxId) -> String {
    format!("import/{account}/{mailbox}")
}

fn entry_name(mailbox: MailboxId, number: u32) -> String {
    format!("imported/{mailbox}/{number:08x}")
}

fn damaged(name: &str) -> StoreError {
    StoreError::Corrupt(format!("the directory record {name}"))
}

impl Journal {
    /// Opens the journal of a mailbox, creates it if it is missing, and resolves an entry in doubt.
    #[boxed]
    pub async fn open(
        store: &Store,
        account: AccountId,
        mailbox: MailboxId,
        alone: Alone,
    ) -> Result<(Self, ImportedCounts), JournalError> {
        let engine = Arc::clone(store.engine());
        let (version, certain) = match read_head(&*engine, account, mailbox).await? {
            Some(found) => found,
            None => (put(&*engine, head_name(account, mailbox), 0, head_value(0)).await?, 0),
        };
        let mut found = read_entries(&*engine, mailbox).await?;
        let in_doubt = found.len() > certain as usize;
        let mut journal =
            Self { engine, account, mailbox, version, entries: 0, confirmed: !in_doubt, over: 0 };
        if in_doubt && let Some(last) = found.pop() {
            if let Alone::Watched(pause) = alone {
                tokio::time::sleep(pause).await;
                journal.check_unchanged(last.version, found.len()).await?;
            }
            if is_there(&*journal.engine, mailbox, &last.batch, alone).await? {
                found.push(last);
            } else {
                journal.over = last.version;
            }
        }
        journal.entries = u32::try_from(found.len()).map_err(|_| damaged(&head_name(account, mailbox)))?;
        let mut known = ImportedCounts::default();
        found.iter().flat_map(|entry| &entry.digests).for_each(|digest| known.add(*digest));
        Ok((journal, known))
    }

    /// Fails if another import wrote since the journal was read.
    async fn check_unchanged(&self, last: u64, number: usize) -> Result<(), JournalError> {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let head = read_head(&*self.engine, self.account, self.mailbox).await?;
        let entry = self.engine.directory_entry(&entry_name(self.mailbox, number)).await?;
        let next = self.engine.directory_entry(&entry_name(self.mailbox, number.saturating_add(1))).await?;
        let same = head.is_some_and(|(version, _)| version == self.version)
            && entry.is_some_and(|entry| entry.version == last)
            && next.is_none();
        if same { Ok(()) } else { Err(JournalError::Another) }
    }

    /// Records a batch that is about to be appended.
    #[boxed]
    pub async fn intend(&mut self, batch: &CommittedBatch, digests: &[Digest]) -> Result<(), JournalError> {
        let mut value = Vec::with_capacity(ENTRY_HEAD + DIGEST_LEN * digests.len());
        value.push(VERSION);
        value.extend_from_slice(&batch.uid_next.to_le_bytes());
        value.extend_from_slice(&batch.first.0.to_bytes());
        digests.iter().for_each(|digest| value.extend_from_slice(&digest.0));
        let name = entry_name(self.mailbox, self.entries);
        self.over = put(&*self.engine, name, self.over, Bytes::from(value)).await?;
        Ok(())
    }

    /// Records that the last batch is in the mailbox.
    pub fn appended(&mut self) {
        self.entries += 1;
        self.over = 0;
        self.confirmed = false;
    }

    /// Makes the last entry certain.
    #[boxed]
    pub async fn confirm(&mut self) -> Result<(), JournalError> {
        if !self.confirmed {
            let name = head_name(self.account, self.mailbox);
            self.version = put(&*self.engine, name, self.version, head_value(self.entries)).await?;
            self.confirmed = true;
        }
        Ok(())
    }
}

/// Removes the journals of an account's mailboxes, except those of `keep`. It is called for
/// mailboxes that were deleted, and for an account that is being removed.
pub(super) async fn forget(
    engine: &dyn Engine,
    account: AccountId,
    keep: impl Fn(MailboxId) -> bool,
) -> Result<(), StoreError> {
    let prefix = format!("import/{account}/");
    let mut pages = DirectoryPages::new(engine, prefix.as_str(), PAGE);
    while let Some(page) = pages.next().await? {
        for record in page {
            let mailbox = mailbox_of(&prefix, &record.name)?;
            if !keep(mailbox) {
                forget_mailbox(engine, mailbox).await?;
                remove(engine, record.name, record.version).await?;
            }
        }
    }
    Ok(())
}

fn mailbox_of(prefix: &str, name: &str) -> Result<MailboxId, StoreError> {
    let id = name.strip_prefix(prefix).and_then(Id::parse);
    id.map(MailboxId).ok_or_else(|| damaged(name))
}

/// Copies the journals of an account's mailboxes to another store, where account and mailboxes
/// have these places. Journals of other mailboxes of the account are removed there.
#[boxed]
pub async fn copy_journals(
    from: &dyn Engine,
    account: AccountId,
    to: &dyn Engine,
    places: &TargetIds,
) -> Result<(), StoreError> {
    let prefix = format!("import/{account}/");
    let (mut kept, mut pages) = (Vec::new(), DirectoryPages::new(from, prefix.as_str(), PAGE));
    while let Some(page) = pages.next().await? {
        for record in &page {
            let mailbox = mailbox_of(&prefix, &record.name)?;
            let Some(place) = places.place_of_record(mailbox) else { continue };
            // The mailbox's record first: by it the entries are found when they are removed.
            set_directory_entry(to, &head_name(places.account, place), Some(record.value.clone())).await?;
            copy_entries(from, mailbox, to, place).await?;
            kept.push(place);
        }
    }
    forget(to, places.account, |mailbox| kept.contains(&mailbox)).await
}

async fn copy_entries(
    from: &dyn Engine,
    mailbox: MailboxId,
    to: &dyn Engine,
    place: MailboxId,
) -> Result<(), StoreError> {
    for number in 0..u32::MAX {
        match from.directory_entry(&entry_name(mailbox, number)).await? {
            Some(entry) => {
                set_directory_entry(to, &entry_name(place, number), Some(entry.value.clone())).await?
            }
            None => break,
        }
    }
    Ok(())
}

/// Removes the entries of a mailbox, the last one first: so a crash leaves a journal without gaps.
async fn forget_mailbox(engine: &dyn Engine, mailbox: MailboxId) -> Result<(), StoreError> {
    let entries = read_entries(engine, mailbox).await?;
    for (number, entry) in entries.iter().enumerate().rev() {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        remove(engine, entry_name(mailbox, number), entry.version).await?;
    }
    Ok(())
}

/// Removes a record. Another process may do the same: `Conflict` then means that there is nothing
/// left to do.
async fn remove(engine: &dyn Engine, name: String, expected: u64) -> Result<(), StoreError> {
    engine.directory_commit(DirectoryChange { name, expected, value: None }).await.map(drop)
}

/// Writes a record; its new version.
async fn put(engine: &dyn Engine, name: String, expected: u64, value: Bytes) -> Result<u64, JournalError> {
    let change = DirectoryChange { name, expected, value: Some(value) };
    match engine.directory_commit(change).await? {
        CommitOutcome::Done => Ok(expected + 1),
        CommitOutcome::Conflict => Err(JournalError::Another),
    }
}

fn head_value(certain: u32) -> Bytes {
    let mut value = vec![VERSION];
    value.extend_from_slice(&certain.to_le_bytes());
    Bytes::from(value)
}

/// Version of a mailbox's record, and entries that are certain.
async fn read_head(
    engine: &dyn Engine,
    account: AccountId,
    mailbox: MailboxId,
) -> Result<Option<(u64, u32)>, StoreError> {
    let name = head_name(account, mailbox);
    let Some(record) = engine.directory_entry(&name).await? else { return Ok(None) };
    match record.value.split_first() {
        Some((&VERSION, certain)) => {
            let certain = certain.try_into().map(u32::from_le_bytes).map_err(|_| damaged(&name))?;
            Ok(Some((record.version, certain)))
        }
        _ => Err(damaged(&name)),
    }
}

/// Reads the entries of a mailbox. They are found by their numbers: a scan of a cluster's
/// directory reads all of its parts.
async fn read_entries(engine: &dyn Engine, mailbox: MailboxId) -> Result<Vec<JournalEntry>, StoreError> {
    let mut entries = Vec::new();
    for from in (0..u32::MAX).step_by(ENTRIES_AT_ONCE) {
        let read = |number| async move { read_entry(engine, entry_name(mailbox, number)).await };
        let numbers = from..from.saturating_add(ENTRIES_AT_ONCE as u32);
        let some: Vec<Option<JournalEntry>> =
            stream::iter(numbers).map(read).buffered(ENTRIES_AT_ONCE).try_collect().await?;
        let all = some.iter().all(Option::is_some);
        entries.extend(some.into_iter().map_while(|entry| entry));
        if !all {
            break;
        }
    }
    Ok(entries)
}

async fn read_entry(engine: &dyn Engine, name: String) -> Result<Option<JournalEntry>, StoreError> {
    let Some(record) = engine.directory_entry(&name).await? else { return Ok(None) };
    let parsed = parse_entry(&record.value).ok_or_else(|| damaged(&name))?;
    let (batch, digests) = parsed;
    Ok(Some(JournalEntry { version: record.version, batch, digests }))
}

fn parse_entry(value: &[u8]) -> Option<(CommittedBatch, Vec<Digest>)> {
    let (head, digests) = value.split_at_checked(ENTRY_HEAD)?;
    let (version, rest) = head.split_first()?;
    let (uid_next, first) = rest.split_first_chunk::<4>()?;
    let (digests, odd) = digests.as_chunks::<DIGEST_LEN>();
    if *version != VERSION || !odd.is_empty() {
        return None;
    }
    let digests: Vec<Digest> = digests.iter().map(|digest| Digest(*digest)).collect();
    let batch = CommittedBatch {
        uid_next: u32::from_le_bytes(*uid_next),
        first: BodyId(Id::from_bytes(first.try_into().ok()?)),
        len: u32::try_from(digests.len()).ok()?,
    };
    Some((batch, digests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_cut_or_of_another_version_is_not_read() {
        let mut value = vec![VERSION];
        value.extend_from_slice(&7u32.to_le_bytes());
        value.extend_from_slice(&[5; 16]);
        value.extend_from_slice(&[9; 2 * DIGEST_LEN]);
        let (batch, digests) = parse_entry(&value).unwrap();
        assert_eq!((batch.uid_next, batch.len, digests.len()), (7, 2, 2));
        assert_eq!(batch.first, BodyId(Id::from_bytes([5; 16])));
        assert!(parse_entry(&value[..value.len() - 1]).is_none() && parse_entry(&value[..9]).is_none());
        value[0] = 2;
        assert!(parse_entry(&value).is_none());
    }
}
