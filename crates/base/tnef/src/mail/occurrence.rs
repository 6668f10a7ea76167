//! Which occurrence of a series a message is about: RECURRENCE-ID (RFC 5545 §3.8.4.4).
//!
//! A message about one occurrence that did not say so would be about the whole series: both have
//! the same UID.

use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

use super::dates;
use super::zone::Zone;
use crate::model::{Message, Value};
use crate::tags::named;

/// The scope of a message about a meeting.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// A single meeting, or a series as a whole.
    Whole,
    /// One occurrence of a series, with the line that names it.
    Occurrence(String),
}

impl Scope {
    /// `None` if it is one occurrence, and the message does not say which one.
    pub fn of(message: &Message) -> Option<Self> {
        let is_exception = message.named(named::IS_EXCEPTION).and_then(Value::number) == Some(1);
        let date = date_bytes(message);
        if date == [0; 4] && !is_exception {
            return Some(Scope::Whole);
        }
        let date = date_of(date);
        let replaced = message.named(named::EXCEPTION_REPLACE_TIME).and_then(dates::of_value);
        // RFC 5545 §3.8.4.4: it has the type of the DTSTART of its series.
        let line = if dates::has_whole_days(message) {
            let day = || replaced.map(|at| Zone::day(message, at).date());
            let at = PrimitiveDateTime::new(date.or_else(day)?, Time::MIDNIGHT).assume_utc();
            format!("RECURRENCE-ID;VALUE=DATE:{}", dates::day(at))
        } else {
            let at = replaced.or_else(|| usual_time(message, date?))?;
            format!("RECURRENCE-ID:{}", dates::in_calendar(at))
        };
        Some(Scope::Occurrence(line))
    }
}

/// The day of an occurrence within the id of its series: MS-OXOCAL §2.2.1.27.
fn date_bytes(message: &Message) -> [u8; 4] {
    let id = message.named(named::GLOBAL_OBJECT_ID).and_then(Value::bytes).unwrap_or_default();
    id.get(16..).and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default()
}

/// Two bytes of a year, the higher one first, a month and a day.
fn date_of([high, low, month, day]: [u8; 4]) -> Option<Date> {
    let year = i32::from(u16::from_be_bytes([high, low]));
    let month = Month::try_from(month).ok()?;
    Date::from_calendar_date(year, month, day).ok().filter(|date| (1601..=9999).contains(&date.year()))
}

/// The time at which the occurrence of a day begins, if it was not moved (MS-XWDCAL §2.2.7.67).
/// Bits 0 to 5 are the second, 6 to 11 the minute, 12 to 16 the hour, on the organizer's clock.
fn usual_time(message: &Message, date: Date) -> Option<OffsetDateTime> {
    let packed = message.named(named::START_RECURRENCE_TIME).and_then(Value::number)?;
    let part = |shift: u32, mask: i64| u8::try_from(packed >> shift & mask).ok();
    let time = Time::from_hms(part(12, 0x1F)?, part(6, 0x3F)?, part(0, 0x3F)?).ok()?;
    Zone::of(message, date.year())?.utc(PrimitiveDateTime::new(date, time).assume_utc())
}

#[cfg(test)]
#[path = "occurrence_tests.rs"]
mod tests;
