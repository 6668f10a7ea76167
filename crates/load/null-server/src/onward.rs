//! Mail for accounts on its way from a relay to the server that has them: by LMTP (RFC 2033).

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Idle connections that are kept, as an MTA would.
const IDLE_MAX: usize = 16;
/// The longest reply taken: RFC 5321 §4.5.3.1.5 allows lines of 512 octets.
const REPLY_BYTES_MAX: usize = 16 * 1024;

/// The server that has the accounts.
pub(crate) struct Onward {
    lmtp: SocketAddr,
    /// The domain whose mail stays at the relay.
    elsewhere: String,
    idle: Mutex<Vec<Lmtp>>,
}

/// A connection, after its greeting.
struct Lmtp {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Onward {
    pub(crate) fn new(lmtp: SocketAddr, elsewhere: &str) -> Self {
        Self { lmtp, elsewhere: elsewhere.to_owned(), idle: Mutex::default() }
    }

    /// Whether mail to this address stays at the relay.
    pub(crate) fn is_elsewhere(&self, address: &str) -> bool {
        address.rsplit_once('@').is_some_and(|(_, domain)| domain.eq_ignore_ascii_case(&self.elsewhere))
    }

    /// Delivers a message, still dot-stuffed and with its last dot.
    pub(crate) async fn deliver(&self, from: &str, to: &[String], mail: &[u8]) -> io::Result<()> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let begun = match idle {
            Some(mut lmtp) => lmtp.begin(from, to).await.map(|()| lmtp),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        // An idle connection may have been closed meanwhile. Nothing was delivered on it.
        let mut lmtp = match begun {
            Ok(lmtp) => lmtp,
            Err(_) => {
                let mut lmtp = Lmtp::connect(self.lmtp).await?;
                lmtp.begin(from, to).await?;
                lmtp
            }
        };
        lmtp.stream.write_all(mail).await?;
        // A reply for each recipient (RFC 2033 §4.2).
        for _ in to {
            lmtp.expect(b'2').await?;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(lmtp);
        }
        Ok(())
    }
}

impl Lmtp {
    async fn connect(at: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(at).await?;
        stream.set_nodelay(true)?;
        let mut lmtp = Self { stream, input: Vec::new() };
        lmtp.expect(b'2').await?;
        lmtp.stream.write_all(b"LHLO relay.invalid\r\n").await?;
        lmtp.expect(b'2').await?;
        Ok(lmtp)
    }

    /// MAIL, RCPT and DATA, up to the server's readiness for the message.
    async fn begin(&mut self, from: &str, to: &[String]) -> io::Result<()> {
        self.stream.write_all(format!("MAIL FROM:<{from}>\r\n").as_bytes()).await?;
        self.expect(b'2').await?;
        for address in to {
            self.stream.write_all(format!("RCPT TO:<{address}>\r\n").as_bytes()).await?;
            self.expect(b'2').await?;
        }
        self.stream.write_all(b"DATA\r\n").await?;
        self.expect(b'3').await
    }

    /// Reads one reply, all its lines, which begins with this digit.
    async fn expect(&mut self, digit: u8) -> io::Result<()> {
        loop {
            let Some(newline) = memchr::memchr(b'\n', &self.input) else {
                if self.input.len() > REPLY_BYTES_MAX || self.stream.read_buf(&mut self.input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                continue;
            };
            let line: Vec<u8> = self.input.drain(..=newline).collect();
            if line.get(3) == Some(&b'-') {
                continue;
            }
            return match line.first() == Some(&digit) {
                true => Ok(()),
                false => Err(io::Error::other(String::from_utf8_lossy(&line).trim_end().to_owned())),
            };
        }
    }
}
