//! Whole messages: the parser that makes summaries reads the results again.

use posthaste_mime_summary::{Disposition, Field, Structure, decode_transfer, decode_words};

use super::super::look::has_type;
use super::super::mac::tests::file as mac_file;
use super::*;
use crate::samples::{self, FILE, FILE_NAME, HTML, IMAGE};
use crate::tags::{attribute, named, property};
use crate::{Attribute, Message, Property, Value, encode};

fn converted(message: &[u8]) -> Vec<u8> {
    let Ok(Outcome::Converted(mime)) = convert(message) else {
        panic!("not converted: {:?}", convert(message));
    };
    assert_eq!(convert(message), Ok(Outcome::Converted(mime.clone())), "twice the same");
    assert_eq!(convert(&mime), Ok(Outcome::Ordinary), "nothing rich is left");
    mime
}

/// Types of all parts in their order, with the depth of each.
fn tree(message: &[u8]) -> Vec<String> {
    let structure = Structure::parse(message);
    let depth = |part: &Part| {
        std::iter::successors(part.parent(), |at| structure.part(*at).and_then(Part::parent)).count()
    };
    let name = |part: &Part| {
        let media = part.media(message);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_lowercase();
        format!("{}{}/{}", " ".repeat(depth(part)), text(media.top), text(media.sub))
    };
    structure.parts().iter().map(name).collect()
}

/// The decoded content of the part at this place of [`tree`].
fn content(message: &[u8], place: usize) -> Vec<u8> {
    let structure = Structure::parse(message);
    let part = &structure.parts()[place];
    decode_transfer(part.encoding, part.body.of(message)).expect("an encoding")
}

fn text_of(message: &[u8], place: usize) -> String {
    String::from_utf8(content(message, place)).expect("UTF-8")
}

fn field(message: &[u8], place: usize, name: &str) -> String {
    let structure = Structure::parse(message);
    let mut fields = HeaderFields::new(message, structure.parts()[place].header);
    let found = fields.find(|field| field.is(message, name));
    found.map(|field| decode_words(&field.value(message)).into_owned()).unwrap_or_default()
}

/// A message that is nothing but TNEF.
fn bare(header: &str, rich: &Message) -> Vec<u8> {
    let tnef = encode(rich).expect("valid");
    let head =
        format!("{header}Content-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n");
    [head.as_bytes(), &tnef].concat()
}

#[test]
fn a_text_with_winmail_dat_beside_it() {
    let mail = samples::mail(&samples::note());
    let mime = converted(&mail);
    assert_eq!(
        tree(&mime),
        [
            "multipart/mixed",
            " multipart/alternative",
            "  text/plain",
            "  multipart/related",
            "   text/html",
            "   image/png",
            " application/octet-stream",
            " message/rfc822",
            "  multipart/alternative",
            "   text/plain",
            "   text/html",
        ]
    );
    // The header and the text are the sender's own bytes.
    let head = b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b\r\n";
    let until = memchr::memmem::find(&mail, head).expect("the header") + head.len();
    assert_eq!(mime[..until], mail[..until]);
    assert_eq!(content(&mime, 2), "Gr\u{fc}\u{df}e, bold &".chars().map(|c| c as u8).collect::<Vec<_>>());
    assert_eq!(text_of(&mime, 4), HTML);
    assert_eq!((content(&mime, 5), content(&mime, 6)), (IMAGE.to_vec(), FILE.to_vec()));
    assert_eq!(field(&mime, 5, "content-id"), "<logo@x.example>");
    let disposition = field(&mime, 6, "content-disposition");
    let parsed = Disposition::parse(disposition.as_bytes()).expect("a disposition");
    assert_eq!(parsed.params.decoded("filename").as_deref(), Some(FILE_NAME));
    assert_eq!(parsed.params.decoded("size").as_deref(), Some("35"));
    let dates = ["creation-date", "modification-date"].map(|name| parsed.params.decoded(name));
    let expected = ["22:13:20", "23:13:20"].map(|time| Some(format!("Tue, 14 Nov 2023 {time} +0000")));
    assert_eq!(dates, expected);
    assert!(field(&mime, 7, "content-disposition").contains("Inner.eml"));
    assert_eq!(field(&mime, 8, "from"), "\u{c9}mile <emile@x.example>");
    assert_eq!(field(&mime, 8, "subject"), "Inner");
    assert_eq!((text_of(&mime, 9).trim(), text_of(&mime, 10).trim()), ("inner", "<p>inner</p>"));
}

#[test]
fn a_message_that_is_nothing_else() {
    let header = "Received: x\r\nSubject: Kept\r\nX-A: b\r\n c\r\n";
    let mime = converted(&bare(header, &samples::note()));
    assert!(mime.starts_with(header.as_bytes()));
    assert_eq!(tree(&mime)[..3], ["multipart/mixed", " multipart/alternative", "  text/plain"]);
    let head = ["subject", "date", "mime-version"].map(|name| field(&mime, 0, name));
    assert_eq!(head, ["Kept", "Tue, 14 Nov 2023 22:13:20 +0000", "1.0"]);
    assert_eq!(
        mime.windows(9).filter(|w| w.eq_ignore_ascii_case(b"\nSubject:")).count(),
        2,
        "one of them inner"
    );
}

/// Checks of the sender look at From: what had none when it came has none afterwards.
#[test]
fn no_author_is_made_for_a_message_without_one() {
    let mail = String::from_utf8(samples::mail(&samples::note())).expect("ASCII");
    let mail = mail.strip_prefix("From: Sender <sender@x.example>\r\n").expect("its first field");
    for message in [bare("Subject: x\r\n", &samples::note()), mail.as_bytes().to_vec()] {
        let mime = converted(&message);
        let structure = Structure::parse(&mime);
        let mut fields = HeaderFields::new(&mime, structure.parts()[0].header);
        assert!(fields.all(|field| !["from", "sender"].iter().any(|name| field.is(&mime, name))));
    }
    // A message inside is what its sender wrote.
    let forwarded = [&b"Content-Type: message/rfc822\r\n\r\n"[..], &bare("", &samples::note())].concat();
    assert_eq!(field(&converted(&forwarded), 1, "from"), "\u{c9}mile <emile@x.example>");
}

/// Mail of each kind that a conversion reads, with a name.
fn corpus() -> Vec<(&'static str, Vec<u8>)> {
    let html = || samples::with_html("x", "<p>a &amp; <a href=\"http://x.example/\">b</a></p>");
    let with = |properties: Vec<Property>| {
        let mut rich = html();
        rich.properties.retain(|property| property.id != property::RTF_COMPRESSED);
        rich.properties.extend(properties);
        rich
    };
    let rtf = b"{\\rtf1\\ansi\\ansicpg1252 {\\b bold} {\\i it\\'e9} \\ul u\\ul0\\par two\\u8211?\\tab x}";
    let rtf = Property::new(property::RTF_COMPRESSED, Value::Binary(crate::rtf::compress(rtf)));
    let deleted = crate::rtf::compress(b"{\\rtf1\\ansi a {\\deleted old}{\\revised new}\\par}");
    let deleted = Property::new(property::RTF_COMPRESSED, Value::Binary(deleted));
    let of_class = |class: &[u8], property: Property| {
        let mut rich = html();
        rich.attributes = vec![Attribute { id: attribute::MESSAGE_CLASS, data: class.to_vec() }];
        rich.properties.push(property);
        rich
    };
    let contact = of_class(b"IPM.Contact\0", samples::text(property::DISPLAY_NAME, "Ana; B"));
    let due = Property::named(named::TASK_DUE_DATE, Value::Time(samples::TIME));
    let mail = |rich: &Message| samples::mail(rich);
    vec![
        ("note", mail(&samples::note())),
        ("bare note", bare("Subject: Kept\r\n", &samples::note())),
        ("html", mail(&html())),
        ("rtf", mail(&with(vec![rtf]))),
        ("text", mail(&with(vec![samples::text(property::BODY, "a\r\n\u{e9}\r\n")]))),
        ("request", mail(&samples::meeting("IPM.Schedule.Meeting.Request"))),
        ("answer", mail(&samples::meeting("IPM.Schedule.Meeting.Resp.Pos"))),
        ("cancellation", mail(&samples::meeting("IPM.Schedule.Meeting.Canceled"))),
        ("contact", mail(&contact)),
        ("counter-proposal", mail(&samples::counter_proposal())),
        ("occurrence", mail(&samples::occurrence("IPM.Schedule.Meeting.Canceled"))),
        ("whole days", mail(&samples::whole_days())),
        ("changed series", mail(&samples::changed_series())),
        ("picture in RTF", mail(&with(vec![samples::picture_in_rtf()]))),
        ("telephones", mail(&with_telephones())),
        ("files in MacBinary", mail(&with_files_of_a_mac())),
        ("deleted text", mail(&with(vec![deleted]))),
        ("task", mail(&of_class(b"IPM.Task\0", due))),
    ]
}

/// A contact with a number of each kind, and a list of two.
fn with_telephones() -> Message {
    let ids = [
        0x3A02, 0x3A08, 0x3A09, 0x3A1A, 0x3A1B, 0x3A1D, 0x3A1E, 0x3A1F, 0x3A21, 0x3A23, 0x3A24, 0x3A25,
        0x3A2C, 0x3A2D, 0x3A4B, 0x3A57,
    ];
    let list = ["+1", "+2"].map(|number| Value::String(number.to_owned())).to_vec();
    let mut contact = samples::contact();
    contact.properties.extend(ids.map(|id| samples::text(id, &format!("+{id}"))));
    contact.properties.push(Property::new(0x3A2F, Value::Many(crate::Kind::String, list)));
    contact
}

/// A file that has data alone, and one that has a resource fork.
fn with_files_of_a_mac() -> Message {
    let mut note = samples::note();
    for (name, resources) in [("Read me.txt", &b""[..]), ("Icon", b"icon")] {
        let mut file = samples::file(name, &mac_file(name, b"data", resources));
        file.rendering.flags = 1;
        note.attachments.push(file);
    }
    note
}

/// The first bytes of the SHA-256 of what [`corpus`] becomes.
const HASHES: [(&str, &str); 18] = [
    ("note", "7a8c4add8a7d5778"),
    ("bare note", "fd203fc84f70f762"),
    ("html", "ae0bce0d23695421"),
    ("rtf", "18e63371d4d01832"),
    ("text", "412e9867711d0e9a"),
    ("request", "a4d3e19b9275d9e0"),
    ("answer", "5f3a1169139ac96a"),
    ("cancellation", "07b77d106225d3ef"),
    ("contact", "a8f6eea14001af35"),
    ("counter-proposal", "6b77639ffc4a7b7e"),
    ("occurrence", "a97989bc596ca2f0"),
    ("whole days", "c8629764d04a9a93"),
    ("changed series", "38d4c8fe37b39c94"),
    ("picture in RTF", "774da7011d971fcd"),
    ("telephones", "3d2db7f6e3ad951e"),
    ("files in MacBinary", "37584b11369e2951"),
    ("deleted text", "c713bf848c4dbe04"),
    ("task", "b8f1107a6a984087"),
];

/// Stored messages have a hash of these bytes. A program that gives others cannot show them: see
/// docs/rich.md before you change an expected hash.
#[test]
fn a_conversion_gives_the_bytes_that_it_always_gave() {
    let hash = |message: &[u8]| -> String {
        Sha256::digest(converted(message))[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let hashes: Vec<_> = corpus().iter().map(|(name, message)| (*name, hash(message))).collect();
    let hashes: Vec<_> = hashes.iter().map(|(name, hash)| (*name, hash.as_str())).collect();
    assert_eq!(hashes, HASHES);
}

/// Telephones and the two kinds of files of a Mac are in the bytes of [`corpus`].
#[test]
fn the_corpus_has_what_it_says() {
    let mime_of = |wanted: &str| {
        let found = corpus().into_iter().find(|(name, _)| *name == wanted);
        converted(&found.expect("a message").1)
    };
    let mime = mime_of("telephones");
    let card = text_of(&mime, tree(&mime).len() - 1);
    assert_eq!(card.matches("\r\nTEL;").count(), 19, "{card}");
    let mime = mime_of("files in MacBinary");
    let types = tree(&mime);
    let last = types.len() - 2;
    assert_eq!(types[last..], [" text/plain", " application/x-macbinary"]);
    assert_eq!(content(&mime, last), b"data");
    assert_eq!(content(&mime, last + 1), mac_file("Icon", b"data", b"icon"));
}

#[test]
fn a_blank_text_gives_way() {
    let mail = samples::mail(&samples::with_html("x", "<p>a</p>"));
    let mail = String::from_utf8(mail).expect("ASCII").replace("Gr=FC=DFe, bold &", " =20");
    let mime = converted(mail.as_bytes());
    assert_eq!(tree(&mime), ["multipart/mixed", " multipart/alternative", "  text/plain", "  text/html"]);
    assert_eq!((text_of(&mime, 2).trim(), text_of(&mime, 3).trim()), ("a", "<p>a</p>"));
}

#[test]
fn other_parts_stay_as_they_are() {
    let rich = samples::with_html("x", "<p>Gr\u{fc}\u{df}e, <i>bold</i></p>");
    let mail = String::from_utf8(samples::mail(&rich)).expect("ASCII");
    let footer = "--b\r\nContent-Type: text/plain\r\n\r\n-- \r\nlist\r\n--b--\r\nepilogue";
    let mime = converted(mail.replace("--b--\r\n", footer).as_bytes());
    assert_eq!(tree(&mime)[4..], [" text/plain"]);
    assert!(mime.ends_with(footer.as_bytes()));
    // HTML that the sender wrote is not doubled.
    let html = mail.replace("text/plain; charset", "text/html; charset");
    let mime = converted(html.as_bytes());
    assert_eq!(tree(&mime), ["multipart/mixed", " text/html"]);
    // In a multipart of another kind, one part stays one part.
    let related = mail.replace("multipart/mixed", "multipart/parallel");
    assert_eq!(
        tree(&converted(related.as_bytes())),
        ["multipart/parallel", " text/plain", " multipart/alternative", "  text/plain", "  text/html"]
    );
    // In a message that someone forwards.
    let forwarded = format!("Content-Type: message/rfc822\r\n\r\n{mail}");
    assert_eq!(tree(&converted(forwarded.as_bytes()))[..2], ["message/rfc822", " multipart/mixed"]);
}

#[test]
fn the_name_winmail_dat_and_the_first_bytes_are_enough() {
    let mail = String::from_utf8(samples::mail(&samples::note())).expect("ASCII");
    let unnamed = mail.replace("application/ms-tnef", "application/octet-stream");
    assert_eq!(tree(&converted(unnamed.as_bytes())).len(), 11);
    let other = unnamed.replace("winmail.dat", "other.dat");
    assert_eq!(convert(other.as_bytes()), Ok(Outcome::Ordinary));
    let vendor = mail.replace("application/ms-tnef", "Application/vnd.MS-TNEF");
    assert_eq!(tree(&converted(vendor.as_bytes())).len(), 11);
    assert_eq!(convert(b"Subject: x\r\n\r\napplication/ms-tnef winmail.dat"), Ok(Outcome::Ordinary));
}

#[test]
fn signed_and_encrypted_mail_is_left_alone() {
    let mail = String::from_utf8(samples::mail(&samples::note())).expect("ASCII");
    for sealed in [
        mail.replace("multipart/mixed", "multipart/signed"),
        mail.replace("multipart/mixed", "multipart/encrypted"),
        mail.replace("--b--", "--b\r\nContent-Type: application/pkcs7-mime\r\n\r\nx\r\n--b--"),
    ] {
        assert_eq!(convert(sealed.as_bytes()), Ok(Outcome::Sealed));
    }
    let mut smime = samples::note();
    smime.properties.push(samples::text(property::MESSAGE_CLASS, "IPM.Note.SMIME.MultipartSigned"));
    assert_eq!(convert(&samples::mail(&smime)), Ok(Outcome::Sealed));
}

const IN_DATA: &str = "binary data of its RTF at byte 23 ends beyond its container";

#[test]
fn damage_is_said_and_nothing_is_changed() {
    let mail = samples::mail(&samples::note());
    let at = memchr::memmem::find(&mail, b"eJ8+").expect("the signature in base64");
    let with = |place: usize, byte: u8| {
        let mut mail = mail.clone();
        mail[place] = byte;
        convert(&mail)
    };
    assert_eq!(with(at, b'X'), Err(Damage::Signature));
    assert!(with(at + 400, b'#').is_err());
    let unknown =
        String::from_utf8(mail.clone()).expect("ASCII").replace("Encoding: base64", "Encoding: x-new");
    assert_eq!(convert(unknown.as_bytes()), Err(Damage::TransferEncoding));
    let with_rtf = |compressed: Vec<u8>| {
        let mut note = samples::note();
        note.properties.retain(|property| property.id != property::RTF_COMPRESSED);
        note.properties.push(Property::new(property::RTF_COMPRESSED, Value::Binary(compressed)));
        convert(&samples::mail(&note))
    };
    assert!(matches!(with_rtf(vec![1; 40]), Err(Damage::Truncated { .. })));
    // Lengths that lie: text that ends early, and data that takes the text after it.
    let mut short = crate::rtf::compress(b"{\\rtf1 the text}");
    short[4] += 1;
    assert_eq!(with_rtf(short), Err(Damage::Length { len: 16, said: 17 }));
    let swallows = crate::rtf::compress(b"{\\rtf1 before {\\bin999 x} and after}");
    assert_eq!(with_rtf(swallows).map_err(|damage| damage.to_string()), Err(IN_DATA.to_owned()));
}

#[test]
fn a_bomb_of_text_is_refused() {
    let rtf = [&b"{\\rtf1 "[..], &b"\\par".repeat(2_000_000), b"}"].concat();
    let mut bomb = Message::default();
    bomb.properties.push(Property::new(property::RTF_COMPRESSED, Value::Binary(crate::rtf::compress(&rtf))));
    assert!(matches!(convert(&bare("", &bomb)), Err(Damage::Expands { .. })));
}

/// The calendar of a message, unfolded.
fn calendar(mime: &[u8]) -> String {
    let place = tree(mime).iter().position(|media| media.ends_with("text/calendar")).expect("a calendar");
    text_of(mime, place).replace("\r\n ", "")
}

#[test]
fn a_meeting_is_a_calendar() {
    let mime = converted(&samples::mail(&samples::meeting("IPM.Schedule.Meeting.Request")));
    assert_eq!(
        tree(&mime)[1..],
        [" text/plain", " multipart/alternative", "  text/plain", "  text/html", "  text/calendar"]
    );
    assert!(field(&mime, 5, "content-type").contains("method=REQUEST"));
    let uid = "040000008200E00074C5B7101A82E0080000000007070707070707070707070707070707040000000\
1020304";
    let expected = format!(
        "BEGIN:VCALENDAR\r\nPRODID:-//Posthaste//Rich mail//EN\r\nVERSION:2.0\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\n\
UID:{uid}\r\nDTSTAMP:20231114T221320Z\r\nDTSTART:20231114T221320Z\r\nDTEND:20231114T231320Z\r\nSUMMARY:Plans\\; next\\, \
year\r\nLOCATION:Room 1\r\nDESCRIPTION:Bring tea\r\nSEQUENCE:2\r\nSTATUS:CONFIRMED\r\nTRANSP:OPAQUE\r\nCLASS:PUBLIC\r\n\
PRIORITY:5\r\nORGANIZER;CN=\"Sender\":mailto:sender@x.example\r\nATTENDEE;CN=\"Ana\";ROLE=REQ-PARTICIPANT;\
PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:ana@y.example\r\nATTENDEE;CN=\"Ben 'B'\";ROLE=OPT-PARTICIPANT;\
PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:ben@y.example\r\nBEGIN:VALARM\r\nACTION:DISPLAY\r\nDESCRIPTION:Reminder\r\n\
TRIGGER:-PT15M\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    );
    assert_eq!(calendar(&mime), expected);
    assert!(text_of(&mime, 5).lines().all(|line| line.len() <= 75));
}

#[test]
fn answers_cancellations_and_days() {
    let cancelled = converted(&samples::mail(&samples::meeting("IPM.Microsoft Schedule.MtgCncl")));
    assert!(
        calendar(&cancelled).contains("METHOD:CANCEL\r\n")
            && calendar(&cancelled).contains("STATUS:CANCELLED")
    );
    let mut yes = samples::meeting("IPM.Schedule.Meeting.Resp.Pos");
    yes.recipients.clear();
    let yes = calendar(&converted(&samples::mail(&yes)));
    // The answer goes from the outer From to the outer To.
    assert!(yes.contains("METHOD:REPLY\r\n") && yes.contains("ORGANIZER:mailto:ana@y.example\r\n"), "{yes}");
    assert!(yes.contains("ATTENDEE;CN=\"Sender\";PARTSTAT=ACCEPTED:mailto:sender@x.example\r\n"), "{yes}");
    let mut days = samples::meeting("IPM.Appointment");
    days.properties.push(Property::named(named::APPOINTMENT_SUB_TYPE, Value::Bool(true)));
    let days = calendar(&converted(&samples::mail(&days)));
    assert!(
        days.contains("METHOD:PUBLISH\r\n") && days.contains("DTSTART;VALUE=DATE:20231115\r\n"),
        "{days}"
    );
    assert!(!days.contains("ATTENDEE"));
}

#[path = "meeting_tests.rs"]
mod meeting;

#[test]
fn an_id_from_another_calendar_stays() {
    let mut meeting = samples::meeting("IPM.Schedule.Meeting.Request");
    let mut id = vec![0; 40];
    id.extend(b"vCal-Uid\x01\0\0\0abc@z.example\0");
    meeting.properties.push(Property::named(named::CLEAN_GLOBAL_OBJECT_ID, Value::Binary(id)));
    let calendar = calendar(&converted(&samples::mail(&meeting)));
    assert!(calendar.contains("\r\nUID:abc@z.example\r\n"), "{calendar}");
}

#[test]
fn a_contact_is_a_card() {
    let mime = converted(&samples::mail(&samples::contact()));
    let place = tree(&mime).len() - 1;
    assert_eq!(tree(&mime)[place], " text/vcard");
    assert_eq!(
        text_of(&mime, place),
        "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ana\\; B\r\nN:B;;;;\r\nEMAIL;TYPE=INTERNET:ana@y.example\r\n\
TEL;TYPE=CELL,VOICE:+1 2\r\nADR;TYPE=WORK:;;;Z;;;\r\nNOTE:notes\r\nEND:VCARD\r\n"
    );
}

/// MS-OXOCNTC §2.2.1.2: an address has a type, and one of type EX is a name within its system.
#[test]
fn a_card_has_addresses_of_the_internet_alone() {
    const NAME: &str = "/o=Org/ou=Group/cn=Recipients/cn=ana@y.example";
    let named = |name, text: &str| Property::named(name, Value::String(text.to_owned()));
    let emails = |properties: Vec<Property>| {
        let mut contact = samples::contact();
        let old = |property: &Property| {
            property.name.as_deref().is_some_and(|name| {
                name.set == named::EMAIL1_EMAIL_ADDRESS.0
                    && name.key == crate::NameKey::Number(named::EMAIL1_EMAIL_ADDRESS.1)
            })
        };
        contact.properties.retain(|property| !old(property));
        contact.properties.extend(properties);
        let mime = converted(&samples::mail(&contact));
        let card = text_of(&mime, tree(&mime).len() - 1).replace("\r\n ", "");
        card.lines().filter_map(|line| line.strip_prefix("EMAIL;TYPE=INTERNET:")).map(str::to_owned).collect()
    };
    let first = |kind: &str, address: &str| {
        vec![named(named::EMAIL1_ADDRESS_TYPE, kind), named(named::EMAIL1_EMAIL_ADDRESS, address)]
    };
    let with = |mut properties: Vec<Property>, more: Property| {
        properties.push(more);
        properties
    };
    let shown = |text: &str| named(named::EMAIL1_ORIGINAL_DISPLAY_NAME, text);
    let smtp = samples::text(property::SMTP_ADDRESS, "smtp@y.example");
    let second = || {
        vec![
            named(named::EMAIL2_ADDRESS_TYPE, "SMTP"),
            named(named::EMAIL2_EMAIL_ADDRESS, "two@y.example"),
            named(named::EMAIL2_ORIGINAL_DISPLAY_NAME, "other@y.example"),
        ]
    };
    let cases: [(Vec<Property>, &[&str]); 9] = [
        (first("EX", NAME), &[]),
        (first("ex", NAME), &[]),
        (vec![named(named::EMAIL1_EMAIL_ADDRESS, NAME)], &[]),
        (first("FAX", "Ana@+1 2"), &[]),
        (with(first("EX", NAME), shown("ana@y.example")), &["ana@y.example"]),
        (with(first("EX", NAME), shown("Ana")), &[]),
        (with(first("EX", NAME), smtp), &["smtp@y.example"]),
        (first("smtp", "ana@y.example"), &["ana@y.example"]),
        ([first("EX", NAME), second()].concat(), &["two@y.example"]),
    ];
    for (properties, expected) in cases {
        let found: Vec<String> = emails(properties.clone());
        assert_eq!(found, expected, "{properties:?}");
    }
}

#[test]
fn an_event_without_a_length_and_a_card_without_parts_of_a_name() {
    for is_whole_days in [false, true] {
        let mut meeting = samples::meeting("IPM.Appointment");
        let end = |property: &Property| {
            *property
                == Property::named(named::APPOINTMENT_END_WHOLE, Value::Time(samples::TIME + samples::HOUR))
        };
        meeting.properties.retain(|property| !end(property));
        meeting.properties.extend([
            Property::named(named::APPOINTMENT_END_WHOLE, Value::Time(samples::TIME)),
            Property::named(named::APPOINTMENT_SUB_TYPE, Value::Bool(is_whole_days)),
        ]);
        let calendar = calendar(&converted(&samples::mail(&meeting)));
        assert!(calendar.contains("\r\nDTSTART") && !calendar.contains("DTEND"), "{calendar}");
    }
    let mut contact = samples::with_html("Ana", "<p>notes</p>");
    contact.attributes = vec![Attribute { id: attribute::MESSAGE_CLASS, data: b"IPM.Contact\0".to_vec() }];
    let mime = converted(&samples::mail(&contact));
    let card = text_of(&mime, tree(&mime).len() - 1);
    assert_eq!(card, "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ana\r\nN:;;;;\r\nNOTE:notes\r\nEND:VCARD\r\n");
}

#[test]
fn header_fields_cannot_be_smuggled_in() {
    let mut rich = samples::with_html("a\r\nX-Evil: 1", "<p>a</p>");
    rich.properties.extend([
        samples::text(property::INTERNET_MESSAGE_ID, "<a@b>\r\nX-Evil: 1"),
        samples::text(property::DISPLAY_TO, "c\r\nX-Evil: 1"),
    ]);
    rich.attachments = vec![samples::file("x\r\nX-Evil: 1", b"y")];
    rich.attachments[0].properties.push(samples::text(property::ATTACH_MIME_TAG, "a/b\r\nX-Evil: 1"));
    rich.attachments[0].properties.push(samples::text(property::ATTACH_CONTENT_ID, "x\r\nX-Evil: 1"));
    let mime = converted(&bare("", &rich));
    assert!(memchr::memmem::find(&mime, b"\nX-Evil").is_none(), "{}", String::from_utf8_lossy(&mime));
    assert_eq!(field(&mime, 0, "message-id"), "<a@b>");
}

#[test]
fn line_ends_without_cr() {
    let mail = String::from_utf8(samples::mail(&samples::note())).expect("ASCII").replace("\r\n", "\n");
    assert_eq!(tree(&converted(mail.as_bytes())).len(), 11);
}

#[path = "kept_tests.rs"]
mod kept;

#[path = "enclosed_tests.rs"]
mod enclosed;

#[path = "lost_tests.rs"]
mod lost;

/// A damaged `winmail.dat` and a good one: the good one is converted, and the other one stays.
#[test]
fn a_damaged_part_does_not_keep_a_good_one() {
    let good = encode(&samples::note()).expect("valid");
    let mut damaged = encode(&samples::meeting("IPM.Schedule.Meeting.Request")).expect("valid");
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let part = |bytes: &[u8]| {
        let head = b"--b\r\nContent-Type: application/ms-tnef; name=\"winmail.dat\"\r\nContent-Transfer-Encoding: binary\r\n\r\n";
        [&head[..], bytes, b"\r\n"].concat()
    };
    let message = |parts: &[&[u8]]| {
        let head =
            b"From: a@b.example\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n";
        let parts = parts.iter().flat_map(|bytes| part(bytes));
        head.iter().copied().chain(parts).chain(*b"--b--\r\n").collect::<Vec<u8>>()
    };
    for parts in [[&good[..], &damaged], [&damaged, &good]] {
        let mut named = Vec::new();
        let Ok(Outcome::Converted(mime)) = convert_and_name(&message(&parts), &mut |why| named.push(why))
        else {
            panic!("the good one is converted")
        };
        assert!(matches!(named[..], [Damage::Checksum { .. }]), "{named:?}");
        let structure = Structure::parse(&mime);
        let rich: Vec<_> = structure.parts().iter().filter(|part| has_type(part, &mime)).collect();
        assert!(rich.len() == 1 && rich[0].body.of(&mime) == damaged);
        assert!(
            memchr::memmem::find(&mime, HTML.as_bytes()).is_some() || tree(&mime).len() > 4,
            "{:?}",
            tree(&mime)
        );
    }
    assert!(matches!(convert(&message(&[&damaged, &damaged])), Err(Damage::Checksum { .. })));
}

/// A script deleted these fields. An earlier script may have deleted others.
#[test]
fn fields_that_are_left_out_are_not_made() {
    let whole = |header: &[u8]| {
        let kind = b"Content-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n";
        [header, kind, &encode(&samples::note()).unwrap()].concat()
    };
    let names = |mime: &[u8]| -> Vec<String> {
        let header = Structure::parse(mime).root().header;
        let name = |field: Field| String::from_utf8_lossy(field.name(mime)).into_owned();
        HeaderFields::new(mime, header).map(name).collect()
    };
    let parts = samples::mail(&samples::note());
    let at = memmem::find(&parts, b"Subject: Outer\r\n").unwrap();
    let no_subject = [&parts[..at], &parts[at + 16..]].concat();
    let whole = whole(b"From: a@x.example\r\n");
    for (sent, first, second, missing) in [
        (&whole, &["subject"][..], &["None"][..], &["Subject"][..]),
        (&whole, &["subject"], &["DATE", "From"], &["Subject", "Date"]),
        // A field that the message has by itself stays.
        (&no_subject, &["Subject", "To"], &["X"], &["Subject"]),
    ] {
        let made = names(&converted(sent));
        let expected: Vec<_> = made.iter().filter(|name| !missing.contains(&name.as_str())).collect();
        assert_eq!(expected.len(), made.len() - missing.len());
        let left = names(&converted(&leaving_out(&leaving_out(sent, first), second)));
        assert_eq!(left.iter().collect::<Vec<_>>(), expected);
    }
}
