//! Messages that are made here: replies, notifications, reports of refusals.

use std::borrow::Cow;
use std::fmt::Write as _;

use posthaste_mime_summary::{HeaderFields, Span, decode_words};
use posthaste_queue::{date_time, header_lines};
use posthaste_sieve::{Notification, VacationReply};

use crate::dsn_request::DsnRequest;
use crate::required_extensions::RequiredExtensions;

/// Octets of the refused message's header that a report returns at most.
const HEADER_LEN_MAX: usize = 32 * 1024;
/// Octets of a line that is sent as it is: RFC 5322 §2.1.1.
const LINE_LEN_MAX: usize = 998;
/// Characters of a reason in the part for programs: with its field a line of at most
/// [`LINE_LEN_MAX`], also if each has four octets. The part for a person has all of it.
const DIAGNOSTIC_CHARS_MAX: usize = 200;

/// The fields that all of them share.
pub(crate) struct Frame<'f> {
    pub(crate) host: &'f str,
    /// Makes the Message-ID and the boundary.
    pub(crate) id: String,
    /// Unix seconds.
    pub(crate) now: i64,
}

impl Frame<'_> {
    /// Trace field, origin and destination.
    fn start(&self, from: &str, to: &str, subject: &str) -> String {
        let date = date_time(self.now);
        format!(
            "Received: by {host} (Posthaste);\r\n\t{date}\r\nFrom: {from}\r\nTo: {to}\r\nSubject: {subject}\r\n\
             Date: {date}\r\nMessage-ID: <{id}@{host}>\r\n",
            subject = encoded(&one_line(subject)),
            host = self.host,
            id = self.id,
        )
    }
}

/// RFC 5230 §5.
pub(crate) fn vacation(frame: &Frame<'_>, own: &str, reply: &VacationReply) -> Vec<u8> {
    // A name that is not ASCII would need encoding as a phrase: the address alone suffices.
    let from = reply.from.as_deref().filter(|from| from.is_ascii()).map(one_line);
    let from = from.unwrap_or_else(|| own.to_owned());
    let mut text = frame.start(&from, &format!("<{}>", reply.to), &reply.subject);
    text.push_str("Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n");
    if let Some(id) = &reply.in_reply_to {
        let id = one_line(id);
        let _ = write!(text, "In-Reply-To: {id}\r\nReferences: {id}\r\n");
    }
    if reply.is_mime {
        text.push_str(&crlf(&reply.reason));
    } else {
        body(&mut text, &reply.reason);
    }
    text.into_bytes()
}

/// RFC 5436 §2.7.
pub(crate) fn notification(frame: &Frame<'_>, own: &str, wanted: &Notification, message: &[u8]) -> Vec<u8> {
    let from = wanted.from.as_deref().filter(|from| from.is_ascii()).map(one_line);
    let from = from.unwrap_or_else(|| own.to_owned());
    let field = |name: &str| fields(message, name).next().unwrap_or_default();
    let given = wanted.mailto.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("subject"));
    let subject = match (&wanted.message, given) {
        (Some(message), _) => message.clone(),
        (None, Some((_, subject))) => subject.clone(),
        (None, None) => format!("New mail: {}", field("subject")),
    };
    let mut text = frame.start(&from, &wanted.mailto.to.join(", "), &subject);
    let _ = write!(text, "Auto-Submitted: auto-notified; owner-email=\"{own}\"\r\nMIME-Version: 1.0\r\n");
    let importance = match wanted.importance {
        1 => "high",
        3 => "low",
        _ => "normal",
    };
    let _ = write!(text, "Importance: {importance}\r\n");
    for (name, value) in &wanted.mailto.fields {
        if !is_ours(name) {
            let _ = write!(text, "{name}: {}\r\n", encoded(&one_line(value)));
        }
    }
    let usual = || format!("From: {}\r\nSubject: {}\r\n", field("from"), field("subject"));
    body(&mut text, &wanted.mailto.body.clone().unwrap_or_else(usual));
    text.into_bytes()
}

/// Fields that a URI cannot set a second time.
fn is_ours(name: &str) -> bool {
    let ours = ["subject", "auto-submitted", "mime-version", "importance", "to", "authentication-results"];
    ours.iter().any(|one| name.eq_ignore_ascii_case(one)) || name.to_ascii_lowercase().starts_with("content-")
}

/// A recipient that does not get a message, and the reason.
pub(crate) struct Refused<'r> {
    pub(crate) recipient: &'r str,
    pub(crate) reason: &'r str,
}

/// A report that a message was refused, in these words for its sender. RFC 3464; RFC 5429 §2.
pub(crate) fn refusal(
    frame: &Frame<'_>,
    to: &str,
    words: &str,
    (asked, refused): (DsnRequest<'_>, &[Refused<'_>]),
    (message, needs): (&[u8], RequiredExtensions),
) -> Vec<u8> {
    let postmaster = format!("Mail Delivery System <postmaster@{}>", frame.host);
    let mut text = frame.start(&postmaster, &format!("<{to}>"), "Your message was refused by its recipient");
    let (boundary, header) = (format!("refusal-{}", frame.id), header(message));
    // RFC 6533 §3: addresses and fields in UTF-8 need the international forms of all parts. A
    // multipart is 8bit if a part is (RFC 2045 §6.4).
    let mut addresses =
        refused.iter().map(|one| one.recipient).chain(asked.orcpt.map(|orcpt| orcpt.as_str()));
    // Fields beyond ASCII make such a report only if the message came with SMTPUTF8. Otherwise
    // their octets have any charset or none.
    let is_header_utf8 = std::str::from_utf8(header).is_ok();
    let is_utf8 = needs.smtputf8 && !header.is_ascii() && is_header_utf8 || !addresses.all(str::is_ascii);
    let encoding = if is_utf8 { "Content-Transfer-Encoding: 8bit\r\n" } else { "" };
    let (status_type, header_type) = match is_utf8 {
        true => ("message/global-delivery-status", "message/global-headers"),
        false => ("message/delivery-status", "text/rfc822-headers"),
    };
    let _ = write!(
        text,
        "Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"{boundary}\"\r\n\
         {encoding}\r\n--{boundary}\r\n"
    );
    body(&mut text, words);
    let _ = write!(text, "\r\n--{boundary}\r\nContent-Type: {status_type}\r\n{encoding}\r\n");
    if let Some(envid) = asked.envid {
        let _ = write!(text, "Original-Envelope-Id: {}\r\n", envid.decoded());
    }
    let _ = write!(text, "Reporting-MTA: dns; {}\r\n", frame.host);
    for Refused { recipient, reason } in refused {
        let kind = if recipient.is_ascii() { "rfc822" } else { "utf-8" };
        text.push_str("\r\n");
        if let Some(original) = asked.orcpt {
            let _ = write!(text, "Original-Recipient: {}\r\n", original.field());
        }
        let _ = write!(text, "Final-Recipient: {kind}; {recipient}\r\nAction: failed\r\nStatus: 5.7.1\r\n");
        // RFC 3464 §2.3.6: a report that is not international has ASCII alone.
        let reason: String = one_line(reason).chars().take(DIAGNOSTIC_CHARS_MAX).collect();
        if is_utf8 || reason.is_ascii() {
            let _ = write!(text, "Diagnostic-Code: smtp; 550 5.7.1 {reason}\r\n");
        }
    }
    let _ = write!(text, "\r\n--{boundary}\r\nContent-Type: {header_type}\r\n{encoding}\r\n");
    let mut bytes = text.into_bytes();
    let is_as_it_came = is_utf8 && is_header_utf8;
    bytes.extend(header.iter().map(|octet| if is_as_it_came || octet.is_ascii() { *octet } else { b'?' }));
    bytes.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    bytes
}

/// The header of a message without its Return-Path, cut at a line's end if it is long.
fn header(message: &[u8]) -> &[u8] {
    let message = without_return_path(message);
    let start = message.get(..HEADER_LEN_MAX).unwrap_or(message);
    let whole = header_lines(start).take_while(|line| line.ends_with(b"\n"));
    let end: usize = whole.map(<[u8]>::len).sum();
    start.get(..end).unwrap_or_default()
}

/// A message without the Return-Path in front.
pub(crate) fn without_return_path(message: &[u8]) -> &[u8] {
    let end = message.iter().position(|byte| *byte == b'\n');
    match end.and_then(|end| message.get(end + 1..)) {
        Some(rest) if message.starts_with(b"Return-Path:") => rest,
        _ => message,
    }
}

/// The values of a header field, decoded, on one line each.
pub(crate) fn fields<'m>(message: &'m [u8], name: &'m str) -> impl Iterator<Item = String> + 'm {
    let all = Span::new(0, u32::try_from(message.len()).unwrap_or(u32::MAX));
    let named = HeaderFields::new(message, all).filter(move |field| field.is(message, name));
    named.map(move |field| one_line(&decode_words(field.raw_value(message))))
}

/// No line end, so that a header can contain it.
fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect::<String>().trim().to_owned()
}

/// RFC 2047 §2: as encoded words, if it is not ASCII.
fn encoded(text: &str) -> Cow<'_, str> {
    /// 45 octets are 60 of base64: with its frame, a word stays under 75.
    const OCTETS_MAX: usize = 45;
    if text.is_ascii() && text.len() <= LINE_LEN_MAX - 32 {
        return Cow::Borrowed(text);
    }
    let (mut made, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let mut len = rest.len().min(OCTETS_MAX);
        while !rest.is_char_boundary(len) {
            len -= 1;
        }
        let (piece, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
        let _ = write!(made, "=?UTF-8?B?{}?=", base64(piece.as_bytes()));
        made.push_str(if after.is_empty() { "" } else { "\r\n " });
        rest = after;
    }
    Cow::Owned(made)
}

/// The fields of a text body and the body: in base64 unless it can go as it is.
fn body(into: &mut String, text: &str) {
    let text = crlf(text);
    into.push_str("Content-Type: text/plain; charset=utf-8\r\n");
    if text.is_ascii() && text.split("\r\n").all(|line| line.len() <= LINE_LEN_MAX) {
        into.push_str("\r\n");
        into.push_str(&text);
    } else {
        into.push_str("Content-Transfer-Encoding: base64\r\n\r\n");
        for line in text.as_bytes().chunks(57) {
            into.push_str(&base64(line));
            into.push_str("\r\n");
        }
    }
    if !into.ends_with("\r\n") {
        into.push_str("\r\n");
    }
}

/// Every line end as CR LF.
fn crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n")
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use mail_parser::{MessageParser, MimeHeaders as _};
    use posthaste_queue::{EnvelopeId, OriginalRecipient};

    use super::*;

    fn frame() -> Frame<'static> {
        Frame { host: "mail.example.org", id: "1a".into(), now: 1_000_000_000 }
    }

    fn reply(reason: &str) -> VacationReply {
        VacationReply {
            to: "bo@example.net".into(),
            from: None,
            subject: "Über\r\nBcc: x".into(),
            reason: reason.into(),
            is_mime: false,
            in_reply_to: Some("<m@x>".into()),
            key: "k".into(),
            seconds: None,
            fcc: None,
        }
    }

    #[test]
    fn a_reply_reads_back() {
        let text = vacation(&frame(), "ana@example.org", &reply("Grüße\nfrom afar"));
        let read = MessageParser::new().parse(&text).unwrap();
        assert_eq!(read.subject(), Some("Über  Bcc: x"));
        assert_eq!(read.body_text(0).unwrap().trim_end(), "Grüße\r\nfrom afar");
        assert_eq!(read.in_reply_to().as_text(), Some("m@x"));
        assert!(read.header("Bcc").is_none() && text.is_ascii());
        assert_eq!(read.header_raw("Auto-Submitted").map(str::trim), Some("auto-replied"));
    }

    #[test]
    fn a_reply_of_mime_is_the_entity_itself() {
        let given = VacationReply { is_mime: true, ..reply("Content-Type: text/html\n\n<p>away</p>") };
        let text = String::from_utf8(vacation(&frame(), "ana@example.org", &given)).unwrap();
        assert!(text.ends_with("References: <m@x>\r\nContent-Type: text/html\r\n\r\n<p>away</p>"), "{text}");
    }

    fn refused<'r>(recipient: &'r str, reason: &'r str) -> Refused<'r> {
        Refused { recipient, reason }
    }

    fn subtypes(text: &[u8]) -> Vec<String> {
        let read = MessageParser::new().parse(text).unwrap();
        let types = read.parts.iter().filter_map(|part| part.content_type()?.subtype());
        types.map(str::to_owned).collect()
    }

    #[test]
    fn a_refusal_has_the_parts_of_a_report() {
        let message = b"Return-Path: <bo@x>\r\nSubject: hi\r\n\r\nbody";
        let (envid, orcpt) = (EnvelopeId::parse("id+2B1"), OriginalRecipient::parse("rfc822;x@y"));
        let asked = DsnRequest { envid: envid.as_ref(), orcpt: orcpt.as_ref(), ..DsnRequest::default() };
        let all = [refused("ana@example.org", "go\r\naway"), refused("cy@example.org", "grüße")];
        let text =
            refusal(&frame(), "bo@x", "go away", (asked, &all), (message, RequiredExtensions::default()));
        assert_eq!(subtypes(&text), ["report", "plain", "delivery-status", "rfc822-headers"]);
        let text = String::from_utf8(text).unwrap();
        assert!(text.is_ascii() && text.contains("go away"), "{text}");
        assert!(text.contains("\r\n\r\nOriginal-Envelope-Id: id+1\r\nReporting-MTA: "), "{text}");
        let each = "\r\n\r\nOriginal-Recipient: rfc822; x@y\r\nFinal-Recipient: rfc822; ana@example.org\r\nAction: failed\r\nStatus: 5.7.1\r\n\
                    Diagnostic-Code: smtp; 550 5.7.1 go  away\r\n\
                    \r\nOriginal-Recipient: rfc822; x@y\r\nFinal-Recipient: rfc822; cy@example.org\r\nAction: failed\r\nStatus: 5.7.1\r\n\r\n--";
        assert!(text.contains(each), "{text}");
        assert!(text.contains("\r\n\r\nSubject: hi\r\n\r\n--refusal-1a--\r\n"), "{text}");
    }

    /// The host that sends the message on makes CR LF of a bare LF: what follows is its body.
    #[test]
    fn a_refusal_returns_no_body() {
        for blank in ["\n\n", "\r\n\n", "\n\r\n", "\r\n\r\n"] {
            let message = format!("Return-Path: <bo@x>\r\nSubject: hi{blank}secret\r\n\r\nmore\r\n");
            let (about, needs) = ([refused("ana@x", "no")], RequiredExtensions::default());
            let about = (DsnRequest::default(), &about[..]);
            let text = refusal(&frame(), "bo@x", "no", about, (message.as_bytes(), needs));
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("Subject: hi") && !text.contains("secret"), "{blank:?}: {text}");
        }
        assert_eq!(header(b"Return-Path: <a@b>\r\nA: b\r\nC: d"), b"A: b\r\n");
    }

    /// The sender's host would refuse a report in UTF-8, and Latin-1 is not UTF-8.
    #[test]
    fn fields_of_eight_bits_need_no_international_refusal() {
        for (message, subject) in
            [(&b"Subject: gr\xfcn\r\n\r\n"[..], "gr?n"), ("Subject: ü\r\n\r\n".as_bytes(), "??")]
        {
            for recipient in ["ana@x", "jörg@x"] {
                let refused = [refused(recipient, "no")];
                let about = (DsnRequest::default(), &refused[..]);
                let text = refusal(&frame(), "bo@x", "no", about, (message, RequiredExtensions::default()));
                let text = String::from_utf8(text).unwrap();
                assert_eq!(text.is_ascii() && !text.contains("global"), recipient.is_ascii(), "{text}");
                let is_kept = !recipient.is_ascii() && subject == "??";
                let subject = if is_kept { "ü" } else { subject };
                assert!(text.contains(&format!("\r\n\r\nSubject: {subject}\r\n")), "{text}");
            }
        }
    }

    /// RFC 6533 §3.
    #[test]
    fn a_refusal_with_utf8_has_the_international_parts() {
        let plain: &[u8] = b"Subject: hi\r\n\r\nbody";
        for (recipient, message) in [("jörg@x", plain), ("ana@x", "Subject: ü\r\n\r\n".as_bytes())] {
            let text = refusal(
                &frame(),
                "bo@x",
                "go away",
                (DsnRequest::default(), &[refused(recipient, "nö")]),
                (message, RequiredExtensions { smtputf8: !message.is_ascii(), binary: false }),
            );
            let types = ["report", "plain", "global-delivery-status", "global-headers"];
            assert_eq!(subtypes(&text), types);
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text.matches("Content-Transfer-Encoding: 8bit\r\n").count(), 3, "{text}");
            let kind = if recipient.is_ascii() { "rfc822" } else { "utf-8" };
            assert!(text.contains(&format!("Final-Recipient: {kind}; {recipient}\r\n")), "{text}");
            assert!(text.contains("smtp; 550 5.7.1 nö\r\n"), "{text}");
        }
    }
}
