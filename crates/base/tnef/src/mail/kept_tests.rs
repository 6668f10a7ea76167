//! Nothing of a message is lost: texts, images, reports, files that are elsewhere.

use super::*;
use crate::Attachment;

/// The text that is before the TNEF part of the samples, replaced.
pub fn with_text(rich: &Message, text: &str) -> Vec<u8> {
    let mail = String::from_utf8(samples::mail(rich)).expect("ASCII");
    let old = "Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
Gr=FC=DFe, bold &\r\n";
    assert!(mail.contains(old));
    mail.replace(old, text).into_bytes()
}

pub const COMMENT: &str = "Content-Type: text/plain\r\n\r\nCan you open this?\r\n";

fn disposition(mime: &[u8], place: usize) -> String {
    field(mime, place, "content-disposition").split(';').next().unwrap_or_default().to_owned()
}

#[test]
fn another_text_and_the_rich_one_both_stay() {
    let mime = converted(&with_text(&samples::note(), COMMENT));
    let rich = [
        " multipart/alternative",
        "  text/plain",
        "  multipart/related",
        "   text/html",
        "   image/png",
        " application/octet-stream",
    ];
    assert_eq!(tree(&mime)[..8], [&["multipart/mixed", " text/plain"][..], &rich].concat());
    assert_eq!((text_of(&mime, 1).as_str(), text_of(&mime, 5).as_str()), ("Can you open this?", HTML));
    // Text alone, as a banner and the message after it.
    let mut plain = Message::default();
    plain.properties.push(samples::text(property::BODY, "The text"));
    let mime = converted(&with_text(&plain, COMMENT));
    assert_eq!(tree(&mime), ["multipart/mixed", " text/plain", " text/plain"]);
    assert_eq!(text_of(&mime, 2), "The text");
    // The same text once.
    let mime = converted(&with_text(&plain, &COMMENT.replace("Can you open this?", " The\r\ntext")));
    assert_eq!(tree(&mime), ["multipart/mixed", " text/plain"]);
    // A text with its own HTML, about a file.
    let both = "Content-Type: multipart/alternative; boundary=q\r\n\r\n--q\r\nContent-Type: text/plain\r\n\r\nOpen \
this\r\n--q\r\nContent-Type: text/html\r\n\r\n<p>Open this</p>\r\n--q--\r\n";
    let mime = converted(&with_text(&samples::note(), both));
    assert_eq!(tree(&mime)[1..4], [" multipart/alternative", "  text/plain", "  text/html"]);
    assert_eq!(tree(&mime)[4..10], rich);
}

#[test]
fn images_of_a_text_that_is_there_become_files() {
    let same = "Content-Type: text/html; charset=utf-8\r\n\r\n<p>Gr\u{fc}\u{df}e,<br><i>bold</i> &amp;\r\n";
    let mime = converted(&with_text(&samples::note(), same));
    assert_eq!(
        tree(&mime)[..5],
        ["multipart/mixed", " text/html", " image/png", " application/octet-stream", " message/rfc822"]
    );
    assert_eq!((content(&mime, 2), disposition(&mime, 2)), (IMAGE.to_vec(), "attachment".to_owned()));
    // HTML is no loss where the text that is there has none.
    let alternative = "Content-Type: multipart/alternative; boundary=q\r\n\r\n--q\r\nContent-Type: text/plain\r\n\r\n\
Gr&e, bold\r\n--q--\r\n";
    let alternative = alternative.replace("Gr&e", "Gr\u{fc}\u{df}e");
    let alternative = alternative.replace("text/plain\r\n", "text/plain; charset=utf-8\r\n");
    let mime = converted(&with_text(&samples::note(), &alternative));
    assert_eq!(
        tree(&mime)[1..6],
        [" multipart/alternative", "  text/plain", " multipart/related", "  text/html", "  image/png"]
    );
}

pub fn of_class(class: &str, properties: Vec<Property>) -> Message {
    let properties = [vec![samples::text(property::MESSAGE_CLASS, class)], properties].concat();
    Message { properties, ..Message::default() }
}

#[test]
fn reports_have_their_text_and_nothing_is_made_empty() {
    let said = samples::text(property::REPORT_TEXT, "Message was read on: Monday");
    for class in ["Report.IPM.Note.IPNRN", "Report.IPM.Note.NDR"] {
        let report = of_class(class, vec![said.clone()]);
        let mime = converted(&bare("Subject: Read\r\n", &report));
        assert_eq!(tree(&mime), ["text/plain"], "{class}");
        assert_eq!(text_of(&mime, 0).trim_end(), "Message was read on: Monday");
        let mime = converted(&with_text(&report, COMMENT));
        assert_eq!(tree(&mime), ["multipart/mixed", " text/plain", " text/plain"], "{class}");
    }
    // One without a text says what its properties say, unless another part has words.
    let bare_report = of_class("Report.IPM.Note.NDR", vec![samples::text(0x0049, "Plans")]);
    let expected = "The message was not delivered.\r\n\r\nSubject: Plans";
    assert_eq!(text_of(&converted(&bare("Subject: x\r\n", &bare_report)), 0).trim_end(), expected);
    assert_eq!(tree(&converted(&with_text(&bare_report, COMMENT))), ["multipart/mixed", " text/plain"]);
    let outer =
        Message { attachments: vec![samples::forwarded(bare_report)], ..samples::with_html("x", "a") };
    let mime = converted(&samples::mail(&outer));
    assert_eq!(text_of(&mime, tree(&mime).len() - 1).trim_end(), expected);
    let forward = of_class("IPM.Schedule.Meeting.Notification.Forward", vec![]);
    let class = forward.class();
    assert_eq!(convert(&bare("", &forward)), Err(Damage::Empty { class }));
    // Another part says what there is to say.
    assert_eq!(tree(&converted(&with_text(&forward, COMMENT))), ["multipart/mixed", " text/plain"]);
    assert_eq!(tree(&converted(&bare("Subject: x\r\n", &of_class("IPM.Note", vec![])))), ["text/plain"]);
}

#[test]
fn a_task_without_text_is_a_calendar() {
    let due = Property::named(named::TASK_DUE_DATE, Value::Time(samples::TIME));
    let mime = converted(&with_text(&of_class("IPM.Task", vec![due]), COMMENT));
    assert_eq!(tree(&mime), ["multipart/mixed", " text/plain", " text/calendar"]);
    assert!(field(&mime, 2, "content-disposition").contains("task.ics"));
    assert!(calendar(&mime).contains("\r\nDUE;VALUE=DATE:20231115\r\n"));
}

#[test]
fn an_answer_with_another_time_is_a_counter_proposal() {
    let mut answer = samples::meeting("IPM.Schedule.Meeting.Resp.Tent");
    answer.properties.extend([
        Property::named(named::COUNTER_PROPOSAL, Value::Bool(true)),
        Property::named(named::PROPOSED_START_WHOLE, Value::Time(samples::TIME + 2 * samples::HOUR)),
    ]);
    let text = calendar(&converted(&samples::mail(&answer)));
    for line in [
        "METHOD:COUNTER",
        "DTSTART:20231115T001320Z",
        // As long as the meeting was.
        "DTEND:20231115T011320Z",
        "SEQUENCE:2",
        "ATTENDEE;CN=\"Sender\";PARTSTAT=TENTATIVE:mailto:sender@x.example",
    ] {
        assert!(text.contains(&format!("\r\n{line}\r\n")), "{line}: {text}");
    }
    let end = Value::Time(samples::TIME + 5 * samples::HOUR);
    answer.properties.push(Property::named(named::PROPOSED_END_WHOLE, end));
    assert!(calendar(&converted(&samples::mail(&answer))).contains("\r\nDTEND:20231115T031320Z\r\n"));
}

#[test]
fn a_message_of_one_text_ends_with_a_line_end() {
    let mut rich = Message::default();
    rich.properties.push(samples::text(property::BODY, "no line end"));
    assert!(converted(&bare("", &rich)).ends_with(b"\r\n\r\nno line end\r\n"));
}

#[test]
fn html_alone_has_a_text_too() {
    let mut rich = Message::default();
    rich.properties.push(Property::new(property::HTML, Value::Binary(b"<p>a<p>b &amp; c".to_vec())));
    let mime = converted(&bare("", &rich));
    assert_eq!(tree(&mime), ["multipart/alternative", " text/plain", " text/html"]);
    assert_eq!(text_of(&mime, 1), "a\r\n\r\nb & c");
}

#[test]
fn an_embedded_message_keeps_the_header_with_which_it_came() {
    let mut inner = samples::with_html("Inner", "<p>inner</p>");
    let came = "Received: from a\r\n\tby b\r\nFrom: orig@o.example\r\nReply-To: rt@o.example\r\nMIME-Version: 1.0\r\n\
Content-Type: text/plain\r\nX-Bad: \u{fc}\r\n\r\n";
    inner.properties.push(samples::text(property::TRANSPORT_MESSAGE_HEADERS, came));
    let rich =
        Message { attachments: vec![samples::forwarded(inner)], ..samples::with_html("x", "<p>a</p>") };
    let mime = converted(&bare("", &rich));
    let place =
        tree(&mime).iter().position(|media| media.ends_with("message/rfc822")).expect("a message") + 1;
    let of = |name: &str| field(&mime, place, name);
    assert_eq!([of("from"), of("reply-to"), of("subject")], ["orig@o.example", "rt@o.example", "Inner"]);
    assert!(of("received").starts_with("from a") && of("content-type").starts_with("multipart/alternative"));
    assert_eq!([of("x-bad"), of("date")], ["", "Tue, 14 Nov 2023 22:13:20 +0000"]);
}

#[test]
fn a_file_that_is_elsewhere_is_named() {
    let properties = vec![
        samples::text(property::ATTACH_LONG_FILENAME, "plan.doc"),
        samples::text(property::ATTACH_LONG_PATHNAME, "\\\\server\\share\\plan.doc"),
        Property::new(property::ATTACH_METHOD, Value::Int32(2)),
    ];
    // Some writers add data that is empty.
    let empty = Property::new(property::ATTACH_DATA, Value::Binary(vec![]));
    let old = Attribute { id: attribute::ATTACH_DATA, data: vec![] };
    let plain = Attachment { properties: properties.clone(), ..Attachment::default() };
    let with_empty = [properties.clone(), vec![empty.clone()]].concat();
    let with_empty = Attachment { properties: with_empty, attributes: vec![old], ..Attachment::default() };
    for attachment in [plain, with_empty] {
        let attachments = vec![attachment];
        let mime = converted(&with_text(&Message { attachments, ..Message::default() }, COMMENT));
        assert_eq!(tree(&mime), ["multipart/mixed", " text/plain", " text/plain"]);
        let text = text_of(&mime, 2);
        assert!(text.contains("plan.doc") && text.contains("\\\\server\\share\\plan.doc"), "{text}");
    }
    // A file by value may be empty, and its path is where its sender had it.
    let mut by_value = vec![Property::new(property::ATTACH_METHOD, Value::Int32(1)), empty];
    by_value.extend(properties);
    let attachments = vec![Attachment { properties: by_value, ..Attachment::default() }];
    let mime = converted(&with_text(&Message { attachments, ..Message::default() }, COMMENT));
    assert_eq!(tree(&mime)[2..], [" application/msword"]);
}

#[test]
fn images_are_found_by_escaped_ids_and_by_locations() {
    let image = |id: u16, value: &str| {
        let mut image = samples::file("logo.png", IMAGE);
        image.properties.push(samples::text(id, value));
        image
    };
    let mut rich = samples::with_html("x", "<p>a<img src=\"cid:logo%40x\"><IMG SRC='pic.gif'></p>");
    rich.attachments = vec![
        image(property::ATTACH_CONTENT_ID, "logo@x"),
        image(property::ATTACH_CONTENT_LOCATION, "pic.gif"),
        image(property::ATTACH_CONTENT_LOCATION, "other.gif"),
    ];
    let mime = converted(&bare("", &rich));
    let found = ["   text/html", "   image/png", "   image/png", " image/png"];
    assert_eq!(tree(&mime)[4..], found);
    assert_eq!(field(&mime, 6, "content-location"), "pic.gif");
    assert_eq!([5, 6, 7].map(|place| disposition(&mime, place)), ["inline", "inline", "attachment"]);
}

#[test]
fn no_boundary_is_the_beginning_of_another() {
    let inner = || samples::forwarded(samples::with_html("x", "<p>a</p>"));
    let attachments = (0..12).map(|_| inner()).collect();
    let mime = converted(&bare("", &Message { attachments, ..samples::with_html("x", "<p>a</p>") }));
    let mime = String::from_utf8(mime).expect("ASCII");
    let boundaries =
        mime.split("boundary=\"").skip(1).map(|rest| rest.split('"').next().expect("a boundary"));
    let boundaries: Vec<_> = boundaries.collect();
    assert_eq!(boundaries.len(), 14);
    assert!(boundaries.iter().all(|one| one.len() == boundaries[0].len()), "{boundaries:?}");
}

#[test]
fn a_text_that_openpgp_signs_or_encrypts_is_kept_with_all_beside_it() {
    let with = |text: &str| convert(&with_text(&samples::note(), text));
    let text = |lines: &str| with(&format!("Content-Type: text/plain\r\n\r\n{lines}\r\n"));
    for kind in ["MESSAGE", "SIGNED MESSAGE"] {
        assert_eq!(text(&format!("-----BEGIN PGP {kind}-----\r\n\r\nx")), Ok(Outcome::Sealed), "{kind}");
        assert_eq!(text(&format!("See below.\r\n-----BEGIN PGP {kind}-----\r\n")), Ok(Outcome::Sealed));
    }
    // The line as its transfer encodings write it.
    let quoted = "Content-Type: text/plain\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=2D----BEGIN PGP \
                  MESSAGE-----\r\n";
    let base64 = "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nLS0tLS1CRUdJTiBQR1AgTUVTU0FHRS0t\
                  LS0tDQo=\r\n";
    assert_eq!((with(quoted), with(base64)), (Ok(Outcome::Sealed), Ok(Outcome::Sealed)));
    // A key, a quoted block and a sentence about one seal nothing.
    for lines in [
        "-----BEGIN PGP PUBLIC KEY BLOCK-----",
        "> -----BEGIN PGP MESSAGE-----",
        "It says -----BEGIN PGP SIGNED MESSAGE-----",
    ] {
        assert!(matches!(text(lines), Ok(Outcome::Converted(_))), "{lines}");
    }
}

#[test]
fn a_message_that_is_nested_too_deep_stays_an_attachment_and_the_reason_is_named() {
    let nested = |levels: usize| {
        (1..levels).fold(samples::note(), |inner, _| Message {
            attachments: vec![samples::forwarded(inner)],
            ..samples::note()
        })
    };
    for (levels, reasons) in [(crate::DEPTH_MAX - 1, 0), (crate::DEPTH_MAX + 2, 1)] {
        let mut named = Vec::new();
        let mail = samples::mail(&nested(levels));
        let Ok(Outcome::Converted(mime)) = convert_and_name(&mail, &mut |why| named.push(why)) else {
            panic!("it is converted")
        };
        assert_eq!(named, vec![Damage::Depth { limit: crate::DEPTH_MAX }; reasons]);
        assert_eq!(memchr::memmem::find_iter(&mime, b"application/ms-tnef").count(), reasons, "{levels}");
    }
}
