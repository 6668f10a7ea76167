//! UIDONLY (RFC 9586): clients that know no sequence numbers.

use crate::harness::Server;

#[test]
fn messages_are_named_by_their_uids_alone() {
    let server = Server::start();
    server.with_messages(5);
    server.select("INBOX").run("C: a UID STORE 2 +FLAGS (\\Deleted)\nS~ a OK …\nC: b EXPUNGE\nS~ b OK …");
    let mut one = server.login();
    one.run(
        r#"
        C: a ENABLE UIDONLY
        S: * ENABLED UIDONLY
        S: a OK …
        # Once is enough.
        C: b ENABLE UIDONLY
        S: * ENABLED
        S: b OK …
        # No UNSEEN: it is a sequence number.
        C: c SELECT INBOX
        S: * FLAGS (…)
        S: * OK [PERMANENTFLAGS (…)] …
        S: * 4 EXISTS
        S: * 0 RECENT
        S: * OK [UIDVALIDITY …] …
        S: * OK [UIDNEXT 6] …
        S: * OK [HIGHESTMODSEQ …] …
        S: * OK [MAILBOXID (…)] …
        S: * OK [ANNOTATIONS 65536] …
        S: c OK [READ-WRITE] …
        # RFC 9586 §3.3: the UID is an item only if it is asked for.
        C: d UID FETCH 3:4 (FLAGS)
        S: * 3 UIDFETCH (FLAGS ())
        S: * 4 UIDFETCH (FLAGS ())
        S: d OK …
        C: e UID FETCH 3 (UID RFC822.SIZE)
        S: * 3 UIDFETCH (UID 3 RFC822.SIZE …)
        S: e OK …
        C: f UID FETCH 4 (BODY[HEADER.FIELDS (Subject)])
        S~ f OK …
        C: f2 UID FETCH 4 (FLAGS MODSEQ)
        S: * OK [HIGHESTMODSEQ …] …
        S: * 4 UIDFETCH (FLAGS (\Seen) MODSEQ (…))
        S: f2 OK …
        C: g UID STORE 3 +FLAGS (\Deleted)
        S: * 3 UIDFETCH (FLAGS (\Deleted) MODSEQ (…))
        S: g OK …
        C: h UID STORE 5 +FLAGS.SILENT (\Flagged)
        S: * 5 UIDFETCH (MODSEQ (…))
        S: h OK …
        # RFC 9586 §3.4: VANISHED, without QRESYNC.
        C: i EXPUNGE
        S: * VANISHED 3
        S: i OK …
        C: j UID SEARCH RETURN (MIN MAX COUNT ALL) ALL
        S: * ESEARCH (TAG "j") UID MIN 1 MAX 5 COUNT 3 ALL 1,4:5
        S: j OK …
        "#,
    );
    // The commands of another session.
    server
        .select("INBOX")
        .run("C: a UID STORE 1,5 +FLAGS (\\Deleted)\nS~ a OK …\nC: b UID EXPUNGE 1\nS~ b OK …");
    one.run(
        r#"
        C: k NOOP
        S: * VANISHED 1
        S: * 5 UIDFETCH (FLAGS (\Flagged \Deleted) MODSEQ (…))
        S: k OK …
        "#,
    );
}

#[test]
fn a_message_that_is_read_is_reported_by_its_uid() {
    let server = Server::start();
    server.with_messages(2);
    server.login().run(
        r#"
        C: a ENABLE UIDONLY CONDSTORE
        S: * ENABLED UIDONLY CONDSTORE
        S: a OK …
        C: b SELECT INBOX
        S~ b OK …
        C: c UID FETCH 2 (BODY[TEXT]<0.2>)
        S: * 2 UIDFETCH (FLAGS (\Recent \Seen) MODSEQ (…) BODY[TEXT]<0> {2}
        S~ c OK …
        "#,
    );
}

#[test]
fn sequence_numbers_are_refused() {
    let server = Server::start();
    server.with_messages(3);
    let mut one = server.login();
    one.run("C: a ENABLE UIDONLY QRESYNC\nS~ a OK …\nC: b SELECT INBOX\nS~ b OK …");
    for command in [
        "FETCH 1 FLAGS",
        "STORE 1 FLAGS ()",
        "COPY 1 INBOX",
        "MOVE 1 INBOX",
        "SEARCH ALL",
        "SEARCH UID 1",
        "SORT (DATE) UTF-8 ALL",
        "THREAD REFERENCES UTF-8 ALL",
        "UID SEARCH 1:2",
        "UID SEARCH OR NOT 1 SEEN",
        "UID SORT (DATE) UTF-8 1",
        "UID THREAD REFS UTF-8 (NOT (1))",
        "SELECT INBOX (QRESYNC (1 1 1:3 (1:2 1:2)))",
    ] {
        one.run(&format!("C: x {command}\nS: x BAD [UIDREQUIRED] …"));
    }
    one.run(
        r#"
        C: a UID SEARCH RETURN (SAVE) ALL
        S: a OK …
        C: b UID SEARCH $ UID 2
        S: * SEARCH 2
        S: b OK …
        C: c UID FETCH $ FLAGS
        S: * 1 UIDFETCH (FLAGS (…))
        S: * 2 UIDFETCH (FLAGS (…))
        S: * 3 UIDFETCH (FLAGS (…))
        S: c OK …
        C: d UID MOVE 2 INBOX
        S: * OK [COPYUID … 2 4] …
        S: * VANISHED 2
        S: * 3 EXISTS
        S~ d OK …
        "#,
    );
    // The selected mailbox is still open, and sessions without it have their numbers.
    server.select("INBOX").run("C: a FETCH 1 UID\nS: * 1 FETCH (UID 1)\nS: a OK …");
}

#[test]
fn resynchronising_names_uids() {
    let server = Server::start();
    server.with_messages(3);
    let mut one = server.login();
    let lines = one.run("C: a ENABLE QRESYNC UIDONLY\nS~ a OK …\nC: b SELECT INBOX").skip_to("b OK …");
    let validity = lines.iter().find_map(|l| l.strip_prefix("* OK [UIDVALIDITY ")).unwrap();
    let validity = validity.split(']').next().unwrap();
    server.select("INBOX").run("C: a STORE 1,3 +FLAGS (\\Deleted)\nS~ a OK …\nC: b UID EXPUNGE 3\nS~ b OK …");
    one.run(&format!(
        r#"
        C: c SELECT INBOX (QRESYNC ({validity} 3))
        S: * OK [CLOSED] …
        S~ * VANISHED (EARLIER) 3
        S: * 1 UIDFETCH (FLAGS (\Deleted) MODSEQ (…))
        S: c OK …
        C: d UID FETCH 1:* (FLAGS) (CHANGEDSINCE 3 VANISHED)
        S: * VANISHED (EARLIER) 3
        S: * 1 UIDFETCH (FLAGS (\Deleted) MODSEQ (…))
        S: d OK …
        "#,
    ));
}
