//! The octets that wait because of each account, the reports that wait, and their bounds.
//!
//! Reports of this server to other domains count by the registered domain of the recipient: a
//! stranger can request them. So do bounces of other hosts that are relayed, which look the same.
//! The whole queue has a bound of items, of which reports have an eighth, and an account a half.
//!
//! A message counts once, however many destinations it has: its body is stored once. The records
//! of its items count as well, if they are long. Mail that an account submits and mail that the
//! server forwards for it are counted separately. So a flood of forwarded mail does not stop the
//! account's user from sending.
//!
//! The counts are in memory. They are read from the queue before the first message that counts.
//! Other processes change the queue, too: `posthaste queue drop`, and other nodes. So before a
//! message is refused the queue is read again, unless that was done just before. Then only names
//! are read, and the records of items that are not known.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use posthaste_directory::registered_domain;
use posthaste_mail_model::{BodyId, NumSet};
use posthaste_store::DirectoryEntry;

use crate::item::{self, CountedFields, Envelope, Item, ItemId, Local, TlsRequirement};

/// The age that counts may have, in milliseconds, when a message is refused because of them. To
/// read the names of a queue of 100,000 messages takes some 20 ms, in many pieces.
const OLD_MS: u64 = 10_000;

/// The same before a report is dropped. Strangers can cause that again and again.
const OLD_FOR_REPORTS_MS: u64 = 60_000;

/// Items of the queue by default. The schedule then takes 280 MB if each has a destination of
/// its own ([`crate::SCHEDULED_BYTES_MAX`]).
const ITEMS_MAX: u64 = 100_000;
/// The items of one account's submitted mail have a bound, and so have those that are sent on for
/// it: one of this many parts of the queue. Otherwise one account could fill it.
const ACCOUNT_SHARES: u64 = 2;
/// Reports among them at most: an eighth, and no more than this many. Usual ones have some 8 KiB.
const REPORTS_MAX: u64 = 10_000;
/// Octets of all reports that wait. The header that a report quotes has at most 32 KiB.
const REPORT_OCTETS_MAX: u64 = 256 << 20;
/// The share of one registered domain in both is one of this many.
const REPORT_SHARES: u64 = 16;

/// Octets of an item's record that count for nobody. The bound of items limits them.
const RECORD_FREE: u64 = 1_024;

/// Items that are counted before the queue is read again, in addition to twice those of the last
/// reading. Items that another node has sent are forgotten then.
const ITEMS_FIRST: usize = 10_000;

/// The octets of a record that count, of so many in all.
pub(crate) fn record_charge(octets: usize) -> u64 {
    (octets as u64).saturating_sub(RECORD_FREE)
}

/// Because of whom a message waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Payer {
    /// The account that submitted the message.
    Submitter(String),
    /// The server sends the message on for it: by a forward or a script.
    SentOn(String),
    /// Nobody with an account: a report of this server to an address of this registered domain.
    Report(String),
}

impl Payer {
    /// The payer of a message with this envelope.
    pub fn of(envelope: &Envelope) -> Option<Self> {
        let Envelope { account, sent_on_by, .. } = envelope;
        Self::named(account.as_ref(), sent_on_by.as_ref())
    }

    /// The payer of a report to a destination; `None` if that is this server. Other mail has a
    /// sender.
    pub fn of_report(from: &str, destination: &str) -> Option<Self> {
        let domain = TlsRequirement::split(destination).0;
        let is_report = from.is_empty() && Local::of(domain).is_none();
        is_report.then(|| Self::Report(registered_domain(domain).to_owned()))
    }

    fn named(submitter: Option<&String>, sent_on_by: Option<&String>) -> Option<Self> {
        let sent_on = || sent_on_by.cloned().map(Self::SentOn);
        submitter.cloned().map(Self::Submitter).or_else(sent_on)
    }

    /// The payer of an item with these accounts, this sender and this destination.
    fn of_item(accounts: [Option<&String>; 2], from: &str, destination: &str) -> Option<Arc<Self>> {
        let [submitter, sent_on_by] = accounts;
        let payer = Self::named(submitter, sent_on_by).or_else(|| Self::of_report(from, destination));
        payer.map(Arc::new)
    }

    /// Whether the server may drop the message instead of refusing it to somebody.
    pub const fn is_report(&self) -> bool {
        matches!(self, Self::Report(_))
    }
}

/// The counts of one queue.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Octets that may wait for each account; 0: any number.
    max: AtomicU64,
    /// Items that the queue may have.
    items_max: AtomicU64,
    /// Reports that were dropped since the start.
    dropped: AtomicU64,
    counts: Mutex<PayerCounts>,
    /// Held while the queue is read.
    pub(crate) reading: tokio::sync::Mutex<()>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            max: AtomicU64::new(0),
            items_max: AtomicU64::new(ITEMS_MAX),
            dropped: AtomicU64::new(0),
            counts: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct PayerCounts {
    /// The time when the queue was read last, unix milliseconds; `None` if it never was.
    read_at: Option<u64>,
    /// Items at that time.
    read: usize,
    items: HashMap<ItemId, CountedItem>,
    /// Items that count for nobody, as the last reading found them.
    free: HashSet<ItemId>,
    payers: HashMap<Arc<Payer>, WaitingMail>,
    /// Items and octets of all reports.
    reports: (u64, u64),
    is_being_read: bool,
    /// Items that left the queue since a reading began.
    removed: HashSet<ItemId>,
}

#[derive(Debug)]
struct CountedItem {
    payer: Arc<Payer>,
    body: BodyId,
    /// Octets of its record that count.
    record: u64,
}

/// The mail that waits because of one payer.
#[derive(Debug, Default)]
struct WaitingMail {
    /// Items, and messages that are being added.
    items: u64,
    /// Octets of all bodies and records, and of messages that are being added.
    octets: u64,
    bodies: HashMap<BodyId, CountedBody>,
}

#[derive(Debug)]
struct CountedBody {
    octets: u64,
    items: usize,
}

/// The fields of an item that count.
#[derive(Debug)]
pub(crate) struct Counted {
    id: ItemId,
    /// `None` if the item counts for nobody.
    payer: Option<Arc<Payer>>,
    body: (BodyId, u64),
    /// Octets of its record that count.
    record: u64,
}

impl Counted {
    /// The fields of an item.
    pub fn of(item: &Item) -> Self {
        let accounts = [item.account.as_ref(), item.sent_on_by.as_ref()];
        let payer = Payer::of_item(accounts, &item.from, &item.destination);
        let record = record_charge(item::octets(&item.recipients));
        Self { id: item.id, payer, body: (item.body, item.size), record }
    }

    /// The fields of a record; `None` if it cannot be read.
    pub fn read(record: &DirectoryEntry) -> Option<Self> {
        let (id, body, fields) = CountedFields::read(record)?;
        let accounts = [fields.account.as_ref(), fields.sent_on_by.as_ref()];
        let payer = Payer::of_item(accounts, &fields.from, &fields.destination);
        Some(Self { id, payer, body: (body, fields.size), record: record_charge(record.value.len()) })
    }
}

impl PayerCounts {
    fn is_due(&self) -> bool {
        self.read_at.is_none() || self.items.len() > 2 * self.read + ITEMS_FIRST
    }

    fn stop_reading(&mut self) {
        self.is_being_read = false;
        self.removed = HashSet::new();
    }

    /// Counts an item. Its body counts with the first one.
    fn add(&mut self, Counted { id, payer, body: (body, octets), record }: Counted) {
        let Some(payer) = payer else {
            self.free.insert(id);
            return;
        };
        let Entry::Vacant(entry) = self.items.entry(id) else { return };
        entry.insert(CountedItem { payer: Arc::clone(&payer), body, record });
        let waiting = self.payers.entry(Arc::clone(&payer)).or_default();
        let counted = waiting.bodies.entry(body).or_insert(CountedBody { octets, items: 0 });
        counted.items += 1;
        let more = if counted.items == 1 { octets } else { 0 };
        self.charge(&payer, more.saturating_add(record));
    }

    /// Counts one item more, with these octets.
    fn charge(&mut self, payer: &Arc<Payer>, octets: u64) {
        let waiting = self.payers.entry(Arc::clone(payer)).or_default();
        waiting.items += 1;
        waiting.octets = waiting.octets.saturating_add(octets);
        if payer.is_report() {
            self.reports.0 += 1;
            self.reports.1 = self.reports.1.saturating_add(octets);
        }
    }

    fn remove(&mut self, id: ItemId) {
        self.free.remove(&id);
        let Some(CountedItem { payer, body, record }) = self.items.remove(&id) else { return };
        let Some(waiting) = self.payers.get_mut(&payer) else { return };
        let mut octets = record;
        if let Some(counted) = waiting.bodies.get_mut(&body) {
            counted.items -= 1;
            if counted.items == 0 {
                octets = octets.saturating_add(counted.octets);
                waiting.bodies.remove(&body);
            }
        }
        self.take_back(&payer, octets);
    }

    /// Counts one item less, with these octets.
    fn take_back(&mut self, payer: &Arc<Payer>, octets: u64) {
        if payer.is_report() {
            self.reports.0 = self.reports.0.saturating_sub(1);
            self.reports.1 = self.reports.1.saturating_sub(octets);
        }
        let Some(waiting) = self.payers.get_mut(payer) else { return };
        waiting.items = waiting.items.saturating_sub(1);
        waiting.octets = waiting.octets.saturating_sub(octets);
        if waiting.items == 0 && waiting.octets == 0 && waiting.bodies.is_empty() {
            self.payers.remove(payer);
        }
    }
}

impl Ledger {
    /// Sets the bound of octets for each account; 0: none.
    pub fn set_max(&self, octets: u64) {
        self.max.store(octets, Ordering::Release);
    }

    /// The limit of octets for each account; 0 means no limit.
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Acquire)
    }

    /// Sets the bound of the queue in items.
    pub fn set_items_max(&self, items: u64) {
        self.items_max.store(items, Ordering::Release);
    }

    /// Items that the queue may have.
    pub fn items_max(&self) -> u64 {
        self.items_max.load(Ordering::Acquire)
    }

    /// Notes that a report was dropped.
    pub fn note_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports that were dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the queue has to be read before anything is counted.
    pub fn is_due(&self) -> bool {
        self.counts.lock().is_due()
    }

    /// Whether the queue may be read again before a message is refused.
    pub fn is_old(&self, now_ms: u64) -> bool {
        self.is_older(OLD_MS, now_ms)
    }

    /// The same before a message of this payer is refused or dropped.
    pub fn is_old_for(&self, payer: &Payer, now_ms: u64) -> bool {
        self.is_older(if payer.is_report() { OLD_FOR_REPORTS_MS } else { OLD_MS }, now_ms)
    }

    fn is_older(&self, age_ms: u64, now_ms: u64) -> bool {
        self.counts.lock().read_at.is_none_or(|read| now_ms.abs_diff(read) >= age_ms)
    }

    /// Counts a message that is about to be added. `None` if there is no room for it.
    pub fn reserve(self: &Arc<Self>, payer: &Arc<Payer>, octets: u64) -> Option<Reserved> {
        let mut counts = self.counts.lock();
        let there = counts.payers.get(payer).map_or((0, 0), |waiting| (waiting.items, waiting.octets));
        let has_room = match &**payer {
            Payer::Submitter(_) | Payer::SentOn(_) => {
                let max = self.max();
                let has_octets = max == 0 || there.1.saturating_add(octets) <= max;
                has_octets && self.has_items_left(there.0)
            }
            Payer::Report(_) => {
                let items_max = (self.items_max() / 8).min(REPORTS_MAX);
                let fits = |(items, sum): (u64, u64), share: u64| {
                    let octets_max = REPORT_OCTETS_MAX / share;
                    items < (items_max / share).max(1) && sum.saturating_add(octets) <= octets_max
                };
                fits(there, REPORT_SHARES) && fits(counts.reports, 1)
            }
        };
        if !has_room {
            return None;
        }
        counts.charge(payer, octets);
        Some(Reserved { ledger: Arc::clone(self), payer: Arc::clone(payer), octets })
    }

    /// Whether an account with so many items may have another message, which may be any number of
    /// items.
    fn has_items_left(&self, items: u64) -> bool {
        items < (self.items_max() / ACCOUNT_SHARES).max(1)
    }

    /// Whether an account has all items that it may have.
    pub fn has_all_items(&self, payer: &Payer) -> bool {
        let items = self.counts.lock().payers.get(payer).map_or(0, |waiting| waiting.items);
        !self.has_items_left(items)
    }

    /// Counts an item that was added without a reservation.
    pub fn count(&self, item: &Item) {
        // Items that count for nobody are known after a reading alone: others may send them, and
        // nothing here would forget them.
        if let counted @ Counted { payer: Some(_), .. } = Counted::of(item) {
            self.counts.lock().add(counted);
        }
    }

    /// Notes that an item has left the queue.
    pub fn remove(&self, id: ItemId) {
        let mut counts = self.counts.lock();
        counts.remove(id);
        if counts.is_being_read {
            counts.removed.insert(id);
        }
    }

    /// Begins to read the queue. Returns the items that are known.
    pub fn begin_reading(&self) -> Vec<ItemId> {
        let mut counts = self.counts.lock();
        counts.is_being_read = true;
        counts.items.keys().chain(&counts.free).copied().collect()
    }

    /// The queue could not be read. The counts stay.
    pub fn give_up_reading(&self) {
        self.counts.lock().stop_reading();
    }

    /// Forgets items, some of those that were known when the reading began, that are not there.
    pub fn forget_missing(&self, known: &[ItemId], there: &NumSet) {
        let mut counts = self.counts.lock();
        known.iter().filter(|id| !there.contains(**id)).for_each(|id| counts.remove(*id));
    }

    /// Finds items, some of those that the queue has, whose records have to be read.
    pub fn find_unknown(&self, some: &NumSet, unknown: &mut Vec<ItemId>) {
        let counts = self.counts.lock();
        unknown.extend(some.iter().filter(|id| !counts.items.contains_key(id) && !counts.free.contains(id)));
    }

    /// Counts items that were found in the queue, unless they have left it since.
    pub fn add_found(&self, found: Vec<Counted>) {
        let mut counts = self.counts.lock();
        for one in found {
            if !counts.removed.contains(&one.id) {
                counts.add(one);
            }
        }
    }

    /// The queue was read to its end.
    pub fn end_reading(&self, now_ms: u64) {
        let mut counts = self.counts.lock();
        counts.stop_reading();
        counts.read = counts.items.len();
        counts.read_at = Some(now_ms);
    }
}

/// Octets of a message that is being added. They are given back if it is not.
#[derive(Debug)]
pub(crate) struct Reserved {
    ledger: Arc<Ledger>,
    payer: Arc<Payer>,
    octets: u64,
}

impl Reserved {
    /// The message was added. The octets now count for these items, which have its body.
    pub fn charge_to(self, items: &[Item]) {
        let mut counts = self.ledger.counts.lock();
        for item in items {
            counts.add(Counted { payer: Some(Arc::clone(&self.payer)), ..Counted::of(item) });
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.ledger.counts.lock().take_back(&self.payer, self.octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::sample;

    fn of(account: &str) -> Arc<Payer> {
        Arc::new(Payer::Submitter(account.to_owned()))
    }

    /// Items of one message.
    fn items(ids: std::ops::Range<u32>, body: u128, account: &str) -> Vec<Item> {
        let body = BodyId(posthaste_mail_model::Id::new(0, body));
        ids.map(|id| Item { id, body, size: 60, account: Some(account.to_owned()), ..sample() }).collect()
    }

    fn ledger(max: u64) -> Arc<Ledger> {
        let ledger = Arc::new(Ledger::default());
        ledger.set_max(max);
        ledger
    }

    #[test]
    fn a_message_counts_once_and_until_its_last_item_leaves() {
        let ledger = ledger(100);
        ledger.reserve(&of("ana"), 60).unwrap().charge_to(&items(1..4, 1, "ana"));
        assert!(ledger.reserve(&of("ana"), 41).is_none() && ledger.reserve(&of("bo"), 100).is_some());
        let sent_on = Arc::new(Payer::SentOn("ana".to_owned()));
        assert!(ledger.reserve(&sent_on, 100).is_some());
        for id in 1..3 {
            ledger.remove(id);
            assert!(ledger.reserve(&of("ana"), 41).is_none());
        }
        ledger.remove(3);
        // One that is not added gives its octets back.
        drop(ledger.reserve(&of("ana"), 100).unwrap());
        let both = (ledger.reserve(&of("ana"), 50), ledger.reserve(&of("ana"), 51));
        assert!(both.0.is_some() && both.1.is_none());
        drop(both);
        let counts = ledger.counts.lock();
        assert!(counts.payers.is_empty() && counts.items.is_empty());
    }

    #[test]
    fn a_reading_finds_what_others_added_and_removed() {
        let ledger = ledger(100);
        assert!(ledger.is_due());
        ledger.reserve(&of("ana"), 60).unwrap().charge_to(&items(1..2, 1, "ana"));
        let before = ledger.begin_reading();
        // While the queue is read: one is added here, which the reading missed.
        ledger.reserve(&of("cy"), 60).unwrap().charge_to(&items(9..10, 9, "cy"));
        let there = NumSet::range(5, 6);
        ledger.forget_missing(&before, &there);
        let mut unknown = Vec::new();
        ledger.find_unknown(&there, &mut unknown);
        assert_eq!((before, unknown), (vec![1], vec![5, 6]));
        let other = Item { id: 6, ..sample() };
        ledger.add_found(items(5..6, 5, "bo").iter().chain([&other]).map(Counted::of).collect());
        ledger.end_reading(20_000);
        assert!(ledger.reserve(&of("ana"), 100).is_some());
        assert!(ledger.reserve(&of("bo"), 41).is_none() && ledger.reserve(&of("cy"), 41).is_none());
        assert!(!ledger.is_due() && !ledger.is_old(29_999) && ledger.is_old(30_000));
        // The next one reads no record that is known, also of an item that counts for nobody.
        let mut known = ledger.begin_reading();
        known.sort_unstable();
        let mut unknown = Vec::new();
        ledger.find_unknown(&NumSet::range(5, 10), &mut unknown);
        assert_eq!((known, unknown), (vec![5, 6, 9], vec![7, 8, 10]));
        ledger.end_reading(30_000);
    }

    /// The recipients of an item may take more than its message.
    #[test]
    fn long_records_count_for_the_account() {
        let ledger = ledger(10_000);
        let long = crate::item::To::new(&format!("{}@x.test", "x".repeat(500)));
        let recipients = vec![crate::item::Recipient::waiting(&long); 10];
        let octets = record_charge(item::octets(&recipients));
        assert!((4_000..10_000).contains(&octets));
        let items: Vec<_> = items(1..2, 1, "ana")
            .into_iter()
            .map(|one| Item { recipients: recipients.clone(), ..one })
            .collect();
        ledger.reserve(&of("ana"), 60 + octets).unwrap().charge_to(&items);
        assert!(ledger.reserve(&of("ana"), 10_000 - 60 - octets + 1).is_none());
        // A reading counts what the record has, which is about the same.
        let name = item::name(1);
        let read =
            Counted::read(&DirectoryEntry { name, version: 1, value: items[0].write().unwrap() }).unwrap();
        assert_eq!((read.id, &read.payer, read.body), (1, &Some(of("ana")), (items[0].body, 60)));
        assert!(read.record.abs_diff(octets) < octets / 4, "{} and {octets}", read.record);
        ledger.remove(1);
        assert!(ledger.reserve(&of("ana"), 10_000).is_some());
        assert!(ledger.counts.lock().payers.is_empty());
    }
}
