//! What the properties of a meeting say in its calendar.

use super::*;
use crate::tags::SET_PUBLIC_STRINGS;
use crate::{Kind as Type, Name, NameKey};

/// RFC 5546 §2.1.5: DTSTAMP says which copy of an attendee's answer is newer, and the organizer's
/// change does not.
#[test]
fn an_answer_has_the_stamp_of_its_attendee() {
    let changed =
        |name, hours: u64| Property::named(name, Value::Time(samples::TIME + hours * samples::HOUR));
    let owner = || changed(named::OWNER_CRITICAL_CHANGE, 24);
    let attendee = || changed(named::ATTENDEE_CRITICAL_CHANGE, 48);
    let stamp = |class: &str, properties: Vec<Property>| {
        let mut meeting = samples::meeting(class);
        meeting.properties.extend(properties);
        let calendar = calendar(&converted(&samples::mail(&meeting)));
        let line = calendar.lines().find_map(|line| line.strip_prefix("DTSTAMP:")).expect("a stamp");
        line.to_owned()
    };
    let counter = || {
        let start = changed(named::PROPOSED_START_WHOLE, 1);
        vec![Property::named(named::COUNTER_PROPOSAL, Value::Bool(true)), start, owner(), attendee()]
    };
    for (class, properties, expected) in [
        ("IPM.Schedule.Meeting.Request", vec![attendee(), owner()], "20231115T221320Z"),
        ("IPM.Schedule.Meeting.Canceled", vec![attendee(), owner()], "20231115T221320Z"),
        ("IPM.Schedule.Meeting.Resp.Pos", vec![owner(), attendee()], "20231116T221320Z"),
        ("IPM.Schedule.Meeting.Resp.Neg", vec![owner()], "20231114T221320Z"),
        ("IPM.Schedule.Meeting.Resp.Tent", counter(), "20231116T221320Z"),
    ] {
        assert_eq!(stamp(class, properties), expected, "{class}");
    }
}

/// The lines of a meeting's calendar that begin so.
fn lines(class: &str, properties: Vec<Property>, begins: &str) -> Vec<String> {
    let mut meeting = samples::meeting(class);
    meeting.properties.splice(0..0, properties);
    let calendar = calendar(&converted(&samples::mail(&meeting)));
    calendar.lines().filter(|line| line.starts_with(begins)).map(str::to_owned).collect()
}

const REQUEST: &str = "IPM.Schedule.Meeting.Request";

#[test]
fn an_answer_is_requested_unless_the_organizer_wants_none() {
    let wanted = |yes: bool| vec![Property::new(property::RESPONSE_REQUESTED, Value::Bool(yes))];
    for (properties, expected) in [(vec![], 2), (wanted(true), 2), (wanted(false), 0)] {
        let attendees = lines(REQUEST, properties, "ATTENDEE");
        let count = |word: &str| attendees.iter().filter(|line| line.contains(word)).count();
        assert_eq!((count("RSVP=TRUE"), count("PARTSTAT=NEEDS-ACTION")), (expected, 2), "{attendees:?}");
    }
}

/// RFC 5546 §3.2.2: a request has a summary. TNEF may leave out what the header has.
#[test]
fn a_meeting_without_a_subject_has_that_of_the_header() {
    let mut meeting = samples::meeting(REQUEST);
    meeting.properties.retain(|one| one.id != property::SUBJECT);
    let header = "From: a@x.example\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= a, b\r\n";
    let calendar = calendar(&converted(&bare(header, &meeting)));
    assert!(calendar.contains("\r\nSUMMARY:Gr\u{fc}\u{df}e a\\, b\r\n"), "{calendar}");
}

/// RFC 5545 §3.2.18.
#[test]
fn a_delegate_who_sends_for_another_person_is_named() {
    let sent = |class: &str, begins: &str, sender: &str| {
        lines(class, vec![samples::text(property::SENDER_SMTP_ADDRESS, sender)], begins)
    };
    let by = ";SENT-BY=\"mailto:agent@x.example\"";
    let organizer = |by: &str| vec![format!("ORGANIZER;CN=\"Sender\"{by}:mailto:sender@x.example")];
    for class in [REQUEST, "IPM.Schedule.Meeting.Canceled", "IPM.Appointment"] {
        assert_eq!(sent(class, "ORGANIZER", "agent@x.example"), organizer(by));
        // It is the person that the properties or the header name.
        for same in ["Emile@x.example", "SENDER@x.example"] {
            assert_eq!(sent(class, "ORGANIZER", same), organizer(""));
        }
    }
    let attendee = format!("ATTENDEE;CN=\"Sender\";PARTSTAT=ACCEPTED{by}:mailto:sender@x.example");
    assert_eq!(sent("IPM.Schedule.Meeting.Resp.Pos", "ATTENDEE", "agent@x.example"), [attendee]);
}

#[test]
fn a_class_may_have_a_name_of_its_own() {
    for (class, method) in [
        ("IPM.Schedule.Meeting.Request.Room", "METHOD:REQUEST"),
        ("ipm.schedule.meeting.resp.pos.x.y", "METHOD:REPLY"),
        ("IPM.Appointment.Booking", "METHOD:PUBLISH"),
    ] {
        assert_eq!(lines(class, vec![], "METHOD"), [method]);
    }
    for class in ["IPM.Schedule.Meeting.Requests", "IPM.Appointments", "IPM.Schedule.Meeting.Resp"] {
        let mime = converted(&samples::mail(&samples::meeting(class)));
        assert!(!tree(&mime).iter().any(|media| media.ends_with("text/calendar")), "{class}");
    }
}

/// MS-OXORMDR §2.2.1.3.
#[test]
fn the_usual_reminder_is_a_quarter_of_an_hour() {
    let reminder = |minutes: i32| vec![Property::named(named::REMINDER_DELTA, Value::Int32(minutes))];
    assert_eq!(lines(REQUEST, reminder(0x5AE9_80E1), "TRIGGER"), ["TRIGGER:-PT15M"]);
    assert_eq!(lines(REQUEST, reminder(30), "TRIGGER"), ["TRIGGER:-PT30M"]);
    assert!(lines(REQUEST, reminder(50_000), "TRIGGER").is_empty());
}

#[test]
fn categories_are_categories() {
    let keywords = |value: Value| {
        let name = Name { set: SET_PUBLIC_STRINGS, key: NameKey::Text("Keywords".to_owned()) };
        vec![Property { id: 0x8001, name: Some(Box::new(name)), value }]
    };
    let texts = ["One, two", " ", "Gr\u{fc}n"].map(|text| Value::String(text.to_owned())).to_vec();
    let many = keywords(Value::Many(Type::String, texts));
    assert_eq!(lines(REQUEST, many, "CATEGORIES"), ["CATEGORIES:One\\, two,Gr\u{fc}n"]);
    let none = keywords(Value::Many(Type::String, vec![]));
    assert!(lines(REQUEST, none, "CATEGORIES").is_empty());
}

/// MS-OXCICAL §2.1.3.1.1.20.31 and .34: the reader sees more than free and busy.
#[test]
fn time_that_is_tentative_or_out_of_the_office_is_shown() {
    const CANCELLATION: &str = "IPM.Schedule.Meeting.Canceled";
    let status = |class: &str, busy: i32, intended: i32| {
        let properties = vec![
            Property::named(named::BUSY_STATUS, Value::Int32(busy)),
            Property::named(named::INTENDED_BUSY_STATUS, Value::Int32(intended)),
        ];
        lines(class, properties, "X-MICROSOFT-CDO-")
    };
    let both = ["X-MICROSOFT-CDO-BUSYSTATUS:TENTATIVE", "X-MICROSOFT-CDO-INTENDEDSTATUS:OOF"];
    assert_eq!(status(REQUEST, 1, 3), both);
    assert_eq!(status(CANCELLATION, 0, 3), ["X-MICROSOFT-CDO-BUSYSTATUS:FREE"]);
    assert!(status(REQUEST, 4, -1).is_empty());
    assert!(lines(REQUEST, vec![], "X-MICROSOFT-CDO-").is_empty());
}

/// Messages of old clients have attributes in place of these properties: MS-OXTNEF.
#[test]
fn importance_and_the_wish_for_an_answer_may_be_attributes() {
    let number = |id: u32, number: u16| Attribute { id, data: number.to_le_bytes().to_vec() };
    for (priority, line, word) in
        [(1, "PRIORITY:1", "high"), (2, "PRIORITY:5", ""), (3, "PRIORITY:9", "low"), (4, "PRIORITY:5", "")]
    {
        for (request, asked) in [(0, 0), (1, 2)] {
            let mut meeting = samples::meeting(REQUEST);
            meeting.attributes.push(number(attribute::PRIORITY, priority));
            meeting.attributes.push(number(attribute::REQUEST_RES, request));
            let mime = converted(&bare("From: a@x.example\r\n", &meeting));
            let calendar = calendar(&mime);
            assert!(calendar.contains(&format!("\r\n{line}\r\n")), "{priority}: {calendar}");
            assert_eq!(calendar.matches("RSVP=TRUE").count(), asked, "{calendar}");
            assert_eq!(field(&mime, 0, "importance"), word);
        }
    }
}

/// A row of the table of recipients, with more properties.
fn recipient(name: &str, more: Vec<Property>) -> Vec<Property> {
    let to = Property::new(property::RECIPIENT_TYPE, Value::Int32(1));
    [vec![samples::text(property::DISPLAY_NAME, name), to], more].concat()
}

/// MS-OXOCAL §2.2.4.10.1: the organizer may have a row, too.
#[test]
fn the_organizer_is_asked_nothing() {
    let of = |class: &str, begins: &str| {
        let mut meeting = samples::meeting(class);
        meeting.recipients.push(recipient(
            "Boss",
            vec![
                samples::text(property::SMTP_ADDRESS, "boss@x.example"),
                Property::new(property::RECIPIENT_FLAGS, Value::Int32(3)),
            ],
        ));
        let calendar = calendar(&converted(&samples::mail(&meeting)));
        calendar.lines().filter(|line| line.starts_with(begins)).map(str::to_owned).collect::<Vec<_>>()
    };
    let attendees = of(REQUEST, "ATTENDEE");
    assert!(attendees.len() == 2 && !attendees.concat().contains("boss"), "{attendees:?}");
    let organizer = of("IPM.Schedule.Meeting.Resp.Pos", "ORGANIZER");
    assert_eq!(organizer, ["ORGANIZER;CN=\"Boss\":mailto:boss@x.example"]);
}

/// A name within Exchange is no address, and the header has the one that it means.
#[test]
fn an_attendee_without_an_address_gets_that_of_the_header() {
    let within = || {
        let address = samples::text(property::EMAIL_ADDRESS, "/o=Org/cn=x");
        vec![samples::text(property::ADDRESS_TYPE, "EX"), address]
    };
    let mut meeting = samples::meeting(REQUEST);
    meeting.recipients.extend(["Zo\u{eb}", "Twin"].map(|name| recipient(name, within())));
    let mail = String::from_utf8(samples::mail(&meeting)).expect("ASCII");
    let to = "To: ana@y.example, =?utf-8?q?Zo=C3=AB?= <zoe@y.example>\r\n\
              Cc: Twin <a@y.example>, Twin <b@y.example>\r\n";
    let calendar = calendar(&converted(mail.replace("To: ana@y.example\r\n", to).as_bytes()));
    let attendees: Vec<_> = calendar.lines().filter(|line| line.starts_with("ATTENDEE")).collect();
    // Which of the twins it is, nobody knows.
    assert_eq!(attendees.len(), 3, "{attendees:?}");
    assert!(attendees.iter().any(|line| line.ends_with(":mailto:zoe@y.example")), "{attendees:?}");
}

/// A day begins at midnight of the organizer's zone, which may be over half a day from UTC.
#[test]
fn whole_days_are_those_of_the_zone() {
    let zone = |bias: i32| {
        let mut bytes: Vec<u8> = [bias, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
        bytes.extend([0; 36]);
        Property::named(named::TIME_ZONE_STRUCT, Value::Binary(bytes))
    };
    // The same as a definition: a name, and one rule.
    let definition = |bias: i32| {
        let mut bytes: Vec<u8> =
            [0x0102_u16, 6, 2, 0, 1, 0x0102, 0x3E, 2, 2000].iter().flat_map(|n| n.to_le_bytes()).collect();
        bytes.extend([0; 14]);
        bytes.extend([bias, 0, 0].iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend([0; 32]);
        Property::named(named::TIME_ZONE_DEFINITION_START, Value::Binary(bytes))
    };
    // Midnight at the beginning of 2023-11-15, in each zone.
    let midnight = samples::TIME + 6_400 * 10_000_000;
    for hours in [-14_i64, -13, -1, 0, 5, 12] {
        let bias = (hours * 60) as i32;
        let at = midnight.checked_add_signed(hours * samples::HOUR as i64).expect("a time");
        for zone in [zone(bias), definition(bias)] {
            let properties = vec![
                zone,
                Property::named(named::APPOINTMENT_SUB_TYPE, Value::Bool(true)),
                Property::named(named::APPOINTMENT_START_WHOLE, Value::Time(at)),
                Property::named(named::APPOINTMENT_END_WHOLE, Value::Time(at + 24 * samples::HOUR)),
            ];
            let days = ["DTSTART;VALUE=DATE:20231115", "DTEND;VALUE=DATE:20231116"];
            assert_eq!(lines(REQUEST, properties.clone(), "DT")[1..], days, "{hours}: {properties:?}");
        }
    }
}
