//! Response times as HDR histograms: three significant digits from 1 µs to an hour, mergeable.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::schema::Summary;

/// The longest time measured: one hour. Longer ones count as an hour.
const MICROSECONDS_MAX: u64 = 3_600_000_000;

/// A histogram of response times.
#[derive(Clone, Debug)]
pub struct Latency {
    times: Histogram<u64>,
    sum_us: u128,
}

impl Default for Latency {
    fn default() -> Self {
        // Grows as longer times come: a fresh one is small, so that each thread can have dozens.
        let mut times = Histogram::new(3).unwrap_or_else(|_| unreachable!("3 digits are allowed"));
        times.auto(true);
        Self { times, sum_us: 0 }
    }
}

impl Latency {
    /// Adds one.
    pub fn record(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).clamp(1, MICROSECONDS_MAX);
        // Cannot fail: it grows, and the value is within the limit.
        let _ = self.times.record(us);
        self.sum_us += u128::from(us);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        // Cannot fail: both resize and hold no value above the limit.
        let _ = self.times.add(&other.times);
        self.sum_us += other.sum_us;
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.times.len()
    }

    /// The mean, exact.
    pub fn mean_ms(&self) -> f64 {
        if self.times.is_empty() { 0.0 } else { self.sum_us as f64 / self.times.len() as f64 / 1e3 }
    }

    /// The time that this percentage of samples does not exceed.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        if self.times.is_empty() { 0.0 } else { self.times.value_at_percentile(percent) as f64 / 1e3 }
    }

    /// The longest.
    pub fn max_ms(&self) -> f64 {
        if self.times.is_empty() { 0.0 } else { self.times.max() as f64 / 1e3 }
    }

    /// The summary that results keep.
    pub fn summary(&self, seconds: f64, errors: u64, (bytes_in, bytes_out): (u64, u64)) -> Summary {
        Summary {
            count: self.count(),
            rate_per_s: if seconds > 0.0 { self.count() as f64 / seconds } else { 0.0 },
            mean_ms: self.mean_ms(),
            p50_ms: self.percentile_ms(50.0),
            p90_ms: self.percentile_ms(90.0),
            p95_ms: self.percentile_ms(95.0),
            p99_ms: self.percentile_ms(99.0),
            p999_ms: self.percentile_ms(99.9),
            max_ms: self.max_ms(),
            errors,
            bytes_in,
            bytes_out,
            histogram_us: self
                .times
                .iter_recorded()
                .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
                .collect(),
        }
    }

    /// A histogram from buckets that [`Self::summary`] wrote. Runs are merged with it.
    pub fn from_buckets(buckets: &[(u64, u64)]) -> Self {
        let mut latency = Self::default();
        for &(us, count) in buckets {
            let _ = latency.times.record_n(us.clamp(1, MICROSECONDS_MAX), count);
            latency.sum_us += u128::from(us) * u128::from(count);
        }
        latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_to(n: u64) -> Latency {
        let mut latency = Latency::default();
        (1..=n).for_each(|ms| latency.record(Duration::from_millis(ms)));
        latency
    }

    #[test]
    fn percentiles_of_known_values() {
        let latency = one_to(1000);
        for (percent, ms) in [(50.0, 500.0), (90.0, 900.0), (99.0, 990.0), (99.9, 999.0)] {
            let got = latency.percentile_ms(percent);
            assert!((got / ms - 1.0).abs() < 0.002, "p{percent} is {got}, not {ms}");
        }
        assert!((latency.mean_ms() - 500.5).abs() < 1e-9);
        assert!((latency.max_ms() / 1000.0 - 1.0).abs() < 0.001);
        assert_eq!(Latency::default().percentile_ms(99.0), 0.0);
    }

    #[test]
    fn merging_is_as_recording_together() {
        let (mut a, b) = (one_to(100), one_to(50));
        a.merge(&b);
        let again = Latency::from_buckets(&a.summary(1.0, 0, (0, 0)).histogram_us);
        assert_eq!((a.count(), again.count()), (150, 150));
        for percent in [10.0, 50.0, 99.0] {
            assert_eq!(a.percentile_ms(percent), again.percentile_ms(percent));
        }
    }
}
