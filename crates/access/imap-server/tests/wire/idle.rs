//! IDLE: RFC 9051 §6.3.13.

use crate::harness::Server;

#[test]
fn news_come_by_themselves() {
    let server = Server::start();
    server.with_messages(2);
    let (mut idle, mut other) = (server.select("INBOX"), server.select("INBOX"));
    idle.run("C: i IDLE\nS: + idling");
    idle.expect_silence();
    other.run("C: a STORE 1 +FLAGS (\\Deleted)\nS~ a OK …");
    idle.run("S: * 1 FETCH (UID 1 FLAGS (\\Recent \\Deleted))");
    other.run("C: b EXPUNGE\nS~ b OK …");
    idle.run("S: * 1 EXPUNGE");
    server.with_messages(1);
    idle.run("S: * 2 EXISTS\nS: * 2 RECENT");
    idle.run("C: DONE\nS: i OK IDLE completed\nC: j NOOP\nS: j OK …");
}

/// Angus Mail's `idle(true)` returns at the first response after the continuation.
#[test]
fn earlier_changes_are_reported_after_the_continuation() {
    let server = Server::start();
    server.with_messages(3);
    let (mut idle, mut other) = (server.select("INBOX"), server.select("INBOX"));
    other.run("C: a STORE 1 +FLAGS (\\Deleted)\nS~ a OK …\nC: b EXPUNGE\nS~ b OK …");
    server.with_messages(1);
    idle.run(
        r#"
        C: i IDLE
        S: + idling
        S: * 1 EXPUNGE
        S: * 3 EXISTS
        S: * 3 RECENT
        C: DONE
        S: i OK IDLE completed
        "#,
    );
}

#[test]
fn idle_without_a_mailbox_and_how_it_ends() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a IDLE
        S: + idling
        C: done
        S: a OK IDLE completed
        C: b IDLE
        S: + idling
        C: c NOOP
        S: b BAD …
        C: d NOOP
        S: d OK …
        "#,
    );
    let mut wire = server.login();
    wire.send(b"a IDLE\r\nDONE\r\nb NOOP\r\n");
    wire.run("S: + idling\nS: a OK …\nS: b OK …");
}
