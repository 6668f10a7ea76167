//! Selects the messages from other hosts that are verified.

use bytes::Bytes;
use posthaste_authentication::{ReservedMemory, Verifier};
use posthaste_directory::Network;
use posthaste_reporting::DmarcReports;

/// The messages that are verified, and the verifier.
#[derive(Clone, Debug)]
pub struct Verification {
    /// Verifies them.
    pub verifier: Verifier,
    /// Hosts here are believed: relays of one's own, and programs of this machine.
    pub trusted_networks: Vec<Network>,
    /// The counters of verdicts, for reports to the authors' domains.
    pub reports: Option<DmarcReports>,
}

/// A message that may be delivered.
pub(crate) struct Verified {
    /// The message, with the field that has the results.
    pub(crate) message: Bytes,
    /// The number of the message's first octets that this server put in front.
    pub(crate) trace_len: usize,
    /// The policy of the author's domain sends it to the junk folder.
    pub(crate) is_quarantined: bool,
    /// The client's name in DNS, if it was looked up and leads back to its address.
    pub(crate) client_name: Option<String>,
    /// Whether the sender gets the reports of success that it requests: it is a user, a trusted
    /// host brings its message, or SPF or DKIM passes for the domain of the reverse path.
    pub(crate) is_sender_proven: bool,
    /// The reserved memory of the copy. The message as it came is kept, too.
    pub(crate) memory: Option<ReservedMemory>,
}
