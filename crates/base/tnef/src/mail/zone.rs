//! The time zone of a meeting's organizer: MS-OXOCAL §2.2.1.39 and §2.2.1.41.

use time::{Date, Duration, Month, OffsetDateTime, PrimitiveDateTime, Time};

use super::dates;
use crate::error::Damage;
use crate::model::{Message, Value};
use crate::reader::Reader;
use crate::tags::named;

/// The name by which events refer to the zone.
pub(super) const ZONE: &str = "Organizer";
const WHAT: &str = "a time zone";

/// Days of the week, as rules name them: RFC 5545 §3.3.10.
pub(super) const WEEKDAYS: [&str; 7] = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"];

/// Offsets are minutes east of UTC.
#[derive(Clone, Copy)]
pub(super) struct Zone {
    pub standard: i64,
    daylight: i64,
    to_standard: ClockChange,
    to_daylight: ClockChange,
}

/// The time at which clocks change: month (0 is never), day of the week, which one in the month,
/// hour, minute.
#[derive(Clone, Copy)]
struct ClockChange {
    month: u16,
    weekday: u16,
    place: u16,
    hour: u16,
    minute: u16,
}

/// Minutes that are added to a local time for UTC: always, and in each half of the year.
#[derive(Clone, Copy)]
struct Biases {
    bias: i64,
    standard: i64,
    daylight: i64,
}

impl Biases {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Damage> {
        let mut number = || Ok::<i64, Damage>(i64::from(reader.u32(WHAT)?.cast_signed()));
        Ok(Self { bias: number()?, standard: number()?, daylight: number()? })
    }

    fn zone(self, to_standard: ClockChange, to_daylight: ClockChange) -> Result<Zone, Damage> {
        let is_offset = |minutes: i64| minutes.abs() < 24 * 60;
        let (standard, daylight) = (-(self.bias + self.standard), -(self.bias + self.daylight));
        if !is_offset(standard) || !is_offset(daylight) {
            return Err(Damage::Truncated { what: WHAT, at: 0 });
        }
        Ok(Zone { standard, daylight, to_standard, to_daylight })
    }
}

impl Zone {
    /// The zone of a meeting in a year, if the meeting names one.
    pub fn of(message: &Message, year: i32) -> Option<Self> {
        let bytes = |name| message.named(name).and_then(Value::bytes);
        let definition = |name| Self::of_definition(bytes(name)?, year).ok();
        bytes(named::TIME_ZONE_STRUCT)
            .and_then(|bytes| Self::read(bytes).ok())
            .or_else(|| definition(named::TIME_ZONE_DEFINITION_RECUR))
            .or_else(|| definition(named::TIME_ZONE_DEFINITION_START))
    }

    /// The day of a meeting that lasts whole days. It begins at midnight of its own zone. Without
    /// one, the nearest midnight in UTC is right for most zones.
    pub fn day(message: &Message, at: OffsetDateTime) -> OffsetDateTime {
        let local = Self::of(message, at.year()).and_then(|zone| zone.local(at));
        dates::nearest_day(local.unwrap_or(at))
    }

    /// PidLidTimeZoneStruct: MS-OXOCAL §2.2.1.39.
    pub fn read(bytes: &[u8]) -> Result<Self, Damage> {
        let mut reader = Reader::new(bytes);
        let biases = Biases::read(&mut reader)?;
        let mut change = || {
            let _year = reader.u16(WHAT)?;
            ClockChange::read(&mut reader)
        };
        let (to_standard, to_daylight) = (change()?, change()?);
        biases.zone(to_standard, to_daylight)
    }

    /// A definition of a time zone: MS-OXOCAL §2.2.1.41. Of its rules, the last one that begins by
    /// this year, or the first one.
    fn of_definition(bytes: &[u8], year: i32) -> Result<Self, Damage> {
        /// Bytes of a rule that mean nothing here.
        const UNUSED: usize = 14;
        let mut reader = Reader::new(bytes);
        let _versions = reader.u16(WHAT)?;
        let header_len = usize::from(reader.u16(WHAT)?);
        // The header has a name, and ends with the number of rules.
        let header = reader.take(header_len, WHAT)?;
        let count = header.last_chunk::<2>().map_or(0, |count| u16::from_le_bytes(*count));
        let mut found = Err(Damage::Truncated { what: WHAT, at: 0 });
        for place in 0..count {
            let _versions_length_and_flags = (reader.u16(WHAT)?, reader.u16(WHAT)?, reader.u16(WHAT)?);
            let begins = i32::from(reader.u16(WHAT)?);
            reader.take(UNUSED, WHAT)?;
            let biases = Biases::read(&mut reader)?;
            let (to_standard, to_daylight) =
                (ClockChange::read(&mut reader)?, ClockChange::read(&mut reader)?);
            if place == 0 || begins <= year {
                found = biases.zone(to_standard, to_daylight);
            }
        }
        found
    }

    /// The time that a clock in the zone shows, as if it were UTC.
    pub fn local(&self, at: OffsetDateTime) -> Option<OffsetDateTime> {
        at.checked_add(Duration::minutes(self.offset(at)))
    }

    /// The time at which a clock in the zone shows this. Of two such times, in the hour that comes
    /// twice, one of them.
    pub fn utc(&self, local: OffsetDateTime) -> Option<OffsetDateTime> {
        let guess = local.checked_sub(Duration::minutes(self.standard))?;
        local.checked_sub(Duration::minutes(self.offset(guess)))
    }

    /// Minutes ahead of UTC at a time.
    fn offset(&self, at: OffsetDateTime) -> i64 {
        let instant = |change: ClockChange, offset: i64| {
            change.in_year(at.year())?.checked_sub(Duration::minutes(offset))
        };
        let begin = instant(self.to_daylight, self.standard);
        let end = instant(self.to_standard, self.daylight);
        let (Some(begin), Some(end)) = (begin, end) else { return self.standard };
        // In the south, summer is at both ends of the year.
        let is_summer = if begin <= end { begin <= at && at < end } else { at < end || begin <= at };
        if is_summer { self.daylight } else { self.standard }
    }

    /// RFC 5545 §3.6.5.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec!["BEGIN:VTIMEZONE".to_owned(), format!("TZID:{ZONE}")];
        let has_summer = self.to_standard.is_valid() && self.to_daylight.is_valid();
        let daylight = if has_summer { self.daylight } else { self.standard };
        let repeats = if has_summer { Repeats::Yearly } else { Repeats::Never };
        let offsets = Offsets { from: daylight, to: self.standard };
        self.to_standard.lines("STANDARD", offsets, repeats, &mut lines);
        if has_summer {
            let offsets = Offsets { from: self.standard, to: self.daylight };
            self.to_daylight.lines("DAYLIGHT", offsets, repeats, &mut lines);
        }
        lines.push("END:VTIMEZONE".to_owned());
        lines
    }
}

/// Minutes ahead of UTC, before and after a change.
#[derive(Clone, Copy)]
struct Offsets {
    from: i64,
    to: i64,
}

/// The frequency of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    /// The change only begins the one time that the zone has.
    Never,
    Yearly,
}

impl ClockChange {
    /// A SYSTEMTIME.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Damage> {
        let mut number = || reader.u16(WHAT);
        let _year = number()?;
        let (month, weekday, place) = (number()?, number()?, number()?);
        let (hour, minute) = (number()?, number()?);
        let (_second, _millisecond) = (number()?, number()?);
        Ok(Self { month, weekday, place, hour, minute })
    }

    fn is_valid(&self) -> bool {
        (1..=12).contains(&self.month)
            && self.weekday < 7
            && (1..=5).contains(&self.place)
            && self.hour < 24
            && self.minute < 60
    }

    /// The time of the change in a year, on the clock that is valid until then, as if that were
    /// UTC.
    fn in_year(&self, year: i32) -> Option<OffsetDateTime> {
        if !self.is_valid() {
            return None;
        }
        let small = |number: u16| u8::try_from(number).ok();
        let month = Month::try_from(small(self.month)?).ok()?;
        let first = Date::from_calendar_date(year, month, 1).ok()?.weekday().number_days_from_sunday();
        let day = 1 + (7 + small(self.weekday)? - first) % 7 + 7 * (small(self.place)? - 1);
        // The fifth one is the last one.
        let date = Date::from_calendar_date(year, month, day);
        let date = date.or_else(|_| Date::from_calendar_date(year, month, day - 7)).ok()?;
        let time = Time::from_hms(small(self.hour)?, small(self.minute)?, 0).ok()?;
        Some(PrimitiveDateTime::new(date, time).assume_utc())
    }

    fn lines(&self, name: &str, offsets: Offsets, repeats: Repeats, lines: &mut Vec<String>) {
        let is_yearly = repeats == Repeats::Yearly;
        let (hour, minute) = if is_yearly { (self.hour, self.minute) } else { (0, 0) };
        lines.push(format!("BEGIN:{name}"));
        lines.push(format!("DTSTART:16010101T{hour:02}{minute:02}00"));
        if let Some(day) = WEEKDAYS.get(usize::from(self.weekday)).filter(|_| is_yearly) {
            let place = if self.place == 5 { -1 } else { i32::from(self.place) };
            lines.push(format!("RRULE:FREQ=YEARLY;BYDAY={place}{day};BYMONTH={}", self.month));
        }
        for (field, minutes) in [("TZOFFSETFROM", offsets.from), ("TZOFFSETTO", offsets.to)] {
            let offset = Duration::minutes(minutes);
            let sign = if minutes < 0 { '-' } else { '+' };
            let (hours, rest) = (offset.whole_hours().abs(), offset.whole_minutes().abs() % 60);
            lines.push(format!("{field}:{sign}{hours:02}{rest:02}"));
        }
        lines.push(format!("END:{name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Property;

    fn bytes_of(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    /// Changes of a zone on the last Sunday of two months, at 3:00 and 2:00.
    fn read(bias: i32, to_standard: u16, to_daylight: u16) -> Zone {
        let mut bytes: Vec<u8> = [bias, 0, -60].iter().flat_map(|n| n.to_le_bytes()).collect();
        bytes.extend(bytes_of(&[0, 0, to_standard, 0, 5, 3, 0, 0, 0]));
        bytes.extend(bytes_of(&[0, 0, to_daylight, 0, 5, 2, 0, 0, 0]));
        Zone::read(&bytes).expect("a zone")
    }

    fn at(year: i32, month: u8, day: u8, hour: u8) -> OffsetDateTime {
        let month = Month::try_from(month).expect("a month");
        let date = Date::from_calendar_date(year, month, day).expect("a day");
        PrimitiveDateTime::new(date, Time::from_hms(hour, 0, 0).expect("an hour")).assume_utc()
    }

    #[test]
    fn clocks_change_in_the_north_and_in_the_south() {
        let (north, south) = (read(-60, 10, 3), read(-600, 4, 10));
        for (zone, utc, local) in [
            (north, at(2023, 1, 1, 0), at(2023, 1, 1, 1)),
            (north, at(2023, 3, 26, 0), at(2023, 3, 26, 1)),
            (north, at(2023, 3, 26, 1), at(2023, 3, 26, 3)),
            (north, at(2023, 7, 1, 0), at(2023, 7, 1, 2)),
            (north, at(2023, 10, 29, 1), at(2023, 10, 29, 2)),
            (south, at(2023, 1, 1, 0), at(2023, 1, 1, 11)),
            (south, at(2023, 7, 1, 0), at(2023, 7, 1, 10)),
            (south, at(2023, 12, 1, 0), at(2023, 12, 1, 11)),
        ] {
            assert_eq!(zone.local(utc), Some(local), "{utc}");
            assert_eq!(zone.utc(local), Some(utc), "{local}");
        }
        assert_eq!(read(-60, 0, 0).local(at(2023, 7, 1, 0)), Some(at(2023, 7, 1, 1)));
    }

    /// MS-OXOCAL §2.2.1.41: a name, and rules by the year in which they begin.
    #[test]
    fn a_definition_has_a_rule_for_each_year() {
        let mut bytes = bytes_of(&[0x0102, 8 + 2, 2, 2]);
        bytes.extend(bytes_of(&[u16::from(b'A'), u16::from(b'B'), 2]));
        for (year, bias) in [(2000_u16, -120_i32), (2020, -780)] {
            bytes.extend(bytes_of(&[0x0102, 0x3E, 0, year]));
            bytes.extend([0; 14]);
            bytes.extend([bias, 0, 0].iter().flat_map(|n| n.to_le_bytes()));
            bytes.extend([0; 32]);
        }
        let zone = |bytes: Vec<u8>, year: i32| {
            let definition = Property::named(named::TIME_ZONE_DEFINITION_START, Value::Binary(bytes));
            Zone::of(&Message { properties: vec![definition], ..Message::default() }, year)
        };
        for (year, standard) in [(1990, 120), (2019, 120), (2020, 780), (2030, 780)] {
            assert_eq!(zone(bytes.clone(), year).map(|zone| zone.standard), Some(standard), "{year}");
        }
        for len in 0..bytes.len() {
            assert!(zone(bytes[..len].to_vec(), 2023).is_none(), "{len}");
        }
    }
}
