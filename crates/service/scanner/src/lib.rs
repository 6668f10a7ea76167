//! The verdict of a spam scanner on a message, and its effects.
//!
//! | module | what |
//! | --- | --- |
//! | `rspamd` | queries rspamd over HTTP |
//! | `fields` | the header fields that the scanner adds and removes |
//!
//! Invariants:
//! * An answer has a deadline and a bound on its size.
//! * A scanner cannot break a message's header, nor write fields in our name: those of
//!   `fields::OURS` stay as they are.

mod fields;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod rspamd;

use std::net::IpAddr;

pub use fields::FieldChanges;
pub use rspamd::{Rspamd, ScanError, UrlError};

/// The envelope of a message, as the client gave it.
#[derive(Clone, Debug)]
pub struct Envelope<'e> {
    /// Our own name of the message, for both logs.
    pub id: &'e str,
    /// The client's address.
    pub address: IpAddr,
    /// The client's name in DNS, if it leads back to the address.
    pub name: Option<&'e str>,
    /// The client's name in EHLO or HELO.
    pub helo: &'e str,
    /// The sender; empty for a report.
    pub from: &'e str,
    /// All recipients.
    pub to: Vec<&'e str>,
}

/// The verdict on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is delivered.
    Accept,
    /// It goes to the junk folder.
    Junk,
    /// It is deferred, for this reason.
    Defer(String),
    /// It is refused, for this reason.
    Reject(String),
}

/// The result of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// The verdict.
    pub verdict: Verdict,
    /// The score: the higher it is, the more likely the message is junk.
    pub score: f64,
    /// The score from which the scanner refuses a message.
    pub required: f64,
    /// Fields to add and remove.
    pub fields: FieldChanges,
}
