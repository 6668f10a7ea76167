//! Messages about one occurrence, as programs write them.

use super::*;
use crate::mail::calendar::{Meeting, Method, calendar};
use crate::mail::people::People;
use crate::model::Property;
use crate::samples;

/// 2023-11-14 08:00 UTC, which is 9:00 in the zone of the series.
const NINE: u64 = samples::TIME - 14 * samples::HOUR - 800 * 10_000_000;

/// A message of this class about the occurrence of a day in November 2023.
fn message(class: &str, day: u8, properties: Vec<Property>) -> Message {
    let mut message = samples::meeting(class);
    for property in &mut message.properties {
        let is_id = property.name.as_deref().is_some_and(|name| {
            name.set == named::GLOBAL_OBJECT_ID.0
                && name.key == crate::NameKey::Number(named::GLOBAL_OBJECT_ID.1)
        });
        if let (true, Value::Binary(id)) = (is_id, &mut property.value) {
            id[16..20].copy_from_slice(&[0x07, 0xE7, 11, day]);
        }
    }
    message.properties.extend(properties);
    message
}

fn replaced(at: u64) -> Property {
    Property::named(named::EXCEPTION_REPLACE_TIME, Value::Time(at))
}

fn usual(hour: i32, minute: i32) -> Property {
    Property::named(named::START_RECURRENCE_TIME, Value::Int32(hour << 12 | minute << 6))
}

fn whole_days() -> Property {
    Property::named(named::APPOINTMENT_SUB_TYPE, Value::Bool(true))
}

/// Central Europe.
fn zone() -> Property {
    let is_zone = |property: &Property| {
        property.name.as_deref().is_some_and(|name| {
            name.set == named::TIME_ZONE_STRUCT.0
                && name.key == crate::NameKey::Number(named::TIME_ZONE_STRUCT.1)
        })
    };
    samples::series().properties.into_iter().find(is_zone).expect("its zone")
}

const CLASSES: [&str; 4] = [
    "IPM.Schedule.Meeting.Request",
    "IPM.Schedule.Meeting.Canceled",
    "IPM.Schedule.Meeting.Resp.Pos",
    "IPM.Schedule.Meeting.Resp.Neg",
];

fn event(message: &Message) -> Option<String> {
    let method = Method::of(message).expect("a meeting");
    let people = People::of_message(message);
    calendar(Meeting { message, method, people: &people, subject: Some("x"), description: None }, 1 << 20)
}

#[test]
fn every_message_about_one_occurrence_names_it() {
    let cases = [
        (vec![replaced(NINE)], "RECURRENCE-ID:20231114T080000Z"),
        (vec![replaced(NINE), usual(1, 0), zone()], "RECURRENCE-ID:20231114T080000Z"),
        (vec![usual(9, 30), zone()], "RECURRENCE-ID:20231114T083000Z"),
        (vec![whole_days(), replaced(NINE)], "RECURRENCE-ID;VALUE=DATE:20231114"),
        (vec![whole_days()], "RECURRENCE-ID;VALUE=DATE:20231114"),
    ];
    for class in CLASSES {
        for (properties, line) in &cases {
            let text = event(&message(class, 14, properties.clone())).expect("an event");
            let found: Vec<_> = text.lines().filter(|line| line.starts_with("RECURRENCE-ID")).collect();
            assert_eq!(found, [*line], "{class}: {properties:?}");
            assert!(text.contains("UID:040000008200E00074C5B7101A82E00800000000"), "{text}");
        }
    }
}

/// Otherwise the cancellation of one Tuesday would cancel the series.
#[test]
fn what_does_not_say_which_occurrence_it_is_is_no_event() {
    let exception = Property::named(named::IS_EXCEPTION, Value::Bool(true));
    for class in CLASSES {
        for properties in [vec![], vec![usual(9, 0)], vec![zone()], vec![usual(31, 63), zone()]] {
            assert_eq!(event(&message(class, 14, properties.clone())), None, "{class}: {properties:?}");
        }
        // A day that does not exist, and a message that only says that it is an exception.
        assert_eq!(event(&message(class, 31, vec![whole_days()])), None);
        let mut single = samples::meeting(class);
        assert!(event(&single).is_some_and(|text| !text.contains("RECURRENCE-ID")));
        single.properties.push(exception.clone());
        assert_eq!(event(&single), None);
        single.properties.push(replaced(NINE));
        assert!(event(&single).is_some_and(|text| text.contains("RECURRENCE-ID:20231114T080000Z")));
    }
}

/// RFC 5546 §3.2.2: it has no rule of the series.
#[test]
fn one_occurrence_has_no_rule() {
    let mut series = samples::series();
    assert!(event(&series).is_some_and(|text| text.contains("RRULE")));
    let one = message("IPM.Schedule.Meeting.Request", 14, vec![replaced(NINE)]);
    series.properties.splice(0..0, one.properties);
    let text = event(&series).expect("an event");
    assert!(text.contains("RECURRENCE-ID:20231114T080000Z") && !text.contains("RRULE"), "{text}");
}
