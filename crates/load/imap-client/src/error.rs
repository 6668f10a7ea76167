//! Errors: a connection that cannot be used further, or a command without an answer.

use std::io;

/// A failure, so that the instrument can count it by kind.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection was made.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Host and port that were tried.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// TLS was not agreed on.
    #[error("TLS with {address}: {source}")]
    Tls {
        /// Host and port that were tried.
        address: String,
        /// The error of the TLS library.
        source: io::Error,
    },
    /// Reading or writing failed.
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
    /// The server closed the connection while an answer was due.
    #[error("server closed the connection{}", .bye.as_deref().map(|b| format!(" saying: {b}")).unwrap_or_default())]
    Closed {
        /// Text of its BYE, if it sent one.
        bye: Option<String>,
    },
    /// No complete answer in time.
    #[error("no answer within {seconds} s")]
    Timeout {
        /// The length of the wait.
        seconds: u64,
    },
    /// Bytes that violate the protocol.
    #[error("protocol error, expected {what}: {line}")]
    Garbage {
        /// The expected element.
        what: &'static str,
        /// The start of what came.
        line: String,
    },
    /// The server answered NO or BAD to something that cannot continue without it (greeting,
    /// STARTTLS, login).
    #[error("{what} refused: {text}")]
    Refused {
        /// The refused request.
        what: &'static str,
        /// The server's words.
        text: String,
    },
}

impl Error {
    /// A short stable name, the kind under which results count it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "connect",
            Self::Tls { .. } => "tls",
            Self::Io(_) | Self::Closed { .. } => "connection-lost",
            Self::Timeout { .. } => "timeout",
            Self::Garbage { .. } => "garbage",
            Self::Refused { what: "login", .. } => "login",
            Self::Refused { .. } => "refused",
        }
    }
}
