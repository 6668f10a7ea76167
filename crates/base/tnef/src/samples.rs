//! Rich messages as Outlook would send them, for tests.

use crate::tags::{IID_MESSAGE, attribute, named, property};
use crate::{Attachment, Attribute, Content, Message, Object, Property, Value, encode, rtf};

/// The HTML of [`note`].
pub const HTML: &str = "<html><head><title>x</title></head>\r\n<body><p>Gr\u{fc}\u{df}e, <b>bold</b> &amp; <img \
src=\"cid:logo@x.example\"></p>\r\n</body></html>\r\n";
/// The bytes of its image.
pub const IMAGE: &[u8] = b"\x89PNG\r\n\x1a\n not really";
/// The bytes of its file.
pub const FILE: &[u8] = b"--_\r\nany bytes\0\xff\r\nFrom here on\r\n.\r\n";
/// The name of its file.
pub const FILE_NAME: &str = "Pr\u{fc}fung \u{2013} n\u{b0} 1.bin";
/// 2023-11-14 22:13:20 UTC.
pub const TIME: u64 = 133_444_736_000_000_000;
/// An hour, in the unit of times.
pub const HOUR: u64 = 36_000_000_000;

/// Text of a property.
pub fn text(id: u16, text: &str) -> Property {
    Property::new(id, Value::String(text.to_owned()))
}

/// A file, with its name.
pub fn file(name: &str, bytes: &[u8]) -> Attachment {
    // Old clients read this name: ASCII, with its NUL.
    let title = name.chars().map(|c| if c.is_ascii() { c } else { '_' }).chain(['\0']);
    Attachment {
        attributes: vec![
            Attribute { id: attribute::ATTACH_DATA, data: bytes.to_vec() },
            Attribute { id: attribute::ATTACH_TITLE, data: title.collect::<String>().into_bytes() },
        ],
        properties: vec![
            text(property::ATTACH_LONG_FILENAME, name),
            Property::new(property::CREATION_TIME, Value::Time(TIME)),
            Property::new(property::LAST_MODIFICATION_TIME, Value::Time(TIME + HOUR)),
        ],
        ..Attachment::default()
    }
}

/// A message inside an attachment.
pub fn forwarded(message: Message) -> Attachment {
    let object = Object { interface: IID_MESSAGE, content: Content::Message(message) };
    Attachment {
        properties: vec![
            Property::new(property::ATTACH_DATA, Value::Object(Box::new(object))),
            Property::new(property::ATTACH_METHOD, Value::Int32(5)),
        ],
        ..Attachment::default()
    }
}

/// A message with a subject and a sender, whose text is encapsulated HTML.
pub fn with_html(subject: &str, html: &str) -> Message {
    Message {
        attributes: vec![Attribute {
            id: attribute::MESSAGE_CLASS,
            data: b"IPM.Microsoft Mail.Note\0".to_vec(),
        }],
        properties: vec![
            text(property::SUBJECT, subject),
            text(property::SENT_REPRESENTING_NAME, "\u{c9}mile"),
            text(property::SENT_REPRESENTING_SMTP_ADDRESS, "emile@x.example"),
            Property::new(property::CLIENT_SUBMIT_TIME, Value::Time(TIME)),
            Property::new(property::RTF_COMPRESSED, Value::Binary(rtf::compress(&rtf::wrap_html(html)))),
        ],
        ..Message::default()
    }
}

/// A note: HTML in RTF, an image that it shows, a file, and a message that it forwards.
pub fn note() -> Message {
    let mut image = file("logo.png", IMAGE);
    image.properties.push(text(property::ATTACH_CONTENT_ID, "logo@x.example"));
    image.properties.push(text(property::ATTACH_MIME_TAG, "image/png"));
    let inner = with_html("Inner", "<p>inner</p>");
    let mut note = with_html("Note", HTML);
    note.attachments = vec![image, file(FILE_NAME, FILE), forwarded(inner)];
    note
}

/// A meeting's message of this class.
pub fn meeting(class: &str) -> Message {
    let mut id =
        vec![0x04, 0, 0, 0, 0x82, 0, 0xE0, 0, 0x74, 0xC5, 0xB7, 0x10, 0x1A, 0x82, 0xE0, 0x08, 0, 0, 0, 0];
    id.extend([7; 16]);
    id.extend([4, 0, 0, 0, 1, 2, 3, 4]);
    let attendee = |name: &str, address: &str, role: i32| {
        vec![
            text(property::DISPLAY_NAME, name),
            text(property::SMTP_ADDRESS, address),
            Property::new(property::RECIPIENT_TYPE, Value::Int32(role)),
        ]
    };
    let mut meeting = with_html("Plans; next, year", "<p>Bring <b>tea</b></p>");
    meeting.attributes.clear();
    meeting.properties.extend([
        text(property::MESSAGE_CLASS, class),
        Property::named(named::GLOBAL_OBJECT_ID, Value::Binary(id)),
        Property::named(named::APPOINTMENT_START_WHOLE, Value::Time(TIME)),
        Property::named(named::APPOINTMENT_END_WHOLE, Value::Time(TIME + HOUR)),
        Property::named(named::LOCATION, Value::String("Room 1".to_owned())),
        Property::named(named::APPOINTMENT_SEQUENCE, Value::Int32(2)),
        Property::named(named::REMINDER_SET, Value::Bool(true)),
        Property::named(named::REMINDER_DELTA, Value::Int32(15)),
    ]);
    meeting.recipients = vec![attendee("Ana", "ana@y.example", 1), attendee("Ben \"B\"", "ben@y.example", 2)];
    meeting
}

/// The text of a message in RTF, with [`IMAGE`] in it.
pub fn picture_in_rtf() -> Property {
    let digits: String = IMAGE.iter().map(|byte| format!("{byte:02x}")).collect();
    let rtf = format!("{{\\rtf1\\ansi One {{\\pict\\pngblip\\picwgoal1500 {digits}}} picture}}");
    Property::new(property::RTF_COMPRESSED, Value::Binary(rtf::compress(rtf.as_bytes())))
}

/// An answer that proposes another time: a day later.
pub fn counter_proposal() -> Message {
    const DAY: u64 = 24 * HOUR;
    let mut counter = meeting("IPM.Schedule.Meeting.Resp.Tent");
    counter.properties.extend([
        Property::named(named::COUNTER_PROPOSAL, Value::Bool(true)),
        Property::named(named::PROPOSED_START_WHOLE, Value::Time(TIME + DAY)),
        Property::named(named::PROPOSED_END_WHOLE, Value::Time(TIME + DAY + HOUR)),
    ]);
    counter
}

/// A meeting of two whole days, 2023-11-15 and 2023-11-16, in a zone 13 hours ahead of UTC.
pub fn whole_days() -> Message {
    // The first midnight.
    const BEGIN: u64 = TIME + 6_400 * 10_000_000 - 13 * HOUR;
    let mut zone: Vec<u8> = [-13 * 60_i32, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
    zone.extend([0; 36]);
    let mut days = meeting("IPM.Schedule.Meeting.Request");
    let times = [
        Property::named(named::APPOINTMENT_START_WHOLE, Value::Time(BEGIN)),
        Property::named(named::APPOINTMENT_END_WHOLE, Value::Time(BEGIN + 48 * HOUR)),
        Property::named(named::APPOINTMENT_SUB_TYPE, Value::Bool(true)),
        Property::named(named::TIME_ZONE_STRUCT, Value::Binary(zone)),
    ];
    days.properties.splice(0..0, times);
    days
}

/// A message of this class about one occurrence of [`series`]: that of 2023-11-14, 8:00 UTC.
pub fn occurrence(class: &str) -> Message {
    // The day is a part of the id.
    const DAY: [u8; 4] = [0x07, 0xE7, 11, 14];
    let mut occurrence = meeting(class);
    for property in &mut occurrence.properties {
        if let Value::Binary(id) = &mut property.value
            && let (Some(_), Some(day)) = (&property.name, id.get_mut(16..20))
        {
            day.copy_from_slice(&DAY);
        }
    }
    let nine = Value::Time(TIME - 14 * HOUR - 800 * 10_000_000);
    occurrence.properties.push(Property::named(named::EXCEPTION_REPLACE_TIME, nine));
    occurrence
}

/// Minutes from 1601 to 2023-11-14, and those of a day.
const FIRST: u32 = 222_406_560;
const DAY: u32 = 24 * 60;

/// A meeting every other week, on Tuesdays and Thursdays from 9:00 to 10:30 in Central Europe, from
/// 2023-11-14 to 2023-11-28.
pub fn series() -> Message {
    series_with(FIRST, 14, &[], &[], &[])
}

/// The same. The meeting of 2023-11-16 is moved to 2023-11-17, from 10:00 to 10:30, and is called
/// `Moved`.
pub fn changed_series() -> Message {
    let start = FIRST + 3 * DAY + 10 * 60;
    let numbers = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let details = [
        // One exception: its times, its flags, and its subject.
        &[1, 0][..],
        &numbers(&[start, start + 30, FIRST + 2 * DAY + 9 * 60]),
        &[1, 0, 6, 0, 5, 0],
        b"Moved",
        // The same again.
        &numbers(&[0, 4, 0, 0, start, start + 30, FIRST + 2 * DAY + 9 * 60]),
        b"\x05\0M\0o\0v\0e\0d\0",
        &numbers(&[0, 0]),
    ];
    series_with(FIRST, 14, &[FIRST + 2 * DAY], &[FIRST + 3 * DAY], &details.concat())
}

/// The same, with this many moved meetings, each by an hour.
pub fn often_changed_series(count: u16) -> Message {
    let days: Vec<u32> = (0..u32::from(count)).map(|day| FIRST + day * DAY).collect();
    let mut details = count.to_le_bytes().to_vec();
    for day in &days {
        let begin = day + 9 * 60;
        details.extend([begin + 60, begin + 150, begin].iter().flat_map(|n| n.to_le_bytes()));
        details.extend([0; 2]);
    }
    series_with(FIRST, 14, &days, &days, &details)
}

/// [`series`] from 2024-03-05 to 2024-04-30, without 2024-04-16. Summer time begins on 2024-03-31.
pub fn series_into_summer() -> Message {
    let first = FIRST + 112 * DAY;
    series_with(first, 56, &[first + 42 * DAY], &[], &[])
}

/// A series from this day on, for so many days. Some days are deleted or changed, and some have a
/// changed meeting, with details of these.
fn series_with(first: u32, days: u32, deleted: &[u32], changed: &[u32], details: &[u8]) -> Message {
    let mut pattern: Vec<u8> =
        [0x3004_u16, 0x3004, 0x200B, 1, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut add = |numbers: &[u32]| pattern.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    add(&[0, 2, 0, 0b001_0100, 0x2021, 3, 1]);
    for list in [deleted, changed] {
        add(&[u32::try_from(list.len()).unwrap_or_default()]);
        add(list);
    }
    add(&[first, first + days * DAY, 0x3006, 0x3009, 9 * 60, 10 * 60 + 30]);
    pattern.extend(details);
    let mut zone: Vec<u8> = [-60_i32, 0, -60].iter().flat_map(|n| n.to_le_bytes()).collect();
    for change in [[0_u16, 0, 10, 0, 5, 3, 0, 0, 0], [0, 0, 3, 0, 5, 2, 0, 0, 0]] {
        zone.extend(change.iter().flat_map(|n| n.to_le_bytes()));
    }
    let mut series = meeting("IPM.Schedule.Meeting.Request");
    series.properties.extend([
        Property::named(named::RECURRING, Value::Bool(true)),
        Property::named(named::APPOINTMENT_RECUR, Value::Binary(pattern)),
        Property::named(named::TIME_ZONE_STRUCT, Value::Binary(zone)),
    ]);
    series
}

/// A task of 2023-11-15, which is due on the next day. Half of it is done.
pub fn task() -> Message {
    const BEGIN: u64 = TIME + 6_400 * 10_000_000;
    let mut task = with_html("Bake; a cake", "<p>with nuts</p>");
    task.attributes = vec![Attribute { id: attribute::MESSAGE_CLASS, data: b"IPM.Task\0".to_vec() }];
    task.properties.extend([
        Property::named(named::TASK_START_DATE, Value::Time(BEGIN)),
        Property::named(named::TASK_DUE_DATE, Value::Time(BEGIN + 24 * HOUR)),
        Property::named(named::TASK_STATUS, Value::Int32(1)),
        Property::named(named::PERCENT_COMPLETE, Value::Float64(0.5_f64.to_bits())),
        Property::named(named::TASK_GLOBAL_ID, Value::Binary(vec![0xAB, 1])),
    ]);
    task
}

/// A contact.
pub fn contact() -> Message {
    let mut contact = with_html("Ana", "<p>notes</p>");
    contact.attributes = vec![Attribute { id: attribute::MESSAGE_CLASS, data: b"IPM.Contact\0".to_vec() }];
    contact.properties.extend([
        text(property::DISPLAY_NAME, "Ana; B"),
        text(property::SURNAME, "B"),
        text(property::MOBILE_TELEPHONE_NUMBER, "+1 2"),
        Property::named(named::EMAIL1_EMAIL_ADDRESS, Value::String("ana@y.example".to_owned())),
        Property::named(named::WORK_ADDRESS_CITY, Value::String("Z".to_owned())),
    ]);
    contact
}

/// A message as mail has it: a text, and `winmail.dat` beside it.
pub fn mail(rich: &Message) -> Vec<u8> {
    let tnef = encode(rich).unwrap_or_default();
    let mut out = b"From: Sender <sender@x.example>\r\nTo: ana@y.example\r\nSubject: Outer\r\nDate: Tue, 14 Nov 2023 22:13:20 \
+0000\r\nMessage-ID: <1@x.example>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b\r\nContent-Type: \
text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=FC=DFe, bold &\r\n--b\r\nContent-Type: \
application/ms-tnef; name=\"winmail.dat\"\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment; \
filename=\"winmail.dat\"\r\n\r\n"
        .to_vec();
    for chunk in tnef.chunks(57) {
        use base64::Engine;
        out.extend(base64::engine::general_purpose::STANDARD.encode(chunk).bytes());
        out.extend(b"\r\n");
    }
    out.extend(b"--b--\r\n");
    out
}
