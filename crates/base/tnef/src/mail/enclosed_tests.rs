//! What is within a multipart does not end it, and a file that is a message is one.

use super::kept::{COMMENT, with_text};
use super::*;
use crate::tags::SET_INTERNET_HEADERS;
use crate::{Attachment, Name, NameKey};

/// A note that forwards a message with this header.
fn forwards(came: &str) -> Message {
    let mut inner = samples::with_html("Inner", "<p>inner</p>");
    inner.properties.push(samples::text(property::TRANSPORT_MESSAGE_HEADERS, came));
    Message { attachments: vec![samples::forwarded(inner)], ..samples::with_html("x", "<p>a</p>") }
}

/// A property of PS_INTERNET_HEADERS.
fn named_field(name: &str, value: &str) -> Property {
    let name = Name { set: SET_INTERNET_HEADERS, key: NameKey::Text(name.to_owned()) };
    Property { id: 0x8000, name: Some(Box::new(name)), value: Value::String(value.to_owned()) }
}

/// A message with these properties, and the place of the message that it forwards.
fn forwarded_with(properties: Vec<Property>) -> (Vec<u8>, usize) {
    let mut inner = samples::with_html("Inner", "<p>inner</p>");
    inner.properties.extend(properties);
    let outer =
        Message { attachments: vec![samples::forwarded(inner)], ..samples::with_html("x", "<p>a</p>") };
    let mime = converted(&samples::mail(&outer));
    let place = tree(&mime).iter().position(|media| media.ends_with("message/rfc822")).expect("a message");
    (mime, place + 1)
}

/// MS-OXCMAIL: PS_INTERNET_HEADERS, the conversation, the flag, the list.
#[test]
fn an_enclosed_message_has_the_fields_of_its_properties() {
    let long = format!("<https://x.example/{}>", "y".repeat(100));
    let (mime, place) = forwarded_with(vec![
        samples::text(property::TRANSPORT_MESSAGE_HEADERS, "X-A: came\r\n\r\n"),
        named_field("x-a", "hidden"),
        named_field("Subject", "hidden"),
        named_field("X-Own", "Gr\u{fc}\u{df}e\r\nX-B: b"),
        named_field("x-own", "hidden"),
        named_field("Content-Type", "hidden/x"),
        named_field("MIME-Version", "hidden"),
        named_field("--b", "hidden"),
        named_field("X B", "hidden"),
        named_field("X:B", "hidden"),
        named_field("", "hidden"),
        named_field("X-Microsoft-Exchange-Organization-A", "hidden"),
        samples::text(0x0070, "The topic"),
        Property::new(0x0071, Value::Binary(vec![0; 54])),
        Property::new(0x0015, Value::Time(samples::TIME + samples::HOUR)),
        Property::new(0x0030, Value::Time(samples::TIME)),
        Property::named((named::REMINDER_SET.0, 0x8530), Value::String("Follow up".to_owned())),
        samples::text(0x1043, "<mailto:help@x.example>"),
        samples::text(0x1045, &long),
    ]);
    for (name, expected) in [
        ("x-a", "came"),
        ("subject", "Inner"),
        ("x-own", "Gr\u{fc}\u{df}e  X-B: b"),
        ("thread-topic", "The topic"),
        ("expires", "Tue, 14 Nov 2023 23:13:20 +0000"),
        ("reply-by", "Tue, 14 Nov 2023 22:13:20 +0000"),
        ("x-message-flag", "Follow up"),
        ("list-help", "<mailto:help@x.example>"),
        ("list-unsubscribe", long.as_str()),
    ] {
        assert_eq!(field(&mime, place, name), expected, "{name}");
    }
    assert_eq!(field(&mime, place, "thread-index").replace(' ', ""), "A".repeat(72));
    assert!(memmem::find(&mime, b"hidden").is_none());
    // They are those of the message inside, and a time for the answer needs a flag.
    assert_eq!(field(&mime, 0, "x-own"), "");
    let (mime, place) = forwarded_with(vec![Property::new(0x0030, Value::Time(samples::TIME))]);
    assert_eq!(field(&mime, place, "reply-by"), "");
}

#[test]
fn fields_of_properties_are_bounded() {
    let lines = |properties: Vec<Property>| {
        let (mime, _) = forwarded_with(properties);
        memmem::find_iter(&mime, b"\nX-Many-").count()
    };
    let many = |value: &str| (0..2_000).map(|n| named_field(&format!("X-Many-{n}"), value)).collect();
    assert_eq!(lines(many("x")), 1_000);
    let fields = lines(many(&"xyz ".repeat(100)));
    assert!((100..165).contains(&fields), "{fields}");
}

/// A note with a file of this type.
fn with_file(media: &str, bytes: &[u8]) -> Message {
    let mut file = samples::file("a.eml", bytes);
    file.properties.push(samples::text(property::ATTACH_MIME_TAG, media));
    Message { attachments: vec![file], ..samples::with_html("x", "<p>a</p>") }
}

/// The last part at the top of a message: its type, its encoding and its bytes.
fn last(mime: &[u8]) -> (String, Encoding, Vec<u8>) {
    let structure = Structure::parse(mime);
    let top = |part: &&Part| part.parent() == Some(0);
    let part = structure.parts().iter().rfind(top).expect("a part");
    let media = part.media(mime);
    let name = [media.top, b"/", media.sub].concat();
    (String::from_utf8(name).expect("ASCII"), part.encoding, part.body.of(mime).to_vec())
}

#[test]
fn a_forged_header_ends_no_multipart_around_it() {
    let honest = converted(&samples::mail(&forwards("X-A: b\r\n\r\n")));
    let close = |message: &[u8]| memchr::memmem::find_iter(message, b"\n--b").count();
    for came in ["--b--: x\r\nX-A: b\r\n\r\n", "X-A: b\r\n--b: x\r\n\r\n", "--b\r\nX-A: b\r\n--b--\r\n"] {
        let mime = converted(&samples::mail(&forwards(came)));
        assert_eq!((tree(&mime), close(&mime)), (tree(&honest), close(&honest)), "{came}");
    }
}

/// RFC 2046 §5.1.1: a line that begins with a delimiter is one, whatever is behind it.
#[test]
fn no_boundary_of_a_stranger_begins_a_new_one() {
    let mail = String::from_utf8(samples::mail(&forwards("X-A: b\r\n\r\n"))).expect("ASCII");
    let nested = |boundary: &str| {
        let head = format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\r\n--{boundary}\r\n");
        (head, format!("--{boundary}--\r\n"))
    };
    for boundary in ["b", "=_", "=", "A=_"] {
        let text = mail.replace("boundary=\"b\"", &format!("boundary=\"{boundary}\""));
        let text = text.replace("--b", &format!("--{boundary}"));
        let mime = converted(text.as_bytes());
        let delimiters = format!("\r\n--{boundary}");
        assert_eq!(String::from_utf8_lossy(&mime).matches(&delimiters).count(), 4, "{boundary}");
    }
    // Strangers may take all of them.
    let all: Vec<_> = "=".chars().chain('A'..='Z').chain('a'..='z').map(|c| nested(&c.to_string())).collect();
    let begin: String = all.iter().map(|(head, _)| head.as_str()).collect();
    let end: String = all.iter().rev().map(|(_, close)| close.as_str()).collect();
    let mail = mail.replace("boundary=\"b\"", "boundary=\"0\"").replace("--b", "--0");
    assert_eq!(convert(format!("{begin}{mail}{end}").as_bytes()), Err(Damage::Boundaries));
}

#[test]
fn a_file_that_is_a_message_is_one() {
    let file =
        b"Subject: inner\r\nContent-Type: multipart/mixed; boundary=q\r\n\r\n--q\r\n\r\none\r\n--q--\r\n";
    for message in [
        samples::mail(&with_file("Message/RFC822", file)),
        with_text(&with_file("message/rfc822", file), COMMENT),
    ] {
        let mime = converted(&message);
        assert_eq!(last(&mime), ("message/rfc822".to_owned(), Encoding::SevenBit, file.to_vec()));
        let tree = tree(&mime);
        assert_eq!(tree[tree.len() - 3..], [" message/rfc822", "  multipart/mixed", "   text/plain"]);
        assert!(field(&mime, tree.len() - 3, "content-disposition").contains("filename=\"a.eml\""));
        assert!(!mime.windows(4).any(|window| window.eq_ignore_ascii_case(b"8bit")));
    }
}

/// RFC 2045 §6.4: what contains 8bit is 8bit itself.
#[test]
fn a_message_in_8bit_is_one_and_what_contains_it_says_so() {
    let file = "Subject: inner\r\n\r\n\u{fc}\r\n".as_bytes();
    let rich = with_file("message/rfc822", file);
    let deep = Message { attachments: vec![samples::forwarded(rich.clone())], ..samples::note() };
    let mail = String::from_utf8(samples::mail(&rich)).expect("ASCII");
    let said =
        mail.replace("MIME-Version: 1.0\r\n", "MIME-Version: 1.0\r\nContent-Transfer-Encoding: 7bit\r\n");
    let named =
        mail.replace("MIME-Version: 1.0\r\n", "MIME-Version: 1.0\r\nContent-Transfer-Encoding: 8BIT\r\n");
    let forwarded = format!("Subject: x\r\nContent-Type: message/rfc822\r\n\r\n{mail}");
    for message in [
        mail.as_bytes(),
        said.as_bytes(),
        named.as_bytes(),
        forwarded.as_bytes(),
        &bare("Subject: x\r\n", &rich),
        &samples::mail(&deep),
    ] {
        let mime = converted(message);
        let structure = Structure::parse(&mime);
        let place = structure.parts().iter().rposition(|part| part.kind == Kind::Message).expect("the file");
        assert_eq!(structure.parts()[place].body.of(&mime), file);
        let mut at = Some(place as PartIndex);
        while let Some(part) = at.and_then(|at| structure.part(at)) {
            assert_eq!(part.encoding, Encoding::EightBit, "{}", String::from_utf8_lossy(&mime));
            let fields = HeaderFields::new(&mime, part.header);
            assert_eq!(fields.filter(|field| field.is(&mime, "content-transfer-encoding")).count(), 1);
            at = part.parent();
        }
    }
}

/// RFC 2046 §5.2.1: a message has no base64. What needs it, or would end what is around it, is a
/// file.
#[test]
fn a_file_that_cannot_stand_as_a_message_keeps_its_bytes() {
    let message = |line: &str| format!("Subject: inner\r\n\r\n{line}\r\n").into_bytes();
    for bytes in [
        message("--b--"),
        message("--b is no end"),
        b"--b: x\r\nSubject: inner\r\n\r\n".to_vec(),
        message("a\0"),
        message("a\nb"),
        message(&"x".repeat(999)),
        b"no header".to_vec(),
    ] {
        let mime = converted(&samples::mail(&with_file("message/rfc822", &bytes)));
        let (media, encoding, body) = last(&mime);
        assert_eq!((media.as_str(), encoding), ("application/octet-stream", Encoding::Base64));
        assert_eq!(decode_transfer(encoding, &body).ok(), Some(bytes));
    }
    // A path in place of bytes, and nothing at all.
    let lost = samples::text(property::ATTACH_MIME_TAG, "message/rfc822");
    let name = samples::text(property::ATTACH_LONG_FILENAME, "a.eml");
    let attachments = vec![Attachment { properties: vec![lost, name], ..Attachment::default() }];
    let mime = converted(&samples::mail(&Message { attachments, ..samples::with_html("x", "<p>a</p>") }));
    assert_eq!(last(&mime).0, "application/octet-stream");
}

/// A one-off entry (MS-OXCDATA §2.2.5.1) with this address, in a list of entries (§2.3.3).
fn reply_to(name: &str, address: &str) -> Property {
    let mut entry = vec![0; 4];
    entry.extend(b"\x81\x2B\x1F\xA4\xBE\xA3\x10\x19\x9D\x6E\x00\xDD\x01\x0F\x54\x02\0\0\x01\x90");
    for text in [name, "SMTP", address] {
        entry.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    }
    let mut list = vec![];
    for number in [2_u32, 0, 3] {
        list.extend(number.to_le_bytes());
    }
    // An entry of an address book, with its padding.
    list.extend(b"abc\0");
    list.extend((entry.len() as u32).to_le_bytes());
    list.extend(entry);
    Property::new(property::REPLY_RECIPIENT_ENTRIES, Value::Binary(list))
}

/// A message inside gets all fields that its properties have.
#[test]
fn the_header_of_an_embedded_message_is_complete() {
    let recipient = |address: &str, role: i32| {
        let role = Property::new(property::RECIPIENT_TYPE, Value::Int32(role));
        vec![samples::text(property::SMTP_ADDRESS, address), role]
    };
    let mut inner = samples::with_html("Inner", "<p>inner</p>");
    let name = crate::Name {
        set: crate::tags::SET_PUBLIC_STRINGS,
        key: crate::NameKey::Text("Keywords".to_owned()),
    };
    let keywords = ["Red", "a\r\nX-Evil: 1"].map(|text| Value::String(text.to_owned())).to_vec();
    inner.properties.extend([
        samples::text(property::SENDER_NAME, "Agent"),
        samples::text(property::SENDER_SMTP_ADDRESS, "agent@x.example"),
        Property::new(property::SENSITIVITY, Value::Int32(3)),
        Property::new(property::READ_RECEIPT_REQUESTED, Value::Bool(true)),
        Property {
            id: 0x8000,
            name: Some(Box::new(name)),
            value: Value::Many(crate::Kind::String, keywords),
        },
        reply_to("List\r\nX-Evil: 1", "list@x.example"),
    ]);
    inner.recipients = vec![recipient("to@x.example", 1), recipient("bcc@x.example", 3)];
    let note = Message { attachments: vec![samples::forwarded(inner.clone())], ..samples::note() };
    let mime = converted(&samples::mail(&note));
    let place = tree(&mime).iter().position(|media| media.contains("message/rfc822")).expect("it") + 1;
    for (name, expected) in [
        ("from", "\u{c9}mile <emile@x.example>"),
        ("sender", "\"Agent\" <agent@x.example>"),
        ("to", "to@x.example"),
        ("bcc", "bcc@x.example"),
        ("sensitivity", "Company-Confidential"),
        ("disposition-notification-to", "\u{c9}mile <emile@x.example>"),
        ("reply-to", "\"List  X-Evil: 1\" <list@x.example>"),
    ] {
        assert_eq!(field(&mime, place, name), expected, "{name}");
    }
    let keywords = field(&mime, place, "keywords").replace("\r\n", "");
    assert_eq!(keywords, "\"Red\", \"a  X-Evil: 1\"");
    assert!(memchr::memmem::find(&mime, b"\nX-Evil").is_none());
    // What was delivered has its own.
    let outer = converted(&bare("Subject: x\r\n", &inner));
    for name in ["from", "sender", "bcc", "disposition-notification-to"] {
        assert_eq!(field(&outer, 0, name), "", "{name}");
    }
    assert_eq!(field(&outer, 0, "sensitivity"), "Company-Confidential");
}

/// RFC 5322 §3.6.2: the author sends most messages without an agent.
#[test]
fn an_author_who_sent_it_is_no_agent() {
    let mut inner = samples::with_html("Inner", "<p>inner</p>");
    inner.properties.push(samples::text(property::SENDER_SMTP_ADDRESS, "emile@x.example"));
    let note = Message { attachments: vec![samples::forwarded(inner)], ..samples::note() };
    let mime = converted(&samples::mail(&note));
    let place = tree(&mime).iter().position(|media| media.contains("message/rfc822")).expect("it") + 1;
    assert_eq!(field(&mime, place, "sender"), "");
}
