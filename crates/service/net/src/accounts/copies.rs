//! Counts the copies that groups make of the mail of one sender in an hour.
//!
//! A sender may be any address, also a forged one. So the number of senders has a bound: further
//! senders share one bucket. An account that has logged in always has a bucket of its own. There
//! are no more accounts than an administrator has made.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::rate::{HOUR, Rate};

/// Senders with a bucket of their own. An entry has some 24 bytes: two megabytes in all. Twice
/// this has no use: each has reached a group within the last two hours.
const SENDERS_MAX: usize = 65_536;
/// Bytes of their buckets: an entry has 17 bytes, and a full table has room for twice as many.
pub const COPIES_BYTES_MAX: u64 = 34 * SENDERS_MAX as u64;
/// The bucket of all senders beyond.
const OTHERS: u64 = 0;

/// The account, sender or group that copies count for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Copier {
    /// The account that has logged in, by its name.
    Account(String),
    /// An address that somebody names as the sender, or the address of a group.
    Address(String),
}

/// A bucket for each sender, by a hash of it.
#[derive(Default)]
pub(super) struct Copies {
    hashes: RandomState,
    buckets: Mutex<HashMap<u64, u64>>,
}

impl Copies {
    /// Counts the copies of one message, if the sender has not used up the limit before. So a
    /// message for more members than the limit passes by itself, and those after it wait for an
    /// hour at most. The error is the time to wait.
    pub(super) fn count(
        &self,
        per_hour: u64,
        sender: &Copier,
        copies: u64,
        now: u64,
    ) -> Result<(), Duration> {
        if per_hour == 0 {
            return Ok(());
        }
        let rate = Rate { count: per_hour, period: HOUR };
        let mut buckets = self.buckets();
        let mut key = self.hashes.hash_one(sender);
        let is_anybody = matches!(sender, Copier::Address(_));
        if is_anybody && buckets.len() >= SENDERS_MAX && !buckets.contains_key(&key) {
            buckets.retain(|_, empty_at| *empty_at > now);
            if buckets.len() >= SENDERS_MAX {
                key = OTHERS;
            }
        }
        let bucket = buckets.entry(key).or_default();
        match rate.wait(*bucket, now) {
            Some(wait) => Err(wait),
            None => {
                *bucket = rate.pour(*bucket, copies, now).min(now.saturating_add(2 * HOUR));
                Ok(())
            }
        }
    }

    pub(super) fn clear(&self) {
        self.buckets().clear();
    }

    fn buckets(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Copier {
        Copier::Address(text.to_owned())
    }

    /// Strangers who name many senders do not make users share a bucket with them.
    #[test]
    fn an_account_has_a_bucket_of_its_own() {
        let (copies, now) = (Copies::default(), 7 * HOUR);
        for n in 0..SENDERS_MAX + 10 {
            copies.count(1_000, &address(&n.to_string()), 1, now).unwrap();
        }
        copies.count(1_000, &address("one more"), 1_000, now).unwrap();
        copies.count(1_000, &address("ana"), 1, now).unwrap_err();
        let ana = Copier::Account("ana".to_owned());
        copies.count(1_000, &ana, 2_000, now).unwrap();
        copies.count(1_000, &ana, 1, now).unwrap_err();
    }

    #[test]
    fn a_sender_waits_once_the_limit_is_used_up() {
        let (copies, now) = (Copies::default(), 7 * HOUR);
        for _ in 0..3 {
            copies.count(100, &address("ana"), 40, now).unwrap();
        }
        // 120 of 100: a fifth of an hour.
        let wait = copies.count(100, &address("ana"), 1, now).unwrap_err();
        assert_eq!(wait, Duration::from_secs(720));
        copies.count(100, &address("bo"), 1, now).unwrap();
        copies.count(100, &address("ana"), 1, now + HOUR / 5).unwrap();
        copies.count(0, &address("ana"), u64::MAX, now).unwrap();
    }

    #[test]
    fn a_message_for_a_large_group_passes_by_itself() {
        let (copies, now) = (Copies::default(), 7 * HOUR);
        copies.count(10, &address("ana"), 5_000, now).unwrap();
        assert_eq!(copies.count(10, &address("ana"), 1, now), Err(Duration::from_secs(3_600)));
        copies.count(10, &address("ana"), 5_000, now + HOUR).unwrap();
    }

    #[test]
    fn senders_beyond_the_bound_share_one_bucket() {
        let (copies, now) = (Copies::default(), 7 * HOUR);
        for n in 0..SENDERS_MAX + 10 {
            copies.count(1_000, &address(&n.to_string()), 1, now).unwrap();
        }
        assert!(copies.buckets().len() <= SENDERS_MAX + 1);
        copies.count(1_000, &address("one more"), 1_000, now).unwrap();
        copies.count(1_000, &address("another"), 1, now).unwrap_err();
        // Counters without use are forgotten.
        copies.count(1_000, &address("another"), 1, now + 3 * HOUR).unwrap();
        assert!(copies.buckets().len() <= 2);
    }
}
