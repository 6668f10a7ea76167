//! Dates as IMAP writes them: `17-Jul-1996` and `"17-Jul-1996 02:44:25 -0700"` (RFC 9051 §9,
//! date-text and date-time). The civil calendar is the proleptic Gregorian one; leap seconds count
//! as the second before.
//!
//! Own code rather than a date crate: the two forms are fixed, and this is on the path of every
//! INTERNALDATE.

use std::fmt;

/// A calendar day, years 0 … 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

/// A moment and the zone it was written in.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DateTime {
    unix_seconds: i64,
    offset_minutes: i16,
}

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

const DAY_SECONDS: i64 = 86_400;

impl Date {
    /// A day; `None` if the calendar has no such day or the year has more than four digits.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days = match month {
            2 => 28 + u8::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        (year <= 9999 && (1..=days).contains(&day)).then_some(Self { year, month, day })
    }

    /// Year.
    pub const fn year(self) -> u16 {
        self.year
    }
    /// Month, 1 … 12.
    pub const fn month(self) -> u8 {
        self.month
    }
    /// Day of the month, 1 … 31.
    pub const fn day(self) -> u8 {
        self.day
    }

    /// Days since 1970-01-01, negative before.
    pub fn unix_days(self) -> i64 {
        // Years begin in March, so that the leap day is the last of its year; 400 of them are
        // 146,097 days.
        let (m, d) = (i64::from(self.month), i64::from(self.day));
        let y = i64::from(self.year) - i64::from(m <= 2);
        let (era, year_of_era) = (y.div_euclid(400), y.rem_euclid(400));
        let day_of_year = (153 * (m + if m > 2 { -3 } else { 9 }) + 2) / 5 + d - 1;
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
    }

    /// The inverse of [`Date::unix_days`]; `None` outside the years 0 … 9999.
    pub fn from_unix_days(days: i64) -> Option<Self> {
        let z = days.checked_add(719_468)?;
        let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self::new(u16::try_from(year).ok()?, u8::try_from(month).ok()?, u8::try_from(day).ok()?)
    }

    /// `d-Mon-yyyy`, the day with one digit or two (RFC 9051 §9, date-text).
    pub fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&b| b == b'-')?;
        let (day, rest) = text.split_at(dash);
        if !(1..=2).contains(&day.len()) {
            return None;
        }
        Self::parse_month_year(digits(day)?, rest.get(1..)?)
    }

    /// `Mon-yyyy` after the day.
    fn parse_month_year(day: u32, text: &[u8]) -> Option<Self> {
        let &[a, b, c, b'-', ref year @ ..] = text else { return None };
        let month = MONTHS.iter().position(|m| m.eq_ignore_ascii_case(&[a, b, c]))? as u8 + 1;
        if year.len() != 4 {
            return None;
        }
        Self::new(u16::try_from(digits(year)?).ok()?, month, u8::try_from(day).ok()?)
    }

    /// Appends `d-Mon-yyyy`.
    pub fn print(self, out: &mut Vec<u8>) {
        crate::print::number(out, u64::from(self.day));
        self.print_month_year(out);
    }

    fn print_month_year(self, out: &mut Vec<u8>) {
        out.push(b'-');
        if let Some(name) = MONTHS.get(usize::from(self.month) - 1) {
            out.extend_from_slice(*name);
        }
        out.push(b'-');
        two(out, self.year / 100);
        two(out, self.year % 100);
    }
}

impl DateTime {
    /// Minutes of the largest zone offset that the wire can have: 99 hours 59.
    pub const OFFSET_MINUTES_MAX: i16 = 99 * 60 + 59;

    /// A moment, seconds since 1970 in UTC, and the zone it is shown in, minutes east. `None` if
    /// the day there is outside the years 0 … 9999 or the offset beyond
    /// [`Self::OFFSET_MINUTES_MAX`].
    pub fn new(unix_seconds: i64, offset_minutes: i16) -> Option<Self> {
        if offset_minutes.unsigned_abs() > Self::OFFSET_MINUTES_MAX.unsigned_abs() {
            return None;
        }
        let local = unix_seconds.checked_add(i64::from(offset_minutes) * 60)?;
        Date::from_unix_days(local.div_euclid(DAY_SECONDS))?;
        Some(Self { unix_seconds, offset_minutes })
    }

    /// Seconds since 1970 in UTC.
    pub const fn unix_seconds(self) -> i64 {
        self.unix_seconds
    }
    /// Minutes east of UTC.
    pub const fn offset_minutes(self) -> i16 {
        self.offset_minutes
    }
    /// The day in its own zone: what SEARCH ON compares (RFC 9051 §6.4.4, "disregarding time and
    /// timezone").
    pub fn date(self) -> Date {
        let local = self.unix_seconds + i64::from(self.offset_minutes) * 60;
        // `new` has seen that this day exists.
        Date::from_unix_days(local.div_euclid(DAY_SECONDS)).unwrap_or(Date { year: 1970, month: 1, day: 1 })
    }

    /// `dd-Mon-yyyy hh:mm:ss +zzzz` without its quotes; the day with two digits, a space for the
    /// first of them, or (seen from clients) one digit alone. A 60th second is taken as the 59th.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_prefix(b" ").unwrap_or(text);
        let dash = text.iter().position(|&b| b == b'-')?;
        if !(1..=2).contains(&dash) {
            return None;
        }
        let day = digits(&text[..dash])?;
        let &[ref month_year @ .., b' ', h1, h2, b':', m1, m2, b':', s1, s2, b' ', sign, z1, z2, z3, z4] =
            text.get(dash + 1..)?
        else {
            return None;
        };
        let date = Date::parse_month_year(day, month_year)?;
        let (hour, minute) = (digits(&[h1, h2])?, digits(&[m1, m2])?);
        let second = digits(&[s1, s2])?;
        let (zone_hour, zone_minute) = (digits(&[z1, z2])?, digits(&[z3, z4])?);
        if hour > 23 || minute > 59 || second > 60 || zone_minute > 59 {
            return None;
        }
        let offset = match sign {
            b'+' => (zone_hour * 60 + zone_minute) as i16,
            b'-' => -((zone_hour * 60 + zone_minute) as i16),
            _ => return None,
        };
        let local = date.unix_days() * DAY_SECONDS + i64::from(hour * 3600 + minute * 60 + second.min(59));
        Self::new(local - i64::from(offset) * 60, offset)
    }

    /// Appends `dd-Mon-yyyy hh:mm:ss +zzzz` in 26 bytes, without quotes.
    pub fn print(self, out: &mut Vec<u8>) {
        let local = self.unix_seconds + i64::from(self.offset_minutes) * 60;
        let second = local.rem_euclid(DAY_SECONDS) as u32;
        let date = self.date();
        // date-day-fixed: a space for the leading zero.
        out.push(if date.day < 10 { b' ' } else { b'0' + date.day / 10 });
        out.push(b'0' + date.day % 10);
        date.print_month_year(out);
        for (before, value) in [(b' ', second / 3600), (b':', second / 60 % 60), (b':', second % 60)] {
            out.push(before);
            two(out, value as u16);
        }
        out.extend_from_slice(if self.offset_minutes < 0 { b" -" } else { b" +" });
        let zone = self.offset_minutes.unsigned_abs();
        two(out, zone / 60);
        two(out, zone % 60);
    }
}

/// Two digits of a number below 100.
fn two(out: &mut Vec<u8>, n: u16) {
    out.push(b'0' + (n / 10 % 10) as u8);
    out.push(b'0' + (n % 10) as u8);
}

/// The number that up to nine digits write; `None` if anything is no digit.
fn digits(text: &[u8]) -> Option<u32> {
    let all = !text.is_empty() && text.len() <= 9 && text.iter().all(u8::is_ascii_digit);
    all.then(|| text.iter().fold(0, |n, &b| n * 10 + u32::from(b - b'0')))
}

fn show(print: impl FnOnce(&mut Vec<u8>), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = Vec::with_capacity(26);
    print(&mut text);
    f.write_str(std::str::from_utf8(&text).unwrap_or_default())
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(|out| self.print(out), f)
    }
}
impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(|out| self.print(out), f)
    }
}
impl fmt::Debug for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_days() {
        for (y, m, d, days) in [
            (1970, 1, 1, 0),
            (2000, 3, 1, 11_017),
            (1969, 12, 31, -1),
            (2024, 2, 29, 19_782),
            (0, 1, 1, -719_528),
        ] {
            let date = Date::new(y, m, d).unwrap();
            assert_eq!(date.unix_days(), days);
            assert_eq!(Date::from_unix_days(days), Some(date));
        }
        assert_eq!(Date::new(1900, 2, 29), None);
        assert_eq!(Date::new(2023, 4, 31), None);
        assert_eq!(Date::from_unix_days(i64::MAX), None);
    }

    #[test]
    fn known_moments() {
        let at = DateTime::parse(b"17-Jul-1996 02:44:25 -0700").unwrap();
        assert_eq!((at.unix_seconds(), at.offset_minutes()), (837_596_665, -420));
        assert_eq!(at.to_string(), "17-Jul-1996 02:44:25 -0700");
        assert_eq!(at.date(), Date::new(1996, 7, 17).unwrap());
        let at = DateTime::parse(b" 1-jan-2000 00:00:60 +0530").unwrap();
        assert_eq!(at.to_string(), " 1-Jan-2000 00:00:59 +0530");
        for bad in [
            "",
            "17-Jul-1996",
            "32-Jul-1996 02:44:25 -0700",
            "17-Jul-96 02:44:25 -0700",
            "17-Jux-1996 02:44:25 -0700",
            "17-Jul-1996 24:44:25 -0700",
            "17-Jul-1996 02:44:25 0700",
            "17-Jul-1996 02:44:25 -0760",
            "017-Jul-1996 02:44:25 -0700",
            "31-Dec-9999 23:59:59 -0700x",
        ] {
            assert_eq!(DateTime::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Date::parse(b"1-Feb-1994").unwrap().to_string(), "1-Feb-1994");
        assert_eq!(Date::parse(b"01-Feb-1994"), Date::new(1994, 2, 1));
        assert_eq!(Date::parse(b"001-Feb-1994"), None);
    }

    properties! {
        #[test]
        fn days_and_moments_come_back(days in -719_528i64..2_932_896, second in 0i64..86_400, zone in -5999i16..6000) {
            let date = Date::from_unix_days(days).unwrap();
            prop_assert_eq!(date.unix_days(), days);
            prop_assert_eq!(Date::parse(date.to_string().as_bytes()), Some(date));
            if let Some(at) = DateTime::new(days * DAY_SECONDS + second, zone) {
                prop_assert_eq!(DateTime::parse(at.to_string().as_bytes()), Some(at));
            }
        }
    }
}
