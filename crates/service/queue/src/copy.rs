//! Copies the queue to another store, for `copy-store`, `backup` and `restore`.
//!
//! Items keep their numbers. An item without its message could not be sent, so an item is written
//! after its message, and removed before it. A copy can be interrupted at any point and repeated.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_store::{Compare, DirectoryEntry, Engine, StoreError, Transfer, set_directory_entry};

use crate::error::QueueError;
use crate::item::{self, Item};
use crate::queue::{PAGE, QUEUE_ACCOUNT};

/// The state of copied items in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedItems {
    /// In the state that they have in the source.
    AsTheyAre,
    /// Held: an administrator decides about each. For a backup: most of its items are sent by the
    /// time somebody serves it.
    Held,
}

impl CopiedItems {
    /// The record for the target. One that cannot be read stays as it is.
    fn value(self, entry: &DirectoryEntry) -> Result<Bytes, QueueError> {
        match (self, Item::read(entry)) {
            (Self::Held, Ok(mut item)) if !item.held => {
                item.held = true;
                item.write()
            }
            _ => Ok(entry.value.clone()),
        }
    }
}

/// The names of all items' records. Together the records may have more octets than the memory.
async fn names(engine: &dyn Engine) -> Result<BTreeSet<String>, StoreError> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    loop {
        let page = engine.directory_names(item::prefix(), found.last().map(String::as_str), PAGE).await?;
        if page.is_empty() {
            return Ok(found);
        }
        found.extend(page);
    }
}

/// Whether the queue of `to` has items that never were in that of `from`.
///
/// # Errors
/// If a store cannot be read.
#[boxed]
pub async fn has_other_items(from: &dyn Engine, to: &dyn Engine) -> Result<bool, QueueError> {
    let there = names(to).await?;
    let (list, known) = (from.load_list(QUEUE_ACCOUNT).await?, to.load_list(QUEUE_ACCOUNT).await?);
    Ok(!there.is_empty() && list.entries.iter().map(|e| e.id).ne(known.entries.iter().map(|e| e.id)))
}

/// Makes the queue of `to` what that of `from` is. The answer is the number of items. The caller
/// checks that no server sends from `to`, and that it has no items of its own
/// ([`has_other_items`]): they would be removed.
///
/// # Errors
/// If a store cannot be read or written. If a message is damaged, all others are copied first. If
/// `from` is at an earlier state than the one that was copied: nothing is changed then.
#[boxed]
pub async fn copy_queue(
    from: &dyn Engine,
    to: &dyn Engine,
    arrive: CopiedItems,
) -> Result<usize, QueueError> {
    let before = names(from).await?;
    if from.load_list(QUEUE_ACCOUNT).await?.entries.is_empty() {
        return Ok(0);
    }
    let transfer = Transfer::new(from, to).over_another_list(QUEUE_ACCOUNT);
    // Before anything is changed.
    transfer.may_copy(QUEUE_ACCOUNT).await?;
    let there = names(to).await?;
    for name in there.difference(&before) {
        set_directory_entry(to, name, None).await?;
    }
    let mail = transfer.copy(QUEUE_ACCOUNT, &mut |_| {}).await;
    let damaged = match mail {
        Err(error) if error.is_damage() => Some(error),
        mail => {
            mail?;
            None
        }
    };
    let mut count = 0;
    for name in before {
        // An item that was sent meanwhile has no message at the other end.
        let now = from.directory_entry(&name).await?;
        count += usize::from(now.is_some());
        set_directory_entry(to, &name, now.as_ref().map(|entry| arrive.value(entry)).transpose()?).await?;
    }
    damaged.map_or(Ok(count), |error| Err(error.into()))
}

/// The differences of both queues, a sentence each.
///
/// # Errors
/// If a store cannot be read.
#[boxed]
pub async fn compare_queues(
    from: &dyn Engine,
    to: &dyn Engine,
    arrive: CopiedItems,
    compare: Compare,
) -> Result<Vec<String>, QueueError> {
    if from.load_list(QUEUE_ACCOUNT).await?.entries.is_empty() {
        return Ok(Vec::new());
    }
    // No client sees the UIDVALIDITY of the queue.
    let found = Transfer::new(from, to).audit_mailboxes(QUEUE_ACCOUNT, compare, &mut |_| {}).await?;
    let mut faults: Vec<String> = found.into_iter().map(|fault| format!("the queue: {fault}")).collect();
    let (here, there) = (names(from).await?, names(to).await?);
    for name in here.union(&there) {
        let wanted = from.directory_entry(name).await?.map(|entry| arrive.value(&entry)).transpose()?;
        if to.directory_entry(name).await?.map(|entry| entry.value) != wanted {
            faults.push("the queue: items differ".into());
            break;
        }
    }
    Ok(faults)
}
