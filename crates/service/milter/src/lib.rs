//! Programs that read and change messages, by Sendmail's milter protocol, version 6.
//!
//! | module | what |
//! | --- | --- |
//! | `packet` | octets to commands and answers, and back |
//! | `client` | one conversation about one message |
//! | [`draft`] | the message, while filters change it |
//!
//! A filter gets everything in one conversation, when the message is complete: the connection, the
//! greeting, sender, recipients, header and body. So it has no cost before a message is complete.
//! Its answer to one recipient applies to the message.
//!
//! Invariants:
//! * every wait for an answer has a deadline, and the answers of a filter have bounds;
//! * a filter cannot break a message's header, nor write a field that ends early.

mod client;
pub mod draft;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod packet;

pub use client::{Connected, Envelope, Milter, MilterError, Outcome, Said, Verdict};
