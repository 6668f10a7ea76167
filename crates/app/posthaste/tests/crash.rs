//! `kill -9` while mail comes in, again and again: what was acknowledged is there, once, byte for byte.

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
/// Kills. Each comes after another number of acknowledgements, so that it falls elsewhere in the work.
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

/// Every stored message by its serial, without the trace fields that delivery put before it.
fn stored(imap: SocketAddr) -> BTreeMap<usize, Vec<Vec<u8>>> {
    let mut client = LineClient::connect(imap).unwrap();
    client.line().unwrap();
    assert!(client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap().pop().unwrap().starts_with("t OK"));
    client.imap("EXAMINE INBOX").unwrap();
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
    let stored = stored(server.address("imap"));
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
