//! How many connections may be open: in all, and from one address.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Connections in all: at 48 KiB for an idle TLS session about 1 GiB, and some way under the 65,536
/// file descriptors a process can usually raise itself to. Twice as many would need the
/// administrator's word.
pub const TOTAL_DEFAULT: usize = 20_000;

/// Connections from one address. An office behind one address: 50 people with five connections
/// each. Twice as many would let forty addresses close the server to all others.
pub const PER_ADDRESS_DEFAULT: usize = 250;

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
    by_address: HashMap<IpAddr, usize>,
}

/// One open connection; gives its place back when dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    limits: ConnectionLimits,
    address: Option<IpAddr>,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The server is full.
    #[error("too many connections")]
    Total,
    /// This address has its share.
    #[error("too many connections from this address")]
    Address,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::new(TOTAL_DEFAULT, PER_ADDRESS_DEFAULT)
    }
}

impl ConnectionLimits {
    /// Bounds for all connections and for those of one address. The addresses of this very machine
    /// count only in the total: webmail, proxies and measurements come from there.
    pub fn new(total: usize, per_address: usize) -> Self {
        let (total_max, per_address_max) = (total, per_address);
        let open = Open { total_max, per_address_max, total: 0, by_address: HashMap::new() };
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

    /// Takes a place for a connection whose peer is not known yet: [`ConnectionPermit::name`] says
    /// who it is.
    pub fn admit_unnamed(&self) -> Result<ConnectionPermit, Refused> {
        let mut open = self.lock();
        if open.total >= open.total_max {
            return Err(Refused::Total);
        }
        open.total += 1;
        Ok(ConnectionPermit { limits: self.clone(), address: None })
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.lock().total
    }
}

impl Open {
    /// Counts one connection more from an address, if it may have one more.
    fn take(&mut self, address: IpAddr) -> Result<(), Refused> {
        let count = self.by_address.entry(address).or_insert(0);
        if *count < self.per_address_max {
            *count += 1;
            return Ok(());
        }
        if *count == 0 {
            self.by_address.remove(&address);
        }
        Err(Refused::Address)
    }

    /// Counts one less.
    fn give_back(&mut self, address: IpAddr) {
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

impl ConnectionPermit {
    /// Counts the connection for this peer from now on, if the peer may have one more.
    pub fn name(&mut self, peer: IpAddr) -> Result<(), Refused> {
        let address = counted(peer);
        let mut open = self.limits.lock();
        if let Some(address) = address {
            open.take(address)?;
        }
        if let Some(before) = std::mem::replace(&mut self.address, address) {
            open.give_back(before);
        }
        Ok(())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.limits.lock();
        open.total -= 1;
        if let Some(address) = self.address {
            open.give_back(address);
        }
    }
}

/// The address a peer is counted under: none for loopback; for IPv6 its /64, which is what one
/// household or one rented machine has at its disposal (RFC 6177 §2).
fn counted(peer: IpAddr) -> Option<IpAddr> {
    match peer.to_canonical() {
        peer if peer.is_loopback() => None,
        IpAddr::V6(peer) => Some(IpAddr::V6(Ipv6Addr::from_bits(peer.to_bits() >> 64 << 64))),
        peer => Some(peer),
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
    fn a_peer_that_is_named_later_counts_from_then_on() {
        let limits = ConnectionLimits::new(3, 1);
        let mut one = limits.admit_unnamed().unwrap();
        let mut two = limits.admit_unnamed().unwrap();
        one.name(ip("192.0.2.1")).unwrap();
        assert_eq!(two.name(ip("192.0.2.1")).unwrap_err(), Refused::Address);
        one.name(ip("192.0.2.2")).unwrap();
        two.name(ip("192.0.2.1")).unwrap();
        drop((one, two));
        assert!(limits.open() == 0 && limits.lock().by_address.is_empty());
    }

    #[test]
    fn nothing_is_left_behind() {
        let limits = ConnectionLimits::new(10, 0);
        assert!(limits.admit(ip("192.0.2.1")).is_err());
        assert!(limits.lock().by_address.is_empty());
    }
}
