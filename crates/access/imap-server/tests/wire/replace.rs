//! REPLACE and UID REPLACE: RFC 8508.

use posthaste_directory::AccountChange;

use crate::harness::Server;

/// 28 octets.
const NEW: &str = "Subject: new\r\n\r\nNew words.\r\n";

/// Sends a command that ends with the new message in a literal, and its continuation.
fn replace(wire: &mut posthaste_testkit::Wire, command: &str) {
    wire.run(&format!("C: {command} {{{}}}\nS: + …", NEW.len()));
    wire.send(NEW.as_bytes());
    wire.send(b"\r\n");
}

#[test]
fn a_draft_is_replaced_in_its_mailbox() {
    let server = Server::start();
    server.with_messages(3);
    let mut one = server.select("INBOX");
    replace(&mut one, r#"a REPLACE 2 INBOX (\Draft $Mine) "02-Jan-2020 10:00:00 +0000""#);
    one.run(
        r#"
        # RFC 8508 §4.3: APPENDUID comes before EXPUNGE.
        S: * OK [APPENDUID … 4] …
        S: * 2 EXPUNGE
        S: * 3 EXISTS
        S~ a OK …
        C: b FETCH 3 (UID FLAGS INTERNALDATE BODY.PEEK[TEXT])
        S: * 3 FETCH (UID 4 FLAGS (… \Draft $Mine) INTERNALDATE " 2-Jan-2020 10:00:00 +0000" BODY[TEXT] {12}
        S: New words.
        S: )
        S: b OK …
        "#,
    );
    // By UID, with another session open.
    let mut two = server.select("INBOX");
    replace(&mut one, "c UID REPLACE 4 INBOX");
    one.run("S: * OK [APPENDUID … 5] …\nS: * 3 EXPUNGE\nS: * 3 EXISTS\nS~ c OK …");
    two.run("C: a NOOP\nS: * 3 EXPUNGE\nS: * 3 EXISTS\nS~ a OK …");
    replace(&mut one, "d REPLACE * INBOX");
    one.run("S: * OK [APPENDUID … 6] …\nS~ d OK …");
}

#[test]
fn a_message_is_replaced_by_one_in_another_mailbox() {
    let server = Server::start();
    server.with_messages(2);
    let mut one = server.login();
    one.run("C: a ENABLE QRESYNC\nS~ a OK …\nC: b SELECT INBOX\nS~ b OK …");
    replace(&mut one, "c UID REPLACE 1 Sent");
    one.run(
        r#"
        S: * OK [APPENDUID … 1] …
        S: * VANISHED 1
        S: c OK [HIGHESTMODSEQ …] …
        C: d STATUS Sent (MESSAGES)
        S: * STATUS Sent (MESSAGES 1)
        S: d OK …
        "#,
    );
    // RFC 8508 §3.2, with RFC 9586: numbers are refused, UIDs are not.
    let mut two = server.login();
    two.run("C: a ENABLE UIDONLY\nS~ a OK …\nC: b SELECT INBOX\nS~ b OK …");
    replace(&mut two, "c REPLACE 1 Sent");
    two.run("S: c BAD [UIDREQUIRED] …");
    replace(&mut two, "d UID REPLACE 2 Sent");
    two.run("S: * OK [APPENDUID … 2] …\nS: * VANISHED 2\nS: d OK …");
}

#[test]
fn a_message_that_cannot_be_replaced_stays_and_none_is_added() {
    let server = Server::start();
    server.with_messages(2);
    let mut one = server.select("INBOX");
    replace(&mut one, "a UID REPLACE 9 INBOX");
    one.run("S: a NO [NONEXISTENT] …");
    replace(&mut one, "b REPLACE 9 INBOX");
    one.run("S: b BAD …");
    replace(&mut one, "c REPLACE 1 Nowhere");
    one.run("S: c NO [TRYCREATE] …");
    one.run("C: d REPLACE 1 INBOX {0}\nS: + …");
    one.send(b"\r\n");
    one.run("S: d NO [CANNOT] …");
    one.run("C: e REPLACE 1:2 INBOX {3}\nS: + …");
    one.send(b"abc\r\n");
    one.run("S: e BAD …");
    one.run("C: f UID REPLACE * INBOX {3}\nS: + …");
    one.send(b"abc\r\n");
    one.run("S: f BAD …");
    // Another session expunged it.
    server.select("INBOX").run("C: a STORE 1 +FLAGS (\\Deleted)\nS~ a OK …\nC: b EXPUNGE\nS~ b OK …");
    replace(&mut one, "g REPLACE 1 INBOX");
    one.run("S: * 1 EXPUNGE\nS: g NO [EXPUNGEISSUED] …");
    one.run("C: h EXAMINE INBOX\nS~ h OK …");
    replace(&mut one, "i REPLACE 1 INBOX");
    one.run("S: i NO [READ-ONLY] …");
    // A literal over the limit is refused before it is sent.
    one.run("C: j UID REPLACE 2 INBOX {99999999999}\nS: j NO [TOOBIG] …");
    one.run("C: k STATUS INBOX (MESSAGES UIDNEXT)\nS: * STATUS INBOX (MESSAGES 1 UIDNEXT 3)\nS: k OK …");
    let mut out = server.login();
    replace(&mut out, "a REPLACE 1 INBOX");
    out.run("S: a BAD …");
}

#[test]
fn removed_messages_make_room_for_added_ones() {
    let server = Server::start();
    server.with_messages(1);
    let full = AccountChange {
        quota_messages: Some(Some(1)),
        quota_bytes: Some(Some(1_060)),
        ..AccountChange::default()
    };
    server.limit(full);
    let mut one = server.select("INBOX");
    one.run(&format!("C: a APPEND INBOX {{{}}}\nS: a NO [OVERQUOTA] …", NEW.len()));
    replace(&mut one, "b REPLACE 1 INBOX");
    one.run("S: * OK [APPENDUID … 2] …\nS~ b OK …");
    let long = format!("Subject: long\r\n\r\n{}\r\n", "x".repeat(40));
    one.run(&format!("C: c REPLACE 1 INBOX {{{}}}\nS: + …", long.len()));
    one.send(long.as_bytes());
    one.send(b"\r\n");
    one.run("S: c NO [OVERQUOTA] …");
}
