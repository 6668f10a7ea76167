//! One session's work keeps no other waiting: it is done once, in slices or on threads of its own,
//! and ends with the client.
//!
//! The server itself checks that no slice is too long. Where debug assertions are on, it panics,
//! and the session that should answer here ends.

use std::time::{Duration, Instant};

use posthaste_net::{AccountLimits, Accounts};
use posthaste_testkit::READ_WITHIN;

use crate::harness::{PASSWORD, Server, USER, fetch_text, search};

/// Words of 16 hexadecimal digits that do not repeat.
fn words(count: u64) -> impl Iterator<Item = String> {
    (1..=count).map(|n| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// A message of words, one a line.
fn text(count: u64) -> String {
    let lines: String = words(count).map(|word| word + "\r\n").collect();
    format!("Subject: words\r\nX-Own: yes\r\nReceived: by here\r\n\r\n{lines}")
}

#[test]
fn a_message_is_decoded_once_for_all_keys() {
    const WORDS: u64 = 40_000;
    let server = Server::start();
    server.put("INBOX", text(WORDS).as_bytes());
    let mut wire = server.select("INBOX");
    let present: Vec<String> = words(WORDS).step_by(57).map(|word| format!("BODY {word}")).collect();
    let all = format!("{} TEXT words HEADER Received here", present.join(" "));
    assert!(present.len() > 700 && all.len() < 64_000);
    assert_eq!(search(&mut wire, &all), "1");
    assert_eq!(server.service().messages_searched(), 1);
    // One of them is not in it, or only in the header.
    assert_eq!(search(&mut wire, &format!("{all} BODY absent")), "");
    assert_eq!(search(&mut wire, &format!("{all} BODY words")), "");
    assert_eq!(search(&mut wire, &format!("NOT BODY absent {all} NOT HEADER Received there")), "1");
    assert_eq!(server.service().messages_searched(), 4, "once a search");
}

/// Thousands of keys that are looked up in rows, summaries or sets.
#[test]
fn many_keys_of_other_kinds() {
    let server = Server::start();
    server.with_messages(300);
    let mut wire = server.select("INBOX");
    wire.run("C: a SEARCH RETURN (SAVE) NOT SUBJECT 7\nS: a OK …");
    for (key, expected) in [("$", false), ("1:*", true), ("SUBJECT number", true), ("LARGER 1", true)] {
        let keys = vec![key; 4000].join(" ");
        let numbers = search(&mut wire, &keys);
        assert_eq!(numbers.split(' ').count(), if expected { 300 } else { 300 - 57 }, "{key}");
    }
    // A field that the summary keeps, of the greatest length there is, and texts as long.
    let long = "Aä".repeat(5000);
    server.put("INBOX", format!("Subject: {long}\r\nX-Own: {long}\r\n\r\nbody").as_bytes());
    wire.run("C: b NOOP\nS~ b OK …");
    for key in ["SUBJECT zz", "HEADER X-Own zz"] {
        assert_eq!(search(&mut wire, &format!("UID 301 {key}")), "");
        let keys = vec![format!("NOT {key}"); 2000].join(" ");
        assert_eq!(search(&mut wire, &format!("UID 301 {keys}")), "301", "{key}");
    }
}

/// Copies the only message seven times, so that a search is not over before its end is noticed.
const EIGHT: &str =
    "C: c COPY 1 INBOX\nS~ c OK …\nC: c COPY 1:2 INBOX\nS~ c OK …\nC: c COPY 1:4 INBOX\nS~ c OK …";

#[test]
fn a_search_ends_with_its_client_and_keeps_nobody_waiting() {
    let server = Server::start();
    server.put("INBOX", text(900_000).as_bytes());
    server.with_messages(1);
    let copying =
        "C: c COPY 1 INBOX\nS~ c OK …\nC: c COPY 1,3 INBOX\nS~ c OK …\nC: c COPY 1,3:5 INBOX\nS~ c OK …";
    server.select("INBOX").run(copying);
    let keys: Vec<String> = words(1_002_900).skip(1_000_000).map(|word| format!("BODY {word}")).collect();
    let keys = keys.join(" ");
    let mut leaving = server.select("INBOX");
    // Eight large messages, so that it is not over before others were answered.
    leaving.send(format!("a SEARCH 1,3:9 {keys}\r\n").as_bytes());
    until(|| server.service().accounts_at_work() == 1);
    // Others are answered while it is at work.
    let mut other = server.select("INBOX");
    for _ in 0..50 {
        assert_eq!(fetch_text(&mut other, 2, "UID"), "UID 2");
    }
    // It is at work still. Between two pieces of its work the account holds no permit for a moment.
    until(|| server.service().accounts_at_work() == 1);
    drop(leaving);
    until(|| server.service().accounts_at_work() == 0);
}

/// While a search is at work it prints nothing, so no write notices the end of the login.
#[test]
fn a_search_ends_with_its_login() {
    let server = Server::start();
    server.put("INBOX", text(900_000).as_bytes());
    let keys: Vec<String> = words(1_002_900).skip(1_000_000).map(|word| format!("BODY {word}")).collect();
    let mut wire = server.select("INBOX");
    wire.run(EIGHT);
    wire.send(format!("a SEARCH 1:8 {}\r\n", keys.join(" ")).as_bytes());
    until(|| server.service().accounts_at_work() == 1);
    server.disable();
    wire.expect_end();
    until(|| server.service().accounts_at_work() == 0);
    assert!(server.service().messages_searched() < 8, "nobody waited for the last message");
}

/// The work is counted: by the time the session has ended, the last of the messages must not have
/// been searched.
#[test]
fn a_search_ends_with_a_client_that_left_much_unread() {
    let accounts = Accounts::new(AccountLimits::default());
    let server = Server::start_limited(accounts.clone());
    server.put("INBOX", text(900_000).as_bytes());
    let keys: Vec<String> = words(1_002_900).skip(1_000_000).map(|word| format!("BODY {word}")).collect();
    // More than is read ahead. The rest fits the kernel's buffer for us: otherwise the end of the
    // stream would not arrive.
    let noops = b"n NOOP\r\n".repeat(20_000);
    assert!(noops.len() > 128 * 1024 + 16 * 1024);
    let mut leaving = server.select("INBOX");
    leaving.run(EIGHT);
    leaving.send(format!("a SEARCH 1:8 {}\r\n", keys.join(" ")).as_bytes());
    until(|| server.service().messages_searched() >= 1);
    leaving.send(&noops);
    drop(leaving);
    // With one connection for the account, somebody can log in again when that session has ended.
    accounts.set(AccountLimits { connections: 1, ..AccountLimits::default() });
    until(|| {
        let mut wire = server.connect();
        wire.send(format!("l LOGIN {USER} \"{PASSWORD}\"\r\n").as_bytes());
        wire.line().is_some_and(|line| line.starts_with("l OK"))
    });
    assert!(server.service().messages_searched() < 8, "nobody waited for the last message");
}

/// Waits for the expected event.
fn until(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + READ_WITHIN;
    while !happened() {
        assert!(Instant::now() < deadline, "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Mailboxes that every account has, and is subscribed to.
const DEFAULTS: usize = 6;

/// Subscriptions of 32 levels each, which have none in common.
fn subscribe(server: &Server, from: usize, until: usize) {
    let mut wire = server.login();
    for n in from..until {
        wire.send(format!("s SUBSCRIBE s{n}{}\r\n", "/l".repeat(31)).as_bytes());
        wire.expect("s OK …");
    }
}

#[test]
fn lists_of_many_levels_and_patterns() {
    let server = Server::start();
    subscribe(&server, 0, 1300);
    let mut wire = server.login();
    let patterns: Vec<String> = (0..200).map(|n| format!("s%{n}x%")).collect();
    let patterns = patterns.join(" ");
    wire.send(format!("a LIST (SUBSCRIBED RECURSIVEMATCH) \"\" ({patterns} s12%/l)\r\n").as_bytes());
    let lines = wire.skip_to("a …");
    // s12, s120 to s129, s1200 to s1299.
    assert_eq!(lines.len(), 111 + 1, "{:?}", lines.first());
    assert!(
        lines[0].starts_with("* LIST (\\NonExistent \\HasNoChildren) \"/\" s12/l (\"CHILDINFO\""),
        "{}",
        lines[0]
    );
    wire.send(b"b LIST (SUBSCRIBED) \"\" *\r\n");
    assert_eq!(wire.skip_to("b …").len(), DEFAULTS + 1300 + 1);
    wire.send(b"c LSUB \"\" s12%\r\n");
    assert_eq!(wire.skip_to("c …").len(), 111 + 1);
    // More levels than anybody has.
    subscribe(&server, 1300, 1700);
    wire.run(
        r#"
        C: d LIST (SUBSCRIBED RECURSIVEMATCH) "" s12%/l
        S: d NO [LIMIT] LIST shows at most 50000 levels that are not mailboxes; use the pattern "*" instead
        C: e LSUB "" s12%
        S: e NO [LIMIT] LIST shows at most 50000 levels that are not mailboxes; use the pattern "*" instead
        "#,
    );
    wire.send(b"f LIST (SUBSCRIBED RECURSIVEMATCH) \"\" *\r\n");
    assert_eq!(wire.skip_to("f …").len(), DEFAULTS + 1700 + 1);
}
