//! FETCH while things change, and the items of extensions: RFC 7162, 8474, 8514, 8970;
//! EXPUNGEISSUED.

use crate::harness::{Server, fetch_text, literal};

#[test]
fn changed_since_and_vanished() {
    let server = Server::start();
    server.with_messages(4);
    server.login().run(
        r#"
        C: a SELECT INBOX
        S~ a OK …
        C: b UID FETCH 1:* (FLAGS) (CHANGEDSINCE 3 VANISHED)
        S: b BAD …
        C: c FETCH 1:* (FLAGS) (CHANGEDSINCE 3)
        S: * OK [HIGHESTMODSEQ 4] …
        S: * 4 FETCH (FLAGS (\Recent) MODSEQ (4))
        S: c OK …
        C: d FETCH 1:2 (MODSEQ UID)
        S: * 1 FETCH (MODSEQ (1) UID 1)
        S: * 2 FETCH (MODSEQ (2) UID 2)
        S: d OK …
        # From here on every unsolicited FETCH has it.
        C: e STORE 1 +FLAGS (\Seen)
        S: * 1 FETCH (UID 1 FLAGS (\Recent \Seen) MODSEQ (5))
        S: e OK …
        C: f FETCH 2 BODY[TEXT]
        S: * 2 FETCH (UID 2 FLAGS (\Recent \Seen) MODSEQ (6) BODY[TEXT] {9}
        S: Body 2.
        S: )
        S: f OK …
        C: g FETCH 1:* ENVELOPE (CHANGEDSINCE 6)
        S: g OK …
        C: h FETCH 1:* (UID) (CHANGEDSINCE 5)
        S: * 2 FETCH (UID 2 MODSEQ (6))
        S: h OK …
        C: i ENABLE QRESYNC
        S: * ENABLED QRESYNC
        S: i OK …
        C: j STORE 3 +FLAGS.SILENT (\Deleted)
        S: * 3 FETCH (UID 3 MODSEQ (7))
        S: j OK …
        C: k EXPUNGE
        S: * VANISHED 3
        S: k OK [HIGHESTMODSEQ 8] …
        C: l UID FETCH 1:9 (UID) (CHANGEDSINCE 4 VANISHED)
        S: * VANISHED (EARLIER) 3
        S: * 1 FETCH (UID 1 MODSEQ (5))
        S: * 2 FETCH (UID 2 MODSEQ (6))
        S: l OK …
        C: m UID FETCH 4:9 (UID) (CHANGEDSINCE 4 VANISHED)
        S: m OK …
        C: n FETCH 1:3 (UID) (CHANGEDSINCE 4 VANISHED)
        S: n BAD …
        C: o UID FETCH 1:3 (UID) (VANISHED)
        S: o BAD …
        "#,
    );
}

/// HIGHESTMODSEQ of a mailbox that never changed is reported as 1; the first change is not above
/// that.
#[test]
fn changed_since_the_beginning() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a SELECT INBOX (CONDSTORE)\nS~ * OK [HIGHESTMODSEQ 1] …\nS~ a OK …");
    server.with_messages(1);
    wire.run(
        r#"
        C: b NOOP
        S: * 1 EXISTS
        S: * 1 RECENT
        S: b OK …
        C: c UID FETCH 1:* (FLAGS) (CHANGEDSINCE 1)
        S: * 1 FETCH (UID 1 FLAGS (\Recent) MODSEQ (1))
        S: c OK …
        "#,
    );
}

/// RFC 2180 §4.1.2: expunged messages are skipped, the rest keep their numbers.
#[test]
fn expunged_by_another_meanwhile() {
    let server = Server::start();
    server.with_messages(6);
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    two.run(
        "C: a STORE 2,4:5 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS: * 5 EXPUNGE\nS: * 4 EXPUNGE\nS: * 2 EXPUNGE\nS: b OK …",
    );
    one.run(
        r#"
        C: a FETCH 1:* (UID BODY.PEEK[HEADER.FIELDS (SUBJECT)])
        S: * 1 FETCH (UID 1 BODY[HEADER.FIELDS (SUBJECT)] {21}
        S: Subject: number 1
        S:
        S: )
        S: * 3 FETCH (UID 3 BODY[HEADER.FIELDS (SUBJECT)] {21}
        S: Subject: number 3
        S:
        S: )
        S: * 6 FETCH (UID 6 BODY[HEADER.FIELDS (SUBJECT)] {21}
        S: Subject: number 6
        S:
        S: )
        S: a OK [EXPUNGEISSUED] …
        C: b FETCH 2:6 (UID BODY.PEEK[TEXT])
        S: * 3 FETCH (UID 3 BODY[TEXT] {9}
        S: Body 3.
        S: )
        S: * 6 FETCH (UID 6 BODY[TEXT] {9}
        S: Body 6.
        S: )
        S: b OK [EXPUNGEISSUED] …
        # Nor is it an error if none of them is there.
        C: c FETCH 4 BODY[]
        S: c OK [EXPUNGEISSUED] …
        # One of those that are left, and its flag: with the number this session knows it by.
        C: d FETCH 6 BODY[TEXT]
        S: * 6 FETCH (FLAGS (\Recent \Seen) BODY[TEXT] {9}
        S: Body 6.
        S: )
        S: d OK …
        # RFC 9051 §6.4.9: a UID nobody has is no error.
        C: e UID FETCH 4:6 (ENVELOPE)
        S: * 6 FETCH (UID 6 ENVELOPE (…))
        S: * 5 EXPUNGE
        S: * 4 EXPUNGE
        S: * 2 EXPUNGE
        S: e OK …
        C: f FETCH 3 UID
        S: * 3 FETCH (UID 6)
        S: f OK …
        C: g FETCH 4 UID
        S: g BAD …
        "#,
    );
}

#[test]
fn ids_dates_and_previews() {
    let server = Server::start();
    server.put(
        "INBOX",
        b"Content-Type: text/plain; charset=utf-8\r\n\r\nGr\xc3\xbc\xc3\x9fe  aus\r\nK\xc3\xb6ln\r\n",
    );
    server.put("INBOX", b"Content-Type: image/png\r\n\r\nxx");
    server.put("INBOX", b"Content-Type: text/html\r\n\r\n<p>One &amp; <b>two</b></p>");
    let mut wire = server.select("INBOX");
    let id = fetch_text(&mut wire, 1, "EMAILID");
    wire.run("C: a COPY 1 Archive\nS: a OK …\nC: b SELECT Archive\nS~ b OK …");
    assert_eq!(fetch_text(&mut wire, 1, "EMAILID"), id, "a copy is the same mail: RFC 8474 §5.1");
    let inner = id.strip_prefix("EMAILID (").and_then(|id| id.strip_suffix(')')).expect("an id");
    wire.run(&format!("C: c SEARCH EMAILID {inner}\nS: * SEARCH 1\nS: c OK …\nC: d SELECT INBOX\nS~ d OK …"));
    wire.run(&format!("C: e UID SEARCH NOT EMAILID {inner}\nS: * SEARCH 2 3\nS: e OK …"));
    assert_ne!(fetch_text(&mut wire, 2, "EMAILID"), id);
    assert_eq!(fetch_text(&mut wire, 1, "PREVIEW"), literal("PREVIEW", "Grüße aus Köln"));
    assert_eq!(fetch_text(&mut wire, 2, "PREVIEW"), "PREVIEW \"\"");
    assert_eq!(fetch_text(&mut wire, 3, "(PREVIEW (LAZY))"), "PREVIEW \"One & two\"");
    // The names that drafts of RFC 8970 had. Dovecot answers them so.
    for (item, value) in [
        ("(PREVIEW (FUZZY))", "PREVIEW (FUZZY \"One & two\")"),
        ("(PREVIEW (LAZY=FUZZY FUZZY))", "PREVIEW (FUZZY \"One & two\")"),
        ("(SNIPPET (LAZY=FUZZY))", "SNIPPET (FUZZY \"One & two\")"),
        ("SNIPPET", "SNIPPET (FUZZY \"One & two\")"),
    ] {
        assert_eq!(fetch_text(&mut wire, 3, item), value);
    }
    assert_eq!(fetch_text(&mut wire, 2, "SNIPPET"), "SNIPPET (FUZZY \"\")");
    wire.run("C: h FETCH 3 (PREVIEW (KEEN))\nS: h BAD …\nC: i FETCH 3 (SNIPPET (FUZZY KEEN))\nS: i BAD …");
    // A text that calls itself an attachment is all that there is to see.
    server.put(
        "INBOX",
        b"Content-Type: text/plain; name=log.txt\r\nContent-Disposition: attachment\r\n\r\nall is well\r\n",
    );
    server.put(
        "INBOX",
        b"Content-Type: text/html\r\nContent-Disposition: attachment\r\n\r\n<p>All is <i>well</i></p>",
    );
    server.put(
        "INBOX",
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Disposition: attachment\r\n\r\nx\r\n--b--\r\n",
    );
    wire.run("C: g NOOP\nS~ g OK …");
    assert_eq!(fetch_text(&mut wire, 4, "PREVIEW"), "PREVIEW \"all is well\"");
    assert_eq!(fetch_text(&mut wire, 5, "PREVIEW"), "PREVIEW \"All is well\"");
    assert_eq!(fetch_text(&mut wire, 6, "PREVIEW"), "PREVIEW \"x\"");
    wire.run("C: f FETCH 1:2 (SAVEDATE UID)\nS: * 1 FETCH (SAVEDATE \"… +0000\" UID 1)\nS: * 2 FETCH (SAVEDATE …\nS: f OK …");
}
