//! Connections that come through a proxy and say so in a PROXY header. The headers are written by
//! hand from HAProxy's specification.

use std::net::SocketAddr;
use std::time::Duration;

use posthaste_net::{Accounts, Certificates, Connection, ConnectionLimits, LimitedAccount, Mode, Peers};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::peer::{LONG, Server, echo, expect, handshake, within};

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 143\r\n";
/// 192.0.2.7:56324 to 198.51.100.1:143, and an extension of type 0xEA.
const V2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x10\xc0\0\x02\x07\xc6\x33\x64\x01\xdc\x04\0\x8f\xea\0\x01x";
/// [2001:db8::7]:56324 to [2001:db8::1]:143.
const V2_IPV6: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\xdc\x04\0\x8f";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// Says whom it is for, and then sends back what comes.
async fn introduce(mut connection: Connection) {
    let ends = format!("{} {}\n", connection.peer(), connection.local());
    connection.write_all_within(ends.as_bytes(), LONG).await.unwrap();
    echo(connection).await;
}

fn behind_a_proxy(mode: Mode, certificates: Option<Certificates>) -> Server {
    let change = |options: &mut posthaste_net::ServeOptions| {
        options.proxies = Peers::new(|peer| peer.is_loopback());
        options.certificates = certificates;
        options.refusal = b"full";
    };
    Server::start(mode, change, introduce)
}

/// The bytes that are read until the server closes.
async fn all(stream: &mut TcpStream) -> Vec<u8> {
    let mut found = Vec::new();
    // A server that closes with bytes of ours unread resets the connection.
    let _ = within(stream.read_to_end(&mut found)).await;
    found
}

#[tokio::test]
async fn the_header_says_who_the_peer_is_and_nothing_behind_it_is_lost() {
    let server = behind_a_proxy(Mode::Plain, None);
    for (header, expected) in [
        (V1, "192.0.2.7:56324 198.51.100.1:143\n"),
        (V2, "192.0.2.7:56324 198.51.100.1:143\n"),
        (V2_IPV6, "[2001:db8::7]:56324 [2001:db8::1]:143\n"),
        (b"PROXY TCP6 ::ffff:192.0.2.7 2001:db8::1 9 143\r\n".as_slice(), "192.0.2.7:9 [2001:db8::1]:143\n"),
    ] {
        let mut client = server.connect().await;
        client.write_all(&[header, b"hello"].concat()).await.unwrap();
        expect(&mut client, expected.as_bytes()).await;
        expect(&mut client, b"hello").await;
    }
}

#[tokio::test]
async fn a_header_may_come_in_parts() {
    let server = behind_a_proxy(Mode::Plain, None);
    for header in [V1, V2] {
        let mut client = server.connect().await;
        client.set_nodelay(true).unwrap();
        for byte in header {
            client.write_all(std::slice::from_ref(byte)).await.unwrap();
            tokio::task::yield_now().await;
        }
        expect(&mut client, b"192.0.2.7:56324 198.51.100.1:143\n").await;
    }
}

#[tokio::test]
async fn a_header_with_long_extensions_is_read_to_its_end() {
    let server = behind_a_proxy(Mode::Plain, None);
    let mut header = V2[..28].to_vec();
    header[14..16].copy_from_slice(&4096_u16.to_be_bytes());
    header.resize(16 + 4096, 0);
    let mut client = server.connect().await;
    client.write_all(&[header.as_slice(), b"hello"].concat()).await.unwrap();
    expect(&mut client, b"192.0.2.7:56324 198.51.100.1:143\nhello").await;
}

#[tokio::test]
async fn a_proxy_may_speak_for_itself() {
    let server = behind_a_proxy(Mode::Plain, None);
    for header in [V2_LOCAL, b"PROXY UNKNOWN whatever\r\n"] {
        let mut client = server.connect().await;
        client.write_all(header).await.unwrap();
        let ends = format!("{} {}\n", client.local_addr().unwrap(), server.address);
        expect(&mut client, ends.as_bytes()).await;
    }
}

#[tokio::test]
async fn the_header_stands_before_the_handshake() {
    let certificates = Certificates::self_signed_in_memory("localhost").unwrap();
    let server = behind_a_proxy(Mode::ImplicitTls, Some(certificates.clone()));
    let mut client = server.connect().await;
    client.write_all(V2).await.unwrap();
    let mut client = handshake(client, &certificates).await.unwrap();
    expect(&mut client, b"192.0.2.7:56324 198.51.100.1:143\n").await;
    // Without a header the handshake is not answered.
    let bare = server.connect().await;
    assert!(handshake(bare, &certificates).await.is_err());
}

#[tokio::test]
async fn a_proxy_without_a_header_is_not_served() {
    let server = behind_a_proxy(Mode::Plain, None);
    for start in
        [b"a NOOP\r\n".as_slice(), b"PROXY TCP4 here there\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"]
    {
        let mut client = server.connect().await;
        client.write_all(start).await.unwrap();
        assert_eq!(all(&mut client).await, b"");
    }
    // One that says nothing, or not enough, is closed at the deadline.
    let change = |options: &mut posthaste_net::ServeOptions| {
        options.proxies = Peers::new(|_| true);
        options.proxy_header_within = Duration::from_millis(10);
    };
    let server = Server::start(Mode::Plain, change, introduce);
    for start in [b"".as_slice(), b"PROXY TCP4 192.0"] {
        let mut client = server.connect().await;
        client.write_all(start).await.unwrap();
        assert_eq!(all(&mut client).await, b"");
    }
}

#[tokio::test]
async fn a_header_from_elsewhere_is_the_sessions_business() {
    let server = Server::start(Mode::Plain, |_| {}, introduce);
    let mut client = server.connect().await;
    let own: SocketAddr = client.local_addr().unwrap();
    client.write_all(V1).await.unwrap();
    expect(&mut client, format!("{own} {}\n", server.address).as_bytes()).await;
    expect(&mut client, V1).await;
}

#[tokio::test]
async fn connections_count_for_the_address_in_the_header() {
    let change = |options: &mut posthaste_net::ServeOptions| {
        options.proxies = Peers::new(|peer| peer.is_loopback());
        options.limits = ConnectionLimits::new(10, 1);
        options.refusal = b"full";
    };
    let server = Server::start(Mode::Plain, change, introduce);
    let open = async |header: &[u8]| {
        let mut client = server.connect().await;
        client.write_all(header).await.unwrap();
        client
    };
    let mut first = open(V1).await;
    expect(&mut first, b"192.0.2.7:56324 ").await;
    let mut second = open(V2).await;
    assert_eq!(all(&mut second).await, b"full");
    let mut other = open(V2_IPV6).await;
    expect(&mut other, b"[2001:db8::7]:56324 ").await;
}

/// Says `hello`. After any input it has logged in, says so, and sends back what comes.
async fn user(mut connection: Connection) {
    connection.write_all_within(b"hello", LONG).await.unwrap();
    if connection.fill(100, LONG).await.is_err() {
        return;
    }
    connection.consume(100);
    let ana = LimitedAccount { id: [1; 16], name: "ana", own: None, version: 1 };
    let share = Accounts::default().admit(ana, connection.peer().ip()).unwrap();
    connection.belongs_to(share);
    connection.write_all_within(b"logged in", LONG).await.unwrap();
    echo(connection).await;
}

#[tokio::test]
async fn a_newcomer_has_the_place_of_a_stranger_and_never_that_of_a_user() {
    let limits = ConnectionLimits::new(4, 4);
    let counted = limits.clone();
    let change = |options: &mut posthaste_net::ServeOptions| {
        options.proxies = Peers::new(|peer| peer.is_loopback());
        options.limits = limits;
        options.refusal = b"full";
    };
    let server = Server::start(Mode::Plain, change, user);
    let open = async |from: &str| {
        let mut client = server.connect().await;
        client.write_all(format!("PROXY TCP4 {from} 198.51.100.1 9 143\r\n").as_bytes()).await.unwrap();
        expect(&mut client, b"hello").await;
        client
    };
    let log_in = async |client: &mut TcpStream| {
        client.write_all(b"password").await.unwrap();
        expect(client, b"logged in").await;
    };
    let mut ana = open("203.0.113.5").await;
    log_in(&mut ana).await;
    // Strangers of one network, and then one for each place again.
    let mut strangers = Vec::new();
    for n in 2..12 {
        strangers.push(open(&format!("192.0.2.{n}")).await);
    }
    assert_eq!(counted.open(), 4);
    for closed in &mut strangers[..7] {
        assert_eq!(all(closed).await, b"");
    }
    // A user of another network gets in, and one from the network of the strangers.
    let mut bo = open("203.0.113.1").await;
    log_in(&mut bo).await;
    let mut cleo = open("192.0.2.99").await;
    log_in(&mut cleo).await;
    for user in [&mut ana, &mut bo, &mut cleo] {
        user.write_all(b"still here").await.unwrap();
        expect(user, b"still here").await;
    }
    assert_eq!(counted.open(), 4);
}
