//! The number of messages that one address, and one sender, may deliver in an hour.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use posthaste_directory::Recent;

use crate::bucket::{an_hour, pour};
use crate::greylist::{host_of, network_of};
use crate::verdict::Refusal;

/// Entries of a table's generation.
const ENTRIES: usize = 32_768;
/// Bytes of two generations in three tables: an entry has 17 bytes, and a full table has room for
/// twice as many.
pub(crate) const RATES_BYTES_MAX: u64 = 3 * 2 * 34 * ENTRIES as u64;

/// Limits for an hour; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Messages from one address.
    pub messages_per_address: u64,
    /// Messages from one sender that hosts of one network bring. The null sender has no bound.
    pub messages_per_sender: u64,
    /// Recipients named by one address who do not exist.
    pub unknown_recipients_per_address: u64,
}

/// The used amounts, as leaky buckets. An entry is the time at which its bucket is empty. A key is
/// a hash: addresses or senders of the same hash share a bucket.
pub struct Rates {
    began: Instant,
    hasher: RandomState,
    addresses: Mutex<Recent<u64, u64>>,
    senders: Mutex<Recent<u64, u64>>,
    unknown: Mutex<Recent<u64, u64>>,
}

impl fmt::Debug for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rates").finish_non_exhaustive()
    }
}

impl Default for Rates {
    fn default() -> Self {
        let table = || Mutex::new(Recent::new(ENTRIES));
        Self {
            began: Instant::now(),
            hasher: RandomState::new(),
            addresses: table(),
            senders: table(),
            unknown: table(),
        }
    }
}

impl Rates {
    fn nanoseconds(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.began).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Counts a message, or says why it is one too many.
    pub(crate) fn count_message(
        &self,
        limits: &RateLimits,
        address: IpAddr,
        sender: &str,
        now: Instant,
    ) -> Result<(), Refusal> {
        let at = self.nanoseconds(now);
        let key = self.hasher.hash_one(host_of(address));
        if let Some(again_in) = pour(&self.addresses, key, an_hour(limits.messages_per_address), at) {
            return Err(Refusal::Messages { from: address.to_string(), again_in });
        }
        if sender.is_empty() {
            return Ok(());
        }
        // The sender is a claim. With the network, which nobody can forge, hosts elsewhere do
        // not use up what is left for the sender's own hosts.
        let key = self.hasher.hash_one((network_of(address), sender.to_ascii_lowercase()));
        match pour(&self.senders, key, an_hour(limits.messages_per_sender), at) {
            Some(again_in) => Err(Refusal::Messages { from: format!("<{sender}>"), again_in }),
            None => Ok(()),
        }
    }

    /// Counts a recipient who does not exist.
    pub(crate) fn count_unknown_recipient(&self, limits: &RateLimits, address: IpAddr, now: Instant) {
        let (key, at) = (self.hasher.hash_one(host_of(address)), self.nanoseconds(now));
        let rate = an_hour(limits.unknown_recipients_per_address);
        let mut unknown = self.unknown.lock();
        let poured = rate.pour(unknown.get(&key).unwrap_or(0), 1, at);
        unknown.insert(key, poured);
    }

    /// How long an address that guessed too many recipients has to wait.
    pub(crate) fn unknown_recipients_wait(
        &self,
        limits: &RateLimits,
        address: IpAddr,
        now: Instant,
    ) -> Option<Duration> {
        let rate = an_hour(limits.unknown_recipients_per_address);
        let key = self.hasher.hash_one(host_of(address));
        // One more would be over the bound.
        let used = rate.pour(self.unknown.lock().get(&key)?, 1, self.nanoseconds(now));
        rate.wait(used, self.nanoseconds(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RateLimits =
        RateLimits { messages_per_address: 3, messages_per_sender: 2, unknown_recipients_per_address: 2 };
    const TWENTY_MINUTES: Duration = Duration::from_secs(20 * 60);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_and_a_sender_have_an_hour_each() {
        let (rates, now) = (Rates::default(), Instant::now());
        let message = |from: &str, sender: &str, at| rates.count_message(&LIMITS, address(from), sender, at);
        assert_eq!(message("192.0.2.1", "a@example.net", now), Ok(()));
        assert_eq!(message("192.0.2.2", "A@example.net", now), Ok(()));
        // The third of the sender, from a third address of the network.
        let refusal = message("192.0.2.3", "a@example.net", now).unwrap_err();
        assert!(!refusal.is_permanent());
        assert_eq!(refusal.to_string(), "too many messages from <a@example.net>; try again in 30 min");
        assert_eq!(message("192.0.2.3", "a@example.net", now + 2 * TWENTY_MINUTES), Ok(()));
        // A forger elsewhere has a bound of his own.
        assert_eq!(message("198.51.100.1", "a@example.net", now), Ok(()));
        // The null sender has no bound of its own, the address has.
        for _ in 0..3 {
            assert_eq!(message("192.0.2.9", "", now), Ok(()));
        }
        assert!(matches!(message("192.0.2.9", "", now), Err(Refusal::Messages { .. })));
        assert_eq!(message("192.0.2.9", "", now + TWENTY_MINUTES), Ok(()));
    }

    #[test]
    fn a_host_that_guesses_recipients_has_to_wait_and_a_network_of_ipv6_counts_as_one() {
        let (rates, now) = (Rates::default(), Instant::now());
        for from in ["2001:db8::1", "2001:db8::2"] {
            assert_eq!(rates.unknown_recipients_wait(&LIMITS, address(from), now), None);
            rates.count_unknown_recipient(&LIMITS, address(from), now);
        }
        assert!(rates.unknown_recipients_wait(&LIMITS, address("2001:db8::3"), now).is_some());
        assert_eq!(rates.unknown_recipients_wait(&LIMITS, address("2001:db8:0:1::3"), now), None);
        let later = now + 2 * TWENTY_MINUTES;
        assert_eq!(rates.unknown_recipients_wait(&LIMITS, address("2001:db8::3"), later), None);
        let none = RateLimits::default();
        rates.count_unknown_recipient(&none, address("192.0.2.1"), now);
        assert_eq!(rates.unknown_recipients_wait(&none, address("192.0.2.1"), now), None);
    }
}
