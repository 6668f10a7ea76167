//! Work that changes mailboxes is finished, and its progress is reported.

#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use posthaste_directory::NewAccount;
use posthaste_imap_codec::Tag;
use posthaste_mail_model::{MailboxName, Secret};
use posthaste_net::{ByteBudget, Connection, Shutdown, Stream};
use posthaste_testkit::Lockstep;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::connection;
use crate::progress::{ProgressTimes, Reports};
use crate::session::Session;
use crate::size_tests::{service, service_summarizing};

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

/// Work that counts its polls and does not end.
fn counted(polls: &AtomicU32) -> impl Future<Output = ()> {
    poll_fn(move |_| {
        polls.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    })
}

/// A second poll computed the next slice without a pause.
#[tokio::test]
async fn a_poll_of_a_command_polls_its_work_once() {
    let (mut session, _client) = session();
    let (polls, tag) = (AtomicU32::new(0), Tag::new("a1").unwrap());
    let reports = Reports::uncounted(&tag, ProgressTimes { first: TIMES.every, ..TIMES });
    for count in 1..=3 {
        let mut changing = pin!(session.wire.reporting(reports, counted(&polls)));
        assert!(poll_fn(|cx| Poll::Ready(changing.as_mut().poll(cx))).await.is_pending());
        assert_eq!(polls.load(Ordering::Relaxed), count);
    }
    for count in 4..=6 {
        let mut searching = pin!(session.wire.while_reporting(reports, counted(&polls)));
        assert!(poll_fn(|cx| Poll::Ready(searching.as_mut().poll(cx))).await.is_pending());
        assert_eq!(polls.load(Ordering::Relaxed), count);
    }
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

/// The client may take minutes to read a report. Meanwhile others need the memory.
#[tokio::test]
async fn a_copy_whose_report_nobody_reads_holds_no_memory() {
    let budget = ByteBudget::new(1 << 20);
    let mut service = service_summarizing(budget.clone());
    service.options.progress = TIMES;
    let service = Arc::new(service);
    let password = Secret::new("correct horse".to_owned());
    let ana = service.directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
    service.delivery.mailboxes(&ana).await.unwrap();
    let inbox = service.store.list(ana.id).await.unwrap().find(&MailboxName::inbox()).unwrap().id;
    let (_trigger, shutdown) = Shutdown::new();
    let (mut client, server) = tokio::io::duplex(1 << 20);
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let connection = Connection::new(Stream::over(server, address(40_000), address(143)));
    let mut session = Session::on(Arc::clone(&service), connection, shutdown);
    session.login = Some(Arc::new(ana.clone()));
    // 256 messages.
    for command in ["SELECT INBOX", "APPEND INBOX {1+}\r\nx"].into_iter().chain(["COPY 1:* INBOX"; 8]) {
        let bytes = Bytes::from(format!("a {command}\r\n"));
        connection::one_command(&mut session, bytes).await.unwrap();
        session.wire.out().clear();
    }
    let turn = service.copies.acquire_within(ana.id, Duration::from_secs(60)).await.unwrap();
    // More than the pipe takes.
    session.wire.out().resize(4 << 20, b'x');
    let mut copying = pin!(connection::one_command(&mut session, Bytes::from("a COPY 1:* INBOX\r\n")));
    // It waits for its turn, and begins to send a report.
    let mut begun = vec![0; 64 << 10];
    tokio::select! {
        _ = &mut copying => panic!("another command has the turn"),
        read = client.read_exact(&mut begun) => { read.unwrap(); }
    }
    drop(turn);
    let ends = async {
        loop {
            let polled = poll_fn(|cx| Poll::Ready(copying.as_mut().poll(cx))).await;
            assert!(polled.is_pending(), "its report was sent");
            let heads = service.store.status(&[inbox]).await.unwrap();
            let count = heads[0].as_ref().unwrap().counts.messages;
            if count == 512 && budget.available() == 1 << 20 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ends).await.unwrap();
}

/// A search that waits for its turn to compute is next in the queue, however slow its client is.
/// If nobody polled it then, it would keep the turn from others.
#[tokio::test]
async fn a_search_whose_report_nobody_reads_goes_on() {
    let (_trigger, shutdown) = Shutdown::new();
    let (mut client, server) = tokio::io::duplex(1 << 20);
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let connection = Connection::new(Stream::over(server, address(40_000), address(143)));
    let mut session = Session::on(Arc::new(service()), connection, shutdown);
    // More than the pipe takes.
    session.wire.out().resize(4 << 20, b'x');
    let (turn, done, tag) = (Notify::new(), AtomicBool::new(false), Tag::new("a").unwrap());
    let work = async {
        turn.notified().await;
        done.store(true, Ordering::Relaxed);
    };
    let mut searching = pin!(session.wire.while_reporting(Reports::uncounted(&tag, TIMES), work));
    // It waits for its turn, and begins to send a report.
    let mut begun = vec![0; 64 << 10];
    tokio::select! {
        _ = &mut searching => panic!("it has no turn"),
        read = client.read_exact(&mut begun) => { read.unwrap(); }
    }
    turn.notify_one();
    for _ in 0..1000 {
        let polled = poll_fn(|cx| Poll::Ready(searching.as_mut().poll(cx))).await;
        assert!(polled.is_pending(), "its report was sent");
        if done.load(Ordering::Relaxed) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it waits for the client");
}
