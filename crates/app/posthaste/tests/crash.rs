//! `kill -9` while mail comes in, again and again: what was acknowledged is there, once, byte for
//! byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_testkit::{LineClient, Server, ServerBuilder, command, dot_stuffed, message};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// Deliverers at once: enough that commits are grouped.
const DELIVERERS: usize = 4;
/// Kills. Each comes after another number of acknowledgements, so that it falls elsewhere in the
/// work.
const KILLS: usize = 8;

/// Delivers messages `serial()` until the connection breaks; every acknowledged serial is reported.
fn deliver(
    lmtp: SocketAddr,
    serial: impl Fn() -> usize,
    acknowledged: impl Fn(usize),
) -> std::io::Result<()> {
    let mut client = LineClient::connect(lmtp)?;
    client.reply()?;
    client.ask("LHLO test")?;
    loop {
        let serial = serial();
        client.ask("MAIL FROM:<bob@example.net>")?;
        client.ask(&format!("RCPT TO:<{USER}>"))?;
        client.ask("DATA")?;
        client.send(&dot_stuffed(&message(serial)))?;
        let reply = client.reply()?;
        assert!(reply.starts_with("250"), "message {serial}: {reply}");
        acknowledged(serial);
    }
}

fn start(data: &Path) -> Server {
    ServerBuilder::new(BINARY).data(data).listen("imap=127.0.0.1:0").listen("lmtp=127.0.0.1:0").start()
}

fn login(imap: SocketAddr) -> LineClient {
    let mut client = LineClient::connect(imap).unwrap();
    client.line().unwrap();
    assert!(client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap().pop().unwrap().starts_with("t OK"));
    client
}

/// Every stored message of a mailbox by its serial, without the trace fields that delivery put
/// before it.
fn stored(imap: SocketAddr, mailbox: &str) -> BTreeMap<usize, Vec<Vec<u8>>> {
    let mut client = login(imap);
    client.imap(&format!("EXAMINE {mailbox}")).unwrap();
    client.send(b"f FETCH 1:* (BODY.PEEK[])\r\n").unwrap();
    let mut found: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    loop {
        let line = client.line().unwrap();
        if line.starts_with("f ") {
            // An empty mailbox has no `1:*`; anything else must have been answered in full.
            assert!(line.starts_with("f OK") || found.is_empty(), "{line}");
            return found;
        }
        let Some(size) = line.strip_suffix('}').and_then(|l| l.rsplit('{').next()) else { continue };
        let bytes = client.bytes(size.parse().unwrap()).unwrap();
        client.line().unwrap();
        let start = bytes.windows(6).position(|w| w == b"Date: ").expect("a Date field");
        let text = String::from_utf8_lossy(&bytes);
        let serial = text.split("X-Serial: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
        found.entry(serial).or_default().push(bytes[start..].to_vec());
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let added = command(BINARY.as_ref(), &data, &["account", "add", USER, "--password-stdin"], PASSWORD);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let next = AtomicUsize::new(0);
    let acknowledged = std::sync::Mutex::new(Vec::new());
    for round in 0..KILLS {
        let server = start(&data);
        let (lmtp, enough) = (server.address("lmtp"), acknowledged.lock().unwrap().len() + 5 + 13 * round);
        std::thread::scope(|scope| {
            for _ in 0..DELIVERERS {
                scope.spawn(|| {
                    // Ends with the connection: the server is about to be killed.
                    let _ = deliver(
                        lmtp,
                        || next.fetch_add(1, Ordering::Relaxed),
                        |serial| acknowledged.lock().unwrap().push(serial),
                    );
                });
            }
            while acknowledged.lock().unwrap().len() < enough {
                std::thread::yield_now();
            }
            server.kill();
        });
    }
    let server = start(&data);
    let stored = stored(server.address("imap"), "INBOX");
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() >= 5 * KILLS);
    for serial in &acknowledged {
        let copies = stored.get(serial).map_or(0, Vec::len);
        assert_eq!(copies, 1, "message {serial} was acknowledged and is there {copies} times");
    }
    for (serial, copies) in &stored {
        assert_eq!(copies.len(), 1, "message {serial} is there {} times", copies.len());
        assert_eq!(copies[0], message(*serial), "message {serial} came back altered");
    }
    let check = server.command(&["check"], "");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

/// Messages that are moved to and fro while the server is killed.
const MOVED: usize = 60;

/// Moves everything from one mailbox to the other and back until the connection breaks; each answer
/// is reported.
fn move_to_and_fro(imap: SocketAddr, acknowledged: impl Fn()) -> std::io::Result<()> {
    let mut client = LineClient::connect(imap)?;
    client.line()?;
    client.imap(&format!("LOGIN {USER} \"{PASSWORD}\""))?;
    loop {
        for (from, to) in [("INBOX", "Archive"), ("Archive", "INBOX")] {
            client.imap(&format!("SELECT {from}"))?;
            // In portions, so that a kill falls between two of them as well as into one.
            for set in ["1:20", "1:*"] {
                client.imap(&format!("MOVE {set} {to}"))?;
                acknowledged();
            }
        }
    }
}

/// Each of at least `known` messages is in one of both mailboxes, or in at most this many; answers
/// with their number.
fn messages_in_one(imap: SocketAddr, known: usize, most: usize) -> usize {
    let mut times: BTreeMap<usize, usize> = BTreeMap::new();
    for mailbox in ["INBOX", "Archive"] {
        for (serial, copies) in stored(imap, mailbox) {
            *times.entry(serial).or_default() += copies.len();
        }
    }
    assert!(times.len() >= known, "of {known} messages {} are left", times.len());
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > most).collect();
    assert!(twice.is_empty(), "messages that are there more than {most} times: {twice:?}");
    times.len()
}

#[test]
fn each_message_is_in_one_mailbox_when_the_server_is_killed_during_moves() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = start(&data);
    server.add_account(USER, PASSWORD);
    let (next, moves) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (lmtp, next) = (server.address("lmtp"), &next);
        scope.spawn(move || deliver(lmtp, || next.fetch_add(1, Ordering::Relaxed), |_| {}));
        while next.load(Ordering::Relaxed) <= MOVED {
            std::thread::yield_now();
        }
        server.kill();
    });
    // On a cluster a move is two commits, and may leave a message in both.
    let most = if std::env::var_os("POSTHASTE_TEST_ENGINE").is_some() { 2 } else { 1 };
    let mut known = MOVED;
    for round in 0..KILLS {
        let server = start(&data);
        let imap = server.address("imap");
        known = messages_in_one(imap, known, most);
        let enough = moves.load(Ordering::Relaxed) + 1 + 3 * round;
        std::thread::scope(|scope| {
            // Ends with the connection: the server is about to be killed.
            scope.spawn(|| {
                move_to_and_fro(imap, || {
                    moves.fetch_add(1, Ordering::Relaxed);
                })
            });
            while moves.load(Ordering::Relaxed) < enough {
                std::thread::yield_now();
            }
            server.kill();
        });
    }
    let server = start(&data);
    messages_in_one(server.address("imap"), known, most);
    let check = server.command(&["check"], "");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}
