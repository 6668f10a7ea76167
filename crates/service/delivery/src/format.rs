//! The format of mailbox files: dates, line ends and quoting, the same for import and export.
//!
//! Files of mail end their lines with LF; messages in the store, as on the wire, with CRLF. Import
//! converts LF to CRLF and export converts it back, so that exported mail imports as the same
//! messages.

use memchr::{memchr, memchr_iter};
use posthaste_mime_summary::sent_date;
use time::{Date, Month, OffsetDateTime, Time, UtcOffset};

/// `Tue Nov 14 22:13:20 2023`: the date of an mbox `From ` line, in UTC.
pub(crate) fn from_line_date(unix_s: i64) -> String {
    let at = moment(unix_s);
    format!(
        "{} {} {:>2} {:02}:{:02}:{:02} {}",
        three(&at.weekday().to_string()),
        three(&at.month().to_string()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.year()
    )
}

fn moment(unix_s: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(unix_s).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Three letters suffice to distinguish English names of days and months.
fn three(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

/// The date of a `From ` line, in unix seconds: `Www Mmm dd hh:mm[:ss] [zone] yyyy [+zzzz]` after
/// any sender. A zone by name means UTC, and so does a missing zone: only programs of long ago
/// wrote them.
pub(crate) fn parse_from_line(line: &[u8]) -> Option<u32> {
    let line = std::str::from_utf8(line).ok()?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let clock = words.iter().position(|word| parse_clock(word).is_some())?;
    let time = parse_clock(words.get(clock)?)?;
    let day: u8 = words.get(clock.checked_sub(1)?)?.parse().ok()?;
    let month = parse_month(words.get(clock.checked_sub(2)?)?)?;
    let after = words.get(clock + 1..)?;
    let year = after.iter().find_map(|word| match word.len() {
        4 if word.bytes().all(|b| b.is_ascii_digit()) => word.parse::<i32>().ok(),
        _ => None,
    })?;
    let offset = after.iter().find_map(|word| parse_offset(word)).unwrap_or(UtcOffset::UTC);
    let at = Date::from_calendar_date(year, month, day).ok()?.with_time(time).assume_offset(offset);
    u32::try_from(at.unix_timestamp()).ok()
}

fn parse_clock(word: &str) -> Option<Time> {
    let mut fields = word.split(':');
    let mut field =
        || fields.next().filter(|f| (1..=2).contains(&f.len())).and_then(|f| f.parse::<u8>().ok());
    let (hour, minute, second) = (field()?, field()?, field().unwrap_or(0));
    Time::from_hms(hour, minute, second.min(59)).ok()
}

fn parse_month(word: &str) -> Option<Month> {
    let months = "janfebmaraprmayjunjulaugsepoctnovdec";
    let at = months.find(&word.to_ascii_lowercase()).filter(|at| word.len() == 3 && at % 3 == 0)?;
    Month::try_from(u8::try_from(at / 3 + 1).ok()?).ok()
}

fn parse_offset(word: &str) -> Option<UtcOffset> {
    let (sign, digits) = match word.as_bytes().first()? {
        b'+' => (1, word.get(1..)?),
        b'-' => (-1, word.get(1..)?),
        _ => return None,
    };
    let value: i8 = digits.get(..2)?.parse().ok()?;
    let minutes: i8 = digits.get(2..4).filter(|_| digits.len() == 4)?.parse().ok()?;
    UtcOffset::from_hms(sign * value, sign * minutes, 0).ok()
}

/// A message of a file as it is on the wire: each LF without a CR before it gets one.
pub(crate) fn to_crlf(message: Vec<u8>) -> Vec<u8> {
    let bare = |at: usize| at == 0 || message.get(at - 1) != Some(&b'\r');
    let count = memchr_iter(b'\n', &message).filter(|&at| bare(at)).count();
    if count == 0 {
        return message;
    }
    let mut out = Vec::with_capacity(message.len() + count);
    let mut from = 0;
    for at in memchr_iter(b'\n', &message) {
        if bare(at) {
            out.extend_from_slice(&message[from..at]);
            out.extend_from_slice(b"\r\n");
        } else {
            out.extend_from_slice(&message[from..=at]);
        }
        from = at + 1;
    }
    out.extend_from_slice(&message[from..]);
    out
}

/// A line of a message as it is in a file: LF for CRLF.
pub(crate) fn to_lf(line: &[u8]) -> (&[u8], bool) {
    match line.strip_suffix(b"\n") {
        Some(line) => (line.strip_suffix(b"\r").unwrap_or(line), true),
        None => (line, false),
    }
}

/// Lines with their ends.
pub(crate) fn lines(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let end = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
        let (line, rest) = bytes.split_at(end);
        bytes = rest;
        Some(line)
    })
}

/// A line that mboxrd quotes: any number of `>` and then `From `.
pub(crate) fn is_quotable(line: &[u8]) -> bool {
    let quotes = line.iter().take_while(|&&b| b == b'>').count();
    line.get(quotes..).is_some_and(|rest| rest.starts_with(b"From "))
}

/// The Date field of a message, if it can be an internal date.
pub(crate) fn date_field(message: &[u8]) -> Option<u32> {
    let header = lines(message).take_while(|line| !line.trim_ascii_end().is_empty());
    for line in header {
        if line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"date:")) {
            return sent_date(line.get(5..)?).and_then(|date| u32::try_from(date.unix_s).ok());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_lines_of_many_programs() {
        let at = 1_700_000_000;
        for line in [
            "From ben@example.net Tue Nov 14 22:13:20 2023",
            "From \"a b\"@example.net  Tue Nov 14 22:13:20 2023",
            "From - Tue Nov 14 22:13:20 2023",
            "From ben@example.net Tue Nov 14 23:13:20 2023 +0100",
            "From ben Tue Nov 14 22:13:20 UTC 2023",
            "From ben Tue nov 14 17:13:20 -0500 2023",
        ] {
            assert_eq!(parse_from_line(line.as_bytes()), Some(at), "{line}");
        }
        assert_eq!(parse_from_line(b"From ben Tue Nov 14 22:13 2023\r\n"), Some(at - 20));
        for line in ["From here on it rains", "From 10:30 on", "From", "", "From x Feb 30 10:00 2020"] {
            assert_eq!(parse_from_line(line.as_bytes()), None, "{line}");
        }
        assert_eq!(from_line_date(i64::from(at)), "Tue Nov 14 22:13:20 2023");
        assert_eq!(from_line_date(0), "Thu Jan  1 00:00:00 1970");
    }

    #[test]
    fn line_ends() {
        for (file, wire) in [
            ("a\nb\n", "a\r\nb\r\n"),
            ("a\r\nb\n", "a\r\nb\r\n"),
            ("a\r\nb\r\n", "a\r\nb\r\n"),
            ("\n\n", "\r\n\r\n"),
            ("a\rb", "a\rb"),
            ("", ""),
        ] {
            assert_eq!(to_crlf(file.into()), wire.as_bytes(), "{file:?}");
        }
        assert_eq!(lines(b"a\n\nb").collect::<Vec<_>>(), [&b"a\n"[..], b"\n", b"b"]);
        assert!(is_quotable(b"From x") && is_quotable(b">>From x") && !is_quotable(b">From: x"));
    }
}
