//! The kinds of success: a recipient got a message.

use serde::{Deserialize, Serialize};

/// The outcome of a message for a recipient that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Success {
    /// The message is in a mailbox, or a list has it, which sends it under a sender of its own
    /// (RFC 3461 §5.2.7.1).
    Delivered,
    /// The message was sent on to one other address, or handed to a host that reports no success.
    SentOn,
    /// The message was sent on to several addresses (RFC 3461 §5.2.7.3).
    Expanded,
}

impl Success {
    /// All outcomes.
    pub const ALL: [Self; 3] = [Self::Delivered, Self::SentOn, Self::Expanded];
}
