//! Points in time and their parts. RFC 5260 §4.2.

use posthaste_mime_summary::sent_date;

use crate::compiled::DatePart;

/// A point in time, and the zone in which it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub unix_s: i64,
    /// Minutes by which the zone is ahead of UTC.
    pub zone_minutes: i32,
}

/// The date in the value of a field. RFC 5260 §4: in fields like Received it follows the last
/// semicolon.
pub(crate) fn of_field(value: &str) -> Option<Moment> {
    let value = value.rsplit(';').next().unwrap_or(value);
    let unix_s = sent_date(value.as_bytes())?.unix_s;
    Some(Moment { unix_s, zone_minutes: written_zone(value) })
}

/// The zone of a date; UTC for names that RFC 5322 §4.3 does not know.
fn written_zone(value: &str) -> i32 {
    let without_comment = value.split('(').next().unwrap_or(value);
    let Some(word) = without_comment.split_ascii_whitespace().last() else { return 0 };
    if let Some(minutes) = zone_minutes(word) {
        return minutes;
    }
    match word.to_ascii_uppercase().as_str() {
        "EDT" => -4 * 60,
        "EST" | "CDT" => -5 * 60,
        "CST" | "MDT" => -6 * 60,
        "MST" | "PDT" => -7 * 60,
        "PST" => -8 * 60,
        _ => 0,
    }
}

/// `+hhmm` or `-hhmm` as minutes.
pub(crate) fn zone_minutes(text: &str) -> Option<i32> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: i32 = digits.parse().ok()?;
    (number % 100 < 60 && number / 100 < 24).then(|| sign * (number / 100 * 60 + number % 100))
}

const DAY_S: i64 = 86_400;
/// The Modified Julian Day of 1970-01-01.
const EPOCH_MJD: i64 = 40_587;

/// One part of a date, as text.
pub(crate) fn part(moment: Moment, part: DatePart) -> String {
    let local = moment.unix_s.saturating_add(i64::from(moment.zone_minutes) * 60);
    let (days, second) = (local.div_euclid(DAY_S), local.rem_euclid(DAY_S));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let weekday = (days + 4).rem_euclid(7);
    match part {
        DatePart::Year => format!("{year:04}"),
        DatePart::Month => format!("{month:02}"),
        DatePart::Day => format!("{day:02}"),
        DatePart::Date => format!("{year:04}-{month:02}-{day:02}"),
        DatePart::Julian => (days + EPOCH_MJD).to_string(),
        DatePart::Hour => format!("{hour:02}"),
        DatePart::Minute => format!("{minute:02}"),
        DatePart::Second => format!("{second:02}"),
        DatePart::Time => format!("{hour:02}:{minute:02}:{second:02}"),
        DatePart::Iso8601 => {
            let zone = moment.zone_minutes.abs();
            let sign = if moment.zone_minutes < 0 { '-' } else { '+' };
            format!(
                "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{sign}{:02}:{:02}",
                zone / 60,
                zone % 60
            )
        }
        DatePart::Std11 => {
            const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
            const MONTHS: [&str; 12] =
                ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
            let day_name = DAYS[weekday as usize];
            let month_name = MONTHS[month as usize - 1];
            let zone = zone_text(moment.zone_minutes);
            format!("{day_name}, {day:02} {month_name} {year:04} {hour:02}:{minute:02}:{second:02} {zone}")
        }
        DatePart::Zone => zone_text(moment.zone_minutes),
        DatePart::Weekday => weekday.to_string(),
    }
}

fn zone_text(minutes: i32) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60)
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Counted from 1 March of year 0, so that the leap day is the last of a year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_date() {
        let moment = of_field("by x; Tue, 29 Feb 2000 23:05:09 -0730 (odd)").unwrap();
        assert_eq!(moment.zone_minutes, -450);
        for (wanted, text) in [
            (DatePart::Year, "2000"),
            (DatePart::Month, "02"),
            (DatePart::Day, "29"),
            (DatePart::Date, "2000-02-29"),
            (DatePart::Julian, "51603"),
            (DatePart::Hour, "23"),
            (DatePart::Minute, "05"),
            (DatePart::Second, "09"),
            (DatePart::Time, "23:05:09"),
            (DatePart::Iso8601, "2000-02-29T23:05:09-07:30"),
            (DatePart::Std11, "Tue, 29 Feb 2000 23:05:09 -0730"),
            (DatePart::Zone, "-0730"),
            (DatePart::Weekday, "2"),
        ] {
            assert_eq!(part(moment, wanted), text, "{wanted:?}");
        }
        let moved = Moment { zone_minutes: 60, ..moment };
        assert_eq!(part(moved, DatePart::Iso8601), "2000-03-01T07:35:09+01:00");
        let before = Moment { unix_s: -1, zone_minutes: 0 };
        assert_eq!(part(before, DatePart::Std11), "Wed, 31 Dec 1969 23:59:59 +0000");
    }

    #[test]
    fn zones() {
        assert_eq!(["+0100", "-0530", "+0000"].map(zone_minutes), [Some(60), Some(-330), Some(0)]);
        assert_eq!(["0100", "+01", "+0160", "+2400", "", "ü0100"].map(zone_minutes), [None; 6]);
        assert_eq!(written_zone("1 Jan 2000 00:00:00 EST"), -300);
    }
}
