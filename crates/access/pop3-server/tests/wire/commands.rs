//! Each command, its answers and its refusals.

use posthaste_mail_model::{MailboxName, NumSet};
use posthaste_pop3_server::Pop3Options;
use posthaste_retention::{Action, InboxExpiry, Rule};

use crate::talk::{PASSWORD, Setup, USER, server};

const ONE: &str = "Subject: 1\r\n\r\none\r\n";
const TWO: &str = "Subject: 2\r\n\r\n.dot\r\n..\r\n.\r\nend\r\n";
const THREE: &str = "Subject: 3\r\n\r\nthree\r\n";

#[tokio::test]
async fn a_whole_session() {
    let server = server(&[ONE, TWO, THREE]).await;
    let mut client = server.connect().await;
    client
        .play(&format!(
            "S: +OK localhost Posthaste POP3 ready
             C: USER {USER}
             S: +OK Send your password
             C: PASS {PASSWORD}
             S: +OK Logged in: 3 messages, 72 octets
             C: STAT
             S: +OK 3 72
             C: LIST
             S: +OK 3 messages (72 octets)
             S: 1 19
             S: 2 32
             S: 3 21
             S: .
             C: RETR 2
             S: +OK 32 octets
             S: Subject: 2
             S: …
             S: ..dot
             S: ...
             S: ..
             S: end
             S: .
             C: DELE 2
             S: +OK Removed at QUIT
             C: QUIT
             S: +OK Removed. Goodbye"
        ))
        .await;
    client.ends().await;
    assert_eq!(server.uids().await, [1, 3]);
}

#[tokio::test]
async fn an_empty_maildrop() {
    let server = server(&[]).await;
    let mut client = server.logged_in().await;
    client
        .play(
            "C: STAT
             S: +OK 0 0
             C: LIST
             S: +OK 0 messages (0 octets)
             S: .
             C: UIDL
             S: +OK Unique ids follow
             S: .
             C: RETR 1
             S: -ERR There is no such message
             C: QUIT
             S: +OK Goodbye",
        )
        .await;
    client.ends().await;
}

#[tokio::test]
async fn marked_messages_are_out_of_sight_until_rset() {
    let server = server(&[ONE, TWO, THREE]).await;
    let mut client = server.logged_in().await;
    client
        .play(
            "C: DELE 2
             S: +OK Removed at QUIT
             C: STAT
             S: +OK 2 40
             C: LIST
             S: +OK 2 messages (40 octets)
             S: 1 19
             S: 3 21
             S: .
             C: LIST 2
             S: -ERR There is no such message
             C: UIDL 2
             S: -ERR There is no such message
             C: RETR 2
             S: -ERR There is no such message
             C: TOP 2 0
             S: -ERR There is no such message
             C: DELE 2
             S: -ERR There is no such message
             C: LIST 3
             S: +OK 3 21
             C: RSET
             S: +OK Nothing is marked
             C: STAT
             S: +OK 3 72
             C: LIST 2
             S: +OK 2 32
             C: QUIT
             S: +OK Goodbye",
        )
        .await;
    client.ends().await;
    assert_eq!(server.uids().await, [1, 2, 3]);
}

#[tokio::test]
async fn numbers_that_no_message_has() {
    let server = server(&[ONE]).await;
    let mut client = server.logged_in().await;
    for command in ["LIST", "UIDL", "RETR", "DELE"] {
        for number in ["0", "2", "4294967295", "4294967297", "18446744073709551617"] {
            client.play(&format!("C: {command} {number}\nS: -ERR There is no such message")).await;
        }
        // Enough mistakes to end a session; each client makes some.
        client = server.logged_in().await;
        for number in ["x", "-1", "1 1", "1x"] {
            client.play(&format!("C: {command} {number}\nS: -ERR Syntax: …")).await;
        }
    }
    client.play("C: TOP 1\nS: -ERR Syntax: TOP message lines\nC: RETR\nS: -ERR Syntax: …").await;
}

#[tokio::test]
async fn top_returns_the_header_and_the_requested_lines() {
    let server = server(&["A: b\r\n\r\n1\r\n.2\r\n3", "A: b"]).await;
    let mut client = server.logged_in().await;
    for (command, wanted) in [
        ("TOP 1 0", &["A: b", ""][..]),
        ("TOP 1 2", &["A: b", "", "1", ".2"]),
        ("TOP 1 3", &["A: b", "", "1", ".2", "3"]),
        ("TOP 1 18446744073709551616", &["A: b", "", "1", ".2", "3"]),
        ("TOP 2 5", &["A: b"]),
    ] {
        client.play(&format!("C: {command}\nS: +OK …")).await;
        assert_eq!(client.lines().await, wanted, "{command}");
    }
}

/// A message that was stored with bare LF, or without an end, is sent as lines, and no line of it
/// ends the answer.
#[tokio::test]
async fn bare_lf_and_a_missing_end_are_served_as_lines() {
    let server =
        server(&["A: b\n\nx\n.\n+OK 1 octets\n.\r\n..\n", "A: b\r\n\r\nno end", ".", "", "\r\n.\n"]).await;
    let mut client = server.logged_in().await;
    for (number, wanted) in [
        (1, &["A: b", "", "x", ".", "+OK 1 octets", ".", ".."][..]),
        (2, &["A: b", "", "no end"]),
        (3, &["."]),
        (4, &[]),
        (5, &["", "."]),
    ] {
        client.play(&format!("C: RETR {number}\nS: +OK …")).await;
        assert_eq!(client.lines().await, wanted, "{number}");
    }
    client.play("C: QUIT\nS: +OK Goodbye").await;
    client.ends().await;
}

/// LIST has the size that RETR sends, for all mail whose lines end with CR LF. It makes no
/// difference whether the mail is read in one piece or in several.
#[tokio::test]
async fn sizes_are_what_is_sent() {
    let line = ".a line of 32 octets, with a dot\r\n";
    let messages: Vec<String> = [1, 2, 1000, 5000, 40_000]
        .iter()
        .map(|lines| format!("A: b\r\n\r\n{}", line.repeat(*lines)))
        .collect();
    let all: Vec<&str> = messages.iter().map(String::as_str).collect();
    let server = server(&all).await;
    let mut client = server.logged_in().await;
    for (number, message) in (1..).zip(&messages) {
        let octets = message.len();
        client
            .play(&format!(
                "C: LIST {number}\nS: +OK {number} {octets}\nC: RETR {number}\nS: +OK {octets} octets"
            ))
            .await;
        let came = client.lines().await;
        assert!(
            came.iter()
                .map(|line| format!("{line}\r\n"))
                .eq(message.split_inclusive('\n').map(str::to_owned))
        );
        client.play(&format!("C: TOP {number} 3\nS: +OK …")).await;
        assert_eq!(client.lines().await, came[..came.len().min(5)]);
    }
}

#[tokio::test]
async fn unique_ids_stay_and_are_never_given_twice() {
    let server = server(&[ONE, TWO, THREE]).await;
    let mut client = server.logged_in().await;
    client.play("C: UIDL\nS: +OK …").await;
    let first: Vec<String> = client.lines().await.iter().map(|line| line[2..].to_owned()).collect();
    // RFC 1939 §7: 1 to 70 characters of 0x21 to 0x7E.
    assert!(first.iter().all(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
    client.play(&format!("C: UIDL 2\nS: +OK 2 {}\nC: DELE 3\nS: +OK …\nC: QUIT\nS: +OK …", first[1])).await;
    client.ends().await;
    // The same text again is another message.
    server.append(&[THREE]).await;
    let mut client = server.logged_in().await;
    client.play(&format!("C: UIDL\nS: +OK …\nS: 1 {}\nS: 2 {}", first[0], first[1])).await;
    let last = client.line().await;
    assert!(last.starts_with("3 ") && last[2..] > *first[2], "{last}, {first:?}");
    client.play("S: .").await;
}

/// RFC 6856 §2.1 requires a refusal or another form without UTF8: a deviation (docs/rfc.md).
#[tokio::test]
async fn headers_in_utf_8_are_sent_as_stored() {
    let server = server(&["Subject: Gr\u{fc}\u{df}e\r\n\r\none\r\n"]).await;
    for mode in ["", "C: UTF8\nS: +OK …\n"] {
        let mut client = server.connect().await;
        client.play(&format!("S: +OK …\n{mode}C: USER {USER}\nS: +OK …\nC: PASS {PASSWORD}\nS: +OK …")).await;
        client.play("C: RETR 1\nS: +OK 25 octets").await;
        assert_eq!(client.lines().await, ["Subject: Gr\u{fc}\u{df}e", "", "one"]);
    }
}

/// RFC 9051 §6.3.6 empties INBOX. Mail that comes later has ids that no earlier message had.
#[tokio::test]
async fn unique_ids_survive_a_rename_of_inbox() {
    let server = server(&[ONE, TWO]).await;
    let mut client = server.logged_in().await;
    client.play("C: UIDL\nS: +OK …").await;
    let before: Vec<String> = client.lines().await.iter().map(|line| line[2..].to_owned()).collect();
    let account = server.delivery.directory().account(USER).await.unwrap().unwrap();
    let [inbox, old] = ["INBOX", "Old"].map(|name| MailboxName::new(name).unwrap());
    let store = server.delivery.store();
    store.rename(account.id, &inbox, &old).await.unwrap();
    // This session has the numbers and the ids of its login.
    client
        .play(&format!("C: UIDL 2\nS: +OK 2 {}\nC: RETR 2\nS: -ERR The message was removed …", before[1]))
        .await;
    server.append(&[ONE]).await;
    // Messages that are copied back to INBOX have new ids, too.
    let list = store.list(account.id).await.unwrap();
    let old = store.open(list.find(&old).unwrap().id).await.unwrap();
    server.inbox().await.copy_from(&old, &NumSet::range(1, 2)).await.unwrap();
    let mut client = server.logged_in().await;
    client.play("C: UIDL\nS: +OK …").await;
    let after: Vec<String> = client.lines().await.iter().map(|line| line[2..].to_owned()).collect();
    assert_eq!(after.len(), 3);
    // The same INBOX, and UIDs that continue.
    assert!(after.iter().all(|id| id[..8] == before[0][..8] && *id > before[1]), "{before:?} {after:?}");
    // Later sessions list the same.
    let mut client = server.logged_in().await;
    client.play("C: UIDL\nS: +OK …").await;
    assert!(client.lines().await.iter().map(|line| &line[2..]).eq(after.iter().map(String::as_str)));
}

/// Listings and messages beyond one buffer, piped into one packet.
#[tokio::test]
async fn many_messages_and_pipelined_commands() {
    let server = server(&[]).await;
    let texts: Vec<String> = (0..3000).map(|n| format!("A: {n}\r\n\r\n")).collect();
    let inbox = server.inbox().await;
    let mut messages = Vec::new();
    for text in &texts {
        messages.push(server.delivery.incoming(text.clone().into(), Vec::new(), None).await.unwrap());
    }
    inbox.append(messages).await.unwrap();
    let mut client = server.logged_in().await;
    client.send(b"DELE 1025\r\nLIST\r\nUIDL\r\nRETR 3000\r\nNOOP\r\n").await;
    client.play("S: +OK Removed at QUIT\nS: +OK 2999 messages …").await;
    let wanted = (0..3000).filter(|n| *n != 1024).map(|n| format!("{} {}", n + 1, texts[n].len()));
    assert!(client.lines().await.into_iter().eq(wanted));
    client.play("S: +OK …").await;
    assert_eq!(client.lines().await.len(), 2999);
    client.play("S: +OK …\nS: A: 2999\nS: …\nS: .\nS: +OK Nothing done").await;
}

#[tokio::test]
async fn capabilities_say_what_can_be_had_now() {
    let options = Pop3Options { login_delay: std::time::Duration::from_secs(90), ..Pop3Options::default() };
    let server = Setup { options, ..Setup::default() }.start().await;
    let mut client = server.connect().await;
    client
        .play(
            "S: +OK …
             C: CAPA
             S: +OK Capabilities follow
             S: TOP
             S: UIDL
             S: RESP-CODES
             S: AUTH-RESP-CODE
             S: PIPELINING
             S: UTF8 USER
             S: LANG
             S: EXPIRE NEVER
             S: LOGIN-DELAY 90
             S: STLS
             S: USER
             S: SASL SCRAM-SHA-256 PLAIN LOGIN
             S: IMPLEMENTATION Posthaste
             S: .",
        )
        .await;
    let mut client = server.logged_in().await;
    client.play("C: CAPA\nS: +OK …").await;
    let after = client.lines().await;
    // RFC 2449 §5: the capabilities from before the login, without STLS, which is no longer
    // permitted.
    for listed in ["UIDL", "LOGIN-DELAY 90", "USER", "SASL SCRAM-SHA-256 PLAIN LOGIN"] {
        assert!(after.contains(&listed.to_owned()), "{listed}: {after:?}");
    }
    assert!(!after.contains(&"STLS".to_owned()), "{after:?}");
}

#[tokio::test]
async fn the_language_of_answers() {
    let server = server(&[]).await;
    let mut client = server.connect().await;
    client
        .play(
            "S: +OK …
             C: LANG
             S: +OK Languages follow
             S: en English
             S: i-default English
             S: .
             C: LANG en
             S: +OK en …
             C: LANG en-GB
             S: +OK en …
             C: LANG *
             S: +OK en …
             C: LANG i-default
             S: +OK i-default …
             C: LANG de
             S: -ERR Answers are in English only",
        )
        .await;
}

#[tokio::test]
async fn commands_of_the_wrong_state() {
    let server = server(&[ONE]).await;
    let mut client = server.connect().await;
    client.play("S: +OK …").await;
    // RFC 1939 §3: each has a negative answer.
    for command in ["STAT", "LIST", "UIDL", "RETR 1", "TOP 1 1", "DELE 1", "NOOP", "RSET"] {
        client.play(&format!("C: {command}\nS: -ERR Log in first")).await;
    }
    client.play("C: HELP\nS: -ERR No such command\nC: QUIT\nS: +OK Goodbye").await;
    client.ends().await;
    let mut client = server.logged_in().await;
    for command in [&format!("USER {USER}"), "PASS x", "AUTH PLAIN", "STLS", "UTF8", "APOP a b"] {
        client.play(&format!("C: {command}\nS: -ERR You are logged in")).await;
    }
    client.play("C: NOOP\nS: +OK Nothing done").await;
}

/// RFC 2449 §8: a text that begins with a bracket has a response code.
#[tokio::test]
async fn the_greeting_of_an_address_literal_has_no_response_code() {
    let options = Pop3Options { hostname: "[192.0.2.1]".to_owned(), ..Pop3Options::default() };
    let server = Setup { options, ..Setup::default() }.start().await;
    let mut client = server.connect().await;
    client.play("S: +OK 192.0.2.1 Posthaste POP3 ready").await;
}

/// RFC 2449 §6.7: what rules remove from the INBOX does not stay for ever.
#[tokio::test]
async fn expire_follows_the_rules_of_retention() {
    let days = |n: u64| std::time::Duration::from_secs(n * 24 * 60 * 60);
    let rule = |accounts: &str, older_than| Rule {
        accounts: vec![accounts.to_owned()],
        mailbox: "INBOX".to_owned(),
        older_than,
        keep_newest: None,
        keep_flagged: false,
        age_from: None,
        action: Action::Trash,
    };
    for (rules, before, after) in [
        (vec![rule("*", Some(days(90)))], Some("EXPIRE 90"), Some("EXPIRE 90")),
        (vec![rule("other@*", Some(days(7)))], Some("EXPIRE 7 USER"), Some("EXPIRE NEVER")),
        (
            vec![rule("ana@*", Some(days(30))), rule("*", Some(days(7)))],
            Some("EXPIRE 7 USER"),
            Some("EXPIRE 7"),
        ),
        (vec![Rule { keep_newest: Some(10), ..rule("*", None) }], None, None),
    ] {
        let options = Pop3Options { expiry: InboxExpiry::new(&rules), ..Pop3Options::default() };
        let server = Setup { options, ..Setup::default() }.start().await;
        let mut client = server.connect().await;
        client.play("S: +OK …\nC: CAPA\nS: +OK …").await;
        let all = client.lines().await;
        assert_eq!(all.iter().map(String::as_str).find(|line| line.starts_with("EXPIRE")), before);
        let mut client = server.logged_in().await;
        client.play("C: CAPA\nS: +OK …").await;
        let all = client.lines().await;
        assert_eq!(all.iter().map(String::as_str).find(|line| line.starts_with("EXPIRE")), after);
    }
}
