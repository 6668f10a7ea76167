//! Addresses to listen on, and listening on them.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use crate::NetError;

/// Connections the kernel completes while we are busy. A login storm of some thousand clients a
/// second and a pause of a quarter of a second fit; the kernel lowers it to `net.core.somaxconn`
/// (4,096 as Linux ships).
pub const ACCEPT_BACKLOG: i32 = 4096;

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the clear; the session may offer STARTTLS.
    Plain,
    /// With a TLS handshake (RFC 8314 §3).
    ImplicitTls,
}

/// An address to listen on. Port 0 lets the system choose: [`Listener::local_addr`] tells which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where.
    pub address: SocketAddr,
    /// How.
    pub mode: Mode,
}

/// A bound socket that accepts connections once [`serve`](Self::serve) runs; until then they wait
/// in the backlog, so that `ready` can be said before.
#[derive(Debug)]
pub struct Listener {
    pub(crate) tcp: TcpListener,
    pub(crate) mode: Mode,
    local: SocketAddr,
}

impl Listener {
    /// Binds and listens. Must be called within a Tokio runtime.
    pub fn bind(endpoint: &Endpoint) -> Result<Self, NetError> {
        let address = endpoint.address;
        let named = |source| NetError::Bind { address, source };
        let tcp = listen(address).map_err(named)?;
        let local = tcp.local_addr().map_err(named)?;
        Ok(Self { tcp, mode: endpoint.mode, local })
    }

    /// The address bound, with the port the system chose if 0 was asked for.
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
