//! A rate as a leaky bucket. An account that was idle may use the limit of one period at once, and
//! afterwards as much as drains.
//!
//! A bucket is one number: the time at which it is empty (the generic cell rate algorithm, ITU-T
//! I.371). So it needs no timer and no list of past events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A limit for a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The largest number; 0 for no limit.
    pub count: u64,
    /// Nanoseconds.
    pub period: u64,
}

pub(super) const MINUTE: u64 = 60 * 1_000_000_000;
/// An hour in nanoseconds.
pub const HOUR: u64 = 60 * MINUTE;
pub(super) const DAY: u64 = 24 * HOUR;

impl Rate {
    /// Nanoseconds in which this amount drains.
    fn cost(self, amount: u64) -> u64 {
        let cost = u128::from(amount) * u128::from(self.period) / u128::from(self.count.max(1));
        u64::try_from(cost).unwrap_or(u64::MAX)
    }

    /// The bucket `empty_at` with `amount` more in it, at the time `now`.
    pub fn pour(self, empty_at: u64, amount: u64, now: u64) -> u64 {
        if self.count == 0 { empty_at } else { empty_at.max(now).saturating_add(self.cost(amount)) }
    }

    /// How long until the bucket is below its limit; `None` if it is now.
    pub fn wait(self, empty_at: u64, now: u64) -> Option<Duration> {
        let over = empty_at.saturating_sub(now.saturating_add(self.period));
        (self.count > 0 && over > 0).then(|| Duration::from_nanos(over))
    }

    /// Whether this amount never fits.
    pub fn is_beyond(self, amount: u64) -> bool {
        self.count > 0 && amount > self.count
    }
}

/// A bucket that several sessions pour into, without a lock.
#[derive(Debug, Default)]
pub(super) struct Bucket(AtomicU64);

impl Bucket {
    /// Pours, and returns how long to wait until the bucket is below its limit.
    pub fn pour(&self, rate: Rate, amount: u64, now: u64) -> Option<Duration> {
        if rate.count == 0 {
            return None;
        }
        let poured = |empty_at| Some(rate.pour(empty_at, amount, now));
        // The closure never gives up, so either arm is what was there before.
        let (Ok(before) | Err(before)) = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, poured);
        rate.wait(rate.pour(before, amount, now), now)
    }

    /// How long to wait now.
    pub fn wait(&self, rate: Rate, now: u64) -> Option<Duration> {
        rate.wait(self.0.load(Ordering::Relaxed), now)
    }

    /// Whether nothing is left in it.
    pub fn is_empty(&self, now: u64) -> bool {
        self.0.load(Ordering::Relaxed) <= now
    }

    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { count: 60, period: MINUTE };
    const SECOND: u64 = MINUTE / 60;

    #[test]
    fn a_period_at_once_and_then_as_it_flows_off() {
        let (bucket, now) = (Bucket::default(), 1000 * SECOND);
        for _ in 0..60 {
            assert_eq!(bucket.pour(RATE, 1, now), None);
        }
        assert_eq!(bucket.pour(RATE, 1, now), Some(Duration::from_secs(1)));
        assert_eq!(bucket.pour(RATE, 2, now), Some(Duration::from_secs(3)));
        assert_eq!(bucket.wait(RATE, now + 2 * SECOND), Some(Duration::from_secs(1)));
        assert_eq!(bucket.wait(RATE, now + 3 * SECOND), None);
        assert!(!bucket.is_empty(now + 3 * SECOND) && bucket.is_empty(now + 63 * SECOND));
    }

    #[test]
    fn no_limit_counts_nothing_and_large_numbers_do_not_overflow() {
        let bucket = Bucket::default();
        assert_eq!(bucket.pour(Rate { count: 0, period: DAY }, u64::MAX, 5), None);
        assert!(bucket.is_empty(0));
        let slow = Rate { count: 1, period: DAY };
        assert!(bucket.pour(slow, u64::MAX, 5).is_some());
        assert!(bucket.pour(slow, u64::MAX, 5).is_some());
        assert!(slow.is_beyond(2) && !slow.is_beyond(1));
    }
}
