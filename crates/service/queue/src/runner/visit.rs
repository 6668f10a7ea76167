//! One visit to a destination: sends the due items, and writes their outcomes.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Runner;
use crate::error::QueueError;
use crate::figures::Done;
use crate::item::{self, Destination, Item, ItemId, Outcome};
use crate::keys::Keys;
use crate::parts::Part;
use crate::schedule::RetryTimes;
use crate::transport::{Body, Channel, Failure, Sent, Unreachable};

/// Messages on one connection: RFC 5321 sets no limit, common hosts close after a hundred.
const MESSAGES_PER_CONNECTION: usize = 100;
/// The seconds that a destination waits after a failure of the store.
const STORE_WAIT: i64 = 60;
/// The seconds that an item without memory waits while mail of others is sent.
const MEMORY_WAIT: i64 = 60;
/// Time between two checks whether mail of others waits because an item waits for memory.
const MEMORY_PAUSE: Duration = Duration::from_secs(10);

/// To reach one of a destination's hosts: each may have eight addresses, and RFC 5321 §4.5.3.2 has
/// a timeout of five minutes for each.
const CONNECT_WITHIN: Duration = Duration::from_secs(600);
/// RFC 3463 §3.6: too many recipients.
const TOO_MANY_RECIPIENTS: &str = "4.5.3";

/// The outcome of a message's transactions on one connection.
#[derive(Default)]
struct Transactions {
    /// Whether the connection has ended.
    is_ended: bool,
    /// Whether the host took the message for somebody, or refused it permanently.
    is_answered: bool,
    /// Whether others should get the message at once.
    wants_more: bool,
    /// The last answer because of which other recipients still wait.
    failure: Option<Failure>,
}

impl Transactions {
    /// `attempts` of the message before these.
    fn line(&self, attempts: u32) -> Line {
        match (self.is_ended, self.is_answered) {
            (false, _) => Line::Usable,
            // A message on which the host always ends the connection says nothing about others.
            (true, false) if attempts == 0 => Line::Useless(self.failure()),
            (true, _) => Line::Ended,
        }
    }

    fn failure(&self) -> Failure {
        self.failure.clone().unwrap_or_else(Failure::no_answer)
    }
}

/// An item that a visit has claimed.
struct ClaimedItem<'r> {
    runner: &'r Runner,
    id: ItemId,
}

impl Drop for ClaimedItem<'_> {
    fn drop(&mut self) {
        self.runner.schedule.lock().unclaim(self.id);
    }
}

/// The further use of a connection after a message.
enum Line {
    /// For another message: nothing was sent to the host.
    Unused,
    /// For another message.
    Usable,
    /// For nothing.
    Ended,
    /// For nothing: the host took the connection and no message.
    Useless(Failure),
}

impl Runner {
    /// Sends the due items of one destination.
    pub(super) async fn visit(&self, destination: &Destination, is_connected: &AtomicBool) {
        let kind = self.transport.kind(destination);
        let connected = tokio::time::timeout(CONNECT_WITHIN, self.transport.connect(destination)).await;
        let connected = connected.unwrap_or_else(|_| {
            Err(Unreachable(Failure::temporary("4.4.1", "none of its hosts answers in time")))
        });
        is_connected.store(true, Ordering::Release);
        self.counts.connected(kind, connected.as_ref().err().map(|unreachable| &unreachable.0));
        let outcome = match connected {
            Ok(channel) => self.send_all(destination, channel).await,
            Err(Unreachable(failure)) if failure.permanent => self.fail_all(destination, &failure).await,
            Err(Unreachable(failure)) => self.wait(destination, &failure).await,
        };
        self.note_store(destination, outcome);
    }

    /// Makes a destination wait if the store failed.
    pub(super) fn note_store(&self, destination: &Destination, outcome: Result<(), QueueError>) {
        if let Err(error) = outcome {
            tracing::error!(%error, destination, "the store failed: mail for this destination waits");
            self.schedule.lock().delay(destination, self.now() + STORE_WAIT);
        }
    }

    /// Sends one message after the other until nothing is due.
    async fn send_all(
        &self,
        destination: &Destination,
        mut channel: Box<dyn Channel>,
    ) -> Result<(), QueueError> {
        let mut is_used = false;
        for _ in 0..MESSAGES_PER_CONNECTION {
            if !self.may_send() || channel.is_spent() {
                break;
            }
            let claimed = self.schedule.lock().claim_next(destination, self.now());
            let Some(claimed) = claimed.map(|id| ClaimedItem { runner: self, id }) else { break };
            let line = self.send(claimed.id, &mut *channel).await?;
            match line {
                Line::Unused => continue,
                // It counts as unreachable. Otherwise each message would make a useless connection.
                Line::Useless(failure) if !is_used => {
                    drop(claimed);
                    return self.wait(destination, &failure).await;
                }
                Line::Usable | Line::Ended | Line::Useless(_) => {}
            }
            if !std::mem::replace(&mut is_used, true) {
                self.note_reached(destination).await?;
            }
            if !matches!(line, Line::Usable) {
                return Ok(());
            }
        }
        if !is_used {
            self.note_reached(destination).await?;
        }
        channel.close().await;
        Ok(())
    }

    async fn note_reached(&self, destination: &Destination) -> Result<(), QueueError> {
        self.schedule.lock().reached(destination);
        self.queue().clear_unreachable(destination).await
    }

    /// Claims an item until the answer is dropped, unless another visit has claimed it.
    fn claim(&self, id: ItemId) -> Option<ClaimedItem<'_>> {
        self.schedule.lock().claim(id).then_some(ClaimedItem { runner: self, id })
    }

    /// An item as it is in the queue; `None` if it has left the queue, or cannot be read.
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
            self.schedule.lock().put_or_hold(item);
            return Ok(None);
        }
        Ok(item)
    }

    /// Sends one message.
    async fn send(&self, id: ItemId, channel: &mut dyn Channel) -> Result<Line, QueueError> {
        if self.is_under_way(id) {
            return Ok(Line::Unused);
        }
        let Some(item) = self.item_to_send(id).await? else { return Ok(Line::Unused) };
        if item.has_only_reports() {
            self.record(item, None, self.now()).await?;
            return Ok(Line::Unused);
        }
        let (mut item, message) = match self.load(item).await? {
            Ok(loaded) => loaded,
            Err(line) => return Ok(line),
        };
        // A clock that was ahead may have written a later time. It does not count.
        item.next = item.next.min(self.now());
        let attempts = item.attempts;
        let mut transactions = VecDeque::from(channel.transactions(&item));
        // A connection may take only a few. So each attempt begins with another transaction.
        let turn = usize::try_from(attempts).unwrap_or(usize::MAX);
        transactions.rotate_left(turn.checked_rem(transactions.len()).unwrap_or_default());
        let mut message = Some(message);
        let mut all = Transactions::default();
        while let Some(to) = transactions.pop_front() {
            // The last transaction ends with the message.
            let again = message.as_ref().filter(|_| !transactions.is_empty()).map(Body::again);
            let Some(body) = again.or_else(|| message.take()) else { break };
            let sent = channel.send(&item, &to, body).await;
            self.note_outcomes(&mut item, &to, sent, &mut all);
            if all.is_ended || transactions.is_empty() {
                break;
            }
            let Some(written) = self.write_or_keep(item).await? else { return Ok(Line::Usable) };
            item = written;
            let is_spent = channel.is_spent();
            if item.held || !self.may_send() || is_spent {
                // At once only if fewer wait now. Otherwise attempts would be as fast as the host
                // connects.
                all.wants_more |= !is_spent || all.is_answered;
                break;
            }
        }
        // Others may have its memory while reports are made.
        drop(message);
        let now = self.now();
        // The node that has the lease decides about the next attempt.
        let is_ours = !self.lease_end.is_over();
        // Recipients that were not tried, or exceeded the host's limit, have another transaction at
        // once.
        if is_ours && !item.is_done() && (all.is_ended || !all.wants_more) {
            self.postpone(&mut item, &all.failure(), now);
        }
        self.record(item, all.failure.as_ref().filter(|_| is_ours), now).await?;
        Ok(if is_ours { all.line(attempts) } else { Line::Ended })
    }

    /// Reads the message of an item once there is memory for it and for the recipients. If it is
    /// not to be sent now, returns the use of the connection.
    async fn load(&self, mut item: Item) -> Result<Result<(Item, Body), Line>, QueueError> {
        let (id, octets) = (item.id, item.size.saturating_add(item::octets(&item.recipients) as u64));
        let keys = item.keys();
        let mut memory = self.memory.try_acquire(keys, octets);
        if memory.is_none() {
            // Hundreds of visits may wait: none of them holds the recipients of its item.
            drop(item);
            memory = match self.wait_for_memory(id, keys, octets).await {
                Ok(memory) => memory,
                Err(line) => return Ok(Err(line)),
            };
            // Meanwhile it may have been changed, and another node may send the queue's mail.
            if !self.may_send() {
                return Ok(Err(Line::Unused));
            }
            let Some(now) = self.item_to_send(id).await? else { return Ok(Err(Line::Unused)) };
            item = now;
        }
        match self.queue().message(&item).await {
            Ok(message) => {
                // The channel releases the memory once the host has the message.
                let memory = memory.map(|part| Box::new(part) as Box<dyn Any + Send + Sync>);
                Ok(Ok((item, Body::new(message, memory).until(self.lease_end.clone()))))
            }
            Err(error) => {
                // Others may have the memory.
                drop(memory);
                // It waits alone: other mail to its destination can be read.
                tracing::error!(item = item.id, %error, "the message cannot be read");
                let failure = Failure::temporary("4.3.0", "the message cannot be read");
                let now = self.now();
                self.postpone(&mut item, &failure, now);
                self.record(item, Some(&failure), now).await?;
                Ok(Err(Line::Unused))
            }
        }
    }

    /// Waits for memory for an item. If its payer holds its part, mail of others to the same
    /// destination does not wait for it.
    async fn wait_for_memory(&self, id: ItemId, keys: Keys, octets: u64) -> Result<Option<Part>, Line> {
        let mut memory = self.memory.acquire(keys, octets);
        let mut line = Line::Unused;
        loop {
            let is_full = self.memory.is_payer_full(keys, octets);
            if is_full && self.schedule.lock().give_way(id, self.now() + MEMORY_WAIT) {
                return Err(line);
            }
            tokio::select! {
                part = &mut memory => return Ok(part),
                // The host may have closed a connection that was idle for long.
                () = tokio::time::sleep(MEMORY_PAUSE) => line = Line::Ended,
            }
        }
    }

    /// Notes what a host answered to the recipients at some places.
    fn note_outcomes(&self, item: &mut Item, to: &[usize], sent: Sent, all: &mut Transactions) {
        let (id, from, arrived, now) = (item.id, item.from.as_str(), item.arrived, self.now());
        all.is_ended = !sent.usable;
        let (mut is_taken, mut is_one_too_many) = (false, false);
        for (at, outcome) in to.iter().zip(sent.outcomes) {
            let Some(recipient) = item.recipients.get_mut(*at) else { continue };
            let to = recipient.address.as_str();
            match outcome {
                Ok(success) => {
                    tracing::info!(name: "message", item = id, from, to, "sent");
                    self.counts.sent(now - arrived);
                    is_taken = true;
                    // RFC 3461 §5.2.2: a host without DSN will not report its success.
                    recipient.outcome = match success {
                        Some(_) if recipient.wants_success() => Outcome::Unreported { success },
                        _ => Outcome::Sent,
                    };
                }
                Err(failure) if failure.permanent => {
                    tracing::warn!(item = id, from, to, reply = failure.reply, "refused");
                    self.counts.recipients(Done::Refused, 1);
                    all.is_answered = true;
                    let Failure { reply, status, .. } = failure;
                    recipient.outcome = Outcome::Failed { reply, status };
                }
                Err(failure) => {
                    tracing::info!(item = id, from, to, reply = failure.reply, "refused for now");
                    self.counts.recipients(Done::Deferred, 1);
                    is_one_too_many |= failure.status == TOO_MANY_RECIPIENTS;
                    all.failure = Some(failure);
                }
            }
        }
        all.is_answered |= is_taken;
        // RFC 5321 §4.5.3.1.10.
        all.wants_more |= is_taken && is_one_too_many;
    }

    /// A temporary failure of the message itself.
    fn postpone(&self, item: &mut Item, failure: &Failure, now: i64) {
        item.attempts += 1;
        item.reason.clone_from(&failure.reply);
        item.next = now + self.times.wait(item.attempts);
        self.expire(item, &failure.reply, now);
    }

    /// Gives an item up if it is too old. Returns whether it is.
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
        tracing::warn!(
            destination,
            reply = failure.reply,
            "this destination takes no mail: its items are given up"
        );
        let ids = self.schedule.lock().items(destination);
        for id in ids {
            if !self.may_send() {
                break;
            }
            let Some(_claimed) = self.claim(id) else { continue };
            // An administrator may have held it a moment ago.
            let Some(mut item) = self.item_to_send(id).await? else { continue };
            self.counts.recipients(Done::Refused, item.waiting().count());
            item.give_up(&failure.status, &failure.reply);
            self.record(item, None, self.now()).await?;
        }
        Ok(())
    }

    /// The destination cannot be reached for now: it waits, and items that are old are looked at.
    pub(super) async fn wait(&self, destination: &Destination, failure: &Failure) -> Result<(), QueueError> {
        let now = self.now();
        let until = self.schedule.lock().unreachable(destination, now, &self.times);
        tracing::info!(
            destination,
            reply = failure.reply,
            wait = until - now,
            "this destination cannot be reached: it is tried again after these seconds"
        );
        self.queue().note_unreachable(destination, &failure.reply, until).await?;
        if self.schedule.lock().is_quiet(destination, now) {
            return Ok(());
        }
        let ids = self.schedule.lock().items(destination);
        let (mut quiet_until, newest) = (i64::MAX, ids.last().copied());
        for id in ids {
            if !self.may_send() {
                return Ok(());
            }
            let Some(_claimed) = self.claim(id) else { continue };
            let Some(mut item) = self.item_to_send(id).await? else {
                // It left the queue, is held, or was written at last: the next check is not
                // deferred.
                quiet_until = now;
                continue;
            };
            if item.has_only_reports() {
                // Items that have only reports need no host.
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
                // The next items are younger.
                break;
            }
        }
        let mut schedule = self.schedule.lock();
        // Items that came meanwhile are read the next time.
        if newest.is_some() && schedule.items(destination).last().copied() == newest {
            schedule.quiet(destination, quiet_until);
        }
        Ok(())
    }

    /// The age of the next step of a waiting item: a warning, or giving it up.
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
