//! Failed logins slow down: a score for each address and each account name, which grows by one with each failure and
//! halves every five minutes. From the score follows how long the next failure's answer is held back.
//!
//! An attempt counts from its start, not from its answer, so that a hundred tries at once are a hundred tries; one that
//! succeeds is taken back. Successful logins are never held back: the owner of a guessed-at account, or a neighbour
//! behind one address, waits for nothing. Only an address that keeps on failing is at last refused without its
//! passwords being looked at, because looking costs 20 ms of CPU.
//!
//! Scores are kept in bounded tables and in memory only: a restart forgives.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use crate::recent::Recent;

/// In which a score halves.
const HALF_LIFE: Duration = Duration::from_secs(300);
/// Held back after the first failure; doubles with each further one.
const DELAY_FIRST: Duration = Duration::from_millis(250);
/// At most held back for an address: below the 30 s after which clients give up waiting.
const ADDRESS_DELAY_MAX: Duration = Duration::from_secs(10);
/// At most held back for an account: a stranger must not be able to annoy its owner much, who also mistypes.
const ACCOUNT_DELAY_MAX: Duration = Duration::from_secs(1);
/// An address over this score is refused unlooked-at. 64 wrong passwords within minutes is no person; an office behind
/// one address with a few wrongly set up clients stays below.
const ADDRESS_SCORE_MAX: f64 = 64.0;
/// Entries of a table's generation: 65,536 × 2 × about 40 bytes is 5 MiB at the very worst, under an attack.
const ENTRIES: usize = 65_536;

#[derive(Clone, Copy)]
struct Score {
    value: f64,
    at: Instant,
}

impl Score {
    fn now(self, now: Instant) -> f64 {
        let halvings = now.saturating_duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.value * (-halvings).exp2()
    }
}

/// The scores. Time comes in with each call. The tables are keyed by hashes: two names that share one share a score,
/// which harms nobody, and a long name takes no more room than a short one.
pub(crate) struct Throttle {
    hasher: RandomState,
    addresses: Recent<u64, Score>,
    accounts: Recent<u64, Score>,
}

/// An attempt under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    address: u64,
    account: u64,
    /// Hold the answer back for so long, should it be no.
    pub delay: Duration,
    /// Answer no without looking.
    pub refused: bool,
}

impl Throttle {
    pub fn new() -> Self {
        Self { hasher: RandomState::new(), addresses: Recent::new(ENTRIES), accounts: Recent::new(ENTRIES) }
    }

    /// Counts an attempt. `account` is the name asked for, whether it exists or not.
    pub fn begin(&mut self, address: IpAddr, account: &str, now: Instant) -> Attempt {
        let (address, account) = (self.hasher.hash_one(network(address)), self.hasher.hash_one(account));
        let by_address = add(&mut self.addresses, address, 1.0, now);
        let by_account = add(&mut self.accounts, account, 1.0, now);
        Attempt {
            address,
            account,
            delay: delay(by_address, ADDRESS_DELAY_MAX).max(delay(by_account, ACCOUNT_DELAY_MAX)),
            refused: by_address > ADDRESS_SCORE_MAX,
        }
    }

    /// Takes back an attempt that was no failure: the password was right, or it could not be checked.
    pub fn forgive(&mut self, attempt: Attempt, now: Instant) {
        add(&mut self.addresses, attempt.address, -1.0, now);
        add(&mut self.accounts, attempt.account, -1.0, now);
    }
}

/// Adds to a score and answers with the new one.
fn add(table: &mut Recent<u64, Score>, key: u64, amount: f64, now: Instant) -> f64 {
    let before = table.get(&key).map_or(0.0, |score| score.now(now));
    // Capped a little above the limit: whoever hammered for a day is not locked out for the next.
    let value = (before + amount).clamp(0.0, 2.0 * ADDRESS_SCORE_MAX);
    table.insert(key, Score { value, at: now });
    value
}

/// 250 ms for the first failure, doubling, up to `max`.
fn delay(score: f64, max: Duration) -> Duration {
    let doublings = (score - 1.0).clamp(0.0, 16.0).floor();
    DELAY_FIRST.mul_f64(doublings.exp2()).min(max)
}

/// What one stranger can easily have all addresses of: an IPv4 address, an IPv6 /64.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "192.0.2.1";

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn failures_double_the_delay_up_to_ten_seconds() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        let delays: Vec<_> =
            (0..8).map(|n| throttle.begin(ip(A), &format!("user{n}"), now).delay.as_millis()).collect();
        assert_eq!(delays, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(throttle.begin(ip("192.0.2.2"), "other", now).delay.as_millis(), 250);
    }

    #[test]
    fn an_account_is_slowed_a_little() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        let delays: Vec<_> = (1..6)
            .map(|n| throttle.begin(ip(&format!("192.0.2.{n}")), "ana", now).delay.as_millis())
            .collect();
        assert_eq!(delays, [250, 500, 1000, 1000, 1000]);
    }

    #[test]
    fn time_and_success_forgive() {
        let (mut throttle, start) = (Throttle::new(), Instant::now());
        for _ in 0..5 {
            throttle.begin(ip(A), "ana", start);
        }
        let later = start + HALF_LIFE * 10;
        assert_eq!(throttle.begin(ip(A), "ana", later).delay.as_millis(), 250);
        for _ in 0..1000 {
            let attempt = throttle.begin(ip("192.0.2.9"), "ben", later);
            assert!(!attempt.refused);
            throttle.forgive(attempt, later);
        }
        assert_eq!(throttle.begin(ip("192.0.2.9"), "ben", later).delay.as_millis(), 250);
    }

    #[test]
    fn who_never_stops_is_refused_and_comes_back() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        let refused = (0..10_000).filter(|_| throttle.begin(ip(A), "ana", now).refused).count();
        assert_eq!(refused, 10_000 - 64);
        assert!(!throttle.begin(ip(A), "ana", now + HALF_LIFE * 2).refused);
    }

    #[test]
    fn an_ipv6_network_is_one_stranger() {
        assert_eq!(network(ip("2001:db8:1:2:3::4")), ip("2001:db8:1:2::"));
        assert_eq!(network(ip("::ffff:192.0.2.1")), ip(A));
    }
}
