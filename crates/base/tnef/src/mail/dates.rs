//! Dates of MAPI, in the forms of mail, iCalendar and vCard. All are UTC.

use posthaste_mime_summary::InBounds;
use time::{Date, Duration, Month, OffsetDateTime, PrimitiveDateTime, Time};

use crate::model::{Message, Value};
use crate::reader::Reader;
use crate::tags::named;

/// A time, from a FILETIME: 100 ns since 1601-01-01. `None` outside of the years 1601 to 9999.
pub(super) fn of_filetime(ticks: u64) -> Option<OffsetDateTime> {
    const SECONDS_1601: i64 = -11_644_473_600;
    let seconds = i64::try_from(ticks / 10_000_000).ok()?.checked_add(SECONDS_1601)?;
    OffsetDateTime::from_unix_timestamp(seconds).ok().filter(|at| at.year() <= 9999)
}

/// The time that a property holds.
pub(super) fn of_value(value: &Value) -> Option<OffsetDateTime> {
    match value {
        Value::Time(ticks) => of_filetime(*ticks),
        _ => None,
    }
}

/// A time, from an attribute: MS-OXTNEF §2.1.3.3.3, seven numbers of 16 bits.
pub(super) fn of_attribute(data: &[u8]) -> Option<OffsetDateTime> {
    let mut reader = Reader::new(data);
    let mut number = || reader.u16("a date").ok();
    let (year, month, day) = (number()?, number()?, number()?);
    let (hour, minute, second) = (number()?, number()?, number()?);
    let small = |n: u16| u8::try_from(n).ok();
    let month = Month::try_from(small(month)?).ok()?;
    let date = Date::from_calendar_date(i32::from(year), month, small(day)?).ok()?;
    let time = Time::from_hms(small(hour)?, small(minute)?, small(second)?).ok()?;
    Some(PrimitiveDateTime::new(date, time).assume_utc()).filter(|at| (1601..=9999).contains(&at.year()))
}

/// RFC 5322 §3.3: `Tue, 14 Nov 2023 22:13:20 +0000`.
pub(super) fn in_mail(at: OffsetDateTime) -> String {
    let weekday = at.weekday().to_string();
    let month = at.month().to_string();
    format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} +0000",
        weekday.in_bounds(..3),
        at.day(),
        month.in_bounds(..3),
        at.year(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

/// RFC 5545 §3.3.5: `20231114T221320Z`.
pub(super) fn in_calendar(at: OffsetDateTime) -> String {
    format!("{}T{:02}{:02}{:02}Z", day(at), at.hour(), at.minute(), at.second())
}

/// RFC 5545 §3.3.4: `20231114`.
pub(super) fn day(at: OffsetDateTime) -> String {
    format!("{:04}{:02}{:02}", at.year(), u8::from(at.month()), at.day())
}

/// Whether a meeting lasts whole days: PidLidAppointmentSubType.
pub(super) fn has_whole_days(message: &Message) -> bool {
    message.named(named::APPOINTMENT_SUB_TYPE).and_then(Value::number) == Some(1)
}

/// The midnight nearest to a time.
pub(super) fn nearest_day(at: OffsetDateTime) -> OffsetDateTime {
    at.checked_add(Duration::hours(12)).unwrap_or(at).replace_time(Time::MIDNIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_in_their_forms() {
        let at = of_filetime(133_444_736_000_000_000).expect("a date");
        assert_eq!(in_mail(at), "Tue, 14 Nov 2023 22:13:20 +0000");
        assert_eq!(in_calendar(at), "20231114T221320Z");
        assert_eq!(day(nearest_day(at)), "20231115");
        let fields: Vec<u8> = [2023u16, 11, 14, 22, 13, 20, 2].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(of_attribute(&fields), Some(at));
        assert_eq!(of_attribute(&fields[..9]), None);
        assert_eq!(of_attribute(&[0xFF; 14]), None);
        assert_eq!(of_filetime(u64::MAX), None);
        assert_eq!(of_filetime(0).map(in_mail).as_deref(), Some("Mon, 01 Jan 1601 00:00:00 +0000"));
    }
}
