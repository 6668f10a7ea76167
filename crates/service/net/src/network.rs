//! The networks around an address. One person or company probably controls all addresses of such a
//! network.

use std::net::{IpAddr, Ipv6Addr};

/// The bits of an IPv6 address that make its share: the /32, and the last digit of the /48.
const SHARE_BITS_V6: u128 = 0xffff_ffff_000f << 80;

/// An address and the networks around it, the narrowest first. In IPv6 a rented machine has a /64,
/// a home a /56, a company site a /48 (RFC 6177 §2). In IPv4 a /24 can be rented at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiers([Option<IpAddr>; 3]);

impl Tiers {
    /// The tiers of an address. Loopback has itself alone: its users have no bounds.
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        match address {
            _ if address.is_loopback() => Self([Some(address), None, None]),
            IpAddr::V4(v4) => {
                Self([Some(address), None, Some(IpAddr::V4((u32::from(v4) & 0xffff_ff00).into()))])
            }
            IpAddr::V6(v6) => Self([64, 56, 48].map(|bits| {
                let first = v6.to_bits() >> (128 - bits) << (128 - bits);
                Some(IpAddr::V6(Ipv6Addr::from_bits(first)))
            })),
        }
    }

    /// The networks by tier: /64, /56 and /48 in IPv6; the address, `None` and the /24 in IPv4.
    /// Networks of two tiers can begin with the same address.
    pub fn all(self) -> [Option<IpAddr>; 3] {
        self.0
    }

    /// The first address of the widest network.
    pub fn widest(self) -> IpAddr {
        let [narrow, middle, wide] = self.0;
        wide.or(middle).or(narrow).unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
    }

    /// The key of the share that the networks have where shares take turns: the /24 in IPv4. In
    /// IPv6 one person can rent hundreds of /48s. So all /48s of a /32 have at most 16 shares.
    pub fn share(self) -> IpAddr {
        match self.widest() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & SHARE_BITS_V6))
            }
            widest => widest,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tiers_of_addresses() {
        let tiers = |text: &str| {
            let all = Tiers::of(text.parse().unwrap()).all();
            all.map(|tier| tier.map_or_else(String::new, |first| first.to_string()))
        };
        assert_eq!(tiers("2001:db8:a:bcde:1::1"), ["2001:db8:a:bcde::", "2001:db8:a:bc00::", "2001:db8:a::"]);
        assert_eq!(tiers("::ffff:192.0.2.7"), ["192.0.2.7", "", "192.0.2.0"]);
        assert_eq!(tiers("127.0.0.9"), ["127.0.0.9", "", ""]);
        assert_eq!(tiers("::1"), ["::1", "", ""]);
        assert_eq!(Tiers::of("::1".parse().unwrap()).widest().to_string(), "::1");
        assert_eq!(Tiers::of("192.0.2.7".parse().unwrap()).widest().to_string(), "192.0.2.0");
    }

    #[test]
    fn the_networks_of_one_ipv6_provider_have_a_few_shares() {
        let share = |text: &str| Tiers::of(text.parse().unwrap()).share().to_string();
        assert_eq!(share("192.0.2.7"), "192.0.2.0");
        assert_eq!(share("::1"), "::1");
        assert_eq!(share("2001:db8:ab1c:1::1"), "2001:db8:c::");
        let all: HashSet<_> = (0..=0xffff).map(|n| share(&format!("2001:db8:{n:x}::1"))).collect();
        assert_eq!(all.len(), 16);
        assert_ne!(share("2001:db9:1::1"), share("2001:db8:1::1"));
    }
}
