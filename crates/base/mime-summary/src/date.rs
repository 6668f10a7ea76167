//! The Date field as points in time.

use mail_parser::DateTime;

use crate::header::skip_cfws;
use crate::in_bounds::InBounds;
use crate::scan::is_space;

/// When a message says it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentDate {
    /// Seconds since 1970-01-01T00:00:00Z: what SORT DATE compares (RFC 5256 §2.2).
    pub unix_s: i64,
    /// Days since 1970-01-01 of the date as written, time and zone disregarded: what SENTBEFORE,
    /// SENTON and SENTSINCE compare (RFC 9051 §6.4.4).
    pub local_day: i32,
}

/// Longest value that is looked at; a date has some 40 bytes, comments may follow.
const DATE_MAX: usize = 200;

const MONTHS: [&[u8; 3]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];

/// Reads the value of a Date field; none if it is no date. RFC 5322 §3.3, with the obsolete forms
/// of §4.3: seconds may be missing, years may have two digits, zones may have names. A date
/// without a zone is one of UTC, one without a time that of midnight (RFC 5256 §2.2). The order of
/// day, month, year and time does not matter, because programs also write that of C's `asctime`.
pub fn sent_date(value: &[u8]) -> Option<SentDate> {
    let value = value.get(..DATE_MAX).unwrap_or(value);
    let mut date = DateTime {
        year: 0,
        month: 0,
        day: 0,
        hour: 0,
        minute: 0,
        second: 0,
        tz_before_gmt: false,
        tz_hour: 0,
        tz_minute: 0,
    };
    let (mut has_year, mut has_time, mut has_zone) = (false, false, false);
    let mut at = skip_cfws(value, 0);
    while at < value.len() {
        let rest = value.in_bounds(at..);
        let len =
            rest.iter().position(|&b| is_space(b) || matches!(b, b',' | b'(' | 0)).unwrap_or(rest.len());
        let word = rest.in_bounds(..len);
        if let Some((time, end)) = time_at(value, at).filter(|_| !has_time) {
            (date.hour, date.minute, date.second) = valid(time).unwrap_or_default();
            has_time = true;
            at = skip_cfws(value, end);
            continue;
        }
        if word.contains(&b':') && !has_time {
            has_time = true;
        } else if has_time && !has_zone && zone(word, &mut date) {
            has_zone = true;
        } else if let Some(number) = number(word) {
            match (date.day, has_year) {
                (0, _) if word.len() <= 2 => date.day = u8::try_from(number).ok()?,
                (_, false) => {
                    date.year = year(number, word.len())?;
                    has_year = true;
                }
                // A second number of that kind is no part of a date.
                _ if !has_time => return None,
                _ => {}
            }
        } else if date.month == 0 {
            date.month = month(word).unwrap_or(0);
        }
        // A comma separates like white space.
        at = skip_cfws(value, at + len.max(1));
    }
    // A leap second is the second after.
    date.second = date.second.min(59);
    if date.day == 0 || date.month == 0 || !has_year || !date.is_valid() {
        return None;
    }
    let local_day = i32::try_from(date.to_timestamp_local().div_euclid(86_400)).ok()?;
    Some(SentDate { unix_s: date.to_timestamp(), local_day })
}

fn number(word: &[u8]) -> Option<u32> {
    let is_number = (1..=5).contains(&word.len()) && word.iter().all(u8::is_ascii_digit);
    is_number.then(|| word.iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0')))
}

/// RFC 5322 §4.3: two digits up to 49 are of this century, other short years count from 1900.
fn year(number: u32, digits: usize) -> Option<u16> {
    let year = match (digits, number) {
        (..=2, ..50) => 2000 + number,
        (..=3, _) => 1900 + number,
        _ => number,
    };
    u16::try_from(year).ok()
}

fn month(word: &[u8]) -> Option<u8> {
    let begin: [u8; 3] = word.get(..3)?.to_ascii_lowercase().try_into().ok()?;
    MONTHS.iter().position(|month| **month == begin).and_then(|at| u8::try_from(at + 1).ok())
}

/// `hour ":" minute [ ":" second ]`, with comments and blanks around each number (RFC 5322 §4.3).
/// The numbers, and where the time ends.
fn time_at(value: &[u8], at: usize) -> Option<([u32; 3], usize)> {
    let digits = |at: usize| {
        let rest = value.in_bounds(at..);
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        number(rest.in_bounds(..len)).map(|number| (number, at + len))
    };
    let behind_colon = |at: usize| {
        let at = skip_cfws(value, at);
        (value.get(at) == Some(&b':')).then(|| skip_cfws(value, at + 1))
    };
    let (hour, end) = digits(at)?;
    let (minute, end) = digits(behind_colon(end)?)?;
    let (second, end) = behind_colon(end).map_or(Some((0, end)), digits)?;
    let is_end = value.get(end).is_none_or(|&byte| is_space(byte) || matches!(byte, b',' | b'(' | 0));
    is_end.then_some(([hour, minute, second], end))
}

/// Hour, minute and second. RFC 5256 §2.2: a time that is not valid "SHOULD be treated as
/// 00:00:00".
fn valid([hour, minute, second]: [u32; 3]) -> Option<(u8, u8, u8)> {
    (hour < 24 && minute < 60 && second <= 60).then_some((hour as u8, minute as u8, second as u8))
}

/// `( "+" / "-" ) 4DIGIT`, or a name of RFC 5322 §4.3. Whether the word is a zone; unknown names
/// are UTC, as the RFC says.
fn zone(word: &[u8], date: &mut DateTime) -> bool {
    let (sign, digits) = match word {
        [sign @ (b'+' | b'-'), digits @ ..] => (*sign, digits),
        _ if !word.is_empty() && word.iter().all(u8::is_ascii_alphabetic) && month(word).is_none() => {
            let hours = match word.to_ascii_uppercase().as_slice() {
                b"EDT" => 4,
                b"EST" | b"CDT" => 5,
                b"CST" | b"MDT" => 6,
                b"MST" | b"PDT" => 7,
                b"PST" => 8,
                _ => 0,
            };
            (date.tz_before_gmt, date.tz_hour) = (hours > 0, hours);
            return true;
        }
        _ => return false,
    };
    let Some(offset) = number(digits).filter(|_| digits.len() == 4) else { return false };
    date.tz_before_gmt = sign == b'-';
    (date.tz_hour, date.tz_minute) = ((offset / 100) as u8, (offset % 100) as u8);
    true
}

#[cfg(test)]
mod tests {
    use super::sent_date;

    #[test]
    fn known_answers() {
        for (value, unix_s, local_day) in [
            ("Thu, 01 Jan 1970 00:00:00 +0000", 0, 0),
            ("Fri, 2 Jan 1970 01:00:00 +0200\r\n", 82_800, 1),
            (" Thu, 1 Jan 1970 23:30:00 -0100 (comment)\r\n", 88_200, 0),
            ("21 Nov 97 09:55:06 GMT", 880_106_106, 10_186),
            ("20 Dec 1995 19:59 GMT", 819_489_540, 9_484),
            ("Wed, 20 Dec 1995 19:59:10", 819_489_550, 9_484),
            ("20 Dec 95 19:59 PST", 819_518_340, 9_484),
            ("Wed Dec 20 1995 19:59:10 -0800", 819_518_350, 9_484),
            ("Wed, 20 Dec 1995 19:59:10 (a (nested) comment) UT", 819_489_550, 9_484),
            ("Wed, 20 Dec 1995 19:59:10 CEST", 819_489_550, 9_484),
            ("Wed Dec 20 19:59:10 1995", 819_489_550, 9_484),
            ("Wed, 20 Dec 1995", 819_417_600, 9_484),
            ("Wed, 20 Dec 1995 25:61 -0100", 819_421_200, 9_484),
            ("Sat, 30 Dec 2016 23:59:60\r\n +0000", 1_483_142_399, 17_165),
            // RFC 5322 App. A.6.3
            ("Fri, 21 Nov 1997 09(comment):   55  :  06 -0600", 880_127_706, 10_186),
            ("20 Dec 1995 19 :59:00 GMT", 819_489_540, 9_484),
            ("20 Dec 1995 19(c):59:10(d)", 819_489_550, 9_484),
            ("20 Dec 1995 19:59: GMT", 819_417_600, 9_484),
            ("20 Dec 1995 19:59:10:11 GMT", 819_417_600, 9_484),
        ] {
            let date = sent_date(value.as_bytes()).unwrap();
            assert_eq!((date.unix_s, date.local_day), (unix_s, local_day), "{value}");
        }
        for value in ["", "yesterday", "99 Foo 2020 10:00:00 +0000", "31 Dec 65535 99:00:00"] {
            assert_eq!(sent_date(value.as_bytes()), None, "{value}");
        }
    }
}
