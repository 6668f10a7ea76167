//! ANNOTATE-EXPERIMENT-1: what becomes of annotations when messages are added, copied, moved and
//! removed (RFC 5257 §4.6, §4.7).

use crate::harness::{Server, USER};

/// The records of a server that a client cannot see.
fn records(server: &Server) -> usize {
    server.message_annotations()
}

#[test]
fn a_new_message_may_bring_them() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a APPEND drafts ANNOTATION (/comment (value.priv "Don't send until I say so")) {3+}
        C: abc
        S: a NO [TRYCREATE] …
        C: b APPEND Drafts (\Draft) "01-Jan-2020 10:00:00 +0000" ANNOTATION (/comment (value.priv "Wait")) {3+}
        C: abc
        S: b OK [APPENDUID … 1] …
        C: c APPEND Drafts {3+}
        C- def
        C-  ANNOTATION (/comment (value.shared "two")) {3+}
        C: 
        C: ghi
        S~ c OK [APPENDUID … 2:3] …
        C: d SELECT Drafts
        S~ d OK …
        C: e FETCH 1:3 (ANNOTATION (/comment value))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "Wait" value.shared NIL)))
        S: * 2 FETCH (ANNOTATION (/comment (value.priv NIL value.shared NIL)))
        S: * 3 FETCH (ANNOTATION (/comment (value.priv NIL value.shared "two")))
        S: e OK …
        C: f UID REPLACE 1 Drafts ANNOTATION (/comment (value.priv "Now")) {3+}
        C: jkl
        S: * OK [APPENDUID … 4] …
        S~ f OK …
        C: g UID FETCH 4 (ANNOTATION (/comment value.priv))
        S: * 3 FETCH (UID 4 ANNOTATION (/comment (value.priv "Now")))
        S: g OK …
        C: h APPEND Drafts ANNOTATION (/1/comment (value.priv "x")) {3+}
        C: abc
        S: h NO [CANNOT] …
        "#,
    );
    assert_eq!(records(&server), 2);
}

#[test]
fn copies_have_them_and_moves_take_them_along() {
    let server = Server::start();
    server.with_messages(3);
    let mut client = server.select("INBOX");
    client.run(
        r#"
        C: a STORE 1:2 ANNOTATION (/comment (value.priv "mine") /altsubject (value.shared "ours"))
        S: a OK …
        C: b COPY 1:3 Archive
        S: b OK [COPYUID …] …
        C: c MOVE 2 Archive
        S: * OK [COPYUID …] …
        S: * 2 EXPUNGE
        S: c OK …
        C: d FETCH 1:2 (UID ANNOTATION (/comment value.priv))
        S: * 1 FETCH (UID 1 ANNOTATION (/comment (value.priv "mine")))
        S: * 2 FETCH (UID 3 ANNOTATION (/comment (value.priv NIL)))
        S: d OK …
        C: e SELECT Archive
        S~ e OK …
        C: f FETCH 1:4 (ANNOTATION (* value))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "mine" value.shared NIL) /altsubject (value.priv NIL value.shared "ours")))
        S: * 2 FETCH (ANNOTATION (/comment (value.priv "mine" value.shared NIL) /altsubject (value.priv NIL value.shared "ours")))
        S: * 3 FETCH (ANNOTATION (/comment (value.priv NIL value.shared NIL)))
        S: * 4 FETCH (ANNOTATION (/comment (value.priv "mine" value.shared NIL) /altsubject (value.priv NIL value.shared "ours")))
        S: f OK …
        "#,
    );
    assert_eq!(records(&server), 4);
    // Renamed INBOX takes its messages along.
    client.run(
        r#"
        C: g RENAME INBOX Old
        S: g OK …
        C: h SELECT Old
        S~ h OK …
        C: i FETCH 1:2 (ANNOTATION (/comment value.priv))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "mine")))
        S: * 2 FETCH (ANNOTATION (/comment (value.priv NIL)))
        S: i OK …
        "#,
    );
    assert_eq!(records(&server), 4);
}

#[test]
fn they_go_with_their_message_and_their_mailbox() {
    let server = Server::start();
    server.with_messages(40);
    let mut client = server.select("INBOX");
    client.run(
        r#"
        C: a STORE 1:40 ANNOTATION (/comment (value.priv "x"))
        S: a OK …
        C: b STORE 1:2 +FLAGS.SILENT (\Deleted)
        S: b OK …
        C: c EXPUNGE
        S~ c OK …
        "#,
    );
    assert_eq!(records(&server), 38);
    client.run(
        r#"
        C: d STORE 1:36 +FLAGS.SILENT (\Deleted)
        S: d OK …
        C: e CLOSE
        S: e OK …
        C: f CREATE Temporary
        S: f OK …
        C: g SELECT INBOX
        S~ g OK …
        C: h COPY 1:2 Temporary
        S: h OK …
        "#,
    );
    assert_eq!(records(&server), 4);
    client.run("C: i DELETE Temporary\nS: i OK …");
    assert_eq!(records(&server), 2);
    // The next change does not remove annotations of messages that another program expunged: a
    // MOVE may be about to take it along. It goes with the mailbox.
    server.expunge_elsewhere("INBOX", 39);
    client.run("C: j UID STORE 40 ANNOTATION (/comment (value.priv \"y\"))\nS~ j OK …");
    assert_eq!(records(&server), 2);
    let ((owner, inbox), (_, directory)) = (server.mailbox(USER, "INBOX"), server.behind());
    server.wait(directory.message_annotations().forget_mailbox(owner, inbox)).unwrap();
    assert_eq!(records(&server), 0);
}
