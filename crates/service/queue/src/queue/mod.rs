//! The queue in the store: items added, read, changed and removed, each durably.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_delivery::{Delivery, NewMessage, SummaryMemory, WorkFor, is_long};
use posthaste_directory::unix_time;
use posthaste_mail_model::{AccountId, Id, MailboxId, NumSet, Uid};
use posthaste_net::freed_elsewhere;
use posthaste_store::{
    CommitOutcome, DirectoryChange, DirectoryEntry, Engine, Mailbox, Place, Store, StoreError,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::error::QueueError;
use crate::item::{self, Arrival, Item, ItemId, NewItem};
use crate::ledger::{Ledger, Payer, Reserved, record_charge};
use crate::report::WHOLE_LEN_MAX;

mod reading;

#[cfg(test)]
pub(crate) use reading::PAGE_LEN_MAX;
pub use reading::Page;

/// The account whose INBOX holds the messages. It has no name and no password: nobody logs in.
pub const QUEUE_ACCOUNT: AccountId = AccountId(Id::new(0, 1));

/// A record whose version counts the changes that an administrator made while the server runs.
const CHANGES: &str = "queue-changes";
/// The prefix of records with the reason why a destination waits.
const WAITS: &str = "queue-wait/";
/// Records per engine call when all are read.
pub(crate) const PAGE: usize = 256;
/// The attempts at a change that loses races. Each loss means that someone else won.
const TRIES: usize = 16;

/// Messages for other domains. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Queue {
    delivery: Delivery,
    mailbox: MailboxId,
    /// Rows with this number or a later one came after this process began.
    first: ItemId,
    arrivals: Arc<Arrivals>,
    /// What waits because of each account, and the bounds.
    ledger: Arc<Ledger>,
}

/// Items that this process added and its runner has not seen.
#[derive(Default)]
struct Arrivals {
    items: Mutex<Vec<Arrival>>,
    any: Notify,
}

/// Why a destination waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The last failure.
    pub reason: String,
    /// Until then nothing is sent there, unix seconds.
    pub until: i64,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}

impl Queue {
    /// The queue of a store. The first call makes it.
    #[boxed]
    pub async fn open(delivery: Delivery) -> Result<Self, QueueError> {
        let list = delivery.store().ensure_default_mailboxes(QUEUE_ACCOUNT, &[]).await?;
        let inbox = posthaste_mail_model::MailboxName::inbox();
        let mailbox = list.find(&inbox).ok_or(StoreError::NoSuchName)?.id;
        let heads = delivery.store().status(&[mailbox]).await?;
        let head = heads.into_iter().flatten().next().ok_or(StoreError::NoMailbox(mailbox))?;
        let (first, arrivals, ledger) = (head.uid_next.value(), Arc::default(), Arc::default());
        Ok(Self { delivery, mailbox, first, arrivals, ledger })
    }

    /// Whether a store has items, whether or not anything sends them.
    #[boxed]
    pub async fn has_items(engine: &dyn Engine) -> Result<bool, QueueError> {
        Ok(!engine.directory_names(item::prefix(), None, 1).await?.is_empty())
    }

    /// The delivery that stores messages.
    pub(crate) fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// The mailbox of the queue, to add to: it may hold any number of messages.
    pub(crate) fn destination(&self) -> posthaste_store::Destination {
        self.store().destination(self.mailbox).without_limit()
    }

    /// The mailbox of the queue.
    pub(crate) async fn open_mailbox(&self) -> Result<Arc<Mailbox>, QueueError> {
        Ok(self.store().open_for_upkeep(self.mailbox).await?)
    }

    fn store(&self) -> &Store {
        self.delivery.store()
    }

    fn engine(&self) -> &Arc<dyn Engine> {
        self.store().engine()
    }

    /// Waits for items that this process adds, and takes them.
    pub(crate) async fn arrived(&self) -> Vec<Arrival> {
        loop {
            let items = self.take_arrivals();
            if !items.is_empty() {
                return items;
            }
            self.arrivals.any.notified().await;
        }
    }

    /// Takes items that this process has added so far.
    pub(crate) fn take_arrivals(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.arrivals.items.lock())
    }

    /// Adds a message, durably: one item for each part, or several for one with very many
    /// recipients. Either all are there on return, or an error says that some may not be.
    pub(crate) async fn add(&self, message: Bytes, parts: Vec<NewItem<'_>>) -> Result<Vec<Item>, QueueError> {
        let payer = parts.first().and_then(|part| Payer::of(part.envelope));
        self.add_for(payer, message, parts).await
    }

    /// Adds a report of this server, durably. An error if too many of them wait.
    pub(crate) async fn add_report(&self, message: Bytes, part: NewItem<'_>) -> Result<(), QueueError> {
        let payer = Payer::of_report(&part.envelope.from, &part.destination);
        self.add_for(payer, message, vec![part]).await.map(|_| ())
    }

    /// An error if there is no room for a report to a destination. Nothing is reserved.
    pub(crate) async fn check_report(&self, destination: &str) -> Result<(), QueueError> {
        let payer = Payer::of_report("", destination);
        self.check_room(1, payer.as_ref()).await?;
        self.reserve(payer, 0).await.map(drop)
    }

    /// Notes that a report was dropped, because too many wait.
    pub(crate) fn note_dropped_report(&self) {
        self.ledger.note_dropped();
    }

    /// Reports that were dropped since the start.
    pub(crate) fn dropped_reports(&self) -> u64 {
        self.ledger.dropped()
    }

    async fn add_for(
        &self,
        payer: Option<Payer>,
        message: Bytes,
        parts: Vec<NewItem<'_>>,
    ) -> Result<Vec<Item>, QueueError> {
        let size = message.len() as u64;
        let parts: Vec<_> = parts.into_iter().flat_map(NewItem::split).collect();
        let records: u64 = parts.iter().map(|part| record_charge(item::octets(&part.recipients))).sum();
        self.check_room(parts.len() as u64, payer.as_ref()).await?;
        let whose = match is_long(message.len()) {
            true => self.work_for(payer.as_ref()).await,
            false => WorkFor::SERVER,
        };
        let reserved = self.reserve(payer, size + records).await?;
        let message = NewMessage { bytes: message, flags: Vec::new(), date: None };
        let (incoming, held) = self.delivery.incoming_held(whose, message, SummaryMemory::Last).await?;
        let body = incoming.body;
        // All rows have the same body, which is written once.
        let messages = vec![incoming; parts.len()];
        let appended = self.destination().append(messages).await?;
        drop(held);
        let now = unix_time::signed(self.store().unix_ms() / 1000);
        let mut items = Vec::with_capacity(parts.len());
        for (part, uid) in parts.into_iter().zip(&appended.uids) {
            let mut item = Item::new(part, uid.value(), (body, size), now);
            if let Err(error) = self.update(&mut item).await {
                // It may be there anyway: an answer of the engine can be lost.
                item.version = 1;
                items.push(item);
                self.withdraw(&items, &appended.uids).await;
                return Err(error);
            }
            items.push(item);
        }
        match reserved {
            Some(reserved) => reserved.charge_to(&items),
            // Bounces that are relayed count, as they do when the queue is read.
            None => items.iter().for_each(|item| self.ledger.count(item)),
        }
        self.arrivals.items.lock().extend(items.iter().map(Item::arrival));
        self.arrivals.any.notify_one();
        Ok(items)
    }

    /// For whom the long work on a message is done. Mail that no account sends counts together
    /// with the server's reports.
    async fn work_for(&self, payer: Option<&Payer>) -> WorkFor {
        let (name, is_submitted) = match payer {
            Some(Payer::Submitter(name)) => (name, true),
            Some(Payer::SentOn(name)) => (name, false),
            Some(Payer::Report(_)) | None => return WorkFor::SERVER,
        };
        match self.delivery.directory().account(name).await {
            Ok(Some(account)) if is_submitted => WorkFor::account(account.id),
            // Others have sent it to the account.
            Ok(Some(account)) => WorkFor::mail_of(account.id),
            Ok(None) | Err(_) => WorkFor::SERVER,
        }
    }

    /// Sets how many octets may wait because of each account; 0: any number.
    pub(crate) fn set_account_octets_max(&self, octets: u64) {
        self.ledger.set_max(octets);
    }

    /// Sets how many items the queue may have.
    pub(crate) fn set_items_max(&self, items: u64) {
        self.ledger.set_items_max(items);
    }

    /// Notes an item that became one without [`Self::add`].
    pub(crate) fn count(&self, item: &Item) {
        self.ledger.count(item);
    }

    /// An error if the queue has no room for so many items more. The last quarter is for what
    /// users submit. Messages that are added at the same time may together exceed the bound.
    async fn check_room(&self, more: u64, payer: Option<&Payer>) -> Result<(), QueueError> {
        let limit = self.ledger.items_max();
        let most = match payer {
            Some(Payer::Submitter(_)) => limit,
            Some(Payer::SentOn(_) | Payer::Report(_)) | None => limit / 4 * 3,
        };
        let heads = self.store().status(&[self.mailbox]).await?;
        let there = heads.into_iter().flatten().next().map_or(0, |head| u64::from(head.counts.messages));
        if there.saturating_add(more) > most {
            return Err(QueueError::Full { limit });
        }
        Ok(())
    }

    /// Counts the octets of a message that is about to be added.
    async fn reserve(&self, payer: Option<Payer>, octets: u64) -> Result<Option<Reserved>, QueueError> {
        let Some(payer) = payer else { return Ok(None) };
        if self.ledger.is_due() {
            self.count_all().await?;
        }
        let payer = Arc::new(payer);
        let mut reserved = self.ledger.reserve(&payer, octets);
        if reserved.is_none() && self.ledger.is_old_for(&payer, self.store().unix_ms()) {
            self.count_all().await?;
            reserved = self.ledger.reserve(&payer, octets);
        }
        let full = || match &*payer {
            Payer::Report(domain) => QueueError::ReportsFull { domain: domain.clone() },
            Payer::Submitter(_) | Payer::SentOn(_) if self.ledger.has_all_items(&payer) => {
                QueueError::Full { limit: self.ledger.items_max() }
            }
            Payer::Submitter(account) | Payer::SentOn(account) => {
                QueueError::AccountFull { account: account.clone(), limit: self.ledger.max() }
            }
        };
        reserved.map(Some).ok_or_else(full)
    }

    /// Removes items of a message that is refused, because the client will send it again. Its
    /// rows that no record names go, too. Otherwise they would count until the next start.
    async fn withdraw(&self, items: &[Item], rows: &[Uid]) {
        // The records of the last ones were not written.
        let mut unnamed: Vec<ItemId> = rows.iter().skip(items.len()).map(|row| row.value()).collect();
        for item in items {
            match self.remove(item).await {
                Ok(()) => {}
                // It was not written, or somebody has changed it since.
                Err(QueueError::Busy(_)) => {
                    if let Ok(None) = self.item(item.id).await {
                        unnamed.push(item.id);
                    }
                }
                // A row whose record may be there stays.
                Err(error) => {
                    tracing::error!(id = item.id, %error, "a message that was refused stays in the queue");
                }
            }
        }
        if let Err(error) = self.remove_messages(&unnamed.into_iter().collect()).await {
            tracing::warn!(%error, "a message that was refused counts in the queue until the next start");
        }
    }

    /// Reads an item; `None` if it has left the queue.
    #[boxed]
    pub async fn item(&self, id: ItemId) -> Result<Option<Item>, QueueError> {
        self.engine().directory_entry(&item::name(id)).await?.as_ref().map(Item::read).transpose()
    }

    /// For whom messages of the queue are read.
    fn reader(&self) -> Place {
        Place::Mailbox(self.mailbox)
    }

    /// The message of an item.
    #[boxed]
    pub async fn message(&self, item: &Item) -> Result<Bytes, QueueError> {
        Ok(freed_elsewhere(self.store().read_body(self.reader(), item.body, 0..u64::MAX).await?))
    }

    /// The beginning of the message of an item: as much as reports quote.
    pub(crate) async fn beginning(&self, item: &Item) -> Result<Bytes, QueueError> {
        let range = 0..WHOLE_LEN_MAX as u64;
        Ok(self.store().read_body(self.reader(), item.body, range).await?)
    }

    /// Writes an item that was read or made before. `Busy` if another process has changed it since.
    #[boxed]
    pub async fn update(&self, item: &mut Item) -> Result<(), QueueError> {
        let value = Some(item.write()?);
        match self.commit(item.id, item.version, value).await? {
            CommitOutcome::Done => {
                item.version += 1;
                Ok(())
            }
            CommitOutcome::Conflict => Err(QueueError::Busy(item.id)),
        }
    }

    /// Removes an item, then its message. `Busy` if another process has changed it since.
    #[boxed]
    pub async fn remove(&self, item: &Item) -> Result<(), QueueError> {
        match self.commit(item.id, item.version, None).await? {
            CommitOutcome::Done => {
                self.ledger.remove(item.id);
                self.remove_messages(&NumSet::range(item.id, item.id)).await
            }
            CommitOutcome::Conflict => Err(QueueError::Busy(item.id)),
        }
    }

    async fn remove_messages(&self, uids: &NumSet) -> Result<(), QueueError> {
        self.open_mailbox().await?.remove(uids).await?;
        Ok(())
    }

    async fn commit(
        &self,
        id: ItemId,
        expected: u64,
        value: Option<Bytes>,
    ) -> Result<CommitOutcome, QueueError> {
        let change = DirectoryChange { name: item::name(id), expected, value };
        Ok(self.engine().directory_commit(change).await?)
    }

    /// Changes an item while a server may run, and has the server notice.
    pub async fn administer(
        &self,
        id: ItemId,
        change: impl Fn(&mut Item) + Send + Sync,
    ) -> Result<Item, QueueError> {
        self.decide(id, Some(&change)).await
    }

    /// Removes an item while a server may run. No report is sent.
    #[boxed]
    pub async fn drop_item(&self, id: ItemId) -> Result<Item, QueueError> {
        self.decide(id, None).await
    }

    /// Changes an item, or removes it if there is no change, again from the start if someone else
    /// changed it meanwhile.
    async fn decide(
        &self,
        id: ItemId,
        change: Option<&(dyn Fn(&mut Item) + Send + Sync)>,
    ) -> Result<Item, QueueError> {
        for _ in 0..TRIES {
            let mut item = self.item(id).await?.ok_or(QueueError::NoItem(id))?;
            let outcome = match change {
                Some(change) => {
                    change(&mut item);
                    self.update(&mut item).await
                }
                None => self.remove(&item).await,
            };
            match outcome {
                Ok(()) => {
                    self.note_change().await?;
                    return Ok(item);
                }
                Err(QueueError::Busy(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(QueueError::Busy(id))
    }

    /// Records why a destination waits, for `posthaste queue list`.
    pub(crate) async fn note_unreachable(
        &self,
        destination: &str,
        reason: &str,
        until: i64,
    ) -> Result<(), QueueError> {
        let wait = Wait { reason: reason.to_owned(), until };
        let value = serde_json::to_vec(&wait).map_err(|e| wrong(destination, &e))?;
        self.put_wait(destination, Some(Bytes::from(value))).await
    }

    /// Forgets why a destination waited.
    pub(crate) async fn clear_unreachable(&self, destination: &str) -> Result<(), QueueError> {
        self.put_wait(destination, None).await
    }

    /// Forgets why destinations waited, except those that are known to have items.
    pub(crate) async fn clear_others(
        &self,
        is_known: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<(), QueueError> {
        let mut after: Option<String> = None;
        loop {
            let entries = self.engine().directory_scan(WAITS, after.as_deref(), PAGE).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            after = Some(last.name.clone());
            for DirectoryEntry { name, version, .. } in entries {
                if !name.strip_prefix(WAITS).is_some_and(&is_known) {
                    let change = DirectoryChange { name, expected: version, value: None };
                    self.engine().directory_commit(change).await?;
                }
            }
        }
    }

    async fn put_wait(&self, destination: &str, value: Option<Bytes>) -> Result<(), QueueError> {
        let name = wait_name(destination);
        let expected = self.engine().directory_entry(&name).await?.map_or(0, |entry| entry.version);
        if expected > 0 || value.is_some() {
            // A lost race here loses only a text for a person.
            self.engine().directory_commit(DirectoryChange { name, expected, value }).await?;
        }
        Ok(())
    }

    /// Why a destination waits; `None` if it does not.
    #[boxed]
    pub async fn wait_of(&self, destination: &str) -> Result<Option<Wait>, QueueError> {
        let entry = self.engine().directory_entry(&wait_name(destination)).await?;
        let read = |entry: DirectoryEntry| serde_json::from_slice(&entry.value);
        entry.map(read).transpose().map_err(|e| wrong(destination, &e))
    }

    async fn note_change(&self) -> Result<(), QueueError> {
        for _ in 0..TRIES {
            let expected = self.changes().await?;
            let change = DirectoryChange { name: CHANGES.into(), expected, value: Some(Bytes::new()) };
            if self.engine().directory_commit(change).await? == CommitOutcome::Done {
                break;
            }
        }
        Ok(())
    }

    /// Counts the changes that were made while the server runs.
    #[boxed]
    pub async fn changes(&self) -> Result<u64, QueueError> {
        Ok(self.engine().directory_entry(CHANGES).await?.map_or(0, |entry| entry.version))
    }
}

fn wait_name(destination: &str) -> String {
    format!("{WAITS}{destination}")
}

fn wrong(destination: &str, error: &serde_json::Error) -> QueueError {
    QueueError::Record { record: wait_name(destination), why: error.to_string() }
}
