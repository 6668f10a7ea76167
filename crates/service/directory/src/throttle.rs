//! Delays failed logins. Scores for networks, for accounts, and for pairs of both grow with each
//! failure and halve every five minutes. The scores determine the delay of the next failure's
//! answer.
//!
//! An attempt counts from its start, not from its answer, so that a hundred tries at once are a
//! hundred tries. What a successful attempt added is subtracted again, less what has decayed since.
//! It takes back nothing that others added. Successful logins are never delayed. So the owner of an
//! attacked account does not wait, nor does another user behind the same address.
//!
//! | score of | refuses above | whom |
//! | --- | --- | --- |
//! | an IPv4 address, an IPv6 /64 | 64 failures | every account that never logged in from there |
//! | an IPv6 /56, /48 | 256, 1,024 | the same |
//! | an account at one address | 128 | that account at that address |
//!
//! A refused attempt is refused without a check of its password. A check takes 20 ms of CPU, and
//! even a check of the remembered passwords would show an attacker which guess is right.
//!
//! Loopback and trusted networks are not one client: a webmail server there sends the logins of all
//! users. Only the pairs count for them, so failures for one account do not cause refusals for
//! others.
//!
//! Requests to the server that checks tokens have scores of their own, with the same limits. They
//! count until that server answers: its failures are no guesses, and lock nobody out.
//!
//! Scores are kept in bounded tables and only in memory: a restart resets them.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use posthaste_net::Tiers;

use crate::hashing::HashShare;
use crate::network::Network;
use crate::recent::{AsIs, Recent};

/// The time in which a score halves.
const HALF_LIFE: Duration = Duration::from_secs(300);
/// The delay of the answer to the first failure; it doubles with each further one.
const DELAY_FIRST: Duration = Duration::from_millis(250);
/// The longest delay for an address: below the 30 s after which clients give up waiting.
const ADDRESS_DELAY_MAX: Duration = Duration::from_secs(10);
/// The longest delay for an account. An attacker must not annoy its owner much, and owners
/// mistype, too.
const ACCOUNT_DELAY_MAX: Duration = Duration::from_secs(1);
/// Logins from a network over this score are refused without a look at the password. No person
/// mistypes 64 passwords within minutes. An office behind one address with a few clients that have
/// a wrong password stays below.
const NETWORK_SCORE_MAX: f64 = 64.0;
/// The limit for an account at one address, twice as much. So the owner still gets in while a
/// neighbour behind the same address uses up the address's limit.
const PAIR_SCORE_MAX: f64 = 2.0 * NETWORK_SCORE_MAX;
/// Networks that contain each other and have scores of their own.
const TIERS: usize = 3;
/// Networks of IPv6 by their leading bits. One machine has a /64 (RFC 6177 §2), a home a /56, a
/// company site a /48.
const BITS_V6: [u8; TIERS] = [64, 56, 48];
/// What one failure weighs in each of them. The first is also an IPv4 address. Each wider network
/// holds 256 of the next and may fail four times as often. More would let the owner of a /48 guess
/// at will, and less would lock neighbours out.
const WEIGHTS: [f64; TIERS] = [1.0, 0.25, 0.0625];
/// Shares of hashing for accounts of loopback and trusted networks that are not known there. With
/// one for each account, every invented name would have a turn.
const TRUSTED_SHARES: u64 = 64;
/// Entries of a table's generation. A hash table of 65,536 places has room for 57,344. With more
/// it would take twice the memory.
const ENTRIES: usize = 57_000;
/// Bytes of four tables under an attack: two generations each. Places of three tables have up to
/// 40 bytes, and those of known pairs up to 12.
pub(crate) const SCORES_BYTES_MAX: u64 = 2 * (3 * 40 + 12) * 65_536;

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

/// The scores. Time comes in with each call. The tables are keyed by hashes. Two names with one
/// hash share a score, which harms nobody. A long name takes the same memory as a short one.
pub(crate) struct Throttle {
    hasher: RandomState,
    networks: Recent<u64, Score, AsIs>,
    accounts: Recent<u64, Score, AsIs>,
    pairs: Recent<u64, Score, AsIs>,
    /// Pairs that succeeded.
    known: Recent<u64, (), AsIs>,
    trusted: Vec<Network>,
}

/// What an attempt or a request added to a score.
#[derive(Debug, Clone, Copy)]
struct Added {
    key: u64,
    /// Less than one attempt weighs if the score was near its bound.
    amount: f64,
}

/// An attempt under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// Each network that a failure counts for.
    networks: [Option<Added>; TIERS],
    account: Added,
    pair: Added,
    /// When it began.
    at: Instant,
    /// If the login fails, the time to wait before the answer.
    pub delay: Duration,
    /// Refuse the login without a look at the password.
    pub refused: bool,
    /// The share of hashing that checks its password.
    pub share: HashShare,
}

/// A request to the server that checks tokens: the scores that it counts for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// Of an unknown account: the networks.
    networks: [Option<Added>; TIERS],
    /// Of an account that is known at the address, or of any at a trusted one: the pair.
    pair: Option<Added>,
    /// When it began.
    at: Instant,
}

impl Throttle {
    pub fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            networks: Recent::of_hashes(ENTRIES),
            accounts: Recent::of_hashes(ENTRIES),
            pairs: Recent::of_hashes(ENTRIES),
            known: Recent::of_hashes(ENTRIES),
            trusted: Vec::new(),
        }
    }

    /// Networks that are trusted from now on, as loopback is.
    pub fn trust(&mut self, networks: Vec<Network>) {
        self.trusted = networks;
    }

    /// Counts an attempt. `account` is the name requested, whether it exists or not.
    pub fn begin(&mut self, address: IpAddr, account: &str, now: Instant) -> Attempt {
        let address = address.to_canonical();
        let networks = self.strangers(address);
        let pair = self.hasher.hash_one((machine(address), account));
        let account = self.hasher.hash_one(account);
        let known = self.known.get(&pair).is_some();
        let share = match (known, networks.iter().all(Option::is_none)) {
            (true, false) => HashShare::Known(account),
            (true, true) => HashShare::KnownTrusted(account),
            (false, true) => HashShare::Trusted((account % TRUSTED_SHARES) as u8),
            (false, false) => HashShare::Network(Tiers::of(address).share()),
        };
        let (networks, by_network) = self.count_networks(networks, NETWORK_SCORE_MAX, now);
        let (account, by_account) = add(&mut self.accounts, account, 1.0, NETWORK_SCORE_MAX, now);
        let (pair, by_pair) = add(&mut self.pairs, pair, 1.0, PAIR_SCORE_MAX, now);
        let held_back = delay(by_network.max(by_pair), ADDRESS_DELAY_MAX);
        Attempt {
            networks,
            account,
            pair,
            at: now,
            delay: held_back.max(delay(by_account, ACCOUNT_DELAY_MAX)),
            refused: by_pair > PAIR_SCORE_MAX || (by_network > NETWORK_SCORE_MAX && !known),
            share,
        }
    }

    /// Takes back an attempt that could not be checked.
    pub fn forgive(&mut self, attempt: Attempt, now: Instant) {
        for network in attempt.networks.into_iter().flatten() {
            subtract(&mut self.networks, network, attempt.at, now);
        }
        subtract(&mut self.accounts, attempt.account, attempt.at, now);
        subtract(&mut self.pairs, attempt.pair, attempt.at, now);
    }

    /// Takes back an attempt whose password was right, and remembers where the account was used
    /// from.
    pub fn succeed(&mut self, attempt: Attempt, now: Instant) {
        self.forgive(attempt, now);
        self.known.insert(attempt.pair.key, ());
    }

    /// Counts a request about an attempt to the server that checks tokens. `None` if it must not be
    /// made, because too many others had no answer.
    ///
    /// A refused request does not count. So some requests are made however many clients want, and
    /// all of them soon after that server answers again.
    pub fn begin_request(&mut self, attempt: Attempt, now: Instant) -> Option<Request> {
        // Known accounts have scores of their own: strangers at their address do not refuse them.
        // The keys are not those of failed logins, for which passwords would be refused, too.
        let (request, score, max) = match attempt.share {
            HashShare::Network(_) => {
                let keys = attempt.networks.map(|network| network.map(|added| !added.key));
                let (networks, score) = self.count_networks(keys, PAIR_SCORE_MAX, now);
                (Request { networks, pair: None, at: now }, score, NETWORK_SCORE_MAX)
            }
            _ => {
                let (pair, score) = add(&mut self.pairs, !attempt.pair.key, 1.0, PAIR_SCORE_MAX, now);
                (Request { networks: [None; TIERS], pair: Some(pair), at: now }, score, PAIR_SCORE_MAX)
            }
        };
        if score > max {
            self.end_request(request, now);
            return None;
        }
        Some(request)
    }

    /// Takes back a request that was answered, or that was not made.
    pub fn end_request(&mut self, request: Request, now: Instant) {
        for network in request.networks.into_iter().flatten() {
            subtract(&mut self.networks, network, request.at, now);
        }
        if let Some(pair) = request.pair {
            subtract(&mut self.pairs, pair, request.at, now);
        }
    }

    /// Counts one failure for networks. Answers also with the highest of their scores.
    fn count_networks(
        &mut self,
        keys: [Option<u64>; TIERS],
        max: f64,
        now: Instant,
    ) -> ([Option<Added>; TIERS], f64) {
        let mut worst = 0.0_f64;
        let added = std::array::from_fn(|tier| {
            let (added, score) = add(&mut self.networks, keys[tier]?, WEIGHTS[tier], max, now);
            worst = worst.max(score);
            Some(added)
        });
        (added, worst)
    }

    /// The networks that an attempt from an address counts for: none if the address is trusted.
    fn strangers(&self, address: IpAddr) -> [Option<u64>; TIERS] {
        if address.is_loopback() || self.trusted.iter().any(|network| network.contains(address)) {
            return [None; TIERS];
        }
        match address {
            IpAddr::V4(_) => [Some(self.hasher.hash_one(address)), None, None],
            IpAddr::V6(_) => {
                BITS_V6.map(|bits| Some(self.hasher.hash_one((bits, Network::of(address, bits).first()))))
            }
        }
    }
}

/// Adds to a score, which stays within twice `max`. Answers with what was added, and with the new
/// score.
fn add(table: &mut Recent<u64, Score, AsIs>, key: u64, amount: f64, max: f64, now: Instant) -> (Added, f64) {
    let before = table.get(&key).map_or(0.0, |score| score.now(now));
    // Capped at twice the limit: a day of failed logins does not lock out the next day.
    let value = (before + amount).min(2.0 * max);
    table.insert(key, Score { value, at: now });
    (Added { key, amount: value - before }, value)
}

/// Subtracts what remains of an addition made at `then`. All parts of a score halve together, so
/// what others added stays.
fn subtract(table: &mut Recent<u64, Score, AsIs>, added: Added, then: Instant, now: Instant) {
    let remains = Score { value: added.amount, at: then }.now(now);
    if let Some(score) = table.get(&added.key) {
        let value = (score.now(now) - remains).max(0.0);
        table.insert(added.key, Score { value, at: now });
    }
}

/// 250 ms for the first failure, doubling, up to `max`.
fn delay(score: f64, max: Duration) -> Duration {
    let doublings = (score - 1.0).clamp(0.0, 16.0).floor();
    DELAY_FIRST.mul_f64(doublings.exp2()).min(max)
}

/// The network whose addresses one machine has: an IPv4 address, an IPv6 /64; loopback is one.
fn machine(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) if v4.is_loopback() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        IpAddr::V6(v6) if !v6.is_loopback() => Network::of(address, 64).first(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const A: &str = "192.0.2.1";

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Fails so often from one address, each time for another account.
    fn fail(throttle: &mut Throttle, address: &str, times: usize, now: Instant) {
        for n in 0..times {
            throttle.begin(ip(address), &format!("{address} {n}"), now);
        }
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
    fn an_address_that_never_stops_is_refused_and_recovers() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        let refused = (0..10_000).filter(|_| throttle.begin(ip(A), "ana", now).refused).count();
        assert_eq!(refused, 10_000 - 64);
        assert!(!throttle.begin(ip(A), "ana", now + HALF_LIFE * 2).refused);
    }

    #[test]
    fn a_throttled_address_is_open_to_accounts_that_came_from_it_before() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        let attempt = throttle.begin(ip(A), "ana", now);
        throttle.succeed(attempt, now);
        fail(&mut throttle, A, 100, now);
        assert!(!throttle.begin(ip(A), "ana", now).refused);
        assert!(throttle.begin(ip(A), "ben", now).refused);
        // Guesses at the known account have an end, too.
        let looked_at = (0..1000).filter(|_| !throttle.begin(ip(A), "ana", now).refused).count();
        assert_eq!(looked_at, 128 - 1);
    }

    #[test]
    fn logins_of_ones_own_take_back_no_guesses_at_others() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        let attempt = throttle.begin(ip(A), "ana", now);
        throttle.succeed(attempt, now);
        fail(&mut throttle, A, 1000, now);
        // At its bound the score does not grow by them, so it must not fall by them.
        let own: Vec<_> = (0..100).map(|_| throttle.begin(ip(A), "ana", now)).collect();
        for attempt in own {
            assert!(!attempt.refused);
            throttle.succeed(attempt, now);
        }
        assert!(throttle.begin(ip(A), "ben", now).refused);
        // The bound was reached, and no more: it takes as long as before to recover.
        assert!(throttle.begin(ip(A), "ben", now + HALF_LIFE / 2).refused);
    }

    #[test]
    fn a_long_login_takes_back_what_remains_of_it() {
        let (mut throttle, start) = (Throttle::new(), Instant::now());
        let attempt = throttle.begin(ip(A), "ana", start);
        throttle.succeed(attempt, start);
        let own: Vec<_> = (0..60).map(|_| throttle.begin(ip(A), "ana", start)).collect();
        fail(&mut throttle, A, 40, start);
        let later = start + HALF_LIFE;
        for attempt in own {
            throttle.succeed(attempt, later);
        }
        // Half of the forty guesses remains.
        let looked_at = (0..1000).filter(|n| !throttle.begin(ip(A), &format!("u{n}"), later).refused).count();
        assert_eq!(looked_at, 64 - 20);
    }

    #[test]
    fn loopback_and_trusted_networks_are_throttled_by_account() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        throttle.trust(vec!["10.1.0.0/16".parse().unwrap()]);
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.2", "10.1.2.3"] {
            fail(&mut throttle, address, 1000, now);
            assert!(!throttle.begin(ip(address), "new", now).refused, "{address}");
        }
        let looked_at = (0..1000).filter(|_| !throttle.begin(ip("10.1.2.3"), "ana", now).refused).count();
        assert_eq!(looked_at, 128);
        fail(&mut throttle, "10.2.0.1", 65, now);
        assert!(throttle.begin(ip("10.2.0.1"), "new", now).refused);
    }

    /// Begins a request for a token of an account.
    fn ask(throttle: &mut Throttle, address: &str, account: &str, now: Instant) -> Option<Request> {
        let attempt = throttle.begin(ip(address), account, now);
        throttle.forgive(attempt, now);
        throttle.begin_request(attempt, now)
    }

    /// Of a thousand requests that have no answer, each for another account, how many are made.
    fn unanswered(throttle: &mut Throttle, address: &str, now: Instant) -> usize {
        (0..1000).filter(|n| ask(throttle, address, &format!("{address} {n}"), now).is_some()).count()
    }

    #[test]
    fn requests_without_an_answer_have_a_bound_for_each_address_and_known_account() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        let attempt = throttle.begin(ip(A), "ana", now);
        throttle.succeed(attempt, now);
        assert_eq!(unanswered(&mut throttle, A, now), 64);
        assert_eq!(unanswered(&mut throttle, "2001:db8::1", now), 64);
        assert!(ask(&mut throttle, "2001:db8::2", "new", now).is_none());
        assert!(ask(&mut throttle, "192.0.2.2", "new", now).is_some());
        // A known account has its own, and no password is refused.
        let made = (0..1000).filter(|_| ask(&mut throttle, A, "ana", now).is_some()).count();
        assert_eq!(made, 128);
        assert!(!throttle.begin(ip(A), "ben", now).refused);
        // A webmail server brings the logins of all users.
        let made = (0..1000).filter(|_| ask(&mut throttle, "::1", "ana", now).is_some()).count();
        assert_eq!(made, 128);
        assert!(ask(&mut throttle, "::1", "ben", now).is_some());
    }

    #[test]
    fn requests_are_made_again_soon_after_the_first_answer() {
        let (mut throttle, start) = (Throttle::new(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(unanswered(&mut throttle, A, start), 64);
        // Some are made meanwhile, however many are refused.
        assert_eq!(unanswered(&mut throttle, A, after(10)), 1);
        assert_eq!(unanswered(&mut throttle, A, after(20)), 1);
        for n in 0..1000 {
            let request = ask(&mut throttle, A, &format!("u{n}"), after(30)).unwrap();
            throttle.end_request(request, after(30));
        }
    }

    #[test]
    fn places_of_the_tables_take_no_more_than_the_plan_counts() {
        // A table has one byte for each place in addition: less than 40 and 12.
        assert_eq!([size_of::<(u64, Score)>(), size_of::<(u64, ())>()], [32, 8]);
    }

    #[test]
    fn a_network_has_one_share_of_hashing_and_a_known_account_its_own() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        let mut share = |address: &str, account: &str| throttle.begin(ip(address), account, now).share;
        assert_eq!(share(A, "ana"), share("192.0.2.99", "ben"));
        assert_ne!(share(A, "ana"), share("192.0.3.1", "ana"));
        assert_eq!(share("2001:db8:1:100::1", "ana"), share("2001:db8:1:f00::1", "ben"));
        // Somebody with a /32 has thousands of /48s, and few shares.
        let provider: HashSet<_> =
            (0..1000).map(|n| share(&format!("2001:db8:{n:x}::1"), &format!("u{n}"))).collect();
        assert_eq!(provider.len(), 16);
        // A webmail server brings the logins of all users.
        let trusted: HashSet<_> = (0..1000).map(|n| share("127.0.0.1", &format!("u{n}"))).collect();
        assert!((2..=64).contains(&trusted.len()), "{}", trusted.len());
    }

    #[test]
    fn a_known_account_has_one_share_of_hashing_from_all_its_addresses() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        for address in [A, "198.51.100.1", "127.0.0.1"] {
            let attempt = throttle.begin(ip(address), "ana", now);
            throttle.succeed(attempt, now);
        }
        let mut share = |address: &str, account: &str| throttle.begin(ip(address), account, now).share;
        assert!(matches!(share(A, "ana"), HashShare::Known(_)));
        assert_eq!(share(A, "ana"), share("198.51.100.1", "ana"));
        // Behind a trusted network anybody may try the name.
        assert!(matches!(share("127.0.0.1", "ana"), HashShare::KnownTrusted(_)));
        assert!(matches!(share("127.0.0.1", "ben"), HashShare::Trusted(_)));
        assert_eq!(share(A, "ben"), share("192.0.2.2", "ana"));
    }

    #[test]
    fn an_ipv6_network_is_one_stranger_and_so_is_the_one_around_it() {
        let (mut throttle, now) = (Throttle::new(), Instant::now());
        let mut failures = |address: &dyn Fn(usize) -> String| {
            let tries = (0..10_000).map(|n| throttle.begin(ip(&address(n)), &format!("u{n}"), now).refused);
            tries.take_while(|refused| !refused).count()
        };
        assert_eq!(failures(&|n| format!("2001:db8:1:100::{n:x}")), 64);
        // Another /64 for each: the /56 around them has been charged with 64 failures.
        assert_eq!(failures(&|n| format!("2001:db8:1:1{:02x}::1", 1 + n % 255)), 256 - 65);
        // Another /56 for each.
        assert_eq!(failures(&|n| format!("2001:db8:1:{:x}00::1", 2 + n % 254)), 1024 - 65 - 192);
        // A new /48.
        assert_eq!(failures(&|n| format!("2001:db8:2::{n:x}")), 64);
        assert_eq!(machine(ip("2001:db8:1:2:3::4")), ip("2001:db8:1:2::"));
    }
}
