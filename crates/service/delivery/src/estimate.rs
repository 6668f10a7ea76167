//! What a conversion of stored mail will take, by a sample of the messages.
//!
//! Several messages may have one body: copies, and what one delivery brought to several accounts.
//! It is converted once, and takes time and space once. So a message of the sample counts for a
//! third of its body, if three of the messages to convert have it. A message that becomes a new one
//! counts whole: each of them gets a body of its own. So do items.

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

/// The sums over a sample: what its messages add to the work on all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// Messages of the sample.
    pub examined: u64,
    /// Bodies that take another form, and messages that become new ones.
    pub converted: f64,
    /// Octets that these take.
    pub bytes_before: f64,
    /// Octets that they will take.
    pub bytes_after: f64,
    /// Messages whose items are made.
    pub items: f64,
    /// Octets of these items.
    pub items_bytes: f64,
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
            let holders = body.and_then(|body| holders.get(&body)).copied().unwrap_or(1);
            let share = 1.0 / holders.max(1) as f64;
            let changed = report.converted + report.renumbered;
            sum.examined += report.examined;
            sum.converted += changed as f64 * share;
            sum.bytes_before += report.bytes_before as f64 * share;
            sum.bytes_after += report.bytes_after as f64 * share;
            sum.items += report.items as f64;
            sum.items_bytes += report.items_bytes as f64;
            sum.changed += (changed as f64 * share).max(report.items as f64);
            sum.seconds += took.as_secs_f64() * share;
        }
        Ok(sum)
    }

    /// How many of the messages to convert have a body, of those bodies that take another form and
    /// that several messages have. All messages are looked at only if there is one.
    async fn holders(&self, mailboxes: &[MailboxId]) -> Result<HashMap<BodyId, u64>, DeliveryError> {
        let engine = self.delivery.store().engine();
        let mut holders = HashMap::new();
        let converted = self.sample.iter().filter(|examined| examined.report.converted > 0);
        for body in converted.filter_map(|examined| examined.body) {
            // If it is not known, the messages are counted.
            if engine.references(body).await.is_ok_and(|all| all <= 1) {
                continue;
            }
            holders.insert(body, 0);
        }
        if holders.is_empty() {
            return Ok(holders);
        }
        for mailbox in mailboxes {
            let mut visit = |stored: Stored<'_>| {
                holders.entry(stored.body).and_modify(|count| *count += 1);
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

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
