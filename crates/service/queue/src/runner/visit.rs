//! One visit to a destination: what is due is sent, and what became of it is written down.

use bytes::Bytes;
use std::sync::Arc;

use super::Runner;
use crate::dsn::Return;
use crate::error::QueueError;
use crate::figures::Done;
use crate::item::{Destination, Here, Item, ItemId, Outcome, Recipient};
use crate::report::{About, Kind};
use crate::schedule::RetryTimes;
use crate::transport::{Body, Channel, Failure, Unreachable};

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
    fn kib_of(&self, item: &Item) -> u32 {
        u32::try_from(item.size.div_ceil(1024)).unwrap_or(u32::MAX).min(self.bodies_max)
    }

    /// An item that is in the queue, and that no administrator holds.
    async fn item_to_send(&self, id: ItemId) -> Result<Option<Item>, QueueError> {
        match self.queue().item(id).await? {
            Some(item) if item.held => self.schedule.lock().note(&item),
            Some(item) => return Ok(Some(item)),
            None => self.schedule.lock().remove(id),
        }
        Ok(None)
    }

    /// Sends one message; whether the connection can be used for another.
    async fn send(&self, id: ItemId, channel: &mut dyn Channel) -> Result<bool, QueueError> {
        if self.is_unsettled(id) {
            return Ok(true);
        }
        let Some(mut item) = self.item_to_send(id).await? else { return Ok(true) };
        if !item.owed.is_empty() {
            // The store failed while its reports were sent.
            self.settle(item).await?;
            return Ok(true);
        }
        if item.is_done() {
            // It came with recipients that had failed already.
            let message = self.quoted(&item).await?;
            self.record(item, message.bytes(), self.now()).await?;
            return Ok(true);
        }
        let kib = self.kib_of(&item);
        let mut room = Arc::clone(&self.bodies).try_acquire_many_owned(kib).ok();
        if room.is_none() {
            room = Arc::clone(&self.bodies).acquire_many_owned(kib).await.ok();
            // Meanwhile it may have been changed, and another node may send the queue's mail.
            if !self.may_send() {
                return Ok(true);
            }
            let Some(now) = self.item_to_send(id).await? else { return Ok(true) };
            item = now;
        }
        // The channel gives the room back once the host has the message.
        let message = Body::new(self.queue().message(&item).await?, room);
        let sent = channel.send(&item, message).await;
        let now = self.now();
        let waiting = item.recipients.iter_mut().filter(|r| r.outcome == Outcome::Waiting);
        let (mut refused, mut relayed) = (None, Vec::new());
        for (recipient, outcome) in waiting.zip(sent.outcomes) {
            let to = recipient.address.as_str();
            match outcome {
                Ok(()) => {
                    tracing::info!(item = id, from = item.from, to, "sent");
                    recipient.outcome = Outcome::Sent;
                    self.counts.sent(now - item.arrived);
                    // RFC 3461 §5.2.2: a host without DSN will not report its success.
                    if recipient.wants_success() && !sent.reports {
                        relayed.push(recipient.clone());
                    }
                }
                Err(failure) if failure.permanent => {
                    tracing::warn!(item = id, from = item.from, to, reply = failure.reply, "refused");
                    self.counts.recipients(Done::Refused, 1);
                    let Failure { reply, status, .. } = failure;
                    recipient.outcome = Outcome::Failed { reply, status };
                }
                Err(failure) => {
                    tracing::info!(item = id, from = item.from, to, reply = failure.reply, "refused for now");
                    self.counts.recipients(Done::Deferred, 1);
                    refused = Some(failure);
                }
            }
        }
        if !relayed.is_empty() {
            // RFC 3463 §3.2: destination address valid.
            let (kind, status) = if Here::of_item(&item).is_some() {
                (Kind::Delivered, "2.1.5")
            } else {
                (Kind::Relayed, "2.0.0")
            };
            let about = |recipient| About { recipient, status, reply: "" };
            let about: Vec<_> = relayed.iter().map(about).collect();
            let message = self.queue().beginning(&item).await?;
            self.owe(kind, &mut item, &about, (&message, now)).await?;
        }
        if !item.is_done() {
            self.postpone(&mut item, &refused.unwrap_or_else(Failure::no_answer), now);
        }
        let message = self.quoted(&item).await?;
        self.record(item, message.bytes(), now).await?;
        Ok(sent.usable)
    }

    /// What a report about a failure quotes: the item's beginning, or all of it. Nothing is read
    /// for an item without.
    async fn quoted(&self, item: &Item) -> Result<Body, QueueError> {
        let is_failed = |to: &Recipient| matches!(to.outcome, Outcome::Failed { .. }) && to.wants_failure();
        if !item.recipients.iter().any(is_failed) {
            return Ok(Body::new(Bytes::new(), None));
        }
        if item.ret != Some(Return::Full) {
            return Ok(Body::new(self.queue().beginning(item).await?, None));
        }
        let room = Arc::clone(&self.bodies).acquire_many_owned(self.kib_of(item)).await.ok();
        Ok(Body::new(self.queue().message(item).await?, room))
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
            let Some(mut item) = self.queue().item(id).await? else {
                self.schedule.lock().remove(id);
                continue;
            };
            self.counts.recipients(Done::Refused, item.waiting().count());
            item.give_up(&failure.status, &failure.reply);
            let message = self.quoted(&item).await?;
            self.record(item, message.bytes(), self.now()).await?;
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
            let Some(mut item) = self.queue().item(id).await? else {
                self.schedule.lock().remove(id);
                continue;
            };
            let age = now - item.arrived;
            quiet_until = quiet_until.min(item.arrived + self.next_step(&item));
            if self.expire(&mut item, &failure.reply, now) {
                let message = self.quoted(&item).await?;
                self.record(item, message.bytes(), now).await?;
            } else if self.times.warn_after == 0 || age < self.times.warn_after {
                // Those that follow are younger.
                break;
            } else if !item.warned {
                self.warn(item, failure, now).await?;
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

    /// Reports that a message is late, once, to a sender who did not ask for silence.
    async fn warn(&self, mut item: Item, failure: &Failure, now: i64) -> Result<(), QueueError> {
        item.warned = true;
        let message = self.queue().beginning(&item).await?;
        let (status, reply) = (failure.status.as_str(), failure.reply.as_str());
        let about: Vec<_> = item.waiting().filter(|to| to.wants_delay()).cloned().collect();
        let about: Vec<_> = about.iter().map(|to| About { recipient: to, status, reply }).collect();
        let until = item.arrived + self.times.expire_after;
        self.owe(Kind::Delayed { until }, &mut item, &about, (&message, now)).await?;
        self.settle(item).await
    }
}

fn days(seconds: i64) -> String {
    match (seconds / 86_400, seconds / 3_600) {
        (0, hours) => format!("{hours} hours"),
        (days, _) => format!("{days} days"),
    }
}
