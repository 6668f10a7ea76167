//! What an administrator may set of the IMAP server, with the defaults and where each comes from.

use std::time::Duration;

/// Where a way to log in is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClearTextLogin {
    /// Inside TLS only.
    Never,
    /// Inside TLS, and where the connection never leaves this machine.
    #[default]
    Loopback,
    /// Everywhere: passwords can be read by whoever carries the packets.
    Always,
}

/// Options of the IMAP server.
#[derive(Clone, Debug)]
pub struct ImapOptions {
    /// Said in the greeting.
    pub hostname: String,
    /// Where passwords may cross in the clear.
    pub clear_text_login: ClearTextLogin,
    /// Where SCRAM may run in the clear, beside where passwords may cross.
    pub clear_text_scram: ClearTextLogin,
    /// Bytes of one appended message; told as APPENDLIMIT (RFC 7889).
    pub append_bytes_max: u64,
    /// Bytes of all messages of one APPEND together (MULTIAPPEND).
    pub append_total_bytes_max: u64,
    /// How long a session may be silent before login.
    pub pre_login_within: Duration,
    /// How long all of a login may take, from the greeting on.
    pub login_within: Duration,
    /// How long a session may be silent after login: RFC 9051 §5.4 wants at least 30 minutes.
    pub silence_within: Duration,
    /// How long a client may pause in the middle of a command or a literal.
    pub command_within: Duration,
    /// How long a client may leave what we wrote unread.
    pub write_within: Duration,
    /// How long a TLS handshake may take.
    pub handshake_within: Duration,
    /// Bad commands after which we hang up, unless a command that does something succeeds between
    /// them; a quarter of it before login.
    pub bad_commands_max: u32,
    /// What ID tells of us (RFC 2971).
    pub id: Vec<(String, String)>,
}

impl Default for ImapOptions {
    fn default() -> Self {
        Self {
            hostname: "localhost".to_owned(),
            clear_text_login: ClearTextLogin::default(),
            clear_text_scram: ClearTextLogin::default(),
            // What large mail providers take is 25 to 50 MB, a third more in base64. Twice as much
            // and a few clients at once fill a small machine's memory.
            append_bytes_max: 64 << 20,
            append_total_bytes_max: 128 << 20,
            pre_login_within: Duration::from_secs(60),
            login_within: Duration::from_secs(3 * 60),
            silence_within: Duration::from_secs(30 * 60 + 30),
            command_within: Duration::from_secs(5 * 60),
            write_within: Duration::from_secs(5 * 60),
            handshake_within: Duration::from_secs(30),
            bad_commands_max: 20,
            id: vec![
                ("name".to_owned(), "Posthaste".to_owned()),
                ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ],
        }
    }
}
