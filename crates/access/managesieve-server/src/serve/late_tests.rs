//! The deadline of the login, by a clock that the test advances.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use posthaste_directory::{NewAccount, Policy};
use posthaste_mail_model::Secret;
use posthaste_net::{Clock, ClockHand, ShutdownTrigger, Stream};
use posthaste_store::{Engine, MemoryEngine};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

/// The end of a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);
const LOGIN_WITHIN: Duration = Duration::from_secs(180);

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
        let directory = Arc::new(Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap());
        let password = Secret::new("correct horse".to_owned());
        directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        let options = ManageSieveOptions {
            plaintext_auth: PlaintextAuth::LoopbackOnly,
            plaintext_scram: PlaintextAuth::LoopbackOnly,
            login_within: LOGIN_WITHIN,
            silence_within: Duration::from_secs(1800),
        };
        let service = Arc::new(ManageSieveService::new(options, directory, None, Accounts::default()));
        let (client, server) = tokio::io::duplex(octets);
        let (clock, hand) = Clock::manual();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let stream = Stream::over(server, address(40_000), address(4190));
        let (trigger, shutdown) = Shutdown::new();
        let session = tokio::spawn(service.serve(Connection::with_clock(stream, clock), shutdown));
        let mut talk = Self { client, hand, session, _trigger: trigger };
        let mut greeting = Vec::new();
        while !greeting.ends_with(b"OK \"Posthaste is ready\"\r\n") {
            greeting.push(talk.client.read_u8().await.unwrap());
        }
        talk
    }
}

/// Its commands are there when its time is over: nothing is waited for.
#[tokio::test]
async fn a_client_that_never_pauses_has_no_more_time_to_log_in() {
    let mut talk = Talk::over(4096).await;
    // "\0ana@example.org\0correct horse"
    let login = b"AUTHENTICATE \"PLAIN\" \"AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl\"\r\n";
    talk.client.write_all(&[b"NOOP\r\n", &login[..], b"LISTSCRIPTS\r\n"].concat()).await.unwrap();
    talk.hand.advance(LOGIN_WITHIN).await;
    let mut said = String::new();
    tokio::time::timeout(PATIENCE, talk.client.read_to_string(&mut said)).await.unwrap().unwrap();
    assert_eq!(said, "BYE \"You took too long to log in\"\r\n");
}

#[tokio::test]
async fn a_client_that_reads_nothing_has_no_more_time_to_log_in() {
    let mut talk = Talk::over(64).await;
    // The answers to these do not fit the pipe.
    talk.client.write_all(&b"NOOP\r\n".repeat(10)).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    talk.hand.advance(LOGIN_WITHIN).await;
    tokio::time::timeout(PATIENCE, &mut talk.session).await.unwrap().unwrap();
}
