//! The Date field as points in time.

use mail_parser::{HeaderValue, parsers::MessageStream};

use crate::scan::trim;

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

/// Reads the value of a Date field; none if it is no date. RFC 5322 §3.3, §4.3.
pub fn sent_date(value: &[u8]) -> Option<SentDate> {
    let value = trim(value);
    let value = value.get(..DATE_MAX).unwrap_or(value);
    let mut line = Vec::with_capacity(value.len() + 1);
    line.extend(value.iter().map(|&b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }));
    line.push(b'\n');
    let HeaderValue::DateTime(mut date) = MessageStream::new(&line).parse_date() else { return None };
    // A leap second is the second after.
    date.second = date.second.min(59);
    if !date.is_valid() {
        return None;
    }
    let local_day = i32::try_from(date.to_timestamp_local().div_euclid(86_400)).ok()?;
    Some(SentDate { unix_s: date.to_timestamp(), local_day })
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
            ("Sat, 30 Dec 2016 23:59:60\r\n +0000", 1_483_142_399, 17_165),
        ] {
            let date = sent_date(value.as_bytes()).unwrap();
            assert_eq!((date.unix_s, date.local_day), (unix_s, local_day), "{value}");
        }
        for value in ["", "yesterday", "99 Foo 2020 10:00:00 +0000", "31 Dec 65535 99:00:00"] {
            assert_eq!(sent_date(value.as_bytes()), None, "{value}");
        }
    }
}
