//! Work that changes mailboxes is finished, and its progress is reported.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_imap_codec::Tag;
use posthaste_net::{Connection, Shutdown, Stream};
use posthaste_testkit::Lockstep;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::progress::{ProgressTimes, Reports};
use crate::session::Session;
use crate::size_tests::service;

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
