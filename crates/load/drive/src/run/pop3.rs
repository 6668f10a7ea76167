//! A POP3 client (RFC 1939): enough for checks, every message verified.

use std::time::Duration;

use posthaste_imap_client::Error;
use posthaste_imap_client::net::{Dialer, Endpoint, Security, Wire, put_away};
use posthaste_load_workload::corpus::Verifier;

use super::failure::Failure;

/// The longest line taken: RFC 1939 §3 says 512 bytes for replies; message lines may be as long as
/// SMTP lets them.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// A connection.
pub struct Pop3 {
    wire: Wire,
    input: Vec<u8>,
    used: usize,
    timeout: Duration,
}

impl Pop3 {
    /// Connects, reads the greeting, starts TLS if requested.
    pub async fn connect(dialer: &Dialer, endpoint: &Endpoint, who: u32) -> Result<Self, Failure> {
        let wire = dialer.dial(endpoint, who).await?;
        let mut pop3 = Self { wire, input: Vec::new(), used: 0, timeout: dialer.timeout };
        pop3.status("connection").await?;
        if endpoint.security == Security::StartTls {
            pop3.command("STLS").await?;
            pop3.input.clear();
            pop3.used = 0;
            pop3.wire = dialer.secure(pop3.wire, endpoint).await?;
        }
        Ok(pop3)
    }

    /// USER and PASS.
    pub async fn login(&mut self, user: &str, password: &str) -> Result<(), Failure> {
        self.say(&format!("USER {user}\r\n")).await?;
        self.status("login").await?;
        self.say(&format!("PASS {password}\r\n")).await?;
        self.status("login").await.map(drop)
    }

    /// One command with a one-line answer.
    pub async fn command(&mut self, line: &str) -> Result<String, Failure> {
        self.say(&format!("{line}\r\n")).await?;
        match self.status("command").await {
            Err(Failure::Connection(Error::Refused { text, .. })) => {
                Err(Failure::Refused { command: line.to_owned(), text })
            }
            other => other,
        }
    }

    /// STAT: messages and bytes.
    pub async fn stat(&mut self) -> Result<(u32, u64), Failure> {
        let text = self.command("STAT").await?;
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(count)), Some(Ok(bytes))) => Ok((u32::try_from(count).unwrap_or(u32::MAX), bytes)),
            _ => Err(Failure::Wrong(format!("STAT answers `{text}`"))),
        }
    }

    /// Lines of an answer up to the lone dot, dots unstuffed, each with its line ending.
    pub async fn lines(&mut self, mut each: impl FnMut(&[u8])) -> Result<(), Failure> {
        loop {
            let (start, end) = self.line().await?;
            let line = &self.input[start..end];
            if line == b".\r\n" || line == b".\n" {
                return Ok(());
            }
            each(line.strip_prefix(b".").unwrap_or(line));
        }
    }

    /// RETR of a message, verified as it streams by; its size.
    pub async fn retrieve(&mut self, number: u32) -> Result<(Verifier, u64), Failure> {
        self.command(&format!("RETR {number}")).await?;
        let (mut verifier, mut bytes) = (Verifier::default(), 0);
        self.lines(|line| {
            verifier.feed(line);
            bytes += line.len() as u64;
        })
        .await?;
        Ok((verifier, bytes))
    }

    /// QUIT: deletions happen now.
    pub async fn quit(mut self) -> Result<(u64, u64), Failure> {
        self.command("QUIT").await?;
        self.wire.shut().await;
        self.input.clear();
        put_away(&mut self.input);
        Ok(self.bytes())
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> (u64, u64) {
        (self.wire.bytes_in, self.wire.bytes_out)
    }

    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        match tokio::time::timeout(self.timeout, self.wire.write(text.as_bytes())).await {
            Ok(written) => Ok(written.map_err(Error::from)?),
            Err(_) => Err(Error::Timeout { seconds: self.timeout.as_secs() }.into()),
        }
    }

    async fn status(&mut self, what: &'static str) -> Result<String, Failure> {
        let (start, end) = self.line().await?;
        let line = String::from_utf8_lossy(&self.input[start..end]).trim_end().to_owned();
        if let Some(text) = line.strip_prefix("+OK") {
            return Ok(text.trim_start().to_owned());
        }
        match line.strip_prefix("-ERR") {
            Some(text) => Err(Error::Refused { what, text: text.trim_start().to_owned() }.into()),
            None => {
                Err(Error::Garbage { what: "+OK or -ERR", line: line.chars().take(100).collect() }.into())
            }
        }
    }

    /// The position of the next line in the buffer.
    async fn line(&mut self) -> Result<(usize, usize), Failure> {
        let mut looked = self.used;
        loop {
            if let Some(newline) = memchr::memchr(b'\n', &self.input[looked..]) {
                let (start, end) = (self.used, looked + newline + 1);
                self.used = end;
                return Ok((start, end));
            }
            if self.used > 0 {
                self.input.drain(..self.used);
                self.used = 0;
            }
            looked = self.input.len();
            if looked > LINE_BYTES_MAX {
                return Err(
                    Error::Garbage { what: "a line of acceptable length", line: String::new() }.into()
                );
            }
            match tokio::time::timeout(self.timeout, self.wire.read(&mut self.input)).await {
                Ok(Ok(0)) => return Err(Error::Closed { bye: None }.into()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(Error::from(error).into()),
                Err(_) => return Err(Error::Timeout { seconds: self.timeout.as_secs() }.into()),
            }
        }
    }
}
