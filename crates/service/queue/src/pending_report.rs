//! Pending reports to senders: each is sent once, even after a crash at any step.
//!
//! ```text
//! the report's message ──> the item, which names it ──> sent on its way ──> the item without it
//!   (a row of the queue)     (one record changes)                            (or it left the queue)
//! ```
//!
//! A row without a record that names it is not part of the queue, so a crash before the second
//! step leaves nothing. After the second step the report is sent, and only once even if sending
//! begins several times. The row becomes an item under its own number, or moves to a mailbox.
//! Each happens once. Until the last step the runner does not send such an item. So a missing row
//! means that the report arrived.
//!
//! The row moves only to the INBOX of an account that files all its mail there. If a script, a
//! forward or a group may deliver it elsewhere, it becomes an item for this server ([`Local`]).

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_authentication::Origin;
use posthaste_delivery::{DeliveryError, ErrorKind, NewMessage, SummaryMemory, Usage, WorkFor};
use posthaste_directory::{Account, ResolveError};
use posthaste_mail_model::{BodyId, Id, MailboxName, NumSet, Uid};
use posthaste_net::joined;
use posthaste_store::StoreError;

use crate::error::QueueError;
use crate::item::{self, Arrival, Envelope, Item, ItemId, Local, NewItem, PendingReport, Recipient, To};
use crate::queue::Queue;
use crate::relay::{Addressed, RETURN_PATH, Relay, unlooked};
use crate::report::Report;

impl Relay {
    /// Stores a report, so that an item can name it as pending. `None` if nobody can get it. Also
    /// if too many reports wait, and it is not of a failure.
    pub(crate) async fn prepare(&self, report: &Report<'_>) -> Result<Option<PendingReport>, QueueError> {
        if report.to.is_empty() {
            // RFC 5321 §4.5.5: no report about a report.
            tracing::info!(report = report.id, "no report: the message is itself a report");
            return Ok(None);
        }
        let (to, found) = self.addressed(report.to).await?;
        if report.kind.may_be_dropped() && self.drops_report(&to, &found).await? {
            return Ok(None);
        }
        let printed = report.print().await;
        let text = self.traced(printed.text, report.now).await;
        let (message, destination) = match found {
            Addressed::Inbox(_) => (joined([Bytes::from_static(RETURN_PATH), text]).await, String::new()),
            Addressed::Local => (self.signed(text).await?, report.tls.destination(Local::Inbox.domain())),
            Addressed::At(domain) => (self.signed(text).await?, report.tls.destination(&domain)),
            Addressed::Nowhere => return Ok(None),
        };
        let (size, smtputf8) = (message.len() as u64, !to.is_ascii() || printed.is_international);
        let (row, body) = self.queue().add_row(message).await?;
        let (to, body) = (to.into_owned(), body.to_string());
        Ok(Some(PendingReport { row, body, size, to, destination, smtputf8 }))
    }

    /// Whether the queue has room for a report to an address. Strangers may cause any number, to
    /// hosts that do not answer.
    #[boxed]
    pub async fn has_room_for_report(&self, to: &str) -> Result<bool, QueueError> {
        let (_, Addressed::At(domain)) = self.addressed(to).await? else { return Ok(true) };
        match self.queue().check_report(&domain).await {
            Err(QueueError::ReportsFull { .. } | QueueError::Full { .. }) => Ok(false),
            room => room.map(|()| true),
        }
    }

    /// Queues the report, unless that was done. It is durable on return. Returns its item, which is
    /// not scheduled yet.
    pub(crate) async fn fulfil(
        &self,
        pending: &PendingReport,
        now: i64,
    ) -> Result<Option<Arrival>, QueueError> {
        if !self.queue().has_row(pending.row).await? {
            return Ok(None);
        }
        let mut destination = pending.destination.clone();
        if destination.is_empty() {
            if self.is_moved(pending).await? {
                return Ok(None);
            }
            destination = Local::Inbox.domain().to_owned();
        }
        let wrong = || QueueError::Record {
            record: item::name(pending.row),
            why: "the report to send has no body".into(),
        };
        let body = Id::parse(&pending.body).map(BodyId).ok_or_else(wrong)?;
        let envelope = Envelope { smtputf8: pending.smtputf8, ..Envelope::default() };
        let part = NewItem {
            envelope: &envelope,
            destination,
            recipients: vec![Recipient::waiting(&To::new(&pending.to))],
            reason: String::new(),
        };
        let mut item = Item::new(part, pending.row, (body, pending.size), now);
        let arrival = item.arrival();
        match self.queue().update(&mut item).await {
            // With `Busy` it was there already, and may be counted.
            Ok(()) | Err(QueueError::Busy(_)) => {
                self.queue().count(&item);
                Ok(Some(arrival))
            }
            Err(error) => Err(error),
        }
    }

    async fn signed(&self, text: Bytes) -> Result<Bytes, QueueError> {
        Ok(self.signer().sign(text, Origin::Server).await?)
    }

    /// Moves the report to the sender's INBOX. `false` if the account has no room now, or if its
    /// mail does not simply go there any more.
    async fn is_moved(&self, pending: &PendingReport) -> Result<bool, QueueError> {
        // A crash may have come after it became an item.
        if self.queue().item(pending.row).await?.is_some() {
            return Ok(false);
        }
        let recipient = match self.resolve(&pending.to).await {
            Ok(recipient) if self.keeps_all(&recipient.account) => recipient,
            Err(ResolveError::Directory(error)) => return Err(unlooked(error)),
            Ok(_) | Err(_) => return Ok(false),
        };
        let delivery = self.delivery();
        let reserved =
            delivery.reserve_quota(&recipient.account, Usage { bytes: pending.size, messages: 1 }).await;
        let moved = match reserved {
            Ok(_reserved) => self.queue().move_row(pending.row, &recipient.account).await,
            Err(error) => Err(error.into()),
        };
        match moved {
            Err(QueueError::Delivery(error)) if error.kind() == ErrorKind::OverQuota => {
                tracing::info!(%error, "the sender has no room for a report: it waits in the queue");
                Ok(false)
            }
            moved => moved.map(|()| true),
        }
    }
}

impl Queue {
    /// Adds a message that no record names.
    async fn add_row(&self, message: Bytes) -> Result<(ItemId, BodyId), QueueError> {
        let message = NewMessage { bytes: message, flags: Vec::new(), date: None };
        let (incoming, _held) =
            self.delivery().incoming_held(WorkFor::SERVER, message, SummaryMemory::Last).await?;
        let body = incoming.body;
        let appended = self.destination().append(vec![incoming]).await?;
        let lost = || DeliveryError::Interrupted("the store gave no UID".into());
        let row = appended.uids.first().ok_or_else(lost)?;
        Ok((row.value(), body))
    }

    /// Whether a message is in the queue's mailbox.
    async fn has_row(&self, row: ItemId) -> Result<bool, QueueError> {
        let Some(uid) = Uid::new(row) else { return Ok(false) };
        Ok(self.open_mailbox().await?.body_of(uid).await?.is_some())
    }

    pub(crate) async fn remove_row(&self, row: ItemId) -> Result<(), QueueError> {
        self.open_mailbox().await?.remove(&NumSet::range(row, row)).await?;
        Ok(())
    }

    /// Moves a message to the INBOX of an account: in one commit where the engine can do that.
    async fn move_row(&self, row: ItemId, account: &Account) -> Result<(), QueueError> {
        let list = self.delivery().mailboxes(account).await?;
        let inbox = MailboxName::inbox();
        let inbox = list.find(&inbox).ok_or(StoreError::NoSuchName)?.id;
        let target = self.delivery().store().destination(inbox);
        target.note_owner_limit(account.folder_limits.max);
        let moved = self.open_mailbox().await?.move_to(&NumSet::range(row, row), &target).await;
        moved.map(|_| ()).map_err(|error| DeliveryError::from(error).into())
    }
}

#[cfg(test)]
impl PendingReport {
    pub(crate) fn sample(destination: &str) -> Self {
        let (body, to) = (BodyId(Id::new(3, 4)).to_string(), "ana@example.org".to_owned());
        Self { row: 9, body, size: 7, to, destination: destination.to_owned(), smtputf8: true }
    }
}
