//! Figures as a person reads them: three significant digits, thousands set apart, the unit in the
//! column's head.

/// A whole number with its thousands separated: `1,234,567`.
pub fn whole(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits, whole above a hundred: `0.00123`, `4.56`, `78.9`, `12,345`.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    let sign = if value < 0.0 { "−" } else { "" };
    match size {
        _ if !value.is_finite() => "–".into(),
        0.0 => "0".into(),
        _ if !(1e-9..1e15).contains(&size) => format!("{value:.2e}"),
        _ if size >= 99.95 => format!("{sign}{}", whole(size.round() as u64)),
        _ => {
            // How many decimals leave three digits; rounding may carry into one more.
            let decimals = (2.0 - (size * 1.0005).log10().floor()).clamp(0.0, 12.0) as usize;
            format!("{sign}{size:.decimals$}")
        }
    }
}

/// Bytes by thousands: `1.50 GB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{} {}", figure(value), UNITS[unit]) }
}

/// A share of one as a percentage: `12.3 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "–".into() }
}

/// The ratio of a value to the first: `0.52 ×`.
pub fn ratio(value: f64, first: f64) -> Option<String> {
    (first != 0.0 && first.is_finite() && value.is_finite()).then(|| format!("{} ×", figure(value / first)))
}

/// Seconds since 1970 as a date and time: `2026-11-21 22:09:04 UTC`.
pub fn date(unix: u64) -> String {
    let at = crate::quantity::utc(unix);
    let (hour, minute, second) = at.to_hms();
    format!("{} {hour:02}:{minute:02}:{second:02} UTC", at.date())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let cases = [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (0.9996, "1.00"),
            (4.567, "4.57"),
            (9.999, "10.0"),
            (78.94, "78.9"),
            (99.96, "100"),
            (12_345.4, "12,345"),
            (-3.0, "−3.00"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
            (3e-12, "3.00e-12"),
        ];
        for (value, text) in cases {
            assert_eq!(figure(value), text, "{value}");
        }
        assert_eq!((whole(0), whole(999), whole(1_000_000)), ("0".into(), "999".into(), "1,000,000".into()));
    }

    #[test]
    fn units() {
        assert_eq!(
            (bytes(999), bytes(1500), bytes(999_600)),
            ("999 B".into(), "1.50 kB".into(), "1.00 MB".into())
        );
        assert_eq!(bytes(u64::MAX), "18,447 PB");
        assert_eq!(ratio(1.0, 2.0).unwrap(), "0.500 ×");
        assert_eq!(ratio(1.0, 0.0), None);
    }

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_298_944), "2026-11-21 22:09:04 UTC");
    }
}
