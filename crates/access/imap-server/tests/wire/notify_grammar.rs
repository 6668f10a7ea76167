//! The parts of NOTIFY's grammar (RFC 5465 §8) that other commands and documents add to it.

use crate::harness::{Server, response};

/// A message of another client.
const MESSAGE: &[u8] = b"From: a@example.org\r\nSubject: news\r\n\r\nText.\r\n";

/// RFC 7377 §3 adds SUBTREE-ONE to the filters of RFC 5465 §8.
#[test]
fn subtree_one_names_mailboxes_and_those_directly_below_them() {
    let server = Server::start();
    server.login().run("C: a CREATE a/b/c\nS: a OK …");
    let mut wire = server.login();
    wire.run(
        r#"
        C: a NOTIFY SET STATUS (SUBTREE-ONE (a nowhere) (MessageNew MessageExpunge))
        S~ * STATUS a/b (…)
        S: a OK …
        "#,
    );
    for mailbox in ["a/b/c", "a/b"] {
        server.put(mailbox, MESSAGE);
    }
    wire.expect("* STATUS a/b (UIDVALIDITY … UIDNEXT 2 MESSAGES 1)");
}

/// RFC 5465 §7: EXISTS, FETCH and ESEARCH in this order.
#[test]
fn new_messages_that_enter_a_result_come_with_the_items_of_update() {
    const FROM_BOSS: &[u8] = b"From: boss@example.org\r\nSubject: news\r\n\r\nText.\r\n";
    let server = Server::start();
    server.put("INBOX", FROM_BOSS);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a00 SEARCH RETURN (COUNT UPDATE (RFC822.SIZE BODY[HEADER.FIELDS (SUBJECT)])) FROM "boss"
        S: * ESEARCH (TAG "a00") COUNT 1
        S: a00 OK …
        C: a01 UID SORT RETURN (COUNT UPDATE (INTERNALDATE)) (SUBJECT) UTF-8 FLAGGED
        S: * ESEARCH (TAG "a01") UID COUNT 0
        S: a01 OK …
        "#,
    );
    // Of two new messages one enters the first result, and its \Seen is not set.
    server.put("INBOX", MESSAGE);
    server.put("INBOX", FROM_BOSS);
    wire.run("C: b NOOP\nS: * 3 EXISTS\nS: * … RECENT");
    let fetched = String::from_utf8(response(&mut wire)).unwrap();
    assert!(
        fetched.starts_with("* 3 FETCH (UID 3 RFC822.SIZE 48 BODY[HEADER.FIELDS (SUBJECT)] {"),
        "{fetched}"
    );
    wire.run("S: * ESEARCH (TAG \"a00\") ADDTO (0 3)\nS: b OK …");
    wire.run("C: c SEARCH SEEN\nS: * SEARCH\nS: c OK …");
    // A message that enters because its flags changed is not fetched.
    let mut other = server.select("INBOX");
    other.run("C: a STORE 2 +FLAGS.SILENT (\\Flagged)\nS: a OK …");
    wire.run(
        r#"
        C: d NOOP
        S: * 2 FETCH (UID 2 FLAGS (…\Flagged…))
        S: * ESEARCH (TAG "a01") UID ADDTO (1 2)
        S: d OK …
        "#,
    );
    server.put("INBOX (\\Flagged)", MESSAGE);
    wire.run(
        r#"
        C: e NOOP
        S: * 4 EXISTS
        S: * … RECENT
        S: * 4 FETCH (UID 4 INTERNALDATE …)
        S: * ESEARCH (TAG "a01") UID ADDTO (2 4)
        S: e OK …
        "#,
    );
}

/// RFC 9586: UIDFETCH in place of FETCH.
#[test]
fn items_of_update_come_without_sequence_numbers() {
    let server = Server::start();
    server.put("INBOX", MESSAGE);
    let mut wire = server.login();
    wire.run("C: a ENABLE UIDONLY\nS~ a OK …\nC: b SELECT INBOX\nS~ b OK …");
    wire.run(
        r#"
        C: c UID SEARCH RETURN (COUNT UPDATE (RFC822.SIZE)) ALL
        S: * ESEARCH (TAG "c") UID COUNT 1
        S: c OK …
        "#,
    );
    server.put("INBOX", MESSAGE);
    wire.run(
        r#"
        C: d NOOP
        S: * 2 EXISTS
        S: * … RECENT
        S: * 2 UIDFETCH (RFC822.SIZE 45)
        S: * ESEARCH (TAG "c") UID ADDTO (0 2)
        S: d OK …
        C: e UID SEARCH RETURN (COUNT UPDATE ()) ALL
        S: e BAD …
        "#,
    );
}
