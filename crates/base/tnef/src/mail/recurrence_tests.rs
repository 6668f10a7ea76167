//! Patterns as MS-OXOCAL describes them.

use super::*;
use crate::model::Property;

/// Bytes of a time zone: Central Europe.
fn zone() -> Vec<u8> {
    let mut bytes: Vec<u8> = [-60i32, 0, -60].iter().flat_map(|n| n.to_le_bytes()).collect();
    for change in [[0u16, 0, 10, 0, 5, 3, 0, 0, 0], [0, 0, 3, 0, 5, 2, 0, 0, 0]] {
        bytes.extend(change.iter().flat_map(|n| n.to_le_bytes()));
    }
    bytes
}

/// Minutes from 1601 to 2023-11-14.
const FIRST: u32 = 222_406_560;

fn blob(frequency: u16, kind: u16, period: u32, specific: &[u32], end: u32, deleted: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [0x3004, 0x3004, frequency, kind, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut add = |numbers: &[u32]| bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    add(&[0, period, 0]);
    add(specific);
    add(&[end, 7, 1]);
    add(&[u32::try_from(deleted.len()).expect("few")]);
    add(deleted);
    // The first of the deleted days keeps its day, and one was moved to the end.
    let changed: Vec<u32> =
        deleted.iter().take(1).copied().chain(deleted.iter().skip(2).map(|_| FIRST + 9 * 1440)).collect();
    add(&[u32::try_from(changed.len()).expect("few")]);
    add(&changed);
    add(&[FIRST, FIRST + 14 * 1440, 0x3006, 0x3008, 9 * 60, 10 * 60 + 30]);
    bytes
}

fn series(blob: Vec<u8>) -> Vec<Property> {
    vec![
        Property::named(named::RECURRING, Value::Bool(true)),
        Property::named(named::APPOINTMENT_RECUR, Value::Binary(blob)),
    ]
}

fn recurrence(blob: Vec<u8>, zone: Vec<u8>) -> Option<Recurrence> {
    let mut properties = series(blob);
    properties.push(Property::named(named::TIME_ZONE_STRUCT, Value::Binary(zone)));
    Recurrence::of(&Message { properties, ..Message::default() })
}

#[test]
fn a_weekly_meeting_in_its_zone() {
    let blob = blob(0x200B, 1, 2, &[0b0010100], 0x2021, &[FIRST, FIRST + 1440, FIRST + 2880]);
    let found = recurrence(blob, zone()).expect("a rule");
    assert_eq!(
        found.lines(0),
        [
            "DTSTART;TZID=Organizer:20231114T090000",
            "DTEND;TZID=Organizer:20231114T103000",
            "RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,TH;WKST=MO;UNTIL=20231128T080000Z",
            "EXDATE;TZID=Organizer:20231115T090000",
            "EXDATE;TZID=Organizer:20231116T090000",
            "RDATE;TZID=Organizer:20231123T090000",
        ]
    );
    let expected = "BEGIN:VTIMEZONE TZID:Organizer BEGIN:STANDARD DTSTART:16010101T030000 \
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10 TZOFFSETFROM:+0200 TZOFFSETTO:+0100 END:STANDARD BEGIN:DAYLIGHT \
DTSTART:16010101T020000 RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3 TZOFFSETFROM:+0100 TZOFFSETTO:+0200 END:DAYLIGHT \
END:VTIMEZONE";
    assert_eq!(found.zone.join(" "), expected);
}

/// The same zone as a definition with one rule: MS-OXOCAL §2.2.1.41.
fn definition() -> Vec<u8> {
    let bytes_of = |numbers: &[u16]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let mut bytes = bytes_of(&[0x0102, 10, 2, 2, u16::from(b'C'), u16::from(b'E'), 1]);
    bytes.extend(bytes_of(&[0x0102, 0x3E, 0, 1601]));
    bytes.extend([0; 14]);
    bytes.extend([-60i32, 0, -60].iter().flat_map(|n| n.to_le_bytes()));
    bytes.extend(bytes_of(&[0, 10, 0, 5, 3, 0, 0, 0, 0, 3, 0, 5, 2, 0, 0, 0]));
    bytes
}

/// The zone may have no other property than its definition.
#[test]
fn a_series_is_in_the_zone_of_its_definition() {
    let weekly = || blob(0x200B, 1, 2, &[0b0010100], 0x2021, &[]);
    let expected = recurrence(weekly(), zone()).expect("a rule");
    for name in [named::TIME_ZONE_DEFINITION_RECUR, named::TIME_ZONE_DEFINITION_START] {
        let mut properties = series(weekly());
        properties.push(Property::named(name, Value::Binary(definition())));
        let found = Recurrence::of(&Message { properties, ..Message::default() }).expect("a rule");
        assert_eq!((&found.zone, found.lines(0)), (&expected.zone, expected.lines(0)));
    }
}

/// Days are the same in every zone: RFC 5545 §3.3.10 wants UNTIL in the form of DTSTART.
#[test]
fn a_series_of_whole_days() {
    let mut blob = blob(0x200B, 1, 1, &[0b0000100], 0x2021, &[FIRST, FIRST + 7 * 1440]);
    let times = blob.len() - 8;
    let with = |from: u32, to: u32, mut blob: Vec<u8>| {
        blob[times..].copy_from_slice(&[from.to_le_bytes(), to.to_le_bytes()].concat());
        let mut properties = series(blob);
        properties.push(Property::named(named::APPOINTMENT_SUB_TYPE, Value::Bool(true)));
        Recurrence::of(&Message { properties, ..Message::default() }).expect("a rule")
    };
    let found = with(0, 2 * 1440, blob.clone());
    assert_eq!(
        found.lines(0),
        [
            "DTSTART;VALUE=DATE:20231114",
            "DTEND;VALUE=DATE:20231116",
            "RRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=TU;WKST=MO;UNTIL=20231128",
            "EXDATE;VALUE=DATE:20231121",
        ]
    );
    assert!(found.zone.is_empty());
    assert!(!with(0, 0, blob.clone()).lines(0)[1].starts_with("DTEND"));
    // An occurrence without a length has no end either.
    blob[times..].copy_from_slice(&[540u32.to_le_bytes(), 540u32.to_le_bytes()].concat());
    let found = recurrence(blob, zone()).expect("a rule");
    assert!(found.lines(0)[0].ends_with("T090000") && found.lines(0)[1].starts_with("RRULE"));
}

#[test]
fn patterns_of_all_kinds() {
    for (frequency, kind, period, specific, rule) in [
        (0x200A, 0, 2880, &[][..], Some("FREQ=DAILY;INTERVAL=2")),
        (0x200A, 1, 1, &[0b0111110], Some("FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,TU,WE,TH,FR")),
        (0x200C, 2, 1, &[14], Some("FREQ=MONTHLY;INTERVAL=1;BYMONTHDAY=14")),
        (0x200C, 2, 1, &[31], Some("FREQ=MONTHLY;INTERVAL=1;BYMONTHDAY=-1")),
        (0x200C, 3, 3, &[0b0000100, 5], Some("FREQ=MONTHLY;INTERVAL=3;BYDAY=TU;BYSETPOS=-1")),
        (0x200D, 2, 12, &[14], Some("FREQ=YEARLY;INTERVAL=1;BYMONTH=11;BYMONTHDAY=14")),
        (0x200D, 3, 12, &[0b0000100, 2], Some("FREQ=YEARLY;INTERVAL=1;BYMONTH=11;BYDAY=TU;BYSETPOS=2")),
        // Nothing, other calendars, and what makes no sense.
        (0x200C, 10, 1, &[14], None),
        (0x200B, 1, 1, &[0], None),
        (0x200A, 0, 0, &[], None),
        (0x1234, 0, 1, &[], None),
    ] {
        let found = recurrence(blob(frequency, kind, period, specific, 0x2022, &[]), zone());
        let line = found.and_then(|found| found.lines(0).get(2).cloned());
        assert_eq!(line, rule.map(|rule| format!("RRULE:{rule};WKST=MO;COUNT=7")), "{frequency:x} {kind}");
    }
    let endless = recurrence(blob(0x200A, 0, 1440, &[], 0x2023, &[]), zone()).expect("a rule");
    assert_eq!(endless.lines(0)[2], "RRULE:FREQ=DAILY;INTERVAL=1;WKST=MO");
}

/// A series on one day of each month, or of each year. It has seven occurrences, the first and the
/// last so many days after 2023-11-14.
fn monthly((frequency, period): (u16, u32), day: u32, (first, last): (u32, u32), end: u32) -> Vec<String> {
    let mut bytes: Vec<u8> =
        [0x3004, 0x3004, frequency, 2, 0].iter().flat_map(|n: &u16| n.to_le_bytes()).collect();
    let days = [FIRST + first * 1440, FIRST + last * 1440, 0x3006, 0x3008, 9 * 60, 10 * 60 + 30];
    let numbers = [&[0, period, 0, day, end, 7, 1, 0, 0][..], &days].concat();
    bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    recurrence(bytes, zone()).expect("a rule").lines(0)[2..].to_vec()
}

/// Exchange has the occurrence on the last day of such a month, and a rule has none there.
#[test]
fn a_month_without_the_day_has_its_last_one() {
    const MONTH: (u16, u32) = (0x200C, 1);
    let until = "RRULE:FREQ=MONTHLY;INTERVAL=1;BYMONTHDAY=30;WKST=MO;UNTIL=20240530T080000Z";
    let leap_day = "RDATE;TZID=Organizer:20240229T090000";
    // From 2023-11-30 to 2024-05-30.
    for end in [0x2021, 0x2022] {
        assert_eq!(monthly(MONTH, 30, (16, 198), end), [until, leap_day], "{end:x}");
    }
    // February has a day 29 in 2024. Every other month from November on is no February.
    let counted = "RRULE:FREQ=MONTHLY;INTERVAL=1;BYMONTHDAY=29;WKST=MO;COUNT=7";
    assert_eq!(monthly(MONTH, 29, (15, 197), 0x2022), [counted]);
    let other = "RRULE:FREQ=MONTHLY;INTERVAL=2;BYMONTHDAY=30;WKST=MO;COUNT=7";
    assert_eq!(monthly((0x200C, 2), 30, (16, 382), 0x2022), [other]);
    // A series without an end. The years 2024, 2028, 2032, 2036 and 2040 have the day.
    let endless = monthly(MONTH, 29, (15, 197), 0x2023);
    assert_eq!(endless[..2], [&counted[..counted.len() - 8], "RDATE;TZID=Organizer:20250228T090000"]);
    assert_eq!(endless.len(), 1 + 19 - 5);
    // It may begin on such a day: 2024-02-29.
    assert_eq!(monthly(MONTH, 30, (107, 198), 0x2021), [until, leap_day]);
    let yearly = "RRULE:FREQ=YEARLY;INTERVAL=1;BYMONTH=2;BYMONTHDAY=-1;WKST=MO;COUNT=7";
    assert_eq!(monthly((0x200D, 12), 29, (107, 2299), 0x2022), [yearly]);
    let yearly = "RRULE:FREQ=YEARLY;INTERVAL=1;BYMONTH=11;BYMONTHDAY=30;WKST=MO;COUNT=7";
    assert_eq!(monthly((0x200D, 12), 30, (16, 2208), 0x2022), [yearly]);
}

#[test]
fn a_zone_without_summer_and_bytes_that_are_cut() {
    let (blob, mut zone) = (blob(0x200A, 0, 1440, &[], 0x2023, &[]), zone());
    for len in 0..blob.len() {
        assert!(recurrence(blob[..len].to_vec(), zone.clone()).is_none(), "{len}");
    }
    assert!(recurrence(blob.clone(), zone[..zone.len() - 1].to_vec()).is_none());
    zone[12..].fill(0);
    let found = recurrence(blob, zone).expect("a rule");
    let expected = "BEGIN:VTIMEZONE TZID:Organizer BEGIN:STANDARD DTSTART:16010101T000000 TZOFFSETFROM:+0100 \
TZOFFSETTO:+0100 END:STANDARD END:VTIMEZONE";
    assert_eq!(found.zone.join(" "), expected);
}
