//! ANNOTATE-EXPERIMENT-1 where the directory fails, where others write at the same time, and at the
//! limits of accounts and of memory.

use posthaste_directory::NewAccount;
use posthaste_net::ByteBudget;

use crate::harness::{Server, USER};
use crate::sharing::{BO, SHARED};

#[test]
fn a_move_whose_annotations_cannot_be_written_says_so_and_forgets_none() {
    let (server, faulty) = Server::start_faulty();
    server.with_messages(3);
    let mut client = server.select("INBOX");
    client.run("C: a STORE 1:3 ANNOTATION (/comment (value.priv \"x\"))\nS: a OK …");
    faulty.fail_to_write("annotate/");
    client.run(
        r#"
        C: b COPY 1 Archive
        S: * NO The new messages lack annotations, which could not be written
        S: b OK [COPYUID …] …
        C: c MOVE 1 Archive
        S: * NO The new messages lack annotations, which could not be written
        S: * OK [COPYUID …] …
        S: * 1 EXPUNGE
        S: c OK …
        C: d RENAME INBOX Old
        S: * NO The new messages lack annotations, which could not be written
        S~ d OK …
        C: e APPEND Old ANNOTATION (/comment (value.priv "y")) {3+}
        C: abc
        S: * NO The new messages lack annotations, which could not be written
        S: e OK [APPENDUID …] …
        "#,
    );
    assert_eq!(server.message_annotations(), 3);
    faulty.fail_on(None);
    // Into a mailbox of others the same holds.
    server.add_account(BO, NewAccount::default());
    server.grant(BO, "INBOX", USER, "lrswipkxtecdan");
    client.run(
        r#"
        C: f SELECT Old
        S~ f OK …
        C: g STORE 1 ANNOTATION (/comment (value.priv "x"))
        S: g OK …
        "#,
    );
    faulty.fail_to_write("annotate/");
    client.run(
        r#"
        C: h MOVE 1 "Other Users/bo@example.org/INBOX"
        S: * NO The new messages lack annotations, which could not be written
        S: * OK [COPYUID …] …
        S: * 1 EXPUNGE
        S: h OK …
        "#,
    );
    assert_eq!(server.message_annotations(), 4);
}

/// A mailbox that never had annotations costs one record that is not there.
#[test]
fn without_annotations_little_is_read() {
    let (server, faulty) = Server::start_faulty();
    server.with_messages(40);
    let mut client = server.select("INBOX");
    client.run("C: a STORE 1:2 +FLAGS.SILENT (\\Deleted)\nS: a OK …");
    for command in ["EXPUNGE", "MOVE 1:33 Archive", "COPY 1 Archive", "FETCH 1:* (ANNOTATION (* value))"] {
        faulty.reads_of("");
        client.run(&format!("C: b {command}\nS~ b OK …"));
        let reads = faulty.reads_of("annotat");
        assert!(reads.len() == 1 && reads[0].starts_with("annotated/"), "{command}: {reads:?}");
        assert!(!reads[0].ends_with('*'), "{command}: {reads:?}");
    }
}

/// RFC 7162 §3.1.3: annotations and mod-sequences are separate, so the test of both must hold.
#[test]
fn a_value_that_others_write_between_test_and_change_is_not_lost() {
    let (server, faulty) = Server::start_faulty();
    server.with_messages(2);
    let mut client = server.login();
    client.run(
        r#"
        C: a ENABLE CONDSTORE
        S~ a OK …
        C: b SELECT INBOX
        S~ b OK …
        C: c STORE 1:2 ANNOTATION (/comment (value.priv "theirs"))
        S~ c OK …
        "#,
    );
    faulty.come_between("annotate/");
    client.run(
        r#"
        C: d STORE 1:2 (UNCHANGEDSINCE 99) ANNOTATION (/comment (value.priv "mine"))
        S~ d OK [MODIFIED 1] …
        C: e FETCH 1:2 (ANNOTATION (/comment value.priv))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "theirs")))
        S: * 2 FETCH (ANNOTATION (/comment (value.priv "mine")))
        S: e OK …
        "#,
    );
    // Without the condition, it comes after the other one.
    faulty.come_between("annotate/");
    client.run(
        r#"
        C: f STORE 1 ANNOTATION (/comment (value.priv "mine"))
        S~ f OK …
        C: g FETCH 1 (ANNOTATION (/comment value.priv))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "mine")))
        S: g OK …
        "#,
    );
}

/// Private values count for the reader, shared ones for the owner. Without room in one of both
/// accounts, nothing is written.
#[test]
fn the_room_of_both_accounts_is_looked_at_first() {
    let server = Server::start();
    server.with_messages(64);
    server.add_account(BO, NewAccount::default());
    server.grant(USER, "INBOX", BO, "lrin");
    let long = "x".repeat(65_000);
    let mut ana = server.select("INBOX");
    ana.send(format!("a STORE 1:64 ANNOTATION (/a (value.shared {{65000+}}\r\n{long}))\r\n").as_bytes());
    ana.expect("a OK …");
    let mut bo = server.login_as(BO);
    bo.run("C: a SELECT \"Other Users/ana@example.org/INBOX\"\nS~ a OK …");
    bo.send(
        format!("b STORE 1:2 ANNOTATION (/a (value.priv \"y\") /b (value.shared {{65000+}}\r\n{long}))\r\n")
            .as_bytes(),
    );
    bo.run(
        r#"
        S: b NO [ANNOTATE TOOMANY] …
        C: c FETCH 1:2 (ANNOTATION (/a value.priv))
        S: * 1 FETCH (ANNOTATION (/a (value.priv NIL)))
        S: * 2 FETCH (ANNOTATION (/a (value.priv NIL)))
        S: c OK …
        "#,
    );
    assert_eq!(server.message_annotations(), 64);
}

/// The output of a FETCH takes memory: names of entries that are printed for each message, too.
#[test]
fn printed_annotations_are_paid_for() {
    let server = Server::start_reading(ByteBudget::new(1 << 20), 1 << 18);
    server.with_messages(200);
    let mut client = server.select("INBOX");
    client.run("C: a STORE 1:200 ANNOTATION (/comment (value.priv \"x\"))\nS: a OK …");
    let names: Vec<String> = (0..32).map(|n| format!("/vendor/{n:0>20}")).collect();
    let names = names.join(" ");
    client.run(&format!("C: b FETCH 1:200 (ANNOTATION (({names}) value))\nS: b NO [UNAVAILABLE] …"));
    client.run(&format!("C: c FETCH 1:2 (ANNOTATION (({names}) value))\nS~ c OK …"));
    client.run("C: d FETCH 1:200 (ANNOTATION (/comment value))\nS~ d OK …");
}

/// A long structure is not parsed in the session's task, which would panic: it is work of over
/// `SLICE_STEPS + STEPS_MAX`.
#[test]
fn parts_of_a_large_structure_are_found() {
    let server = Server::start();
    let mut message = String::from("Content-Type: multipart/mixed; boundary=b\r\n\r\n");
    for n in 0..6000 {
        let name = format!("{n:0>60}");
        message.push_str(&format!("--b\r\nContent-Type: text/plain; name={name}\r\n\r\nx\r\n"));
    }
    message.push_str("--b--\r\n");
    server.put("INBOX", message.as_bytes());
    let entries: Vec<String> =
        (1..=90).map(|n| format!("/{}/comment (value.priv \"{n}\")", n * 60)).collect();
    server.select("INBOX").run(&format!(
        r#"
        C: a STORE 1 ANNOTATION ({})
        S: a OK …
        C: b STORE 1 ANNOTATION (/6001/comment (value.priv "x"))
        S: b BAD A message lacks a part that the command names
        C: c FETCH 1 (ANNOTATION (/5400/comment value.priv))
        S: * 1 FETCH (ANNOTATION (/5400/comment (value.priv "90")))
        S: c OK …
        "#,
        entries.join(" "),
    ));
}

/// The annotations of all users: a mailbox that is restored with that id must not show them.
#[test]
fn values_of_readers_go_with_message_and_mailbox() {
    let server = crate::sharing::server("lri");
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        r#"
        C: a SELECT {SHARED}
        S~ a OK …
        C: b STORE 1:2 ANNOTATION (/comment (value.priv "bo's own"))
        S: b OK …
        C: c UNSELECT
        S: c OK …
        "#
    ));
    assert_eq!(server.message_annotations(), 2);
    let mut ana = server.login();
    ana.run(
        r#"
        C: a CREATE Q
        S: a OK …
        C: b SETACL Q bo@example.org lr
        S: b OK …
        C: c SELECT P
        S~ c OK …
        C: d MOVE 1 Q
        S~ d OK …
        "#,
    );
    // A move within an account takes along what all keep.
    bo.run(
        r#"
        C: d SELECT "Other Users/ana@example.org/Q"
        S~ d OK …
        C: e FETCH 1 (ANNOTATION (/comment value.priv))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "bo's own")))
        S: e OK …
        "#,
    );
    ana.run(
        r#"
        C: e STORE 1 +FLAGS.SILENT (\Deleted)
        S: e OK …
        C: f EXPUNGE
        S~ f OK …
        "#,
    );
    assert_eq!(server.message_annotations(), 1);
    ana.run("C: g DELETE Q\nS: g OK …");
    assert_eq!(server.message_annotations(), 0);
}
