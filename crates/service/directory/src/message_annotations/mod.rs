//! Annotations of messages: RFC 5257.
//!
//! | record | content |
//! | --- | --- |
//! | `annotate/<account id>/<mailbox id>/<UID>` | the values that an account keeps of a message |
//!
//! An owner keeps the shared values of the messages in its mailboxes, and its own private ones. A
//! user who reads a mailbox of another account keeps private values in its own account. A record is
//! named by the mailbox's id and the UID: neither is given twice, so a record never becomes that
//! of another message. A message without annotations has no record, and costs nothing.
//!
//! The records of expunged messages are removed after the expunge. What a crash, or another program
//! that expunges, leaves is removed when a message of that mailbox gets annotations.
//!
//! Not in here: which entries there are, and who may change them.

mod copy;
mod record;

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{AccountId, Id, MailboxId, NumSet};
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, DirectoryPages, Engine};

use crate::annotations::AnnotationError;
use crate::directory::{Directory, TRIES};
use crate::error::{DirectoryError, Result};

pub(crate) use copy::{copy_all, same_all};
pub use record::{MessageAnnotations, Scope};

/// Octets of one value at most: as many as an annotation of a mailbox may have. RFC 5257 §4.1
/// requires 1,024.
pub const MESSAGE_ANNOTATION_BYTES_MAX: usize = 64 * 1024;
/// Values of one message at most in one account. RFC 5257 §4.1 requires 10.
pub const MESSAGE_ANNOTATIONS_MAX: usize = 100;
/// Octets of names and values of one message at most in one account: they are one record, which is
/// written as a whole for each change.
pub const MESSAGE_BYTES_MAX: usize = 128 * 1024;
/// Octets of all records of an account at most: 40,000 messages with a short comment. SEARCH and
/// the first change of a command read all of them. Quotas do not count them.
pub const ACCOUNT_MESSAGE_ANNOTATION_BYTES_MAX: usize = 4 << 20;

/// Records read or written at the same time: a cluster answers slowly, one after the other, and the
/// embedded engine syncs them together.
const AT_ONCE: usize = 16;
/// Records per engine call: most have some hundred octets.
const PAGE: usize = 32;
/// From this many messages on, all records of a mailbox are read in their order.
const SCAN_FROM: u64 = 32;

/// A new value of a message, or `None` to remove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewValue {
    /// Whose.
    pub scope: Scope,
    /// Which entry.
    pub entry: String,
    /// Any octets.
    pub value: Option<Bytes>,
}

/// Octets that an account may still add. Two commands of an account at the same time may exceed
/// its limit, by what each brings.
#[derive(Debug, Clone, Copy)]
pub struct Room(usize);

impl Room {
    /// For values whose room was checked before, or that only move.
    pub const CHECKED: Self = Self(usize::MAX);
}

fn of_account(account: AccountId) -> String {
    format!("annotate/{account}/")
}

fn of_mailbox(account: AccountId, mailbox: MailboxId) -> String {
    format!("{}{mailbox}/", of_account(account))
}

fn record(account: AccountId, mailbox: MailboxId, uid: u32) -> String {
    format!("{}{uid:08x}", of_mailbox(account, mailbox))
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

/// The mailbox of a record, and its UID as the name has it.
fn parts(account: AccountId, name: &str) -> Result<(MailboxId, &str)> {
    let rest = name.strip_prefix(of_account(account).as_str()).and_then(|rest| rest.split_once('/'));
    let parts = rest.and_then(|(mailbox, uid)| Some((MailboxId(Id::parse(mailbox)?), uid)));
    parts.ok_or_else(|| unreadable(name))
}

/// All records below a prefix, a page at a time.
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

impl Directory {
    /// The values that an account keeps of these messages, by UID. Messages without any are left
    /// out.
    pub async fn message_annotations(
        &self,
        account: AccountId,
        mailbox: MailboxId,
        uids: &NumSet,
    ) -> Result<BTreeMap<u32, MessageAnnotations>> {
        let mut found = BTreeMap::new();
        if uids.count() < SCAN_FROM {
            let read_one = |uid| async move {
                let entry = self.engine.directory_entry(&record(account, mailbox, uid)).await?;
                Ok::<_, DirectoryError>((uid, entry))
            };
            let all: Vec<_> = stream::iter(uids.iter().collect::<Vec<_>>())
                .map(read_one)
                .buffered(AT_ONCE)
                .try_collect()
                .await?;
            for (uid, entry) in all {
                if let Some(entry) = entry {
                    found.insert(uid, read(&entry)?);
                }
            }
            return Ok(found);
        }
        let prefix = of_mailbox(account, mailbox);
        scan(&*self.engine, &prefix, |entry| {
            let uid = uid_of(&prefix, &entry.name)?;
            if uids.contains(uid) {
                found.insert(uid, read(entry)?);
            }
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// The values that an account keeps of all messages of a mailbox, by UID.
    pub async fn all_message_annotations(
        &self,
        account: AccountId,
        mailbox: MailboxId,
    ) -> Result<BTreeMap<u32, MessageAnnotations>> {
        let (prefix, mut found) = (of_mailbox(account, mailbox), BTreeMap::new());
        scan(&*self.engine, &prefix, |entry| {
            found.insert(uid_of(&prefix, &entry.name)?, read(entry)?);
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// How many octets an account may still add. Removes records of expunged messages of
    /// this mailbox: `is_there` says which are there.
    pub async fn message_annotation_room(
        &self,
        account: AccountId,
        mailbox: MailboxId,
        is_there: impl Fn(u32) -> bool,
    ) -> Result<Room> {
        let (mut used, mut gone) = (0, Vec::new());
        let here = of_mailbox(account, mailbox);
        scan(&*self.engine, &of_account(account), |entry| {
            match entry.name.starts_with(&here) && !is_there(uid_of(&here, &entry.name)?) {
                true => gone.push((entry.name.clone(), entry.version)),
                false => used += entry.value.len(),
            }
            Ok(())
        })
        .await?;
        // After a conflict it is removed the next time.
        self.remove_records(gone).await?;
        Ok(Room(ACCOUNT_MESSAGE_ANNOTATION_BYTES_MAX.saturating_sub(used)))
    }

    /// Whether there is room for new messages with these values, each with its own.
    pub fn check_message_annotations(
        messages: &[Vec<NewValue>],
        mut room: Room,
    ) -> Result<(), AnnotationError> {
        for changes in messages {
            let mut new = MessageAnnotations::default();
            changes.iter().for_each(|one| new.set(one.scope, &one.entry, one.value.clone()));
            check(&MessageAnnotations::default(), &new, room)?;
            room.0 = room.0.saturating_sub(new.octets());
        }
        Ok(())
    }

    /// Gives messages new values: each message all of them, or none. Stops at the first that has
    /// no room for them; the others then have theirs. Returns the room that is left.
    pub async fn annotate_messages(
        &self,
        account: AccountId,
        mailbox: MailboxId,
        messages: Vec<(u32, Vec<NewValue>)>,
        mut room: Room,
    ) -> Result<Room, AnnotationError> {
        for batch in messages.chunks(AT_ONCE) {
            let one = |(uid, changes): &(u32, Vec<NewValue>)| {
                let (uid, changes) = (*uid, changes.clone());
                async move { self.annotate_message(&record(account, mailbox, uid), &changes, room).await }
            };
            let added: Vec<_> = stream::iter(batch).map(one).buffered(AT_ONCE).try_collect().await?;
            room.0 = room.0.saturating_sub(added.into_iter().sum());
        }
        Ok(room)
    }

    /// Returns the octets that were added.
    async fn annotate_message(
        &self,
        name: &str,
        changes: &[NewValue],
        room: Room,
    ) -> Result<usize, AnnotationError> {
        for _ in 0..TRIES {
            let entry = self.engine.directory_entry(name).await?;
            let old = entry.as_ref().map_or_else(|| Ok(MessageAnnotations::default()), read)?;
            let mut new = old.clone();
            changes.iter().for_each(|one| new.set(one.scope, &one.entry, one.value.clone()));
            if new == old {
                return Ok(0);
            }
            check(&old, &new, room)?;
            let value = match new.is_empty() {
                true => None,
                false => Some(new.print().ok_or(AnnotationError::TooLong)?),
            };
            let expected = entry.as_ref().map_or(0, |entry| entry.version);
            if self.put(name.to_owned(), expected, value).await? == CommitOutcome::Done {
                return Ok(new.octets().saturating_sub(old.octets()));
            }
        }
        Err(DirectoryError::Busy(name.to_owned()).into())
    }

    /// Forgets the annotations of messages that were expunged. Where a mailbox has few or none, one
    /// call of the engine finds them.
    pub async fn forget_message_annotations(
        &self,
        account: AccountId,
        mailbox: MailboxId,
        uids: &NumSet,
    ) -> Result<()> {
        let prefix = of_mailbox(account, mailbox);
        let mut found = self.engine.directory_scan(&prefix, None, PAGE).await?;
        if found.len() == PAGE && uids.count() < SCAN_FROM {
            found.clear();
            for uid in uids.iter() {
                found.extend(self.engine.directory_entry(&record(account, mailbox, uid)).await?);
            }
        } else if found.len() == PAGE {
            found.clear();
            scan(&*self.engine, &prefix, |entry| {
                if uids.contains(uid_of(&prefix, &entry.name)?) {
                    found.push(entry.clone());
                }
                Ok(())
            })
            .await?;
        }
        let mut gone = Vec::new();
        for entry in found {
            if uids.contains(uid_of(&prefix, &entry.name)?) {
                gone.push((entry.name, entry.version));
            }
        }
        // After a conflict it is removed with a later change.
        self.remove_records(gone).await
    }

    async fn remove_records(&self, records: Vec<(String, u64)>) -> Result<()> {
        let remove =
            |(name, expected)| self.engine.directory_commit(DirectoryChange { name, expected, value: None });
        stream::iter(records).map(remove).buffered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
        Ok(())
    }

    /// Forgets all annotations of the messages of a mailbox that was deleted.
    pub async fn forget_annotations_in(&self, account: AccountId, mailbox: MailboxId) -> Result<()> {
        copy::remove_all(&*self.engine, &of_mailbox(account, mailbox)).await
    }

    /// Forgets all annotations of messages that an account keeps.
    pub(crate) async fn forget_all_message_annotations(&self, account: AccountId) -> Result<()> {
        copy::remove_all(&*self.engine, &of_account(account)).await
    }
}

/// What became less is taken also over a limit.
fn check(old: &MessageAnnotations, new: &MessageAnnotations, room: Room) -> Result<(), AnnotationError> {
    if new.iter().any(|(.., value)| value.len() > MESSAGE_ANNOTATION_BYTES_MAX) {
        return Err(AnnotationError::TooLong);
    }
    let (before, after) = (old.octets(), new.octets());
    let has_more = new.len() > old.len() && new.len() > MESSAGE_ANNOTATIONS_MAX;
    let is_longer = after > before && (after > MESSAGE_BYTES_MAX || after - before > room.0);
    if has_more || is_longer { Err(AnnotationError::TooMany) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
