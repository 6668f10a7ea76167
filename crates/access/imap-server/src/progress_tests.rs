//! Work that changes mailboxes is finished, and its progress is reported.

#![allow(clippy::unwrap_used)]

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_imap_codec::Tag;
use posthaste_mail_model::Secret;
use posthaste_net::{ByteBudget, Connection, Shutdown, ShutdownTrigger, Stream};
use posthaste_store::suite::layer::Layer;
use posthaste_store::{CommitOutcome, Engine, MailboxCommit, MemoryEngine, Store, StoreOptions};
use posthaste_testkit::Lockstep;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

use crate::progress::{ProgressTimes, Reports};
use crate::session::Session;
use crate::size_tests::service;
use crate::{ImapOptions, ImapService, connection};

const TIMES: ProgressTimes = ProgressTimes { first: Duration::ZERO, every: Duration::from_secs(3600) };

fn session() -> (Session, Lockstep) {
    let (socket, client) = Lockstep::connect().unwrap();
    let stream = Stream::plain(TcpStream::from_std(socket).unwrap()).unwrap();
    let (_trigger, shutdown) = Shutdown::new();
    (Session::on(Arc::new(service()), Connection::new(stream), shutdown), client)
}

#[tokio::test]
async fn a_change_that_takes_long_says_that_it_is_going_on() {
    let (mut session, mut client) = session();
    let (go_on, tag) = (Notify::new(), Tag::new("a1").unwrap());
    let mut running = Box::pin(async {
        let work = async { go_on.notified().await };
        session.wire.reporting(Reports::uncounted(&tag, TIMES), work).await;
        session.wire.say_line(&["a1 OK Done"]);
        session.wire.flush().await
    });
    client.say(&mut running, "", "* OK [INPROGRESS (\"a1\" NIL NIL)] Working").await;
    go_on.notify_one();
    running.await.unwrap();
}

/// The steps after a change, such as the annotations of moved messages, are done nevertheless.
#[tokio::test]
async fn a_change_goes_on_when_the_client_has_left() {
    let (mut session, client) = session();
    drop(client);
    let (done, tag) = (AtomicBool::new(false), Tag::new("a1").unwrap());
    let times = ProgressTimes { every: Duration::ZERO, ..TIMES };
    let work = async {
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        done.store(true, Ordering::Relaxed);
        7
    };
    assert_eq!(session.wire.reporting(Reports::uncounted(&tag, times), work).await, 7);
    assert!(done.load(Ordering::Relaxed));
    // The connection is found broken, or takes what nobody reads.
    let _ = session.wire.flush().await;
}

/// An engine whose commits on mailboxes wait while its gate is closed.
struct Gated {
    engine: MemoryEngine,
    is_open: watch::Sender<bool>,
}

#[async_trait::async_trait]
impl Layer for Gated {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.engine
    }

    async fn commit(&self, commit: MailboxCommit) -> posthaste_store::Result<CommitOutcome> {
        let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
        self.engine.commit(commit).await
    }
}

/// A session whose client has so many octets of room for what it does not read.
fn session_with(service: &Arc<ImapService>, room: usize) -> (Session, DuplexStream, ShutdownTrigger) {
    let (client, server) = tokio::io::duplex(room);
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let connection = Connection::new(Stream::over(server, address(40_000), address(143)));
    let (trigger, shutdown) = Shutdown::new();
    (Session::on(Arc::clone(service), connection, shutdown), client, trigger)
}

/// Runs commands. No response is sent.
async fn run(session: &mut Session, commands: &[&str]) {
    for command in commands {
        tokio::task::yield_now().await;
        Box::pin(connection::one_command(session, Bytes::from(format!("a {command}\r\n")))).await.unwrap();
        let said = String::from_utf8_lossy(session.wire.out()).into_owned();
        assert!(said.lines().any(|line| line.starts_with("a OK")), "{command}: {said}");
        session.wire.out().clear();
    }
}

/// Bytes of the budget of copies.
const BYTES: usize = 1 << 20;
const LOGIN: &str = "LOGIN ana@example.org \"correct horse\"";

/// A service with 256 messages in the mailbox `m`. To copy them takes memory from the budget.
async fn with_messages() -> (Arc<Gated>, Arc<ImapService>) {
    let gated = Arc::new(Gated { engine: MemoryEngine::new(), is_open: watch::Sender::new(true) });
    let engine: Arc<dyn Engine> = Arc::<Gated>::clone(&gated);
    let store = Store::new(Arc::clone(&engine), StoreOptions::default());
    let directory = Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap();
    let password = Secret::new("correct horse".to_owned());
    directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
    let delivery = Delivery::new(store, Arc::new(directory), DeliveryOptions::default());
    let delivery = delivery.with_summaries(ByteBudget::new(BYTES));
    let options = ImapOptions { progress: TIMES, ..ImapOptions::default() };
    let service = Arc::new(ImapService::new(options, delivery, None, ByteBudget::new(BYTES)));
    let (mut session, _client, _trigger) = session_with(&service, 1 << 20);
    run(&mut session, &[LOGIN, "CREATE m", "APPEND m {1+}\r\nx", "SELECT m"]).await;
    run(&mut session, &["COPY 1:* m"; 8]).await;
    (gated, service)
}

#[tokio::test]
async fn a_report_that_nobody_reads_keeps_no_memory_of_a_copy() {
    let (gated, service) = with_messages().await;
    let budget = service.delivery.summaries();
    let (mut session, mut client, _trigger) = session_with(&service, 1);
    run(&mut session, &[LOGIN, "SELECT m"]).await;
    gated.is_open.send_replace(false);
    let mut copy = pin!(connection::one_command(&mut session, Bytes::from_static(b"a COPY 1:* m\r\n")));
    let mut begun = [0; 1];
    tokio::select! {
        biased;
        _ = &mut copy => panic!("the commit waits"),
        read = client.read_exact(&mut begun) => {
            read.unwrap();
        }
    }
    assert_eq!(&begun, b"*");
    assert!(budget.available() < BYTES);
    gated.is_open.send_replace(true);
    for _ in 0..1000 {
        let is_done = poll_fn(|cx| Poll::Ready(copy.as_mut().poll(cx).is_ready())).await;
        assert!(!is_done, "the rest of the report is not read");
        if budget.available() == BYTES {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the memory of the copy is still held");
}

#[tokio::test]
async fn a_copy_that_waits_for_its_turn_ends_with_its_client() {
    let (_gated, service) = with_messages().await;
    let (mut session, client, _trigger) = session_with(&service, 1 << 20);
    run(&mut session, &[LOGIN, "SELECT m"]).await;
    let account = session.login().unwrap().id;
    let _turn = service.copies.acquire(account).await.unwrap();
    for command in ["COPY 1:* m", "MOVE 1:* m"] {
        let bytes = Bytes::from(format!("a {command}\r\n"));
        let mut waiting = pin!(connection::one_command(&mut session, bytes));
        let is_done = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_ready())).await;
        assert!(!is_done, "{command}: another command has the turn");
    }
    drop(client);
    let copy = Bytes::from_static(b"a COPY 1:* m\r\n");
    assert!(Box::pin(connection::one_command(&mut session, copy)).await.is_err());
}
