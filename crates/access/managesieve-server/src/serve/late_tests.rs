//! The deadline of the login, by a clock that the test advances.

#![allow(clippy::unwrap_used)]

use posthaste_directory::{NewAccount, Policy};
use posthaste_mail_model::Secret;
use posthaste_store::{Engine, MemoryEngine};
use posthaste_testkit::Piped;

use super::*;

const LOGIN_WITHIN: Duration = Duration::from_secs(180);
/// "\0ana@example.org\0correct horse"
const LOGIN: &[u8] = b"AUTHENTICATE \"PLAIN\" \"AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl\"\r\n";

/// A session over a pipe of this many octets each way. The greeting was read.
async fn session_over(octets: usize) -> Piped {
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
    let mut piped = Piped::begin(octets, 4190, |connection, shutdown| service.serve(connection, shutdown));
    piped.hear(|said| said.ends_with(b"OK \"Posthaste is ready\"\r\n")).await;
    piped
}

/// A client whose commands are there when its time is over: nothing is waited for.
#[tokio::test]
async fn a_client_that_never_pauses_has_no_more_time_to_log_in() {
    let mut client = session_over(4096).await;
    client.send(&[b"NOOP\r\n", LOGIN, b"LISTSCRIPTS\r\n"].concat()).await;
    client.advance(LOGIN_WITHIN).await;
    assert_eq!(client.rest().await, "BYE \"You took too long to log in\"\r\n");
}

#[tokio::test]
async fn a_client_that_reads_nothing_has_no_more_time_to_log_in() {
    session_over(64).await.unread_session_ends("NOOP\r\n", LOGIN_WITHIN).await;
}

/// Later ones wait, each for itself, so that others have their turn.
#[tokio::test]
async fn the_first_commands_before_a_login_do_not_wait() {
    let answers = |said: &str| said.lines().count();
    session_over(1 << 16).await.first_commands_do_not_wait("NOOP\r\n", answers).await;
}

/// A command over the limit whose rest does not come kept a session, even after its login had
/// ended.
#[tokio::test]
async fn discarded_data_does_not_delay_the_end() {
    let mut client = session_over(4096).await;
    client.send(LOGIN).await;
    client.hear(|said| said.ends_with(b"OK \"Logged in\"\r\n")).await;
    client.send(b"PUTSCRIPT \"a\" {4000000+}\r\nkeep;").await;
    assert_eq!(client.said().await, "");
    client.stop();
    assert_eq!(client.rest().await, "BYE \"The server is shutting down; try again later\"\r\n");
}

/// A command of literals without octets could go on up to its longest length.
#[tokio::test]
async fn a_command_with_too_many_literals_ends_the_session() {
    let mut client = session_over(4096).await;
    client.send(LOGIN).await;
    client.hear(|said| said.ends_with(b"OK \"Logged in\"\r\n")).await;
    client.send(b"PUTSCRIPT {0+}\r\n{0+}\r\n{0+}\r\n").await;
    assert_eq!(client.rest().await, "BYE \"The command has too many literals\"\r\n");
}
