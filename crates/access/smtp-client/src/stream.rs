//! A connection's bytes: written whole, read by lines, each within a time.

use std::io;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::reply::{LINE_MAX, LINES_MAX, Line, Reply};

/// A connection.
pub(crate) struct Stream {
    bytes: Bytes,
    input: Vec<u8>,
}

enum Bytes {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub fn plain(tcp: TcpStream) -> Self {
        Self { bytes: Bytes::Plain(tcp), input: Vec::new() }
    }

    pub fn tls(tls: TlsStream<TcpStream>) -> Self {
        Self { bytes: Bytes::Tls(Box::new(tls)), input: Vec::new() }
    }

    /// The socket, for a handshake; `None` in TLS, or if the host sent something that nobody has
    /// read. Octets that came in clear must not be taken for octets inside TLS (RFC 3207 §4.2).
    pub fn into_tcp(self) -> Option<TcpStream> {
        match self.bytes {
            Bytes::Plain(tcp) if self.input.is_empty() => Some(tcp),
            _ => None,
        }
    }

    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self.bytes, Bytes::Tls(_))
    }

    /// Writes all of it.
    #[boxed]
    pub async fn write(&mut self, bytes: &[u8], within: Duration) -> io::Result<()> {
        let write = async {
            match &mut self.bytes {
                Bytes::Plain(tcp) => tcp.write_all(bytes).await,
                Bytes::Tls(tls) => {
                    tls.write_all(bytes).await?;
                    tls.flush().await
                }
            }
        };
        timeout(within, write).await.map_err(|_| late("does not accept data"))?
    }

    /// Reads a reply.
    #[boxed]
    pub async fn reply(&mut self, within: Duration) -> io::Result<Reply> {
        timeout(within, self.read_reply()).await.map_err(|_| late("does not answer"))?
    }

    async fn read_reply(&mut self) -> io::Result<Reply> {
        let mut reply: Option<Reply> = None;
        for _ in 0..LINES_MAX {
            let line = self.read_line().await?;
            let line = Line::parse(&line).ok_or_else(not_a_reply)?;
            let mut so_far = reply.take().unwrap_or_else(|| Reply::new(line.code));
            // RFC 5321 §4.2.1: all lines have the same code.
            if so_far.code != line.code {
                return Err(not_a_reply());
            }
            so_far.push(line.text);
            if line.last {
                return Ok(so_far);
            }
            reply = Some(so_far);
        }
        Err(not_a_reply())
    }

    async fn read_line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.input) {
                let mut line: Vec<u8> = self.input.drain(..=end).collect();
                while matches!(line.last(), Some(b'\r' | b'\n')) {
                    line.pop();
                }
                return Ok(line);
            }
            if self.input.len() > LINE_MAX {
                return Err(wrong("a line of its answer is too long"));
            }
            let read = match &mut self.bytes {
                Bytes::Plain(tcp) => tcp.read_buf(&mut self.input).await?,
                Bytes::Tls(tls) => tls.read_buf(&mut self.input).await?,
            };
            if read == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
            }
        }
    }
}

fn late(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

fn not_a_reply() -> io::Error {
    wrong("its answer is not an SMTP reply")
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
