//! ESEARCH in several mailboxes: RFC 7377.

use posthaste_imap_server::ImapOptions;

use crate::harness::Server;

/// The mailboxes of the example in RFC 7377 §2.1, smaller.
fn example() -> Server {
    let server = Server::start();
    let mut wire = server.login();
    for name in ["folder1", "folder2/banana", "folder2/peach", "folder2/salmon/fin"] {
        wire.run(&format!("C: a CREATE {name}\nS: a OK …"));
    }
    let message = |subject: &str| format!("Subject: {subject}\r\n\r\nText.\r\n").into_bytes();
    server.put("folder1", &message("one"));
    server.put("folder1 (\\Seen)", &message("two"));
    server.put("folder1", &message("three"));
    server.put("folder2/banana", &message("chad"));
    server.put("folder2/peach (\\Seen)", &message("four"));
    server.put("folder2/salmon/fin", &message("Chad and others"));
    server
}

/// RFC 6203 §4: a client can merge the results of several mailboxes by their scores.
#[test]
fn fuzzy_matches_of_several_mailboxes_have_scores() {
    let server = Server::start();
    // Each account has an Archive.
    for (mailbox, subject) in
        [("INBOX", "two unpaid invoices"), ("INBOX", "unpaid invoicing"), ("Archive", "invoices, unpaid")]
    {
        server.put(mailbox, format!("Subject: {subject}\r\n\r\nx\r\n").as_bytes());
    }
    server.login().run(
        r#"
        C: a ESEARCH IN (personal) RETURN (ALL RELEVANCY) FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "a" MAILBOX Archive UIDVALIDITY …) UID ALL 1 RELEVANCY (75)
        S: * ESEARCH (TAG "a" MAILBOX INBOX UIDVALIDITY …) UID ALL 1:2 RELEVANCY (100 62)
        S: a OK …
        C: b ESEARCH IN (personal) RETURN (PARTIAL 2:2 RELEVANCY) FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "b" MAILBOX INBOX UIDVALIDITY …) UID PARTIAL (2:2 2) RELEVANCY (62)
        S: b OK …
        C: c ESEARCH IN (personal) RETURN (RELEVANCY) SUBJECT unpaid
        S: c BAD …
        "#,
    );
}

#[test]
fn each_mailbox_with_a_match_has_its_response() {
    let server = example();
    server.login().run(
        r#"
        C: tag1 ESEARCH IN (mailboxes "folder1" subtree "folder2") unseen
        S: * ESEARCH (TAG "tag1" MAILBOX folder1 UIDVALIDITY …) UID ALL 1,3
        S: * ESEARCH (TAG "tag1" MAILBOX folder2/banana UIDVALIDITY …) UID ALL 1
        S: * ESEARCH (TAG "tag1" MAILBOX folder2/salmon/fin UIDVALIDITY …) UID ALL 1
        S: tag1 OK ESEARCH completed
        C: tag2 ESEARCH IN (mailboxes "folder1" subtree "folder2") subject "chad"
        S: * ESEARCH (TAG "tag2" MAILBOX folder2/banana UIDVALIDITY …) UID ALL 1
        S: * ESEARCH (TAG "tag2" MAILBOX folder2/salmon/fin UIDVALIDITY …) UID ALL 1
        S: tag2 OK ESEARCH completed
        C: a ESEARCH IN (subtree-one folder2) ALL
        S: * ESEARCH (TAG "a" MAILBOX folder2/banana UIDVALIDITY …) UID ALL 1
        S: * ESEARCH (TAG "a" MAILBOX folder2/peach UIDVALIDITY …) UID ALL 1
        S: a OK …
        # Named twice, searched once; one that is not there is no error.
        C: b ESEARCH IN (mailboxes (folder1 nowhere) mailboxes folder1) RETURN (MIN MAX COUNT) ALL
        S: * ESEARCH (TAG "b" MAILBOX folder1 UIDVALIDITY …) UID MIN 1 MAX 3 COUNT 3
        S: b OK …
        C: c ESEARCH IN (personal) RETURN (COUNT) SEEN
        S: * ESEARCH (TAG "c" MAILBOX folder1 UIDVALIDITY …) UID COUNT 1
        S: * ESEARCH (TAG "c" MAILBOX folder2/peach UIDVALIDITY …) UID COUNT 1
        S: c OK …
        C: d ESEARCH IN (inboxes) RETURN (PARTIAL -1:-1) UNSEEN SUBJECT "e"
        S: * ESEARCH (TAG "d" MAILBOX folder1 UIDVALIDITY …) UID PARTIAL (-1:-1 3)
        S: * ESEARCH (TAG "d" MAILBOX folder2/salmon/fin UIDVALIDITY …) UID PARTIAL (-1:-1 1)
        S: d OK …
        C: e ESEARCH IN (mailboxes folder1) BODY "nothing of the kind"
        S: e OK …
        "#,
    );
}

#[test]
fn subscriptions_utf8_names_and_mod_sequences() {
    let server = example();
    let mut wire = server.login();
    wire.run("C: a CREATE Entw&APw-rfe\nS: a OK …\nC: b SUBSCRIBE Entw&APw-rfe\nS: b OK …");
    server.put("Entw&APw-rfe", b"Subject: x\r\n\r\ny\r\n");
    wire.run(
        r#"
        C: c ESEARCH IN (subscribed) RETURN () ALL
        S: * ESEARCH (TAG "c" MAILBOX Entw&APw-rfe UIDVALIDITY …) UID ALL 1
        S: c OK …
        C: d ENABLE IMAP4rev2
        S~ d OK …
        "#,
    );
    wire.run("C: e ESEARCH IN (subscribed) MODSEQ 1\nS~ e OK …");
    wire.send(b"f ESEARCH IN (subscribed) RETURN (MAX) MODSEQ 1\r\n");
    wire.expect("* ESEARCH (TAG \"f\" MAILBOX \"Entw\u{fc}rfe\" UIDVALIDITY …) UID MAX 1 MODSEQ 1");
    wire.expect("f OK …");
}

#[test]
fn the_selected_mailbox_is_searched_as_the_session_knows_it() {
    let server = example();
    let mut wire = server.select("folder1");
    let mut other = server.select("folder1");
    other.run("C: a STORE 2 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS: * 2 EXPUNGE\nS: b OK …");
    wire.run(
        r#"
        # Without IN, and by sequence number: the expunge waits.
        C: a ESEARCH 2:3
        S: * ESEARCH (TAG "a" MAILBOX folder1 UIDVALIDITY …) UID ALL 2:3
        S~ a OK …
        C: b ESEARCH IN (selected mailboxes folder1) ALL
        S: * ESEARCH (TAG "b" MAILBOX folder1 UIDVALIDITY …) UID ALL 1:3
        S: * 2 EXPUNGE
        S: b OK …
        C: c ESEARCH RETURN (SAVE COUNT) ALL
        S: * ESEARCH (TAG "c" MAILBOX folder1 UIDVALIDITY …) UID COUNT 2
        S: c OK …
        C: d ESEARCH IN (selected) $
        S: * ESEARCH (TAG "d" MAILBOX folder1 UIDVALIDITY …) UID ALL 1,3
        S: d OK …
        # No match: no response.
        C: e ESEARCH SUBJECT "nothing"
        S: e OK …
        C: f ESEARCH RETURN (UPDATE) ALL
        S: * NO [NOUPDATE "f"] …
        S: * ESEARCH (TAG "f" MAILBOX folder1 UIDVALIDITY …) UID ALL 1,3
        S: f OK …
        "#,
    );
}

#[test]
fn criteria_of_the_selected_mailbox_are_refused_elsewhere() {
    let server = example();
    let mut wire = server.select("folder1");
    for command in [
        "ESEARCH IN (personal) 1:2",
        "ESEARCH IN (selected mailboxes folder2/peach) OR 1 UNSEEN",
        "ESEARCH IN (mailboxes folder1) RETURN (SAVE) ALL",
        "ESEARCH IN (personal) NOT $",
        "ESEARCH IN (personal) UID $",
        // RFC 7377 §3
        "ESEARCH IN (selected-delayed) ALL",
        "ESEARCH IN () ALL",
        "ESEARCH IN (subtree) ALL",
        "ESEARCH IN personal ALL",
        "ESEARCH IN (personal)",
        "ESEARCH RETURN (ALL PARTIAL 1:2) ALL",
        "ESEARCH",
    ] {
        wire.run(&format!("C: x {command}\nS: x BAD …\nC: y NAMESPACE\nS~ y OK …"));
    }
    wire.run("C: c ESEARCH IN (personal) CHARSET X-NONE SUBJECT x\nS: c NO [BADCHARSET …] …");
    let mut wire = server.login();
    wire.run("C: a ESEARCH ALL\nS: a BAD …\nC: b ESEARCH IN (selected) ALL\nS: b BAD …");
    // RFC 7377 §2.2
    wire.run("C: c ESEARCH IN (mailboxes folder1) RETURN (UPDATE) ALL\nS: c BAD …");
    wire.run("C: e ENABLE UIDONLY\nS~ e OK …\nC: f SELECT folder1\nS~ f OK …");
    wire.run("C: g ESEARCH 1\nS: g BAD [UIDREQUIRED] …");
    wire.run("C: h ESEARCH UID 1\nS: * ESEARCH (TAG \"h\" MAILBOX folder1 …) UID ALL 1\nS: h OK …");
    server.connect().run("C: a ESEARCH IN (personal) ALL\nS: a BAD …");
}

#[test]
fn the_limit_of_messages_counts_all_mailboxes() {
    let server = Server::start_with(ImapOptions { message_limit: 3, ..ImapOptions::default() });
    for mailbox in ["INBOX", "INBOX", "Archive", "Archive"] {
        server.put(mailbox, b"a\r\n");
    }
    let mut wire = server.login();
    wire.run(
        r#"
        # RFC 9738 §3.1: what was searched is answered, with the place where the search stopped.
        C: a ESEARCH IN (personal) ALL
        S: * ESEARCH (TAG "a" MAILBOX Archive UIDVALIDITY …) UID ALL 1:2
        S: * ESEARCH (TAG "a" MAILBOX INBOX UIDVALIDITY …) UID ALL 2
        S: a OK [MESSAGELIMIT 3 2] Messages of INBOX below this UID were not searched
        C: b ESEARCH IN (personal) SEEN
        S: b OK [MESSAGELIMIT 3 2] …
        # As in SEARCH, the messages that the sets name are those that are searched.
        C: c ESEARCH IN (personal) UID 2
        S: * ESEARCH (TAG "c" MAILBOX Archive UIDVALIDITY …) UID ALL 2
        S: * ESEARCH (TAG "c" MAILBOX INBOX UIDVALIDITY …) UID ALL 2
        S: c OK ESEARCH completed
        C: d ESEARCH IN (mailboxes INBOX) RETURN (COUNT) ALL
        S: * ESEARCH (TAG "d" MAILBOX INBOX UIDVALIDITY …) UID COUNT 2
        S: d OK ESEARCH completed
        "#,
    );
    server.put("Archive", b"e\r\n");
    wire.run(
        r#"
        C: e ESEARCH IN (personal) ALL
        S: * ESEARCH (TAG "e" MAILBOX Archive UIDVALIDITY …) UID ALL 1:3
        S: e OK [MESSAGELIMIT 3 1] The mailboxes after Archive were not searched
        "#,
    );
    server.put("Archive", b"f\r\n");
    wire.run(
        r#"
        C: f ESEARCH IN (personal) RETURN (MIN) ALL
        S: * ESEARCH (TAG "f" MAILBOX Archive UIDVALIDITY …) UID MIN 2
        S: f OK [MESSAGELIMIT 3 2] Messages of Archive below this UID and the mailboxes after it …
        # The selected mailbox, whose result is saved.
        C: g SELECT Archive
        S~ g OK …
        C: h ESEARCH IN (selected) RETURN (SAVE COUNT) ALL
        S: * ESEARCH (TAG "h" MAILBOX Archive UIDVALIDITY …) UID COUNT 3
        S: h OK [MESSAGELIMIT 3 2] …
        C: i FETCH $ (UID)
        S: * 2 FETCH (UID 2)
        S: * 3 FETCH (UID 3)
        S: * 4 FETCH (UID 4)
        S: i OK …
        "#,
    );
}
