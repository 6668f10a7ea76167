//! The addresses that mail may be sent to when the DNS of an untrusted domain names them.
//!
//! A sender chooses the domain that a report goes to, and that domain's DNS chooses the address.
//! Without a rule, the DNS could make us connect to hosts that only we can reach: this machine, and
//! its internal network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use posthaste_directory::Network;

/// Addresses that DNS may name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reachable {
    /// Networks that are not public, and may be named nevertheless.
    allowed: Vec<Network>,
}

impl Reachable {
    /// Public addresses, and those of these networks.
    pub fn with(allowed: Vec<Network>) -> Self {
        Self { allowed }
    }

    /// Whether DNS may name an address. An IPv6 address that contains an IPv4 address is judged
    /// as that address.
    pub fn allows(&self, address: IpAddr) -> bool {
        let carried = carried(address);
        is_public(carried)
            || [address, carried].iter().any(|one| self.allowed.iter().any(|of| of.contains(*one)))
    }
}

/// The IPv4 address that packets to an IPv6 address reach in the end, or the address itself.
fn carried(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let v4 = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match [a, b, c, d, e, f] {
        // RFC 4291 §2.5.5.2: mapped; the system itself speaks IPv4 then.
        [0, 0, 0, 0, 0, 0xffff] |
        // RFC 6052 §2.1: through a NAT64.
        [0x64, 0xff9b, 0, 0, 0, 0] => v4(g, h),
        // RFC 3056 §2: 6to4.
        [0x2002, ..] => v4(b, c),
        _ => IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)),
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// The registry of RFC 6890 §2.2.2, as it is today, and multicast (RFC 5771).
fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let is_special = matches!(
        [a, b, c],
        [0 | 10 | 127, ..]           // this network, private, loopback
            | [100, 64..=127, _]     // shared (RFC 6598)
            | [169, 254, _]          // link-local
            | [172, 16..=31, _]      // private
            | [192, 0, 0 | 2]        // protocols, documentation
            | [192, 88, 99]          // 6to4 relays (RFC 7526)
            | [192, 168, _]          // private
            | [198, 18..=19, _]      // benchmarks
            | [198, 51, 100]         // documentation
            | [203, 0, 113]          // documentation
            | [224..=255, ..] // multicast, reserved, broadcast
    );
    !is_special
}

/// Global unicast (RFC 4291 §2.4) without what the registry of RFC 6890 §2.2.3 takes from it. So
/// loopback, unspecified, unique local, link-local and multicast addresses are not public.
fn is_public_v6(v6: Ipv6Addr) -> bool {
    let [a, b, ..] = v6.segments();
    let is_special = match (a, b) {
        // Protocols (RFC 2928), among them Teredo.
        (0x2001, b) if b < 0x200 => true,
        // Documentation (RFC 3849, RFC 9637).
        (0x2001, 0xdb8) => true,
        (0x3fff, b) => b < 0x1000,
        _ => false,
    };
    a >> 13 == 1 && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(reachable: &Reachable, address: &str) -> bool {
        reachable.allows(address.parse().unwrap())
    }

    #[test]
    fn only_what_is_public_can_be_named() {
        let reachable = Reachable::default();
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2001:200::1",
            "2a00:1450::1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
        ] {
            assert!(allows(&reachable, public), "{public}");
        }
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:1.1.1.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1.1.1.1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!allows(&reachable, private), "{private}");
        }
    }

    #[test]
    fn networks_can_be_allowed() {
        let reachable = Reachable::with(vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()]);
        for allowed in ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00::7", "1.1.1.1"] {
            assert!(allows(&reachable, allowed), "{allowed}");
        }
        for other in ["10.2.0.1", "127.0.0.1", "::1", "64:ff9b::10.2.0.1", "fc00::1"] {
            assert!(!allows(&reachable, other), "{other}");
        }
    }
}
