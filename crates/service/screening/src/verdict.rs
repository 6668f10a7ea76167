//! Verdicts on a host.

use std::net::IpAddr;
use std::time::Duration;

use crate::greeting;

/// Why a host's mail is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A list has the address.
    #[error("{address} is on the list {zone}{}", reason_text(.reason))]
    Listed {
        /// The host's.
        address: IpAddr,
        /// The list.
        zone: String,
        /// The list's text about it; may be empty.
        reason: String,
    },
    /// The greeting cannot be true.
    #[error("{0}")]
    Greeting(greeting::GreetingFault),
    /// The address, or the sender, has used up its hour.
    #[error("too many messages from {from}; try again in {} min", minutes(.again_in))]
    Messages {
        /// Which of both.
        from: String,
        /// When it has room again.
        again_in: Duration,
    },
    /// The address named too many recipients that do not exist.
    #[error("too many unknown recipients from {address}; try again in {} min", minutes(.again_in))]
    Recipients {
        /// The host's.
        address: IpAddr,
        /// When it has room again.
        again_in: Duration,
    },
    /// The host is new and has to come again.
    #[error("greylisted; try again in {} min", minutes(.0))]
    Greylisted(Duration),
}

impl Refusal {
    /// Whether trying again is of no use.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Listed { .. } | Self::Greeting(_))
    }
}

fn reason_text(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

fn minutes(wait: &Duration) -> u64 {
    wait.as_secs().div_ceil(60).max(1)
}

/// The verdict of the lists and the greeting on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing against it.
    Good,
    /// Its mail goes to the junk folder: a list with that setting has the host.
    Junk,
    /// Mail of the host is refused.
    Refused(Refusal),
}
