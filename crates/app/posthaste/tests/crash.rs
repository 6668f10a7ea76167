//! `kill -9` while mail comes in, again and again: every acknowledged message is there, once, byte
//! for byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use posthaste_testkit::{
    Acknowledged, LineClient, Server, ServerBuilder, command, dot_stuffed, message, on_cluster,
};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// Deliverers at once: enough that commits are grouped.
const DELIVERERS: usize = 4;
/// How long a busy cluster may refuse to open a mailbox.
const TIMEOUT: Duration = Duration::from_secs(60);
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
        let recipient = format!("RCPT TO:<{USER}>");
        let accepted = accepts(serial, &client.ask("MAIL FROM:<bob@example.net>")?)
            && accepts(serial, &client.ask(&recipient)?)
            && accepts(serial, &client.ask("DATA")?);
        if accepted {
            client.send(&dot_stuffed(&message(serial)))?;
            if accepts(serial, &client.reply()?) {
                acknowledged(serial);
                continue;
            }
        }
        client.ask("RSET")?;
    }
}

/// Whether the server accepts the command. Only a busy cluster may refuse one, and only for a
/// while; its message may be stored, so it is not sent again.
fn accepts(serial: usize, reply: &str) -> bool {
    let refused = on_cluster() && reply.starts_with('4');
    assert!(refused || reply.starts_with(['2', '3']), "message {serial}: {reply}");
    if refused {
        eprintln!("message {serial}: {reply}");
    }
    !refused
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
    let deadline = Instant::now() + TIMEOUT;
    while !succeeds(&mut client, &format!("EXAMINE {mailbox}")).unwrap() {
        assert!(Instant::now() < deadline, "{mailbox} cannot be opened");
    }
    client.send(b"f FETCH 1:* (BODY.PEEK[])\r\n").unwrap();
    let mut found: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    loop {
        let line = client.line().unwrap();
        if line.starts_with("f ") {
            // `1:*` of an empty mailbox is BAD. All else must have been answered in full.
            let empty = line.starts_with("f BAD") && found.is_empty();
            assert!(line.starts_with("f OK") || empty, "{line}");
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
        let (lmtp, enough) = (server.address("lmtp"), 5 + 13 * round);
        server.kill_at_work(
            enough,
            std::iter::repeat_n(
                |report: &Acknowledged| {
                    let serial = || next.fetch_add(1, Ordering::Relaxed);
                    deliver(lmtp, serial, |serial| {
                        acknowledged.lock().unwrap().push(serial);
                        report.count();
                    })
                },
                DELIVERERS,
            ),
        );
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

/// Moves everything from one mailbox to the other and back until the connection breaks; each MOVE
/// that succeeds is reported.
fn move_to_and_fro(imap: SocketAddr, report: &Acknowledged) -> std::io::Result<()> {
    let mut client = LineClient::connect(imap)?;
    client.line()?;
    succeeds(&mut client, &format!("LOGIN {USER} \"{PASSWORD}\""))?;
    loop {
        for (from, to) in [("INBOX", "Archive"), ("Archive", "INBOX")] {
            if !succeeds(&mut client, &format!("SELECT {from}"))? {
                continue;
            }
            // In portions, so that a kill falls between two of them as well as into one.
            for set in ["1:20", "1:*"] {
                if succeeds(&mut client, &format!("MOVE {set} {to}"))? {
                    report.count();
                }
            }
        }
    }
}

/// Whether a command succeeds. Only a busy cluster may answer NO.
fn succeeds(client: &mut LineClient, command: &str) -> std::io::Result<bool> {
    let answer = client.imap(command)?.pop().unwrap_or_default();
    let succeeded = answer.starts_with("t OK");
    // After a kill, or after the first portion, a mailbox may have fewer messages than the set.
    let fewer = command.starts_with("MOVE ") && answer.contains("BAD There is no message");
    let refused = on_cluster() && answer.starts_with("t NO");
    assert!(succeeded || fewer || refused, "{command}: {answer}");
    if refused {
        eprintln!("{command}: {answer}");
    }
    Ok(succeeded)
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
    let next = AtomicUsize::new(0);
    let lmtp = server.address("lmtp");
    server.kill_at_work(
        MOVED,
        [|report: &Acknowledged| deliver(lmtp, || next.fetch_add(1, Ordering::Relaxed), |_| report.count())],
    );
    // On a cluster a move is two commits, and may leave a message in both.
    let most = if on_cluster() { 2 } else { 1 };
    let mut known = MOVED;
    for round in 0..KILLS {
        let server = start(&data);
        let imap = server.address("imap");
        known = messages_in_one(imap, known, most);
        server.kill_at_work(1 + 3 * round, [|report: &Acknowledged| move_to_and_fro(imap, report)]);
    }
    let server = start(&data);
    messages_in_one(server.address("imap"), known, most);
    let check = server.command(&["check"], "");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}
