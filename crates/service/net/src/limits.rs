//! How many connections may be open: in all, and from one address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::network::Tiers;

/// Connections in all. At 48 KiB for an idle TLS session they take about 1 GiB. They are some way
/// under the 65,536 file descriptors to which a process can usually raise its limit. For twice as
/// many, the administrator would have to raise that limit.
pub const TOTAL_DEFAULT: usize = 20_000;

/// Connections from one address. An office behind one address: 50 people with five connections
/// each. Twice as many would let forty addresses close the server to all others.
pub const PER_ADDRESS_DEFAULT: usize = 250;

/// Multiples of the limit that a /64, a /56 and a /48 may have. A wider network holds 256 of
/// the next: without a bound of its own, 80 machines of one /48 would have all connections.
const TIER_FACTORS: [usize; 3] = [1, 4, 16];

/// The bounds, shared by all listeners of a server. Clones count together.
#[derive(Clone, Debug)]
pub struct ConnectionLimits(Arc<Inner>);

#[derive(Debug)]
struct Inner(Mutex<Open>);

#[derive(Debug)]
struct Open {
    total_max: usize,
    per_address_max: usize,
    total: usize,
    /// By tier and first address of the network.
    by_network: HashMap<(usize, IpAddr), usize>,
}

/// One open connection; gives its place back when dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    limits: ConnectionLimits,
    tiers: Option<Tiers>,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The server is full.
    #[error("too many connections")]
    Total,
    /// This address, or a network around it, has its share.
    #[error("too many connections from this address or its network")]
    Address,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::new(TOTAL_DEFAULT, PER_ADDRESS_DEFAULT)
    }
}

impl ConnectionLimits {
    /// Bounds for all connections and for those of one address: of one /64 in IPv6. A /56 may have
    /// 4 times as many, a /48 and in IPv4 a /24 16 times. The addresses of this very machine count
    /// only in the total: webmail, proxies and measurements come from there.
    pub fn new(total: usize, per_address: usize) -> Self {
        let (total_max, per_address_max) = (total, per_address);
        let open = Open { total_max, per_address_max, total: 0, by_network: HashMap::new() };
        Self(Arc::new(Inner(Mutex::new(open))))
    }

    /// Other bounds from now on. Connections above them stay; no new one comes until there is room.
    pub fn set(&self, total: usize, per_address: usize) {
        let mut open = self.lock();
        (open.total_max, open.per_address_max) = (total, per_address);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection from `peer`.
    pub fn admit(&self, peer: IpAddr) -> Result<ConnectionPermit, Refused> {
        let mut permit = self.admit_unnamed()?;
        permit.name(peer)?;
        Ok(permit)
    }

    /// Takes a place for a connection whose peer is not known yet: [`ConnectionPermit::name`]
    /// names it.
    pub fn admit_unnamed(&self) -> Result<ConnectionPermit, Refused> {
        let mut open = self.lock();
        if open.total >= open.total_max {
            return Err(Refused::Total);
        }
        open.total += 1;
        Ok(ConnectionPermit { limits: self.clone(), tiers: None })
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.lock().total
    }
}

impl Open {
    /// Counts one connection more from an address and its networks, if all may have one more.
    fn take(&mut self, tiers: Tiers) -> Result<(), Refused> {
        let may_have = |(tier, factor): (usize, usize)| {
            let Some(first) = tiers.all()[tier] else { return true };
            let max = self.per_address_max.saturating_mul(factor);
            self.by_network.get(&(tier, first)).copied().unwrap_or(0) < max
        };
        if !TIER_FACTORS.into_iter().enumerate().all(may_have) {
            return Err(Refused::Address);
        }
        for key in keys(tiers) {
            *self.by_network.entry(key).or_insert(0) += 1;
        }
        Ok(())
    }

    /// Counts one less.
    fn give_back(&mut self, tiers: Tiers) {
        for key in keys(tiers) {
            if let Some(count) = self.by_network.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.by_network.remove(&key);
                }
            }
        }
    }
}

fn keys(tiers: Tiers) -> impl Iterator<Item = (usize, IpAddr)> {
    tiers.all().into_iter().enumerate().filter_map(|(tier, first)| Some((tier, first?)))
}

impl ConnectionPermit {
    /// Counts the connection for this peer from now on, if the peer may have one more.
    pub fn name(&mut self, peer: IpAddr) -> Result<(), Refused> {
        let tiers = (!peer.to_canonical().is_loopback()).then(|| Tiers::of(peer));
        let mut open = self.limits.lock();
        if let Some(tiers) = tiers {
            open.take(tiers)?;
        }
        if let Some(before) = std::mem::replace(&mut self.tiers, tiers) {
            open.give_back(before);
        }
        Ok(())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.limits.lock();
        open.total -= 1;
        if let Some(tiers) = self.tiers {
            open.give_back(tiers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn counts_total_and_address() {
        let limits = ConnectionLimits::new(3, 2);
        let one = limits.admit(ip("192.0.2.1")).unwrap();
        let _two = limits.admit(ip("::ffff:192.0.2.1")).unwrap();
        assert_eq!(limits.admit(ip("192.0.2.1")).unwrap_err(), Refused::Address);
        let _three = limits.admit(ip("192.0.2.2")).unwrap();
        assert_eq!(limits.admit(ip("192.0.2.3")).unwrap_err(), Refused::Total);
        drop(one);
        assert_eq!(limits.open(), 2);
        assert!(limits.admit(ip("192.0.2.1")).is_ok());
    }

    #[test]
    fn bounds_can_be_changed() {
        let limits = ConnectionLimits::new(2, 2);
        let _held = [limits.admit(ip("192.0.2.1")).unwrap(), limits.admit(ip("192.0.2.1")).unwrap()];
        limits.set(3, 1);
        assert_eq!(limits.admit(ip("192.0.2.1")).unwrap_err(), Refused::Address);
        let _third = limits.admit(ip("192.0.2.2")).unwrap();
        limits.set(1, 9);
        assert_eq!(limits.admit(ip("192.0.2.3")).unwrap_err(), Refused::Total);
        assert_eq!(limits.open(), 3);
    }

    #[test]
    fn a_v6_network_is_one_address_and_loopback_none() {
        let limits = ConnectionLimits::new(10, 1);
        let _one = limits.admit(ip("2001:db8::1")).unwrap();
        assert!(limits.admit(ip("2001:db8::2")).is_err());
        let _other = limits.admit(ip("2001:db8:0:1::1")).unwrap();
        let _local: Vec<_> = (0..3).map(|_| limits.admit(ip("127.0.0.1")).unwrap()).collect();
    }

    #[test]
    fn the_networks_around_an_address_have_bounds() {
        let admitted = |address: &dyn Fn(u32) -> String| {
            let limits = ConnectionLimits::new(10_000, 2);
            let held: Vec<_> = (0..1000).map_while(|n| limits.admit(ip(&address(n))).ok()).collect();
            held.len()
        };
        // Addresses of one /64; a /64 of the same /56 for each; a /56 of the same /48 for each.
        assert_eq!(admitted(&|n| format!("2001:db8:1:1::{n:x}")), 2);
        assert_eq!(admitted(&|n| format!("2001:db8:1:1{:02x}::1", n % 256)), 8);
        assert_eq!(admitted(&|n| format!("2001:db8:1:{:02x}00::1", n % 256)), 32);
        assert_eq!(admitted(&|n| format!("2001:db8:{n:x}::1")), 1000);
        assert_eq!(admitted(&|n| format!("192.0.2.{}", n % 256)), 32);
    }

    #[test]
    fn a_peer_that_is_named_later_counts_from_then_on() {
        let limits = ConnectionLimits::new(3, 1);
        let mut one = limits.admit_unnamed().unwrap();
        let mut two = limits.admit_unnamed().unwrap();
        one.name(ip("192.0.2.1")).unwrap();
        assert_eq!(two.name(ip("192.0.2.1")).unwrap_err(), Refused::Address);
        one.name(ip("192.0.2.2")).unwrap();
        two.name(ip("192.0.2.1")).unwrap();
        drop((one, two));
        assert!(limits.open() == 0 && limits.lock().by_network.is_empty());
    }

    #[test]
    fn nothing_is_left_behind() {
        let limits = ConnectionLimits::new(10, 0);
        assert!(limits.admit(ip("192.0.2.1")).is_err());
        assert!(limits.lock().by_network.is_empty());
    }
}
