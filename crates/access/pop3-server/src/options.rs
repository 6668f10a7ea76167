//! The settings of the POP3 server, with their defaults and where each default comes from.

use std::time::Duration;

use posthaste_retention::InboxExpiry;

/// The connections on which a way to log in is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClearTextLogin {
    /// Inside TLS only.
    Never,
    /// Inside TLS, and on connections that never leave this machine.
    #[default]
    Loopback,
    /// Everywhere. Anybody who can read the network traffic can read passwords.
    Always,
}

/// Options of the POP3 server.
#[derive(Clone, Debug)]
pub struct Pop3Options {
    /// The host name in the greeting.
    pub hostname: String,
    /// The connections on which passwords may be sent without TLS.
    pub clear_text_login: ClearTextLogin,
    /// The connections on which SCRAM may run without TLS, in addition to those for passwords.
    pub clear_text_scram: ClearTextLogin,
    /// The longest silence of a client before login.
    pub pre_login_within: Duration,
    /// The timeout of the whole login, from the greeting on.
    pub login_within: Duration,
    /// The longest silence of a client after login. RFC 1939 §3 requires at least 10 minutes.
    pub silence_within: Duration,
    /// The longest time for which a client may leave our output unread.
    pub write_within: Duration,
    /// The timeout of a TLS handshake.
    pub handshake_within: Duration,
    /// The time for which mail stays in the INBOX (RFC 2449 §6.7).
    pub expiry: InboxExpiry,
    /// Least time between two logins of one account (RFC 2449 §6.5); zero for none. Each process
    /// counts its own logins.
    pub login_delay: Duration,
    /// Commands that the server could not understand or had to refuse, after which it closes the
    /// connection. Enough for a person at a terminal, few for a program that guesses.
    pub errors_max: u32,
    /// Failed logins after which it closes the connection.
    pub failed_logins_max: u32,
}

impl Default for Pop3Options {
    fn default() -> Self {
        Self {
            hostname: "localhost".to_owned(),
            clear_text_login: ClearTextLogin::default(),
            clear_text_scram: ClearTextLogin::default(),
            pre_login_within: Duration::from_secs(60),
            login_within: Duration::from_secs(3 * 60),
            silence_within: Duration::from_secs(10 * 60),
            write_within: Duration::from_secs(5 * 60),
            handshake_within: Duration::from_secs(30),
            expiry: InboxExpiry::default(),
            login_delay: Duration::ZERO,
            errors_max: 20,
            failed_logins_max: 5,
        }
    }
}

/// Octets of a line, CRLF included. RFC 2449 §4 allows 255; RFC 5034 §4 requires 12,288 for a
/// line of an authentication exchange. One limit for both: a long line costs little.
pub(crate) const LINE_MAX: usize = 12_288 + 2;

/// Octets of a line over the limit that are skipped to find its end; after that we hang up.
pub(crate) const SKIP_MAX: usize = 64 * 1024;

/// Octets of pipelined commands that are read ahead.
pub(crate) const READ_AHEAD: usize = 16 * 1024;

/// Octets of answers gathered before they are sent. One TLS record is 16 KiB; with four of them the
/// cost of the system call is small compared with printing.
pub(crate) const OUT_BYTES: usize = 64 * 1024;

/// Stretches of a message of at least this size are sent without a copy.
pub(crate) const COPY_BYTES_MAX: usize = 16 * 1024;

/// Messages up to this size are read whole, in one call of the store.
pub(crate) const WHOLE_BYTES_MAX: u64 = 128 * 1024;

/// Bytes of a larger message that are read at a time: four blocks of the store's checksums. A slow
/// client makes the session hold no more.
pub(crate) const PIECE_BYTES: u64 = 256 * 1024;

/// Bytes that are read at a time for TOP: nearly every header, and some lines of the body.
pub(crate) const TOP_PIECE_BYTES: u64 = 32 * 1024;

/// Bytes that are sent between two yields to other sessions: printing them takes less than 2 ms.
pub(crate) const SLICE_BYTES: usize = 1 << 20;

/// The bytes that a command counts for, in addition to its answer. A command takes some 2 µs, and
/// a client may send any number at once.
pub(crate) const COMMAND_BYTES: usize = SLICE_BYTES / 512;
