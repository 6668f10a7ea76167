//! Reports to senders: a message was given up, or is late (RFC 3464, RFC 6522, RFC 6533).

use std::fmt::Write as _;

use crate::date::date_time;
use crate::item::{Item, Recipient};

/// Octets of the reported message's header that a report returns at most.
const HEADER_LEN_MAX: usize = 32 * 1024;

/// What a report says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Some recipients did not get the message, and will not.
    Failed,
    /// It is still being tried.
    Delayed {
        /// Until then it is tried, unix seconds.
        until: i64,
    },
}

/// Everything that goes into a report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'a> {
    pub kind: Kind,
    pub item: &'a Item,
    /// The recipients it is about, each with status and reply.
    pub about: &'a [(&'a Recipient, &'a str, &'a str)],
    /// The message, or its beginning.
    pub message: &'a [u8],
    /// Our own name.
    pub host: &'a str,
    /// Makes the Message-ID and the boundary.
    pub id: &'a str,
    pub now: i64,
}

impl Report<'_> {
    /// The report, from its first header field to its end. Without trace fields.
    pub fn print(&self) -> Vec<u8> {
        let header = self.returned_header();
        // RFC 6533 §3: addresses in UTF-8 need the international forms of all parts.
        let is_utf8 = !header.is_ascii() || self.about.iter().any(|(r, ..)| !r.address.is_ascii());
        let (status_type, header_type) = match is_utf8 {
            true => ("message/global-delivery-status", "message/global-headers"),
            false => ("message/delivery-status", "text/rfc822-headers"),
        };
        let encoding = if is_utf8 { "Content-Transfer-Encoding: 8bit\r\n" } else { "" };
        let boundary = format!("report-{}", self.id);
        let mut text = String::new();
        let _ = write!(
            text,
            "From: Mail Delivery System <postmaster@{host}>\r\n\
             To: <{to}>\r\n\
             Subject: {subject}\r\n\
             Date: {date}\r\n\
             Message-ID: <{id}@{host}>\r\n\
             Auto-Submitted: auto-replied\r\n\
             MIME-Version: 1.0\r\n\
             Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"{boundary}\"\r\n\
             {encoding}\r\n\
             --{boundary}\r\n\
             Content-Type: text/plain; charset=utf-8\r\n{encoding}\r\n{words}\r\n\
             --{boundary}\r\n\
             Content-Type: {status_type}\r\n{encoding}\r\n{status}\r\n\
             --{boundary}\r\n\
             Content-Type: {header_type}\r\n{encoding}\r\n",
            host = self.host,
            to = self.item.from,
            subject = self.subject(),
            date = date_time(self.now),
            id = self.id,
            words = self.words(),
            status = self.status(is_utf8),
        );
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        bytes
    }

    fn subject(&self) -> &'static str {
        match self.kind {
            Kind::Failed => "Your message was not delivered",
            Kind::Delayed { .. } => "Your message is delayed",
        }
    }

    /// For the person who sent the message.
    fn words(&self) -> String {
        let mut text = match self.kind {
            Kind::Failed => {
                "Your message was not delivered to these addresses. It is not tried again.\r\n".to_owned()
            }
            Kind::Delayed { until } => format!(
                "Your message has not reached these addresses yet. You need do nothing: it is tried again\r\n\
                 until {}.\r\n",
                date_time(until)
            ),
        };
        for (recipient, _, reply) in self.about {
            let _ = write!(text, "\r\n  {}\r\n    {}\r\n", recipient.address, one_line(reply));
        }
        text
    }

    /// RFC 3464 §2.2 and §2.3: fields of the message, then of each recipient.
    fn status(&self, is_utf8: bool) -> String {
        let mut text = format!(
            "Reporting-MTA: dns; {}\r\nArrival-Date: {}\r\n",
            self.host,
            date_time(self.item.arrived)
        );
        for (recipient, status, reply) in self.about {
            // RFC 6533 §3: an address that is ASCII keeps its type.
            let kind = if is_utf8 && !recipient.address.is_ascii() { "utf-8" } else { "rfc822" };
            let action = if self.kind == Kind::Failed { "failed" } else { "delayed" };
            let _ = write!(
                text,
                "\r\nFinal-Recipient: {kind}; {}\r\nAction: {action}\r\nStatus: {status}\r\n\
                 Diagnostic-Code: smtp; {}\r\nLast-Attempt-Date: {}\r\n",
                recipient.address,
                one_line(reply),
                date_time(self.now)
            );
            if let Kind::Delayed { until } = self.kind {
                let _ = write!(text, "Will-Retry-Until: {}\r\n", date_time(until));
            }
        }
        text
    }

    /// The header of the message, cut at a line.
    fn returned_header(&self) -> &[u8] {
        let end = memchr::memmem::find(self.message, b"\r\n\r\n").map_or(self.message.len(), |at| at + 2);
        let header = self.message.get(..end).unwrap_or_default();
        if header.len() <= HEADER_LEN_MAX {
            return header;
        }
        let cut = header.get(..HEADER_LEN_MAX).unwrap_or_default();
        let line = memchr::memrchr(b'\n', cut).map_or(0, |at| at + 1);
        cut.get(..line).unwrap_or_default()
    }
}

/// A reply without anything that could end a line, and of bounded length.
fn one_line(reply: &str) -> String {
    const LEN_MAX: usize = 500;
    let clean = reply.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(LEN_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::sample;
    use mail_parser::{MessageParser, MimeHeaders};

    const MESSAGE: &[u8] = b"From: ana@example.org\r\nSubject: Hello\r\n\r\nthe body\r\n";

    fn print(kind: Kind, item: &Item, message: &[u8]) -> String {
        let about: Vec<_> =
            item.recipients.iter().map(|r| (r, "5.1.1", "550 5.1.1 No\r\nsuch user")).collect();
        let report =
            Report { kind, item, about: &about, message, host: "mail.example.org", id: "1a", now: 5_000 };
        String::from_utf8(report.print()).unwrap()
    }

    #[test]
    fn a_report_has_three_parts() {
        let text = print(Kind::Failed, &sample(), MESSAGE);
        let parsed = MessageParser::default().parse(text.as_bytes()).unwrap();
        let types: Vec<String> = parsed
            .parts
            .iter()
            .filter_map(|part| part.content_type())
            .map(|t| format!("{}/{}", t.ctype(), t.subtype().unwrap_or_default()))
            .collect();
        assert_eq!(
            types,
            ["multipart/report", "text/plain", "message/delivery-status", "text/rfc822-headers"]
        );
        assert_eq!(parsed.to().unwrap().first().unwrap().address(), Some("ana@example.org"));
        assert!(text.contains("\r\nAuto-Submitted: auto-replied\r\n"));
        assert!(text.contains(
            "\r\nFinal-Recipient: rfc822; bo@example.net\r\nAction: failed\r\nStatus: 5.1.1\r\n\
             Diagnostic-Code: smtp; 550 5.1.1 No  such user\r\n"
        ));
        assert!(text.contains("Subject: Hello") && !text.contains("the body"));
    }

    #[test]
    fn a_delay_says_how_long_it_is_tried() {
        let text = print(Kind::Delayed { until: 1_000_000_000 }, &sample(), MESSAGE);
        assert!(text.contains("Action: delayed\r\n"));
        assert!(text.contains("Will-Retry-Until: Sun, 09 Sep 2001 01:46:40 +0000\r\n"));
    }

    #[test]
    fn addresses_in_utf8_get_the_international_forms() {
        let mut item = sample();
        item.recipients[0].address = "jörg@example.net".into();
        let text = print(Kind::Failed, &item, MESSAGE);
        assert!(text.contains("Content-Type: message/global-delivery-status\r\n"));
        assert!(text.contains("Final-Recipient: utf-8; jörg@example.net\r\n"));
        assert!(text.contains("Final-Recipient: rfc822; cy@example.net\r\n"));
    }

    #[test]
    fn a_long_header_is_cut_at_a_line() {
        let message = [b"X-Long: yes\r\n".repeat(5_000), b"\r\nbody".to_vec()].concat();
        let text = print(Kind::Failed, &sample(), &message);
        assert!(text.len() < HEADER_LEN_MAX + 4_096 && !text.contains("body\r\n"));
        assert!(text.ends_with("X-Long: yes\r\n\r\n--report-1a--\r\n"));
    }
}
