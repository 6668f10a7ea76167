//! Which messages from other hosts a spam scanner is shown.

use posthaste_directory::Network;
use posthaste_scanner::Rspamd;

/// Which messages are scanned, and by which scanner.
#[derive(Clone, Debug)]
pub struct Scanning {
    /// Scans them.
    pub scanner: Rspamd,
    /// What becomes of a message that the scanner does not answer about.
    pub if_unscanned: IfUnscanned,
    /// Hosts whose mail is not scanned.
    pub trusted_networks: Vec<Network>,
}

/// What becomes of a message without a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfUnscanned {
    /// It is delivered.
    Accept,
    /// It is put off (451).
    Defer,
}
