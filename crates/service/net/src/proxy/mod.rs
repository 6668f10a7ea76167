//! The header in which a proxy names its client: PROXY protocol versions 1 and 2 (HAProxy,
//! `proxy-protocol.txt`).
//!
//! A header decides which address is throttled, logged and trusted. So it is read only on
//! connections from the networks that the administrator named. There it is required. Without it,
//! all clients behind the proxy would have one address. The header comes first, even before a TLS
//! handshake.
//!
//! Invariants: no byte after the header is read from the socket. No header is longer than
//! [`header::LENGTH_MAX`]. The whole header comes within [`HEADER_WITHIN`].

pub(crate) mod header;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use self::header::{Header, Malformed, Prefix};
use crate::NetError;

/// Time for the header. A proxy sends it with its first packet; the specification (§2) requires
/// at least 3 s, so that a lost packet can be sent again. Twice this only delays the end of a
/// peer that is no proxy.
pub const HEADER_WITHIN: Duration = Duration::from_secs(5);

/// Bytes read ahead at first. A header without extensions has at most 232 (version 2 with Unix
/// addresses); a longer one has its buffer grown.
const FIRST_LOOK: usize = 256;

/// Both ends of a connection, as the session sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Takes the header off the socket; none if the proxy speaks for itself (a health check), or cannot
/// name its client by an IP address.
pub(crate) async fn read(tcp: &mut TcpStream, within: Duration) -> Result<Option<Endpoints>, NetError> {
    let header = match tokio::time::timeout(within, read_header(tcp)).await {
        Ok(outcome) => outcome?,
        Err(_) => return Err(NetError::NoProxyHeader(Malformed::Missing(within))),
    };
    Ok(match header {
        Header::Own => None,
        Header::For { source, destination } => {
            let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
            Some(Endpoints { peer: canonical(source), local: canonical(destination) })
        }
    })
}

/// Reads the bytes that have come, takes those of the header, and waits for more as long as it is
/// not complete.
async fn read_header(tcp: &mut TcpStream) -> Result<Header, NetError> {
    let mut bytes = vec![0; FIRST_LOOK];
    let mut taken = 0;
    loop {
        if taken == bytes.len() {
            bytes.resize((taken * 2).min(header::LENGTH_MAX), 0);
        }
        let seen = taken + tcp.peek(&mut bytes[taken..]).await?;
        if seen == taken {
            return Err(NetError::Closed);
        }
        let (length, found) = match header::parse(&bytes[..seen]).map_err(NetError::NoProxyHeader)? {
            Prefix::Whole { length, header } => (length, Some(header)),
            // All of it belongs to the header: taken, so that the next read waits for the rest.
            Prefix::Part => (seen, None),
        };
        tcp.read_exact(&mut bytes[taken..length]).await?;
        taken = length;
        if let Some(header) = found {
            return Ok(header);
        }
    }
}
