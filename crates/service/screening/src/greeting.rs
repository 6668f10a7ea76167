//! The name that a host gives itself in EHLO or HELO (RFC 5321 §4.1.1.1, §4.1.4).

use std::net::{IpAddr, Ipv6Addr};

/// Which greetings are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GreetingRule {
    /// No check of greetings.
    Off,
    /// Our own name, and another host's address.
    #[default]
    Basic,
    /// Also a name without a dot, which no host of the Internet has.
    Strict,
}

/// A fault of a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GreetingFault {
    /// It is ours.
    #[error("the name in your EHLO is this server's own")]
    Ours,
    /// It is an address, and not the client's.
    #[error("the address in your EHLO is not the one that you connect from")]
    Address,
    /// It has no dot.
    #[error("the name in your EHLO is not a full domain name")]
    NotQualified,
}

impl GreetingRule {
    /// The verdict on the name of a host at this address, where `ours` is our own name.
    ///
    /// RFC 5321 §4.1.4 forbids refusing a name because DNS has another address for it. That is
    /// not checked here: nothing is looked up.
    pub fn check(self, name: &str, address: IpAddr, ours: &str) -> Result<(), GreetingFault> {
        if self == Self::Off {
            return Ok(());
        }
        if let Some(literal) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return if literal_is(literal, address) { Ok(()) } else { Err(GreetingFault::Address) };
        }
        let name = name.trim_end_matches('.');
        if !ours.is_empty() && ours != "localhost" && name.eq_ignore_ascii_case(ours) {
            return Err(GreetingFault::Ours);
        }
        if self == Self::Strict && !name.contains('.') {
            return Err(GreetingFault::NotQualified);
        }
        Ok(())
    }
}

/// Whether an address literal (RFC 5321 §4.1.3) is this address. A host behind address
/// translation knows only a private address, so it may name that.
fn literal_is(literal: &str, address: IpAddr) -> bool {
    let tagged = literal.get(..5).filter(|tag| tag.eq_ignore_ascii_case("IPv6:"));
    let named: Option<IpAddr> = match tagged {
        Some(_) => literal.get(5..).and_then(|rest| rest.parse::<Ipv6Addr>().ok()).map(IpAddr::V6),
        None => literal.parse().ok().filter(IpAddr::is_ipv4),
    };
    named.is_some_and(|named| named.to_canonical() == address || is_private(named))
}

/// RFC 1918 and RFC 4193.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_name_and_the_addresses_of_others_are_refused() {
        let from: IpAddr = "192.0.2.7".parse().unwrap();
        let basic = |name: &str| GreetingRule::Basic.check(name, from, "mx.example.org");
        assert_eq!(basic("MX.example.org"), Err(GreetingFault::Ours));
        assert_eq!(basic("mx.example.org."), Err(GreetingFault::Ours));
        assert_eq!(basic("[192.0.2.8]"), Err(GreetingFault::Address));
        assert_eq!(basic("[2001:db8::1]"), Err(GreetingFault::Address), "without its tag");
        assert_eq!(basic("[nonsense]"), Err(GreetingFault::Address));
        for good in ["[192.0.2.7]", "[IPv6:::ffff:192.0.2.7]", "[10.1.2.3]", "mail", "smtp.example.net"] {
            assert_eq!(basic(good), Ok(()), "{good}");
        }
        let strict = |name: &str| GreetingRule::Strict.check(name, from, "mx.example.org");
        assert_eq!(strict("mail"), Err(GreetingFault::NotQualified));
        assert_eq!(strict("smtp.example.net"), Ok(()));
        assert_eq!(GreetingRule::Off.check("mx.example.org", from, "mx.example.org"), Ok(()));
        assert_eq!(GreetingRule::Basic.check("localhost", from, "localhost"), Ok(()));
    }
}
