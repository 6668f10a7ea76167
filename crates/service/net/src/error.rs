//! Errors of the network, and the party at fault.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::Refused;
use crate::proxy::header::Malformed;

/// Errors of this crate. Errors for an administrator name the file or address and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// An address given by the administrator cannot be listened on.
    #[error("cannot listen on {address}: {source}; {}", bind_remedy(.source))]
    Bind {
        /// As configured.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A Unix socket given by the administrator cannot be listened on.
    #[error("cannot listen on unix:{}: {why}", .path.display())]
    UnixSocket {
        /// As configured.
        path: PathBuf,
        /// The fault, and the remedy.
        why: String,
    },
    /// An address given by the administrator cannot be understood.
    #[error(
        "`{given}` is not an address to listen on: {why}; write IP:PORT, [IPV6]:PORT, NAME:PORT or *:PORT"
    )]
    Address {
        /// As configured.
        given: String,
        /// The fault.
        why: String,
    },
    /// A certificate or key file cannot be used.
    #[error("{}: {what}; {remedy}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A listener in TLS mode was started without a certificate.
    #[error(
        "the listener on {0} speaks TLS and has no certificate; configure one or let the server make its own"
    )]
    NoCertificate(SocketAddr),
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// The login ended in the middle of an answer.
    #[error("the login ended in the middle of an answer")]
    LoginEnded,
    /// The peer did not send, or did not read, in time.
    #[error("the peer timed out after {0:?}")]
    TimedOut(Duration),
    /// The read buffer is full and the caller found no command in it.
    #[error("the peer sent more than {max} bytes without a complete command")]
    InputFull {
        /// The bound given to [`Connection::fill`](crate::Connection::fill), bytes.
        max: usize,
    },
    /// Bytes followed the command that requested an upgrade: they would change their meaning by it.
    #[error("{0} bytes were sent after a command that starts TLS or compression")]
    PipelinedUpgrade(usize),
    /// TLS was requested inside TLS or inside compression.
    #[error("TLS cannot be started here")]
    TlsActive,
    /// Compression was requested twice.
    #[error("compression is active already")]
    CompressionActive,
    /// The TLS handshake failed.
    #[error("TLS handshake: {0}")]
    Handshake(io::Error),
    /// A peer that must begin with a PROXY header did not.
    #[error(
        "a proxy must begin with a PROXY header: {0}; have it send one (HAProxy: `send-proxy-v2`), or take its \
         address out of the networks of proxies"
    )]
    NoProxyHeader(Malformed),
    /// There are too many connections from the address that a proxy named.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// All bytes of a [`ByteBudget`](crate::ByteBudget) are in use.
    #[error("too many message bytes are in flight")]
    BudgetExhausted,
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl NetError {
    /// Whether this is an everyday end of a connection (the peer left, or was idle for too long),
    /// not worth a warning.
    pub fn is_ordinary(&self) -> bool {
        match self {
            Self::Closed | Self::LoginEnded | Self::TimedOut(_) => true,
            Self::Handshake(source) | Self::Io(source) => matches!(
                source.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::NotConnected
            ),
            _ => false,
        }
    }
}

fn bind_remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "another program uses it: stop that one or choose another port",
        io::ErrorKind::PermissionDenied => {
            "ports under 1024 need privileges: choose another port or grant CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address: see `ip address`",
        _ => "check the address",
    }
}
