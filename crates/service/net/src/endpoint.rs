//! Addresses to listen on, and listening on them.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::stream::LOCAL;
use crate::unix::{self, SocketFile};
use crate::{ACCEPT_BACKLOG, NetError, SocketAccess, Stream};

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the clear; the session may offer STARTTLS.
    Plain,
    /// With a TLS handshake (RFC 8314 §3).
    ImplicitTls,
}

/// An address to listen on. Port 0 lets the system choose: [`Listener::local_addr`] says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address to listen on.
    pub address: SocketAddr,
    /// How a connection begins.
    pub mode: Mode,
}

/// The kinds of address to listen on: `127.0.0.1:24`, `[::1]:24` or `unix:/run/lmtp.sock`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SocketAddress {
    /// A port of an address.
    Tcp(SocketAddr),
    /// A Unix socket: the absolute path of its file.
    Unix(PathBuf),
}

impl SocketAddress {
    /// Whether other machines may reach it.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().to_canonical().is_loopback())
    }
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl FromStr for SocketAddress {
    type Err = String;

    /// The error says what to write.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(path) = text.strip_prefix("unix:") else {
            let address = text.parse().map_err(|_| {
                format!("`{text}` is not ADDR:PORT, for example 127.0.0.1:1143 or [::1]:1143")
            })?;
            return Ok(Self::Tcp(address));
        };
        let path = Path::new(path);
        // A server may be started in any directory.
        if !path.is_absolute() || path.file_name().is_none() || text.contains('\0') {
            return Err(format!(
                "`{text}` is not a Unix socket; write unix: and an absolute path, for example \
                 unix:/run/posthaste/lmtp.sock"
            ));
        }
        Ok(Self::Unix(path.to_owned()))
    }
}

/// A bound socket that accepts connections once [`serve`](Self::serve) runs; until then they wait
/// in the backlog, so that `ready` can be printed before.
#[derive(Debug)]
pub struct Listener {
    accepting: Accepting,
    pub(crate) mode: Mode,
    local: SocketAddr,
    address: SocketAddress,
}

#[derive(Debug)]
enum Accepting {
    Tcp(TcpListener),
    Unix {
        unix: UnixListener,
        /// Dropping it removes the file.
        _file: SocketFile,
    },
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Accepted {
    /// Writes what fits without waiting.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.try_write(bytes),
            Self::Unix(unix) => unix.try_write(bytes),
        }
    }

    pub(crate) fn into_stream(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(tcp) => Stream::plain(tcp),
            Self::Unix(unix) => Ok(Stream::unix(unix)),
        }
    }
}

impl Listener {
    /// Binds and listens. Must be called within a Tokio runtime.
    pub fn bind(endpoint: &Endpoint) -> Result<Self, NetError> {
        let address = endpoint.address;
        let named = |source| NetError::Bind { address, source };
        let tcp = listen(address).map_err(named)?;
        let local = tcp.local_addr().map_err(named)?;
        Ok(Self {
            accepting: Accepting::Tcp(tcp),
            mode: endpoint.mode,
            local,
            address: SocketAddress::Tcp(local),
        })
    }

    /// Makes a Unix socket and listens on it, in the clear. The file is removed when the listener
    /// ends. The peers count as this machine's own, and no PROXY header is awaited from them.
    ///
    /// A socket that a dead process left is replaced. One that somebody listens on, and any other
    /// file, is an error. Must be called within a Tokio runtime.
    pub fn bind_unix(path: &Path, access: SocketAccess) -> Result<Self, NetError> {
        let (unix, file) = unix::listen(path, access)?;
        let address = SocketAddress::Unix(path.to_owned());
        Ok(Self {
            accepting: Accepting::Unix { unix, _file: file },
            mode: Mode::Plain,
            local: LOCAL,
            address,
        })
    }

    /// Waits for a connection. Nothing is lost if the wait is dropped.
    pub(crate) async fn accept(&self) -> io::Result<(Accepted, SocketAddr)> {
        match &self.accepting {
            Accepting::Tcp(tcp) => tcp.accept().await.map(|(tcp, peer)| (Accepted::Tcp(tcp), peer)),
            Accepting::Unix { unix, .. } => {
                unix.accept().await.map(|(unix, _)| (Accepted::Unix(unix), LOCAL))
            }
        }
    }

    /// The address on which it listens, with the port the system chose if 0 was requested.
    pub fn address(&self) -> &SocketAddress {
        &self.address
    }

    /// The address bound, with the port the system chose if 0 was requested. For a Unix socket this
    /// is loopback with port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// How its connections begin.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for the old connections' TIME-WAIT.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Each address means itself: 0.0.0.0 and [::] can be listened on side by side.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Reads `IP:PORT`, `[IPV6]:PORT`, `NAME:PORT` (each address the name has) or `*:PORT` (every IPv4
/// and IPv6 address of the machine).
pub fn resolve(given: &str) -> Result<Vec<SocketAddr>, NetError> {
    let wrong = |why: String| NetError::Address { given: given.to_owned(), why };
    if let Ok(address) = given.parse::<SocketAddr>() {
        return Ok(vec![address]);
    }
    let (host, port) = given.rsplit_once(':').ok_or_else(|| wrong("the port is missing".to_owned()))?;
    let port: u16 = port.parse().map_err(|_| wrong(format!("`{port}` is not a port number")))?;
    if host == "*" {
        return Ok(vec![(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()]);
    }
    let mut found: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() { Err(wrong(format!("`{host}` has no address"))) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses() {
        assert_eq!(resolve("127.0.0.1:143").unwrap(), ["127.0.0.1:143".parse().unwrap()]);
        assert_eq!(resolve("[::1]:0").unwrap(), ["[::1]:0".parse().unwrap()]);
        assert_eq!(resolve("*:993").unwrap().len(), 2);
        assert!(resolve("localhost:25").unwrap().iter().all(|address| address.ip().is_loopback()));
        for bad in ["", "143", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", ":x"] {
            let message = resolve(bad).unwrap_err().to_string();
            assert!(message.contains("IP:PORT"), "{message}");
        }
    }

    #[test]
    fn an_address_is_of_ip_or_an_absolute_path() {
        for text in ["127.0.0.1:24", "[::1]:24", "unix:/run/posthaste/lmtp.sock"] {
            let address: SocketAddress = text.parse().unwrap();
            assert!(!address.is_open() && address.to_string() == text, "{address}");
        }
        for text in ["0.0.0.0:24", "[::]:24", "192.0.2.1:24"] {
            assert!(text.parse::<SocketAddress>().unwrap().is_open());
        }
        for text in ["unix:", "unix:/", "unix:lmtp.sock", "unix:/run/..", "unix:/a\0b"] {
            let said = text.parse::<SocketAddress>().unwrap_err();
            assert!(said.contains("absolute path"), "{said}");
        }
        assert!("/run/lmtp.sock".parse::<SocketAddress>().unwrap_err().contains("ADDR:PORT"));
    }

    #[tokio::test]
    async fn reports_the_port_chosen_and_names_the_one_in_use() {
        let endpoint = Endpoint { address: "127.0.0.1:0".parse().unwrap(), mode: Mode::Plain };
        let listener = Listener::bind(&endpoint).unwrap();
        assert_ne!(listener.local_addr().port(), 0);
        let again = Endpoint { address: listener.local_addr(), mode: Mode::Plain };
        let message = Listener::bind(&again).unwrap_err().to_string();
        assert!(message.contains(&listener.local_addr().to_string()), "{message}");
        assert!(message.contains("another program uses it"), "{message}");
    }

    #[tokio::test]
    async fn both_families_share_a_port() {
        let v4 = Endpoint { address: "0.0.0.0:0".parse().unwrap(), mode: Mode::Plain };
        let v4 = Listener::bind(&v4).unwrap();
        let v6 = format!("[::]:{}", v4.local_addr().port()).parse().unwrap();
        match Listener::bind(&Endpoint { address: v6, mode: Mode::Plain }) {
            Ok(_) => {}
            // A machine without IPv6 says so and nothing else.
            Err(NetError::Bind { source, .. }) => assert_ne!(source.kind(), io::ErrorKind::AddrInUse),
            Err(other) => panic!("{other}"),
        }
    }
}
