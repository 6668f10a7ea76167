//! Leaky buckets, in tables of those that were used lately. An entry is the time at which its
//! bucket is empty.

use std::time::Duration;

use parking_lot::Mutex;
use posthaste_directory::Recent;
use posthaste_net::{HOUR, Rate};

pub(crate) const fn an_hour(count: u64) -> Rate {
    Rate { count, period: HOUR }
}

/// Adds one to a bucket. If the bucket is full, returns how long to wait.
pub(crate) fn pour(table: &Mutex<Recent<u64, u64>>, key: u64, rate: Rate, now: u64) -> Option<Duration> {
    if rate.count == 0 {
        return None;
    }
    let mut table = table.lock();
    let poured = rate.pour(table.get(&key).unwrap_or(0), 1, now);
    let wait = rate.wait(poured, now);
    if wait.is_none() {
        table.insert(key, poured);
    }
    wait
}
