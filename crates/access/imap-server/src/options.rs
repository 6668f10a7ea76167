//! The settings of the IMAP server, with their defaults and where each default comes from.

use std::time::Duration;

use crate::progress::ProgressTimes;

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

/// Options of the IMAP server.
#[derive(Clone, Debug)]
pub struct ImapOptions {
    /// The host name in the greeting.
    pub hostname: String,
    /// The connections on which passwords may be sent without TLS.
    pub clear_text_login: ClearTextLogin,
    /// The connections on which SCRAM may run without TLS, in addition to those for passwords.
    pub clear_text_scram: ClearTextLogin,
    /// Bytes of one appended message; announced as APPENDLIMIT (RFC 7889).
    pub append_bytes_max: u64,
    /// Bytes of all messages of one APPEND together (MULTIAPPEND).
    pub append_total_bytes_max: u64,
    /// Whether a session may log out and in again: UNAUTHENTICATE (RFC 8437 §8 requires a
    /// switch).
    pub unauthenticate: bool,
    /// Whether X-GM-EXT-1 is announced. Its items are understood in any case.
    pub gmail: bool,
    /// Whether messages may have annotations (ANNOTATE-EXPERIMENT-1). If not, no record is read.
    pub annotations: bool,
    /// The longest silence of a client before login.
    pub pre_login_within: Duration,
    /// The timeout of the whole login, from the greeting on.
    pub login_within: Duration,
    /// The longest silence of a client after login: RFC 9051 §5.4 requires at least 30 minutes.
    pub silence_within: Duration,
    /// The longest pause of a client in the middle of a command or a literal.
    pub command_within: Duration,
    /// The longest time for which a client may leave our output unread.
    pub write_within: Duration,
    /// The times at which the progress of a long command is reported (RFC 9585).
    pub progress: ProgressTimes,
    /// The timeout of a TLS handshake.
    pub handshake_within: Duration,
    /// Bad commands after which the server closes the connection. A successful command other than
    /// NOOP, CAPABILITY or ID resets the count. Before login a quarter of it applies.
    pub bad_commands_max: u32,
    /// Messages that one command processes: MESSAGELIMIT (RFC 9738). 0 is no limit. An account may
    /// have one of its own.
    pub message_limit: u32,
    /// Messages that one command adds: SAVELIMIT (RFC 9738). Means nothing with `message_limit`.
    pub save_limit: u32,
    /// Messages that one COPY, MOVE or RENAME of INBOX takes. All of them are one commit, since a
    /// COPY is done as a whole or not at all (RFC 9051 §6.4.7). If the budget of summaries holds
    /// fewer, fewer may be copied: see `copies`.
    pub copied_max: u64,
    /// Mailboxes whose changes NOTIFY reports at once. After more of them, the session gets
    /// NOTIFICATIONOVERFLOW (RFC 5465 §5.8).
    pub notify_mailboxes_max: usize,
    /// A text about the server for its users: `/shared/comment` (RFC 5464 §3.2.1.1).
    pub comment: Option<String>,
    /// A URI by which users reach the administrator: `/shared/admin` (RFC 5464 §3.2.1.1).
    pub admin: Option<String>,
    /// The URL of the JMAP session of the same mail (RFC 9698). Without it, JMAPACCESS is not
    /// announced.
    pub jmap_url: Option<String>,
    /// The server's answer to ID (RFC 2971).
    pub id: Vec<(String, String)>,
}

impl Default for ImapOptions {
    fn default() -> Self {
        Self {
            hostname: "localhost".to_owned(),
            clear_text_login: ClearTextLogin::default(),
            clear_text_scram: ClearTextLogin::default(),
            // Large mail providers accept 25 to 50 MB, which base64 increases by a third. With
            // twice as much, a few clients at once fill a small machine's memory.
            append_bytes_max: 64 << 20,
            append_total_bytes_max: 128 << 20,
            unauthenticate: true,
            gmail: true,
            annotations: true,
            pre_login_within: Duration::from_secs(60),
            login_within: Duration::from_secs(3 * 60),
            silence_within: Duration::from_secs(30 * 60 + 30),
            command_within: Duration::from_secs(5 * 60),
            write_within: Duration::from_secs(5 * 60),
            progress: ProgressTimes::default(),
            handshake_within: Duration::from_secs(30),
            bad_commands_max: 20,
            // A client synchronises by one LIST with STATUS. It costs less than more responses one
            // by one.
            notify_mailboxes_max: 1000,
            message_limit: 0,
            save_limit: 0,
            copied_max: 500_000,
            comment: None,
            admin: None,
            jmap_url: None,
            id: vec![
                ("name".to_owned(), "Posthaste".to_owned()),
                ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ],
        }
    }
}
