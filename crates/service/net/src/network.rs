//! The networks around an address. One person or company probably controls all addresses of such a
//! network.

use std::net::{IpAddr, Ipv6Addr};

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
}

#[cfg(test)]
mod tests {
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
}
