//! Reads the records of the queue, all of them in the end, in pieces that are short.
//!
//! A record has the envelope: some hundred octets usually, and 128 KiB and more if a message has
//! many recipients with long addresses. There may be 200,000 records. So a page has a bound of
//! octets as well, and other tasks run while a page is parsed. Where numbers are enough, only
//! names are read.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::NumSet;
use posthaste_store::DirectoryEntry;

use super::{PAGE, Queue};
use crate::error::QueueError;
use crate::item::{self, Item, ItemId, pending_rows};
use crate::ledger::Counted;

/// Octets of the records of a page, unless its first record alone has more.
pub(crate) const PAGE_LEN_MAX: usize = 1 << 20;
/// Octets of records that are parsed before other tasks run: some 1 ms.
const PARSED_AT_ONCE: usize = 256 << 10;
/// Names per engine call, and numbers that are looked up before other tasks run.
const NAMES: usize = 1_024;

/// A page of the queue's items.
#[derive(Debug)]
pub struct Page {
    /// The items that can be read.
    pub items: Vec<Item>,
    /// Why others cannot.
    pub damaged: Vec<QueueError>,
    /// The last of all.
    pub last: ItemId,
}

/// Parses records one by one. Other tasks run meanwhile, and once at the end.
async fn parsed(records: Vec<DirectoryEntry>, mut parse: impl FnMut(&DirectoryEntry) + Send) {
    let mut octets = 0;
    for record in records {
        parse(&record);
        octets += record.value.len();
        if octets >= PARSED_AT_ONCE {
            octets = 0;
            tokio::task::yield_now().await;
        }
    }
    tokio::task::yield_now().await;
}

impl Queue {
    /// At most 256 items in the order of their numbers, those after `after`; `None` at the end.
    /// Their records have 1 MiB at most, unless there is only one.
    #[boxed]
    pub async fn page(&self, after: Option<ItemId>) -> Result<Option<Page>, QueueError> {
        let records = self.records(after, PAGE).await?;
        let Some(last) = last_of(&records) else { return Ok(None) };
        let mut page = Page { items: Vec::with_capacity(records.len()), damaged: Vec::new(), last };
        let parse = |record: &DirectoryEntry| match Item::read(record) {
            Ok(item) => page.items.push(item),
            Err(error) => page.damaged.push(error),
        };
        parsed(records, parse).await;
        Ok(Some(page))
    }

    /// The next items with pending reports, and the last item that was looked at; `None` at the
    /// end.
    pub(crate) async fn next_pending(
        &self,
        after: Option<ItemId>,
    ) -> Result<Option<(Vec<ItemId>, ItemId)>, QueueError> {
        let records = self.records(after, PAGE).await?;
        let Some(last) = last_of(&records) else { return Ok(None) };
        let mut found = Vec::new();
        let parse = |record: &DirectoryEntry| {
            let has_pending = !pending_rows(record).is_empty();
            found.extend(item::number(&record.name).filter(|_| has_pending));
        };
        parsed(records, parse).await;
        Ok(Some((found, last)))
    }

    async fn records(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<DirectoryEntry>, QueueError> {
        let after = after.map(item::name);
        let scan = self.engine().directory_scan_within(item::prefix(), after.as_deref(), limit, PAGE_LEN_MAX);
        Ok(scan.await?)
    }

    /// The numbers of all items. No record is read.
    async fn ids(&self) -> Result<NumSet, QueueError> {
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let mut names = self.engine().directory_names(item::prefix(), after.as_deref(), NAMES).await?;
            found.extend(names.iter().filter_map(|name| item::number(name)));
            after = names.pop();
            if after.is_none() {
                return Ok(found.into_iter().collect());
            }
            tokio::task::yield_now().await;
        }
    }

    /// Counts all items again, also those that others added and removed.
    pub(super) async fn count_all(&self) -> Result<(), QueueError> {
        let _one = self.ledger.reading.lock().await;
        if !self.ledger.is_due() && !self.ledger.is_old(self.store().unix_ms()) {
            // Another message was first.
            return Ok(());
        }
        let before = self.ledger.begin_reading();
        match self.count_from(&before).await {
            Ok(()) => {
                self.ledger.end_reading(self.store().unix_ms());
                Ok(())
            }
            Err(error) => {
                self.ledger.give_up_reading();
                Err(error)
            }
        }
    }

    /// Counts items that are not counted yet, and no longer those that left. `before`: the items
    /// that were known when the reading began. Their records are not read again, because what
    /// counts of an item never changes.
    async fn count_from(&self, before: &[ItemId]) -> Result<(), QueueError> {
        let ids = self.ids().await?;
        for some in before.chunks(NAMES) {
            self.ledger.forget_missing(some, &ids);
            tokio::task::yield_now().await;
        }
        let mut unknown = Vec::new();
        for some in ids.slices(NAMES as u64) {
            self.ledger.find_unknown(&some, &mut unknown);
            tokio::task::yield_now().await;
        }
        let mut unknown = unknown.as_slice();
        while let Some(first) = unknown.first().copied() {
            let records = self.records(first.checked_sub(1), unknown.len().min(PAGE)).await?;
            let last = last_of(&records).unwrap_or(first).max(first);
            let mut found = Vec::with_capacity(records.len());
            parsed(records, |record| found.extend(Counted::read(record))).await;
            self.ledger.add_found(found);
            unknown = unknown.split_at(unknown.partition_point(|id| *id <= last)).1;
        }
        Ok(())
    }

    /// Removes messages that no record names: a crash came between the two, so nobody was
    /// answered. Items that a process may be adding stay: on a cluster what came after `before`,
    /// unix seconds; without it, where no other process adds, what came after this one began. How
    /// many there were.
    #[boxed]
    pub async fn remove_unfinished(&self, before: Option<i64>) -> Result<usize, QueueError> {
        // The messages first: an envelope may be written between the two readings.
        let view = self.open_mailbox().await?.current().await?;
        let all = view.all();
        let old = view.rows(&all).filter(|(_, row)| match before {
            Some(before) => i64::from(row.date()) <= before,
            None => row.uid().value() < self.first,
        });
        let old: NumSet = old.map(|(_, row)| row.uid().value()).collect();
        let mut unfinished = old.difference(&self.ids().await?);
        if !unfinished.is_empty() {
            let pending: NumSet = self.all_pending_rows().await?.into_iter().collect();
            // A pending report may have become an item before its row was looked for.
            unfinished = unfinished.difference(&pending).difference(&self.ids().await?);
        }
        let count = unfinished.iter().count();
        if count > 0 {
            self.remove_messages(&unfinished).await?;
        }
        Ok(count)
    }

    /// The rows of all pending reports. Their items name them.
    async fn all_pending_rows(&self) -> Result<BTreeSet<ItemId>, QueueError> {
        let (mut found, mut after) = (BTreeSet::new(), None);
        loop {
            let records = self.records(after, PAGE).await?;
            let Some(last) = last_of(&records) else { return Ok(found) };
            after = Some(last);
            parsed(records, |record| found.extend(pending_rows(record))).await;
        }
    }
}

/// The last item of a page.
fn last_of(records: &[DirectoryEntry]) -> Option<ItemId> {
    records.iter().rev().find_map(|record| item::number(&record.name))
}
