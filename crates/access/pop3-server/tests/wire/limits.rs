//! Limits of a client's input and of its silence.

use std::time::Duration;

use posthaste_directory::{AccountChange, Client, Service};
use posthaste_mail_model::{Flag, NumSet, Secret};
use posthaste_net::{AccountLimits, Accounts};
use posthaste_pop3_server::Pop3Options;
use posthaste_store::FlagChange;

use crate::talk::{PASSWORD, Setup, USER, server, within};

#[tokio::test]
async fn a_session_of_too_many_mistakes_ends() {
    let server = server(&["A: b\r\n\r\n"]).await;
    let mut client = server.logged_in().await;
    client.play("C: DELE 1\nS: +OK …").await;
    for _ in 0..20 {
        client.play("C: WHAT\nS: -ERR No such command").await;
    }
    client.play("C: WHAT\nS: -ERR No such command\nS: -ERR Too many errors").await;
    client.ends().await;
    assert_eq!(server.uids().await, [1], "it did not end with QUIT");
}

#[tokio::test]
async fn long_lines_and_lines_that_end_otherwise() {
    let server = server(&[]).await;
    let mut client = server.logged_in().await;
    client.send(format!("NOOP {}\r\n", "x".repeat(20_000)).as_bytes()).await;
    client.play("S: -ERR The line is too long\nC: STAT\nS: +OK 0 0").await;
    client.send(b"STAT\n").await;
    client.play("S: -ERR A command is a line of UTF-8 that ends with CR LF").await;
    client.send(b"LIST \xff\r\n").await;
    client.play("S: -ERR A command is a line of UTF-8 that ends with CR LF\nC: STAT\nS: +OK 0 0").await;
    // Far more than any line: no answer, and nobody reads it.
    let mut client = server.logged_in().await;
    client.send(&[b'x'; 100_000]).await;
    client.ends_somehow().await;
}

/// RFC 1939 §3: without a word, and nothing is removed.
#[tokio::test]
async fn a_silent_session_ends_without_an_answer() {
    let options = Pop3Options { silence_within: Duration::from_millis(500), ..Pop3Options::default() };
    let server = Setup { options, ..Setup::default() }.start().await;
    server.append(&["A: b\r\n\r\n"]).await;
    let mut client = server.connect().await;
    // In one packet, so that only the silence after it counts.
    client
        .play(&format!(
            "C: USER {USER}\nC: PASS {PASSWORD}\nC: DELE 1\nS: +OK …\nS: +OK …\nS: +OK …\nS: +OK …"
        ))
        .await;
    client.ends().await;
    assert_eq!(server.uids().await, [1]);
}

/// Sessions keep the view of their login. An account may hold its largest old one and 2.3 kB: one
/// more of these, which take some 1.5 kB each.
#[tokio::test]
async fn the_sessions_furthest_behind_end_without_an_answer() {
    const MESSAGES: usize = 40;
    let server = Setup { old_views_bytes: Some(10_000), ..Setup::default() }.start().await;
    server.append(&["A: b\r\n\r\n"; MESSAGES]).await;
    let inbox = server.inbox().await;
    let mut clients = Vec::new();
    for round in 0..8 {
        let mut client = server.logged_in().await;
        client.play("C: DELE 1\nS: +OK …").await;
        clients.push(client);
        let change = if round % 2 == 0 { FlagChange::Add } else { FlagChange::Remove };
        inbox.store_flags(&NumSet::range(1, MESSAGES as u32), change, &[Flag::Flagged], None).await.unwrap();
    }
    for client in &mut clients[..5] {
        client.ends().await;
    }
    // RFC 1939 §3: nothing is removed without QUIT.
    assert_eq!(server.uids().await.len(), MESSAGES);
    clients[7].play("C: QUIT\nS: +OK Removed. Goodbye").await;
    assert_eq!(server.uids().await.len(), MESSAGES - 1);
}

#[tokio::test]
async fn a_login_has_its_time() {
    let options = Pop3Options { login_within: Duration::from_millis(500), ..Pop3Options::default() };
    let server = Setup { options, ..Setup::default() }.start().await;
    let mut client = server.connect().await;
    client.play("S: +OK …").await;
    client.ends().await;
}

#[tokio::test]
async fn a_session_ends_with_its_account() {
    let server = server(&["A: b\r\n\r\n"]).await;
    let mut client = server.logged_in().await;
    client.play("C: DELE 1\nS: +OK …").await;
    let directory = server.delivery.directory().clone();
    let watch = tokio::spawn(async move { directory.watch_accounts(Duration::from_millis(1)).await });
    let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
    server.delivery.directory().set(USER, change).await.unwrap();
    client
        .play("S: -ERR [AUTH] Your login has ended: the account is disabled or removed, or its credential is no longer valid")
        .await;
    client.ends().await;
    watch.abort();
    assert_eq!(server.uids().await, [1]);
}

#[tokio::test]
async fn commands_over_the_rate_wait() {
    let accounts = Accounts::new(AccountLimits { commands_per_minute: 2, ..AccountLimits::default() });
    let server = Setup { accounts: accounts.clone(), ..Setup::default() }.start().await;
    let mut client = server.logged_in().await;
    client.play("C: NOOP\nC: NOOP\nC: NOOP\nS: +OK …\nS: +OK …").await;
    let waits = async {
        while accounts.waiting() == 0 {
            tokio::task::yield_now().await;
        }
    };
    within(waits).await;
    accounts.set(AccountLimits::default());
    client.play("S: +OK …").await;
}

/// Also in the middle of an answer that the client reads slowly.
#[tokio::test]
async fn a_message_that_is_read_slowly_ends_with_the_account() {
    let message = format!("A: b\r\n\r\n{}", format!("{}\r\n", "x".repeat(998)).repeat(48 * 1048));
    let server = server(&[&message]).await;
    let mut client = server.logged_in().await;
    client.send(b"RETR 1\r\n").await;
    assert!(client.line().await.starts_with("+OK "));
    let directory = server.delivery.directory();
    let who = Client { address: [127, 0, 0, 1].into(), service: Service::Pop3 };
    let login = directory.login(USER, &Secret::new(PASSWORD.to_owned()), who).await.unwrap();
    let mut lease = directory.lease(&login);
    let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory.set(USER, change).await.unwrap();
    let noticed = async {
        tokio::select! {
            () = lease.ended() => {}
            () = directory.watch_accounts(Duration::from_millis(1)) => {}
        }
    };
    within(noticed).await;
    let read = client.ends_somehow().await;
    assert!(read < message.len() / 2, "{read} bytes were sent");
}
