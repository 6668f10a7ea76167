//! Copies the queue to another store, for `copy-store`, `backup` and `restore`.
//!
//! Items keep their numbers. An item without its message could not be sent, so an item is written
//! after its message, and removed before it. A copy can be interrupted at any point and repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{BodyId, MailboxName, NumSet};
use posthaste_store::{
    Compare, DirectoryEntry, Engine, StoreError, Stored, Transfer, Verifier, set_directory_entry,
};

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
    let damaged = copy_mail(transfer, to, &before).await?;
    let mut count = 0;
    for name in before {
        // An item that was sent meanwhile has no message at the other end.
        let now = from.directory_entry(&name).await?;
        count += usize::from(now.is_some());
        set_directory_entry(to, &name, now.as_ref().map(|entry| arrive.value(entry)).transpose()?).await?;
    }
    damaged.map_or(Ok(count), |error| Err(error.into()))
}

/// Copies the messages. Items that the source does not have are removed before. Answers the first
/// damage of a message; all others are copied then.
async fn copy_mail(
    transfer: Transfer<'_>,
    to: &dyn Engine,
    items: &BTreeSet<String>,
) -> Result<Option<StoreError>, QueueError> {
    // Before anything is changed.
    transfer.may_copy(QUEUE_ACCOUNT).await?;
    for name in names(to).await?.difference(items) {
        set_directory_entry(to, name, None).await?;
    }
    match transfer.copy(QUEUE_ACCOUNT, &mut |_| {}).await {
        Err(error) if error.is_damage() => Ok(Some(error)),
        mail => Ok(mail.map(|()| None)?),
    }
}

/// The outcome of [`restore_queue`].
#[derive(Debug, PartialEq, Eq)]
pub struct RestoredQueue {
    /// Items that wait, and are held.
    pub held: usize,
    /// Why items were left out, a line each.
    pub left_out: Vec<String>,
}

/// Lines in [`RestoredQueue::left_out`], besides one for all other items.
const LEFT_OUT_MAX: usize = 20;

/// As [`copy_queue`], for a backup, which may be forged. Its items are held. An item names the
/// body of its message, and may name any body of the store. So it gets the one that the queue has
/// under its number. An item without such a message is left out. So is one with an address that
/// no command of SMTP can name, and one that cannot be read.
///
/// # Errors
/// As [`copy_queue`]. [`posthaste_store::IN_ANOTHER_LIST`] if the mailbox is somebody else's.
#[boxed]
pub async fn restore_queue(
    from: &dyn Engine,
    to: &dyn Engine,
    verifier: Verifier,
) -> Result<RestoredQueue, QueueError> {
    let (mut held, mut left_out) = (0, Vec::new());
    let before = names(from).await?;
    if from.load_list(QUEUE_ACCOUNT).await?.entries.is_empty() {
        return Ok(RestoredQueue { held, left_out });
    }
    let transfer = Transfer::new(from, to).over_another_list(QUEUE_ACCOUNT).verified_by(verifier);
    let damaged = copy_mail(transfer, to, &before).await?;
    let bodies = bodies(to).await?;
    for name in before {
        let item = match from.directory_entry(&name).await?.map(|entry| restored(&entry, &bodies)) {
            Some(Err(why)) => {
                // Terminals obey control characters.
                left_out.push(why.escape_debug().to_string());
                None
            }
            item => item.and_then(Result::ok),
        };
        held += usize::from(item.is_some());
        set_directory_entry(to, &name, item).await?;
    }
    if let Some(more) = left_out.len().checked_sub(LEFT_OUT_MAX).filter(|more| *more > 0) {
        left_out.truncate(LEFT_OUT_MAX);
        left_out.push(format!("{more} other items"));
    }
    damaged.map_or(Ok(RestoredQueue { held, left_out }), |error| Err(error.into()))
}

/// The record of an item out of a backup, for a store that has these bodies; or why it is left
/// out.
fn restored(entry: &DirectoryEntry, bodies: &BTreeMap<u32, BodyId>) -> Result<Bytes, String> {
    let mut item = Item::read(entry).map_err(|error| error.to_string())?;
    let id = item.id;
    let body = bodies.get(&id).ok_or_else(|| format!("item {id} has no message"))?;
    if !has_sound_addresses(&item) {
        return Err(format!("item {id} has an address that no command of SMTP can name"));
    }
    (item.body, item.held) = (*body, true);
    item.pending.retain_mut(|report| {
        let body = bodies.get(&report.row).filter(|_| is_sound(&report.to) && is_sound(&report.destination));
        report.body = body.map(BodyId::to_string).unwrap_or_default();
        body.is_some()
    });
    item.write().map_err(|error| error.to_string())
}

/// The bodies of the queue's messages, by their numbers.
async fn bodies(engine: &dyn Engine) -> Result<BTreeMap<u32, BodyId>, StoreError> {
    let mut found = BTreeMap::new();
    let mut visit = |stored: Stored<'_>| {
        found.insert(stored.uid.value(), stored.body);
        ControlFlow::Continue(())
    };
    let list = engine.load_list(QUEUE_ACCOUNT).await?;
    if let Some(inbox) = list.find(&MailboxName::inbox()) {
        engine.summaries(inbox.id, &NumSet::range(1, u32::MAX), &mut visit).await?.refuse()?;
    }
    Ok(found)
}

/// Whether an address or a destination ends where its command ends. A quoted local part may have
/// brackets (RFC 5321 §4.1.2).
fn is_sound(address: &str) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in address.chars() {
        match c {
            _ if c.is_control() => return false,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            '<' | '>' if !is_quoted => return false,
            _ => {}
        }
    }
    !is_quoted
}

fn has_sound_addresses(item: &Item) -> bool {
    let to = item.recipients.iter().flat_map(|to| std::iter::once(&to.address).chain(&to.named));
    to.map(String::as_str).chain([item.from.as_str(), item.destination.as_str()]).all(is_sound)
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
    let wanted = |entry: &DirectoryEntry| arrive.value(entry).map(Some);
    differences(Transfer::new(from, to), (from, to), compare, wanted).await
}

/// The differences after [`restore_queue`], a sentence each. All octets are compared.
///
/// # Errors
/// If a store cannot be read.
#[boxed]
pub async fn compare_restored_queue(
    from: &dyn Engine,
    to: &dyn Engine,
    verifier: Verifier,
) -> Result<Vec<String>, QueueError> {
    if from.load_list(QUEUE_ACCOUNT).await?.entries.is_empty() {
        return Ok(Vec::new());
    }
    let transfer = Transfer::new(from, to).verified_by(verifier);
    let bodies = bodies(to).await?;
    differences(transfer, (from, to), Compare::All, |entry| Ok(restored(entry, &bodies).ok())).await
}

async fn differences(
    transfer: Transfer<'_>,
    (from, to): (&dyn Engine, &dyn Engine),
    compare: Compare,
    wanted: impl Fn(&DirectoryEntry) -> Result<Option<Bytes>, QueueError> + Send + Sync,
) -> Result<Vec<String>, QueueError> {
    // No client sees the UIDVALIDITY of the queue.
    let found = transfer.audit_mailboxes(QUEUE_ACCOUNT, compare, &mut |_| {}).await?;
    let mut faults: Vec<String> = found.into_iter().map(|fault| format!("the queue: {fault}")).collect();
    let (here, there) = (names(from).await?, names(to).await?);
    for name in here.union(&there) {
        let wanted = from.directory_entry(name).await?.map(|entry| wanted(&entry)).transpose()?.flatten();
        if to.directory_entry(name).await?.map(|entry| entry.value) != wanted {
            faults.push("the queue: items differ".into());
            break;
        }
    }
    Ok(faults)
}
