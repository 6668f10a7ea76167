//! Writes the outcome of an item. Then it makes the reports about it and sends them.

use bytes::Bytes;

use super::Runner;
use crate::error::QueueError;
use crate::item::{Item, Local, Outcome, PendingReport, Recipient};
use crate::report::{RecipientOutcome, Report, ReportKind};
use crate::success::Success;
use crate::transport::Failure;

/// The attempts to write an item that another process changes.
const TRIES: usize = 16;

impl Runner {
    /// Writes the outcome of an item, then the reports about it. A concurrent change of the item
    /// does not undo a report that was sent. `failure` is why recipients still wait.
    pub(super) async fn record(
        &self,
        mut item: Item,
        failure: Option<&Failure>,
        now: i64,
    ) -> Result<(), QueueError> {
        item.skip_unwanted_reports();
        let Some(mut item) = self.write_or_keep(item).await? else { return Ok(()) };
        let failure = failure.filter(|_| self.is_late(&item, now));
        if item.pending.is_empty() && !item.is_unreported() && failure.is_none() {
            self.schedule.lock().put_or_hold(&item);
            return Ok(());
        }
        match self.reports(&item, failure, now).await {
            Ok(pending) => {
                item.pending.extend(pending);
                item.warned |= failure.is_some();
                item.recipients.iter_mut().for_each(Recipient::reported);
                self.send_pending(item).await
            }
            Err(error) => self.put_off(item, &error, now).await,
        }
    }

    /// Writes an item, and keeps it in memory if that fails: recipients that have the message
    /// must not get it again. `None` if it has left the queue.
    pub(super) async fn write_or_keep(&self, mut item: Item) -> Result<Option<Item>, QueueError> {
        match self.write(&mut item).await {
            Ok(is_there) => Ok(is_there.then_some(item)),
            Err(error) => {
                self.unwritten.lock().insert(item.id, item);
                Err(error)
            }
        }
    }

    /// Writes an item with pending reports, and sends them on their way.
    pub(super) async fn send_pending(&self, mut item: Item) -> Result<(), QueueError> {
        if !item.pending.is_empty() && !self.write(&mut item).await? {
            // It was dropped meanwhile: no report is sent.
            return self.remove_rows(&item.pending).await;
        }
        let pending = std::mem::take(&mut item.pending);
        let rows = || pending.iter().map(|pending| pending.row);
        self.under_way.lock().extend(rows());
        let mut arrivals = Vec::new();
        for one in &pending {
            match self.relay.fulfil(one, self.now()).await {
                Ok(arrival) => arrivals.extend(arrival),
                Err(error) => {
                    item.pending = pending;
                    return self.put_off(item, &error, self.now()).await;
                }
            }
        }
        if self.write(&mut item).await? {
            self.schedule.lock().put_or_hold(&item);
        }
        let mut under_way = self.under_way.lock();
        rows().for_each(|row| {
            under_way.remove(&row);
        });
        let mut schedule = self.schedule.lock();
        arrivals.into_iter().for_each(|arrival| schedule.put(arrival));
        Ok(())
    }

    /// Has an item whose reports cannot be made or sent now wait by itself. Other mail to its
    /// destination does not.
    async fn put_off(&self, mut item: Item, error: &QueueError, now: i64) -> Result<(), QueueError> {
        tracing::error!(item = item.id, %error, "a report to its sender has to wait");
        item.attempts += 1;
        item.reason = format!("a report to its sender has to wait: {error}");
        item.next = now + self.times.wait(item.attempts);
        if self.write(&mut item).await? {
            self.schedule.lock().put_or_hold(&item);
        }
        Ok(())
    }

    /// Writes an item, or removes it if nothing is left to do. Returns whether it is still in the
    /// queue.
    async fn write(&self, item: &mut Item) -> Result<bool, QueueError> {
        for _ in 0..TRIES {
            let is_over = item.is_over();
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

    /// Whether an item is a report that is being stored at this moment. Then it leaves the
    /// schedule. [`Self::send_pending`] puts it there again.
    pub(super) fn is_under_way(&self, id: crate::ItemId) -> bool {
        let under_way = self.under_way.lock();
        let found = under_way.contains(&id);
        if found {
            self.schedule.lock().remove(id);
        }
        found
    }

    /// Whether an item is late and its sender has no report of that yet.
    pub(super) fn is_late(&self, item: &Item, now: i64) -> bool {
        let warn_after = self.times.warn_after;
        let is_old = warn_after > 0 && now - item.arrived >= warn_after;
        is_old && !item.warned && !item.is_done() && item.may_be_reported()
    }

    /// Stores the reports about an item: failed recipients, successful ones, and those that get
    /// it late.
    async fn reports(
        &self,
        item: &Item,
        late: Option<&Failure>,
        now: i64,
    ) -> Result<Vec<PendingReport>, QueueError> {
        let failed = item.recipients.iter().filter_map(|recipient| match &recipient.outcome {
            Outcome::Failed { reply, status } => Some(RecipientOutcome { recipient, status, reply }),
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        // Records of earlier versions do not have it.
        let usual = if Local::of_item(item).is_some() { Success::Delivered } else { Success::SentOn };
        let sent = Success::ALL.map(|wanted| {
            let (kind, status) = wanted.report();
            let is_so = |outcome: &Outcome| match outcome {
                Outcome::Unreported { success } => success.unwrap_or(usual) == wanted,
                _ => false,
            };
            let of_kind = item.recipients.iter().filter(|recipient| is_so(&recipient.outcome));
            (
                kind,
                of_kind
                    .map(|recipient| RecipientOutcome { recipient, status, reply: "" })
                    .collect::<Vec<_>>(),
            )
        });
        let late = late.into_iter().flat_map(|failure| {
            let waiting = item.waiting().filter(|to| to.wants_delay());
            waiting.map(|recipient| RecipientOutcome {
                recipient,
                status: &failure.status,
                reply: &failure.reply,
            })
        });
        let late: Vec<_> = late.collect();
        let until = item.arrived + self.times.expire_after;
        let mut pending = Vec::new();
        let late = (ReportKind::Delayed { until }, late);
        for (kind, about) in std::iter::once((ReportKind::Failed, failed)).chain(sent).chain([late]) {
            if about.is_empty() {
                continue;
            }
            match self.prepare(kind, item, &about, now).await {
                Ok(one) => pending.extend(one),
                Err(error) => {
                    // All of them are made again.
                    self.remove_rows(&pending).await?;
                    return Err(error);
                }
            }
        }
        Ok(pending)
    }

    async fn remove_rows(&self, pending: &[PendingReport]) -> Result<(), QueueError> {
        for pending in pending {
            self.queue().remove_row(pending.row).await?;
        }
        Ok(())
    }

    /// Stores one report about some recipients of an item.
    async fn prepare(
        &self,
        kind: ReportKind,
        item: &Item,
        about: &[RecipientOutcome<'_>],
        now: i64,
    ) -> Result<Option<PendingReport>, QueueError> {
        let message = self.quoted(item).await?;
        let id = format!("{}.{now:x}.{:x}.{}", item.body, item.id, kind.action());
        let report = Report {
            kind,
            to: &item.from,
            arrived: item.arrived,
            smtputf8: item.smtputf8,
            ret: item.ret,
            tls: item.tls(),
            envid: item.envid.as_ref(),
            about,
            message: &message,
            host: self.relay.host(),
            id: &id,
            now,
        };
        self.relay.prepare(&report).await
    }

    /// The beginning of an item's message: a report quotes no more. A damaged message is not
    /// quoted, but its outcome is still reported.
    async fn quoted(&self, item: &Item) -> Result<Bytes, QueueError> {
        match self.queue().beginning(item).await {
            Err(QueueError::Store(error)) if error.is_damage() => {
                tracing::error!(item = item.id, %error, "a message in the queue is damaged: the report about it does not quote it");
                Ok(Bytes::new())
            }
            read => read,
        }
    }
}
