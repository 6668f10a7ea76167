//! The network between this machine and an agent's.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};

use posthaste_load_results::{Network, Offered};

use crate::waits::boot;

/// Bytes a second of one megabit a second.
const BYTES_OF_MEGABIT: u64 = 125_000;

/// The way to a machine. `there` is the start that it names; one without a name is another machine.
pub fn network(peer: &io::Result<IpAddr>, there: &str) -> Offered<Network> {
    let here = boot();
    if !here.is_empty() && here == there {
        return Offered::Value(Network::Loopback);
    }
    let speed = match peer {
        Ok(peer) if peer.is_loopback() => {
            Err("the agent is reached through a forwarded port, so the link is not known".to_owned())
        }
        Ok(peer) => interface(*peer).and_then(|interface| speed(&interface)),
        Err(error) => Err(error.to_string()),
    };
    speed.map_or_else(Offered::NotOffered, |bytes| Offered::Value(Network::Link(bytes)))
}

/// The other end of a connection.
pub fn peer(stream: &TcpStream) -> io::Result<IpAddr> {
    stream.peer_addr().map(|address| address.ip().to_canonical())
}

/// Bytes a second of an interface. Virtual ones have no speed.
fn speed(interface: &str) -> Result<u64, String> {
    let found = fs::read_to_string(format!("/sys/class/net/{interface}/speed"));
    let megabits = found.ok().and_then(|text| text.trim().parse::<u64>().ok());
    let megabits = megabits.filter(|n| *n > 0 && *n < u64::from(u32::MAX));
    megabits.map(|n| n * BYTES_OF_MEGABIT).ok_or_else(|| format!("{interface} does not say how fast it is"))
}

/// The interface through which packets to an address leave.
fn interface(to: IpAddr) -> Result<String, String> {
    let table = |file: &str| fs::read_to_string(file).map_err(|e| format!("{file}: {e}"));
    let found = match to {
        IpAddr::V4(to) => of_route4(&table("/proc/net/route")?, to),
        IpAddr::V6(to) => of_route6(&table("/proc/net/ipv6_route")?, to),
    };
    found.ok_or_else(|| format!("no route to {to}"))
}

/// The route with the longest prefix. Addresses are the bytes on the wire, as a number of this
/// machine's order: `eth0 0001A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0`.
fn of_route4(table: &str, to: Ipv4Addr) -> Option<String> {
    let to = u32::from_ne_bytes(to.octets());
    let route = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let (net, mask) = (number(1)?, number(7)?);
        (to & mask == net).then(|| Some((mask.count_ones(), (*words.first()?).to_owned())))?
    };
    table.lines().filter_map(route).max_by_key(|(bits, _)| *bits).map(|(_, interface)| interface)
}

/// The same of IPv6: destination, length of its prefix, …, and the interface at the end.
fn of_route6(table: &str, to: Ipv6Addr) -> Option<String> {
    let to = u128::from_be_bytes(to.octets());
    let route = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let net = u128::from_str_radix(words.first()?, 16).ok()?;
        let bits = u32::from_str_radix(words.get(1)?, 16).ok()?;
        let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
        let interface = words.last().filter(|name| **name != "lo")?;
        (to & mask == net & mask).then(|| (bits, (*interface).to_owned()))
    };
    table.lines().filter_map(route).max_by_key(|(bits, _)| *bits).map(|(_, interface)| interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_names_the_interface() {
        let number = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
        let line = |interface: &str, net: [u8; 4], mask: [u8; 4]| {
            format!("{interface}\t{}\t00000000\t0001\t0\t0\t0\t{}\t0\t0\t0\n", number(net), number(mask))
        };
        let table = format!(
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n{}{}",
            line("eth0", [0, 0, 0, 0], [0, 0, 0, 0]),
            line("eth1", [192, 168, 1, 0], [255, 255, 255, 0])
        );
        assert_eq!(of_route4(&table, Ipv4Addr::new(192, 168, 1, 9)).as_deref(), Some("eth1"));
        assert_eq!(of_route4(&table, Ipv4Addr::new(192, 168, 2, 9)).as_deref(), Some("eth0"));
        assert_eq!(of_route4("", Ipv4Addr::new(192, 168, 2, 9)), None);
    }

    #[test]
    fn routes_of_ipv6_are_read() {
        let rest =
            "00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 1 0 00000001";
        let table = format!(
            "20010db8000000000000000000000000 20 {rest}     eth1\n\
             00000000000000000000000000000000 00 {rest}     eth0\n\
             00000000000000000000000000000001 80 {rest}       lo\n"
        );
        let of = |address: &str| of_route6(&table, address.parse().unwrap());
        assert_eq!(
            (of("2001:db8::7").as_deref(), of("2001:db9::7").as_deref()),
            (Some("eth1"), Some("eth0"))
        );
    }

    #[test]
    fn one_machine_is_known_by_its_start() {
        let here = "127.0.0.1".parse::<IpAddr>().map_err(io::Error::other);
        if !boot().is_empty() {
            assert_eq!(network(&here, &boot()), Offered::Value(Network::Loopback));
        }
        // A forwarded port looks like this machine, and is another one.
        let Offered::NotOffered(why) = network(&here, "another") else { panic!() };
        assert!(why.contains("forwarded"), "{why}");
    }
}
