//! Sends due items while the server runs.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_mail_model::NumSet;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::QueueError;
use crate::figures::{AGES, Counts, Figures};
use crate::item::{Arrival, Destination, Item, ItemId};
use crate::lease::{Lease, LeaseTimes};
use crate::parts::Part;
use crate::queue::{Page, Queue};
use crate::relay::Relay;
use crate::schedule::{Connections, ItemState, RetryTimes, Schedule, Visit};
use crate::seen_items::SeenItems;
use crate::transport::{Failure, LeaseEnd, Transport};
use send_memory::SendMemory;
use slots::Slots;

mod pending_reports;
mod send_memory;
mod slots;
mod visit;

/// Returns the time, in unix seconds.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A visit that takes longer makes room for another one, so that hosts which are silent keep no
/// mail to others waiting: RFC 5321 §4.5.3.2 has a timeout of minutes for each.
const SLOW_AFTER: Duration = Duration::from_secs(10);
/// Time between two checks whether an administrator changed the queue. A check reads one record.
const CHECK_PAUSE: Duration = Duration::from_secs(2);
/// The time that the runner waits after a failure of the store.
const AGAIN: Duration = Duration::from_secs(60);
/// Items of the schedule that are compared with the queue before other tasks run.
const FORGOTTEN_AT_ONCE: usize = 1_024;
/// Seconds in which another node surely writes the envelope of a message that it has added.
const RECENT: i64 = 600;
/// From this age on, a message without an envelope is not being added by another node.
const UNFINISHED_AFTER: i64 = 3_600;

/// The options of a runner.
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// The times at which a message is tried again.
    pub times: RetryTimes,
    /// The lease times, if several runners share the store: one of them sends at a time. Without
    /// lease times the runner must be the only one.
    pub lease_times: Option<LeaseTimes>,
    /// Bytes of messages that are in memory at once; a larger one is alone.
    pub bodies_bytes: u64,
    /// Connections at a time.
    pub connections: Connections,
}

/// Sends due items.
pub struct Runner {
    relay: Relay,
    transport: Arc<dyn Transport>,
    times: RetryTimes,
    clock: Clock,
    schedule: Mutex<Schedule>,
    /// Reports that are about to become items, by number. Locked before the schedule.
    under_way: Mutex<BTreeSet<ItemId>>,
    /// Items whose outcome is not on disk because the store failed.
    unwritten: Mutex<HashMap<ItemId, Item>>,
    slots: Slots,
    /// Memory for messages.
    memory: SendMemory,
    /// The schedule has changed.
    changed: Notify,
    stopping: AtomicBool,
    /// The times of the lease, on a node of a cluster.
    lease_times: Option<LeaseTimes>,
    /// The time until which this node may send.
    lease_end: LeaseEnd,
    counts: Counts,
}

/// The state of the store as a runner knows it.
struct StoreState {
    changes: u64,
    front: SeenItems,
}

/// Why a node stops sending.
enum Ended {
    /// The runner stops.
    StopRequested,
    /// The lease is lost: another node may send now.
    LeaseLost,
}

impl Runner {
    /// A runner for a relay's queue.
    pub fn new(
        relay: Relay,
        transport: Arc<dyn Transport>,
        clock: Clock,
        options: RunnerOptions,
    ) -> Arc<Self> {
        let RunnerOptions { times, lease_times, bodies_bytes, connections } = options;
        Arc::new(Self {
            relay,
            transport,
            times,
            clock,
            schedule: Mutex::new(Schedule::new(connections)),
            under_way: Mutex::default(),
            unwritten: Mutex::default(),
            slots: Slots::new(),
            memory: SendMemory::new(bodies_bytes),
            changed: Notify::new(),
            stopping: AtomicBool::new(false),
            lease_times,
            lease_end: LeaseEnd::default(),
            counts: Counts::default(),
        })
    }

    /// The totals of its work, and of waiting items.
    pub fn figures(&self) -> Figures {
        let now = self.now();
        let schedule = self.schedule.lock();
        let states = ItemState::ALL.map(|state| (state, schedule.count(state) as u64));
        let mut younger = 0;
        let mut ages = Vec::with_capacity(AGES.len() + 1);
        for (name, age) in AGES {
            let count = schedule.count_since(now - age) as u64;
            ages.push((name, count.saturating_sub(younger)));
            younger = count;
        }
        ages.push(("older", (schedule.len() as u64).saturating_sub(younger)));
        drop(schedule);
        let dropped_reports = self.queue().dropped_reports();
        Figures { states, ages, dropped_reports, done: self.counts.done() }
    }

    fn queue(&self) -> &Queue {
        self.relay.queue()
    }

    fn now(&self) -> i64 {
        (self.clock)()
    }

    /// Sends until `stop` completes. Messages that are being sent then are sent to their end,
    /// unless the lease has ended.
    pub async fn run(self: Arc<Self>, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut lease = self.lease_times.map(|times| {
            let store = self.relay.delivery().store();
            let process = store.new_body_id().to_string();
            Lease::new(Arc::clone(store.engine()), self.relay.host(), process, times)
        });
        loop {
            let wait = match self.run_once(lease.as_mut(), stop.as_mut()).await {
                Ok(Ended::StopRequested) => break,
                Ok(Ended::LeaseLost) => {
                    tracing::warn!("another server now sends the mail of the queue");
                    continue;
                }
                Err(error) => {
                    tracing::error!(%error, "the queue cannot be read: mail to other domains waits");
                    tokio::time::sleep(AGAIN)
                }
            };
            tokio::select! {
                () = stop.as_mut() => break,
                () = wait => {}
            }
        }
        if let Some(Err(error)) = async { Some(lease.as_mut()?.release().await) }.await {
            tracing::warn!(%error, "the lease of the queue was not released: it ends by itself");
        }
    }

    /// Waits for the lease, and sends while this node has it.
    async fn run_once(
        self: &Arc<Self>,
        mut lease: Option<&mut Lease>,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Ended, QueueError> {
        if let Some(lease) = &mut lease
            && !self.obtain(lease, stop.as_mut()).await
        {
            return Ok(Ended::StopRequested);
        }
        let mut visits = JoinSet::new();
        // This runs concurrently: reading a long queue from a slow store may take longer than a
        // lease.
        let mut lease_lost = pin!(self.renew_until_lost(lease));
        let ended = tokio::select! {
            ended = self.send_until(stop, &mut visits) => ended,
            () = lease_lost.as_mut() => Ok(Ended::LeaseLost),
        };
        self.stopping.store(true, Ordering::Release);
        let mut is_held = !matches!(ended, Ok(Ended::LeaseLost));
        loop {
            tokio::select! {
                visit = visits.join_next() => if visit.is_none() { break },
                () = lease_lost.as_mut(), if is_held => is_held = false,
            }
        }
        self.stopping.store(false, Ordering::Release);
        ended
    }

    /// Opens the queue and sends until `stop` completes. Visits that began continue after it.
    async fn send_until(
        self: &Arc<Self>,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        visits: &mut JoinSet<()>,
    ) -> Result<Ended, QueueError> {
        let mut seen = self.open().await?;
        let mut check = interval(CHECK_PAUSE);
        loop {
            if self.may_send() {
                self.start_due(visits);
                self.clear_forgotten(visits);
            }
            tokio::select! {
                () = stop.as_mut() => return Ok(Ended::StopRequested),
                () = self.sleep_until_due() => {}
                () = self.changed.notified() => {}
                arrived = self.queue().arrived() => self.put(arrived, &mut seen.front),
                Some(_) = visits.join_next() => {}
                _ = check.tick() => {
                    if let Err(error) = self.read_changes(&mut seen).await {
                        tracing::warn!(%error, "cannot check whether the queue has changed");
                    }
                }
            }
        }
    }

    /// Renews the lease until it is lost; for ever without one.
    async fn renew_until_lost(&self, lease: Option<&mut Lease>) {
        let Some(lease) = lease else { return std::future::pending().await };
        loop {
            tokio::time::sleep(lease.pause()).await;
            // While the store does not answer, the lease is not renewed.
            let left = self.lease_end.left().unwrap_or_default();
            if tokio::time::timeout(left, self.renew(lease)).await.is_err() || self.lease_end.is_over() {
                return;
            }
        }
    }

    /// Waits until this node has the lease; `false` if the runner stops before.
    async fn obtain(&self, lease: &mut Lease, mut stop: Pin<&mut impl Future<Output = ()>>) -> bool {
        loop {
            self.renew(lease).await;
            if self.may_send() {
                return true;
            }
            tokio::select! {
                () = stop.as_mut() => return false,
                () = tokio::time::sleep(lease.pause()) => {}
            }
            // The node that has the lease finds them in the store.
            self.queue().take_arrivals();
        }
    }

    /// Renews the lease.
    async fn renew(&self, lease: &mut Lease) {
        if let Err(error) = lease.renew().await {
            tracing::warn!(%error, "the lease of the queue cannot be renewed");
        }
        self.lease_end.set(lease.until().unwrap_or_else(Instant::now));
    }

    /// Whether a message may be sent now.
    fn may_send(&self) -> bool {
        !self.stopping.load(Ordering::Acquire) && !self.lease_end.is_over()
    }

    /// Reads the queue.
    async fn open(&self) -> Result<StoreState, QueueError> {
        // Another node may have sent these items while it held the lease.
        self.under_way.lock().clear();
        let before = self.lease_times.map(|_| self.now() - UNFINISHED_AFTER);
        let unfinished = self.queue().remove_unfinished(before).await?;
        if unfinished > 0 {
            tracing::info!(unfinished, "messages that were never acknowledged were removed from the queue");
        }
        let changes = self.queue().changes().await?;
        // Their records are read now.
        self.queue().take_arrivals();
        self.send_all_pending().await?;
        let front = self.read_all().await?;
        self.queue().clear_others(|destination| self.schedule.lock().knows(destination)).await?;
        tracing::info!(items = self.schedule.lock().len(), "the queue is open");
        Ok(StoreState { changes, front })
    }

    /// Sends the reports that a crash left pending. Nothing else is sent before. Once the lease is
    /// over, the node that has it sends them.
    async fn send_all_pending(&self) -> Result<(), QueueError> {
        let mut after = None;
        while let Some((ids, last)) = self.queue().next_pending(after).await? {
            after = Some(last);
            for id in ids {
                if !self.may_send() {
                    return Ok(());
                }
                let item = match self.queue().item(id).await {
                    Ok(Some(item)) if !item.pending.is_empty() => item,
                    // It has changed, or the log names its fault when all items are read.
                    Ok(_) | Err(QueueError::Record { .. }) => continue,
                    Err(error) => return Err(error),
                };
                // If one report cannot be sent, the others do not wait. It is tried again with
                // its item.
                if let Err(error) = self.send_pending(item).await {
                    tracing::error!(id, %error, "a pending report to a sender cannot be sent now: it is tried again later");
                }
            }
        }
        Ok(())
    }

    /// Reads the changes by other processes: administrators, and other nodes that added items.
    async fn read_changes(&self, seen: &mut StoreState) -> Result<(), QueueError> {
        let now = self.queue().changes().await?;
        if now != seen.changes {
            seen.front = self.read_all().await?;
            seen.changes = now;
        } else if self.lease_times.is_some() {
            let mut after = Some(seen.front.whole());
            while let Some(page) = self.page(after).await? {
                after = Some(page.last);
                let mut schedule = self.schedule.lock();
                page.items
                    .iter()
                    .filter(|item| seen.front.insert(item.id))
                    .for_each(|item| schedule.put_or_hold(item));
            }
            seen.front.end_scan(Instant::now());
        }
        Ok(())
    }

    /// A page of the queue. A record that cannot be read is named in the log and skipped.
    async fn page(&self, after: Option<ItemId>) -> Result<Option<Page>, QueueError> {
        let mut page = self.queue().page(after).await?;
        for error in page.iter().flat_map(|page| &page.damaged) {
            tracing::error!(%error, "an item of the queue is not sent");
        }
        // The clock of another node may be ahead, and this one's may have been.
        let (now, longest) = (self.now(), self.times.longest.max(1));
        page.iter_mut().flat_map(|page| &mut page.items).for_each(|item| item.limit_wait(now, longest));
        Ok(page)
    }

    /// Starts a visit to each destination that is due, as long as there are slots, and its keys
    /// have room. Mailboxes here need none: no host can keep them waiting.
    fn start_due(self: &Arc<Self>, visits: &mut JoinSet<()>) {
        loop {
            let due = match self.slots.is_any_free() {
                true => self.schedule.lock().start_due(self.now(), |key| self.slots.is_full(key)),
                false => self.schedule.lock().start_here(self.now()),
            };
            let Some(visit) = due else { break };
            let slot = self.slots.begin(visit.keys);
            let runner = Arc::clone(self);
            let visiting = async move {
                runner.visit_with(slot, &visit).await;
                runner.schedule.lock().finished(&visit.destination);
                runner.changed.notify_one();
            };
            visits.spawn(posthaste_metrics::current().metered(visiting));
        }
    }

    /// Removes the records of destinations that could not be reached and have no items any more.
    fn clear_forgotten(self: &Arc<Self>, visits: &mut JoinSet<()>) {
        let forgotten = self.schedule.lock().take_forgotten();
        if forgotten.is_empty() {
            return;
        }
        let runner = Arc::clone(self);
        let removal = async move {
            for destination in forgotten {
                if let Err(error) = runner.queue().clear_unreachable(&destination).await {
                    // The next start removes it.
                    tracing::warn!(%error, destination, "the recorded reason for waiting was not removed");
                }
            }
        };
        visits.spawn(posthaste_metrics::current().metered(removal));
    }

    /// A visit that gives its slot to another one if it takes long. One that has no connection by
    /// then ends if there are too many such visits.
    async fn visit_with(&self, slot: Option<Part>, Visit { destination, keys }: &Visit) {
        let is_connected = AtomicBool::new(false);
        let visit = self.visit(destination, &is_connected);
        let Some(mut slot) = slot else { return visit.await };
        let ended = {
            let mut visit = std::pin::pin!(visit);
            if tokio::time::timeout(SLOW_AFTER, &mut visit).await.is_ok() {
                return;
            }
            let slow = match self.slots.try_slow(*keys) {
                None if !is_connected.load(Ordering::Acquire) => None,
                None => tokio::select! {
                    () = &mut visit => return,
                    slow = self.slots.slow(*keys) => slow,
                },
                slow => slow,
            };
            match slow {
                Some(slow) => {
                    slot = slow;
                    self.changed.notify_one();
                    visit.await;
                    Ok(())
                }
                None => self.give_up_connecting(destination).await,
            }
        };
        self.note_store(destination, ended);
        drop(slot);
    }

    /// A host that has not answered makes room for others, because too many do not answer.
    async fn give_up_connecting(&self, destination: &Destination) -> Result<(), QueueError> {
        let failure = Failure::temporary("4.4.1", "no answer in time, while many others wait");
        self.counts.connected(self.transport.kind(destination), Some(&failure));
        self.wait(destination, &failure).await
    }

    /// Waits until a destination is due; for ever if none will be, or if there is no slot for it.
    async fn sleep_until_due(&self) {
        let next = self.schedule.lock().next_time();
        match next {
            Some(at) if self.slots.is_any_free() => {
                // A clock that is set back must not make us sleep for days.
                let seconds = u64::try_from(at - self.now()).unwrap_or(0).min(60);
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            _ => std::future::pending().await,
        }
    }

    fn put(&self, items: Vec<Arrival>, front: &mut SeenItems) {
        let mut schedule = self.schedule.lock();
        for item in items {
            front.insert(item.id);
            schedule.put(item);
        }
    }

    /// Updates the schedule from the records.
    async fn read_all(&self) -> Result<SeenItems, QueueError> {
        let (mut found, mut after) = (Vec::new(), None);
        // Items that are put there from now on may come after the place that is read.
        let before: Vec<ItemId> = self.schedule.lock().ids().collect();
        let (mut newest, recent) = (0, self.now() - RECENT);
        let mut front: Option<SeenItems> = None;
        while let Some(page) = self.page(after).await? {
            after = Some(page.last);
            newest = page.last;
            let mut schedule = self.schedule.lock();
            for item in &page.items {
                if item.arrived >= recent {
                    front.get_or_insert_with(|| SeenItems::after(item.id - 1)).insert(item.id);
                }
                found.push(item.id);
                schedule.put_or_hold(item);
                if item.next == Item::AT_ONCE && !item.held {
                    schedule.forgive(&item.destination);
                }
            }
        }
        let found: NumSet = found.into_iter().collect();
        for some in before.chunks(FORGOTTEN_AT_ONCE) {
            self.schedule.lock().remove_all(some.iter().copied().filter(|id| !found.contains(*id)));
            tokio::task::yield_now().await;
        }
        Ok(front.unwrap_or_else(|| SeenItems::after(newest)))
    }
}

/// Ticks at once and then after each period; never twice in a row to make up for lost time.
fn interval(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}
