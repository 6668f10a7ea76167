//! Sending mail: SMTP (RFC 5321), LMTP (RFC 2033), submission with AUTH PLAIN (RFC 6409, RFC 4954).

use std::time::Duration;

use base64::Engine as _;
use posthaste_imap_client::Error as ClientError;
use posthaste_imap_client::net::{Dialer, Security, Wire, put_away};

use crate::target::{Scheme, Target};

/// The longest reply line taken: RFC 5321 §4.5.3.1.5 allows 512 bytes; eight times that.
const REPLY_BYTES_MAX: usize = 4096;

/// The reason why mail was not sent.
#[derive(Debug, thiserror::Error)]
pub enum MailerError {
    /// No connection, or it broke.
    #[error("mail connection: {0}")]
    Connection(#[from] ClientError),
    /// The server closed it before a reply.
    #[error("mail connection: closed by the server")]
    Closed,
    /// The server refused.
    #[error("{command} was refused: {reply}")]
    Refused {
        /// The refused command.
        command: &'static str,
        /// The server's reply.
        reply: String,
    },
    /// Not a reply.
    #[error("mail connection: not a reply: {0}")]
    Garbage(String),
}

impl MailerError {
    /// The kind under which it is counted.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Connection(error) => match error.kind() {
                "connect" => "mail-connect",
                "timeout" => "mail-timeout",
                _ => "mail-connection-lost",
            },
            Self::Closed => "mail-connection-lost",
            Self::Refused { .. } => "mail-refused",
            Self::Garbage(_) => "mail-garbage",
        }
    }

    /// Whether the message was certainly not taken.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// A connection that sends mail.
pub struct Mailer {
    wire: Wire,
    input: Vec<u8>,
    timeout: Duration,
    pipelining: bool,
}

impl Mailer {
    /// Connects, greets, starts TLS and logs in as the target defines.
    pub async fn connect(
        dialer: &Dialer,
        target: &Target,
        login: Option<(&str, &str)>,
        who: u32,
    ) -> Result<Self, MailerError> {
        let wire = dialer.dial(&target.endpoint, who).await?;
        let mut mailer = Self { wire, input: Vec::new(), timeout: dialer.timeout, pipelining: false };
        mailer.expect("the greeting", 2).await?;
        let hello = if target.scheme == Scheme::Lmtp { "LHLO" } else { "EHLO" };
        let mut offers = mailer.hello(hello).await?;
        if target.endpoint.security == Security::StartTls {
            mailer.write_text("STARTTLS\r\n").await?;
            mailer.expect("STARTTLS", 2).await?;
            mailer.input.clear();
            mailer.wire = dialer.secure(mailer.wire, &target.endpoint).await?;
            offers = mailer.hello(hello).await?;
        }
        mailer.pipelining = offers.to_ascii_uppercase().contains("PIPELINING");
        if let Some((user, password)) = login {
            let token = base64::engine::general_purpose::STANDARD.encode(format!("\0{user}\0{password}"));
            mailer.write_text(&format!("AUTH PLAIN {token}\r\n")).await?;
            mailer.expect("AUTH", 2).await?;
        }
        Ok(mailer)
    }

    async fn hello(&mut self, verb: &str) -> Result<String, MailerError> {
        self.write_text(&format!("{verb} posthaste-load.invalid\r\n")).await?;
        self.expect("the hello", 2).await
    }

    /// Sends one message to one recipient; `Ok` when the server took the responsibility for it.
    pub async fn send(&mut self, from: &str, to: &str, mail: &[u8]) -> Result<(), MailerError> {
        let (mail_from, rcpt) = (format!("MAIL FROM:<{from}>\r\n"), format!("RCPT TO:<{to}>\r\n"));
        if self.pipelining {
            self.write_text(&format!("{mail_from}{rcpt}DATA\r\n")).await?;
            let first = self.expect("MAIL", 2).await;
            let second = self.expect("RCPT", 2).await;
            let third = self.expect("DATA", 3).await;
            // Had DATA been accepted without a recipient, the server would be waiting: end it with
            // nothing sent.
            if third.is_ok() && (first.is_err() || second.is_err()) {
                self.write_text(".\r\n").await?;
                let _ = self.reply().await?;
            }
            first.and(second).and(third)?;
        } else {
            self.write_text(&mail_from).await?;
            self.expect("MAIL", 2).await?;
            self.write_text(&rcpt).await?;
            self.expect("RCPT", 2).await?;
            self.write_text("DATA\r\n").await?;
            self.expect("DATA", 3).await?;
        }
        let mut data = Vec::with_capacity(mail.len() + 16);
        stuff(mail, &mut data);
        data.extend_from_slice(if mail.ends_with(b"\r\n") { b".\r\n" } else { b"\r\n.\r\n" });
        self.write(&data).await?;
        self.expect("the message", 2).await.map(drop)
    }

    /// Says goodbye.
    pub async fn quit(mut self) {
        let _ = self.write_text("QUIT\r\n").await;
        self.wire.shut().await;
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> (u64, u64) {
        (self.wire.bytes_in, self.wire.bytes_out)
    }

    async fn write_text(&mut self, text: &str) -> Result<(), MailerError> {
        self.write(text.as_bytes()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), MailerError> {
        match tokio::time::timeout(self.timeout, self.wire.write(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(MailerError::Closed),
            Err(_) => Err(ClientError::Timeout { seconds: self.timeout.as_secs() }.into()),
        }
    }

    async fn expect(&mut self, command: &'static str, class: u8) -> Result<String, MailerError> {
        let reply = self.reply().await?;
        match reply.as_bytes().first() {
            Some(digit) if *digit == b'0' + class => Ok(reply),
            Some(b'2'..=b'5') => Err(MailerError::Refused { command, reply: reply.trim_end().to_owned() }),
            _ => Err(MailerError::Garbage(reply.chars().take(100).collect())),
        }
    }

    /// One reply, all its lines.
    async fn reply(&mut self) -> Result<String, MailerError> {
        let mut from = 0;
        loop {
            while let Some(newline) = memchr::memchr(b'\n', &self.input[from..]) {
                let line = &self.input[from..from + newline];
                let last = line.get(3) != Some(&b'-');
                from += newline + 1;
                if last {
                    let reply = self.input.drain(..from).collect::<Vec<u8>>();
                    put_away(&mut self.input);
                    return Ok(String::from_utf8_lossy(&reply).into_owned());
                }
            }
            if self.input.len() > REPLY_BYTES_MAX {
                return Err(MailerError::Garbage("a reply too long".into()));
            }
            let late = || ClientError::Timeout { seconds: self.timeout.as_secs() };
            match tokio::time::timeout(self.timeout, self.wire.read(&mut self.input)).await {
                Ok(Ok(0) | Err(_)) => return Err(MailerError::Closed),
                Ok(Ok(_)) => {}
                Err(_) => return Err(late().into()),
            }
        }
    }
}

/// Dots at the start of lines are doubled (RFC 5321 §4.5.2).
fn stuff(mail: &[u8], out: &mut Vec<u8>) {
    let mut rest = mail;
    if rest.first() == Some(&b'.') {
        out.push(b'.');
    }
    while let Some(at) = memchr::memmem::find(rest, b"\n.") {
        out.extend_from_slice(&rest[..at + 2]);
        out.push(b'.');
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_doubled() {
        let mut out = Vec::new();
        stuff(b".a\r\n..b\r\n.\r\nc.d\r\n", &mut out);
        assert_eq!(out, b"..a\r\n...b\r\n..\r\nc.d\r\n");
    }
}
