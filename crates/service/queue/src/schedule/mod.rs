//! The times at which destinations are tried. It is a value: it has no clock, and does nothing by
//! itself.
//!
//! An item waits for its own next time, which depends on the number of temporary refusals. An
//! unreachable destination waits as a whole. So 100,000 items for a host that is down cost one
//! attempt to connect at each of its times, and nothing between them.
//!
//! Among the items that are due at a host, items of the highest priority are first (RFC 6710 §5).
//!
//! A destination may have several visits at a time. Each claims items. No two claim the same one.
//!
//! A visit counts for the registered domain of its destination, and for a payer whose items wait
//! there. Each of both must have room for it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::item::{self, Arrival, Destination, Item, ItemId, Local, TlsRequirement};
use crate::keys::{Key, Keys, PayerId};
use crate::priority::{Priority, Rank};
use due::Due;

mod due;

/// Bytes of memory that an item takes at most, in the schedule and among the counted ones. Its
/// destination then has the longest name and no other item: three copies of 264 octets, and
/// entries of five tables and trees. An item of a destination with many takes a tenth. Recipients
/// are not kept: they are read when the item is sent.
pub const SCHEDULED_BYTES_MAX: u64 = 2_816;

/// Destinations that are looked at before other tasks run: by estimate, each takes 2 µs.
const LOOKED_AT_ONCE: usize = 128;

/// The times at which a message is tried again, warned about and given up. Seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryTimes {
    /// Wait after the first failure; each further one doubles it. RFC 5321 §4.5.4.1 advises half
    /// an hour; most hosts that greylist take mail after five minutes.
    pub first: i64,
    /// The longest wait.
    pub longest: i64,
    /// Age at which the sender gets one report that the message is late; 0 for never.
    pub warn_after: i64,
    /// Age at which a message is given up: RFC 5321 §4.5.4.1 says at least 4 to 5 days.
    pub expire_after: i64,
}

impl Default for RetryTimes {
    fn default() -> Self {
        Self { first: 300, longest: 4 * 3600, warn_after: 4 * 3600, expire_after: 5 * 24 * 3600 }
    }
}

impl RetryTimes {
    /// The wait after this many failures in a row.
    pub fn wait(&self, failures: u32) -> i64 {
        let doubled = failures.saturating_sub(1).min(30);
        self.first.saturating_mul(1 << doubled).clamp(1, self.longest.max(1))
    }
}

/// Items of one destination: the highest priority first, there by their next time. A priority
/// without items has no entry.
#[derive(Debug, Default)]
struct DestinationItems {
    by_priority: BTreeMap<Reverse<Priority>, BTreeSet<(i64, ItemId)>>,
    len: usize,
    /// The number of items of each payer, in the order of the payers. One without items has no
    /// entry. Nearly all destinations have one or two payers.
    payers: Vec<(PayerId, u32)>,
}

impl DestinationItems {
    fn insert(&mut self, item: &Arrival) {
        let Rank { next, priority } = item.rank;
        if !self.by_priority.entry(Reverse(priority)).or_default().insert((next, item.id)) {
            return;
        }
        self.len += 1;
        match self.place_of(item.payer) {
            Ok(at) => {
                if let Some((_, count)) = self.payers.get_mut(at) {
                    *count += 1;
                }
            }
            Err(at) => self.payers.insert(at, (item.payer, 1)),
        }
    }

    fn remove(&mut self, item: &Arrival) {
        let Rank { next, priority } = item.rank;
        let Some(items) = self.by_priority.get_mut(&Reverse(priority)) else { return };
        let was_there = items.remove(&(next, item.id));
        if items.is_empty() {
            self.by_priority.remove(&Reverse(priority));
        }
        if !was_there {
            return;
        }
        self.len -= 1;
        if let Ok(at) = self.place_of(item.payer)
            && let Some((_, count)) = self.payers.get_mut(at)
        {
            *count -= 1;
            if *count == 0 {
                self.payers.remove(at);
            }
        }
    }

    /// The place of a payer, or the place that it would have.
    fn place_of(&self, payer: PayerId) -> Result<usize, usize> {
        self.payers.binary_search_by_key(&payer, |(payer, _)| *payer)
    }

    /// The payers, as keys.
    fn payers(&self) -> impl Iterator<Item = Key> + Clone + '_ {
        self.payers.iter().map(|(payer, _)| Key::Payer(*payer))
    }

    /// The earliest next time of all.
    fn next(&self) -> Option<i64> {
        self.by_priority.values().filter_map(|items| items.first()).map(|(next, _)| *next).min()
    }

    /// The first of those that are due.
    fn due(&self, now: i64) -> Option<ItemId> {
        let firsts = self.by_priority.values().filter_map(|items| items.first());
        firsts.filter(|(next, _)| *next <= now).map(|(_, id)| *id).next()
    }

    fn ids(&self) -> impl Iterator<Item = ItemId> + '_ {
        self.by_priority.values().flatten().map(|(_, id)| *id)
    }
}

#[derive(Debug, Default)]
struct Waiting {
    /// The items that no visit has claimed.
    items: DestinationItems,
    /// The number of items that visits have claimed.
    claimed: usize,
    /// The earliest time of the next attempt.
    not_before: i64,
    /// The number of failed attempts in a row.
    failures: u32,
    /// The number of visits.
    visits: usize,
    /// The largest number of visits.
    visits_max: usize,
    /// No item is late or too old before this time, unless new ones come.
    quiet_until: i64,
    /// The keys without room behind which the destination waits although it is due.
    behind: Vec<Key>,
}

impl Waiting {
    /// The time to begin another visit; `None` if the destination has enough visits, or if
    /// nothing waits.
    fn due(&self) -> Option<i64> {
        let next = self.items.next()?;
        // Each visit that has no item claims one of them.
        let spoken_for = self.visits.saturating_sub(self.claimed);
        let is_wanted = self.visits < self.visits_max && self.items.len > spoken_for;
        is_wanted.then_some(self.not_before.max(next))
    }

    fn state(&self) -> ItemState {
        match (self.visits, self.failures) {
            (1.., _) => ItemState::Sending,
            (0, 1..) => ItemState::Unreachable,
            (0, 0) => ItemState::Waiting,
        }
    }

    fn len(&self) -> usize {
        self.items.len + self.claimed
    }
}

/// A visit that begins.
#[derive(Debug)]
pub(crate) struct Visit {
    /// The destination.
    pub destination: Destination,
    /// For whom it counts.
    pub keys: Keys,
}

/// The number of visits that a destination may have at a time: each has a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connections {
    /// For each domain.
    pub each: usize,
    /// For these domains instead.
    pub domains: HashMap<String, usize>,
}

impl Default for Connections {
    fn default() -> Self {
        Self { each: 1, domains: HashMap::new() }
    }
}

impl Connections {
    fn to(&self, destination: &str) -> usize {
        let (domain, _) = TlsRequirement::split(destination);
        self.domains.get(domain).copied().unwrap_or(self.each).max(1)
    }
}

/// The reason why an item waits, as metrics show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemState {
    /// The item waits for its time, or for items before it.
    Waiting,
    /// A visit to its destination runs.
    Sending,
    /// The destination of the item could not be reached.
    Unreachable,
    /// An administrator holds it.
    Held,
}

impl ItemState {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Sending, Self::Unreachable, Self::Held];

    /// The name in a label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sending => "sending",
            Self::Unreachable => "unreachable",
            Self::Held => "held",
        }
    }
}

/// An item and its status.
#[derive(Debug)]
struct ScheduledItem {
    item: Arrival,
    status: ItemStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemStatus {
    /// A visit may claim the item.
    Ready,
    /// A visit has claimed it.
    Claimed,
    /// A visit has claimed it, and an administrator holds it from the end of the visit.
    ClaimedThenHeld,
    /// An administrator holds it.
    Held,
}

impl ItemStatus {
    const fn is_claimed(self) -> bool {
        matches!(self, Self::Claimed | Self::ClaimedThenHeld)
    }
}

/// The items, by destination.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    connections: Connections,
    destinations: HashMap<Destination, Waiting>,
    /// Destinations by when they are due.
    due: Due,
    items: HashMap<ItemId, ScheduledItem>,
    /// Items by the state of their destination.
    states: [usize; 3],
    held: usize,
    /// Items by the minute in which they came.
    minutes: BTreeMap<i64, usize>,
    /// Destinations that could not be reached when their last item left.
    forgotten: Vec<Destination>,
}

impl Schedule {
    /// An empty schedule.
    pub fn new(connections: Connections) -> Self {
        Self { connections, ..Self::default() }
    }

    /// Changes a destination, and then its position among the due ones.
    fn with<R>(&mut self, destination: &Destination, change: impl FnOnce(&mut Waiting) -> R) -> R {
        let waiting = self.destinations.entry(destination.clone()).or_insert_with(|| Waiting {
            visits_max: self.connections.to(destination),
            ..Waiting::default()
        });
        // What changes may be a new payer, who has room.
        let behind = std::mem::take(&mut waiting.behind);
        if let Some(due) = waiting.due() {
            self.due.remove(&(due, destination.clone()), &behind);
        }
        if let Some(count) = self.states.get_mut(waiting.state() as usize) {
            *count -= waiting.len();
        }
        let result = change(waiting);
        if let Some(count) = self.states.get_mut(waiting.state() as usize) {
            *count += waiting.len();
        }
        if let Some(due) = waiting.due() {
            self.due.insert((due, destination.clone()), &[]);
        } else if waiting.len() == 0 && waiting.visits == 0 && waiting.failures == 0 {
            self.destinations.remove(destination);
        }
        result
    }

    /// Puts an item where its record says. One that is there already moves; one that a visit has
    /// claimed moves when the claim ends.
    pub fn put(&mut self, item: Arrival) {
        if self.defer(&item, ItemStatus::Claimed) {
            return;
        }
        self.take_out(item.id);
        self.with(&item.destination, |waiting| {
            waiting.quiet_until = 0;
            waiting.items.insert(&item);
        });
        self.enter(item, ItemStatus::Ready);
    }

    /// Puts an item where its record says, or holds it.
    pub fn put_or_hold(&mut self, item: &Item) {
        match item.held {
            true => self.hold(item.arrival()),
            false => self.put(item.arrival()),
        }
    }

    /// Adds an item that an administrator holds. A visit that has claimed it keeps it to its end.
    pub fn hold(&mut self, item: Arrival) {
        if self.defer(&item, ItemStatus::ClaimedThenHeld) {
            return;
        }
        self.remove(item.id);
        self.held += 1;
        self.enter(item, ItemStatus::Held);
    }

    /// Sets the status that an item gets when the visit that has claimed it ends. Returns whether
    /// a visit has claimed it.
    fn defer(&mut self, item: &Arrival, status: ItemStatus) -> bool {
        let claimed = self.items.get_mut(&item.id).filter(|entry| entry.status.is_claimed());
        let Some(entry) = claimed else { return false };
        (entry.item.rank, entry.status) = (item.rank, status);
        true
    }

    fn enter(&mut self, item: Arrival, status: ItemStatus) {
        *self.minutes.entry(item.arrived.div_euclid(60)).or_default() += 1;
        self.items.insert(item.id, ScheduledItem { item, status });
    }

    /// Whether it is known that no item of a destination is late or too old.
    pub fn is_quiet(&self, destination: &Destination, now: i64) -> bool {
        self.destinations.get(destination).is_some_and(|waiting| now < waiting.quiet_until)
    }

    /// Notes that all items of a destination were looked at: none is late or too old before then.
    pub fn quiet(&mut self, destination: &Destination, until: i64) {
        self.with(destination, |waiting| waiting.quiet_until = until);
    }

    /// Forgets an item, and its destination if it was the last one.
    pub fn remove(&mut self, id: ItemId) {
        if let Some(destination) = self.take_out(id) {
            self.forget_if_idle(&destination);
        }
    }

    /// Forgets a destination without items and visits, however often it could not be reached. Its
    /// reason says nothing about later items, and untrusted senders choose destinations.
    fn forget_if_idle(&mut self, destination: &Destination) {
        let is_idle = |waiting: &Waiting| waiting.len() == 0 && waiting.visits == 0;
        if self.destinations.get(destination).is_some_and(is_idle) {
            self.destinations.remove(destination);
            self.forgotten.push(destination.clone());
        }
    }

    /// Takes the destinations that were forgotten although they could not be reached.
    pub fn take_forgotten(&mut self) -> Vec<Destination> {
        std::mem::take(&mut self.forgotten)
    }

    /// Whether a destination has known items or visits.
    pub fn knows(&self, destination: &str) -> bool {
        self.destinations.contains_key(destination)
    }

    /// Forgets an item, and returns its destination.
    fn take_out(&mut self, id: ItemId) -> Option<Destination> {
        let ScheduledItem { item, status } = self.items.remove(&id)?;
        let minute = item.arrived.div_euclid(60);
        if let Some(count) = self.minutes.get_mut(&minute) {
            *count -= 1;
            if *count == 0 {
                self.minutes.remove(&minute);
            }
        }
        match status {
            ItemStatus::Ready => self.with(&item.destination, |waiting| waiting.items.remove(&item)),
            ItemStatus::Claimed | ItemStatus::ClaimedThenHeld => {
                self.with(&item.destination, |waiting| waiting.claimed -= 1);
            }
            ItemStatus::Held => self.held -= 1,
        }
        Some(item.destination)
    }

    /// Starts a visit to a destination that is due. It has one visit more then until
    /// [`Schedule::finished`]. `is_full` returns whether a key has no room for another one. If many
    /// destinations have to wait behind such keys, a later call finds those after them.
    pub fn start_due(&mut self, now: i64, is_full: impl Fn(Key) -> bool) -> Option<Visit> {
        let open: Vec<Key> = self.due.keys().filter(|key| !is_full(*key)).collect();
        for _ in 0..LOOKED_AT_ONCE {
            let (due, destination) = self.due.first(&open)?.clone();
            if due > now {
                return None;
            }
            match self.keys(&destination, &is_full) {
                Ok(keys) => {
                    self.with(&destination, |waiting| waiting.visits += 1);
                    return Some(Visit { destination, keys });
                }
                Err(full) => self.put_behind(due, destination, full),
            }
        }
        None
    }

    /// For whom a visit to a destination counts, or the keys of which one must have room first.
    fn keys(&self, destination: &Destination, is_full: impl Fn(Key) -> bool) -> Result<Keys, Vec<Key>> {
        let Some(domain) = item::domain_key(destination) else { return Ok(None) };
        if is_full(domain) {
            return Err(vec![domain]);
        }
        let waiting = self.destinations.get(destination);
        let payers = waiting.into_iter().flat_map(|waiting| waiting.items.payers());
        match payers.clone().find(|payer| !is_full(*payer)) {
            Some(payer) => Ok(Some([payer, domain])),
            None => Err(payers.collect()),
        }
    }

    /// Has a destination wait until one of these keys has room.
    fn put_behind(&mut self, due: i64, destination: Destination, full: Vec<Key>) {
        let Some(waiting) = self.destinations.get_mut(&destination) else { return };
        let entry = (due, destination);
        self.due.remove(&entry, &waiting.behind);
        self.due.insert(entry, &full);
        waiting.behind = full;
    }

    /// Starts a visit as [`Self::start_due`] does, for mailboxes of this server.
    pub fn start_here(&mut self, now: i64) -> Option<Visit> {
        let requirements = [TlsRequirement::Policy, TlsRequirement::Required, TlsRequirement::Optional];
        let here = [Local::Inbox, Local::Junk].into_iter();
        let mut all =
            here.flat_map(|here| requirements.map(|requirement| requirement.destination(here.domain())));
        let is_due = |destination: &Destination| {
            self.destinations.get(destination).and_then(Waiting::due).is_some_and(|due| due <= now)
        };
        let destination = all.find(is_due)?;
        self.with(&destination, |waiting| waiting.visits += 1);
        Some(Visit { destination, keys: None })
    }

    /// Claims the next item for a destination that is being sent to, if one is due.
    /// [`Schedule::unclaim`] ends the claim.
    pub fn claim_next(&mut self, destination: &Destination, now: i64) -> Option<ItemId> {
        let id = self.destinations.get(destination)?.items.due(now)?;
        self.claim(id).then_some(id)
    }

    /// Claims an item, unless another visit has claimed it or an administrator holds it.
    pub fn claim(&mut self, id: ItemId) -> bool {
        let Some(entry) = self.items.get_mut(&id).filter(|entry| entry.status == ItemStatus::Ready) else {
            return false;
        };
        entry.status = ItemStatus::Claimed;
        let item = entry.item.clone();
        self.with(&item.destination, |waiting| {
            waiting.items.remove(&item);
            waiting.claimed += 1;
        });
        true
    }

    /// A claimed item waits until then if mail of other payers waits. Returns whether it does.
    pub fn give_way(&mut self, id: ItemId, until: i64) -> bool {
        let Some(one) = self.items.get_mut(&id).filter(|one| one.status.is_claimed()) else { return false };
        let item = &mut one.item;
        let Some(waiting) = self.destinations.get(&item.destination) else { return false };
        let gives_way = waiting.items.payers.iter().any(|(payer, _)| *payer != item.payer);
        if gives_way {
            item.rank.next = until;
        }
        gives_way
    }

    /// Ends the claim of an item, unless the item was forgotten meanwhile.
    pub fn unclaim(&mut self, id: ItemId) {
        let Some(entry) = self.items.get_mut(&id).filter(|entry| entry.status.is_claimed()) else { return };
        let item = entry.item.clone();
        if entry.status == ItemStatus::ClaimedThenHeld {
            self.remove(id);
            self.hold(item);
            return;
        }
        entry.status = ItemStatus::Ready;
        self.with(&item.destination, |waiting| {
            waiting.claimed -= 1;
            waiting.quiet_until = 0;
            waiting.items.insert(&item);
        });
    }

    /// The items of a destination that no visit has claimed, oldest first.
    pub fn items(&self, destination: &Destination) -> Vec<ItemId> {
        let waiting = self.destinations.get(destination);
        let mut ids: Vec<ItemId> = waiting.iter().flat_map(|waiting| waiting.items.ids()).collect();
        ids.sort_unstable();
        ids
    }

    /// The destination was reached.
    pub fn reached(&mut self, destination: &Destination) {
        self.with(destination, |waiting| (waiting.failures, waiting.not_before) = (0, 0));
    }

    /// The destination could not be reached. Returns until when it waits. Visits that fail
    /// together count once.
    pub fn unreachable(&mut self, destination: &Destination, now: i64, times: &RetryTimes) -> i64 {
        self.with(destination, |waiting| {
            if waiting.failures == 0 || waiting.not_before <= now {
                waiting.failures += 1;
                waiting.not_before = now + times.wait(waiting.failures);
            }
            waiting.not_before
        })
    }

    /// The destination waits until then, for a reason of our own.
    pub fn delay(&mut self, destination: &Destination, until: i64) {
        self.with(destination, |waiting| waiting.not_before = until);
    }

    /// The ids of all items.
    pub fn ids(&self) -> impl Iterator<Item = ItemId> + '_ {
        self.items.keys().copied()
    }

    /// Forgets these items.
    pub fn remove_all(&mut self, ids: impl Iterator<Item = ItemId>) {
        ids.for_each(|id| self.remove(id));
    }

    /// An administrator retries all waiting items now.
    pub fn forgive(&mut self, destination: &Destination) {
        self.with(destination, |waiting| waiting.not_before = 0);
    }

    /// A visit to the destination has ended.
    pub fn finished(&mut self, destination: &Destination) {
        self.with(destination, |waiting| waiting.visits = waiting.visits.saturating_sub(1));
        self.forget_if_idle(destination);
    }

    /// The next time at which a destination is due that waits behind no key.
    pub fn next_time(&self) -> Option<i64> {
        self.due.next_time()
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Number of items in a state.
    pub fn count(&self, state: ItemState) -> usize {
        self.states.get(state as usize).copied().unwrap_or(self.held)
    }

    /// Number of items that came since then, to the minute.
    pub fn count_since(&self, since: i64) -> usize {
        self.minutes.range(since.div_euclid(60)..).map(|(_, count)| *count).sum()
    }
}

#[cfg(test)]
mod tests;
