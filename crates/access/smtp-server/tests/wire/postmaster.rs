//! Mail for postmasters whose address nobody has: RFC 5321 §4.5.1, RFC 2142 §5.

use posthaste_directory::{AccountChange, NewAccount};
use posthaste_mail_model::Secret;
use posthaste_smtp_server::Role;
use tokio::net::TcpStream;

use crate::talk::{ANA, PASSWORD, Server, Setup, Talk};

/// A server of `example.org` for this kind of client, with this setting. Ana is its
/// administrator.
async fn server(role: Role, postmaster: Option<&str>) -> Server {
    let mut setup = Setup::new(role);
    setup.options.domain = Some("example.org".to_owned());
    setup.options.postmaster = postmaster.map(str::to_owned);
    let server = setup.start().await;
    let rights = AccountChange { sets_quotas: Some(true), ..AccountChange::default() };
    server.delivery.directory().set("ana@example.org", rights).await.unwrap();
    server
}

/// A client that has greeted. A user has logged in as ana.
async fn greeted(server: &Server, role: Role) -> Talk<TcpStream> {
    let mut client = server.connect().await;
    let hello = if role == Role::Lmtp { "LHLO" } else { "EHLO" };
    client.play(&format!("S: 220 …\nC: {hello} client.example")).await;
    while !client.line().await.starts_with("250 ") {}
    if role == Role::Submission {
        client.play(&format!("C: AUTH PLAIN {ANA}\nS: 235 2.7.0 Logged in")).await;
    }
    client
}

#[tokio::test]
async fn each_listener_takes_mail_for_each_postmaster() {
    const OURS: [&str; 6] = [
        "postmaster",
        "POSTMASTER",
        "Postmaster@example.org",
        "\"postmaster\"@Example.ORG",
        "postmaster@MAIL.example.org",
        "postmaster@[127.0.0.1]",
    ];
    for role in [Role::Lmtp, Role::Smtp, Role::Submission] {
        let server = server(role, None).await;
        let mut client = greeted(&server, role).await;
        client.play("C: MAIL FROM:<ana@example.org>\nS: 250 2.1.0 …").await;
        for to in OURS {
            client.play(&format!("C: RCPT TO:<{to}>\nS: 250 2.1.5 …")).await;
        }
        for (to, refused) in [
            ("postmaster@elsewhere.example", "550 5.1.2 …"),
            ("postmaster+x@example.org", "550 5.1.1 …"),
            ("nobody@example.org", "550 5.1.1 …"),
        ] {
            client.play(&format!("C: RCPT TO:<{to}>\nS: {refused}")).await;
        }
        client.play("C: DATA\nS: 354 …\nC: Help!\nC: .").await;
        // LMTP has a reply for each recipient.
        let replies = if role == Role::Lmtp { OURS.len() } else { 1 };
        for _ in 0..replies {
            client.play("S: 250 2.0.0 …").await;
        }
        assert_eq!(server.only_message("ana@example.org").await.1, "Help!\r\n");
    }
}

/// The account that gets the mail is not the postmaster.
#[tokio::test]
async fn nobody_sends_as_a_postmaster_without_the_address() {
    let server = server(Role::Submission, Some("ana@example.org")).await;
    let mut client = greeted(&server, Role::Submission).await;
    for from in ["postmaster@example.org", "postmaster", "postmaster@mail.example.org"] {
        client.play(&format!("C: MAIL FROM:<{from}>\nS: 553 5.7.1 …")).await;
    }
    client.play("C: MAIL FROM:<ana@example.org>\nC: RCPT TO:<postmaster>\nS: 250 …\nS: 250 …").await;
    client.play("C: DATA\nS: 354 …\nC: From: postmaster@example.org\nC: .\nS: 550 5.7.1 …").await;
}

#[tokio::test]
async fn the_configured_address_gets_the_mail_within_its_quota() {
    // Ben has room for 100,000 octets, and nobody has the last address.
    for (postmaster, gets, large) in [
        ("ben@example.org", "ben@example.org", "452 4.2.2 The mailbox is full"),
        ("info@example.org", "ana@example.org", "250 2.1.5 …"),
        ("none@example.org", "ana@example.org", "250 2.1.5 …"),
    ] {
        let server = server(Role::Smtp, Some(postmaster)).await;
        let mut client = greeted(&server, Role::Smtp).await;
        client
            .play(&format!(
                "C: MAIL FROM:<> SIZE=200000
                 C: RCPT TO:<postmaster>
                 S: 250 2.1.0 …
                 S: {large}
                 C: RSET
                 C: MAIL FROM:<>
                 C: RCPT TO:<postmaster@example.org>
                 C: DATA
                 S: 250 2.0.0 …
                 S: 250 2.1.0 …
                 S: 250 2.1.5 …
                 S: 354 …
                 C: Help!
                 C: .
                 S: 250 2.0.0 …"
            ))
            .await;
        assert_eq!(server.only_message(gets).await.1, "Help!\r\n", "{postmaster}");
    }
}

#[tokio::test]
async fn the_account_or_alias_of_that_name_comes_first_unless_it_is_disabled() {
    let server = server(Role::Smtp, Some("ana@example.org")).await;
    let directory = server.delivery.directory();
    let mut client = greeted(&server, Role::Smtp).await;
    let mut send = async || {
        client.play("C: MAIL FROM:<>\nC: RCPT TO:<postmaster>\nS: 250 2.1.0 …\nS: 250 2.1.5 …").await;
        client.play("C: DATA\nS: 354 …\nC: Help!\nC: .\nS: 250 2.0.0 …").await;
    };
    directory.aliases().add("postmaster@example.org", "ben@example.org").await.unwrap();
    send().await;
    server.only_message("ben@example.org").await;
    directory.aliases().remove("postmaster@example.org").await.unwrap();
    let password = Secret::new(PASSWORD.to_owned());
    directory.add("postmaster@example.org", &password, NewAccount::default()).await.unwrap();
    send().await;
    server.only_message("postmaster@example.org").await;
    let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory.set("postmaster@example.org", disable).await.unwrap();
    send().await;
    server.only_message("ana@example.org").await;
}
