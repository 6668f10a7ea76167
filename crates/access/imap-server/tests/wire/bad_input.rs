//! The input that strangers may send: too long, too large, too slow, not IMAP at all.

use std::time::Duration;

use posthaste_imap_server::ImapOptions;

use crate::harness::{PASSWORD, Server, USER};

#[test]
fn lines_over_the_limit() {
    let server = Server::start();
    let mut wire = server.login();
    let long = "x".repeat(70_000);
    wire.send(format!("a NOOP {long}\r\nb NOOP\r\n").as_bytes());
    wire.run("S: a BAD …\nS: b OK …");
    // And one that never ends is dropped as it comes.
    wire.send(b"c SEARCH ");
    for _ in 0..64 {
        wire.send(long.as_bytes());
    }
    wire.run("S: c BAD …");
    wire.send(b"\r\nd NOOP\r\n");
    wire.run("S: d OK …");
}

#[test]
fn literals_over_the_limit() {
    let options =
        ImapOptions { append_bytes_max: 1000, append_total_bytes_max: 1500, ..ImapOptions::default() };
    let server = Server::start_with(options);
    let mut wire = server.login();
    wire.run(
        r#"
        # Refused before it is sent.
        C: a APPEND INBOX {1001}
        S: a NO [TOOBIG] …
        C: b NOOP
        S: b OK …
        # Sent anyway: dropped.
        C: c APPEND INBOX {1001+}
        S: c NO [TOOBIG] …
        "#,
    );
    wire.send(&[b'x'; 1001]);
    wire.run("C:\nC: d NOOP\nS: d OK …");
    // Two that are too large together.
    wire.run("C: e APPEND INBOX {900}\nS: + …");
    wire.send(&[b'y'; 900]);
    wire.run("C:  {900}\nS: e NO [TOOBIG] …\nC: f STATUS INBOX (MESSAGES)\nS: * STATUS INBOX (MESSAGES 0)\nS: f OK …");
    // A text literal has a limit of its own.
    wire.run("C: g SELECT {70000}\nS: g BAD …\nC: h SELECT {4294967296}\nS: h BAD …\nC: i NOOP\nS: i OK …");
    // Before login, less is taken.
    server.connect().run("C: a LOGIN {20000}\nS: a BAD …\nC: b APPEND INBOX {100}\nS: b BAD …");
}

#[test]
fn garbage_ends_in_bye() {
    let server = Server::start();
    let mut wire = server.connect();
    for _ in 0..5 {
        wire.send(b"\0\xff\xfe garbage {}\r\n");
        wire.expect("* BAD …");
    }
    wire.run("S: * BYE …").expect_end();
    // Logged in, a client has a longer timeout, and a good command that does something wipes the
    // slate.
    let mut wire = server.login();
    for _ in 0..3 {
        for _ in 0..15 {
            wire.run("C: a FROBNICATE\nS: a BAD …");
        }
        wire.run("C: b NAMESPACE\nS: * NAMESPACE …\nS: b OK …");
    }
    for _ in 0..20 {
        wire.run("C: a FROBNICATE\nS: a BAD …");
    }
    wire.run("S: * BYE …").expect_end();
}

#[test]
fn nesting_bombs() {
    let server = Server::start();
    let mut wire = server.select("INBOX");
    for bomb in ["(".repeat(30_000), "NOT ".repeat(15_000), "OR ALL ".repeat(9_000)] {
        wire.run(&format!("C: a SEARCH {bomb}ALL\nS: a BAD …"));
    }
    wire.run("C: b NOOP\nS: b OK …");
}

#[test]
fn slow_clients_are_not_waited_for() {
    let short = Duration::from_millis(150);
    let options = ImapOptions { pre_login_within: short, ..ImapOptions::default() };
    Server::start_with(options).connect().run("S: * BYE …").expect_end();
    // In the middle of a line; in the middle of a literal.
    let options = ImapOptions { command_within: short, ..ImapOptions::default() };
    let server = Server::start_with(options);
    let mut wire = server.login();
    wire.send(b"a NO");
    wire.run("S: * BYE …").expect_end();
    // In one packet: a client that is slow to go on could come after the end.
    let mut wire = server.login();
    wire.send(b"a APPEND INBOX {1000+}\r\nhalf");
    wire.run("S: * BYE …").expect_end();
}

#[test]
fn silence_after_login_ends_in_bye() {
    let options = ImapOptions { silence_within: Duration::from_millis(150), ..ImapOptions::default() };
    let server = Server::start_with(options);
    server.login().run("S: * BYE …").expect_end();
    // In one packet, so that there is no silence before IDLE.
    let mut wire = server.connect();
    wire.send(format!("l LOGIN {USER} \"{PASSWORD}\"\r\na IDLE\r\n").as_bytes());
    wire.run("S: l OK …\nS: + idling\nS: * BYE …").expect_end();
}

#[test]
fn floods_where_a_line_was_expected() {
    let server = Server::start();
    let flood = "x".repeat(200_000);
    let mut wire = server.login();
    wire.run("C: a IDLE\nS: + idling");
    wire.send(flood.as_bytes());
    wire.run("S: a BAD …");
    let mut wire = server.connect();
    wire.run("C: a AUTHENTICATE PLAIN\nS: +…");
    wire.send(flood.as_bytes());
    wire.run("S: * BYE …").expect_end();
}

#[test]
fn a_connection_lost_in_a_literal_leaves_nothing() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a APPEND INBOX {1000}\nS: + …\nC- half");
    drop(wire);
    server.login().run("C: a STATUS INBOX (MESSAGES)\nS: * STATUS INBOX (MESSAGES 0)\nS: a OK …");
}

#[test]
fn a_message_may_hold_anything() {
    let server = Server::start();
    let mut wire = server.login();
    let body = b"\0\xff\r\r\n\n{5}\r\n* BYE\r\n)";
    wire.run(&format!("C: a APPEND INBOX ~{{{}}}\nS: + …", body.len()));
    wire.send(body);
    wire.run(&format!("C:\nS: a OK …\nC: b SELECT INBOX\nS~ b OK …\nC: c FETCH 1 BODY[]\nS: * 1 FETCH (FLAGS (\\Recent \\Seen) BODY[] {{{}}}", body.len()));
    // No plain literal holds a NUL (RFC 9051 §9, CHAR8).
    assert_eq!(wire.take(body.len()), [b"\x80", &body[1..]].concat());
    wire.run("S~ c OK …");
}
