//! `date-time` of RFC 5322 §3.3.

use time::OffsetDateTime;

/// A time as a header field has it, in UTC: `Sun, 09 Sep 2001 01:46:40 +0000`.
pub fn date_time(unix_s: i64) -> String {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let at = OffsetDateTime::from_unix_timestamp(unix_s).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} +0000",
        DAYS[usize::from(at.weekday().number_days_from_monday())],
        at.day(),
        MONTHS[usize::from(u8::from(at.month()) - 1)],
        at.year(),
        at.hour(),
        at.minute(),
        at.second(),
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn known_date() {
        assert_eq!(super::date_time(1_000_000_000), "Sun, 09 Sep 2001 01:46:40 +0000");
    }
}
