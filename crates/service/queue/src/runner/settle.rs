//! What became of an item is written down, and the reports that it owes are sent on their way.

use super::Runner;
use crate::error::QueueError;
use crate::item::{Item, Outcome, Recipient};
use crate::report::{About, Kind, Report};

/// How often an item is written again after another process changed it.
const TRIES: usize = 16;

impl Runner {
    /// Writes down what became of an item, with the reports about it. What others decided about
    /// the item meanwhile does not undo what was sent.
    pub(super) async fn record(&self, mut item: Item, message: &[u8], now: i64) -> Result<(), QueueError> {
        self.owe_failures(&mut item, message, now).await?;
        item.recipients.iter_mut().for_each(Recipient::reported);
        self.settle(item).await
    }

    /// Writes an item, and sends the reports that it owes.
    pub(super) async fn settle(&self, mut item: Item) -> Result<(), QueueError> {
        if !item.owed.is_empty() && !self.write(&mut item).await? {
            // It was dropped meanwhile: nobody gets a report.
            for owed in &item.owed {
                self.queue().remove_row(owed.row).await?;
            }
            return Ok(());
        }
        let owed = std::mem::take(&mut item.owed);
        let rows = || owed.iter().map(|owed| owed.row);
        self.unsettled.lock().extend(rows());
        let mut arrivals = Vec::new();
        for owed in &owed {
            arrivals.extend(self.relay.fulfil(owed, self.now()).await?);
        }
        if self.write(&mut item).await? {
            self.schedule.lock().note(&item);
        }
        let mut unsettled = self.unsettled.lock();
        rows().for_each(|row| {
            unsettled.remove(&row);
        });
        let mut schedule = self.schedule.lock();
        arrivals.into_iter().for_each(|arrival| schedule.put(arrival));
        Ok(())
    }

    /// Writes an item, or removes it if nothing is left to do; whether it is still in the queue.
    async fn write(&self, item: &mut Item) -> Result<bool, QueueError> {
        for _ in 0..TRIES {
            let is_over = item.is_done() && item.owed.is_empty();
            let written = match is_over {
                true => self.queue().remove(item).await,
                false => self.queue().update(item).await,
            };
            match written {
                Ok(()) if !is_over => return Ok(true),
                Ok(()) => {}
                Err(QueueError::Busy(_)) => {
                    if let Some(now) = self.queue().item(item.id).await? {
                        item.follow(&now);
                        continue;
                    }
                }
                Err(error) => return Err(error),
            }
            self.schedule.lock().remove(item.id);
            return Ok(false);
        }
        Err(QueueError::Busy(item.id))
    }

    /// Whether an item is a report that another one still owes: it is not sent before that is
    /// settled, which puts it into the schedule.
    pub(super) fn is_unsettled(&self, id: crate::ItemId) -> bool {
        let unsettled = self.unsettled.lock();
        let found = unsettled.contains(&id);
        if found {
            self.schedule.lock().remove(id);
        }
        found
    }

    /// Has an item owe a report about recipients that were given up.
    async fn owe_failures(&self, item: &mut Item, message: &[u8], now: i64) -> Result<(), QueueError> {
        let failed: Vec<_> = item
            .recipients
            .iter()
            .filter(|to| to.wants_failure() && matches!(to.outcome, Outcome::Failed { .. }))
            .cloned()
            .collect();
        let about = failed.iter().filter_map(|recipient| match &recipient.outcome {
            Outcome::Failed { reply, status } => Some(About { recipient, status, reply }),
            _ => None,
        });
        let about: Vec<_> = about.collect();
        self.owe(Kind::Failed, item, &about, (message, now)).await
    }

    /// Has an item owe a report about some of its recipients, if there are any.
    pub(super) async fn owe(
        &self,
        kind: Kind,
        item: &mut Item,
        about: &[About<'_>],
        (message, now): (&[u8], i64),
    ) -> Result<(), QueueError> {
        if about.is_empty() {
            return Ok(());
        }
        let id = format!("{}.{now:x}.{:x}", item.body, item.id);
        let report = Report {
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
        };
        let owed = self.relay.prepare(&report).await?;
        item.owed.extend(owed);
        Ok(())
    }
}
