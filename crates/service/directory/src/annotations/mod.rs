//! Annotations of mailboxes and of the server: RFC 5464. Entries and their values, by mailbox.
//!
//! | record | content |
//! | --- | --- |
//! | `metadata/<account id>/<mailbox id>` | all annotations of a mailbox |
//! | `metadata/<account id>/server` | the account's annotations of the server |
//! | `metadata/<account id>/changes` | empty: its version counts the changes of all the others |
//!
//! A record is named by the mailbox's id, so it stays with a mailbox that gets another name. A
//! change is written on the condition that nobody else changed the record, and then counted. So
//! a reader that sees the count sees the change.
//!
//! Not in here: the names of valid entries, and who may change them.

mod copy;
mod record;

use std::ops::ControlFlow;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, DirectoryPages, Engine};

use crate::annotation_error::AnnotationError;
use crate::error::{DirectoryError, Result};
use crate::limits::ANNOTATION_BYTES_MAX;
use crate::records::{Records, TRIES};

pub use copy::{copy_annotations, same_annotations};
pub use record::{Annotations, Entry};

/// Annotations of one mailbox at most: RFC 5464 §4.1 requires 10, and clients set one or two each.
pub const ANNOTATIONS_MAX: usize = 100;
/// Octets of names and values of one mailbox at most: four of the longest. They are one record,
/// which is written as a whole for each change.
pub const MAILBOX_ANNOTATION_BYTES_MAX: usize = 256 * 1024;
/// Octets of all records of one account at most, with their names: 1,000 mailboxes with 4 KiB each.
/// Quotas do not count them, so this bounds their size.
pub const ACCOUNT_ANNOTATION_BYTES_MAX: usize = 4 << 20;

/// Records read at the same time: a cluster answers slowly, one after the other.
const AT_ONCE: usize = 16;
/// Records per engine call: they have at most 256 KiB.
const PAGE: usize = 16;

/// The objects that have annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Annotated {
    /// The server, for one account.
    Server,
    /// A mailbox.
    Mailbox(MailboxId),
}

fn prefix(account: AccountId) -> String {
    name_of(account, b"")
}

/// The record of an object. Each command that adds messages looks for one, so its name is not
/// formatted.
fn key(account: AccountId, of: Annotated) -> String {
    match of {
        Annotated::Server => name_of(account, b"server"),
        Annotated::Mailbox(mailbox) => name_of(account, &mailbox.0.text()),
    }
}

fn changes_key(account: AccountId) -> String {
    name_of(account, b"changes")
}

/// The name of a record of an account. All of it is ASCII.
fn name_of(account: AccountId, object: &[u8]) -> String {
    let name = [&b"metadata/"[..], &account.0.text(), b"/", object].concat();
    String::from_utf8(name).unwrap_or_default()
}

fn read(entry: &DirectoryEntry) -> Result<Annotations> {
    Annotations::parse(&entry.value).ok_or_else(|| DirectoryError::Record {
        record: entry.name.clone(),
        why: "it has another form, or is damaged: restore it from a backup".into(),
    })
}

/// The octets that a record counts. One without entries is stored, too.
fn octets_of(entry: &DirectoryEntry) -> usize {
    entry.name.len() + entry.value.len()
}

/// The object to which a record belongs; `None` for the one that counts.
fn annotated(account: AccountId, name: &str) -> Option<Annotated> {
    let place = name.strip_prefix(&prefix(account))?;
    match posthaste_mail_model::Id::parse(place) {
        Some(id) => Some(Annotated::Mailbox(MailboxId(id))),
        None => (place == "server").then_some(Annotated::Server),
    }
}

/// Reads the annotations of an account, by what they belong to. Other tasks have their turn after
/// each page of them: an account may have ten thousand records.
async fn scan(
    engine: &dyn Engine,
    account: AccountId,
    mut each: impl FnMut(Annotated, &DirectoryEntry) -> Result<()>,
) -> Result<()> {
    let mut pages = DirectoryPages::new(engine, prefix(account), PAGE);
    while let Some(page) = pages.next().await? {
        for entry in &page {
            if let Some(of) = annotated(account, &entry.name) {
                each(of, entry)?;
            }
        }
        // An engine that answers at once would never let another task in.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Removes every record about an account's annotations.
async fn remove_all(engine: &dyn Engine, account: AccountId) -> Result<()> {
    let prefix = prefix(account);
    loop {
        let page = engine.directory_scan(&prefix, None, PAGE).await?;
        for entry in &page {
            debug_assert!(annotated(account, &entry.name).is_some() || entry.name.ends_with("changes"));
            // A change at the same time leaves a record that is never read.
            let (name, expected) = (entry.name.clone(), entry.version);
            engine.directory_commit(DirectoryChange { name, expected, value: None }).await?;
        }
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

/// The annotations of all mailboxes, and of the server: RFC 5464.
pub struct Metadata {
    records: Records,
}

impl Metadata {
    pub(crate) fn new(records: Records) -> Self {
        Self { records }
    }

    /// The annotations of a mailbox, or of the server; none is an empty value.
    #[boxed]
    pub async fn get(&self, account: AccountId, of: Annotated) -> Result<Annotations> {
        let entry = self.records.entry(&key(account, of)).await?;
        entry.as_ref().map_or_else(|| Ok(Annotations::default()), read)
    }

    /// The annotations of mailboxes, in their order.
    #[boxed]
    pub async fn get_many(&self, account: AccountId, mailboxes: &[MailboxId]) -> Result<Vec<Annotations>> {
        let read = |mailbox: &MailboxId| self.get(account, Annotated::Mailbox(*mailbox));
        stream::iter(mailboxes).map(read).buffered(AT_ONCE).try_collect().await
    }

    /// Reads the annotations of an account.
    #[boxed]
    pub async fn all(&self, account: AccountId) -> Result<Vec<(Annotated, Annotations)>> {
        let mut found = Vec::new();
        scan(self.records.engine(), account, |of, entry| {
            found.push((of, read(entry)?));
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// Shows the annotations of each place of an account, until `each` breaks off. Other tasks have
    /// their turn after each page of them.
    pub async fn each(
        &self,
        account: AccountId,
        mut each: impl FnMut(Annotated, &Annotations) -> ControlFlow<()> + Send,
    ) -> Result<()> {
        let mut pages = DirectoryPages::new(self.records.engine(), prefix(account), PAGE);
        while let Some(page) = pages.next().await? {
            for entry in &page {
                let Some(of) = annotated(account, &entry.name) else { continue };
                if each(of, &read(entry)?).is_break() {
                    return Ok(());
                }
            }
            // An engine that answers at once would never let another task in.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// A number that is another one after each change of an account's annotations.
    #[boxed]
    pub async fn changes(&self, account: AccountId) -> Result<u64> {
        Ok(self.records.entry(&changes_key(account)).await?.map_or(0, |entry| entry.version))
    }

    /// Gives entries values, or removes them (`None`): all of them, or none if one of the limits is
    /// in the way. Whether the mailbox exists is the caller's to know.
    #[boxed]
    pub async fn set(
        &self,
        account: AccountId,
        of: Annotated,
        changes: &[(&str, Option<Bytes>)],
    ) -> Result<(), AnnotationError> {
        if changes.iter().any(|(_, value)| value.as_ref().is_some_and(|v| v.len() > ANNOTATION_BYTES_MAX)) {
            return Err(AnnotationError::TooLong);
        }
        let key = key(account, of);
        for _ in 0..TRIES {
            let entry = self.records.entry(&key).await?;
            let expected = entry.as_ref().map_or(0, |entry| entry.version);
            let old = entry.as_ref().map_or_else(|| Ok(Annotations::default()), read)?;
            let mut new = old.clone();
            changes.iter().for_each(|(name, value)| new.set(name, value.clone()));
            if new == old {
                return Ok(());
            }
            self.check_room(account, &old, &new).await?;
            // A record without entries is kept, too: removed and made again, it would have a
            // version that someone else has read before.
            let value = new.print().ok_or(AnnotationError::TooLong)?;
            if self.records.put(key.clone(), expected, Some(value)).await? == CommitOutcome::Done {
                self.note_change(account).await?;
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(key).into())
    }

    /// A change that frees room is taken even over a limit. Two changes of an account at the same
    /// time may exceed its limit, by what one command can bring.
    async fn check_room(
        &self,
        account: AccountId,
        old: &Annotations,
        new: &Annotations,
    ) -> Result<(), AnnotationError> {
        if new.len() > old.len() && new.len() > ANNOTATIONS_MAX {
            return Err(AnnotationError::TooMany);
        }
        let (before, after) = (old.octets(), new.octets());
        if after <= before {
            return Ok(());
        }
        if after > MAILBOX_ANNOTATION_BYTES_MAX {
            return Err(AnnotationError::TooMany);
        }
        let mut all = after - before;
        scan(self.records.engine(), account, |_, entry| {
            all += octets_of(entry);
            Ok(())
        })
        .await?;
        let over = all.saturating_sub(ACCOUNT_ANNOTATION_BYTES_MAX);
        if over > 0 && self.forget_lost(account, over).await? < over {
            return Err(AnnotationError::TooMany);
        }
        Ok(())
    }

    /// Removes records of mailboxes that do not exist any more, until they had as many octets as
    /// wanted. An account has annotations of mailboxes of others, and these are deleted by their
    /// owners. Returns the octets.
    async fn forget_lost(&self, account: AccountId, wanted: usize) -> Result<usize> {
        let (engine, mut freed) = (self.records.engine(), 0);
        let mut pages = DirectoryPages::new(engine, prefix(account), PAGE);
        while freed < wanted
            && let Some(page) = pages.next().await?
        {
            let (mut ids, mut entries) = (Vec::with_capacity(page.len()), Vec::with_capacity(page.len()));
            for entry in page {
                if let Some(Annotated::Mailbox(mailbox)) = annotated(account, &entry.name) {
                    ids.push(mailbox);
                    entries.push(entry);
                }
            }
            let there = engine.counts(&ids).await?;
            for (entry, there) in entries.into_iter().zip(there) {
                let octets = octets_of(&entry);
                if there.is_none()
                    && self.records.put(entry.name, entry.version, None).await? == CommitOutcome::Done
                {
                    freed += octets;
                }
            }
            // An engine that answers at once would never let another task in.
            tokio::task::yield_now().await;
        }
        Ok(freed)
    }

    /// Gives a mailbox the annotations of another one, as far as there is room: RFC 5464 §4.1 for
    /// the mailbox that a renamed INBOX becomes.
    #[boxed]
    pub async fn copy(&self, account: AccountId, from: MailboxId, to: MailboxId) -> Result<()> {
        let annotations = self.get(account, Annotated::Mailbox(from)).await?;
        let changes: Vec<_> =
            annotations.iter().map(|entry| (entry.name.as_str(), Some(entry.value.clone()))).collect();
        match self.set(account, Annotated::Mailbox(to), &changes).await {
            Err(AnnotationError::Directory(error)) => Err(error),
            Ok(()) | Err(AnnotationError::TooLong | AnnotationError::TooMany) => Ok(()),
        }
    }

    /// Removes the annotations of a mailbox that was deleted.
    #[boxed]
    pub async fn remove(&self, account: AccountId, mailbox: MailboxId) -> Result<()> {
        let key = key(account, Annotated::Mailbox(mailbox));
        for _ in 0..TRIES {
            let Some(entry) = self.records.entry(&key).await? else { return Ok(()) };
            if self.records.put(key.clone(), entry.version, None).await? == CommitOutcome::Done {
                return self.note_change(account).await;
            }
        }
        Err(DirectoryError::Busy(key))
    }

    /// Removes all annotations of an account and its mailboxes.
    pub(crate) async fn remove_all(&self, account: AccountId) -> Result<()> {
        remove_all(self.records.engine(), account).await
    }

    /// Counts a change: of annotations, or of what is shown as one.
    #[boxed]
    pub async fn note_change(&self, account: AccountId) -> Result<()> {
        let key = changes_key(account);
        for _ in 0..TRIES {
            let expected = self.records.entry(&key).await?.map_or(0, |entry| entry.version);
            if self.records.put(key.clone(), expected, Some(Bytes::new())).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        // Others counted meanwhile, after this change: the next check sees it.
        Ok(())
    }
}

#[cfg(test)]
mod tests;
