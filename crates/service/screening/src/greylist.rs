//! An unknown host gets a temporary refusal and must try again, which programs that send junk
//! rarely do (RFC 6647).
//!
//! A host is known after it has waited once: by its network and the sender's domain. Before that,
//! network, sender and recipient are recorded together (RFC 6647 §2.3). So a second message does
//! not count as a retry of the first.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use posthaste_directory::Recent;
use posthaste_net::Tiers;

use crate::bucket::{an_hour, pour};

/// The time in which a host must come again. RFC 5321 §4.5.4.1 has senders try for 4 to 5 days.
/// Most come within hours.
const RETURNS_WITHIN: Duration = Duration::from_secs(2 * 24 * 3600);
/// How long a host stays known after its last message (RFC 6647 §5 has a week at least).
const KNOWN_FOR: Duration = Duration::from_secs(36 * 24 * 3600);
/// Entries of a table's generation.
const ENTRIES: usize = 65_536;
/// Senders of one network that begin to wait in an hour, at most. Some 64 networks together can
/// push out what waits within the delay. With twice as many, 32 could. A large site with half of
/// them would wait for long: its senders have many domains.
const BEGIN_MAX: u64 = 1_024;
/// Networks of a generation whose senders are counted. A client of more networks has its counts
/// forgotten. With a tenth of them it could push out what waits anyway.
const NETWORKS: usize = 1_024;
/// Bytes of two generations in two tables: an entry has 25 bytes, and a full table has room for
/// twice as many. An entry of a network has 17 bytes.
pub(crate) const GREYLIST_BYTES_MAX: u64 = 2 * 2 * 50 * ENTRIES as u64 + 2 * 34 * NETWORKS as u64;

/// The senders that wait, and those that have waited.
pub struct Greylist {
    began: Instant,
    hasher: RandomState,
    /// How many senders of a network began to wait, as leaky buckets. One network could push out
    /// the senders of all others otherwise, and they would wait for ever.
    networks: Mutex<Recent<u64, u64>>,
    waiting: Mutex<Recent<u64, Instant>>,
    known: Mutex<Recent<u64, Instant>>,
}

impl fmt::Debug for Greylist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Greylist").finish_non_exhaustive()
    }
}

impl Default for Greylist {
    fn default() -> Self {
        let table = || Mutex::new(Recent::new(ENTRIES));
        Self {
            began: Instant::now(),
            hasher: RandomState::new(),
            networks: Mutex::new(Recent::new(NETWORKS)),
            waiting: table(),
            known: table(),
        }
    }
}

impl Greylist {
    /// How long this message has to wait; `None` if it may come.
    pub(crate) fn wait(
        &self,
        address: IpAddr,
        sender: &str,
        recipient: &str,
        delay: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let network = network_of(address);
        let sender = sender.to_ascii_lowercase();
        let domain = sender.rsplit_once('@').map_or("", |(_, domain)| domain);
        let known_key = self.hasher.hash_one((network, domain));
        let mut known = self.known.lock();
        if known.get(&known_key).is_some_and(|last| now.saturating_duration_since(last) < KNOWN_FOR) {
            known.insert(known_key, now);
            return None;
        }
        let key = self.hasher.hash_one((network, sender.as_str(), recipient.to_ascii_lowercase()));
        let mut waiting = self.waiting.lock();
        let since = waiting.get(&key).map(|first| now.saturating_duration_since(first));
        match since.filter(|since| *since < RETURNS_WITHIN) {
            Some(since) if since >= delay => {
                known.insert(known_key, now);
                None
            }
            Some(since) => Some(delay - since),
            None => {
                if self.may_begin(address, now) {
                    waiting.insert(key, now);
                }
                Some(delay)
            }
        }
    }

    /// Whether one more sender of a network may begin to wait. If not, its next try is its first.
    fn may_begin(&self, address: IpAddr, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.began).as_nanos();
        let at = u64::try_from(since).unwrap_or(u64::MAX);
        let key = self.hasher.hash_one(Tiers::of(address).share());
        pour(&self.networks, key, an_hour(BEGIN_MAX), at).is_none()
    }
}

/// Hosts of one site try again from neighbouring addresses (RFC 6647 §2.5).
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & 0xffff_ff00).into()),
        v6 @ IpAddr::V6(_) => host_of(v6),
    }
}

/// The network that counts as one host: an IPv4 address, an IPv6 /64 (RFC 6177 §2).
pub(crate) fn host_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !u128::from(u64::MAX)).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_comes_again_is_known_from_then_on() {
        let (list, now, minute) = (Greylist::default(), Instant::now(), Duration::from_secs(60));
        let delay = 5 * minute;
        let wait = |from: &str, sender: &str, to: &str, at: Duration| {
            list.wait(from.parse().unwrap(), sender, to, delay, now + at)
        };
        assert_eq!(wait("192.0.2.1", "a@example.net", "ana@example.org", Duration::ZERO), Some(delay));
        // Too early, and another message meanwhile.
        assert_eq!(wait("192.0.2.1", "A@example.net", "ana@example.org", minute), Some(4 * minute));
        assert_eq!(wait("192.0.2.1", "b@example.net", "ana@example.org", 6 * minute), Some(delay));
        // From a neighbour of the same site.
        assert_eq!(wait("192.0.2.77", "a@example.net", "ana@example.org", 6 * minute), None);
        // The site and the domain are known now, for every recipient; other domains are not.
        assert_eq!(wait("192.0.2.5", "c@example.net", "bo@example.org", 7 * minute), None);
        assert_eq!(wait("192.0.2.5", "c@example.com", "bo@example.org", 7 * minute), Some(delay));
        assert_eq!(wait("198.51.100.1", "a@example.net", "ana@example.org", 7 * minute), Some(delay));
        // A host that retries after days begins again; a known one is forgotten after weeks.
        let day = 24 * 60 * minute;
        assert_eq!(wait("198.51.100.1", "a@example.net", "ana@example.org", 3 * day), Some(delay));
        assert_eq!(wait("192.0.2.5", "c@example.net", "bo@example.org", 35 * day), None);
        assert_eq!(wait("192.0.2.5", "c@example.net", "bo@example.org", 72 * day), Some(delay));
    }

    /// It pushed out the senders of all others, which then waited for ever.
    #[test]
    fn a_network_with_ever_new_senders_makes_no_others_wait_again() {
        let (list, now, minute) = (Greylist::default(), Instant::now(), Duration::from_secs(60));
        let wait = |from: &str, sender: &str, at: Duration| {
            list.wait(from.parse().unwrap(), sender, "ana@example.org", 5 * minute, now + at)
        };
        assert_eq!(wait("192.0.2.1", "a@example.net", Duration::ZERO), Some(5 * minute));
        for n in 0..2 * ENTRIES + 1_000 {
            let from = format!("198.51.100.{}", n % 256);
            assert!(wait(&from, &format!("x{n}@example.com"), minute).is_some());
        }
        assert_eq!(wait("192.0.2.1", "a@example.net", 5 * minute), None);
        // Its own first senders have waited, and others of it begin as the hour passes.
        assert_eq!(wait("198.51.100.0", "x0@example.com", 6 * minute), None);
        assert_eq!(wait("198.51.100.9", "late@example.net", 6 * minute), Some(5 * minute));
        assert_eq!(wait("198.51.100.9", "late@example.net", 11 * minute), None);
    }
}
