//! The shortest time between two logins of one account (LOGIN-DELAY of RFC 2449 §6.5).
//!
//! Each process counts for itself, and forgets all at its end: on a cluster, an account may log in
//! to each node.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use posthaste_mail_model::AccountId;

/// Accounts after which those are forgotten whose time is over.
const SWEEP_LEAST: usize = 1024;

/// The time of each account's last login.
pub(crate) struct Delays {
    delay: Duration,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    of: HashMap<AccountId, Instant>,
    /// The number of accounts at which old times are removed again.
    sweep_at: usize,
}

impl Delays {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, last: Mutex::default() }
    }

    /// Whether an account may log in now; it counts as a login if so, until
    /// [`Delays::take_back`].
    pub(crate) fn admit(&self, account: AccountId, now: Instant) -> bool {
        if self.delay.is_zero() {
            return true;
        }
        let mut last = self.last.lock();
        let is_over = |at: &Instant| now.saturating_duration_since(*at) >= self.delay;
        if last.of.get(&account).is_some_and(|at| !is_over(at)) {
            return false;
        }
        // Twice the number that is left, each time: forgetting costs a step for each login.
        if last.of.len() >= last.sweep_at.max(SWEEP_LEAST) {
            last.of.retain(|_, at| !is_over(at));
            last.sweep_at = 2 * last.of.len();
        }
        last.of.insert(account, now);
        true
    }

    /// The login that was admitted at this time did not succeed. The delay begins with the `+OK`
    /// of a login (RFC 2449 §6.5).
    pub(crate) fn take_back(&self, account: AccountId, at: Instant) {
        let mut last = self.last.lock();
        if last.of.get(&account) == Some(&at) {
            last.of.remove(&account);
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    #[test]
    fn the_next_login_waits_and_old_ones_are_forgotten() {
        let delays = Delays::new(Duration::from_secs(60));
        let account = |n: u64| AccountId(Id::new(n, 1));
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        assert!(delays.admit(account(0), start));
        assert!(!delays.admit(account(0), at(59)));
        assert!(delays.admit(account(1), at(59)));
        assert!(delays.admit(account(0), at(60)));
        // Only the login that failed is taken back.
        delays.take_back(account(0), at(59));
        assert!(!delays.admit(account(0), at(61)));
        delays.take_back(account(0), at(60));
        assert!(delays.admit(account(0), at(61)));
        for n in 0..10_000 {
            assert!(delays.admit(account(n + 2), at(200 + n)));
        }
        assert!(delays.last.lock().of.len() <= SWEEP_LEAST);
        let none = Delays::new(Duration::ZERO);
        assert!(none.admit(account(0), start) && none.admit(account(0), start));
    }
}
