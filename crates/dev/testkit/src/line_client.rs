//! A client that speaks in lines. Enough for a test to be an SMTP, LMTP or IMAP peer without a
//! library between it and the bytes. Every read has a deadline.

use std::io::{BufRead, BufReader, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::socket::Socket;

/// Longest any answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A literal, and the line that announced it.
pub type Literal = (String, Vec<u8>);

/// A connection that reads lines.
pub struct LineClient {
    stream: BufReader<Socket>,
}

impl LineClient {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        Self::over(TcpStream::connect_timeout(&address, TIMEOUT)?)
    }

    /// A connection that was made in another way. Nothing was read from it.
    pub fn over(stream: TcpStream) -> Result<Self> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(Socket::Plain(stream)) })
    }

    /// Does a handshake of TLS, at once or after STARTTLS. Every certificate is accepted.
    #[cfg(feature = "tls")]
    pub fn tls(self) -> Result<Self> {
        if !self.stream.buffer().is_empty() {
            return Err(std::io::Error::other("octets came before the handshake"));
        }
        match self.stream.into_inner() {
            Socket::Plain(stream) => {
                let stream = crate::tls::handshake(stream)?;
                Ok(Self { stream: BufReader::new(Socket::Tls(Box::new(stream))) })
            }
            Socket::Tls(_) => Err(std::io::Error::other("the connection is inside TLS already")),
        }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// One line without its CRLF. An end of the connection is an error.
    pub fn line(&mut self) -> Result<String> {
        let line = self.raw_line()?;
        Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// One line with its end, octet by octet. An end of the connection is an error.
    pub fn raw_line(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    /// Exactly `count` bytes, as after a literal's `{count}`.
    pub fn bytes(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Says that nothing more will be sent, and reads what still comes. A reset is an end; a peer
    /// that does not end within the deadline is an error.
    pub fn finish(&mut self) -> Result<Vec<u8>> {
        self.stream.get_mut().end();
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Err(error) if !is_end(error.kind()) => Err(error),
            _ => Ok(rest),
        }
    }

    /// An SMTP or LMTP reply: its lines up to the one with a space after the code.
    pub fn reply(&mut self) -> Result<String> {
        let mut reply = String::new();
        loop {
            let line = self.line()?;
            let last = line.as_bytes().get(3) != Some(&b'-');
            reply += &line;
            if last {
                return Ok(reply);
            }
            reply.push('\n');
        }
    }

    /// Sends an SMTP or LMTP command and returns its reply.
    pub fn ask(&mut self, command: &str) -> Result<String> {
        self.send(format!("{command}\r\n").as_bytes())?;
        self.reply()
    }

    /// Hands a message in by SMTP or LMTP, after a greeting. Panics if the sender or a recipient is
    /// refused. Returns the reply to the message; in LMTP, that for the first recipient.
    pub fn hand_in(&mut self, from: &str, to: &[&str], message: &[u8]) -> Result<String> {
        let recipients = to.iter().map(|to| (format!("RCPT TO:<{to}>"), "250"));
        let before = std::iter::once((format!("MAIL FROM:<{from}>"), "250"));
        for (command, code) in before.chain(recipients).chain([("DATA".to_owned(), "354")]) {
            let reply = self.ask(&command)?;
            assert!(reply.starts_with(code), "{command}: {reply}");
        }
        self.send(&dot_stuffed(message))?;
        self.reply()
    }

    /// Sends a tagged IMAP command and returns every line up to its tagged answer, that one last.
    /// Literals in the answer come as further lines.
    pub fn imap(&mut self, command: &str) -> Result<Vec<String>> {
        self.send(format!("t {command}\r\n").as_bytes())?;
        let mut lines = Vec::new();
        loop {
            let line = self.line()?;
            let done = line.starts_with("t ");
            lines.push(line);
            if done {
                return Ok(lines);
            }
        }
    }

    /// Sends a tagged IMAP command and returns the literals of its answer, and the tagged line.
    pub fn literals(&mut self, command: &str) -> Result<(Vec<Literal>, String)> {
        self.send(format!("t {command}\r\n").as_bytes())?;
        let mut literals = Vec::new();
        loop {
            let line = self.line()?;
            if line.starts_with("t ") {
                return Ok((literals, line));
            }
            let size = line.strip_suffix('}').and_then(|line| line.rsplit('{').next());
            if let Some(size) = size.and_then(|size| size.parse().ok()) {
                let bytes = self.bytes(size)?;
                literals.push((line, bytes));
            }
        }
    }

    /// The messages of the selected mailbox, whole. They are fetched by UID: in an empty mailbox a
    /// message number is BAD.
    pub fn bodies(&mut self) -> Result<Vec<Vec<u8>>> {
        let (literals, end) = self.literals("UID FETCH 1:* (BODY.PEEK[])")?;
        assert!(end.starts_with("t OK"), "{end}");
        Ok(literals.into_iter().map(|(_, bytes)| bytes).collect())
    }
}

/// Whether a peer that hung up causes this. Inside TLS it may have hung up without an alert, or
/// while ours was sent.
fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe)
}

/// A message as DATA sends it: dots at the start of a line doubled, `.` at the end
/// (RFC 5321 §4.5.2).
pub fn dot_stuffed(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 16);
    for line in message.split_inclusive(|&b| b == b'\n') {
        if line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend_from_slice(line);
    }
    if !out.ends_with(b"\r\n") && !out.is_empty() {
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b".\r\n");
    out
}
