//! Series with changed occurrences, as Outlook writes them.

use super::*;
use crate::mail::calendar::{Meeting, Method, calendar};
use crate::mail::people::People;
use crate::model::{Message, Property, Value};
use crate::samples;
use crate::tags::named;

/// Minutes from 1601 to 2023-11-14.
const FIRST: u32 = 222_406_560;
const DAY: u32 = 1440;
const NINE: u32 = 9 * 60;

/// An exception: its flags, and what follows these. Both are the same in `ExtendedException`,
/// except that texts are in UTF-16 there.
struct Exception {
    days: [u32; 2],
    flags: u16,
    fields: Vec<u8>,
    texts: Vec<&'static str>,
}

fn narrow(text: &str) -> Vec<u8> {
    let bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
    let len = u16::try_from(bytes.len()).expect("short");
    [&(len + 1).to_le_bytes()[..], &len.to_le_bytes(), &bytes].concat()
}

/// The pattern of [`samples::series`] with exceptions: each day that has one, and its new day.
fn blob(exceptions: &[Exception], writer: u32) -> Vec<u8> {
    let mut out: Vec<u8> = [0x3004_u16, 0x3004, 0x200B, 1, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
    let add = |out: &mut Vec<u8>, numbers: &[u32]| out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    add(&mut out, &[0, 2, 0, 0b001_0100, 0x2021, 3, 1]);
    let count = exceptions.len() as u32;
    // The second Tuesday was deleted, too.
    add(&mut out, &[count + 1, FIRST + 14 * DAY]);
    add(&mut out, &exceptions.iter().map(|e| FIRST + e.days[0] * DAY).collect::<Vec<_>>());
    add(&mut out, &[count]);
    add(&mut out, &exceptions.iter().map(|e| FIRST + e.days[1] * DAY).collect::<Vec<_>>());
    add(&mut out, &[FIRST, FIRST + 14 * DAY, 0x3006, writer, NINE, NINE + 90]);
    out.extend((count as u16).to_le_bytes());
    for Exception { days, flags, fields, .. } in exceptions {
        let start = FIRST + days[1] * DAY + 10 * 60;
        add(&mut out, &[start, start + 30, FIRST + days[0] * DAY + NINE]);
        out.extend(flags.to_le_bytes());
        out.extend(fields);
    }
    add(&mut out, &[0]);
    for Exception { flags, texts, .. } in exceptions {
        if writer >= HIGHLIGHTS {
            add(&mut out, &[4, 0]);
        }
        add(&mut out, &[0]);
        if flags & (has::SUBJECT | has::PLACE) != 0 {
            add(&mut out, &[0, 0, 0]);
            for text in texts {
                let units: Vec<u16> = text.encode_utf16().collect();
                out.extend((units.len() as u16).to_le_bytes());
                out.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
            }
            add(&mut out, &[0]);
        }
    }
    add(&mut out, &[0]);
    out
}

fn moved() -> Exception {
    Exception { days: [2, 3], flags: 0, fields: vec![], texts: vec![] }
}

/// It keeps its day. Everything else differs.
fn changed() -> Exception {
    let number = |n: u32| n.to_le_bytes().to_vec();
    let fields = [
        narrow("T\u{fc} ?"),
        number(1),
        number(30),
        number(1),
        narrow("Room ?"),
        number(0),
        number(1),
        number(0),
        number(7),
    ];
    let texts = vec!["T\u{fc} \u{41f}", "Room \u{41f}"];
    Exception { days: [0, 0], flags: 0x03FF, fields: fields.concat(), texts }
}

/// The sample series with this pattern.
fn series(class: &str, blob: Vec<u8>) -> Message {
    let mut series = samples::series();
    series.properties.insert(0, Property::named(named::APPOINTMENT_RECUR, Value::Binary(blob)));
    series.properties.insert(0, samples::text(crate::tags::property::MESSAGE_CLASS, class));
    series
}

const REQUEST: &str = "IPM.Schedule.Meeting.Request";

/// The events of a message, unfolded.
fn events(message: &Message, room: usize) -> Vec<String> {
    let method = Method::of(message).expect("a meeting");
    let people = People::of_message(message);
    let meeting =
        Meeting { message, method, people: &people, subject: Some("Usual"), description: Some("text") };
    let text = calendar(meeting, room).expect("a calendar").replace("\r\n ", "");
    let events = text.split("BEGIN:VEVENT\r\n").skip(1).map(str::to_owned);
    events.collect()
}

fn lines<'t>(event: &'t str, begins: &[&str]) -> Vec<&'t str> {
    event.lines().filter(|line| begins.iter().any(|begin| line.starts_with(begin))).collect()
}

#[test]
fn each_changed_occurrence_is_an_event() {
    const OF_DAYS: [&str; 5] = ["DTSTART", "DTEND", "EXDATE", "RDATE", "RECURRENCE-ID"];
    for writer in [0x3008, 0x3009] {
        let message = series(REQUEST, blob(&[moved(), changed()], writer));
        let [whole, first, second]: [String; 3] = events(&message, 1 << 20).try_into().expect("three events");
        assert_eq!(
            lines(&whole, &OF_DAYS),
            [
                "DTSTART;TZID=Organizer:20231114T090000",
                "DTEND;TZID=Organizer:20231114T103000",
                "EXDATE;TZID=Organizer:20231128T090000",
            ]
        );
        assert_eq!(
            lines(&first, &OF_DAYS),
            [
                "DTSTART;TZID=Organizer:20231117T100000",
                "DTEND;TZID=Organizer:20231117T103000",
                "RECURRENCE-ID;TZID=Organizer:20231116T090000",
            ]
        );
        let usual = ["SUMMARY:Usual", "LOCATION:Room 1", "TRANSP:OPAQUE"];
        assert_eq!(lines(&first, &["SUMMARY", "LOCATION", "TRANSP"]), usual);
        assert_eq!(
            lines(&second, &["RECURRENCE-ID", "DTSTART", "SUMMARY", "LOCATION", "TRANSP"]),
            [
                "DTSTART;TZID=Organizer:20231114T100000",
                "RECURRENCE-ID;TZID=Organizer:20231114T090000",
                "SUMMARY:T\u{fc} \u{41f}",
                "LOCATION:Room \u{41f}",
                "TRANSP:TRANSPARENT",
            ]
        );
        // RFC 5546 §3.2.2: all have the same id and the same people, and one rule.
        for name in ["UID", "DTSTAMP", "SEQUENCE", "ORGANIZER", "ATTENDEE"] {
            assert!(lines(&first, &[name]) == lines(&whole, &[name]) && !lines(&first, &[name]).is_empty());
        }
        assert!(whole.contains("RRULE") && !first.contains("RRULE"));
    }
}

/// The cancellation of a series cancels all of it, and an answer is for all of it.
#[test]
fn other_messages_about_a_series_are_one_event() {
    for class in ["IPM.Schedule.Meeting.Canceled", "IPM.Schedule.Meeting.Resp.Pos"] {
        let found = events(&series(class, blob(&[moved()], 0x3009)), 1 << 20);
        let [event] = found.as_slice() else { panic!("{found:?}") };
        let days = ["EXDATE;TZID=Organizer:20231128T090000", "EXDATE;TZID=Organizer:20231116T090000"];
        assert_eq!(lines(event, &["EXDATE"]), days);
        assert_eq!(lines(event, &["RDATE"]), ["RDATE;TZID=Organizer:20231117T090000"]);
    }
}

/// What has no room keeps its day and the usual time, as without the details.
#[test]
fn changed_occurrences_have_a_bound() {
    let message = series(REQUEST, blob(&[moved(), changed()], 0x3009));
    let all = events(&message, 1 << 20);
    let first_len = all[1].len() + "BEGIN:VEVENT\r\n".len() + 40;
    assert_eq!(events(&message, first_len).len(), 2);
    let none = events(&message, 0);
    assert_eq!(none.len(), 1);
    assert_eq!(lines(&none[0], &["RDATE"]), ["RDATE;TZID=Organizer:20231117T090000"]);
    let many: Vec<_> = (0..8_000).map(|_| moved()).collect();
    assert!(blob(&many, 0x3009).len() > 8_000 * 14);
    // So many days are no pattern at all.
    assert!(!events(&series(REQUEST, blob(&many, 0x3009)), 1 << 20)[0].contains("RRULE"));
}

/// Without its end, or without any of them, the days are known anyway.
#[test]
fn details_that_are_cut_are_left_out() {
    let whole = blob(&[moved(), changed()], 0x3009);
    // The number of exceptions comes after four more days than without them.
    let begin = blob(&[], 0x3009).len() - 10 + 4 * 4;
    for len in begin..whole.len() {
        let found = events(&series(REQUEST, whole[..len].to_vec()), 1 << 20);
        let said = found.iter().any(|event| event.contains("20231117T"));
        assert!(said && matches!(found.len(), 1 | 3), "{len}: {found:?}");
    }
}
