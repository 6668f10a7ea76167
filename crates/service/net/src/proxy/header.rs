//! The bytes of a PROXY header (HAProxy, `proxy-protocol.txt` §2): parsed, and printed for tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Longest header of version 1 with its CRLF: §2.1.
const V1_LENGTH_MAX: usize = 107;
const V1_START: &[u8] = b"PROXY ";
/// §2.2: contains bytes that no text protocol begins with.
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length of the rest.
const V2_FIXED: usize = 16;
/// Longest header that is taken. The format allows 65,551 bytes; the addresses need 232 at most,
/// and what proxies add (names, TLS facts, identifiers) is some hundred.
pub(crate) const LENGTH_MAX: usize = V2_FIXED + 4096;
const IPV4_ADDRESSES: usize = 12;
const IPV6_ADDRESSES: usize = 36;
const UNIX_ADDRESSES: usize = 216;

/// The client of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// For the proxy itself (LOCAL), or for a client without an IP address (UNKNOWN, UNSPEC, UNIX).
    Own,
    /// For a client.
    For {
        /// The client's address.
        source: SocketAddr,
        /// The address that the client connected to.
        destination: SocketAddr,
    },
}

/// The header at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// A header of this many bytes.
    Whole { length: usize, header: Header },
    /// The beginning of one. All bytes belong to it.
    Part,
}

/// Why a connection has no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Nothing, or not all of it, came in time.
    #[error("no complete header came within {0:?}")]
    Missing(Duration),
    /// The first bytes are something else.
    #[error("the connection begins with something else")]
    Other,
    /// Version 1, and not as §2.1 says.
    #[error("the line of version 1 is malformed")]
    Line,
    /// Version 2, and not as §2.2 says.
    #[error("the header of version 2 has an unknown command, family or transport, or too short a length")]
    Binary,
    /// Longer than we take.
    #[error("the header is longer than 4 KiB")]
    TooLong,
}

/// Reads the header that `bytes` begin with.
pub(crate) fn parse(bytes: &[u8]) -> Result<Prefix, Malformed> {
    if begins(bytes, V2_SIGNATURE) {
        binary(bytes)
    } else if begins(bytes, V1_START) {
        line(bytes)
    } else {
        Err(Malformed::Other)
    }
}

/// Whether the bytes begin with a mark, as far as they go.
fn begins(bytes: &[u8], mark: &[u8]) -> bool {
    let common = bytes.len().min(mark.len());
    bytes[..common] == mark[..common]
}

/// §2.1: `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443` CRLF, parted by single spaces.
fn line(bytes: &[u8]) -> Result<Prefix, Malformed> {
    let within = &bytes[..bytes.len().min(V1_LENGTH_MAX)];
    let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
        return if within.len() < V1_LENGTH_MAX { Ok(Prefix::Part) } else { Err(Malformed::Line) };
    };
    let text = within[..end].strip_suffix(b"\r").ok_or(Malformed::Line)?;
    let text = str::from_utf8(text).map_err(|_| Malformed::Line)?;
    let mut words = text.split(' ').skip(1);
    let mut word = || words.next().ok_or(Malformed::Line);
    let header = match word()? {
        // The rest of the line is ignored.
        "UNKNOWN" => Header::Own,
        family @ ("TCP4" | "TCP6") => {
            let ips = [ip(family, word()?)?, ip(family, word()?)?];
            let ports = [port(word()?)?, port(word()?)?];
            if words.next().is_some() {
                return Err(Malformed::Line);
            }
            Header::For {
                source: SocketAddr::new(ips[0], ports[0]),
                destination: SocketAddr::new(ips[1], ports[1]),
            }
        }
        _ => return Err(Malformed::Line),
    };
    Ok(Prefix::Whole { length: end + 1, header })
}

fn ip(family: &str, text: &str) -> Result<IpAddr, Malformed> {
    let ip: IpAddr = text.parse().map_err(|_| Malformed::Line)?;
    if ip.is_ipv4() == (family == "TCP4") { Ok(ip) } else { Err(Malformed::Line) }
}

/// Digits alone, without leading zeros.
fn port(text: &str) -> Result<u16, Malformed> {
    let port: u16 = text.parse().map_err(|_| Malformed::Line)?;
    if port.to_string() == text { Ok(port) } else { Err(Malformed::Line) }
}

/// §2.2: the fixed part, addresses as the family has them, and extensions (TLV), which are
/// skipped.
fn binary(bytes: &[u8]) -> Result<Prefix, Malformed> {
    let Some((fixed, rest)) = bytes.split_first_chunk::<V2_FIXED>() else { return Ok(Prefix::Part) };
    let [.., version_command, family, high, low] = *fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if !matches!(version_command, 0x20 | 0x21) {
        return Err(Malformed::Binary);
    }
    if V2_FIXED + length > LENGTH_MAX {
        return Err(Malformed::TooLong);
    }
    // LOCAL: the address family is ignored.
    let needed = match family {
        _ if version_command == 0x20 => 0,
        0x00 => 0,
        0x11 => IPV4_ADDRESSES,
        0x21 => IPV6_ADDRESSES,
        0x31 => UNIX_ADDRESSES,
        // Datagrams do not come by TCP.
        _ => return Err(Malformed::Binary),
    };
    if length < needed {
        return Err(Malformed::Binary);
    }
    let Some(block) = rest.get(..length) else { return Ok(Prefix::Part) };
    let header = match needed {
        IPV4_ADDRESSES => addresses::<4, IPV4_ADDRESSES>(block, |ip| Ipv4Addr::from_octets(ip).into())?,
        IPV6_ADDRESSES => addresses::<16, IPV6_ADDRESSES>(block, |ip| Ipv6Addr::from_octets(ip).into())?,
        _ => Header::Own,
    };
    Ok(Prefix::Whole { length: V2_FIXED + length, header })
}

/// Both IP addresses of `N` bytes, then both ports.
fn addresses<const N: usize, const ALL: usize>(
    block: &[u8],
    ip: impl Fn([u8; N]) -> IpAddr,
) -> Result<Header, Malformed> {
    let end = |ip_at: usize, port_at: usize| {
        let octets = block.get(ip_at..)?.first_chunk::<N>()?;
        let port = block.get(port_at..)?.first_chunk::<2>()?;
        Some(SocketAddr::new(ip(*octets), u16::from_be_bytes(*port)))
    };
    match (end(0, 2 * N), end(N, ALL - 2)) {
        (Some(source), Some(destination)) => Ok(Header::For { source, destination }),
        _ => Err(Malformed::Binary),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::{one_of, properties};
    use proptest::prelude::*;

    use super::*;

    fn print_v1(header: &Header) -> Vec<u8> {
        match header {
            Header::Own => b"PROXY UNKNOWN\r\n".to_vec(),
            Header::For { source, destination } => {
                let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
                let (from, to) = (source.ip(), destination.ip());
                let ports = (source.port(), destination.port());
                format!("PROXY {family} {from} {to} {} {}\r\n", ports.0, ports.1).into_bytes()
            }
        }
    }

    fn print_v2(header: &Header, extensions: &[u8]) -> Vec<u8> {
        let mut block = Vec::new();
        let (command, family) = match header {
            Header::Own => (0x20, 0x00),
            Header::For { source, destination } => {
                for end in [source, destination] {
                    match end.ip() {
                        IpAddr::V4(ip) => block.extend(ip.octets()),
                        IpAddr::V6(ip) => block.extend(ip.octets()),
                    }
                }
                block.extend(source.port().to_be_bytes());
                block.extend(destination.port().to_be_bytes());
                (0x21, if source.is_ipv4() { 0x11 } else { 0x21 })
            }
        };
        block.extend(extensions);
        let mut bytes = V2_SIGNATURE.to_vec();
        bytes.extend([command, family]);
        bytes.extend(u16::try_from(block.len()).unwrap().to_be_bytes());
        bytes.extend(block);
        bytes
    }

    fn headers() -> impl Strategy<Value = Header> {
        let pair = |source, destination| Header::For { source, destination };
        let v4 = || {
            any::<(u32, u16)>().prop_map(|(ip, port)| SocketAddr::new(Ipv4Addr::from_bits(ip).into(), port))
        };
        let v6 = || {
            any::<(u128, u16)>().prop_map(|(ip, port)| SocketAddr::new(Ipv6Addr::from_bits(ip).into(), port))
        };
        one_of![
            Just(Header::Own),
            (v4(), v4()).prop_map(move |(one, two)| pair(one, two)),
            (v6(), v6()).prop_map(move |(one, two)| pair(one, two)),
        ]
    }

    properties! {
        /// Whatever follows, and also if it comes in parts.
        #[test]
        fn what_is_printed_is_parsed(
            header in headers(),
            extensions in prop::collection::vec(any::<u8>(), 0..300),
            following in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            for printed in [print_v1(&header), print_v2(&header, &extensions)] {
                let length = printed.len();
                for part in 0..length {
                    prop_assert_eq!(parse(&printed[..part]), Ok(Prefix::Part));
                }
                let all = [printed, following.clone()].concat();
                prop_assert_eq!(parse(&all), Ok(Prefix::Whole { length, header }));
            }
        }

        /// A header that is found lies within the bytes. An incomplete one is shorter than the
        /// longest header.
        #[test]
        fn nothing_is_longer_than_its_bound(
            start in one_of![Just(V1_START.to_vec()), Just(V2_SIGNATURE.to_vec()), Just(b"PROXY TCP4 ".to_vec())],
            rest in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let bytes = [start, rest].concat();
            match parse(&bytes) {
                Ok(Prefix::Whole { length, .. }) => prop_assert!(length <= bytes.len()),
                Ok(Prefix::Part) => prop_assert!(bytes.len() < LENGTH_MAX),
                Err(_) => {}
            }
        }
    }

    #[test]
    fn lines_are_read_strictly() {
        let longest = "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535 ignored\r\n";
        assert!(matches!(parse(longest.as_bytes()), Ok(Prefix::Whole { header: Header::Own, .. })));
        for bad in [
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 2\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n",
            "PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 01 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 65536 2\r\n",
            "PROXY TCP4 2001:db8::1 198.51.100.1 1 2\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY \r\n",
        ] {
            assert_eq!(parse(bad.as_bytes()), Err(Malformed::Line), "{bad}");
        }
        let endless = [b'x'; V1_LENGTH_MAX];
        let endless = [V1_START, &endless[V1_START.len()..]].concat();
        assert_eq!(parse(&endless[..V1_LENGTH_MAX - 1]), Ok(Prefix::Part));
        assert_eq!(parse(&endless), Err(Malformed::Line));
        for other in ["a LOGIN x y\r\n", "proxy TCP4", "PROXYX", "\r\n\r\nx", "\x16\x03\x01"] {
            assert_eq!(parse(other.as_bytes()), Err(Malformed::Other), "{other:?}");
        }
    }

    #[test]
    fn binary_headers_are_read_strictly() {
        let of = |command: u8, family: u8, length: u16| {
            let mut bytes = V2_SIGNATURE.to_vec();
            bytes.extend([command, family]);
            bytes.extend(length.to_be_bytes());
            bytes.resize(bytes.len() + usize::from(length), 7);
            parse(&bytes)
        };
        let own = |length| Ok(Prefix::Whole { length, header: Header::Own });
        assert_eq!(of(0x20, 0x11, 0), own(16));
        assert_eq!(of(0x20, 0xff, 12), own(28));
        assert_eq!(of(0x21, 0x00, 5), own(21));
        assert_eq!(of(0x21, 0x31, 216), own(232));
        assert_eq!(of(0x21, 0x00, 4096), own(LENGTH_MAX));
        assert_eq!(of(0x21, 0x00, 4097), Err(Malformed::TooLong));
        for (command, family, length) in [
            (0x21, 0x11, 11),
            (0x21, 0x21, 35),
            (0x21, 0x31, 215),
            (0x21, 0x12, 12),
            (0x22, 0x11, 12),
            (0x11, 0x11, 12),
        ] {
            assert_eq!(
                of(command, family, length),
                Err(Malformed::Binary),
                "{command:x} {family:x} {length}"
            );
        }
    }
}
