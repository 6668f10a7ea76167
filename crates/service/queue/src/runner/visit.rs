//! One visit to a destination: what is due is sent, and what became of it is written down.

use std::sync::Arc;

use super::Runner;
use crate::error::QueueError;
use crate::figures::Done;
use crate::item::{Destination, Item, ItemId, Outcome};
use crate::schedule::RetryTimes;
use crate::transport::{Body, Channel, Failure, Sent, Unreachable};

/// Messages on one connection: RFC 5321 sets no limit, common hosts close after a hundred.
const MESSAGES_PER_CONNECTION: usize = 100;
/// How long a destination waits after the store failed us.
const STORE_WAIT: i64 = 60;

/// An item that a visit has taken.
struct Taken<'r> {
    runner: &'r Runner,
    id: ItemId,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.runner.schedule.lock().give_back(self.id);
    }
}

impl Runner {
    /// Sends what is due for one destination.
    pub(super) async fn visit(&self, destination: &Destination) {
        let kind = self.transport.kind(destination);
        let connected = self.transport.connect(destination).await;
        self.counts.connected(kind, connected.as_ref().err().map(|unreachable| &unreachable.0));
        let outcome = match connected {
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
            if !self.may_send() {
                break;
            }
            let taken = self.schedule.lock().take_next(destination, self.now());
            let Some(taken) = taken.map(|id| Taken { runner: self, id }) else { break };
            if !self.send(taken.id, &mut *channel).await? {
                return Ok(());
            }
        }
        channel.close().await;
        Ok(())
    }

    /// Takes an item until the answer is dropped, unless another visit has it.
    fn take(&self, id: ItemId) -> Option<Taken<'_>> {
        self.schedule.lock().take(id).then_some(Taken { runner: self, id })
    }

    /// KiB of memory that an item's message takes.
    pub(super) fn kib_of(&self, item: &Item) -> u32 {
        u32::try_from(item.size.div_ceil(1024)).unwrap_or(u32::MAX).min(self.bodies_max)
    }

    /// An item as it is in the queue; `None` if it left it, or cannot be read.
    async fn current(&self, id: ItemId) -> Result<Option<Item>, QueueError> {
        let unwritten = self.unwritten.lock().remove(&id);
        if let Some(item) = unwritten {
            // The store failed when it was written last.
            self.record(item, None, self.now()).await?;
            return Ok(None);
        }
        match self.queue().item(id).await {
            Ok(Some(item)) => return Ok(Some(item)),
            Ok(None) => {}
            Err(error @ QueueError::Record { .. }) => {
                tracing::error!(id, %error, "an item of the queue is not sent");
            }
            Err(error) => return Err(error),
        }
        self.schedule.lock().remove(id);
        Ok(None)
    }

    /// An item that no administrator holds.
    async fn item_to_send(&self, id: ItemId) -> Result<Option<Item>, QueueError> {
        let item = self.current(id).await?;
        if let Some(item) = item.as_ref().filter(|item| item.held) {
            self.schedule.lock().note(item);
            return Ok(None);
        }
        Ok(item)
    }

    /// Sends one message; whether the connection can be used for another.
    async fn send(&self, id: ItemId, channel: &mut dyn Channel) -> Result<bool, QueueError> {
        if self.is_unsettled(id) {
            return Ok(true);
        }
        let Some(item) = self.item_to_send(id).await? else { return Ok(true) };
        if item.has_only_reports() {
            self.record(item, None, self.now()).await?;
            return Ok(true);
        }
        let Some((mut item, message)) = self.load(item).await? else { return Ok(true) };
        let Sent { outcomes, reports, usable } = channel.send(&item, message).await;
        let now = self.now();
        let failure = self.note_outcomes(&mut item, outcomes, reports, now);
        if !item.is_done() {
            self.postpone(&mut item, &failure, now);
        }
        self.record(item, Some(&failure), now).await?;
        Ok(usable)
    }

    /// Reads the message of an item once there is memory for it. `None` if it is not to be sent
    /// now.
    async fn load(&self, mut item: Item) -> Result<Option<(Item, Body)>, QueueError> {
        let kib = self.kib_of(&item);
        let mut room = Arc::clone(&self.bodies).try_acquire_many_owned(kib).ok();
        if room.is_none() {
            room = Arc::clone(&self.bodies).acquire_many_owned(kib).await.ok();
            // Meanwhile it may have been changed, and another node may send the queue's mail.
            if !self.may_send() {
                return Ok(None);
            }
            let Some(now) = self.item_to_send(item.id).await? else { return Ok(None) };
            item = now;
        }
        match self.queue().message(&item).await {
            // The channel gives the room back once the host has the message.
            Ok(message) => Ok(Some((item, Body::new(message, room)))),
            Err(error) => {
                // It waits alone: other mail to its destination can be read.
                tracing::error!(item = item.id, %error, "the message cannot be read");
                let failure = Failure::temporary("4.3.0", "the message cannot be read");
                let now = self.now();
                self.postpone(&mut item, &failure, now);
                self.record(item, Some(&failure), now).await?;
                Ok(None)
            }
        }
    }

    /// Notes what a host answered to each recipient that waited. The last failure of those who
    /// still wait.
    fn note_outcomes(
        &self,
        item: &mut Item,
        outcomes: Vec<Result<(), Failure>>,
        is_reported: bool,
        now: i64,
    ) -> Failure {
        let (id, from, arrived) = (item.id, item.from.as_str(), item.arrived);
        let mut last = Failure::no_answer();
        let waiting = item.recipients.iter_mut().filter(|r| r.outcome == Outcome::Waiting);
        for (recipient, outcome) in waiting.zip(outcomes) {
            let to = recipient.address.as_str();
            match outcome {
                Ok(()) => {
                    tracing::info!(item = id, from, to, "sent");
                    self.counts.sent(now - arrived);
                    // RFC 3461 §5.2.2: a host without DSN will not report its success.
                    let is_ours = recipient.wants_success() && !is_reported;
                    recipient.outcome = if is_ours { Outcome::Unreported } else { Outcome::Sent };
                }
                Err(failure) if failure.permanent => {
                    tracing::warn!(item = id, from, to, reply = failure.reply, "refused");
                    self.counts.recipients(Done::Refused, 1);
                    let Failure { reply, status, .. } = failure;
                    recipient.outcome = Outcome::Failed { reply, status };
                }
                Err(failure) => {
                    tracing::info!(item = id, from, to, reply = failure.reply, "refused for now");
                    self.counts.recipients(Done::Deferred, 1);
                    last = failure;
                }
            }
        }
        last
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
            self.counts.recipients(Done::Expired, item.waiting().count());
            item.give_up("4.4.7", &format!("given up after {}: {reason}", days(self.times.expire_after)));
        }
        is_old
    }

    /// The destination takes no mail: all items for it are given up.
    async fn fail_all(&self, destination: &Destination, failure: &Failure) -> Result<(), QueueError> {
        tracing::warn!(destination, reply = failure.reply, "takes no mail");
        let ids = self.schedule.lock().items(destination);
        for id in ids {
            let Some(_taken) = self.take(id) else { continue };
            let Some(mut item) = self.current(id).await? else { continue };
            self.counts.recipients(Done::Refused, item.waiting().count());
            item.give_up(&failure.status, &failure.reply);
            self.record(item, None, self.now()).await?;
        }
        Ok(())
    }

    /// The destination cannot be reached for now: it waits, and items that are old are looked at.
    async fn wait(&self, destination: &Destination, failure: &Failure) -> Result<(), QueueError> {
        let now = self.now();
        let until = self.schedule.lock().unreachable(destination, now, &self.times);
        tracing::info!(destination, reply = failure.reply, wait = until - now, "cannot be reached");
        self.queue().note_unreachable(destination, &failure.reply, until).await?;
        if self.schedule.lock().is_quiet(destination, now) {
            return Ok(());
        }
        let ids = self.schedule.lock().items(destination);
        let (mut quiet_until, newest) = (i64::MAX, ids.last().copied());
        for id in ids {
            let Some(_taken) = self.take(id) else { continue };
            let Some(mut item) = self.current(id).await? else { continue };
            if item.has_only_reports() {
                // They need no host.
                quiet_until = quiet_until.min(item.next.max(now));
                if item.next <= now {
                    self.record(item, None, now).await?;
                }
                continue;
            }
            let age = now - item.arrived;
            quiet_until = quiet_until.min(item.arrived + self.next_step(&item));
            if self.expire(&mut item, &failure.reply, now) || self.is_late(&item, now) {
                self.record(item, Some(failure), now).await?;
            } else if self.times.warn_after == 0 || age < self.times.warn_after {
                // Those that follow are younger.
                break;
            }
        }
        let mut schedule = self.schedule.lock();
        // What came meanwhile is looked at the next time.
        if newest.is_some() && schedule.items(destination).last().copied() == newest {
            schedule.quiet(destination, quiet_until);
        }
        Ok(())
    }

    /// At which age an item that waits is warned about or given up.
    fn next_step(&self, item: &Item) -> i64 {
        let RetryTimes { warn_after, expire_after, .. } = self.times;
        let is_warned = item.warned || warn_after == 0 || self.now() - item.arrived >= warn_after;
        if is_warned { expire_after } else { warn_after.min(expire_after) }
    }
}

fn days(seconds: i64) -> String {
    match (seconds / 86_400, seconds / 3_600) {
        (0, hours) => format!("{hours} hours"),
        (days, _) => format!("{days} days"),
    }
}
