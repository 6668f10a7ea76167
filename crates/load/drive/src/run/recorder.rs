//! Records the times, counts and errors of a thread's users.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_load_results::Latency;
use posthaste_load_results::{ErrorCount, ErrorSample, Slow};

use super::alone_cost::AloneCost;

/// Rows of the engine's own after the workload's transactions: deleting beyond the threshold.
pub const TRIM: usize = 0;
/// The same: mail that arrives from outside.
pub const ARRIVAL: usize = 1;
/// The same: mail that arrives for another server, and that this one sends on.
pub const ROUTED: usize = 2;
/// The number of such rows.
pub const OWN_ROWS: usize = 3;
/// Errors of one kind kept with their transcripts.
const SAMPLES_MAX: usize = 5;
/// Slow transactions kept.
const SLOWEST_MAX: usize = 10;
/// Seconds of series kept: a day.
const SECONDS_MAX: usize = 86_400;

/// Times and counts of one kind of thing, in the window.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Times of those that ended well.
    pub latency: Latency,
    /// The number of those that failed.
    pub errors: u64,
    /// Bytes from and to the server.
    pub bytes: (u64, u64),
    /// Drawn and not possible.
    pub redrawn: u64,
}

/// One second of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Second {
    /// Ended well.
    pub done: u32,
    /// Errors.
    pub errors: u32,
    /// Sum of response times.
    pub sum_us: u64,
    /// Longest response time.
    pub max_us: u64,
}

/// A thread's record.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// The transactions, in the order of the workload, then those of the engine itself.
    pub transactions: Vec<Tally>,
    /// The commands by name.
    pub commands: BTreeMap<&'static str, Tally>,
    /// The seconds of the run, from the start of the ramp.
    pub seconds: Vec<Second>,
    /// The errors by kind, over the whole run.
    pub errors: BTreeMap<&'static str, ErrorCount>,
    /// Outages that are tolerated, by kind, over the whole run.
    pub outages: BTreeMap<&'static str, u64>,
    /// The slowest transactions of the window, slowest first.
    pub slowest: Vec<Slow>,
    /// Logins in the window.
    pub sessions: u64,
    /// Messages listed or sent in the window.
    pub messages: u64,
    /// Virtual users with a session now.
    pub online: i64,
    /// The time by which the generator itself dispatched tasks late, open loop.
    pub lateness: Latency,
    /// The costs of transactions that were measured alone.
    pub alone: AloneCost,
}

impl Recorder {
    /// A recorder for this many transactions.
    pub fn new(transactions: usize) -> Self {
        Self { transactions: vec![Tally::default(); transactions], ..Self::default() }
    }

    /// The record of a second of the run.
    pub fn second(&mut self, at_s: f64) -> &mut Second {
        let index = (at_s.max(0.0) as usize).min(SECONDS_MAX - 1);
        if self.seconds.len() <= index {
            self.seconds.resize(index + 1, Second::default());
        }
        &mut self.seconds[index]
    }

    /// Notes an error.
    pub fn error(&mut self, kind: &'static str, sample: impl FnOnce() -> ErrorSample) {
        let entry = self.errors.entry(kind).or_default();
        entry.count += 1;
        if entry.samples.len() < SAMPLES_MAX {
            kind.clone_into(&mut entry.kind);
            entry.samples.push(sample());
        }
    }

    /// Notes a time among the slowest, if it is.
    pub fn slow(&mut self, time: Duration, make: impl FnOnce(f64) -> Slow) {
        let ms = time.as_secs_f64() * 1e3;
        if self.slowest.len() < SLOWEST_MAX || self.slowest.last().is_some_and(|s| s.ms < ms) {
            let at = self.slowest.partition_point(|s| s.ms >= ms);
            self.slowest.insert(at, make(ms));
            self.slowest.truncate(SLOWEST_MAX);
        }
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.transactions.iter_mut().zip(&other.transactions) {
            mine.merge(theirs);
        }
        for (name, theirs) in &other.commands {
            self.commands.entry(name).or_default().merge(theirs);
        }
        for (at, theirs) in other.seconds.iter().enumerate() {
            self.second(at as f64).add(theirs);
        }
        for (kind, theirs) in &other.errors {
            let mine = self.errors.entry(kind).or_default();
            mine.kind.clone_from(&theirs.kind);
            mine.count += theirs.count;
            mine.samples
                .extend(theirs.samples.iter().take(SAMPLES_MAX.saturating_sub(mine.samples.len())).cloned());
        }
        for (kind, count) in &other.outages {
            *self.outages.entry(kind).or_default() += count;
        }
        for slow in &other.slowest {
            self.slow(Duration::from_secs_f64(slow.ms / 1e3), |_| slow.clone());
        }
        self.sessions += other.sessions;
        self.messages += other.messages;
        self.online += other.online;
        self.lateness.merge(&other.lateness);
        self.alone.merge(&other.alone);
    }

    /// Errors of all kinds.
    pub fn error_count(&self) -> u64 {
        self.errors.values().map(|e| e.count).sum()
    }
}

impl Second {
    /// Adds all of another.
    pub fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.errors += other.errors;
        self.sum_us += other.sum_us;
        self.max_us = self.max_us.max(other.max_us);
    }
}

impl Tally {
    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.errors += other.errors;
        self.bytes.0 += other.bytes.0;
        self.bytes.1 += other.bytes.1;
        self.redrawn += other.redrawn;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_kept_in_order_and_records_merge() {
        let mut a = Recorder::new(1);
        for ms in [5u64, 50, 1, 30] {
            a.slow(Duration::from_millis(ms), |ms| Slow { ms, ..Slow::default() });
            a.error("x", ErrorSample::default);
            a.second(3.5).done += 1;
        }
        let mut b = Recorder::new(1);
        (0..20).for_each(|_| b.merge(&a));
        assert_eq!((b.slowest.len(), b.slowest[0].ms, b.error_count()), (10, 50.0, 80));
        assert_eq!((b.seconds[3].done, b.errors["x"].samples.len()), (80, SAMPLES_MAX));
    }
}
