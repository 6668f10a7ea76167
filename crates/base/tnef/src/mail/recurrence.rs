//! A meeting that recurs, as rules of iCalendar: MS-OXOCAL §2.2.1.44 and §2.2.1.39, RFC 5545
//! §3.3.10.
//!
//! Such a meeting keeps the time zone of its organizer: a rule in UTC would be wrong after the next
//! change of clocks. There is no rule if the blob or its zone is missing. There is none for another
//! calendar than the Gregorian one either, since RFC 5545 cannot express it. Then the caller
//! describes the pattern as text.
//!
//! Occurrences that differ from the rule are events of their own: [`super::changes`].

use std::collections::HashSet;
use std::fmt::Write;

use time::{Date, Month, OffsetDateTime};

use super::changes::{Change, changes};
use super::dates;
use super::zone::{WEEKDAYS, ZONE, Zone};
use crate::error::Damage;
use crate::model::{Message, Value};
use crate::reader::Reader;
use crate::tags::named;

/// Exceptions of one meeting at most: twenty years of a daily one.
const EXCEPTIONS_MAX: usize = 7_300;
const WHAT: &str = "a recurrence";
/// Minutes of a day.
const DAY: i64 = 24 * 60;

/// A series of meetings.
pub(super) struct Recurrence {
    /// VTIMEZONE.
    pub zone: Vec<String>,
    pattern: Pattern,
    form: TimeFormat,
}

/// One occurrence that differs from its series.
pub(super) struct Changed<'r> {
    /// DTSTART, DTEND, RECURRENCE-ID.
    pub times: Vec<String>,
    /// The other differences.
    pub change: &'r Change,
}

impl Recurrence {
    /// The rule of a meeting; `None` if it does not recur, or not in a way that iCalendar can
    /// express.
    pub fn of(message: &Message) -> Option<Self> {
        let is_series = message.named(named::RECURRING).and_then(Value::number) == Some(1);
        let blob = message.named(named::APPOINTMENT_RECUR).and_then(Value::bytes).filter(|_| is_series)?;
        let pattern = Pattern::read(blob, message.text_code_page()).ok()??;
        if dates::has_whole_days(message) {
            return Some(Self { zone: Vec::new(), pattern, form: TimeFormat::Days });
        }
        let zone = Zone::of(message, at(pattern.first)?.year())?;
        Some(Self { zone: zone.lines(), pattern, form: TimeFormat::Times { standard: zone.standard } })
    }

    /// DTSTART, DTEND, RRULE, EXDATE, RDATE. The first `own` of [`Self::changed`] are events of
    /// their own. Of the others, the days are here, at the usual time.
    pub fn lines(&self, own: usize) -> Vec<String> {
        self.pattern.lines(self.form, own)
    }

    /// The occurrences that were changed.
    pub fn changed(&self) -> impl Iterator<Item = Changed<'_>> {
        self.pattern.changes.iter().map(move |change| {
            let form = match change.has_whole_days {
                Some(true) => TimeFormat::Days,
                _ => self.form,
            };
            let mut times = form.times(change.start, change.end);
            times.push(self.form.property("RECURRENCE-ID", change.original));
            Changed { times, change }
        })
    }
}

/// The form in which the times of an event are printed.
#[derive(Debug, Clone, Copy)]
enum TimeFormat {
    Days,
    /// With the zone, whose offset from UTC in winter this is.
    Times {
        standard: i64,
    },
}

impl TimeFormat {
    fn property(self, name: &str, minutes: i64) -> String {
        match self {
            TimeFormat::Days => format!("{name};VALUE=DATE:{}", day(minutes)),
            TimeFormat::Times { .. } => format!("{name};TZID={ZONE}:{}", local(minutes)),
        }
    }

    /// RFC 5545 §3.8.2.2: the end is later than the beginning, or is left out.
    fn times(self, start: i64, end: i64) -> Vec<String> {
        let is_later = self.property("", end) > self.property("", start);
        let end = is_later.then(|| self.property("DTEND", end));
        std::iter::once(self.property("DTSTART", start)).chain(end).collect()
    }
}

/// Minutes since 1601 on a local clock.
fn local(minutes: i64) -> String {
    at(minutes).map(dates::in_calendar).unwrap_or_default().trim_end_matches('Z').to_owned()
}

/// The day of these minutes since 1601.
fn day(minutes: i64) -> String {
    at(minutes).map(dates::day).unwrap_or_default()
}

fn at(minutes: i64) -> Option<OffsetDateTime> {
    dates::of_filetime(u64::try_from(minutes).ok()?.checked_mul(600_000_000)?)
}

/// AppointmentRecurrencePattern, as far as it is needed. Times are minutes.
struct Pattern {
    rule: String,
    /// Occurrences; 0 if their number is not what ends the series.
    count: u32,
    /// The day of the last occurrence; `None` if there is no last one.
    last: Option<i64>,
    first: i64,
    starts_at: i64,
    ends_at: i64,
    /// Days without the usual occurrence, since it was deleted or changed.
    deleted: Vec<i64>,
    /// Days with a changed one.
    changed: Vec<i64>,
    changes: Vec<Change>,
    /// Days that the rule cannot express: [`ends_of_february`].
    added: Vec<i64>,
}

impl Pattern {
    /// MS-OXOCAL §2.2.1.44.1 and §2.2.1.44.5. `Ok(None)` is a pattern that iCalendar cannot
    /// express.
    fn read(blob: &[u8], code_page: u32) -> Result<Option<Self>, Damage> {
        let mut reader = Reader::new(blob);
        let _versions = (reader.u16(WHAT)?, reader.u16(WHAT)?);
        let frequency = reader.u16(WHAT)?;
        let kind = reader.u16(WHAT)?;
        let calendar = reader.u16(WHAT)?;
        reader.u32(WHAT)?;
        let period = reader.u32(WHAT)?;
        reader.u32(WHAT)?;
        let specific = match kind {
            0 => (0, 0),
            3 => (reader.u32(WHAT)?, reader.u32(WHAT)?),
            _ => (reader.u32(WHAT)?, 0),
        };
        let end = reader.u32(WHAT)?;
        let count = reader.u32(WHAT)?;
        let first_weekday = reader.u32(WHAT)?;
        let deleted = days(&mut reader)?;
        let changed = days(&mut reader)?;
        let first = i64::from(reader.u32(WHAT)?);
        let last = i64::from(reader.u32(WHAT)?);
        let (_reader, writer) = (reader.u32(WHAT)?, reader.u32(WHAT)?);
        let (starts_at, ends_at) = (i64::from(reader.u32(WHAT)?), i64::from(reader.u32(WHAT)?));
        // Without them, the days of changed occurrences are known anyway.
        let changes = changes(&mut reader, writer, code_page, EXCEPTIONS_MAX).unwrap_or_default();
        // 0 is the default calendar, 1 the Gregorian one.
        let rule = match calendar {
            0 | 1 => rule(frequency, kind, period, specific, first),
            _ => None,
        };
        let Some(mut rule) = rule else { return Ok(None) };
        if let Some(day) = WEEKDAYS.get(usize::try_from(first_weekday).unwrap_or(usize::MAX)) {
            let _ = write!(rule, ";WKST={day}");
        }
        let has_last = matches!(end, ENDS_ON_DAY | ENDS_BY_COUNT);
        let added = match (frequency, kind, specific.0) {
            (0x200C, 2, day @ 29..=30) => ends_of_february(day, period, first, has_last.then_some(last)),
            _ => Vec::new(),
        };
        // The count of a rule would be without the days that are added.
        let has_count = end == ENDS_BY_COUNT && added.is_empty();
        let count = if has_count { count } else { 0 };
        let last = (has_last && !has_count).then_some(last);
        Ok(Some(Self { rule, count, last, first, starts_at, ends_at, deleted, changed, changes, added }))
    }

    /// The days that have no occurrence, and those that have another one. An event of its own says
    /// both of its days.
    fn exceptions(&self, own: usize) -> (Vec<i64>, Vec<i64>) {
        let own = self.changes.get(..own).unwrap_or(&self.changes);
        let day_of = |minutes: i64| minutes - minutes.rem_euclid(DAY);
        let less = |these: &[i64], those: HashSet<i64>| -> Vec<i64> {
            these.iter().copied().filter(|day| !those.contains(day)).collect()
        };
        let deleted = less(&self.deleted, own.iter().map(|change| day_of(change.original)).collect());
        let changed = less(&self.changed, own.iter().map(|change| day_of(change.start)).collect());
        // An occurrence that keeps its day is among both.
        let left_out = less(&deleted, changed.iter().copied().collect());
        let added = less(&changed, deleted.iter().copied().collect());
        (left_out, added)
    }

    fn lines(&self, form: TimeFormat, own: usize) -> Vec<String> {
        let start = self.first + self.starts_at;
        let mut lines = form.times(start, start + self.ends_at - self.starts_at);
        lines.push(format!("RRULE:{}{}", self.rule, self.until(form)));
        let (left_out, mut added) = self.exceptions(own);
        added.extend(&self.added);
        for (name, days) in [("EXDATE", left_out), ("RDATE", added)] {
            lines.extend(days.iter().map(|day| form.property(name, day + self.starts_at)));
        }
        lines
    }

    /// RFC 5545 §3.3.10: UNTIL is UTC, or a day if the series has whole days. In summer the last
    /// occurrence is an hour before this.
    fn until(&self, form: TimeFormat) -> String {
        match (self.count, self.last) {
            (0, Some(last)) => {
                let until = match form {
                    TimeFormat::Times { standard } => {
                        at(last + self.starts_at - standard).map(dates::in_calendar)
                    }
                    TimeFormat::Days => at(last).map(dates::day),
                };
                until.map(|until| format!(";UNTIL={until}")).unwrap_or_default()
            }
            (0, None) => String::new(),
            (count, _) => format!(";COUNT={count}"),
        }
    }
}

/// A count, and as many days in minutes since 1601.
fn days(reader: &mut Reader<'_>) -> Result<Vec<i64>, Damage> {
    let count = reader.len(WHAT)?;
    if count > EXCEPTIONS_MAX {
        return Err(Damage::TooMany { limit: EXCEPTIONS_MAX });
    }
    (0..count).map(|_| reader.u32(WHAT).map(i64::from)).collect()
}

/// Values of EndType: MS-OXOCAL §2.2.1.44.1. In both, the day of the last occurrence is known.
const ENDS_ON_DAY: u32 = 0x2021;
const ENDS_BY_COUNT: u32 = 0x2022;

/// The last days of February among the occurrences of a monthly series on day 29 or 30, where
/// February lacks that day. A rule with a choice of days (BYSETPOS) would have them, too, but the
/// parser of Thunderbird reads it as every one of these days. Those of the first twenty years are
/// enough for a series without an end.
fn ends_of_february(day: u32, period: u32, first: i64, last: Option<i64>) -> Vec<i64> {
    const YEARS: usize = 20;
    let Some((begin, epoch)) = at(first).zip(at(0)) else { return Vec::new() };
    let ends = (begin.year()..).take(YEARS).filter_map(|year| {
        let date = |day| Date::from_calendar_date(year, Month::February, day).ok();
        date(29).or_else(|| date(28))
    });
    let months = |date: Date| i64::from(date.year()) * 12 + i64::from(u8::from(date.month()));
    let is_one = |end: &Date| {
        let later = months(*end) - months(begin.date());
        u32::from(end.day()) < day && later.checked_rem(i64::from(period)) == Some(0)
    };
    let days = ends.filter(is_one).map(|end| (end.midnight().assume_utc() - epoch).whole_minutes());
    days.filter(|day| (first..=last.unwrap_or(i64::MAX)).contains(day)).collect()
}

/// The days of a mask: bit 0 is Sunday.
fn by_day(mask: u32) -> Option<String> {
    let days = WEEKDAYS.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0);
    let days: Vec<_> = days.map(|(_, day)| *day).collect();
    (!days.is_empty()).then(|| days.join(","))
}

fn rule(frequency: u16, kind: u16, period: u32, (first, second): (u32, u32), start: i64) -> Option<String> {
    let month = || at(start).map(|at| u8::from(at.month()));
    // In Exchange, a month without the day has the occurrence on its last day. RFC 5545 §3.3.10
    // leaves such a month out.
    let is_last_day = || first == 31 || frequency == 0x200D && first >= 29 && month() == Some(2);
    // Of a month's days: a number, or the last one. Of its weekdays: which one, 5 is the last.
    let within_month = || match kind {
        2 if (1..=31).contains(&first) => {
            Some(format!("BYMONTHDAY={}", if is_last_day() { -1 } else { first.cast_signed() }))
        }
        4 => Some("BYMONTHDAY=-1".to_owned()),
        3 if (1..=5).contains(&second) => {
            let place = if second == 5 { -1 } else { second.cast_signed() };
            Some(format!("BYDAY={};BYSETPOS={place}", by_day(first)?))
        }
        _ => None,
    };
    match (frequency, kind) {
        (0x200A, 0) if period >= 1440 => Some(format!("FREQ=DAILY;INTERVAL={}", period / 1440)),
        (0x200A | 0x200B, 1) if period > 0 => {
            // Each weekday, as a daily pattern, has the period 1.
            Some(format!("FREQ=WEEKLY;INTERVAL={period};BYDAY={}", by_day(first)?))
        }
        (0x200C, _) if period > 0 => Some(format!("FREQ=MONTHLY;INTERVAL={period};{}", within_month()?)),
        (0x200D, _) if period >= 12 => {
            let years = period / 12;
            Some(format!("FREQ=YEARLY;INTERVAL={years};BYMONTH={};{}", month()?, within_month()?))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "recurrence_tests.rs"]
mod tests;
