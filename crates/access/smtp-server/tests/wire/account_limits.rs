//! The limits of one account's submissions and sessions.

use posthaste_net::{AccountLimits, Accounts};
use posthaste_smtp_server::Role;

use crate::talk::{ANA, Setup, within};

fn setup(limits: AccountLimits) -> Setup {
    Setup { accounts: Accounts::new(limits), ..Setup::new(Role::Submission) }
}

/// A message to this many recipients, up to the command that begins its text.
fn message(recipients: &[&str], begin: &str) -> String {
    let rcpt = |to: &&str| format!("C: RCPT TO:<{to}@example.org>\nS: 250 2.1.5 Recipient taken\n");
    let recipients: String = recipients.iter().map(rcpt).collect();
    format!("C: MAIL FROM:<ana@example.org>\nS: 250 2.1.0 Sender taken\n{recipients}C: {begin}\n")
}

const TEXT: &str = "S: 354 …\nC: Subject: hello\nC: .\nS: 250 2.0.0 Delivered, id …\n";

#[tokio::test]
async fn messages_and_recipients_over_the_limits_are_refused_for_now() {
    let limits = AccountLimits { messages_per_hour: 3, recipients_per_day: 4, ..AccountLimits::default() };
    let setup = setup(limits);
    let accounts = setup.accounts.clone();
    let server = setup.start().await;
    let login = "S: 220 …\nC: EHLO me";
    for session in 0..2 {
        let mut client = server.connect().await;
        client.play(login).await;
        while !client.line().await.starts_with("250 ") {}
        client.play(&format!("C: AUTH PLAIN {ANA}\nS: 235 2.7.0 Logged in")).await;
        if session == 0 {
            client.play(&(message(&["ben", "ana"], "DATA") + TEXT)).await;
            // Three recipients more do not fit, and a refused message is not counted.
            let over = "S: 450 4.5.3 Your account may send to 4 recipients a day; try again in …\n";
            client.play(&(message(&["ben", "ana", "info"], "DATA") + over)).await;
            client.play("C: DATA\nS: 503 5.5.1 Send MAIL first").await;
            client.play(&(message(&["ben"], "DATA") + TEXT)).await;
        } else {
            client.play(&(message(&["ben"], "DATA") + TEXT)).await;
            let over = "S: 450 4.7.1 Your account may send 3 messages an hour; try again in …\n";
            client.play(&(message(&["ben"], "DATA") + over)).await;
            // The octets of a chunk are no commands (RFC 3030 §2).
            client.play(&(message(&["ben"], "BDAT 6 LAST") + "C: QUIT\n" + over)).await;
            accounts.set(AccountLimits { recipients_per_day: 1, ..AccountLimits::default() });
            let never = "S: 550 5.5.3 Your account may send to 1 recipients a day; send this in parts\n";
            client.play(&(message(&["ben", "ana"], "DATA") + never)).await;
            client.play(&(message(&["ben"], "BDAT 6") + "C: QUIT\nS: 250 2.0.0 6 octets received\n")).await;
            // Counted once, however many chunks there are.
            client.play("C: BDAT 6 LAST\nC: QUIT\nS: 250 2.0.0 Delivered, id …").await;
        }
    }
    assert_eq!(server.inbox("ben@example.org").await.len(), 4);
}

#[tokio::test]
async fn an_account_has_so_many_sessions() {
    let server = setup(AccountLimits { connections: 1, ..AccountLimits::default() }).start().await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    for (client, answer) in
        [(&mut first, "235 2.7.0 …"), (&mut second, "454 4.7.0 Your account has too many …")]
    {
        client.play("S: 220 …\nC: EHLO me").await;
        while !client.line().await.starts_with("250 ") {}
        client.play(&format!("C: AUTH PLAIN {ANA}\nS: {answer}")).await;
    }
    second.play("C: MAIL FROM:<ana@example.org>\nS: 530 5.7.0 Log in first").await;
}

/// The session that it had before TLS counted for its account as well.
#[tokio::test]
async fn a_login_before_starttls_leaves_its_session_to_the_next_one() {
    let server = setup(AccountLimits { connections: 1, ..AccountLimits::default() }).start().await;
    let login = format!("C: AUTH PLAIN {ANA}\nS: 235 2.7.0 Logged in");
    let mut client = server.connect().await;
    client.play("S: 220 …\nC: EHLO me").await;
    while !client.line().await.starts_with("250 ") {}
    client.play(&login).await;
    client.play("C: STARTTLS\nS: 220 2.0.0 Begin TLS").await;
    let mut client = client.handshake(server.certificates.leaf()).await;
    client.play("C: EHLO me").await;
    while !client.line().await.starts_with("250 ") {}
    client.play("C: MAIL FROM:<ana@example.org>\nS: 530 5.7.0 Log in first").await;
    client.play(&login).await;
}

#[tokio::test]
async fn commands_over_the_rate_wait() {
    let setup = setup(AccountLimits { commands_per_minute: 2, ..AccountLimits::default() });
    let accounts = setup.accounts.clone();
    let server = setup.start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …\nC: EHLO me").await;
    while !client.line().await.starts_with("250 ") {}
    client.play(&format!("C: AUTH PLAIN {ANA}\nS: 235 2.7.0 Logged in")).await;
    client.play("C: NOOP\nC: NOOP\nC: NOOP\nS: 250 2.0.0 …\nS: 250 2.0.0 …").await;
    let waits = async {
        while accounts.waiting() == 0 {
            tokio::task::yield_now().await;
        }
    };
    within(waits).await;
    accounts.set(AccountLimits::default());
    client.play("S: 250 2.0.0 …").await;
}
