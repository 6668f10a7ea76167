//! Logins: USER and PASS, AUTH (RFC 5034), STLS (RFC 2595), and refusals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_directory::AccountChange;
use posthaste_mail_model::MailboxId;
use posthaste_net::{AccountLimits, Accounts};
use posthaste_pop3_server::{ClearTextLogin, Pop3Options};
use posthaste_store::suite::layer::Layer;
use posthaste_store::{Engine, MailboxHead, MemoryEngine, Row, StoreError};

use crate::talk::{PASSWORD, Setup, USER, server};

#[tokio::test]
async fn every_way_to_say_a_password() {
    let server = server(&[]).await;
    let plain = BASE64.encode(format!("\0{USER}\0{PASSWORD}"));
    let (name, password) = (BASE64.encode(USER), BASE64.encode(PASSWORD));
    for script in [
        format!("C: USER Ana@Example.org\nS: +OK …\nC: PASS {PASSWORD}\n"),
        format!("C: AUTH PLAIN {plain}\n"),
        format!("C: AUTH PLAIN\nS: + \nC: {plain}\n"),
        format!("C: auth login\nS: + VXNlcm5hbWU6\nC: {name}\nS: + UGFzc3dvcmQ6\nC: {password}\n"),
    ] {
        let mut client = server.connect().await;
        client
            .play(&format!("S: +OK …\n{script}S: +OK Logged in: 0 messages, 0 octets\nC: STAT\nS: +OK 0 0"))
            .await;
    }
}

#[tokio::test]
async fn failures_have_their_codes_and_end_the_session_after_a_few() {
    let server = server(&[]).await;
    let mut client = server.connect().await;
    let wrong = BASE64.encode(format!("\0{USER}\0wrong"));
    client
        .play(&format!(
            "S: +OK …
             C: PASS x
             S: -ERR Say USER first
             C: USER nobody@example.org
             S: +OK Send your password
             C: PASS {PASSWORD}
             S: -ERR [AUTH] Name or password is wrong
             C: PASS {PASSWORD}
             S: -ERR Say USER first
             C: AUTH PLAIN {wrong}
             S: -ERR [AUTH] Name or password is wrong
             C: AUTH CRAM-MD5
             S: -ERR No such authentication mechanism
             C: APOP {USER} c4c9334bac560ecc979e58001b3e22fb
             S: -ERR APOP is not offered: use AUTH, or USER and PASS
             C: AUTH
             S: +OK Mechanisms follow
             S: SCRAM-SHA-256
             S: PLAIN
             S: LOGIN
             S: .
             C: AUTH PLAIN
             S: + \n             C: *
             S: -ERR Login cancelled
             C: AUTH LOGIN
             S: + VXNlcm5hbWU6
             C: not base 64
             S: -ERR …"
        ))
        .await;
    client.ends().await;
}

#[tokio::test]
async fn a_disabled_account_and_one_with_too_many_connections() {
    let limits = AccountLimits { connections: 1, ..AccountLimits::default() };
    let server = Setup { accounts: Accounts::new(limits), ..Setup::default() }.start().await;
    let first = server.logged_in().await;
    let mut client = server.connect().await;
    let login = format!("C: USER {USER}\nS: +OK …\nC: PASS {PASSWORD}\n");
    client.play(&format!("S: +OK …\n{login}S: -ERR [IN-USE] Your account has too many connections…")).await;
    drop(first);
    let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
    server.delivery.directory().set(USER, change).await.unwrap();
    client.play(&format!("{login}S: -ERR [AUTH] This account is disabled")).await;
}

#[tokio::test]
async fn logins_have_a_delay_between_them() {
    let options = Pop3Options { login_delay: Duration::from_secs(3600), ..Pop3Options::default() };
    let server = Setup { options, ..Setup::default() }.start().await;
    let mut client = server.logged_in().await;
    client.play("C: QUIT\nS: +OK Goodbye").await;
    let mut client = server.connect().await;
    client
        .play(&format!("S: +OK …\nC: USER {USER}\nS: +OK …\nC: PASS {PASSWORD}\nS: -ERR [LOGIN-DELAY] …"))
        .await;
}

/// An engine that reads no rows while a test says so.
struct Unreadable {
    inner: MemoryEngine,
    fails: AtomicBool,
}

#[async_trait]
impl Layer for Unreadable {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead, StoreError> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(StoreError::Unavailable("no disk".to_owned())),
            false => self.inner.load(mailbox, rows).await,
        }
    }
}

/// RFC 2449 §6.5: the delay begins with the +OK of a login.
#[tokio::test]
async fn a_login_whose_maildrop_cannot_be_opened_does_not_count() {
    let engine = Arc::new(Unreadable { inner: MemoryEngine::new(), fails: AtomicBool::new(true) });
    let options = Pop3Options { login_delay: Duration::from_secs(3600), ..Pop3Options::default() };
    let new_on = Some(Arc::clone(&engine) as Arc<dyn Engine>);
    let server = Setup { options, new_on, ..Setup::default() }.start().await;
    let mut client = server.connect().await;
    let login = format!("C: USER {USER}\nS: +OK …\nC: PASS {PASSWORD}\n");
    client
        .play(&format!("S: +OK …\n{login}S: -ERR [SYS/TEMP] Storage is unavailable, try again later"))
        .await;
    engine.fails.store(false, Ordering::Relaxed);
    client.play(&format!("{login}S: +OK Logged in: …")).await;
    let mut client = server.connect().await;
    client.play(&format!("S: +OK …\n{login}S: -ERR [LOGIN-DELAY] …")).await;
}

/// RFC 3206 §4: too many messages are in open mailboxes.
#[tokio::test]
async fn a_maildrop_that_has_no_room_is_refused_for_now() {
    // The first thousand messages of a mailbox do not count.
    let server = Setup { open_views_bytes: Some(0), ..Setup::default() }.start().await;
    let bytes = bytes::Bytes::from_static(b"A: b\r\n\r\n");
    let message = server.delivery.incoming(bytes, Vec::new(), None).await.unwrap();
    server.inbox().await.append(vec![message; 1001]).await.unwrap();
    let mut client = server.connect().await;
    let login = format!("C: USER {USER}\nS: +OK …\nC: PASS {PASSWORD}\n");
    client.play(&format!("S: +OK …\n{login}S: -ERR [SYS/TEMP] …")).await;
    server.expunge(7).await;
    client.play(&format!("{login}S: +OK Logged in: …")).await;
}

#[tokio::test]
async fn tls_by_stls_and_from_the_start() {
    let server = server(&["A: b\r\n\r\n"]).await;
    let mut client = server.connect().await;
    client.play("S: +OK …\nC: USER nobody\nS: +OK …\nC: STLS\nS: +OK Begin TLS negotiation").await;
    let mut client = client.handshake(server.certificates.leaf()).await;
    // RFC 2595 §4: earlier commands do not count, and STLS is over.
    client.play("C: PASS x\nS: -ERR Say USER first\nC: STLS\nS: -ERR TLS is active\nC: CAPA\nS: +OK …").await;
    let offered = client.lines().await;
    assert!(!offered.contains(&"STLS".to_owned()));
    assert!(offered.contains(&"SASL SCRAM-SHA-256-PLUS SCRAM-SHA-256 PLAIN LOGIN".to_owned()), "{offered:?}");
    client
        .play(&format!("C: USER {USER}\nS: +OK …\nC: PASS {PASSWORD}\nS: +OK …\nC: LIST 1\nS: +OK 1 8"))
        .await;

    let server = Setup { tls: true, ..Setup::default() }.start().await;
    let mut client = server.connect_tls().await;
    client.play(&format!("S: +OK …\nC: USER {USER}\nS: +OK …\nC: PASS {PASSWORD}\nS: +OK …")).await;
}

#[tokio::test]
async fn nothing_may_follow_stls_and_utf8_comes_behind_it() {
    let server = server(&[]).await;
    let mut client = server.connect().await;
    client.send(format!("STLS\r\nUSER {USER}\r\n").as_bytes()).await;
    client.play("S: +OK …\nS: -ERR Commands were sent after STLS").await;
    client.ends().await;
    let mut client = server.connect().await;
    client.play("S: +OK …\nC: UTF8\nS: +OK …\nC: STLS\nS: -ERR STLS comes before UTF8").await;
}

#[tokio::test]
async fn passwords_stay_inside_tls_where_the_configuration_says_so() {
    let never = ClearTextLogin::Never;
    let options = Pop3Options { clear_text_login: never, clear_text_scram: never, ..Pop3Options::default() };
    let server = Setup { options, ..Setup::default() }.start().await;
    let mut client = server.connect().await;
    client
        .play(&format!(
            "S: +OK …
             C: USER {USER}
             S: -ERR Passwords are accepted only over TLS: use STLS
             C: AUTH PLAIN
             S: -ERR Encryption is required to log in this way: use TLS
             C: CAPA
             S: +OK …"
        ))
        .await;
    let offered = client.lines().await;
    assert!(offered.iter().all(|line| line != "USER" && !line.starts_with("SASL")), "{offered:?}");
    client.play("C: STLS\nS: +OK …").await;
    let mut client = client.handshake(server.certificates.leaf()).await;
    client.play(&format!("C: USER {USER}\nS: +OK …\nC: PASS {PASSWORD}\nS: +OK …")).await;
}
