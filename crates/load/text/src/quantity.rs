//! Quantities as people write them: `4s`, `1m30s`, `75k`, `50/s`, `1-16`.

use std::time::Duration;

/// Seconds of the longest duration, ten years. Every clock can hold a time that far in the future.
const SECONDS_MAX: f64 = 10.0 * 365.0 * 86_400.0;

/// `250ms`, `4s`, `1m30s`, `8h`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; write for instance 250ms, 4s, 1m30s or 8h");
    let of = |seconds: f64| match seconds > SECONDS_MAX {
        true => Err(format!("`{text}` is longer than ten years")),
        false => Duration::try_from_secs_f64(seconds).map_err(|_| wrong()),
    };
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return of(seconds);
    }
    if text.is_empty() {
        return Err(wrong());
    }
    let (mut total, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let seconds = if unit == "ms" { 0.001 } else { seconds_of(unit).ok_or_else(wrong)? };
        total += number.parse::<f64>().map_err(|_| wrong())? * seconds;
        rest = tail;
    }
    of(total)
}

/// The seconds of a unit.
fn seconds_of(unit: &str) -> Option<f64> {
    match unit {
        "s" => Some(1.0),
        "m" | "min" => Some(60.0),
        "h" => Some(3600.0),
        "d" => Some(86_400.0),
        _ => None,
    }
}

/// A duration above zero, as a measurement has one.
pub fn length(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    match length.is_zero() {
        true => Err(format!("`{text}` is no time: write for instance 10s, 1m30s or 1h")),
        false => Ok(length),
    }
}

/// `50/s`, `3000/m`, `2/h`: per second.
pub fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a rate; write for instance 50/s or 3000/m");
    let (number, unit) = text.trim().split_once('/').ok_or_else(wrong)?;
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let per = seconds_of(unit.trim()).ok_or_else(wrong)?;
    if number > 0.0 && number.is_finite() { Ok(number / per) } else { Err(wrong()) }
}

/// `75000`, `75k`, `4M`, `1.5G` (powers of ten), `64KiB`, `2MiB`, `1GiB`: bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write for instance 75k, 4M or 64MiB");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => 1.0,
        "k" | "K" | "kB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.replace('_', "").parse().map_err(|_| wrong())?;
    Ok((number * factor).round() as u64)
}

/// Bytes for people: `75.0 kB`.
pub fn show_bytes(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", b / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.2} GB", b / 1e9),
    }
}

/// A duration for people: `1 h 05 min`, `2 min 03 s`, `4.0 s`.
pub fn show_duration(duration: Duration) -> String {
    let s = duration.as_secs();
    match s {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

/// A moment as seconds since 1970: `2026-11-27T22:40:00Z` (RFC 3339 §5.6, with Z or an offset), or
/// that number itself, as `date +%s` prints it.
pub fn moment(text: &str) -> Result<f64, String> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(f64::from(seconds));
    }
    rfc3339(text).ok_or_else(|| {
        format!(
            "`{text}` is not a time; write for instance 2026-11-27T22:40:00Z, as `date -u +%FT%TZ` prints it, or seconds \
             since 1970"
        )
    })
}

fn rfc3339(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let at = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(at);
    let offset_s = match zone {
        "Z" | "z" => 0,
        zone => {
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let seconds = i64::from(two_digits(hours)?) * 3600 + i64::from(two_digits(minutes)?) * 60;
            if zone.starts_with('-') { -seconds } else { seconds }
        }
    };
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let fraction: f64 =
        fraction.bytes().all(|b| b.is_ascii_digit()).then(|| format!("0.{fraction}"))?.parse().ok()?;
    let mut numbers = date.splitn(3, '-');
    let year: i32 = numbers.next().filter(|year| year.len() == 4)?.parse().ok()?;
    let month = time::Month::try_from(two_digits(numbers.next()?)?).ok()?;
    let day = time::Date::from_calendar_date(year, month, two_digits(numbers.next()?)?).ok()?;
    let mut numbers = whole.splitn(3, ':').map(two_digits);
    let (hour, minute, second) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let clock = time::Time::from_hms(hour, minute, second).ok()?;
    let local = time::PrimitiveDateTime::new(day, clock).assume_utc().unix_timestamp();
    Some((local - offset_s) as f64 + fraction)
}

fn two_digits(text: &str) -> Option<u8> {
    let digits = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// Seconds since 1970 as a time in UTC; beyond what a calendar holds, its beginning.
pub fn utc(unix: u64) -> time::OffsetDateTime {
    let at = i64::try_from(unix).ok().and_then(|unix| time::OffsetDateTime::from_unix_timestamp(unix).ok());
    at.unwrap_or(time::OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("4s"), Ok(Duration::from_secs(4)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "s", "4 parsecs", "-1s", "1s2", "inf"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration("3650d"), Ok(Duration::from_secs(3650 * 86_400)));
        // A clock might not hold a time that far in the future.
        for wrong in ["3651d", "1e18", "99999999999999999h"] {
            assert!(duration(wrong).unwrap_err().contains("ten years"), "{wrong}");
        }
        assert_eq!(length("100ms"), Ok(Duration::from_millis(100)));
        for wrong in ["0", "0ms", "0h0s", "soon"] {
            assert!(length(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments() {
        assert_eq!(moment("1795820400"), Ok(1_795_820_400.0));
        assert_eq!(moment("1970-01-02T00:00:01.5Z"), Ok(86_401.5));
        assert_eq!(moment("2026-11-27T23:00:00Z"), Ok(1_795_820_400.0));
        assert_eq!(moment("2026-11-28T01:00:00+02:00"), moment("2026-11-27 23:00:00z"));
        assert_eq!(moment("2026-11-27T15:30:00-07:30"), moment("2026-11-27T23:00:00Z"));
        for wrong in
            ["", "soon", "22:40", "2026-11-27T22:40:00", "2026-13-01T00:00:00Z", "2026-11-27T2:40:00Z"]
        {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
        assert!(moment("2026-11-27T25:00:00Z").is_err() && moment("-5").is_err());
    }

    #[test]
    fn rates_and_sizes() {
        assert_eq!(rate("3000/m"), Ok(50.0));
        assert!(rate("0/s").is_err() && rate("50").is_err());
        assert_eq!(bytes("75k"), Ok(75_000));
        assert_eq!(bytes("64MiB"), Ok(64 * 1024 * 1024));
        assert!(bytes("x").is_err() && bytes("4 yards").is_err());
    }
}
