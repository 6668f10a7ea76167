//! The options of an administrator, and the limits, each with its reason.

use std::collections::HashSet;
use std::time::Duration;

use posthaste_directory::Network;

use crate::postmaster::PostmasterNames;

/// The kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The mail transfer agent next door, trusted to have checked everything (RFC 2033): no AUTH, a
    /// reply for each recipient. Listen where untrusted hosts cannot connect.
    Lmtp,
    /// Our own users, once they have logged in (RFC 6409).
    Submission,
    /// Other hosts that bring mail for our users (RFC 5321): no AUTH, no relaying.
    Smtp,
}

/// The addresses that a user may send as (RFC 6409 §6.1). His own are those of the account: its
/// name, aliases and sub-addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderRule {
    /// The user's own, in MAIL and in each `From` of the message.
    Own,
    /// The user's own in MAIL, any in the message.
    Envelope,
    /// Any.
    Any,
}

/// The connections on which a way to log in may be used in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaintextAuth {
    /// Nowhere, this machine included.
    Never,
    /// Only from loopback.
    LoopbackOnly,
    /// From anywhere: for tests and networks that encrypt below us.
    Anywhere,
}

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct SmtpOptions {
    /// Our own name, in greetings and trace headers.
    pub host: String,
    /// The domain of the first account, which may be another than our name's: a bare `postmaster`
    /// is looked for there as well (RFC 5321 §4.5.1).
    pub domain: Option<String>,
    /// The address that gets mail for a postmaster whose address nobody has: of an account, an
    /// alias or a group. If it takes no mail, or without one, an account does:
    /// [`posthaste_directory::Directory::postmaster`].
    pub postmaster: Option<String>,
    /// Octets of the largest message taken (RFC 1870 §4), without the headers we add. The sink's
    /// own limit counts if it is lower.
    pub message_size_max: usize,
    /// Recipients of one message. RFC 5321 §4.5.3.1.8 requires at least 100; a thousand suits
    /// list servers, and ten times as many would make one transaction hold everyone's mailbox. Long
    /// ones have a bound in bytes, too: 768 KiB of memory.
    pub recipients_max: usize,
    /// Errors a client may make before the connection is closed. Enough for a person at a terminal,
    /// few for someone who guesses addresses or passwords.
    pub errors_max: u32,
    /// Wait for a command (RFC 5321 §4.5.3.2.7: at least 5 minutes).
    pub command_within: Duration,
    /// The same once a user has logged in ([`Role::Submission`]).
    pub silence_within: Duration,
    /// The whole time for the commands before a message, or before a login: three at their longest
    /// wait. A client that sends nothing else holds its connection no longer.
    pub begin_within: Duration,
    /// Wait for the next part of a message. RFC 5321 §4.5.3.2.5 gives the other side 3 minutes to
    /// send one. The sum of its rounds and ours stays under its 10 minutes for the whole.
    pub data_within: Duration,
    /// Wait for the client to take a reply.
    pub write_within: Duration,
    /// Wait for a TLS handshake.
    pub tls_within: Duration,
    /// The senders that a user may name.
    pub sender: SenderRule,
    /// The connections on which passwords may be sent in the clear.
    pub plaintext_auth: PlaintextAuth,
    /// The connections on which SCRAM may run in the clear, in addition to those for passwords.
    pub plaintext_scram: PlaintextAuth,
    /// Whether mail of users who logged in is taken for other domains. A service sets it from its
    /// sink.
    pub relays: bool,
    /// Whether mail of users who logged in is also taken for hosts by their addresses
    /// (`ana@[192.0.2.1]`, RFC 5321 §4.1.3). Without `relays` it is not.
    pub relays_to_addresses: bool,
    /// Domains, in normal form, whose mail is taken from everybody ([`Role::Smtp`]) and sent on to
    /// the server that has their recipients. Without `relays` none is.
    pub relay_domains: HashSet<String>,
    /// Hosts whose senders get reports of success although their mail is not verified: relays of
    /// one's own, and programs of this machine ([`Role::Smtp`]).
    pub trusted_networks: Vec<Network>,
}

impl SmtpOptions {
    /// Defaults, for a server of this name.
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            domain: None,
            postmaster: None,
            message_size_max: 64 * 1024 * 1024,
            recipients_max: 1000,
            errors_max: 20,
            command_within: Duration::from_secs(300),
            silence_within: Duration::from_secs(300),
            begin_within: Duration::from_secs(900),
            data_within: Duration::from_secs(180),
            write_within: Duration::from_secs(300),
            tls_within: Duration::from_secs(30),
            sender: SenderRule::Own,
            plaintext_auth: PlaintextAuth::LoopbackOnly,
            plaintext_scram: PlaintextAuth::LoopbackOnly,
            relays: false,
            relays_to_addresses: false,
            relay_domains: HashSet::new(),
            trusted_networks: Vec::new(),
        }
    }
}

impl SmtpOptions {
    /// The names that decide who the postmaster is.
    pub(crate) fn postmaster_names(&self) -> PostmasterNames<'_> {
        PostmasterNames {
            host: &self.host,
            domain: self.domain.as_deref(),
            configured: self.postmaster.as_deref(),
            is_shared: self.relay_domains.contains(&self.host.to_ascii_lowercase()),
        }
    }
}

/// Octets of a line, CRLF included. RFC 5321 §4.5.3.1.4 requires 512 and more for extensions; RFC
/// 4954 §4 requires 12,288 for a line of an authentication exchange. One limit for both, since a
/// line costs nobody anything.
pub(crate) const LINE_MAX: usize = 12_288 + 2;

/// Octets of a line over the limit that are skipped to find its end; after that we hang up.
pub(crate) const SKIP_MAX: usize = 64 * 1024;

/// Octets read ahead: pipelined commands, or a part of a message.
pub(crate) const READ_AHEAD: usize = 64 * 1024;

/// Octets of messages between two yields to other sessions. Reading them takes some 0.1 ms, and
/// 0.7 ms if each line begins with a dot. While a hundred hosts send at once, everybody else
/// waits for a round of all of them. Half of it would be a yield after each read.
pub(crate) const SLICE_BYTES: usize = 128 * 1024;

/// The octets that a command counts as, so that pipelined commands yield, too.
pub(crate) const COMMAND_OCTETS: usize = SLICE_BYTES / 64;

/// Octets of replies gathered before they are sent although more commands wait.
pub(crate) const REPLIES_MAX: usize = 16 * 1024;

/// Octets of a message that was refused that are read and discarded, so that the client reads the
/// refusal. A client that continues after this many ignores SIZE, and gets no more of our
/// bandwidth.
pub(crate) const DRAIN_MAX: u64 = 128 * 1024 * 1024;
