//! The bounds, who is closed for a newcomer, and the turns of connections that end.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::{Connection, NetError, Stream};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A connection of a stranger.
fn admit(limits: &ConnectionLimits, address: &str) -> Result<ConnectionPermit, Refused> {
    limits.admit(ip(address), Trust::Stranger)
}

/// A connection that has logged in.
fn logged_in(limits: &ConnectionLimits, address: &str) -> ConnectionPermit {
    let mut permit = admit(limits, address).unwrap();
    permit.log_in();
    permit
}

fn is_empty(limits: &ConnectionLimits) -> bool {
    let open = limits.lock();
    (open.total, open.strangers) == (0, 0) && open.by_network.is_empty() && open.closable.is_empty()
}

#[test]
fn counts_total_and_address() {
    let limits = ConnectionLimits::new(3, 2);
    let one = logged_in(&limits, "192.0.2.1");
    let _two = logged_in(&limits, "::ffff:192.0.2.1");
    assert_eq!(admit(&limits, "192.0.2.1").unwrap_err(), Refused::Address);
    let _three = logged_in(&limits, "198.51.100.2");
    assert_eq!(admit(&limits, "203.0.113.3").unwrap_err(), Refused::Total);
    assert_eq!(limits.admit(ip("127.0.0.1"), Trust::Trusted).unwrap_err(), Refused::Total);
    drop(one);
    assert_eq!(limits.open(), 2);
    assert!(admit(&limits, "192.0.2.1").is_ok());
}

#[test]
fn bounds_can_be_changed() {
    let limits = ConnectionLimits::new(2, 2);
    let _held = [logged_in(&limits, "192.0.2.1"), logged_in(&limits, "192.0.2.1")];
    limits.set(3, 1);
    assert_eq!(admit(&limits, "192.0.2.1").unwrap_err(), Refused::Address);
    let _third = logged_in(&limits, "198.51.100.2");
    limits.set(1, 9);
    assert_eq!(admit(&limits, "203.0.113.3").unwrap_err(), Refused::Total);
    assert_eq!(limits.open(), 3);
}

#[test]
fn strangers_over_a_lowered_bound_are_closed_two_for_one() {
    let limits = ConnectionLimits::new(16, 8);
    let mut held: Vec<_> = (0..12).map(|n| admit(&limits, &format!("10.{n}.0.1")).unwrap()).collect();
    limits.set(4, 2);
    for n in 0..20 {
        held.push(admit(&limits, &format!("10.{n}.1.1")).unwrap());
        assert!(limits.open() <= 12);
    }
    assert_eq!(limits.open(), 3);
}

#[test]
fn a_v6_network_is_one_address_and_loopback_none() {
    let limits = ConnectionLimits::new(10, 1);
    let _one = admit(&limits, "2001:db8::1").unwrap();
    assert!(admit(&limits, "2001:db8::2").is_err());
    let _other = admit(&limits, "2001:db8:0:1::1").unwrap();
    let _local: Vec<_> = (0..3).map(|_| admit(&limits, "127.0.0.1").unwrap()).collect();
    let trusted = |_| limits.admit(ip("192.0.2.1"), Trust::Trusted).unwrap();
    let _trusted: Vec<_> = (0..3).map(trusted).collect();
}

#[test]
fn the_networks_around_an_address_have_bounds() {
    let admitted = |total: usize, address: &dyn Fn(u32) -> String| {
        let limits = ConnectionLimits::new(total, 2);
        let held: Vec<_> = (0..1000).map_while(|n| admit(&limits, &address(n)).ok()).collect();
        held.len()
    };
    // Addresses of one /64; a /64 of the same /56 for each; a /56 of the same /48 for each.
    assert_eq!(admitted(10_000, &|n| format!("2001:db8:1:1::{n:x}")), 2);
    assert_eq!(admitted(10_000, &|n| format!("2001:db8:1:1{:02x}::1", n % 256)), 8);
    assert_eq!(admitted(10_000, &|n| format!("2001:db8:1:{:02x}00::1", n % 256)), 32);
    assert_eq!(admitted(10_000, &|n| format!("2001:db8:{n:x}::1")), 1000);
    assert_eq!(admitted(10_000, &|n| format!("192.0.2.{}", n % 256)), 32);
    // On a small server a network has three quarters of the total at most.
    assert_eq!(admitted(16, &|n| format!("192.0.2.{}", n % 256)), 12);
}

#[test]
fn an_address_has_half_of_a_small_server_by_default() {
    let of = [1, 16, 65, 199, 201, TOTAL_DEFAULT].map(per_address);
    assert_eq!(of, [1, 8, 33, 100, 100, 100]);
}

#[test]
fn a_peer_that_is_named_later_counts_from_then_on() {
    let limits = ConnectionLimits::new(8, 1);
    let mut one = limits.admit_unnamed(ip("127.0.0.1")).unwrap();
    let mut two = limits.admit_unnamed(ip("127.0.0.1")).unwrap();
    one.name(ip("192.0.2.1"), Trust::Stranger).unwrap();
    assert_eq!(two.name(ip("192.0.2.1"), Trust::Stranger).unwrap_err(), Refused::Address);
    one.name(ip("198.51.100.2"), Trust::Stranger).unwrap();
    two.name(ip("192.0.2.1"), Trust::Stranger).unwrap();
    let mut own = limits.admit_unnamed(ip("127.0.0.1")).unwrap();
    assert_eq!(limits.lock().strangers, 3);
    own.name(ip("127.0.0.1"), Trust::Stranger).unwrap();
    assert_eq!(limits.lock().strangers, 2);
    drop((one, two, own));
    assert!(is_empty(&limits));
}

#[test]
fn nothing_is_left_behind() {
    let limits = ConnectionLimits::new(10, 0);
    assert!(admit(&limits, "192.0.2.1").is_err());
    assert!(is_empty(&limits));
}

#[test]
fn the_oldest_stranger_of_the_largest_network_is_closed() {
    let limits = ConnectionLimits::new(8, 8);
    // Six places for strangers: one of a network, two of another, three of a third.
    let alone = admit(&limits, "203.0.113.1").unwrap();
    let two = ["198.51.100.1", "198.51.100.2"].map(|address| admit(&limits, address).unwrap());
    let many = [1, 2, 3].map(|n| admit(&limits, &format!("192.0.2.{n}")).unwrap());
    let first = admit(&limits, "10.0.0.1").unwrap();
    assert_eq!(first.closed_for_it(), Some(ip("192.0.2.0")));
    assert!(many[0].is_closed() && !many[1].is_closed());
    // Two of one network and two of another: the one with the older connection.
    let _second = admit(&limits, "10.0.1.1").unwrap();
    assert!(two[0].is_closed() && !many[1].is_closed());
    let _third = admit(&limits, "10.0.2.1").unwrap();
    assert!(many[1].is_closed());
    // One of each: the oldest.
    let _fourth = admit(&limits, "10.0.3.1").unwrap();
    assert!(alone.is_closed() && !two[1].is_closed() && !first.is_closed());
    assert_eq!(limits.open(), 6);
}

#[test]
fn a_connection_that_logs_in_makes_room_for_strangers_and_is_not_closed() {
    let limits = ConnectionLimits::new(8, 8);
    let mut users: Vec<_> = (0..6).map(|_| admit(&limits, "192.0.2.1").unwrap()).collect();
    users.iter_mut().for_each(ConnectionPermit::log_in);
    let strangers: Vec<_> = (0..100).map(|n| admit(&limits, &format!("10.{n}.0.1")).unwrap()).collect();
    assert!(users.iter().all(|user| !user.is_closed()));
    assert_eq!((limits.open(), strangers.iter().filter(|one| !one.is_closed()).count()), (8, 2));
    // UNAUTHENTICATE makes a stranger of it, and the latest one. There is room for six.
    users[0].log_out();
    let another = admit(&limits, "10.200.0.1").unwrap();
    assert!(strangers[98].is_closed() && !users[0].is_closed());
    drop((users, strangers, another));
    assert!(is_empty(&limits));
}

#[test]
fn a_logout_over_the_share_of_strangers_closes_one() {
    let limits = ConnectionLimits::new(8, 8);
    let mut user = logged_in(&limits, "192.0.2.1");
    let strangers: Vec<_> = (0..6).map(|n| admit(&limits, &format!("10.{n}.0.1")).unwrap()).collect();
    user.log_out();
    assert!(strangers[0].is_closed() && !user.is_closed());
    assert_eq!((limits.open(), limits.lock().strangers), (6, 6));
}

#[test]
fn a_message_that_is_being_delivered_keeps_its_connection() {
    let limits = ConnectionLimits::new(4, 4);
    let mut host = admit(&limits, "192.0.2.1").unwrap();
    let [second, third] = ["192.0.2.2", "192.0.2.3"].map(|address| admit(&limits, address).unwrap());
    assert!(host.work_begins());
    let _fourth = admit(&limits, "10.0.0.1").unwrap();
    assert!(second.is_closed() && !host.is_closed() && !third.is_closed());
    host.work_ends();
    // It is the oldest again.
    let _fifth = admit(&limits, "10.0.1.1").unwrap();
    assert!(host.is_closed() && !third.is_closed());
    assert!(!host.work_begins());
    // A session that did not notice that it is closed counts for nothing.
    host.work_ends();
    host.log_in();
    host.log_out();
    drop(host);
    assert_eq!(limits.open(), 3);
}

#[test]
fn trusted_peers_find_a_place_among_strangers() {
    let limits = ConnectionLimits::new(16, 8);
    let mut strangers: Vec<_> = (0..50).map(|n| admit(&limits, &format!("10.{n}.0.1")).unwrap()).collect();
    // Whatever the strangers do, a quarter is free for others.
    assert_eq!(limits.open(), 12);
    for one in &mut strangers {
        one.work_begins();
    }
    assert_eq!(admit(&limits, "10.99.0.1").unwrap_err(), Refused::Total);
    let mtas: Vec<_> = (0..4).map(|_| admit(&limits, "127.0.0.1").unwrap()).collect();
    strangers.iter_mut().for_each(ConnectionPermit::work_ends);
    // And more than a quarter, if strangers can be closed for them.
    let more: Vec<_> = (0..12).map(|_| admit(&limits, "127.0.0.1").unwrap()).collect();
    assert!(strangers.iter().all(ConnectionPermit::is_closed));
    assert_eq!((limits.open(), mtas.len() + more.len()), (16, 16));
    assert!(admit(&limits, "127.0.0.1").is_err());
}

/// The same numbers for each run (xorshift64).
fn numbers() -> impl FnMut(usize) -> usize {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    }
}

#[test]
fn no_connection_with_a_login_is_closed_and_newcomers_are_accepted() {
    let mut number = numbers();
    for total in [1, 2, 3, 16, 40] {
        let limits = ConnectionLimits::new(total, total);
        let mut held: Vec<ConnectionPermit> = Vec::new();
        for _ in 0..5000 {
            match (number(10), held.len()) {
                (0..=4, _) | (_, 0) => {
                    let peer = format!("10.{}.0.{}", number(9), number(3));
                    let peer = if number(10) == 0 { "127.0.0.1".to_owned() } else { peer };
                    let is_closable = !limits.lock().closable.is_empty();
                    match admit(&limits, &peer) {
                        Ok(permit) => held.push(permit),
                        Err(Refused::Total) => assert!(!is_closable, "a stranger could have been closed"),
                        Err(Refused::Address) => {}
                    }
                }
                (5, count) => held[number(count)].log_in(),
                (6, count) => held[number(count)].log_out(),
                (7, count) => {
                    held[number(count)].work_begins();
                }
                (8, count) => held[number(count)].work_ends(),
                (_, count) => drop(held.swap_remove(number(count))),
            }
            let open = limits.lock();
            let places = held.iter().map(|one| &one.0);
            let kept = places.clone().filter(|place| place.stage != Stage::Stranger).count();
            let closable = places.filter(|place| open.closable.has(place.network, place.number)).count();
            assert_eq!(open.total, kept + closable, "a connection with a login was closed");
            assert!(open.total <= total && open.strangers <= open.total);
        }
        drop(held);
        assert!(is_empty(&limits));
    }
}

#[test]
fn connections_take_turns_to_end() {
    // One that waits has a timer.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let limits = ConnectionLimits::default();
    let open: Vec<_> = (0..2 * ENDS_AT_ONCE + 4).map(|_| admit(&limits, "127.0.0.1").unwrap()).collect();
    let mut ends: Vec<_> = open.iter().map(|permit| Box::pin(permit.turn_to_end())).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut ended = Vec::new();
    while !ends.is_empty() {
        let before = ends.len();
        ends.retain_mut(|end| end.as_mut().poll(&mut context).is_pending());
        ended.push(before - ends.len());
    }
    // The last one of each round ends after all others were polled.
    assert_eq!(ended, [ENDS_AT_ONCE - 1, ENDS_AT_ONCE, 5]);
}

/// All turns are taken at first.
#[tokio::test]
async fn a_connection_without_a_login_ends_in_its_turn() {
    const WITHIN: Duration = Duration::from_secs(30);
    let limits = ConnectionLimits::default();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    let mut connection =
        Connection::new(Stream::plain(accepted).unwrap()).with_permit(admit(&limits, "127.0.0.1").unwrap());
    drop(client);
    connection.peer_left().await;
    let turns = limits.0.ends.all(ENDS_AT_ONCE as u32).await;
    let mut filled = pin!(connection.fill(1, WITHIN));
    // The end of the stream is there, and is read at the first poll.
    let first = poll_fn(|context| Poll::Ready(filled.as_mut().poll(context))).await;
    assert!(first.is_pending());
    assert!(turns.is_some());
    drop(turns);
    assert!(matches!(filled.await, Err(NetError::Closed)));
}
