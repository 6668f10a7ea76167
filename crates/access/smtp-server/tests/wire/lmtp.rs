//! LMTP (RFC 2033), and what all roles share: DATA, BDAT, pipelining, sizes.

use posthaste_directory::{AccountChange, NewAccount};
use posthaste_mail_model::Secret;
use posthaste_smtp_server::Role;

use crate::talk::{Server, Setup, Talk};

type Client = Talk<tokio::net::TcpStream>;

async fn greeted(server: &Server) -> Client {
    let mut client = server.connect().await;
    client
        .play(
            "S: 220 mail.example.org LMTP Posthaste
             C: LHLO client.example
             S: 250-mail.example.org
             S: 250-PIPELINING
             S: 250-8BITMIME
             S: 250-BINARYMIME
             S: 250-SMTPUTF8
             S: 250-ENHANCEDSTATUSCODES
             S: 250-CHUNKING
             S: 250-LIMITS RCPTMAX=…
             S: 250-SIZE …
             S: 250-STARTTLS
             S: 250 HELP",
        )
        .await;
    client
}

#[tokio::test]
async fn a_message_arrives_byte_exact() {
    let server = Setup::new(Role::Lmtp).start().await;
    let mut client = greeted(&server).await;
    client
        .play(
            "C: MAIL FROM:<carl@example.net> BODY=8BITMIME
             S: 250 2.1.0 Sender taken
             C: RCPT TO:<ana@example.org>
             S: 250 2.1.5 Recipient taken
             C: DATA
             S: 354 …
             C: Subject: café
             C: X: \u{1}\t
             C: ..stuffed
             C: ...
             C: .
             S: 250 2.0.0 Delivered, id …
             C: QUIT
             S: 221 2.0.0 mail.example.org closes the connection",
        )
        .await;
    client.ends().await;
    let (head, message) = server.only_message("ana@example.org").await;
    assert_eq!(message, "Subject: café\r\nX: \u{1}\t\r\n.stuffed\r\n..\r\n");
    let lines: Vec<_> = head.split("\r\n").collect();
    assert_eq!(lines[0], "Return-Path: <carl@example.net>");
    assert_eq!(lines[1], "Received: from client.example ([127.0.0.1])");
    assert!(lines[2].starts_with("\tby mail.example.org (Posthaste) with LMTP id "), "{head}");
    assert_eq!(lines[3], "\tfor <ana@example.org>;");
}

#[tokio::test]
async fn each_recipient_has_its_own_reply() {
    let server = Setup::new(Role::Lmtp).start().await;
    let mut client = greeted(&server).await;
    client
        .play(
            "C: MAIL FROM:<>
             C: RCPT TO:<Ana+Lists@Example.ORG>
             C: RCPT TO:<nobody@example.org>
             C: RCPT TO:<info@example.org>
             C: RCPT TO:<ben@example.org>
             C: RCPT TO:<someone@elsewhere.example>
             C: DATA
             S: 250 2.1.0 Sender taken
             S: 250 2.1.5 Recipient taken
             S: 550 5.1.1 No such user here
             S: 250 2.1.5 Recipient taken
             S: 250 2.1.5 Recipient taken
             S: 550 5.1.2 …
             S: 354 …",
        )
        .await;
    client.send(&[b"x".repeat(100_000), b"\r\n.\r\n".to_vec()].concat()).await;
    client
        .play(
            "S: 250 2.0.0 Delivered, id …
             S: 250 2.0.0 Delivered, id …
             S: 452 4.2.2 The mailbox is full
             C: NOOP
             S: 250 2.0.0 Nothing done",
        )
        .await;
    // The address and its alias are one account: one copy. No recipient sees the others' names.
    let (head, message) = server.only_message("ana@example.org").await;
    assert_eq!(message.len(), 100_002);
    assert!(head.starts_with("Return-Path: <>\r\n") && !head.contains("for"), "{head}");
    assert!(server.inbox("ben@example.org").await.is_empty());
}

#[tokio::test]
async fn without_recipients_there_is_no_message() {
    let server = Setup::new(Role::Lmtp).start().await;
    let mut client = greeted(&server).await;
    client
        .play(
            "C: MAIL FROM:<>
             C: RCPT TO:<nobody@example.org>
             C: DATA
             S: 250 2.1.0 Sender taken
             S: 550 5.1.1 No such user here
             S: 503 5.5.1 No valid recipients
             C: RSET
             S: 250 2.0.0 Forgotten",
        )
        .await;
}

#[tokio::test]
async fn chunks_make_a_message() {
    let server = Setup::new(Role::Lmtp).start().await;
    let mut client = greeted(&server).await;
    // All at once: octets are counted, not looked at.
    client
        .play(
            "C: MAIL FROM:<> SIZE=30
             C: RCPT TO:<ana@example.org>
             C: BDAT 7
             C: a
             C: .
             C: .BDAT 0
             C: BDAT 12
             C: DATA
             C: QUIT
             S: 250 2.1.0 Sender taken
             S: 250 2.1.5 Recipient taken
             S: 250 2.0.0 7 octets received
             S: 250 2.0.0 0 octets received
             S: 250 2.0.0 12 octets received
             C: DATA
             S: 503 5.5.1 The message is being sent by BDAT
             C: RCPT TO:<ben@example.org>
             S: 503 5.5.1 Send MAIL first
             C: BDAT 0 LAST
             S: 250 2.0.0 Delivered, id …",
        )
        .await;
    assert_eq!(server.only_message("ana@example.org").await.1, "a\r\n.\r\n.DATA\r\nQUIT\r\n");
}

#[tokio::test]
async fn chunks_are_forgotten_with_their_transaction() {
    let server = Setup::new(Role::Lmtp).start().await;
    let mut client = greeted(&server).await;
    client
        .play(
            "C: MAIL FROM:<>
             C: RCPT TO:<ana@example.org>
             C: BDAT 5
             C: old
             C: RSET
             C: MAIL FROM:<>
             C: RCPT TO:<ana@example.org>
             C: BDAT 5 LAST
             C: new
             S: 250 2.1.0 Sender taken
             S: 250 2.1.5 Recipient taken
             S: 250 2.0.0 5 octets received
             S: 250 2.0.0 Forgotten
             S: 250 2.1.0 Sender taken
             S: 250 2.1.5 Recipient taken
             S: 250 2.0.0 Delivered, id …
             C: BDAT 6 LAST
             C: RSET
             S: 503 5.5.1 Send MAIL first
             C: NOOP
             S: 250 2.0.0 Nothing done",
        )
        .await;
    assert_eq!(server.only_message("ana@example.org").await.1, "new\r\n");
}

#[tokio::test]
async fn utf8_addresses_need_the_extension() {
    let server = Setup::new(Role::Lmtp).start().await;
    let mut client = greeted(&server).await;
    client
        .play(
            "C: MAIL FROM:<jürgen@example.net>
             S: 553 5.6.7 This address needs SMTPUTF8
             C: MAIL FROM:<jürgen@example.net> SMTPUTF8
             S: 250 2.1.0 Sender taken
             C: RCPT TO:<ana@example.org>
             S: 250 2.1.5 Recipient taken
             C: BDAT 0 LAST
             S: 250 2.0.0 Delivered, id …",
        )
        .await;
    let (head, message) = server.only_message("ana@example.org").await;
    assert!(head.starts_with("Return-Path: <jürgen@example.net>") && head.contains("with UTF8LMTP id"));
    assert_eq!(message, "");
}

#[tokio::test]
async fn smuggled_ends_are_text() {
    let server = Setup::new(Role::Lmtp).start().await;
    let mut client = greeted(&server).await;
    client
        .play(
            "C: MAIL FROM:<>
             C: RCPT TO:<ana@example.org>
             C: DATA
             S: 250 2.1.0 Sender taken
             S: 250 2.1.5 Recipient taken
             S: 354 …",
        )
        .await;
    let smuggled = "A: b\r\n\r\na\n.\nMAIL FROM:<evil@example.net>\n.\r\nb\r.\r\nc\r\n";
    client.send(smuggled.as_bytes()).await;
    client.send(b".\r\n").await;
    client.play("S: 250 2.0.0 Delivered, id …").await;
    assert_eq!(server.only_message("ana@example.org").await.1, smuggled);
}

#[tokio::test]
async fn large_messages_arrive_whole_from_two_at_once() {
    let server = Setup::new(Role::Lmtp).start().await;
    let lines: String = (0..200_000).map(|n| format!("line {n}\r\n.\r\n")).collect();
    let body = format!("Subject: large\r\n\r\n{lines}");
    let stuffed = body.replace("\r\n.", "\r\n..");
    let send = async |name: &str| {
        let mut client = greeted(&server).await;
        let rcpt = format!("C: MAIL FROM:<{name}@example.net>\nC: RCPT TO:<ana@example.org>\nC: DATA\n");
        client.play(&(rcpt + "S: 250 2.1.0 …\nS: 250 2.1.5 …\nS: 354 …")).await;
        client.send(stuffed.as_bytes()).await;
        client.send(b".\r\n").await;
        client.play("S: 250 2.0.0 Delivered, id …").await;
    };
    tokio::join!(send("one"), send("two"));
    let found = server.inbox("ana@example.org").await;
    assert!(found.len() == 2 && found.iter().all(|message| message.ends_with(&body)));
}

/// RFC 5321 §4.5.1.
#[tokio::test]
async fn postmaster_needs_no_domain() {
    let server = Setup::new(Role::Lmtp).start().await;
    let directory = server.delivery.directory();
    let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory.set("ben@example.org", disable).await.unwrap();
    let mut client = greeted(&server).await;
    // Nobody has the address, and no account but ana's takes mail.
    client
        .play(
            "C: MAIL FROM:<>
             C: RCPT TO:<postmaster>
             C: DATA
             S: 250 2.1.0 …
             S: 250 2.1.5 …
             S: 354 …
             C: Is anybody there?
             C: .
             S: 250 2.0.0 …
             C: MAIL FROM:<>
             S: 250 2.1.0 …",
        )
        .await;
    assert_eq!(server.only_message("ana@example.org").await.1, "Is anybody there?\r\n");
    let password = Secret::new("correct horse".to_owned());
    directory.add("postmaster@example.org", &password, NewAccount::default()).await.unwrap();
    client
        .play(
            "C: RCPT TO:<Postmaster>
             S: 250 2.1.5 …
             C: DATA
             S: 354 …
             C: Help!
             C: .
             S: 250 2.0.0 …",
        )
        .await;
    assert_eq!(server.only_message("postmaster@example.org").await.1, "Help!\r\n");
}

/// RFC 5321 §4.5.1: also where the domain of the first account is not that of the host.
#[tokio::test]
async fn postmaster_may_be_of_another_domain_than_the_host() {
    let mut setup = Setup::new(Role::Lmtp);
    setup.options.host = "mx.example.net".to_owned();
    setup.options.domain = Some("example.org".to_owned());
    let server = setup.start().await;
    let password = Secret::new("correct horse".to_owned());
    let directory = server.delivery.directory();
    directory.add("postmaster@example.org", &password, NewAccount::default()).await.unwrap();
    let mut client = server.connect().await;
    client
        .play(
            "S: 220 mx.example.net LMTP Posthaste
             C: HELP
             S: 214 …
             C: LHLO client.example
             S: 250-mx.example.net",
        )
        .await;
    while client.line().await.starts_with("250-") {}
    client
        .play(
            "C: MAIL FROM:<>
             S: 250 2.1.0 …
             C: RCPT TO:<postmaster>
             S: 250 2.1.5 …",
        )
        .await;
}

#[tokio::test]
async fn a_header_of_too_many_fields_is_refused() {
    const ENVELOPE: &str = "C: MAIL FROM:<carl@example.net>
         S: 250 2.1.0 Sender taken
         C: RCPT TO:<ana@example.org>
         S: 250 2.1.5 Recipient taken
         C: RCPT TO:<ben@example.org>
         S: 250 2.1.5 Recipient taken";
    const REFUSED: &str = "S: 552 5.3.4 The header exceeds the limit of 1048576 octets and 10000 fields
         S: 552 5.3.4 The header exceeds the limit of 1048576 octets and 10000 fields";
    let server = Setup::new(Role::Lmtp).start().await;
    let mut client = greeted(&server).await;
    let long = format!("Subject: {}\r\n\r\n", "x".repeat(1 << 20));
    for header in ["a:\r\n".repeat(10_001), "a\r\n".repeat(10_001), long] {
        client.play(&format!("{ENVELOPE}\nC: DATA\nS: 354 …")).await;
        client.send(format!("{header}\r\nHi\r\n.\r\n").as_bytes()).await;
        client.play(REFUSED).await;
        client.play(ENVELOPE).await;
        client.send(format!("BDAT {} LAST\r\n{header}", header.len()).as_bytes()).await;
        client.play(REFUSED).await;
    }
    // As many as the limit allows.
    client.play(&format!("{ENVELOPE}\nC: DATA\nS: 354 …")).await;
    client.send(format!("{}\r\nHi\r\n.\r\n", "a:\r\n".repeat(10_000)).as_bytes()).await;
    client.play("S: 250 2.0.0 Delivered, id …\nS: 250 2.0.0 Delivered, id …").await;
}

/// It was taken, and was in a new INBOX of an account that no longer existed. Ben had no mailbox
/// before.
#[tokio::test]
async fn mail_is_refused_for_accounts_that_are_removed_after_rcpt() {
    let server = Setup::new(Role::Lmtp).start().await;
    let (directory, store) = (server.delivery.directory(), server.delivery.store());
    let password = Secret::new("correct horse".to_owned());
    directory.add("cy@example.org", &password, NewAccount::default()).await.unwrap();
    assert!(server.inbox("ana@example.org").await.is_empty());
    let mut client = greeted(&server).await;
    client
        .play(
            "C: MAIL FROM:<>
             C: RCPT TO:<ana@example.org>
             C: RCPT TO:<cy@example.org>
             C: RCPT TO:<ben@example.org>
             C: DATA
             S: 250 2.1.0 …
             S: 250 2.1.5 …
             S: 250 2.1.5 …
             S: 250 2.1.5 …
             S: 354 …",
        )
        .await;
    let mut removed = Vec::new();
    for name in ["ana@example.org", "ben@example.org"] {
        let account = directory.remove(name).await.unwrap();
        store.remove_account(account.id).await.unwrap();
        removed.push(account.id);
    }
    client
        .play(
            "C: hello
             C: .
             S: 550 5.2.1 The mailbox takes no mail
             S: 250 2.0.0 Delivered, id …
             S: 550 5.2.1 The mailbox takes no mail",
        )
        .await;
    assert_eq!(server.only_message("cy@example.org").await.1, "hello\r\n");
    for account in removed {
        assert!(store.list(account).await.unwrap().entries.is_empty());
    }
}
