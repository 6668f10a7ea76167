//! One visit to a destination: what is due is sent, and what became of it is written down.

use super::Runner;
use crate::error::QueueError;
use crate::item::{Destination, Item, ItemId, Outcome, Recipient};
use crate::report::{About, Kind, Report};
use crate::schedule::RetryTimes;
use crate::transport::{Channel, Failure, Unreachable};

/// Messages on one connection: RFC 5321 sets no limit, common hosts close after a hundred.
const MESSAGES_PER_CONNECTION: usize = 100;
/// How long a destination waits after the store failed us.
const STORE_WAIT: i64 = 60;
/// How often the outcome of a message is written again after another process changed its item.
const TRIES: usize = 16;

impl Runner {
    /// Sends what is due for one destination.
    pub(super) async fn visit(&self, destination: &Destination) {
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
            if !self.may_send() {
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

    /// KiB of memory that an item's message takes.
    fn kib_of(&self, item: &Item) -> u32 {
        u32::try_from(item.size.div_ceil(1024)).unwrap_or(u32::MAX).min(self.bodies_max)
    }

    /// Sends one message; whether the connection can be used for another.
    async fn send(&self, id: ItemId, channel: &mut dyn Channel) -> Result<bool, QueueError> {
        let item = self.queue().item(id).await?.filter(|item| !item.held);
        let Some(mut item) = item else {
            self.schedule.lock().remove(id);
            return Ok(true);
        };
        let kib = self.kib_of(&item);
        let mut room = self.bodies.try_acquire_many(kib).ok();
        if room.is_none() {
            room = self.bodies.acquire_many(kib).await.ok();
            // Meanwhile it may have been changed, and another node may send the queue's mail.
            if !self.may_send() {
                return Ok(true);
            }
            let Some(now) = self.queue().item(id).await?.filter(|item| !item.held) else {
                self.schedule.lock().remove(id);
                return Ok(true);
            };
            item = now;
        }
        // Until the outcome is written down: a report may quote the message.
        let _room = room;
        let message = self.queue().message(&item).await?;
        let sent = channel.send(&item, message.clone()).await;
        let now = self.now();
        let waiting = item.recipients.iter_mut().filter(|r| r.outcome == Outcome::Waiting);
        let (mut refused, mut relayed) = (None, Vec::new());
        for (recipient, outcome) in waiting.zip(sent.outcomes) {
            let to = recipient.address.as_str();
            match outcome {
                Ok(()) => {
                    tracing::info!(item = id, from = item.from, to, "sent");
                    recipient.outcome = Outcome::Sent;
                    // RFC 3461 §5.2.2: a host without DSN will not report its success.
                    if recipient.wants_success() && !sent.reports {
                        relayed.push(recipient.clone());
                    }
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
        if !relayed.is_empty() {
            // Before the outcome is written: after a crash both happen again, and neither is lost.
            let about = |recipient| About { recipient, status: "2.0.0", reply: "" };
            let about: Vec<_> = relayed.iter().map(about).collect();
            self.report(Kind::Relayed, &item, &about, &message, now).await?;
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

    /// Writes down what became of an item, after the reports about it. What others decided about
    /// the item meanwhile does not undo what was sent.
    async fn record(&self, mut item: Item, message: &[u8], now: i64) -> Result<(), QueueError> {
        self.report_failures(&item, message, now).await?;
        item.recipients.iter_mut().for_each(Recipient::reported);
        for _ in 0..TRIES {
            let written = match item.is_done() {
                true => self.queue().remove(&item).await,
                false => self.queue().update(&mut item).await,
            };
            match written {
                Ok(()) if item.is_done() => self.schedule.lock().remove(item.id),
                // The next reading of the queue has it again once it is released.
                Ok(()) if item.held => self.schedule.lock().remove(item.id),
                Ok(()) => self.schedule.lock().put(item.id, &item.destination, item.turn()),
                Err(QueueError::Busy(_)) => {
                    let Some(now) = self.queue().item(item.id).await? else {
                        // It was dropped meanwhile.
                        self.schedule.lock().remove(item.id);
                        return Ok(());
                    };
                    item.follow(&now);
                    continue;
                }
                Err(error) => return Err(error),
            }
            return Ok(());
        }
        Err(QueueError::Busy(item.id))
    }

    async fn report_failures(&self, item: &Item, message: &[u8], now: i64) -> Result<(), QueueError> {
        let failed = item.recipients.iter().filter_map(|recipient| match &recipient.outcome {
            Outcome::Failed { reply, status } if recipient.wants_failure() => {
                Some(About { recipient, status, reply })
            }
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
        about: &[About<'_>],
        message: &[u8],
        now: i64,
    ) -> Result<(), QueueError> {
        let id = format!("{}.{now:x}.{:x}", item.body, item.id);
        self.relay
            .send(&Report {
                kind,
                to: &item.from,
                arrived: item.arrived,
                ret: item.ret,
                tls: item.tls(),
                envid: item.envid.as_ref(),
                about,
                message,
                host: self.relay.host(),
                id: &id,
                now,
            })
            .await
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
        if self.schedule.lock().is_quiet(destination, now) {
            return Ok(());
        }
        let ids = self.schedule.lock().items(destination);
        let (mut quiet_until, newest) = (i64::MAX, ids.last().copied());
        for id in ids {
            let Some(mut item) = self.queue().item(id).await? else {
                self.schedule.lock().remove(id);
                continue;
            };
            let age = now - item.arrived;
            quiet_until = quiet_until.min(item.arrived + self.next_step(&item));
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
        let message = self.queue().message(&item).await?;
        let (status, reply) = (failure.status.as_str(), failure.reply.as_str());
        let late = item.waiting().filter(|recipient| recipient.wants_delay());
        let about: Vec<_> = late.map(|recipient| About { recipient, status, reply }).collect();
        if !about.is_empty() {
            let until = item.arrived + self.times.expire_after;
            self.report(Kind::Delayed { until }, &item, &about, &message, now).await?;
        }
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
