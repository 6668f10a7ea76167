//! Selects the messages from other hosts that milters get.

use posthaste_directory::Network;
use posthaste_milter::Milter;

use crate::scanning::IfUnscanned;

/// Programs that see each message, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Milters {
    /// The milters, each with the fate of a message that it does not answer about.
    pub all: Vec<(Milter, IfUnscanned)>,
    /// Hosts whose mail is not shown.
    pub trusted_networks: Vec<Network>,
}
