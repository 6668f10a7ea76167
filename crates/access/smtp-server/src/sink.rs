//! Where messages go: what this crate asks of the rest of the server, so that a test can be a full
//! disk.

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_authentication::Origin;
use posthaste_delivery::{Delivery, DeliveryError, Recipient, ResolveError};
use posthaste_filter::{Envelope, Filter, Undelivered};
use posthaste_queue::{QueueError, Refusal};

use crate::address::{Mailbox, ReversePath};

/// Why a message for other domains was not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RelayRefusal {
    /// It has passed through too many hosts.
    #[error("the message goes round in a loop")]
    Loop,
    /// A recipient without a domain that could be asked.
    #[error("{0} has no domain that mail could be sent to")]
    Domain(String),
    /// It could not be kept.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
}

/// Takes mail.
#[async_trait]
pub trait MailSink: Send + Sync + 'static {
    /// Where mail for an address goes.
    async fn resolve(&self, address: &str) -> Result<Recipient, ResolveError>;

    /// Keeps one message for all recipients and returns an outcome for each, in their order, once
    /// what succeeded is on disk. Recipients that share an account get one copy.
    async fn deliver(
        &self,
        message: Bytes,
        envelope: Envelope<'_>,
        recipients: &[Recipient],
    ) -> Vec<Result<(), Undelivered>>;

    /// Octets of the largest message taken, trace headers included.
    fn message_len_max(&self) -> u64;

    /// Whether mail for other domains is taken.
    fn relays(&self) -> bool {
        false
    }

    /// Keeps one message for recipients in other domains, and returns once it is on disk. The
    /// message has no Return-Path.
    async fn relay(
        &self,
        _message: Bytes,
        _from: &ReversePath,
        to: &[&Mailbox],
        _smtputf8: bool,
    ) -> Result<(), RelayRefusal> {
        Err(RelayRefusal::Domain(to.first().map_or_else(String::new, |to| to.as_str().to_owned())))
    }
}

#[async_trait]
impl MailSink for Delivery {
    async fn resolve(&self, address: &str) -> Result<Recipient, ResolveError> {
        Delivery::resolve(self, address).await
    }

    async fn deliver(
        &self,
        message: Bytes,
        _: Envelope<'_>,
        recipients: &[Recipient],
    ) -> Vec<Result<(), Undelivered>> {
        let outcomes = Delivery::deliver(self, message, recipients).await;
        outcomes.into_iter().map(|one| one.map(|_| ()).map_err(Undelivered::from)).collect()
    }

    fn message_len_max(&self) -> u64 {
        self.options().message_len_max
    }
}

#[async_trait]
impl MailSink for Filter {
    async fn resolve(&self, address: &str) -> Result<Recipient, ResolveError> {
        Filter::resolve(self, address).await
    }

    async fn deliver(
        &self,
        message: Bytes,
        envelope: Envelope<'_>,
        recipients: &[Recipient],
    ) -> Vec<Result<(), Undelivered>> {
        Filter::deliver(self, message, envelope, recipients).await
    }

    fn message_len_max(&self) -> u64 {
        self.delivery().options().message_len_max
    }

    fn relays(&self) -> bool {
        Filter::relay(self).is_some()
    }

    async fn relay(
        &self,
        message: Bytes,
        from: &ReversePath,
        to: &[&Mailbox],
        smtputf8: bool,
    ) -> Result<(), RelayRefusal> {
        let to: Vec<&str> = to.iter().map(|to| to.as_str()).collect();
        let Some(relay) = Filter::relay(self) else {
            return Err(RelayRefusal::Domain(to.first().map_or_else(String::new, |to| (*to).to_owned())));
        };
        let origin = Origin::User { sender: from.as_str() };
        let accepted = relay.accept(message, from.as_str(), &to, smtputf8, origin).await;
        accepted.map(|_| ()).map_err(|refusal| match refusal {
            Refusal::Loop => RelayRefusal::Loop,
            Refusal::Domain(address) => RelayRefusal::Domain(address),
            Refusal::Queue(QueueError::Delivery(error)) => error.into(),
            Refusal::Queue(QueueError::Store(error)) => DeliveryError::Store(error).into(),
            Refusal::Queue(error) => DeliveryError::Interrupted(error.to_string()).into(),
        })
    }
}
