//! How the queue reaches other hosts: what the runner needs of SMTP, so that a test can be any
//! host.

use async_trait::async_trait;
use bytes::Bytes;

use crate::item::{Destination, Item};

/// A refusal, by the next host or by ourselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whether trying again is of no use (RFC 5321 §4.2.1: a code of 5xx).
    pub permanent: bool,
    /// Status of RFC 3463, as `4.2.2`.
    pub status: String,
    /// The reply, one line for a person.
    pub reply: String,
}

impl Failure {
    /// A temporary failure of our own or of the network, with a status of RFC 3463.
    pub fn temporary(status: &str, reply: impl Into<String>) -> Self {
        Self { permanent: false, status: status.to_owned(), reply: reply.into() }
    }

    /// A permanent one.
    pub fn permanent(status: &str, reply: impl Into<String>) -> Self {
        Self { permanent: true, status: status.to_owned(), reply: reply.into() }
    }

    /// The next host said nothing about a recipient.
    pub(crate) fn no_answer() -> Self {
        Self::temporary("4.4.2", "the connection ended before an answer")
    }
}

/// A destination cannot be reached: its items wait, or all fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable(
    /// Why. `permanent` if the destination takes no mail at all.
    pub Failure,
);

/// What became of one message on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// For each recipient that waited, in their order.
    pub outcomes: Vec<Result<(), Failure>>,
    /// Whether the host reports outcomes itself (DSN): it was given what the sender asked for.
    pub reports: bool,
    /// Whether the connection can be used for another message.
    pub usable: bool,
}

/// Reaches destinations.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Connects to a host that takes mail for a destination.
    async fn connect(&self, destination: &Destination) -> Result<Box<dyn Channel>, Unreachable>;
}

/// A connection that takes one message after the other.
#[async_trait]
pub trait Channel: Send {
    /// Sends a message to those recipients of an item that wait. Limits on time are the channel's.
    async fn send(&mut self, item: &Item, message: Bytes) -> Sent;

    /// Says goodbye.
    async fn close(self: Box<Self>);
}
