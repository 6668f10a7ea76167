//! The time at the beginning of a line: `2026-11-30T19:52:48.095336Z`, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

/// The form of a time, with the space after it.
const FORM: &[u8; 28] = b"0000-00-00T00:00:00.000000Z ";
/// The place of the microseconds in it.
const MICROSECONDS: std::ops::Range<usize> = 20..26;

/// The time of the last line. Most lines share the second with the line before.
pub(crate) struct Stamp {
    /// Since the beginning of 1970.
    second: u64,
    text: [u8; FORM.len()],
}

impl Stamp {
    /// Of no line yet.
    pub(crate) const fn new() -> Self {
        Self { second: u64::MAX, text: *FORM }
    }

    /// A time as text, with a space after it. `None` before 1970 and after 9999.
    pub(crate) fn of(&mut self, at: SystemTime) -> Option<&[u8]> {
        let since = at.duration_since(UNIX_EPOCH).ok()?;
        if since.as_secs() != self.second {
            self.set_second(since.as_secs())?;
        }
        digits(&mut self.text[MICROSECONDS], since.subsec_micros());
        Some(&self.text)
    }

    fn set_second(&mut self, second: u64) -> Option<()> {
        let at = OffsetDateTime::from_unix_timestamp(i64::try_from(second).ok()?).ok()?;
        let year = u32::try_from(at.year()).ok().filter(|year| *year <= 9999)?;
        digits(&mut self.text[0..4], year);
        let (month, day) = (u8::from(at.month()), at.day());
        for (place, number) in [(5, month), (8, day), (11, at.hour()), (14, at.minute()), (17, at.second())] {
            digits(&mut self.text[place..place + 2], u32::from(number));
        }
        self.second = second;
        Some(())
    }
}

/// Fills a place with the last digits of a number.
fn digits(place: &mut [u8], mut number: u32) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_in_utc_with_microseconds() {
        let mut stamp = Stamp::new();
        for (second, nanoseconds, shown) in [
            (0, 0, "1970-01-01T00:00:00.000000Z "),
            (951_782_400, 1_999, "2000-02-29T00:00:00.000001Z "),
            (1_000_000_000, 123_456_789, "2001-09-09T01:46:40.123456Z "),
            (1_000_000_000, 999_999_999, "2001-09-09T01:46:40.999999Z "),
            (253_402_300_799, 5_000, "9999-12-31T23:59:59.000005Z "),
            (i32::MAX as u64, 0, "2038-01-19T03:14:07.000000Z "),
        ] {
            let at = UNIX_EPOCH + Duration::new(second, nanoseconds);
            assert_eq!(stamp.of(at), Some(shown.as_bytes()), "{shown}");
        }
    }

    #[test]
    fn a_year_without_four_digits_has_no_stamp() {
        let mut stamp = Stamp::new();
        assert_eq!(stamp.of(UNIX_EPOCH + Duration::from_secs(253_402_300_800)), None);
        assert_eq!(stamp.of(UNIX_EPOCH - Duration::from_secs(1)), None);
        assert!(stamp.of(UNIX_EPOCH).is_some_and(|text| text.starts_with(b"1970-")));
    }
}
