//! Changes by one session and their reports to another: RFC 9051 §5.2, §5.5, §7.4, §7.5.1.

use crate::harness::Server;

#[test]
fn no_expunge_during_fetch_store_search_by_number() {
    let server = Server::start();
    server.with_messages(4);
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    two.run("C: a STORE 2 +FLAGS (\\Deleted)\nS~ a OK …\nC: b EXPUNGE\nS: * 2 EXPUNGE\nS: b OK …");
    server.with_messages(1);
    one.run(
        r#"
        # The expunge is held back; new messages are still reported, and numbers keep their meaning.
        C: a FETCH 3 UID
        S: * 3 FETCH (UID 3)
        S: * 5 EXISTS
        S: * 5 RECENT
        S: a OK …
        C: b STORE 3 +FLAGS (\Seen)
        S: * 3 FETCH (UID 3 FLAGS (\Recent \Seen))
        S: b OK …
        C: c SEARCH ALL
        S: * SEARCH 1 2 3 4 5
        S: c OK …
        C: d FETCH 2 (UID FLAGS)
        S: * 2 FETCH (UID 2 FLAGS (…))
        S: d OK …
        # Nothing can be stored in it. RFC 2180 §4.2.1: .SILENT is OK anyway.
        C: d2 STORE 1:2 +FLAGS.SILENT (\Answered)
        S: d2 OK [EXPUNGEISSUED] …
        C: d3 STORE 2 FLAGS (\Seen)
        S: d3 OK [EXPUNGEISSUED] …
        # RFC 2180 §4.2.3: the others are changed, and reported. The code says the rest.
        C: d4 STORE 1:2 +FLAGS (\Answered)
        S: * 1 FETCH (UID 1 FLAGS (\Recent \Answered))
        S: d4 OK [EXPUNGEISSUED] …
        # The bytes of an expunged message cannot be read.
        C: e FETCH 2 BODY.PEEK[]
        S~ e OK [EXPUNGEISSUED] …
        C: f UID FETCH 3 FLAGS
        S: * 3 FETCH (UID 3 FLAGS (\Recent \Seen))
        S: * 2 EXPUNGE
        S: f OK …
        # RFC 9051 §6.4.9: by UID it is passed over.
        C: f2 UID STORE 2 FLAGS (\Seen)
        S: f2 OK …
        C: g SEARCH ALL
        S: * SEARCH 1 2 3 4
        S: g OK …
        "#,
    );
}

#[test]
fn a_mailbox_that_another_deletes() {
    let server = Server::start();
    server.login().run("C: a CREATE short-lived\nS~ a OK …");
    server.put("short-lived", b"Subject: x\r\n\r\nx\r\n");
    let mut one = server.select("short-lived");
    server.login().run("C: a DELETE short-lived\nS: a OK …");
    // Each requested item is answered, with some text (RFC 3501 §9, resp-text), and then there is
    // nothing left to say.
    one.run("C: a FETCH 1 UID\nS: * 1 FETCH (UID 1)\nS: a OK FETCH completed\nS: * BYE …");
}

#[test]
fn flags_and_arrivals_are_reported() {
    let server = Server::start();
    server.with_messages(2);
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    two.run("C: a STORE 1 +FLAGS (Work)\nS~ a OK …");
    one.run(
        r#"
        C: a NOOP
        S: * FLAGS (\Answered \Flagged \Deleted \Seen \Draft Work)
        S: * OK [PERMANENTFLAGS (…Work \*)] …
        S: * 1 FETCH (UID 1 FLAGS (\Recent Work))
        S: a OK …
        C: b NOOP
        S: b OK …
        "#,
    );
    one.run("C: c COPY 1:2 INBOX\nS: * 4 EXISTS\nS: * 4 RECENT\nS: c OK …");
    two.run("C: c NOOP\nS: * 4 EXISTS\nS: * 0 RECENT\nS: c OK …");
}

#[test]
fn silence_covers_only_ones_own_change() {
    let server = Server::start();
    server.with_messages(2);
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    two.run("C: a STORE 1 +FLAGS (\\Flagged)\nS~ a OK …");
    // Message 1 has a flag this client does not know of: its silence does not cover that.
    one.run(
        r#"
        C: a STORE 1:2 +FLAGS.SILENT (\Seen)
        S: * 1 FETCH (UID 1 FLAGS (\Recent \Flagged \Seen))
        S: a OK …
        "#,
    );
    two.run(
        r#"
        C: b NOOP
        S: * 1 FETCH (UID 1 FLAGS (\Flagged \Seen))
        S: * 2 FETCH (UID 2 FLAGS (\Seen))
        S: b OK …
        "#,
    );
}

#[test]
fn an_expunged_message_cannot_be_copied() {
    let server = Server::start();
    server.with_messages(3);
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    let mut by_uid = server.select("INBOX");
    two.run("C: a STORE 1:2 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS~ b OK …");
    one.run(
        r#"
        # All or none, though one of the three is there.
        C: a COPY 1:3 Archive
        S: * 2 EXPUNGE
        S: * 1 EXPUNGE
        S: a NO [EXPUNGEISSUED] …
        C: b COPY 1 Archive
        S: b OK [COPYUID … 3 1] …
        "#,
    );
    // RFC 9051 §6.4.9: UIDs nobody has are no error, whenever they went.
    by_uid.run("C: a UID COPY 1 Archive\nS: * 2 EXPUNGE\nS: * 1 EXPUNGE\nS: a OK …");
    two.run("C: c STORE 1 +FLAGS.SILENT (\\Deleted)\nS: c OK …\nC: d EXPUNGE\nS~ d OK …");
    by_uid.run("C: b UID MOVE 3 Archive\nS: * 1 EXPUNGE\nS: b OK …");
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.select("INBOX");
    wire.send(
        b"a NOOP\r\nb FETCH 1 UID\r\nc STORE 2 +FLAGS.SILENT \\Seen\r\nd UID SEARCH SEEN\r\ne LOGOUT\r\n",
    );
    wire.run("S: a OK …\nS: * 1 FETCH (UID 1)\nS: b OK …\nS: c OK …\nS: * SEARCH 2\nS: d OK …\nS: * BYE …\nS: e OK …");
}
