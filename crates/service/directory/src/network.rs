//! A range of addresses, as configurations write it: `10.0.0.0/8`, `2001:db8::/32`, or one address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    /// Leading bits that all its addresses have in common.
    bits: u8,
}

impl Network {
    /// The network of `bits` leading bits that an address is in.
    pub(crate) fn of(address: IpAddr, bits: u8) -> Self {
        match address {
            IpAddr::V4(v4) => {
                let bits = bits.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                Self { first: IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask)), bits }
            }
            IpAddr::V6(v6) => {
                let bits = bits.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                Self { first: IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask)), bits }
            }
        }
    }

    /// Whether an address is in it. An IPv4 address written as IPv6 (RFC 4291 §2.5.5.2) counts as
    /// IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && Self::of(address, self.bits) == *self
    }

    /// The first address of the network.
    pub(crate) const fn first(&self) -> IpAddr {
        self.first
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a network; write 10.0.0.0/8, 2001:db8::/32 or one address");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most {
            return Err(wrong());
        }
        let network = Self::of(address, bits);
        if network.first != address {
            return Err(format!("`{text}` names an address inside a network; write {network}"));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_hold_their_addresses() {
        let holds = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(holds("2001:db8::/56", "2001:db8:0:ff::1") && !holds("2001:db8::/56", "2001:db8:0:100::1"));
        assert!(holds("0.0.0.0/0", "192.0.2.1") && !holds("0.0.0.0/0", "::2"));
        assert!(holds("192.0.2.7", "192.0.2.7") && !holds("192.0.2.7", "192.0.2.8"));
        assert!(holds("::/0", "2001:db8::1"));
        for (text, word) in [
            ("ten", "is not a network"),
            ("10.0.0.0/33", "is not a network"),
            ("10.0.0.1/8", "write 10.0.0.0/8"),
        ] {
            assert!(text.parse::<Network>().unwrap_err().contains(word), "{text}");
        }
    }
}
