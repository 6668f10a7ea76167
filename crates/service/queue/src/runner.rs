//! Sends what is due, for as long as the server runs.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use crate::error::QueueError;
use crate::item::{Destination, Item, ItemId, Outcome, Recipient};
use crate::queue::Queue;
use crate::relay::Relay;
use crate::report::{Kind, Report};
use crate::schedule::{RetryTimes, Schedule};
use crate::transport::{Channel, Failure, Transport, Unreachable};

/// Tells the time, in unix seconds.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Destinations that are sent to at once.
const DESTINATIONS_MAX: usize = 64;
/// Messages on one connection: RFC 5321 sets no limit, common hosts close after a hundred.
const MESSAGES_PER_CONNECTION: usize = 100;
/// Between two looks at whether an administrator changed the queue. A look reads one record.
const LOOK: Duration = Duration::from_secs(2);
/// How long a destination waits after the store failed us.
const STORE_WAIT: i64 = 60;

/// Sends what is due.
pub struct Runner {
    relay: Relay,
    transport: Arc<dyn Transport>,
    times: RetryTimes,
    clock: Clock,
    schedule: Mutex<Schedule>,
    slots: Arc<Semaphore>,
    /// The schedule has changed.
    changed: Notify,
    stopping: AtomicBool,
}

impl Runner {
    /// A runner for a relay's queue. One process at a time may run one for an embedded store.
    pub fn new(relay: Relay, transport: Arc<dyn Transport>, times: RetryTimes, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            relay,
            transport,
            times,
            clock,
            schedule: Mutex::default(),
            slots: Arc::new(Semaphore::new(DESTINATIONS_MAX)),
            changed: Notify::new(),
            stopping: AtomicBool::new(false),
        })
    }

    fn queue(&self) -> &Queue {
        self.relay.queue()
    }

    fn now(&self) -> i64 {
        (self.clock)()
    }

    /// Reads the queue, and sends until `stop` completes. Messages that are being sent then are
    /// sent to their end.
    pub async fn run(self: Arc<Self>, stop: impl Future<Output = ()>) -> Result<(), QueueError> {
        let unfinished = self.queue().remove_unfinished().await?;
        if unfinished > 0 {
            tracing::info!(unfinished, "messages that were never acknowledged were removed from the queue");
        }
        let mut seen = self.queue().changes().await?;
        // Their records are read now.
        self.queue().take_arrivals();
        self.read_all().await?;
        tracing::info!(items = self.schedule.lock().len(), "the queue is open");
        let mut visits = JoinSet::new();
        let mut look = tokio::time::interval(LOOK);
        tokio::pin!(stop);
        loop {
            self.start_due(&mut visits);
            tokio::select! {
                () = &mut stop => break,
                () = self.sleep_until_due() => {}
                () = self.changed.notified() => {}
                arrived = self.queue().arrived() => self.put(&arrived),
                Some(_) = visits.join_next() => {}
                _ = look.tick() => match self.queue().changes().await {
                    Ok(now) if now != seen => {
                        if let Err(error) = self.read_all().await {
                            tracing::error!(%error, "the queue cannot be read again");
                        } else {
                            seen = now;
                        }
                    }
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%error, "cannot look whether the queue has changed"),
                },
            }
        }
        self.stopping.store(true, Ordering::Release);
        while visits.join_next().await.is_some() {}
        Ok(())
    }

    /// Starts a visit to each destination that is due, as long as there are slots.
    fn start_due(self: &Arc<Self>, visits: &mut JoinSet<()>) {
        while let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            let Some(destination) = self.schedule.lock().start_due(self.now()) else { break };
            let runner = Arc::clone(self);
            visits.spawn(async move {
                runner.visit(&destination).await;
                runner.schedule.lock().finished(&destination);
                drop(slot);
                runner.changed.notify_one();
            });
        }
    }

    /// Waits until a destination is due; for ever if none will be, or if there is no slot for it.
    async fn sleep_until_due(&self) {
        let next = self.schedule.lock().next_time();
        match next {
            Some(at) if self.slots.available_permits() > 0 => {
                // A clock that is set back must not make us sleep for days.
                let seconds = u64::try_from(at - self.now()).unwrap_or(0).min(60);
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            _ => std::future::pending().await,
        }
    }

    fn put(&self, items: &[(ItemId, Destination, i64)]) {
        let mut schedule = self.schedule.lock();
        items.iter().for_each(|(id, destination, next)| schedule.put(*id, destination, *next));
    }

    /// Makes the schedule what the records say.
    async fn read_all(&self) -> Result<(), QueueError> {
        let (mut found, mut after) = (BTreeSet::new(), None);
        loop {
            let page = self.queue().page(after).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            let mut schedule = self.schedule.lock();
            for item in page.iter().filter(|item| !item.held) {
                found.insert(item.id);
                schedule.put(item.id, &item.destination, item.next);
                if item.next == Item::AT_ONCE {
                    schedule.forgive(&item.destination);
                }
            }
        }
        self.schedule.lock().keep(|id| found.contains(&id));
        Ok(())
    }

    /// Sends what is due for one destination.
    async fn visit(&self, destination: &Destination) {
        let outcome = match self.transport.connect(destination).await {
            Ok(channel) => self.send_all(destination, channel).await,
            Err(Unreachable(failure)) if failure.permanent => self.fail_all(destination, &failure).await,
            Err(Unreachable(failure)) => self.wait(destination, &failure).await,
        };
        if let Err(error) = outcome {
            tracing::error!(%error, destination, "the store failed; its mail waits");
            self.schedule.lock().delay(destination, self.now() + STORE_WAIT);
        }
    }

    /// Sends one message after the other until nothing is due.
    async fn send_all(
        &self,
        destination: &Destination,
        mut channel: Box<dyn Channel>,
    ) -> Result<(), QueueError> {
        self.schedule.lock().reached(destination);
        self.queue().clear_unreachable(destination).await?;
        for _ in 0..MESSAGES_PER_CONNECTION {
            if self.stopping.load(Ordering::Acquire) {
                break;
            }
            let Some(id) = self.schedule.lock().next_item(destination, self.now()) else { break };
            if !self.send(id, &mut *channel).await? {
                return Ok(());
            }
        }
        channel.close().await;
        Ok(())
    }

    /// Sends one message; whether the connection can be used for another.
    async fn send(&self, id: ItemId, channel: &mut dyn Channel) -> Result<bool, QueueError> {
        let item = self.queue().item(id).await?.filter(|item| !item.held);
        let Some(mut item) = item else {
            self.schedule.lock().remove(id);
            return Ok(true);
        };
        let message = self.queue().message(&item).await?;
        let sent = channel.send(&item, message.clone()).await;
        let now = self.now();
        let waiting = item.recipients.iter_mut().filter(|r| r.outcome == Outcome::Waiting);
        let mut refused = None;
        for (recipient, outcome) in waiting.zip(sent.outcomes) {
            let to = recipient.address.as_str();
            match outcome {
                Ok(()) => {
                    tracing::info!(item = id, from = item.from, to, "sent");
                    recipient.outcome = Outcome::Sent;
                }
                Err(failure) if failure.permanent => {
                    tracing::warn!(item = id, from = item.from, to, reply = failure.reply, "refused");
                    let Failure { reply, status, .. } = failure;
                    recipient.outcome = Outcome::Failed { reply, status };
                }
                Err(failure) => {
                    tracing::info!(item = id, from = item.from, to, reply = failure.reply, "refused for now");
                    refused = Some(failure);
                }
            }
        }
        if !item.is_done() {
            self.postpone(&mut item, &refused.unwrap_or_else(Failure::no_answer), now);
        }
        self.record(item, &message, now).await?;
        Ok(sent.usable)
    }

    /// A temporary failure of the message itself.
    fn postpone(&self, item: &mut Item, failure: &Failure, now: i64) {
        item.attempts += 1;
        item.reason.clone_from(&failure.reply);
        item.next = now + self.times.wait(item.attempts);
        self.expire(item, &failure.reply, now);
    }

    /// Gives an item up if it is too old; whether it is.
    fn expire(&self, item: &mut Item, reason: &str, now: i64) -> bool {
        let is_old = now - item.arrived >= self.times.expire_after;
        if is_old {
            // RFC 3463 §3.5: delivery time expired.
            item.give_up("4.4.7", &format!("given up after {}: {reason}", days(self.times.expire_after)));
        }
        is_old
    }

    /// Writes down what became of an item, after the reports about it.
    async fn record(&self, mut item: Item, message: &[u8], now: i64) -> Result<(), QueueError> {
        self.report_failures(&item, message, now).await?;
        item.recipients.iter_mut().for_each(Recipient::reported);
        if item.is_done() {
            self.schedule.lock().remove(item.id);
            return match self.queue().remove(&item).await {
                // Somebody dropped it meanwhile.
                Err(QueueError::Busy(_)) if self.queue().item(item.id).await?.is_none() => Ok(()),
                outcome => outcome,
            };
        }
        match self.queue().update(&mut item).await {
            Ok(()) => self.schedule.lock().put(item.id, &item.destination, item.next),
            // An administrator changed it meanwhile: the next reading of the queue says how.
            Err(QueueError::Busy(_)) => self.schedule.lock().remove(item.id),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn report_failures(&self, item: &Item, message: &[u8], now: i64) -> Result<(), QueueError> {
        let failed = item.recipients.iter().filter_map(|recipient| match &recipient.outcome {
            Outcome::Failed { reply, status } => Some((recipient, status.as_str(), reply.as_str())),
            _ => None,
        });
        let about: Vec<_> = failed.collect();
        if about.is_empty() {
            return Ok(());
        }
        self.report(Kind::Failed, item, &about, message, now).await
    }

    async fn report(
        &self,
        kind: Kind,
        item: &Item,
        about: &[(&Recipient, &str, &str)],
        message: &[u8],
        now: i64,
    ) -> Result<(), QueueError> {
        let id = format!("{}.{now:x}.{:x}", item.body, item.id);
        let host = self.relay.host();
        self.relay.send(&Report { kind, item, about, message, host, id: &id, now }).await
    }

    /// The destination takes no mail: all items for it are given up.
    async fn fail_all(&self, destination: &Destination, failure: &Failure) -> Result<(), QueueError> {
        tracing::warn!(destination, reply = failure.reply, "takes no mail");
        let ids = self.schedule.lock().items(destination);
        for id in ids {
            let Some(mut item) = self.queue().item(id).await? else {
                self.schedule.lock().remove(id);
                continue;
            };
            item.give_up(&failure.status, &failure.reply);
            let message = self.queue().message(&item).await?;
            self.record(item, &message, self.now()).await?;
        }
        Ok(())
    }

    /// The destination cannot be reached for now: it waits, and items that are old are looked at.
    async fn wait(&self, destination: &Destination, failure: &Failure) -> Result<(), QueueError> {
        let now = self.now();
        let until = self.schedule.lock().unreachable(destination, now, &self.times);
        tracing::info!(destination, reply = failure.reply, wait = until - now, "cannot be reached");
        self.queue().note_unreachable(destination, &failure.reply, until).await?;
        let ids = self.schedule.lock().items(destination);
        for id in ids {
            let Some(mut item) = self.queue().item(id).await? else {
                self.schedule.lock().remove(id);
                continue;
            };
            let age = now - item.arrived;
            if self.expire(&mut item, &failure.reply, now) {
                let message = self.queue().message(&item).await?;
                self.record(item, &message, now).await?;
            } else if self.times.warn_after == 0 || age < self.times.warn_after {
                // Those that follow are younger.
                break;
            } else if !item.warned {
                self.warn(item, failure, now).await?;
            }
        }
        Ok(())
    }

    /// Reports that a message is late, once.
    async fn warn(&self, mut item: Item, failure: &Failure, now: i64) -> Result<(), QueueError> {
        item.warned = true;
        let message = self.queue().message(&item).await?;
        let about: Vec<_> =
            item.waiting().map(|r| (r, failure.status.as_str(), failure.reply.as_str())).collect();
        let until = item.arrived + self.times.expire_after;
        self.report(Kind::Delayed { until }, &item, &about, &message, now).await?;
        match self.queue().update(&mut item).await {
            Err(QueueError::Busy(_)) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn days(seconds: i64) -> String {
    match (seconds / 86_400, seconds / 3_600) {
        (0, hours) => format!("{hours} hours"),
        (days, _) => format!("{days} days"),
    }
}
