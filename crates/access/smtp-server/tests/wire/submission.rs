//! Submission (RFC 6409) and SMTP from other hosts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_delivery::{Delivery, ResolveError};
use posthaste_directory::{AccountChange, Client, Directory, Service, Target};
use posthaste_filter::{Delivered, Envelope};
use posthaste_mail_model::Secret;
use posthaste_net::Mode;
use posthaste_smtp_server::{MailSink, Role, SenderRule};

use crate::talk::{ANA, PASSWORD, Setup};

#[tokio::test]
async fn a_user_sends_from_an_address_of_her_own() {
    let server = Setup { mode: Mode::ImplicitTls, ..Setup::new(Role::Submission) }.start().await;
    let mut client = server.connect_tls().await;
    client
        .play(&format!(
            "S: 220 mail.example.org ESMTP Posthaste
             C: EHLO [127.0.0.1]
             S: 250-mail.example.org
             S: 250-PIPELINING
             S: 250-8BITMIME
             S: 250-BINARYMIME
             S: 250-SMTPUTF8
             S: 250-ENHANCEDSTATUSCODES
             S: 250-CHUNKING
             S: 250-LIMITS RCPTMAX=…
             S: 250-SIZE …
             S: 250-REQUIRETLS
             S: 250-AUTH SCRAM-SHA-256-PLUS SCRAM-SHA-256 PLAIN LOGIN
             S: 250 HELP
             C: MAIL FROM:<ana@example.org>
             S: 530 5.7.0 Log in first
             C: AUTH PLAIN {ANA}
             S: 235 2.7.0 Logged in
             C: MAIL FROM:<ben@example.org>
             S: 553 5.7.1 This is not an address of yours
             C: MAIL FROM:<someone@elsewhere.example>
             S: 553 5.7.1 This is not an address of yours
             C: MAIL FROM:<Info+x@example.org>
             S: 250 2.1.0 Sender taken
             C: RCPT TO:<someone@elsewhere.example>
             S: 550 5.1.2 …
             C: RCPT TO:<ben+news@example.org>
             S: 250 2.1.5 Recipient taken
             C: DATA
             S: 354 …
             C: Subject: hello
             C: .
             S: 250 2.0.0 Delivered, id …"
        ))
        .await;
    let (head, message) = server.only_message("ben@example.org").await;
    assert_eq!(message, "Subject: hello\r\n");
    assert!(head.contains("Received: from [127.0.0.1] ([127.0.0.1])"), "{head}");
    assert!(head.contains(" with ESMTPSA\r\n\t(TLSv1.3 "), "{head}");
}

/// Logged in as ana, whose alias is info.
async fn submits(sender: SenderRule) -> (crate::talk::Server, crate::talk::Talk<tokio::net::TcpStream>) {
    let mut setup = Setup::new(Role::Submission);
    setup.options.sender = sender;
    let server = setup.start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …\nC: EHLO a.example\nS* 250 HELP").await;
    client.play(&format!("C: AUTH PLAIN {ANA}\nS: 235 2.7.0 Logged in")).await;
    (server, client)
}

/// The answer to a message with these lines at its head.
fn submission(head: &str, answer: &str) -> String {
    let lines: String = head.lines().map(|line| format!("C: {line}\n")).collect();
    format!(
        "C: MAIL FROM:<ana@example.org>
         S: 250 2.1.0 Sender taken
         C: RCPT TO:<ben@example.org>
         S: 250 2.1.5 Recipient taken
         C: DATA
         S: 354 …
         {lines}C: Subject: hello
         C: .
         S: {answer}"
    )
}

#[tokio::test]
async fn every_author_of_a_message_is_its_sender() {
    let (server, mut client) = submits(SenderRule::Own).await;
    let ben = "550 5.7.1 The From field names ben@example.org, which is not an address of yours";
    let none = "550 5.7.1 Each From field needs an address of yours, and no more than 16";
    let many = format!("From: ana@example.org{}", ",\n ana@example.org".repeat(16));
    for (head, answer) in [
        ("From: Ben <ben@example.org>", ben),
        ("From: ana@example.org, ben@example.org\nSender: ana@example.org", ben),
        ("From: ana@example.org\nfrom : ben@example.org", ben),
        ("From:\n =?utf-8?q?Ana?= <ben@example.org>", ben),
        // An encoded word has no spaces (RFC 2047 §2): mail programs show Ben.
        ("From: =?utf-8?q?Ben <ben@example.org>, x?= <ana@example.org>", ben),
        ("From: Ana <chef@elsewhere.example>", "550 5.7.1 The From field names chef@elsewhere.example, …"),
        ("From: nobody in particular:;", none),
        ("Sender: ben@example.org", "550 5.7.1 The Sender field names ben@example.org, …"),
        (
            "From: ana@example.org\nSender: ben@example.org",
            "550 5.7.1 The Sender field names ben@example.org, …",
        ),
        ("Resent-From: ben@example.org", "550 5.7.1 The Resent-From field names ben@example.org, …"),
        ("Resent-Sender: ben@example.org", "550 5.7.1 The Resent-Sender field names ben@example.org, …"),
        ("From\u{b}: ben@example.org", none),
        ("From: ana@example.org\n\u{feff}From: ben@example.org", none),
        (
            "From: ana@example.org\nSender: ana@example.org\nResent-From: Ana <ana@example.org>",
            "250 2.0.0 Delivered, id …",
        ),
        (many.as_str(), none),
        // The next hop takes a CR for the end of a line.
        ("From: ana@example.org\nX-A: b\rFrom: ben@example.org", "550 5.6.0 …"),
        ("X-A: b\r\rFrom: ben@example.org", "550 5.6.0 …"),
        ("From: Ana <ANA+work@Example.org>", "250 2.0.0 Delivered, id …"),
        ("From: Info <info@example.org>, ana@example.org", "250 2.0.0 Delivered, id …"),
    ] {
        client.play(&submission(head, answer)).await;
    }
    assert_eq!(server.inbox("ben@example.org").await.len(), 3);
}

#[tokio::test]
async fn any_author_if_the_configuration_checks_the_envelope_alone() {
    let (_server, mut client) = submits(SenderRule::Envelope).await;
    client.play(&submission("From: Ben <ben@example.org>", "250 2.0.0 Delivered, id …")).await;
    client.play("C: MAIL FROM:<ben@example.org>\nS: 553 5.7.1 This is not an address of yours").await;
}

#[tokio::test]
async fn any_sender_if_the_configuration_says_so() {
    let mut setup = Setup::new(Role::Submission);
    setup.options.sender = SenderRule::Any;
    let server = setup.start().await;
    let mut client = server.connect().await;
    client
        .play(&format!(
            "S: 220 …
             C: EHLO a.example
             S* 250-STARTTLS
             S: 250-AUTH SCRAM-SHA-256 PLAIN LOGIN
             S: 250 HELP
             C: AUTH PLAIN {ANA}
             S: 235 2.7.0 Logged in
             C: MAIL FROM:<someone@elsewhere.example> AUTH=<>
             S: 250 2.1.0 Sender taken"
        ))
        .await;
}

#[tokio::test]
async fn other_hosts_bring_mail_for_our_users_only() {
    let server = Setup::new(Role::Smtp).start().await;
    let mut client = server.connect().await;
    client
        .play(
            "S: 220 mail.example.org ESMTP Posthaste
             C: LHLO a.example
             S: 500 5.5.1 Use EHLO here
             C: HELO a.example
             S: 250 mail.example.org
             C: MAIL FROM:<carl@example.net>
             S: 250 2.1.0 Sender taken
             C: RCPT TO:<someone@elsewhere.example>
             S: 550 5.1.2 …
             C: RCPT TO:<ana@example.org>
             S: 250 2.1.5 Recipient taken
             C: DATA
             S: 354 …
             C: hello
             C: .
             S: 250 2.0.0 Delivered, id …
             C: VRFY ana
             S: 252 2.0.0 …
             C: EXPN staff
             S: 502 5.5.1 Not offered here
             C: HELP
             S: 214 2.0.0 …
             C: AUTH PLAIN
             S: 502 5.5.1 Not offered here",
        )
        .await;
    let (head, _) = server.only_message("ana@example.org").await;
    assert!(head.contains(" with SMTP id "), "{head}");
}

/// Disables ana's account while it looks up the alias, which only the message names.
struct Disabling(Delivery);

#[async_trait]
impl MailSink for Disabling {
    async fn resolve(&self, address: &str) -> Result<Target, ResolveError> {
        let found = self.0.resolve(address).await.map(Target::Account);
        if address == "info@example.org" {
            disable_ana(self.0.directory()).await;
        }
        found
    }

    async fn deliver(&self, message: Bytes, envelope: Envelope<'_>, recipients: &[Target]) -> Vec<Delivered> {
        MailSink::deliver(&self.0, message, envelope, recipients).await
    }

    fn message_len_max(&self) -> u64 {
        MailSink::message_len_max(&self.0)
    }
}

/// Disables the account, and returns once its sessions have to end.
async fn disable_ana(directory: &Directory) {
    let client = Client { address: [127, 0, 0, 1].into(), service: Service::Submission };
    let password = Secret::new(PASSWORD.to_owned());
    let login = directory.login("ana@example.org", &password, client).await.unwrap();
    let mut lease = directory.lease(&login);
    let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory.set("ana@example.org", disable).await.unwrap();
    tokio::select! {
        () = lease.ended() => {}
        () = directory.watch_accounts(Duration::from_millis(1)) => {}
    }
}

/// It was delivered, and the session ended after it.
#[tokio::test]
async fn a_message_is_not_sent_if_the_login_ends_while_it_is_checked() {
    let sink: fn(Delivery) -> Arc<dyn MailSink> = |delivery| Arc::new(Disabling(delivery));
    let server = Setup { sink: Some(sink), ..Setup::new(Role::Submission) }.start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …\nC: EHLO a.example\nS* 250 HELP").await;
    client.play(&format!("C: AUTH PLAIN {ANA}\nS: 235 2.7.0 Logged in")).await;
    client.play(&submission("From: info@example.org", "421 4.7.0 Your login has ended: …")).await;
    client.ends().await;
    assert!(server.inbox("ben@example.org").await.is_empty());
}
