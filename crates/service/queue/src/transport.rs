//! The interface of the runner to SMTP, so that a test can simulate any host.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_delivery::{DeliveryError, ErrorKind};
use tokio::time::Instant;

use crate::item::{Destination, Item};
use crate::success::Success;

/// Characters of a reply that are kept. It comes from any host, and is written to the log, to the
/// record of the item and to reports. RFC 5321 §4.5.3.1.5 gives a line of a reply 512 octets.
pub const REPLY_CHARS_MAX: usize = 500;

/// A refusal, by the next host or by ourselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whether trying again is of no use (RFC 5321 §4.2.1: a code of 5xx).
    pub permanent: bool,
    /// Status of RFC 3463, as `4.2.2`.
    pub status: String,
    /// The reply, one line for a person: [`REPLY_CHARS_MAX`] at most.
    pub reply: String,
}

impl Failure {
    /// A temporary failure of our own or of the network, with a status of RFC 3463.
    pub fn temporary(status: &str, reply: impl Into<String>) -> Self {
        Self { permanent: false, status: status.to_owned(), reply: cut(reply.into()) }
    }

    /// A permanent one.
    pub fn permanent(status: &str, reply: impl Into<String>) -> Self {
        Self { permanent: true, status: status.to_owned(), reply: cut(reply.into()) }
    }

    /// The answer of a mailbox of this server: see [`ErrorKind`]. The words say nothing about the
    /// store's state, because they come to senders.
    pub fn of_delivery(error: &DeliveryError) -> Self {
        let (status, reply) = match error.kind() {
            ErrorKind::TooLarge => ("5.3.4", "552 5.3.4 The message is too large"),
            ErrorKind::OverQuota => ("4.2.2", "452 4.2.2 The mailbox is full"),
            ErrorKind::NoMailbox => ("5.2.1", "550 5.2.1 The mailbox takes no mail"),
            ErrorKind::Unavailable => ("4.3.1", "452 4.3.1 The mail store could not take it"),
            ErrorKind::Refused => ("5.6.0", "554 5.6.0 The message cannot be stored"),
            ErrorKind::ServerBug => ("4.3.0", "451 4.3.0 A fault of this server"),
        };
        Self { permanent: !error.is_temporary(), status: status.to_owned(), reply: reply.to_owned() }
    }

    /// The next host said nothing about a recipient.
    pub(crate) fn no_answer() -> Self {
        Self::temporary("4.4.2", "the connection ended before an answer")
    }
}

/// The beginning of a reply, which has its code and its status.
fn cut(mut reply: String) -> String {
    let end = reply.char_indices().nth(REPLY_CHARS_MAX).map(|(at, _)| at);
    if let Some(end) = end {
        reply.truncate(end);
        // The memory of the rest is not kept with it.
        reply.shrink_to_fit();
    }
    reply
}

/// A destination cannot be reached: its items wait, or all fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable(
    /// Why. `permanent` if the destination takes no mail at all.
    pub Failure,
);

/// The outcome of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// For each of its recipients, in their order: the success that this server reports to a
    /// sender who requested it. `None` if it does not: the host reports outcomes itself (DSN), or
    /// a script has refused the message.
    pub outcomes: Vec<Result<Option<Success>, Failure>>,
    /// Whether the connection can be used for another message.
    pub usable: bool,
}

/// The time until which this server may send. A renewal of its lease sets it forward.
/// Clones are one. After that another server sends the same messages.
#[derive(Debug, Clone, Default)]
pub struct LeaseEnd(Arc<Mutex<Option<Instant>>>);

impl LeaseEnd {
    /// Sets it.
    pub fn set(&self, at: Instant) {
        *self.0.lock() = Some(at);
    }

    /// The time that is left; `None` if this server alone sends.
    pub fn left(&self) -> Option<Duration> {
        self.0.lock().map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether this server may not send any more.
    pub fn is_over(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}

/// A message on its way, with its share of the memory for all of them. Drop it as soon as the host
/// has its bytes: the share is for others then, however long the host takes to answer.
#[derive(Debug)]
pub struct Body {
    bytes: Bytes,
    lease_end: LeaseEnd,
    _memory: Option<Box<dyn Any + Send + Sync>>,
}

impl Body {
    /// A message. Its share of the memory is given back when `memory` is dropped with it.
    pub fn new(bytes: Bytes, memory: Option<Box<dyn Any + Send + Sync>>) -> Self {
        Self { bytes, lease_end: LeaseEnd::default(), _memory: memory }
    }

    /// The message, not to be sent to its end after this.
    #[must_use]
    pub fn until(self, lease_end: LeaseEnd) -> Self {
        Self { lease_end, ..self }
    }

    /// The end of the lease, after which the channel may not finish the message.
    pub fn lease_end(&self) -> &LeaseEnd {
        &self.lease_end
    }

    /// The message.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A second reference to the bytes, for as long as this one lives.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { bytes: self.bytes.clone(), lease_end: self.lease_end.clone(), _memory: None }
    }
}

/// Reaches destinations.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// The kind of the destination, for metrics: one of a few names.
    fn kind(&self, _destination: &Destination) -> &'static str {
        "host"
    }

    /// Connects to a host that takes mail for a destination.
    async fn connect(&self, destination: &Destination) -> Result<Box<dyn Channel>, Unreachable>;
}

/// A connection that takes one message after the other.
#[async_trait]
pub trait Channel: Send {
    /// The recipients of each transaction, by the places of those who wait. The outcome of one
    /// message is on disk before the next begins.
    fn transactions(&self, item: &Item) -> Vec<Vec<usize>> {
        vec![item.waiting_places().collect()]
    }

    /// Whether the host takes no further transaction on this connection (RFC 9422 §4).
    fn is_spent(&self) -> bool {
        false
    }

    /// Sends a message to the recipients at these places, in one transaction. Limits on time are
    /// the channel's. It does not send the end of a message whose [`Body::lease_end`] is past:
    /// without the end no host has it, and another server sends it.
    async fn send(&mut self, item: &Item, to: &[usize], message: Body) -> Sent;

    /// Says goodbye.
    async fn close(self: Box<Self>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_the_beginning_of_a_long_reply() {
        let fits = "x".repeat(REPLY_CHARS_MAX);
        assert_eq!(Failure::permanent("5.0.0", fits.as_str()).reply, fits);
        // Two octets each: the end is not within a character.
        let failure = Failure::temporary("4.2.0", format!("450 4.2.0 {}", "ü".repeat(1 << 20)));
        assert_eq!(failure.reply.chars().count(), REPLY_CHARS_MAX);
        assert!(failure.reply.starts_with("450 4.2.0 ü") && failure.reply.ends_with('ü'));
        assert!(failure.reply.capacity() < 4 * REPLY_CHARS_MAX);
    }
}
