//! The deadline of the login, by a clock that the test advances.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_mail_model::Secret;
use posthaste_net::{Clock, ClockHand, ShutdownTrigger, Stream};
use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::Pop3Options;

/// The end of a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

struct Talk {
    client: DuplexStream,
    hand: ClockHand,
    session: tokio::task::JoinHandle<()>,
    _trigger: ShutdownTrigger,
}

impl Talk {
    /// A session over a pipe that holds so many octets each way. The greeting was read.
    async fn over(octets: usize) -> Self {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let store = Store::new(Arc::clone(&engine), StoreOptions::default());
        let directory = Arc::new(Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap());
        let password = Secret::new("correct horse".to_owned());
        directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        let delivery = Delivery::new(store, directory, DeliveryOptions::default());
        let service = Arc::new(Pop3Service::new(Pop3Options::default(), delivery, None));
        let (client, server) = tokio::io::duplex(octets);
        let (clock, hand) = Clock::manual();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let stream = Stream::over(server, address(40_000), address(110));
        let (trigger, shutdown) = Shutdown::new();
        let session = tokio::spawn(service.serve(Connection::with_clock(stream, clock), shutdown));
        let mut talk = Self { client, hand, session, _trigger: trigger };
        let mut greeting = Vec::new();
        while !greeting.ends_with(b"\r\n") {
            greeting.push(talk.client.read_u8().await.unwrap());
        }
        talk
    }

    /// What the session says until it ends.
    async fn rest(mut self) -> String {
        let mut said = String::new();
        tokio::time::timeout(PATIENCE, self.client.read_to_string(&mut said)).await.unwrap().unwrap();
        said
    }
}

/// Its commands are there when its time is over: nothing is waited for.
#[tokio::test]
async fn a_client_that_never_pauses_has_no_more_time_to_log_in() {
    let mut talk = Talk::over(4096).await;
    talk.client.write_all(b"NOOP\r\nUSER ana@example.org\r\nPASS correct horse\r\nSTAT\r\n").await.unwrap();
    talk.hand.advance(Pop3Options::default().login_within).await;
    assert_eq!(talk.rest().await, "");
}

#[tokio::test]
async fn a_client_that_reads_nothing_has_no_more_time_to_log_in() {
    let mut talk = Talk::over(64).await;
    // The answers to these do not fit the pipe.
    talk.client.write_all(&b"CAPA\r\n".repeat(10)).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    talk.hand.advance(Pop3Options::default().login_within).await;
    tokio::time::timeout(PATIENCE, &mut talk.session).await.unwrap().unwrap();
}
