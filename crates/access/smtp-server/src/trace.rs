//! The trace headers in front of each message (RFC 5321 §4.4).

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use posthaste_net::TlsFacts;
use posthaste_queue::{Priority, date_time};
use time::OffsetDateTime;

use crate::address::{Mailbox, ReversePath};

/// The values that the trace fields of a message contain.
pub(crate) struct Trace<'a> {
    pub from: &'a ReversePath,
    /// The name that the client gave.
    pub client: &'a str,
    pub peer: SocketAddr,
    pub host: &'a str,
    /// The protocol, such as `ESMTPSA`.
    pub protocol: String,
    pub tls: Option<TlsFacts>,
    pub id: &'a str,
    /// Named if it is the only one: no recipient learns of another (RFC 5321 §7.2).
    pub recipient: Option<&'a Mailbox>,
    pub priority: Priority,
    pub now: OffsetDateTime,
}

impl Trace<'_> {
    /// `Return-Path:` (this is the final delivery) and `Received:`.
    pub fn print(&self) -> String {
        let mut text = format!("Return-Path: {}\r\nReceived: from {} (", self.from, self.client);
        // `address-literal` of RFC 5321 §4.1.3.
        let _ = match self.peer.ip().to_canonical() {
            IpAddr::V4(ip) => write!(text, "[{ip}]"),
            IpAddr::V6(ip) => write!(text, "[IPv6:{ip}]"),
        };
        let _ = write!(text, ")\r\n\tby {} (Posthaste) with {}", self.host, self.protocol);
        if let Some(tls) = self.tls {
            let _ = write!(text, "\r\n\t({} {})", tls.version, tls.cipher);
        }
        let _ = write!(text, " id {}", self.id);
        if let Some(recipient) = self.recipient {
            let _ = write!(text, "\r\n\tfor {recipient}");
        }
        if !self.priority.is_normal() {
            // RFC 6710 §4.3: an additional clause of RFC 5321 §4.4.
            let _ = write!(text, "\r\n\tPRIORITY {}", self.priority);
        }
        let _ = write!(text, ";\r\n\t{}\r\n", date_time(self.now.unix_timestamp()));
        text
    }
}

/// The protocol by which a message came in.
pub(crate) struct Transmission<'a> {
    /// `LMTP`, `SMTP` or `ESMTP`.
    pub base: &'a str,
    pub smtputf8: bool,
    pub tls: bool,
    pub authenticated: bool,
}

impl Transmission<'_> {
    /// The transmission type (RFC 3848, RFC 6531 §4.3).
    pub fn name(&self) -> String {
        let base = match (self.base, self.smtputf8) {
            ("LMTP", true) => "UTF8LMTP",
            ("ESMTP", true) => "UTF8SMTP",
            (base, _) => base,
        };
        // Plain SMTP, of HELO, has no such letters.
        let letter = |yes: bool, letter| if yes && base != "SMTP" { letter } else { "" };
        format!("{base}{}{}", letter(self.tls, "S"), letter(self.authenticated, "A"))
    }
}

/// A message without the Return-Path that [`Trace::print`] put in front: only the last host adds it
/// (RFC 5321 §4.4).
pub(crate) fn without_return_path(message: &Bytes) -> Bytes {
    match memchr::memchr(b'\n', message) {
        Some(end) if message.starts_with(b"Return-Path:") => message.slice(end + 1..),
        _ => message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_header() {
        let recipient = Mailbox::parse("ana@example.org").unwrap();
        let mut trace = Trace {
            from: &ReversePath::parse("bo@example.com").unwrap(),
            client: "client.example",
            peer: "192.0.2.1:4711".parse().unwrap(),
            host: "mail.example.org",
            protocol: "ESMTPSA".to_owned(),
            tls: Some(TlsFacts { version: "TLSv1.3", cipher: "TLS13_AES_128_GCM_SHA256" }),
            id: "1a2b",
            recipient: Some(&recipient),
            priority: Priority::NORMAL,
            now: OffsetDateTime::from_unix_timestamp(1_000_000_000).unwrap(),
        };
        assert_eq!(
            trace.print(),
            "Return-Path: <bo@example.com>\r\n\
             Received: from client.example ([192.0.2.1])\r\n\
             \tby mail.example.org (Posthaste) with ESMTPSA\r\n\
             \t(TLSv1.3 TLS13_AES_128_GCM_SHA256) id 1a2b\r\n\
             \tfor <ana@example.org>;\r\n\
             \tSun, 09 Sep 2001 01:46:40 +0000\r\n"
        );
        (trace.tls, trace.recipient) = (None, None);
        trace.peer = "[2001:db8::1]:25".parse().unwrap();
        assert!(trace.print().contains("([IPv6:2001:db8::1])"));
        assert!(trace.print().contains("ESMTPSA id 1a2b;\r\n\tSun"));
        trace.priority = Priority::parse("-3").unwrap();
        assert!(trace.print().contains("ESMTPSA id 1a2b\r\n\tPRIORITY -3;\r\n\tSun"));
    }

    #[test]
    fn transmission_types() {
        let clear = Transmission { base: "LMTP", smtputf8: false, tls: false, authenticated: false };
        assert_eq!(clear.name(), "LMTP");
        assert_eq!(Transmission { smtputf8: true, tls: true, ..clear }.name(), "UTF8LMTPS");
        let all = Transmission { base: "ESMTP", smtputf8: true, tls: true, authenticated: true };
        assert_eq!(all.name(), "UTF8SMTPSA");
        assert_eq!(Transmission { smtputf8: false, ..all }.name(), "ESMTPSA");
        assert_eq!(Transmission { base: "SMTP", tls: true, ..clear }.name(), "SMTP");
    }
}
