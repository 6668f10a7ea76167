//! The time of day in unix seconds, as records have it.
//!
//! Records keep signed seconds, as calendars do. Seconds that do not fit (after the year 10^11)
//! become the largest number.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time now. Zero if the clock is before 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time now, signed.
pub fn now_signed() -> i64 {
    signed(now())
}

/// A time as a signed number.
pub fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// The whole seconds of a duration.
pub fn seconds(duration: Duration) -> i64 {
    signed(duration.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_that_do_not_fit_are_the_largest_number() {
        assert_eq!(signed(5), 5);
        assert_eq!(signed(u64::MAX), i64::MAX);
        assert_eq!(seconds(Duration::from_millis(2999)), 2);
        assert_eq!(seconds(Duration::MAX), i64::MAX);
        assert!(now_signed() > 1_700_000_000);
    }
}
