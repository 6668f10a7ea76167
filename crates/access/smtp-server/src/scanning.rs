//! Selects the messages from other hosts that a spam scanner gets.

use posthaste_directory::Network;
use posthaste_scanner::Rspamd;

/// The messages that are scanned, and the scanner.
#[derive(Clone, Debug)]
pub struct Scanning {
    /// Scans them.
    pub scanner: Rspamd,
    /// The treatment of a message about which the scanner does not answer.
    pub if_unscanned: IfUnscanned,
    /// Hosts whose mail is not scanned.
    pub trusted_networks: Vec<Network>,
}

/// The treatment of a message without a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfUnscanned {
    /// The message is delivered.
    Accept,
    /// The message is deferred (451).
    Defer,
}
