//! The deadline of the login and the delay between two logins, by a clock that the test advances.
//! Turns of other sessions. The end of a login.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{AccountChange, Directory, NewAccount, Policy};
use posthaste_mail_model::Secret;
use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions};
use posthaste_testkit::Piped;

use super::*;
use crate::Pop3Options;

/// A service with an account.
async fn service(options: Pop3Options) -> Arc<Pop3Service> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = Store::new(Arc::clone(&engine), StoreOptions::default());
    let directory = Arc::new(Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap());
    let password = Secret::new("correct horse".to_owned());
    directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
    let delivery = Delivery::new(store, directory, DeliveryOptions::default());
    Arc::new(Pop3Service::new(options, delivery, None))
}

/// A session over a pipe of this many octets each way. The greeting was read.
async fn session_over(octets: usize) -> Piped {
    session_of(service(Pop3Options::default()).await, octets).await
}

async fn session_of(service: Arc<Pop3Service>, octets: usize) -> Piped {
    let mut piped = Piped::begin(octets, 110, |connection, shutdown| service.serve(connection, shutdown));
    piped.hear(|said| said.ends_with(b"\r\n")).await;
    piped
}

/// A client whose commands are there when its time is over: nothing is waited for.
#[tokio::test]
async fn a_client_that_never_pauses_has_no_more_time_to_log_in() {
    let mut client = session_over(4096).await;
    client.send(b"NOOP\r\nUSER ana@example.org\r\nPASS correct horse\r\nSTAT\r\n").await;
    client.advance(Pop3Options::default().login_within).await;
    assert_eq!(client.rest().await, "");
}

/// RFC 2449 §6.5, by the clock of the session that logs in.
#[tokio::test]
async fn the_next_login_waits_for_the_delay() {
    let (delay, long) = (Duration::from_secs(600), Duration::from_secs(86_400));
    let options =
        Pop3Options { pre_login_within: long, login_within: long, login_delay: delay, ..Default::default() };
    let service = service(options).await;
    let login = "USER ana@example.org\r\nPASS correct horse\r\n";
    let answers = |said: &[u8]| said.iter().filter(|byte| **byte == b'\n').count() == 2;
    let mut first = session_of(Arc::clone(&service), 4096).await;
    first.send(login.as_bytes()).await;
    assert!(first.hear(answers).await.contains("+OK Logged in"));
    let mut second = session_of(service, 4096).await;
    for (passes, answer) in [(delay / 2, "-ERR [LOGIN-DELAY] "), (delay, "+OK Logged in")] {
        second.advance(passes).await;
        second.send(login.as_bytes()).await;
        let said = second.hear(answers).await;
        assert!(said.contains(answer), "{said}");
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_has_no_more_time_to_log_in() {
    session_over(64).await.unread_session_ends("CAPA\r\n", Pop3Options::default().login_within).await;
}

/// Later ones wait, each for itself, so that others have their turn.
#[tokio::test]
async fn the_first_commands_before_a_login_do_not_wait() {
    let answers = |said: &str| said.matches("\r\n.\r\n").count();
    session_over(1 << 16).await.first_commands_do_not_wait("CAPA\r\n", answers).await;
}

/// The last part of an answer. RETR sends the parts before it in another way.
#[tokio::test]
async fn an_answer_that_nobody_reads_ends_with_the_login() {
    let service = service(Pop3Options::default()).await;
    let directory = Arc::clone(&service.directory);
    let mut client = session_of(service, 64).await;
    client.send(b"USER ana@example.org\r\nPASS correct horse\r\n").await;
    client.hear(|said| said.iter().filter(|byte| **byte == b'\n').count() == 2).await;
    client.send(b"CAPA\r\n").await;
    client.hear(|said| said == b"+OK").await;
    let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory.set("ana@example.org", change).await.unwrap();
    // The task ends with the runtime of the test.
    tokio::spawn(async move { directory.watch_accounts(Duration::from_millis(1)).await });
    client.ends_unheard().await;
}

/// 16,000 commands that came at once took one poll of 24 ms. All of these are in one read, and
/// their answers leave in one write.
#[tokio::test]
async fn others_have_their_turn_between_commands_that_come_at_once() {
    let mut client = session_over(1 << 16).await;
    client.send(b"USER ana@example.org\r\nPASS correct horse\r\nNOOP\r\n").await;
    client.hear(|said| said.iter().filter(|byte| **byte == b'\n').count() == 3).await;
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let neighbour = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    client.send("NOOP\r\n".repeat(READ_AHEAD / 6).as_bytes()).await;
    client.hear(|said| !said.is_empty()).await;
    neighbour.abort();
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns >= READ_AHEAD / 6 * COMMAND_BYTES / SLICE_BYTES, "the neighbour had {turns} turns");
}
