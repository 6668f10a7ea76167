//! The destination of messages: a trait for the rest of the server, so that a test can simulate a
//! full disk.

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_authentication::Origin;
use posthaste_delivery::{Delivery, DeliveryError, Recipient, ResolveError, UrlPart, UrlReader, UrlRefusal};
use posthaste_directory::Target;
use posthaste_filter::{Delivered, Envelope, Filter, Undelivered};
use posthaste_queue::{Envelope as Outgoing, Local, Missed, QueueError, Refusal, Success};

/// The reason why a message for other domains was not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RelayRefusal {
    /// The message has passed through too many hosts.
    #[error("the message is in a mail loop")]
    Loop,
    /// A recipient without a domain that could be looked up.
    #[error("{0} has no domain that mail could be sent to")]
    Domain(String),
    /// Too many octets of its account wait already.
    #[error(
        "messages of the account that wait would have more than {limit} octets (`limits.account_queued`)"
    )]
    AccountFull {
        /// The limit.
        limit: u64,
    },
    /// The queue has as many messages as it may have.
    #[error("the queue has no room for more messages")]
    QueueFull,
    /// The message could not be kept.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
}

impl From<QueueError> for RelayRefusal {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Delivery(error) => error.into(),
            QueueError::Store(error) => DeliveryError::Store(error).into(),
            QueueError::AccountFull { limit, .. } => Self::AccountFull { limit },
            QueueError::Full { .. } => Self::QueueFull,
            error => DeliveryError::Interrupted(error.to_string()).into(),
        }
    }
}

/// The origin of a message to other domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayOrigin {
    /// A user who logged in.
    User,
    /// Another host, for a domain that this server takes mail for.
    Host,
}

/// Takes mail.
#[async_trait]
pub trait MailSink: Send + Sync + 'static {
    /// The target of mail for an address.
    async fn resolve(&self, address: &str) -> Result<Target, ResolveError>;

    /// Whether a recipient has room for a message that has not come yet, as far as that is known.
    async fn has_room(&self, _to: &Target, _octets: u64) -> Result<(), DeliveryError> {
        Ok(())
    }

    /// Keeps one message for all recipients and returns an outcome for each, in their order, once
    /// what succeeded is on disk. Recipients that share an account get one copy, in addition to
    /// what a group brings it.
    async fn deliver(&self, message: Bytes, envelope: Envelope<'_>, recipients: &[Target]) -> Vec<Delivered>;

    /// Finds what an authorised URL names: RFC 4468.
    async fn find_url(&self, _reader: UrlReader<'_>, _url: &str) -> Result<UrlPart, UrlRefusal> {
        Err(UrlRefusal::Bad("there are no URLs here".to_owned()))
    }

    /// Reads the next bytes of a part, from an offset. No bytes: the part ends there.
    async fn read_url(&self, _part: &UrlPart, _at: u64) -> Result<Bytes, DeliveryError> {
        Ok(Bytes::new())
    }

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
        envelope: Outgoing,
        _origin: RelayOrigin,
    ) -> Result<(), RelayRefusal> {
        Err(no_relay(&envelope))
    }

    /// Takes over local recipients that a message has not reached, while it has reached others.
    /// Returns once that is on disk. Recipients that failed for now get it later, and the sender
    /// gets a report about the others. The message has no Return-Path.
    async fn take_over(
        &self,
        _message: Bytes,
        envelope: &Outgoing,
        _missed: Vec<Missed>,
        _here: Local,
    ) -> Result<(), RelayRefusal> {
        Err(no_relay(envelope))
    }

    /// Reports the outcome to the sender, for those of these recipients for whom a report was
    /// requested (RFC 3461 §5.2).
    async fn report_success(&self, _message: &Bytes, _envelope: &Outgoing, _success: Success) {}
}

#[async_trait]
impl MailSink for Delivery {
    async fn resolve(&self, address: &str) -> Result<Target, ResolveError> {
        Delivery::resolve(self, address).await.map(Target::Account)
    }

    async fn has_room(&self, to: &Target, octets: u64) -> Result<(), DeliveryError> {
        match to {
            Target::Account(recipient) => Delivery::has_room(self, &recipient.account, octets).await,
            Target::Group(_) => Ok(()),
        }
    }

    async fn deliver(&self, message: Bytes, _: Envelope<'_>, recipients: &[Target]) -> Vec<Delivered> {
        // It resolves no group.
        let accounts = recipients.iter().filter_map(|target| match target {
            Target::Account(recipient) => Some(recipient.clone()),
            Target::Group(_) => None,
        });
        let accounts: Vec<Recipient> = accounts.collect();
        let outcomes = Delivery::deliver(self, message, &accounts).await;
        let kept = |one: Result<_, DeliveryError>| one.map(|_| Some(Success::Delivered));
        outcomes.into_iter().map(|one| kept(one).map_err(Undelivered::from)).collect()
    }

    async fn find_url(&self, reader: UrlReader<'_>, url: &str) -> Result<UrlPart, UrlRefusal> {
        Delivery::find_url(self, reader, url).await
    }

    async fn read_url(&self, part: &UrlPart, at: u64) -> Result<Bytes, DeliveryError> {
        self.read_url_at(part, at).await
    }

    fn message_len_max(&self) -> u64 {
        self.options().message_len_max
    }
}

#[async_trait]
impl MailSink for Filter {
    async fn resolve(&self, address: &str) -> Result<Target, ResolveError> {
        self.target(address).await
    }

    async fn has_room(&self, to: &Target, octets: u64) -> Result<(), DeliveryError> {
        match to {
            // A script may keep nothing, and so may a forward without a copy.
            Target::Account(recipient) if self.keeps_a_copy(&recipient.account) => {
                self.delivery().has_room(&recipient.account, octets).await
            }
            _ => Ok(()),
        }
    }

    async fn deliver(&self, message: Bytes, envelope: Envelope<'_>, recipients: &[Target]) -> Vec<Delivered> {
        self.deliver_to(message, envelope, recipients).await
    }

    async fn find_url(&self, reader: UrlReader<'_>, url: &str) -> Result<UrlPart, UrlRefusal> {
        self.delivery().find_url(reader, url).await
    }

    async fn read_url(&self, part: &UrlPart, at: u64) -> Result<Bytes, DeliveryError> {
        self.delivery().read_url_at(part, at).await
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
        envelope: Outgoing,
        origin: RelayOrigin,
    ) -> Result<(), RelayRefusal> {
        let Some(relay) = Filter::relay(self) else { return Err(no_relay(&envelope)) };
        let sender = envelope.from.clone();
        let origin = match origin {
            RelayOrigin::User => Origin::User { sender: &sender },
            // A host that claims to be of a domain of ours gets no signature for it.
            RelayOrigin::Host => Origin::Elsewhere { results: None, forwarder: "" },
        };
        let accepted = relay.accept(message, envelope, origin).await;
        accepted.map(|_| ()).map_err(|refusal| match refusal {
            Refusal::Loop => RelayRefusal::Loop,
            Refusal::Domain(address) => RelayRefusal::Domain(address),
            Refusal::Queue(error) => error.into(),
        })
    }

    async fn take_over(
        &self,
        message: Bytes,
        envelope: &Outgoing,
        missed: Vec<Missed>,
        here: Local,
    ) -> Result<(), RelayRefusal> {
        let Some(relay) = Filter::relay(self) else { return Err(no_relay(envelope)) };
        relay.take_over(message, envelope, missed, here).await?;
        Ok(())
    }

    async fn report_success(&self, message: &Bytes, envelope: &Outgoing, success: Success) {
        let Some(relay) = Filter::relay(self) else { return };
        if let Err(error) = relay.report_success(message, envelope, success).await {
            // The message is delivered. If its client got an error, it would send it again.
            tracing::error!(from = envelope.from, %error, "the report of a delivery is lost");
        }
    }
}

/// The answer of a sink that relays nothing.
fn no_relay(envelope: &Outgoing) -> RelayRefusal {
    let first = envelope.to.first().map(|to| to.address.clone());
    debug_assert!(first.is_some(), "a message without recipients came to the relay");
    RelayRefusal::Domain(first.unwrap_or_default())
}
