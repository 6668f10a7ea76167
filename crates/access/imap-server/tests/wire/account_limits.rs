//! The limits of one account: over all its sessions, and with nobody else slowed down.

use std::time::{Duration, Instant};

use posthaste_net::{AccountLimits, Accounts};
use posthaste_testkit::READ_WITHIN;

use crate::harness::{PASSWORD, Server, USER};

/// Waits for the expected event.
fn until(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + READ_WITHIN;
    while !happened() {
        assert!(Instant::now() < deadline, "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_account_has_so_many_connections_and_gets_them_back() {
    let accounts = Accounts::new(AccountLimits { connections: 2, ..AccountLimits::default() });
    let server = Server::start_limited(accounts.clone());
    let (mut one, _two) = (server.login(), server.login());
    let mut third = server.connect();
    third.run(&format!(
        "C: a LOGIN {USER} \"{PASSWORD}\"\nS: a NO [LIMIT] Your account has too many connections, …"
    ));
    third.run(
        r#"
        C: b SELECT INBOX
        S: b BAD …
        "#,
    );
    one.run("C: c LOGOUT\nS~ c OK …");
    one.expect_end();
    third.run(&format!("C: d LOGIN {USER} \"{PASSWORD}\"\nS: d OK …"));
}

#[test]
fn commands_over_the_rate_wait_and_are_answered() {
    let limits = AccountLimits { commands_per_minute: 3, ..AccountLimits::default() };
    let accounts = Accounts::new(limits);
    let server = Server::start_limited(accounts.clone());
    let mut wire = server.login();
    // The fourth of them waits, and those before it are answered.
    wire.send(b"a NOOP\r\nb NOOP\r\nc NOOP\r\nd NOOP\r\n");
    wire.expect("a OK …");
    wire.expect("b OK …");
    wire.expect("c OK …");
    until(|| accounts.waiting() == 1);
    wire.expect_silence();
    // Another account logs in meanwhile, and its commands do not wait.
    let mut neighbour = server.login_as_new("ben@example.org");
    neighbour.run("C: m SELECT INBOX\nS~ m OK …\nC: n NOOP\nS: n OK …");
    assert_eq!(accounts.waiting(), 1);
    // The limit counts for another session of the account as well.
    let mut other = server.login();
    other.send(b"o NOOP\r\n");
    until(|| accounts.waiting() == 2);
    accounts.set(AccountLimits::default());
    wire.expect("d OK …");
    other.expect("o OK …");
    assert_eq!(accounts.waiting(), 0);
}

#[test]
fn a_session_that_waits_ends_with_the_server() {
    let limits = AccountLimits { commands_per_minute: 1, ..AccountLimits::default() };
    let accounts = Accounts::new(limits);
    let mut server = Server::start_limited(accounts.clone());
    let mut wire = server.login();
    wire.send(b"a NOOP\r\nb NOOP\r\n");
    wire.expect("a OK …");
    until(|| accounts.waiting() == 1);
    server.shut_down();
    wire.expect("* BYE The server is shutting down");
    wire.expect_end();
}

#[test]
fn bytes_over_the_rate_are_read_and_sent_slowly() {
    let message = format!("Subject: long\r\n\r\n{}", "0123456789\r\n".repeat(2000));
    let sent = AccountLimits { sent_per_hour: 20_000, ..AccountLimits::default() };
    let received = AccountLimits { received_per_hour: 20_000, ..AccountLimits::default() };
    for limits in [sent, received] {
        let accounts = Accounts::new(AccountLimits::default());
        let server = Server::start_limited(accounts.clone());
        server.put("INBOX", message.as_bytes());
        let mut wire = server.select("INBOX");
        accounts.set(limits);
        if limits == sent {
            wire.send(b"f FETCH 1 BODY.PEEK[]\r\n");
        } else {
            wire.send(format!("f APPEND INBOX {{{}+}}\r\n{message}\r\n", message.len()).as_bytes());
        }
        // The session that put the message may not have counted its last answer yet: then it waits
        // as well.
        until(|| accounts.waiting() >= 1);
        accounts.set(AccountLimits::default());
        wire.skip_to("f OK …");
        wire.run("C: n NOOP\nS~ n OK …");
    }
}
