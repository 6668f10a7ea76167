//! How a client reaches a listener: in the clear or inside TLS, by itself or through a proxy. TLS
//! begins at once, or by STARTTLS.

use std::io::{Error, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use posthaste_testkit::{LineClient, Random, Server};

use crate::stage::socket_of;

/// The proxy, from which the server takes PROXY headers: see `play`.
pub const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// A client behind it (RFC 5737 §3).
const HEADER: &[u8] = b"PROXY TCP4 198.51.100.7 198.51.100.1 4711 995\r\n";

/// A way to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    is_encrypted: bool,
    is_proxied: bool,
    /// Whether a client of IMAP begins TLS by STARTTLS.
    is_upgraded: bool,
}

impl Way {
    /// In the clear, by itself.
    pub const PLAIN: Self = Self { is_encrypted: false, is_proxied: false, is_upgraded: false };

    /// Any of four.
    pub fn pick(random: &mut Random) -> Self {
        Self { is_encrypted: random.one_in(2), is_proxied: random.one_in(2), is_upgraded: false }
    }

    /// Any of three for IMAP. None goes through the proxy: the wrong passwords of bursts would have
    /// the client behind it throttled, whose logins by other protocols must succeed.
    pub fn pick_imap(random: &mut Random) -> Self {
        Self { is_encrypted: random.one_in(2), is_proxied: false, is_upgraded: random.one_in(2) }
    }

    /// Whether the client is inside TLS.
    pub fn is_encrypted(self) -> bool {
        self.is_encrypted
    }

    /// A client of IMAP, after its greeting. STARTTLS: RFC 9051 §6.2.1.
    pub fn imap(self, server: &Server) -> Result<LineClient> {
        if !(self.is_encrypted && self.is_upgraded) {
            let mut client = self.connect(server, "imap")?;
            client.line()?;
            return Ok(client);
        }
        let mut client = self.client(server.address("imap"))?;
        client.line()?;
        match client.imap("STARTTLS")?.pop() {
            Some(line) if line.starts_with("t OK") => client.tls(),
            last => Err(Error::other(format!("STARTTLS: {last:?}"))),
        }
    }

    /// A client of IMAP, POP3 or submission, whose greeting was not read. TLS begins at once.
    pub fn connect(self, server: &Server, protocol: &str) -> Result<LineClient> {
        match self.is_encrypted {
            true => self.client(server.address(&format!("{protocol}s")))?.tls(),
            false => self.client(server.address(protocol)),
        }
    }

    /// A client of ManageSieve, after its greeting. It has STARTTLS alone: RFC 5804 §2.2.
    pub fn sieve(self, server: &Server) -> Result<LineClient> {
        let mut client = self.client(server.address("sieve"))?;
        until_ok(&mut client)?;
        if self.is_encrypted {
            client.send(b"STARTTLS\r\n")?;
            until_ok(&mut client)?;
            client = client.tls()?;
            until_ok(&mut client)?;
        }
        Ok(client)
    }

    fn client(self, address: SocketAddr) -> Result<LineClient> {
        if !self.is_proxied {
            return LineClient::over(TcpStream::connect(address)?);
        }
        let mut socket = socket_of(PROXY, address)?;
        socket.write_all(HEADER)?;
        LineClient::over(socket)
    }
}

/// Reads a greeting, or capabilities.
fn until_ok(client: &mut LineClient) -> Result<()> {
    loop {
        let line = client.line()?;
        if line.starts_with("OK") {
            return Ok(());
        }
        if line.starts_with("NO") || line.starts_with("BYE") {
            return Err(Error::other(line));
        }
    }
}
