//! X-GM-EXT-1: X-GM-MSGID, X-GM-THRID, X-GM-LABELS, X-GM-RAW.

use crate::harness::{Server, fetch_text, search, searches};

fn number(wire: &mut posthaste_testkit::Wire, message: u32, item: &str) -> u64 {
    let answer = fetch_text(wire, message, item);
    let number = answer.strip_prefix(&format!("{item} ")).and_then(|rest| rest.parse().ok());
    number.unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn numbers_of_messages_and_threads() {
    let server = Server::start();
    server.put("INBOX", b"Message-ID: <1@x>\r\n\r\na\r\n");
    server.put("INBOX", b"Message-ID: <2@x>\r\nReferences: <1@x>\r\n\r\nb\r\n");
    server.put("INBOX", b"Subject: alone\r\n\r\nc\r\n");
    let mut wire = server.select("INBOX");
    let messages: Vec<u64> = (1..=3).map(|n| number(&mut wire, n, "X-GM-MSGID")).collect();
    let threads: Vec<u64> = (1..=3).map(|n| number(&mut wire, n, "X-GM-THRID")).collect();
    assert!(messages[0] != messages[1] && messages[1] != messages[2] && messages[0] != messages[2]);
    assert!(threads[0] == threads[1] && threads[1] != threads[2]);
    assert!(messages.iter().chain(&threads).all(|&n| i64::try_from(n).is_ok()));
    assert_eq!(search(&mut wire, &format!("X-GM-MSGID {}", messages[1])), "2");
    assert_eq!(search(&mut wire, &format!("X-GM-THRID {}", threads[0])), "1 2");
    assert_eq!(search(&mut wire, "X-GM-THRID 1"), "");
    // The same message in another mailbox has the same numbers.
    wire.run("C: a COPY 2 Archive\nS~ a OK …");
    let mut archive = server.select("Archive");
    assert_eq!(number(&mut archive, 1, "X-GM-MSGID"), messages[1]);
    assert_eq!(number(&mut archive, 1, "X-GM-THRID"), threads[0]);
}

#[test]
fn labels_are_keywords() {
    let server = Server::start();
    server.with_messages(2);
    let mut one = server.select("INBOX");
    let mut two = server.select("INBOX");
    one.run(
        r#"
        C: a STORE 1 +X-GM-LABELS (work \Starred "\\Important")
        S~ * 1 FETCH (UID 1 FLAGS (\Recent \Flagged work $Important))
        S: * 1 FETCH (X-GM-LABELS (\Starred work \Important))
        S: a OK …
        C: b FETCH 1:2 (X-GM-LABELS FLAGS)
        S: * 1 FETCH (X-GM-LABELS (\Starred work \Important) FLAGS (\Recent \Flagged work $Important))
        S: * 2 FETCH (X-GM-LABELS () FLAGS (\Recent))
        S: b OK …
        C: c SEARCH X-GM-LABELS work X-GM-LABELS \Starred
        S: * SEARCH 1
        S: c OK …
        C: d SEARCH X-GM-LABELS "no such label"
        S: * SEARCH
        S: d OK …
        C: e STORE 1 -X-GM-LABELS.SILENT (\Starred)
        S: e OK …
        C: f UID STORE 1 +FLAGS.SILENT ($Forwarded \Seen)
        S~ f OK …
        # What is no label stays.
        C: g UID STORE 1 X-GM-LABELS (home)
        S~ * 1 FETCH (UID 1 X-GM-LABELS (home))
        S: g OK …
        C: h FETCH 1 FLAGS
        S: * 1 FETCH (FLAGS (\Recent \Seen $Forwarded home))
        S: h OK …
        C: i STORE 1 X-GM-LABELS ()
        S~ * 1 FETCH (X-GM-LABELS ())
        S: i OK …
        # Mailboxes are no labels, nor is what cannot be a keyword.
        C: j STORE 1 +X-GM-LABELS (\Inbox)
        S: j NO [CANNOT] …
        C: k STORE 1 +X-GM-LABELS ("two words")
        S: k NO [CANNOT] …
        C: l STORE 1 +X-GM-LABELS ($Junk)
        S: l NO [CANNOT] …
        C: m STORE 1 (UNCHANGEDSINCE 1) X-GM-LABELS (x)
        S: m NO [CANNOT] …
        C: n STORE 1 (UNCHANGEDSINCE 1) +X-GM-LABELS (x)
        S~ n OK [MODIFIED 1] …
        C: o EXAMINE INBOX
        S~ o OK …
        C: p STORE 1 +X-GM-LABELS (x)
        S: p NO [READ-ONLY] …
        "#,
    );
    two.run("C: a FETCH 1 X-GM-LABELS\nS~ * 1 FETCH (X-GM-LABELS ())\nS~ a OK …");
}

/// Others have expunged a message of the set, and the session has not reported that yet: the labels
/// of the others are replaced whole (RFC 2180 §4.2).
#[test]
fn labels_are_replaced_beside_an_expunged_message() {
    let server = Server::start();
    server.with_messages(3);
    let mut wire = server.select("INBOX");
    wire.run("C: a STORE 1:3 +X-GM-LABELS.SILENT (old)\nS~ a OK …");
    server.expunge_elsewhere("INBOX", 2);
    wire.run(
        r#"
        C: b STORE 1:3 X-GM-LABELS.SILENT (new)
        S~ b OK [EXPUNGEISSUED] …
        C: c FETCH 1 X-GM-LABELS
        S: * 1 FETCH (X-GM-LABELS (new))
        S: c OK …
        C: d NOOP
        S~ * 2 EXPUNGE
        S~ d OK …
        C: e FETCH 1:2 X-GM-LABELS
        S: * 1 FETCH (X-GM-LABELS (new))
        S: * 2 FETCH (X-GM-LABELS (new))
        S: e OK …
        "#,
    );
    server.expunge_elsewhere("INBOX", 3);
    wire.run(
        r#"
        C: f STORE 1:2 X-GM-LABELS (newer)
        S~ f NO [EXPUNGEISSUED] …
        C: g FETCH 1 X-GM-LABELS
        S: * 1 FETCH (X-GM-LABELS (newer))
        S: g OK …
        "#,
    );
}

/// Changed labels are changed flags: the others hear of them by mod-sequence.
#[test]
fn labels_with_qresync() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.login();
    wire.run(
        r#"
        C: a ENABLE QRESYNC
        S~ a OK …
        C: b SELECT INBOX
        S~ b OK …
        "#,
    );
    server.select("INBOX").run("C: a STORE 2 +X-GM-LABELS.SILENT (work)\nS~ a OK …");
    wire.run(
        r#"
        C: c NOOP
        S~ * 2 FETCH (UID 2 FLAGS (…work) MODSEQ (…))
        S: c OK …
        "#,
    );
}

#[test]
fn labels_with_uid_only() {
    let server = Server::start();
    server.with_messages(1);
    server.login().run(
        r#"
        C: a ENABLE UIDONLY
        S~ a OK …
        C: b SELECT INBOX
        S~ b OK …
        C: c STORE 1 +X-GM-LABELS (work)
        S: c BAD [UIDREQUIRED] …
        C: d UID STORE 1 +X-GM-LABELS (work)
        S~ * 1 UIDFETCH (X-GM-LABELS (work))
        S: d OK …
        C: e UID FETCH 1 (X-GM-LABELS X-GM-MSGID X-GM-THRID)
        S: * 1 UIDFETCH (X-GM-LABELS (work) X-GM-MSGID … X-GM-THRID …)
        S: e OK …
        "#,
    );
}

#[test]
fn a_query_of_gmail_is_a_search() {
    let server = Server::start();
    for message in [
        "From: amy@example.org\r\nSubject: dinner\r\nMessage-ID: <1@x>\r\n\r\ntonight\r\n",
        "From: bo@example.org\r\nSubject: dinner and movie\r\n\r\ntomorrow\r\n",
        "From: amy@example.org\r\nSubject: files\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b--\r\n",
    ] {
        server.put("INBOX", message.as_bytes());
    }
    let mut wire = server.select("INBOX");
    wire.run("C: a STORE 2 +FLAGS (\\Seen work)\nS~ a OK …");
    searches(
        &mut wire,
        &[
            ("X-GM-RAW \"from:amy dinner\"", "1"),
            ("X-GM-RAW \"from:amy OR from:bo\"", "1 2 3"),
            ("X-GM-RAW \"subject:(dinner movie)\"", "2"),
            ("X-GM-RAW \"-from:amy\"", "2"),
            ("X-GM-RAW \"is:unread {dinner files}\"", "1 3"),
            ("X-GM-RAW has:attachment", "3"),
            ("X-GM-RAW label:work", "2"),
            ("X-GM-RAW \"rfc822msgid:1@x\"", "1"),
            ("X-GM-RAW \"older_than:1d\"", ""),
            ("X-GM-RAW \"newer_than:1d in:anywhere\" SEEN", "2"),
        ],
    );
    wire.run(
        r#"
        C: b SEARCH X-GM-RAW "in:inbox dinner"
        S: b NO [CANNOT] X-GM-RAW: in:inbox cannot be searched for here
        C: c SEARCH X-GM-RAW "(dinner"
        S: c NO [CANNOT] …
        C: d SEARCH RETURN (ALL UPDATE) X-GM-RAW dinner
        S: * ESEARCH (TAG "d") ALL 1:2
        S: * NO [NOUPDATE "d"] …
        S: d OK …
        C: e SEARCH X-GM-RAW
        S: e BAD …
        "#,
    );
}
