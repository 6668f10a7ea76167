//! While a session waits for the rest of a command, the kernel acknowledges at once. While the
//! session idles, it does not.
//!
//! A client that sends the end of a literal in a separate write waits for that acknowledgement.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use posthaste_directory::NewAccount;
use posthaste_mail_model::Secret;
use posthaste_net::{Connection, NetError, Shutdown, Stream};
use posthaste_testkit::Lockstep;
use tokio::net::TcpStream;

use crate::connection;
use crate::session::Session;
use crate::size_tests::service;
use crate::transport::{Io, Peer, StreamChange, Then, Transport, Wait};

/// A connection that reports its prompt acknowledgements when it ends.
struct Counted(Connection, Arc<AtomicU64>);

impl Transport for Counted {
    fn read<'t>(&'t mut self, input: &'t mut BytesMut, wait: Wait) -> Io<'t, usize> {
        self.0.read(input, wait)
    }

    fn write<'t>(&'t mut self, bytes: &'t [u8], then: Then, within: Duration) -> Io<'t, ()> {
        self.0.write(bytes, then, within)
    }

    fn change<'t>(&'t mut self, _: StreamChange<'t>, _: &'t mut BytesMut, _: Duration) -> Io<'t, ()> {
        Box::pin(async { Err(NetError::Closed) })
    }

    fn close(self: Box<Self>, _: Duration) -> Io<'static, ()> {
        Box::pin(async { Ok(()) })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.store(self.0.traffic().prompt_acks, Ordering::Relaxed);
    }
}

/// Counts the prompt acknowledgements while a logged-in client sends these pieces.
/// Each piece comes with the answer that the client waits for.
async fn acks(pieces: &[(&str, &str)]) -> u64 {
    let service = Arc::new(service());
    let password = Secret::new("correct horse".to_owned());
    let ana = service.directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
    service.delivery.mailboxes(&ana).await.unwrap();
    let (socket, mut client) = Lockstep::connect().unwrap();
    let stream = Stream::plain(TcpStream::from_std(socket).unwrap()).unwrap();
    let (_trigger, shutdown) = Shutdown::new();
    let (connection, acks) = (Connection::new(stream), Arc::new(AtomicU64::new(0)));
    let (peer, clock) = (Peer::of(&connection), connection.clock().clone());
    let transport = Box::new(Counted(connection, Arc::clone(&acks)));
    let mut session = Session::new(service, transport, peer, clock, shutdown);
    session.login = Some(Arc::new(ana));
    {
        let mut running = Box::pin(connection::run(&mut session));
        client.say(&mut running, "", "* OK").await;
        for (text, answer) in pieces {
            client.say(&mut running, text, answer).await;
        }
    }
    drop(session);
    acks.load(Ordering::Relaxed)
}

#[tokio::test]
async fn none_for_whole_commands() {
    assert_eq!(
        acks(&[("a NOOP\r\n", "a OK"), ("b SELECT INBOX\r\n", "b OK"), ("c NOOP\r\n", "c OK")]).await,
        0
    );
}

#[tokio::test]
async fn one_for_each_wait_for_the_rest_of_a_line() {
    assert_eq!(acks(&[("a", ""), (" NO", ""), ("OP\r", ""), ("\n", "a OK")]).await, 3);
}

#[tokio::test]
async fn the_end_of_a_literal_arrives_separately() {
    let whole = [("a APPEND INBOX {6}\r\n", "+ "), ("A: b\r\n\r\n", "a OK")];
    assert_eq!(acks(&whole).await, 0);
    // As Python's imaplib does.
    let apart =
        [("a APPEND INBOX {6}\r\n", "+ "), ("A: b\r\n", ""), ("\r\n", "a OK"), ("b NOOP\r\n", "b OK")];
    assert_eq!(acks(&apart).await, 1);
}

#[tokio::test]
async fn a_literal_that_does_not_wait() {
    let apart = [
        ("a APPEND INBOX {6+}\r\n", ""),
        ("A: ", ""),
        ("b\r\n", ""),
        ("\r\n", "a OK"),
        ("b NOOP\r\n", "b OK"),
    ];
    assert_eq!(acks(&apart).await, 3);
}

#[tokio::test]
async fn a_literal_that_was_refused() {
    // The refusal acknowledges the line. If the client still sends the literal, the session waits
    // for all of it.
    let refused = [("a APPEND INBOX {999999999+}\r\n", "a NO"), ("abc", ""), ("def", "")];
    assert_eq!(acks(&refused).await, 2);
}

#[tokio::test]
async fn the_end_of_idle_arrives_separately() {
    assert_eq!(
        acks(&[("a IDLE\r\n", "+ "), ("DO", ""), ("NE\r\n", "a OK"), ("b NOOP\r\n", "b OK")]).await,
        1
    );
}
