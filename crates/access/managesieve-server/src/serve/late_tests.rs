//! The deadline of the login, by a clock that the test advances. The end of a login.

#![allow(clippy::unwrap_used)]

use posthaste_directory::{Account, AccountChange, NewAccount, Policy};
use posthaste_mail_model::Secret;
use posthaste_store::{Engine, MemoryEngine};
use posthaste_testkit::Piped;

use super::*;

const LOGIN_WITHIN: Duration = Duration::from_secs(180);
/// "\0ana@example.org\0correct horse"
const LOGIN: &[u8] = b"AUTHENTICATE \"PLAIN\" \"AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl\"\r\n";

/// A directory with one account.
async fn directory_with_ana() -> (Arc<Directory>, Account) {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let directory = Arc::new(Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap());
    let password = Secret::new("correct horse".to_owned());
    let ana = directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
    (directory, ana)
}

fn service(directory: &Arc<Directory>) -> ManageSieveService {
    let options = ManageSieveOptions {
        plaintext_auth: PlaintextAuth::LoopbackOnly,
        plaintext_scram: PlaintextAuth::LoopbackOnly,
        login_within: LOGIN_WITHIN,
        silence_within: Duration::from_secs(1800),
    };
    ManageSieveService::new(options, Arc::clone(directory), None, Accounts::default())
}

/// A session over a pipe of this many octets each way. The greeting was read.
async fn session_over(octets: usize) -> Piped {
    session_of(service(&directory_with_ana().await.0), octets).await
}

async fn session_of(service: ManageSieveService, octets: usize) -> Piped {
    let service = Arc::new(service);
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

/// The same, logged in.
async fn user_of(service: ManageSieveService, octets: usize) -> Piped {
    let mut client = session_of(service, octets).await;
    client.send(LOGIN).await;
    client.hear(|said| said.ends_with(b"OK \"Logged in\"\r\n")).await;
    client
}

/// Disables the account, and lets its sessions notice.
async fn disable(directory: &Arc<Directory>) {
    let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory.set("ana@example.org", change).await.unwrap();
    let directory = Arc::clone(directory);
    // The task ends with the runtime of the test.
    tokio::spawn(async move { directory.watch_accounts(Duration::from_millis(1)).await });
}

#[tokio::test]
async fn an_answer_that_nobody_reads_ends_with_the_login() {
    let (directory, _) = directory_with_ana().await;
    let mut client = user_of(service(&directory), 256).await;
    let script = "# A comment.\r\n".repeat(300);
    client.send(format!("PUTSCRIPT \"a\" {{{}+}}\r\n{script}\r\n", script.len()).as_bytes()).await;
    client.hear(|said| said.ends_with(b"OK \"Stored\"\r\n")).await;
    client.send(b"GETSCRIPT \"a\"\r\n").await;
    client.hear(|said| said.ends_with(b"# A comment.")).await;
    disable(&directory).await;
    client.ends_unheard().await;
}

/// The only permit is another account's, and stays there.
#[tokio::test]
async fn a_command_that_waits_for_its_turn_ends_with_the_login() {
    let (directory, ana) = directory_with_ana().await;
    let (permits, key) = (KeyedSemaphore::new(1, 1), ana.id.0.to_bytes());
    let _of_another = permits.acquire([0; 16]).await;
    let mut client = user_of(service(&directory).with_permits(permits.clone()), 4096).await;
    client.send(b"PUTSCRIPT \"a\" \"keep;\"\r\n").await;
    while permits.count(&key) == 0 {
        tokio::task::yield_now().await;
    }
    disable(&directory).await;
    assert_eq!(client.rest().await, format!("BYE \"{REVOKED}\"\r\n"));
    assert_eq!(permits.count(&key), 0);
    assert!(directory.scripts().names(ana.id).await.unwrap().is_empty());
}

/// A command over the limit whose rest does not come kept a session, even after its login had
/// ended.
#[tokio::test]
async fn discarded_data_does_not_delay_the_end() {
    let mut client = user_of(service(&directory_with_ana().await.0), 4096).await;
    client.send(b"PUTSCRIPT \"a\" {4000000+}\r\nkeep;").await;
    assert_eq!(client.said().await, "");
    client.stop();
    assert_eq!(client.rest().await, "BYE \"The server is shutting down; try again later\"\r\n");
}

/// A command of literals without octets could go on up to its longest length.
#[tokio::test]
async fn a_command_with_too_many_literals_ends_the_session() {
    let mut client = user_of(service(&directory_with_ana().await.0), 4096).await;
    client.send(b"PUTSCRIPT {0+}\r\n{0+}\r\n{0+}\r\n").await;
    assert_eq!(client.rest().await, "BYE \"The command has too many literals\"\r\n");
}
