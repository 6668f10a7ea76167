//! The Date field as points in time.

use mail_parser::DateTime;

use crate::header::skip_cfws;
use crate::in_bounds::InBounds;
use crate::scan::is_space;

/// The time in a message's Date field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentDate {
    /// Seconds since 1970-01-01T00:00:00Z, for SORT DATE (RFC 5256 §2.2).
    pub unix_s: i64,
    /// Days since 1970-01-01 of the date as written, time and zone disregarded: what SENTBEFORE,
    /// SENTON and SENTSINCE compare (RFC 9051 §6.4.4).
    pub local_day: i32,
}

/// Longest value that is looked at; a date has some 40 bytes, comments may follow.
const DATE_MAX: usize = 200;

const MONTHS: [&[u8; 3]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];

/// Reads the value of a Date field; `None` if it is not a date. The forms are those of RFC 5322
/// §3.3 and the obsolete ones of §4.3. There, seconds may be missing, years may have two digits,
/// and zones may have names. Without a zone the date is in UTC. Without a time it is at midnight
/// (RFC 5256 §2.2).
/// Day, month, year and time may be in any order, because programs also write C's `asctime`.
pub fn sent_date(value: &[u8]) -> Option<SentDate> {
    let value = value.get(..DATE_MAX).unwrap_or(value);
    let (mut year, mut month, mut day) = (None, None, None);
    let (mut time, mut offset) = (None, None);
    // A name with a comma after it, before the day, may be a weekday: `Mar,` is one in French.
    let mut is_doubtful = false;
    let mut at = skip_cfws(value, 0);
    while at < value.len() {
        let rest = value.in_bounds(at..);
        let len =
            rest.iter().position(|&b| is_space(b) || matches!(b, b',' | b'(' | 0)).unwrap_or(rest.len());
        let word = rest.in_bounds(..len);
        if let Some((found, end)) = time_at(value, at).filter(|_| time.is_none()) {
            time = Some(valid(found).unwrap_or_default());
            at = skip_cfws(value, end);
            continue;
        }
        if word.contains(&b':') && time.is_none() {
            time = Some((0, 0, 0));
        } else if let Some(zone) = zone_s(word).filter(|_| time.is_some() && offset.is_none()) {
            offset = Some(zone);
        } else if let Some(number) = number(word) {
            match (day, year) {
                (None, _) if word.len() <= 2 => day = u8::try_from(number).ok(),
                (_, None) => year = Some(year_of(number, word.len())?),
                // A second number of that kind is no part of a date.
                _ if time.is_none() => return None,
                _ => {}
            }
        } else if let Some(named) = month_of(word).filter(|_| month.is_none() || is_doubtful) {
            month = Some(named);
            is_doubtful = day.is_none() && rest.get(len) == Some(&b',');
        }
        // A comma separates like white space.
        at = skip_cfws(value, at + len.max(1));
    }
    let (hour, minute, second) = time.unwrap_or_default();
    let date = DateTime {
        year: year?,
        month: month?,
        day: day.filter(|&day| day > 0)?,
        hour,
        minute,
        // A leap second is the second after.
        second: second.min(59),
        tz_before_gmt: false,
        tz_hour: 0,
        tz_minute: 0,
    };
    if !date.is_valid() {
        return None;
    }
    let local_s = date.to_timestamp_local();
    let local_day = i32::try_from(local_s.div_euclid(86_400)).ok()?;
    Some(SentDate { unix_s: local_s - offset.unwrap_or(0), local_day })
}

fn number(word: &[u8]) -> Option<u32> {
    let is_number = (1..=5).contains(&word.len()) && word.iter().all(u8::is_ascii_digit);
    is_number.then(|| word.iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0')))
}

/// RFC 5322 §4.3: two digits up to 49 are of this century, other short years count from 1900.
fn year_of(number: u32, digits: usize) -> Option<u16> {
    let year = match (digits, number) {
        (..=2, ..50) => 2000 + number,
        (..=3, _) => 1900 + number,
        _ => number,
    };
    u16::try_from(year).ok()
}

fn month_of(word: &[u8]) -> Option<u8> {
    let begin: [u8; 3] = word.get(..3)?.to_ascii_lowercase().try_into().ok()?;
    MONTHS.iter().position(|month| **month == begin).and_then(|at| u8::try_from(at + 1).ok())
}

/// `hour ":" minute [ ":" second ]`, with comments and blanks around each number (RFC 5322 §4.3).
/// Programs also write one digit for two, points for colons, and fractions of a second, which do
/// not count. The numbers, and where the time ends: a zone may follow at once.
fn time_at(value: &[u8], at: usize) -> Option<([u32; 3], usize)> {
    let digits = |at: usize| {
        let rest = value.in_bounds(at..);
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        number(rest.in_bounds(..len)).map(|number| (number, at + len))
    };
    let behind_sign = |end: usize| {
        let at = skip_cfws(value, end);
        match value.get(at) {
            Some(b':') => Some(skip_cfws(value, at + 1)),
            Some(b'.') if at == end => Some(at + 1),
            _ => None,
        }
    };
    let (hour, end) = digits(at)?;
    let (minute, end) = digits(behind_sign(end)?)?;
    let (second, end) = behind_sign(end).map_or(Some((0, end)), digits)?;
    let fraction = value.get(end).filter(|&&byte| byte == b'.').and_then(|_| digits(end + 1));
    let end = fraction.map_or(end, |(_, end)| end);
    let is_end = |byte: u8| {
        is_space(byte) || byte.is_ascii_alphabetic() || matches!(byte, b',' | b'(' | b'+' | b'-' | 0)
    };
    value.get(end).is_none_or(|&byte| is_end(byte)).then_some(([hour, minute, second], end))
}

/// Hour, minute and second. RFC 5256 §2.2: a time that is not valid "SHOULD be treated as
/// 00:00:00".
fn valid([hour, minute, second]: [u32; 3]) -> Option<(u8, u8, u8)> {
    (hour < 24 && minute < 60 && second <= 60).then_some((hour as u8, minute as u8, second as u8))
}

/// Seconds by which a zone is before UTC: `( "+" / "-" ) 4DIGIT`, or a name of RFC 5322 §4.3.
/// Other names mean UTC by the RFC. Programs also write `+01:00` and `GMT+0100`.
fn zone_s(word: &[u8]) -> Option<i64> {
    let name_len = word.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let (name, rest) = word.split_at_checked(name_len)?;
    let name = name.to_ascii_uppercase();
    match rest {
        [] if !name.is_empty() && month_of(&name).is_none() => Some(-3600 * hours_behind(&name)),
        [sign @ (b'+' | b'-'), digits @ ..] if matches!(name.as_slice(), b"" | b"GMT" | b"UTC" | b"UT") => {
            let offset = offset_s(digits)?;
            Some(if *sign == b'-' { -offset } else { offset })
        }
        _ => None,
    }
}

/// The hours that a named zone is behind UTC.
fn hours_behind(name: &[u8]) -> i64 {
    match name {
        b"EDT" => 4,
        b"EST" | b"CDT" => 5,
        b"CST" | b"MDT" => 6,
        b"MST" | b"PDT" => 7,
        b"PST" => 8,
        _ => 0,
    }
}

/// Seconds of `hhmm` or `hh:mm`. The minutes are 59 at most (RFC 5322 §3.3). A date whose zone is
/// not valid is one of UTC (RFC 5256 §2.2).
fn offset_s(digits: &[u8]) -> Option<i64> {
    let (hours, minutes) = match digits {
        [h1, h2, b':', m1, m2] | [h1, h2, m1, m2] => (number(&[*h1, *h2])?, number(&[*m1, *m2])?),
        _ => return None,
    };
    Some(if minutes < 60 { i64::from(hours * 3600 + minutes * 60) } else { 0 })
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
            // One digit for two; points; fractions; a zone without a blank before it.
            ("5 Jan 1999 1:2:3 +0100", 915_494_523, 10_596),
            ("Tue, 5 Jan 1999 01.02.03 +0100", 915_494_523, 10_596),
            ("Tue, 5 Jan 1999 01:02:03.456 +0100", 915_494_523, 10_596),
            ("Tue, 5 Jan 1999 01:02:03+0100", 915_494_523, 10_596),
            ("Tue, 5 Jan 1999 01:02-0100 (x)", 915_501_720, 10_596),
            ("Tue, 5 Jan 1999 01:02:03GMT", 915_498_123, 10_596),
            // As JavaScript and ISO 8601 write a zone.
            ("Tue Jan 5 1999 01:02:03 GMT+0100 (CET)", 915_494_523, 10_596),
            ("Tue, 5 Jan 1999 01:02:03 utc-01:00", 915_501_723, 10_596),
            ("Tue, 5 Jan 1999 01:02:03 +01:00", 915_494_523, 10_596),
            // RFC 5322 §3.3: from -9959 to +9959. Others are no zone, and the date is one of UTC.
            ("Tue, 5 Jan 1999 01:02:03 -2400", 915_584_523, 10_596),
            ("Tue, 5 Jan 1999 01:02:03 +9959", 915_138_183, 10_596),
            ("Tue, 5 Jan 1999 01:02:03 +0160", 915_498_123, 10_596),
            ("Tue, 5 Jan 1999 01:02:03 +9999", 915_498_123, 10_596),
            ("Tue, 5 Jan 1999 01:02:03 --0100", 915_498_123, 10_596),
            ("Tue, 5 Jan 1999 01:02:03 EST5EDT", 915_498_123, 10_596),
            // A Tuesday in French.
            ("Mar, 5 Jan 1999 01:02:03 +0100", 915_494_523, 10_596),
            ("Mar, 5 1999 01:02:03 +0100", 920_592_123, 10_655),
            ("Mar 5, 1999 01:02:03 +0100", 920_592_123, 10_655),
        ] {
            let date = sent_date(value.as_bytes()).unwrap();
            assert_eq!((date.unix_s, date.local_day), (unix_s, local_day), "{value}");
        }
        for value in [
            "",
            "yesterday",
            "99 Foo 2020 10:00:00 +0000",
            "31 Dec 65535 99:00:00",
            "0 Jan 1999 10:00:00 +0000",
        ] {
            assert_eq!(sent_date(value.as_bytes()), None, "{value}");
        }
    }
}
