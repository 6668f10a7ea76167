//! Nothing is lost where a message says less, or other things, than it has.

use super::kept::{COMMENT, of_class, with_text};
use super::*;
use crate::{Attachment, rtf};

/// A property of compressed RTF.
fn in_rtf(text: &str) -> Property {
    let rtf = format!("{{\\rtf1\\ansi {text}}}");
    Property::new(property::RTF_COMPRESSED, Value::Binary(rtf::compress(rtf.as_bytes())))
}

fn of_properties(properties: Vec<Property>) -> Message {
    Message { properties, ..Message::default() }
}

#[test]
fn html_without_words_does_not_hide_the_text_in_rtf() {
    for blank in ["", " \r\n"] {
        let bytes = blank.as_bytes().to_vec();
        for html in [Value::Binary(bytes.clone()), Value::String8(bytes), Value::String(blank.to_owned())] {
            let html = Property::new(property::HTML, html);
            let letter = of_properties(vec![html, in_rtf("The whole letter")]);
            let inner = Message { attachments: vec![samples::forwarded(letter.clone())], ..samples::note() };
            for rich in [letter, inner] {
                let mime = String::from_utf8(converted(&bare("Subject: x\r\n", &rich))).expect("ASCII");
                assert_eq!(mime.matches("The whole letter").count(), 2, "as text and as HTML: {mime}");
            }
        }
    }
}

#[test]
fn an_empty_value_does_not_hide_a_full_one() {
    let empty = Property::new(property::ATTACH_DATA, Value::Binary(vec![]));
    let mut file = samples::file("a.bin", FILE);
    file.properties.push(empty);
    let mut rich = of_properties(vec![
        samples::text(property::BODY, ""),
        samples::text(property::BODY, "The text"),
        samples::text(property::SUBJECT, ""),
        samples::text(property::SUBJECT, "The subject"),
    ]);
    rich.attachments = vec![file];
    let mime = converted(&bare("", &rich));
    assert_eq!(tree(&mime), ["multipart/mixed", " text/plain", " application/octet-stream"]);
    assert_eq!((text_of(&mime, 1).as_str(), content(&mime, 2)), ("The text", FILE.to_vec()));
    assert_eq!(field(&mime, 0, "subject"), "The subject");
    // The text of old clients, and a property without words.
    let mut old = of_properties(vec![samples::text(property::BODY, " ")]);
    old.attributes = [&b"\0"[..], b"The text\0"]
        .map(|data| Attribute { id: attribute::BODY, data: data.to_vec() })
        .to_vec();
    assert_eq!(text_of(&converted(&bare("", &old)), 0).trim_end(), "The text");
}

#[test]
fn an_attachment_that_has_only_a_name_is_there() {
    let name = samples::text(property::ATTACH_LONG_FILENAME, "plan.doc");
    let title = Attribute { id: attribute::ATTACH_TITLE, data: b"plan.doc\0".to_vec() };
    let named = [
        Attachment { properties: vec![name], ..Attachment::default() },
        Attachment { attributes: vec![title], ..Attachment::default() },
    ];
    for attachment in named {
        let attachments = vec![attachment, Attachment::default()];
        let mime = converted(&with_text(&Message { attachments, ..Message::default() }, COMMENT));
        assert_eq!(tree(&mime), ["multipart/mixed", " text/plain", " application/octet-stream"]);
        let disposition = field(&mime, 2, "content-disposition");
        assert!(disposition.contains("plan.doc") && disposition.starts_with("attachment"), "{disposition}");
        assert!(content(&mime, 2).is_empty());
    }
}

#[test]
fn openpgp_and_smime_within_winmail_dat_seal_the_mail() {
    let in_property = |text: &str| of_properties(vec![samples::text(property::BODY, text)]);
    let in_attribute = |text: &str| Message {
        attributes: vec![Attribute { id: attribute::BODY, data: format!("{text}\0").into_bytes() }],
        ..Message::default()
    };
    let within = |inner: Message| Message { attachments: vec![samples::forwarded(inner)], ..samples::note() };
    let outcome = |rich: &Message| convert(&samples::mail(rich));
    for text in ["-----BEGIN PGP MESSAGE-----\r\n\r\nx", "See:\r-----BEGIN PGP SIGNED MESSAGE-----\r\rx"] {
        for rich in [in_property(text), in_attribute(text)] {
            assert_eq!(outcome(&rich), Ok(Outcome::Sealed), "{text}");
            assert_eq!(outcome(&within(within(rich))), Ok(Outcome::Sealed), "{text}");
        }
    }
    let smime = of_class("IPM.Note.SMIME.MultipartSigned", vec![]);
    assert_eq!(outcome(&within(smime)), Ok(Outcome::Sealed));
    for text in ["> -----BEGIN PGP MESSAGE-----", "-----BEGIN PGP PUBLIC KEY BLOCK-----"] {
        assert!(matches!(outcome(&within(in_property(text))), Ok(Outcome::Converted(_))), "{text}");
    }
}

#[test]
fn html_is_read_in_its_code_page() {
    let shown = |rich: &Message| text_of(&converted(&bare("", rich)), 2);
    let html = |value: Value| Property::new(property::HTML, value);
    let cyrillic = || html(Value::String8(b"<p>\xcf\xf0</p>".to_vec()));
    let number = |id: u16| Property::new(id, Value::Int32(1251));
    let by_attribute = Message { code_page: 1251, ..of_properties(vec![cyrillic()]) };
    for rich in [
        of_properties(vec![cyrillic(), number(property::MESSAGE_CODEPAGE)]),
        of_properties(vec![cyrillic(), number(property::INTERNET_CODEPAGE)]),
        by_attribute,
    ] {
        assert_eq!(shown(&rich), "<p>\u{41f}\u{440}</p>");
    }
    let text = "\u{feff}<p>\u{41f}\u{440}</p>";
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for bytes in [little, big] {
        assert_eq!(shown(&of_properties(vec![html(Value::Binary(bytes))])), "<p>\u{41f}\u{440}</p>");
    }
    let marked = || html(Value::Binary(b"\xef\xbb\xbf<p>\xc3\xbc</p>".to_vec()));
    let utf_8 = Property::new(property::INTERNET_CODEPAGE, Value::Int32(65_001));
    for properties in [vec![marked()], vec![marked(), utf_8]] {
        assert_eq!(shown(&of_properties(properties)), "<p>\u{fc}</p>");
    }
    // What HTML declares counts where no code page is named.
    let declared = "<meta charset=\"utf-8\"><p>\u{fc}</p>";
    let value = Value::String8(declared.as_bytes().to_vec());
    assert_eq!(shown(&of_properties(vec![html(value)])), declared);
    let value = Value::String8(b"<p>\xfc</p>".to_vec());
    assert_eq!(shown(&of_properties(vec![html(value)])), "<p>\u{fc}</p>");
}

/// The HTML standard, §13.2.3.2.
#[test]
fn html_that_can_be_read_is_not_in_utf_16() {
    let shown = |properties: Vec<Property>| text_of(&converted(&bare("", &of_properties(properties))), 2);
    let html = |bytes: &[u8]| Property::new(property::HTML, Value::Binary(bytes.to_vec()));
    for declared in ["utf-16", "UTF-16LE", "utf-16be", "unicode"] {
        let text = format!("<meta charset={declared}><p>\u{fc}\u{fc}</p>");
        assert_eq!(shown(vec![html(text.as_bytes())]), text);
    }
    let text = "<p>\u{fc}</p>";
    let named = || Property::new(property::INTERNET_CODEPAGE, Value::Int32(1200));
    assert_eq!(shown(vec![html(text.as_bytes()), named()]), text);
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(shown(vec![html(&wide), named()]), text);
    for quoted in ["'windows-1251'", " 'windows-1251'", "\"windows-1251\""] {
        let head = format!("<meta charset={quoted}>");
        let bytes = [head.as_bytes(), b"<p>\xcf\xf0</p>"].concat();
        assert_eq!(shown(vec![html(&bytes)]), format!("{head}<p>\u{41f}\u{440}</p>"));
    }
}

/// MS-OXPROPS, PidTagMessageCodepage: the code page of text that is not Unicode.
#[test]
fn text_of_8_bits_is_not_in_utf_16() {
    let number = Property::new(property::MESSAGE_CODEPAGE, Value::Int32(1200));
    let body = Property::new(property::BODY, Value::String8(b"\xcf\xf0, words".to_vec()));
    let html = Property::new(property::HTML, Value::String8(b"<p>\xcf\xf0</p>".to_vec()));
    let rich = Message { code_page: 1251, ..of_properties(vec![number, body, html]) };
    let mime = converted(&bare("", &rich));
    assert_eq!(text_of(&mime, 1).trim_end(), "\u{41f}\u{440}, words");
    assert_eq!(text_of(&mime, 2), "<p>\u{41f}\u{440}</p>");
}

/// A script does not run for a header that is over the bounds for mail that comes in.
#[test]
fn fields_of_properties_make_no_endless_header() {
    let person = |number: usize| {
        let name = format!("{number}{}", "\u{fc}".repeat(200));
        vec![
            samples::text(property::DISPLAY_NAME, &name),
            Property::new(property::RECIPIENT_TYPE, Value::Int32(1)),
        ]
    };
    let with = |count: usize| Message { recipients: (0..count).map(person).collect(), ..samples::note() };
    assert!(converted(&bare("", &with(1_000))).len() > 600_000, "each is named");
    assert_eq!(convert(&bare("", &with(4_000))), Err(Damage::Header));
    // The message has the field already.
    let mime = converted(&bare("To: ana@y.example\r\n", &with(4_000)));
    assert_eq!(field(&mime, 0, "to"), "ana@y.example");
    // Type, encoding and these are all fields that may come.
    let fields = "X: y\r\n".repeat(posthaste_mime_summary::HEADER_FIELDS_MAX - 2);
    assert_eq!(convert(&bare(&fields, &samples::note())), Err(Damage::Header));
}

#[test]
fn a_task_without_text_stays_beside_a_text() {
    let task = of_class("IPM.Task", vec![]);
    let empty = Damage::Empty { class: task.class() };
    assert_eq!(convert(&with_text(&task, COMMENT)), Err(empty.clone()));
    // If another part is converted, it stays the attachment that it was.
    let mail = String::from_utf8(samples::mail(&samples::note())).expect("ASCII");
    let alone = String::from_utf8(samples::mail(&task)).expect("ASCII");
    let at = alone.find("--b\r\nContent-Type: application/ms-tnef").expect("its part");
    let part = alone[at..].trim_end_matches("--b--\r\n");
    let both = mail.replace("--b--\r\n", &format!("{part}--b--\r\n"));
    let mut named = Vec::new();
    let Ok(Outcome::Converted(mime)) = convert_and_name(both.as_bytes(), &mut |why| named.push(why)) else {
        panic!("the note is converted")
    };
    assert_eq!(named, [empty]);
    assert!(mime.ends_with(format!("{part}--b--\r\n").as_bytes()));
}

#[test]
fn each_text_and_its_header_are_read_once_however_many_rich_parts_there_are() {
    let rich = of_properties(vec![samples::text(property::BODY, "other")]);
    let mail = String::from_utf8(samples::mail(&rich)).expect("ASCII");
    let (before, rest) = mail.split_at(mail.find("--b\r\nContent-Type: application/ms-tnef").expect("it"));
    let part = rest.trim_end_matches("--b--\r\n");
    let mail = format!("{before}{}--b--\r\n", part.repeat(20));
    let structure = Structure::parse(mail.as_bytes());
    let mut conversion = Conversion::new(mail.as_bytes(), &structure).expect("a boundary");
    for (index, part) in (0..).zip(structure.parts()).filter(|(_, part)| is_rich(part, mail.as_bytes())) {
        assert!(matches!(conversion.part(index, part), Ok(PartOutcome::Done)));
    }
    // A second read would find other bytes: the text in another message, and no text in its header.
    let other = mail.replace("Gr=FC=DFe, bold", "other, it would").replace("text/plain;", "text/other;");
    assert!(other.len() == mail.len() && other != mail);
    assert_eq!(conversion.texts.of_multipart(other.as_bytes(), &structure, 0)[..], [1]);
    assert_eq!(conversion.texts.role(other.as_bytes(), &structure, 1), PartRole::Plain);
    let outer = Outer::of(other.as_bytes(), &structure, 1, &mut conversion.texts);
    let text = Essence::of("Gr\u{fc}\u{df}e, bold &");
    assert!(text.is_some_and(|text| outer.has_text(&text)));
}

/// A letter that Word made: a photo, which the HTML shows, and its metafile, which is far longer
/// than any text.
#[test]
fn pictures_in_rtf_are_parts_and_do_not_count_as_text() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let photo = [&b"\x89PNG\r\n\x1a\n"[..], &[0x5A; 500]].concat();
    let metafile = "0".repeat(18 << 20);
    let rtf = format!(
        r"Before{{\*\shppict{{\pict\pngblip {}}}}}{{\nonshppict{{\pict\wmetafile8 {metafile}}}}}after\par{{\pict\wmetafile8 00}}",
        hex(&photo)
    );
    let rich = of_properties(vec![in_rtf(&rtf)]);
    let mut named = Vec::new();
    let Ok(Outcome::Converted(mime)) = convert_and_name(&bare("", &rich), &mut |why| named.push(why)) else {
        panic!("it is converted")
    };
    assert_eq!(named, [Damage::Pictures { count: 1 }]);
    assert_eq!(
        tree(&mime),
        ["multipart/alternative", " text/plain", " multipart/related", "  text/html", "  image/png"]
    );
    assert_eq!((text_of(&mime, 1).trim_end(), content(&mime, 4)), ("Beforeafter", photo));
    let id = field(&mime, 4, "content-id");
    let shown = format!("Before<img src=\"cid:{}\">after", id.trim_matches(['<', '>']));
    assert!(text_of(&mime, 3).contains(&shown), "{}", text_of(&mime, 3));
    let disposition = field(&mime, 4, "content-disposition");
    assert!(disposition.starts_with("inline") && disposition.contains("picture-1.png"), "{disposition}");
    // Where the text that is there has the HTML already, it is a file.
    let html = "Content-Type: text/html\r\n\r\n<p>Beforeafter</p>\r\n";
    let mime = converted(&with_text(&rich, html));
    assert_eq!(tree(&mime), ["multipart/mixed", " text/html", " image/png"]);
    assert!(field(&mime, 2, "content-disposition").starts_with("attachment"));
}

/// MS-OXCMSG §2.2.2.25: bytes of a text mean nothing without its charset.
#[test]
fn a_text_that_is_attached_keeps_its_charset() {
    let shown = |media: &str, charset: &str| {
        let mut file = samples::file("a.txt", b"\xcf\xf0");
        file.properties.push(samples::text(property::ATTACH_MIME_TAG, media));
        file.properties.push(samples::text(property::TEXT_ATTACHMENT_CHARSET, charset));
        let rich = Message { attachments: vec![file], ..Message::default() };
        let mime = converted(&bare("", &rich));
        assert!(memchr::memmem::find(&mime, b"\nX-Evil").is_none());
        let structure = Structure::parse(&mime);
        let place = tree(&mime).len() - 1;
        assert_eq!(content(&mime, place), b"\xcf\xf0");
        structure.parts()[place].media(&mime).params.decoded("charset")
    };
    assert_eq!(shown("text/plain", "windows-1251").as_deref(), Some("windows-1251"));
    for (media, charset) in
        [("application/pdf", "utf-8"), ("text/plain", "x\r\nX-Evil: 1"), ("text/plain", "no-such")]
    {
        assert_eq!(shown(media, charset), None, "{media} {charset}");
    }
}

/// MS-OXOCAL §2.2.10.1: a changed occurrence is an attachment of its series, and no message.
#[test]
fn a_changed_occurrence_is_no_attachment() {
    let attached = |class: &str| {
        let mut rich = samples::series();
        rich.attachments = vec![samples::forwarded(of_class(class, vec![]))];
        tree(&converted(&bare("", &rich))).iter().any(|media| media.ends_with("message/rfc822"))
    };
    assert!(!attached("IPM.OLE.CLASS.{00061055-0000-0000-C000-000000000046}"));
    assert!(attached("IPM.Note"));
}

/// A text and a file of its own are nowhere in the calendar.
#[test]
fn a_changed_occurrence_with_a_text_or_a_file_stays_a_message() {
    const CLASS: &str = "IPM.OLE.CLASS.{00061055-0000-0000-C000-000000000046}";
    let body = |text: &str| samples::text(property::BODY, text);
    let occurrence = |properties: Vec<Property>| of_class(CLASS, properties);
    let with_file =
        Message { attachments: vec![samples::file("plan.txt", b"the plan")], ..occurrence(vec![]) };
    for (own, expected) in [
        (occurrence(vec![body("The usual")]), None),
        (occurrence(vec![body(" \r\n")]), None),
        (occurrence(vec![body("Bring the plan")]), Some("Bring the plan")),
        (occurrence(vec![in_rtf("In another room")]), Some("In another room")),
        (with_file, Some("plan.txt")),
    ] {
        let mut series = samples::changed_series();
        series.properties.push(body("The usual"));
        series.attachments = vec![samples::forwarded(own)];
        let mime = String::from_utf8(converted(&bare("", &series))).expect("ASCII");
        assert_eq!(mime.contains("message/rfc822"), expected.is_some(), "{mime}");
        assert!(expected.is_none_or(|text| mime.contains(text)), "{mime}");
    }
}
