//! Estimates the work of a conversion of stored mail, by a sample of the messages.
//!
//! Several messages may have one body: copies, and what one delivery brought to several accounts.
//! It is converted once, and takes time and space once. So a message of the sample counts for a
//! third of its body, if three of the messages to convert have it. A message that becomes a new one
//! counts whole: each of them gets a body of its own. Items count once for each message, except
//! copies that share those of another message.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use posthaste_mail_model::{BodyId, MailboxId, NumSet};
use posthaste_store::{StoreError, Stored};

use crate::convert::{ConvertReport, Converter};
use crate::deliver::Delivery;
use crate::error::DeliveryError;

/// Examines a sample.
pub struct Estimator<'d> {
    delivery: &'d Delivery,
    sample: Vec<Examined>,
}

/// A message of the sample.
struct Examined {
    body: Option<BodyId>,
    report: ConvertReport,
    took: Duration,
}

/// A sum over a sample, and how much its messages differ.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figure {
    /// The sum.
    pub sum: f64,
    squares: f64,
}

impl Figure {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.squares += value * value;
    }

    /// The sum for all messages, and half the width of its 95 % interval, by a sample of this
    /// size. The second is 0 if all were examined.
    pub fn of_all(&self, examined: u64, all: u64) -> (f64, f64) {
        // 95 % of a normal distribution are within this many standard deviations.
        const WITHIN: f64 = 1.96;
        let (n, of) = (examined.max(1) as f64, all.max(examined) as f64);
        let variance = (self.squares - self.sum * self.sum / n).max(0.0) / (n - 1.0).max(1.0);
        // Without replacement.
        let unseen = (1.0 - n / of.max(1.0)).max(0.0);
        (self.sum / n * of, WITHIN * of * (variance / n * unseen).sqrt())
    }

    /// Estimates a count of messages as [`Self::of_all`] estimates a sum. If all or none count,
    /// the next ones may be others: of so many without an exception, 3 in `examined` may be one
    /// (the rule of three).
    pub fn count_of_all(&self, examined: u64, all: u64) -> (f64, f64) {
        let (count, within) = self.of_all(examined, all);
        let is_uniform = within == 0.0 && examined < all;
        (count, if is_uniform { 3.0 * all as f64 / examined.max(1) as f64 } else { within })
    }
}

/// The sums over a sample: what its messages add to the work on all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// Messages of the sample.
    pub examined: u64,
    /// Bodies that take another form, and messages that become new ones.
    pub converted: Figure,
    /// Octets that these take.
    pub bytes_before: Figure,
    /// Octets that they will take.
    pub bytes_after: Figure,
    /// Items that are made.
    pub items: Figure,
    /// Octets of these items.
    pub items_bytes: Figure,
    /// Changes that are written.
    pub changed: f64,
    /// Seconds of work, without those of writing.
    pub seconds: f64,
}

impl<'d> Estimator<'d> {
    /// With no message yet.
    pub fn new(delivery: &'d Delivery) -> Self {
        Self { delivery, sample: Vec::new() }
    }

    /// Examines the messages of a mailbox that are in the sample ([`Converter::sampled`]).
    pub async fn add(&mut self, mut converter: Converter<'_>) -> Result<(), DeliveryError> {
        loop {
            let began = Instant::now();
            let Some((body, report)) = converter.sample().await? else { return Ok(()) };
            self.sample.push(Examined { body, report, took: began.elapsed() });
        }
    }

    /// The sums. These are all mailboxes whose messages the command will convert.
    pub async fn finish(self, mailboxes: &[MailboxId]) -> Result<Estimate, DeliveryError> {
        let holders = self.holders(mailboxes).await?;
        let mut sum = Estimate::default();
        for Examined { body, report, took } in &self.sample {
            let holders = body.and_then(|body| holders.get(&body)).copied().unwrap_or(Holders::ONE);
            let (share, items_share) = (holders.share(), holders.share_of_items());
            let changed = (report.converted + report.renumbered) as f64 * share;
            let items = report.items as f64 * items_share;
            sum.examined += report.examined;
            sum.converted.add(changed);
            sum.bytes_before.add(report.bytes_before as f64 * share);
            sum.bytes_after.add(report.bytes_after as f64 * share);
            sum.items.add(items);
            sum.items_bytes.add(report.items_bytes as f64 * items_share);
            sum.changed += changed.max(items);
            let is_changed = report.converted + report.renumbered > 0;
            sum.seconds += took.as_secs_f64() * if is_changed { share } else { items_share };
        }
        Ok(sum)
    }

    /// The messages to convert that have a body, of those bodies that take another form or get
    /// items, and that several messages have. All messages are looked at only if there is one.
    async fn holders(&self, mailboxes: &[MailboxId]) -> Result<HashMap<BodyId, Holders>, DeliveryError> {
        let engine = self.delivery.store().engine();
        let mut holders = HashMap::new();
        let changed = self.sample.iter().filter(|one| one.report.converted + one.report.items > 0);
        for body in changed.filter_map(|examined| examined.body) {
            // If it is not known, the messages are counted.
            if engine.references(body).await.is_ok_and(|all| all <= 1) {
                continue;
            }
            holders.insert(body, Holders::default());
        }
        if holders.is_empty() {
            return Ok(holders);
        }
        for mailbox in mailboxes {
            let mut visit = |stored: Stored<'_>| {
                holders.entry(stored.body).and_modify(|holders| holders.count(&stored));
                ControlFlow::Continue(())
            };
            match engine.summaries(*mailbox, &NumSet::range(1, u32::MAX), &mut visit).await {
                Ok(_) | Err(StoreError::NoMailbox(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(holders)
    }
}

/// The number of messages that have a body.
#[derive(Debug, Clone, Copy, Default)]
struct Holders {
    messages: u64,
    /// The messages that lack items, and would have items of their own.
    bare: u64,
    /// The messages that lack items, and would share the items of another message.
    links: u64,
}

impl Holders {
    const ONE: Self = Self { messages: 1, bare: 1, links: 0 };

    fn count(&mut self, stored: &Stored<'_>) {
        self.messages += 1;
        if stored.summary.is_empty() {
            *(if stored.is_shared { &mut self.links } else { &mut self.bare }) += 1;
        }
    }

    /// The share of the body that each message has.
    fn share(self) -> f64 {
        1.0 / self.messages.max(1) as f64
    }

    /// The share of the items that each message has.
    fn share_of_items(self) -> f64 {
        self.bare.max(1) as f64 / (self.bare + self.links).max(1) as f64
    }
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
