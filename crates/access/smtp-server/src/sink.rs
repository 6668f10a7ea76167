//! Where messages go: what this crate asks of the rest of the server, so that a test can be a full
//! disk.

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_delivery::{Delivery, DeliveryError, Recipient, ResolveError};

/// Takes mail for local recipients.
#[async_trait]
pub trait MailSink: Send + Sync + 'static {
    /// Where mail for an address goes.
    async fn resolve(&self, address: &str) -> Result<Recipient, ResolveError>;

    /// Keeps one message for all recipients and returns an outcome for each, in their order, once
    /// what succeeded is on disk. Recipients that share an account get one copy.
    async fn deliver(&self, message: Bytes, recipients: &[Recipient]) -> Vec<Result<(), DeliveryError>>;

    /// Octets of the largest message taken, trace headers included.
    fn message_len_max(&self) -> u64;
}

#[async_trait]
impl MailSink for Delivery {
    async fn resolve(&self, address: &str) -> Result<Recipient, ResolveError> {
        Delivery::resolve(self, address).await
    }

    async fn deliver(&self, message: Bytes, recipients: &[Recipient]) -> Vec<Result<(), DeliveryError>> {
        Delivery::deliver(self, message, recipients).await.into_iter().map(|one| one.map(|_| ())).collect()
    }

    fn message_len_max(&self) -> u64 {
        self.options().message_len_max
    }
}
