//! Annotations of messages: RFC 5257.
//!
//! | record | content |
//! | --- | --- |
//! | `annotate/<keeper>/<owner>/<mailbox id>/<UID>` | the values that an account, the keeper, has of a message of another one, the owner, or of its own |
//! | `annotated/<owner>/<mailbox id>` | the accounts that may have such records of this mailbox |
//!
//! An owner keeps the shared values of the messages in its mailboxes, and its own private ones. A
//! user who reads a mailbox of another account keeps private values. Each account has a limit for
//! all that it keeps.
//!
//! A record is named by the mailbox's id and the UID: neither is given twice, so a record never
//! becomes that of another message. A message without annotations has no record. A mailbox that
//! never had annotations has neither record, and one read of the second record shows that.
//!
//! The second record is written before the first value of a keeper. So a deletion of a mailbox, a
//! move or an expunge finds the values of all accounts.
//!
//! The records of expunged messages are removed after the expunge. Records that a crash or an older
//! program leaves behind are removed when their keeper changes values of that mailbox: see
//! `orphans`.
//!
//! No lock covers a message and its records together. A writer of values checks afterwards that the
//! message still exists, and does not report success if it does not. A move reads the values after
//! the messages were removed, or moves only messages that did not change since. So it includes
//! every acknowledged value.
//!
//! Not in here: which entries there are, and who may change them.

mod copy;
mod keepers;
mod orphans;
mod record;
mod relocate;
mod write;

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, MailboxId, NumSet};
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, DirectoryPages, Engine};

use crate::error::{DirectoryError, Result};
use crate::orphans::Orphans;
use crate::records::Records;

pub(crate) use copy::{copy_all, same_all};
pub use keepers::ANNOTATING_ACCOUNTS_MAX;
pub use record::{MessageAnnotations, Scope};
pub use relocate::{Copies, Relocated, WithAnnotations};
pub use write::{Before, NewValue, OnConflict, Written};

/// Octets of one value at most: as many as an annotation of a mailbox may have. RFC 5257 §4.1
/// requires 1,024.
pub const MESSAGE_ANNOTATION_BYTES_MAX: usize = 64 * 1024;
/// Values of one message at most in one account. RFC 5257 §4.1 requires 10.
pub const MESSAGE_ANNOTATIONS_MAX: usize = 100;
/// Octets of names and values of one message at most in one account: they are one record, which is
/// written as a whole for each change.
pub const MESSAGE_BYTES_MAX: usize = 128 * 1024;
/// Octets of all records of an account at most, with their names: 20,000 messages with a short
/// comment. The first change of a command reads all of them. Quotas do not count them.
pub const ACCOUNT_MESSAGE_ANNOTATION_BYTES_MAX: usize = 4 << 20;

/// Records read or written at the same time: a cluster answers slowly, one after the other, and the
/// embedded engine syncs them together.
const AT_ONCE: usize = 16;
/// Records per engine call: most have some hundred octets.
const PAGE: usize = 32;
/// From this many messages on, records are read in their order, a page at a time. Below, each one
/// is read by its name: a page on a cluster reads 64 partitions.
const SCAN_FROM: u64 = 32;

/// A mailbox, and the account that keeps values of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Keeping {
    /// The account that keeps them.
    pub keeper: AccountId,
    /// The owner of the mailbox.
    pub owner: AccountId,
    /// The mailbox.
    pub mailbox: MailboxId,
}

impl Keeping {
    fn prefix(self) -> String {
        format!("{}{}/{}/", kept_by(self.keeper), self.owner, self.mailbox)
    }

    fn record(self, uid: u32) -> String {
        format!("{}{uid:08x}", self.prefix())
    }
}

fn kept_by(keeper: AccountId) -> String {
    format!("annotate/{keeper}/")
}

fn unreadable(record: &str) -> DirectoryError {
    let why = "it has another form, or is damaged: restore it from a backup".into();
    DirectoryError::Record { record: record.to_owned(), why }
}

fn read(entry: &DirectoryEntry) -> Result<MessageAnnotations> {
    MessageAnnotations::parse(&entry.value).ok_or_else(|| unreadable(&entry.name))
}

fn uid_of(prefix: &str, name: &str) -> Result<u32> {
    let uid = name.strip_prefix(prefix).and_then(|uid| u32::from_str_radix(uid, 16).ok());
    uid.ok_or_else(|| unreadable(name))
}

/// Reads the records below a prefix, a page at a time.
async fn scan(
    engine: &dyn Engine,
    prefix: &str,
    mut each: impl FnMut(&DirectoryEntry) -> Result<()>,
) -> Result<()> {
    let mut pages = DirectoryPages::new(engine, prefix.to_owned(), PAGE);
    while let Some(page) = pages.next().await? {
        page.iter().try_for_each(&mut each)?;
        // An engine that answers at once would never let another task in.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The records of these messages, a page at a time, by ascending UID. A page begins at a requested
/// message. So records before the first message, after the last one, or in a gap longer than a page
/// are not read.
async fn scan_messages(
    engine: &dyn Engine,
    keeping: Keeping,
    uids: &NumSet,
    mut each: impl FnMut(u32, &DirectoryEntry),
) -> Result<()> {
    let prefix = keeping.prefix();
    let mut next = uids.first();
    while let Some(first) = next {
        let before = first.checked_sub(1).map(|uid| keeping.record(uid));
        let page = engine.directory_scan(&prefix, before.as_deref(), PAGE).await?;
        let mut last = None;
        for entry in &page {
            let uid = uid_of(&prefix, &entry.name)?;
            if uids.contains(uid) {
                each(uid, entry);
            }
            last = Some(uid);
        }
        // A page with fewer records is the last one.
        next = last.filter(|_| page.len() == PAGE).and_then(|last| behind(uids, last));
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The first number of a set after this one.
fn behind(set: &NumSet, number: u32) -> Option<u32> {
    let ranges = set.ranges();
    let (low, _) = ranges.get(ranges.partition_point(|(_, high)| *high <= number))?;
    Some((*low).max(number.saturating_add(1)))
}

/// The annotations of all messages.
pub struct MessageAnnotationRecords {
    records: Records,
    /// Annotations of messages that do not exist any more.
    orphans: Mutex<Orphans>,
}

impl MessageAnnotationRecords {
    pub(crate) fn new(records: Records) -> Self {
        Self { records, orphans: Mutex::default() }
    }

    /// The values that an account keeps of these messages, by UID. Messages without any are left
    /// out.
    #[boxed]
    pub async fn get(&self, keeping: Keeping, uids: &NumSet) -> Result<BTreeMap<u32, MessageAnnotations>> {
        let mut found = BTreeMap::new();
        for (uid, entry) in self.records_of(keeping, uids).await? {
            found.insert(uid, read(&entry)?);
        }
        Ok(found)
    }

    /// The values that an account keeps of all messages of a mailbox, by UID.
    #[boxed]
    pub async fn all(&self, keeping: Keeping) -> Result<BTreeMap<u32, MessageAnnotations>> {
        let (prefix, mut found) = (keeping.prefix(), BTreeMap::new());
        scan(self.records.engine(), &prefix, |entry| {
            found.insert(uid_of(&prefix, &entry.name)?, read(entry)?);
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// The records of these messages, by ascending UID.
    async fn records_of(&self, keeping: Keeping, uids: &NumSet) -> Result<Vec<(u32, DirectoryEntry)>> {
        let mut found = Vec::new();
        if uids.count() < SCAN_FROM {
            let read_one = |uid| async move {
                let entry = self.records.engine().directory_entry(&keeping.record(uid)).await?;
                Ok::<_, DirectoryError>(entry.map(|entry| (uid, entry)))
            };
            let all: Vec<_> = stream::iter(uids.iter().collect::<Vec<_>>())
                .map(read_one)
                .buffered(AT_ONCE)
                .try_collect()
                .await?;
            return Ok(all.into_iter().flatten().collect());
        }
        scan_messages(self.records.engine(), keeping, uids, |uid, entry| found.push((uid, entry.clone())))
            .await?;
        Ok(found)
    }

    /// Removes records at these versions. Returns whether all of them were at theirs.
    async fn remove_records(&self, records: Vec<(String, u64)>) -> Result<bool> {
        let remove = |(name, expected)| {
            self.records.engine().directory_commit(DirectoryChange { name, expected, value: None })
        };
        let count = |all, outcome| async move { Ok(all && outcome == CommitOutcome::Done) };
        Ok(stream::iter(records).map(remove).buffered(AT_ONCE).try_fold(true, count).await?)
    }
}

#[cfg(test)]
mod tests;
