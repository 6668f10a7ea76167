//! Reports to senders: a message was given up, is late, or has arrived (RFC 3464, RFC 6522,
//! RFC 6533).

use std::fmt::Write as _;

use bytes::Bytes;
use posthaste_net::joined;

use crate::date::date_time;
use crate::dsn::{EnvelopeId, Return};
use crate::header_lines::header_lines;
use crate::item::{Recipient, TlsRequirement};
use crate::success::Success;

/// Octets of the reported message's header that a report returns at most.
const HEADER_LEN_MAX: usize = 32 * 1024;
/// Octets of a message from which on only its header is returned (RFC 3461 §6.2). Each of a
/// thousand destinations may cause a report. They wait in the queue if the account is full.
pub(crate) const WHOLE_LEN_MAX: usize = 2 * HEADER_LEN_MAX;
const EIGHT_BIT: &str = "Content-Transfer-Encoding: 8bit\r\n";

/// The kind of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportKind {
    /// Some recipients did not get the message, and will not.
    Failed,
    /// The message is still being tried.
    Delayed {
        /// Until then it is tried, unix seconds.
        until: i64,
    },
    /// A host took it that reports no success itself, or it was sent on to another address.
    Relayed,
    /// The message is in a mailbox here.
    Delivered,
    /// The message was sent on to all addresses that the one here means.
    Expanded,
}

impl ReportKind {
    /// Whether it is dropped if too many reports wait. Only a failure must be known: no host has
    /// to report a delay (RFC 3461 §5.2.5), and strangers request reports of success.
    pub(crate) const fn may_be_dropped(self) -> bool {
        !matches!(self, Self::Failed)
    }

    /// RFC 3464 §2.3.3.
    pub(crate) const fn action(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Delayed { .. } => "delayed",
            Self::Relayed => "relayed",
            Self::Delivered => "delivered",
            Self::Expanded => "expanded",
        }
    }
}

/// The outcome of a message for one recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecipientOutcome<'a> {
    pub recipient: &'a Recipient,
    /// Status of RFC 3463, as `5.1.1`.
    pub status: &'a str,
    /// The next host's reply, or our own words; empty if there is nothing to say.
    pub reply: &'a str,
}

/// Everything that goes into a report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'a> {
    pub kind: ReportKind,
    /// The sender, who gets it.
    pub to: &'a str,
    /// The time when the message came, unix seconds.
    pub arrived: i64,
    /// Whether it came with SMTPUTF8.
    pub smtputf8: bool,
    pub ret: Option<Return>,
    /// The TLS that the sender requires. A report about a message that needs it needs it, too.
    pub tls: TlsRequirement,
    pub envid: Option<&'a EnvelopeId>,
    /// The recipients it is about.
    pub about: &'a [RecipientOutcome<'a>],
    /// The message, or its first [`WHOLE_LEN_MAX`] octets.
    pub message: &'a Bytes,
    /// Our own name.
    pub host: &'a str,
    /// Makes the Message-ID and the boundary.
    pub id: &'a str,
    pub now: i64,
}

/// A report as text.
#[derive(Debug)]
pub(crate) struct Printed {
    /// From its first header field to its end. Without trace fields.
    pub text: Bytes,
    /// RFC 6533 §3: addresses in UTF-8 need the international forms of all parts, and so does a
    /// header in UTF-8. A returned body of 8-bit text needs no SMTPUTF8.
    pub is_international: bool,
}

/// What a report returns of a message.
#[derive(Debug)]
struct Returned {
    header: Bytes,
    /// `None` if the header alone is returned.
    body: Option<Bytes>,
    is_body_ascii: bool,
}

impl Returned {
    /// All of a message. `None` of a binary message: it fits no message/rfc822 that goes out by
    /// DATA.
    fn all(message: &Bytes) -> Option<Self> {
        if !is_lines(message) {
            return None;
        }
        let end = header_end(message);
        let body = message.slice(end..);
        let is_body_ascii = body.is_ascii();
        Some(Self { header: message.slice(..end), body: Some(body), is_body_ascii })
    }

    /// The header of a message, cut at a line.
    fn header(message: &Bytes) -> Self {
        let start = message.get(..HEADER_LEN_MAX + 2).unwrap_or(message);
        let end = match header_end(start) {
            end if end <= HEADER_LEN_MAX => end,
            _ => memchr::memrchr(b'\n', &start[..HEADER_LEN_MAX]).map_or(0, |at| at + 1),
        };
        Self { header: message.slice(..end), body: None, is_body_ascii: true }
    }
}

impl Report<'_> {
    /// The report.
    pub async fn print(&self) -> Printed {
        let Returned { header, body, is_body_ascii } = self.returned();
        let is_whole = body.is_some();
        let is_utf8 = self.is_international(&header);
        let text_in = if is_utf8 { TextIn::Utf8 } else { TextIn::Ascii };
        let header = match is_utf8 && std::str::from_utf8(&header).is_ok() {
            true => header,
            false => ascii(&header),
        };
        let is_ascii = header.is_ascii() && is_body_ascii;
        let status_type = if is_utf8 { "message/global-delivery-status" } else { "message/delivery-status" };
        let header_type = match (is_whole, is_utf8) {
            (false, false) => "text/rfc822-headers",
            (false, true) => "message/global-headers",
            (true, false) => "message/rfc822",
            (true, true) => "message/global",
        };
        let returned_encoding = if is_ascii { "" } else { EIGHT_BIT };
        let encoding = if is_utf8 { EIGHT_BIT } else { "" };
        // RFC 2045 §6.4: a multipart is 8bit if a part is.
        let outer = if is_utf8 || !is_ascii { EIGHT_BIT } else { "" };
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
             {outer}\r\n\
             --{boundary}\r\n\
             Content-Type: text/plain; charset=utf-8\r\n{encoding}\r\n{words}\r\n\
             --{boundary}\r\n\
             Content-Type: {status_type}\r\n{encoding}\r\n{status}\r\n\
             --{boundary}\r\n\
             Content-Type: {header_type}\r\n{returned_encoding}\r\n",
            host = self.host,
            to = self.to,
            subject = self.subject(),
            date = date_time(self.now),
            id = self.id,
            words = self.words(text_in),
            status = self.status(text_in),
        );
        let end = format!("\r\n--{boundary}--\r\n");
        let parts = [Bytes::from(text), header, body.unwrap_or_default(), Bytes::from(end)];
        Printed { text: joined(parts).await, is_international: is_utf8 }
    }

    /// Whether the international forms are needed for this returned header. Only who sent SMTPUTF8
    /// can take such a report for the header alone. Octets in a header without SMTPUTF8 have any
    /// charset or none.
    fn is_international(&self, header: &[u8]) -> bool {
        let is_utf8 = self.smtputf8 && !header.is_ascii() && std::str::from_utf8(header).is_ok();
        is_utf8 || self.about.iter().any(|about| !is_ascii(about.recipient))
    }

    fn subject(&self) -> &'static str {
        match self.kind {
            ReportKind::Failed => "Your message was not delivered",
            ReportKind::Delayed { .. } => "Your message is delayed",
            ReportKind::Relayed => "Your message was relayed",
            ReportKind::Delivered => "Your message was delivered",
            ReportKind::Expanded => "Your message was expanded to several recipients",
        }
    }

    /// For the person who sent the message.
    fn words(&self, text_in: TextIn) -> String {
        let mut text = match self.kind {
            ReportKind::Failed => {
                "Your message was not delivered to these addresses. It will not be tried again.\r\n".to_owned()
            }
            ReportKind::Delayed { until } => format!(
                "Your message has not reached these addresses yet. You need not do anything: it is tried again\r\n\
                 until {}.\r\n",
                date_time(until)
            ),
            ReportKind::Relayed => {
                "Your message was relayed to servers that do not report success. You get another report only\r\n\
                 if it cannot be delivered to these addresses.\r\n"
                    .to_owned()
            }
            ReportKind::Delivered => "Your message is in the mailboxes of these addresses.\r\n".to_owned(),
            ReportKind::Expanded => {
                "Each of these addresses names several others. Your message was sent on to all of them. You\r\n\
                 get another report only if it cannot be delivered to one of them.\r\n"
                    .to_owned()
            }
        };
        for RecipientOutcome { recipient, reply, .. } in self.about {
            let _ = write!(text, "\r\n  {}\r\n", recipient.reported_as());
            if !reply.is_empty() {
                let _ = write!(text, "    {}\r\n", one_line(reply, text_in));
            }
        }
        text
    }

    /// RFC 3464 §2.2 and §2.3: fields of the message, then of each recipient.
    fn status(&self, text_in: TextIn) -> String {
        let mut text = String::new();
        if let Some(envid) = self.envid {
            let _ = write!(text, "Original-Envelope-Id: {}\r\n", envid.decoded());
        }
        let _ = write!(
            text,
            "Reporting-MTA: dns; {}\r\nArrival-Date: {}\r\n",
            self.host,
            date_time(self.arrived)
        );
        for RecipientOutcome { recipient, status, reply } in self.about {
            let address = recipient.reported_as();
            // RFC 6533 §3: an address that is ASCII keeps its type.
            let kind = if text_in == TextIn::Utf8 && !address.is_ascii() { "utf-8" } else { "rfc822" };
            text.push_str("\r\n");
            if let Some(original) = &recipient.orcpt {
                let _ = write!(text, "Original-Recipient: {}\r\n", original.field());
            }
            let _ = write!(
                text,
                "Final-Recipient: {kind}; {address}\r\nAction: {}\r\nStatus: {status}\r\n",
                self.kind.action(),
            );
            if !reply.is_empty() {
                let _ = write!(text, "Diagnostic-Code: smtp; {}\r\n", one_line(reply, text_in));
            }
            let _ = write!(text, "Last-Attempt-Date: {}\r\n", date_time(self.now));
            if let ReportKind::Delayed { until } = self.kind {
                let _ = write!(text, "Will-Retry-Until: {}\r\n", date_time(until));
            }
        }
        text
    }

    /// RFC 3461 §4.3: the message is returned about a failure if the sender requested it and it is
    /// short, and else its header alone.
    fn returned(&self) -> Returned {
        // RFC 8689 §4.2.2: nothing but the header of a message that needs TLS.
        let is_whole = self.kind == ReportKind::Failed
            && self.ret == Some(Return::Full)
            && self.tls != TlsRequirement::Required
            && self.message.len() < WHOLE_LEN_MAX;
        let all = if is_whole { Returned::all(self.message) } else { None };
        all.unwrap_or_else(|| Returned::header(self.message))
    }
}

/// Octets of a message's header, without the blank line. No body may be taken for a header.
fn header_end(message: &[u8]) -> usize {
    header_lines(message).map(<[u8]>::len).sum()
}

fn is_ascii(recipient: &Recipient) -> bool {
    recipient.reported_as().is_ascii()
        && recipient.orcpt.as_ref().is_none_or(|orcpt| orcpt.as_str().is_ascii())
}

/// Whether a message is lines of 8bit text (RFC 2045 §2.8): no NUL, and at most 998 octets each.
fn is_lines(message: &[u8]) -> bool {
    const LINE_LEN_MAX: usize = 1_000;
    !message.contains(&0)
        && message.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() <= LINE_LEN_MAX)
}

/// A header with `?` for each octet that is not ASCII.
fn ascii(header: &Bytes) -> Bytes {
    match header.is_ascii() {
        true => header.clone(),
        false => header.iter().map(|octet| if octet.is_ascii() { *octet } else { b'?' }).collect(),
    }
}

impl Success {
    /// The report of it, and the status there. RFC 3463 §3.2: destination address valid.
    pub(crate) const fn report(self) -> (ReportKind, &'static str) {
        match self {
            Self::Delivered => (ReportKind::Delivered, "2.1.5"),
            Self::SentOn => (ReportKind::Relayed, "2.0.0"),
            Self::Expanded => (ReportKind::Expanded, "2.0.0"),
        }
    }
}

/// The characters that a report may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextIn {
    Ascii,
    /// RFC 6533.
    Utf8,
}

/// A reply without anything that could end a line, of bounded length, and in ASCII where UTF-8 has
/// no place.
fn one_line(reply: &str, text_in: TextIn) -> String {
    const LEN_MAX: usize = 500;
    let clean = reply.chars().map(|c| match c {
        c if c.is_control() => ' ',
        c if c.is_ascii() || text_in == TextIn::Utf8 => c,
        _ => '?',
    });
    clean.take(LEN_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use mail_parser::{MessageParser, MimeHeaders};

    use super::*;
    use crate::dsn::OriginalRecipient;
    use crate::item::{Item, tests};

    const MESSAGE: &[u8] = b"From: ana@example.org\r\nSubject: Hello\r\n\r\nthe body\r\n";

    /// Without parameters of MAIL.
    fn sample() -> Item {
        Item { ret: None, envid: None, ..tests::sample() }
    }

    fn print(kind: ReportKind, item: &Item, message: &[u8]) -> String {
        printed(kind, item, message).0
    }

    /// A report about a few recipients.
    fn report<'a>(
        kind: ReportKind,
        item: &'a Item,
        about: &'a [RecipientOutcome<'a>],
        message: &'a Bytes,
    ) -> Report<'a> {
        Report {
            kind,
            to: &item.from,
            arrived: item.arrived,
            smtputf8: item.smtputf8,
            ret: item.ret,
            tls: item.tls(),
            envid: item.envid.as_ref(),
            about,
            message,
            host: "mail.example.org",
            id: "1a",
            now: 5_000,
        }
    }

    fn outcomes(item: &Item) -> Vec<RecipientOutcome<'_>> {
        let about =
            |recipient| RecipientOutcome { recipient, status: "5.1.1", reply: "550 5.1.1 No\r\nsuch user" };
        item.recipients.iter().map(about).collect()
    }

    /// A report, and whether it is international. A short message needs no other thread.
    fn printed(kind: ReportKind, item: &Item, message: &[u8]) -> (String, bool) {
        let (about, message) = (outcomes(item), Bytes::copy_from_slice(message));
        let printed = report(kind, item, &about, &message).print().now_or_never().unwrap();
        (String::from_utf8(printed.text.to_vec()).unwrap(), printed.is_international)
    }

    /// A message to a thousand domains causes as many reports.
    #[test]
    fn of_a_long_message_the_header_is_returned() {
        let item = Item { ret: Some(Return::Full), ..sample() };
        let of_len = |len: usize| [MESSAGE, &b"\n".repeat(len - MESSAGE.len())[..]].concat();
        let text = print(ReportKind::Failed, &item, &of_len(WHOLE_LEN_MAX - 1));
        assert!(text.contains("Content-Type: message/rfc822\r\n") && text.contains("the body"));
        let text = print(ReportKind::Failed, &item, &of_len(WHOLE_LEN_MAX));
        assert!(text.contains("Content-Type: text/rfc822-headers\r\n") && !text.contains("the body"));
    }

    /// The host that sends the message on makes CR LF of a bare LF: what follows is its body.
    #[test]
    fn a_header_that_is_returned_ends_at_a_blank_line_of_any_kind() {
        for blank in ["\n\n", "\r\n\n", "\n\r\n", "\r\n\r\n"] {
            let message = format!("Subject: Hello{blank}the secret\r\n\r\nmore\r\n");
            let text = print(ReportKind::Failed, &sample(), message.as_bytes());
            assert!(text.contains("Subject: Hello") && !text.contains("the secret"), "{blank:?}: {text}");
        }
    }

    /// The sender's host would refuse a report in UTF-8, and Latin-1 is not UTF-8.
    #[test]
    fn a_header_of_eight_bits_needs_no_international_report() {
        let plain = Item { smtputf8: false, ret: Some(Return::Full), ..sample() };
        let (latin, utf8) =
            (&b"Subject: gr\xfcn\r\n\r\nbody\r\n"[..], "Subject: grün\r\n\r\nbody\r\n".as_bytes());
        for ret in [None, Some(Return::Full)] {
            let item = Item { ret, ..plain.clone() };
            for (message, subject) in [(latin, "gr?n"), (utf8, "gr??n")] {
                let (text, is_international) = printed(ReportKind::Failed, &item, message);
                assert!(text.is_ascii() && !is_international && !text.contains("global"), "{text}");
                assert!(text.contains(&format!("\r\nSubject: {subject}\r\n")), "{text}");
                assert_eq!(text.contains("\r\nbody\r\n"), ret.is_some());
            }
        }
        let (text, is_international) =
            printed(ReportKind::Failed, &Item { smtputf8: true, ..plain.clone() }, utf8);
        assert!(is_international && text.contains("message/global\r\n") && text.contains("grün"), "{text}");
        // A part that is declared as UTF-8 is UTF-8.
        let mut item = Item { ret: None, ..plain };
        item.recipients[0].address = "jörg@example.net".into();
        let (text, is_international) = printed(ReportKind::Failed, &item, latin);
        assert!(is_international && text.contains("message/global-headers\r\n"), "{text}");
        assert!(text.contains("Subject: gr?n\r\n"), "{text}");
    }

    #[test]
    fn a_report_has_three_parts() {
        let text = print(ReportKind::Failed, &sample(), MESSAGE);
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
        let text = print(ReportKind::Delayed { until: 1_000_000_000 }, &sample(), MESSAGE);
        assert!(text.contains("Action: delayed\r\n"));
        assert!(text.contains("Will-Retry-Until: Sun, 09 Sep 2001 01:46:40 +0000\r\n"));
    }

    /// RFC 3461 §6.3: what the sender gave comes back decoded.
    #[test]
    fn a_report_names_the_transaction_and_the_first_address() {
        let mut item = Item { ret: Some(Return::Full), ..tests::sample() };
        item.recipients[0].orcpt = OriginalRecipient::parse("rfc822;team+2Ba@example.org");
        let text = print(ReportKind::Failed, &item, MESSAGE);
        assert!(text.contains("\r\n\r\nOriginal-Envelope-Id: QQ+1\r\nReporting-MTA: dns; "));
        assert!(text.contains("\r\n\r\nOriginal-Recipient: rfc822; team+a@example.org\r\nFinal-Recipient: "));
        assert!(text.contains("\r\nContent-Type: message/rfc822\r\n\r\nFrom: ana@example.org\r\n"));
        assert!(text.contains("the body"));
        let kinds = [
            (ReportKind::Relayed, "relayed"),
            (ReportKind::Delivered, "delivered"),
            (ReportKind::Expanded, "expanded"),
        ];
        for (kind, action) in kinds {
            let text = print(kind, &item, MESSAGE);
            assert!(text.contains(&format!("\r\nAction: {action}\r\n")) && !text.contains("the body"));
        }
    }

    #[test]
    fn a_report_names_the_address_that_the_sender_wrote() {
        let mut item = sample();
        item.recipients[0].named = Some("Postmaster@b.test".into());
        item.recipients[0].address = "jörg@example.net".into();
        let (text, is_international) = printed(ReportKind::Failed, &item, MESSAGE);
        assert!(text.contains("\r\n  Postmaster@b.test\r\n"), "{text}");
        assert!(text.contains("\r\nFinal-Recipient: rfc822; Postmaster@b.test\r\n"), "{text}");
        assert!(!text.contains("jörg") && !is_international, "{text}");
    }

    #[test]
    fn a_returned_message_of_eight_bits_is_declared() {
        let item = Item { ret: Some(Return::Full), ..sample() };
        let text = print(ReportKind::Failed, &item, "Subject: a\r\n\r\nGrüße\r\n".as_bytes());
        assert_eq!(text.matches("Content-Transfer-Encoding: 8bit\r\n").count(), 2);
        assert!(
            text.contains(
                "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n\r\nSubject: a"
            )
        );
    }

    #[test]
    fn of_a_binary_message_the_header_is_returned() {
        let item = Item { ret: Some(Return::Full), ..sample() };
        for body in ["a\0b".to_owned(), "x".repeat(999)] {
            let text = print(ReportKind::Failed, &item, format!("Subject: a\r\n\r\n{body}\r\n").as_bytes());
            assert!(
                text.contains("Content-Type: text/rfc822-headers\r\n\r\nSubject: a\r\n")
                    && !text.contains(&body)
            );
        }
    }

    #[test]
    fn addresses_in_utf8_get_the_international_forms() {
        let mut item = sample();
        item.recipients[0].address = "jörg@example.net".into();
        let text = print(ReportKind::Failed, &item, MESSAGE);
        assert!(text.contains("Content-Type: message/global-delivery-status\r\n"));
        assert!(text.contains("Final-Recipient: utf-8; jörg@example.net\r\n"));
        assert!(text.contains("Final-Recipient: rfc822; cy@example.net\r\n"));
    }

    #[test]
    fn a_long_header_is_cut_at_a_line() {
        let message = [b"X-Long: yes\r\n".repeat(5_000), b"\r\nbody".to_vec()].concat();
        let text = print(ReportKind::Failed, &sample(), &message);
        assert!(text.len() < HEADER_LEN_MAX + 4_096 && !text.contains("body\r\n"));
        assert!(text.ends_with("X-Long: yes\r\n\r\n--report-1a--\r\n"));
    }
}
