//! A client's view of a mailbox, and a deliverer that never stops.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test program uses some of it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use posthaste_testkit::{LineClient, dot_stuffed, message};

/// Everybody's password.
pub const PASSWORD: &str = "correct horse";

/// A session.
pub fn login(imap: SocketAddr, user: &str) -> LineClient {
    let mut client = LineClient::connect(imap).unwrap();
    client.line().unwrap();
    let answer = client.imap(&format!("LOGIN {user} \"{PASSWORD}\"")).unwrap();
    assert!(answer.last().unwrap().starts_with("t OK"), "{user}: {answer:?}");
    client
}

/// Messages of a mailbox by STATUS; 0 if it is not there.
pub fn count(client: &mut LineClient, mailbox: &str) -> usize {
    let answer = client.imap(&format!("STATUS {mailbox} (MESSAGES)")).unwrap();
    let number = answer.iter().find_map(|line| line.split("(MESSAGES ").nth(1));
    number.map_or(0, |rest| rest.trim_end_matches(')').parse().unwrap())
}

/// UIDVALIDITY, and of each message UID, flags, dates, size and mod-sequence in a line, and its
/// octets.
pub fn seen(client: &mut LineClient, mailbox: &str) -> (String, Vec<(String, Vec<u8>)>) {
    let examined = client.imap(&format!("EXAMINE {mailbox} (CONDSTORE)")).unwrap();
    assert!(examined.last().unwrap().starts_with("t OK"), "{examined:?}");
    let validity = examined.iter().find(|line| line.contains("UIDVALIDITY")).unwrap().clone();
    let mut found = Vec::new();
    if examined.iter().any(|line| line == "* 0 EXISTS") {
        return (validity, found);
    }
    client.send(b"f FETCH 1:* (UID FLAGS INTERNALDATE RFC822.SIZE MODSEQ BODY.PEEK[])\r\n").unwrap();
    loop {
        let line = client.line().unwrap();
        if line.starts_with("f ") {
            assert!(line.starts_with("f OK"), "{line}");
            return (validity, found);
        }
        let Some(size) = line.strip_suffix('}').and_then(|l| l.rsplit('{').next()) else { continue };
        let bytes = client.bytes(size.parse().unwrap()).unwrap();
        let rest = client.line().unwrap();
        // Whether a message is recent is a matter of the session.
        found.push((format!("{line}{rest}").replace(" \\Recent", "").replace("\\Recent", ""), bytes));
    }
}

/// How often each serial is in a mailbox; every message is the one of its serial, byte for byte,
/// after trace fields.
pub fn serials(client: &mut LineClient, mailbox: &str) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    for (_, bytes) in seen(client, mailbox).1 {
        let text = String::from_utf8_lossy(&bytes);
        let serial: usize = text.split("X-Serial: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        assert!(bytes.ends_with(&message(serial)), "message {serial} is altered");
        *found.entry(serial).or_insert(0) += 1;
    }
    found
}

/// Delivers messages `first`, `first + 1`, … to each of `users` in turn until it is stopped; how
/// many serials all of them have.
pub fn deliver_until(lmtp: SocketAddr, users: &[&str], first: usize, stop: &AtomicBool) -> usize {
    let mut client = LineClient::connect(lmtp).unwrap();
    client.reply().unwrap();
    client.ask("LHLO test").unwrap();
    let mut serial = first;
    while !stop.load(Ordering::Acquire) {
        for user in users {
            client.ask("MAIL FROM:<bob@example.net>").unwrap();
            client.ask(&format!("RCPT TO:<{user}>")).unwrap();
            client.ask("DATA").unwrap();
            client.send(&dot_stuffed(&message(serial))).unwrap();
            let reply = client.reply().unwrap();
            assert!(reply.starts_with("250"), "message {serial}: {reply}");
        }
        serial += 1;
    }
    serial - first
}
