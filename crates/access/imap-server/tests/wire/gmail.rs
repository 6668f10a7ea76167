//! X-GM-EXT-1: X-GM-MSGID, X-GM-THRID, X-GM-LABELS, X-GM-RAW.

use posthaste_testkit::Wire;

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

/// A label may be any text: its keyword has what an atom can hold.
#[test]
fn labels_with_blanks_and_other_characters() {
    let server = Server::start();
    server.with_messages(2);
    let mut one = server.select("INBOX");
    one.run(
        r#"
        C: a STORE 1 +X-GM-LABELS ("two words" "a (b) [c] {d} 5% * \"q\"" $100 a/b)
        S~ * 1 FETCH (X-GM-LABELS ("two words" "a (b) [c] {d} 5% * \"q\"" $100 a/b))
        S: a OK …
        C: b FETCH 1 FLAGS
        S: * 1 FETCH (FLAGS (\Recent two=20words a=20=28b=29=20[c=5D=20=7Bd}=205=25=20=2A=20=22q=22 =24100 a/b))
        S: b OK …
        C: c STORE 2 +FLAGS.SILENT (two=20words $Junk 5=off)
        S~ c OK …
        C: d FETCH 2 X-GM-LABELS
        S: * 2 FETCH (X-GM-LABELS ("two words" 5=off))
        S: d OK …
        C: e SEARCH X-GM-LABELS "Two Words"
        S: * SEARCH 1 2
        S: e OK …
        C: f SEARCH X-GM-LABELS "a (b) [c] {d} 5% * \"q\""
        S: * SEARCH 1
        S: f OK …
        C: g STORE 1 -X-GM-LABELS.SILENT "two words" $100
        S: g OK …
        C: h FETCH 1 X-GM-LABELS
        S: * 1 FETCH (X-GM-LABELS ("a (b) [c] {d} 5% * \"q\"" a/b))
        S: h OK …
        "#,
    );
    // As literals, in STORE and in SEARCH.
    one.send(b"i STORE 2 X-GM-LABELS ({9+}\r\ntwo words {6+}\r\na \"b\" )\r\n");
    one.skip_to("* 2 FETCH (X-GM-LABELS (\"two words\" \"a \\\"b\\\" \"))");
    one.expect("i OK …");
    one.send(b"j SEARCH X-GM-LABELS {9+}\r\ntwo words\r\n");
    one.expect("* SEARCH 2");
    one.expect("j OK …");
}

/// In modified UTF-7, as names of mailboxes are, or in UTF-8.
#[test]
fn labels_beyond_ascii() {
    let server = Server::start();
    server.with_messages(1);
    server.select("INBOX").run(
        r#"
        C: a STORE 1 X-GM-LABELS (Pr&APw-fung R&-D)
        S~ * 1 FETCH (X-GM-LABELS (Pr&APw-fung R&-D))
        S: a OK …
        C: b FETCH 1 FLAGS
        S: * 1 FETCH (FLAGS (\Recent Pr=C3=BCfung R&D))
        S: b OK …
        C: c SEARCH X-GM-LABELS pr&APw-fung
        S: * SEARCH 1
        S: c OK …
        C: d STORE 1 +X-GM-LABELS (R&D)
        S: d NO [CANNOT] R&D is no modified UTF-7
        C: e SEARCH X-GM-LABELS R&D
        S: e NO [CANNOT] R&D is no modified UTF-7
        "#,
    );
    let mut wire = server.login();
    wire.run(
        "C: a ENABLE UTF8=ACCEPT\nS~ a OK …\nC: b SELECT INBOX\nS~ b OK …\n\
         C: c FETCH 1 X-GM-LABELS\nS: * 1 FETCH (X-GM-LABELS (\"Pr\u{fc}fung\" R&D))\nS: c OK …\n\
         C: d STORE 1 -X-GM-LABELS (\"Pr\u{fc}fung\")\nS~ * 1 FETCH (X-GM-LABELS (R&D))\nS: d OK …\n\
         C: e SEARCH X-GM-LABELS R&D\nS: * SEARCH 1\nS: e OK …",
    );
    // Each byte that an atom cannot hold takes three of the keyword.
    let long = "\u{434}".repeat(22);
    wire.run(&format!("C: f STORE 1 +X-GM-LABELS (\"{long}\")\nS: f NO [CANNOT] …"));
}

/// Labels for which Gmail has mailboxes name mailboxes here: a message has the label of its own
/// one.
#[test]
fn labels_of_gmail_that_are_mailboxes() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a STORE 1 +X-GM-LABELS (\Inbox work "\\Muted")
        S~ * 1 FETCH (X-GM-LABELS (work \Muted))
        S: a OK …
        C: b FETCH 1 FLAGS
        S: * 1 FETCH (FLAGS (\Recent work $Muted))
        S: b OK …
        C: c STORE 1 X-GM-LABELS (\Inbox)
        S~ * 1 FETCH (X-GM-LABELS ())
        S: c OK …
        C: d STORE 1 +X-GM-LABELS (\Sent work)
        S: d NO [CANNOT] \Sent is a mailbox here: use COPY or MOVE
        C: e STORE 1 -X-GM-LABELS (\Inbox)
        S: e NO [CANNOT] \Inbox is a mailbox here: use COPY or MOVE
        C: f STORE 1 +X-GM-LABELS (\Chats)
        S: f NO [CANNOT] There is no label \Chats
        C: g FETCH 1 X-GM-LABELS
        S: * 1 FETCH (X-GM-LABELS ())
        S: g OK …
        C: h SEARCH X-GM-LABELS \Inbox
        S: * SEARCH 1 2
        S: h OK …
        C: i SEARCH NOT X-GM-LABELS \Sent
        S: * SEARCH 1 2
        S: i OK …
        C: j SEARCH X-GM-LABELS \Chats
        S: j NO [CANNOT] There is no label \Chats
        C: k COPY 1:2 Sent
        S~ k OK …
        C: l SELECT Sent
        S~ l OK …
        C: m SEARCH X-GM-LABELS \Sent NOT X-GM-LABELS \Inbox
        S: * SEARCH 1 2
        S: m OK …
        C: n ESEARCH IN (PERSONAL) X-GM-LABELS \Sent
        S: * ESEARCH (TAG "n" MAILBOX Sent UIDVALIDITY …) UID ALL 1:2
        S: n OK …
        C: o ESEARCH IN (MAILBOXES (INBOX Sent)) X-GM-RAW "in:inbox"
        S: * ESEARCH (TAG "o" MAILBOX INBOX UIDVALIDITY …) UID ALL 1:2
        S: o OK …
        "#,
    );
}

/// Others have expunged a message of the set, and the session has not reported that yet: the labels
/// of the others are replaced whole (RFC 2180 §4.2).
#[test]
fn labels_are_replaced_if_another_message_is_expunged() {
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
        S~ f OK [EXPUNGEISSUED] …
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

/// The name of the selected mailbox is a label that its messages have.
#[test]
fn the_name_of_the_mailbox_is_no_keyword() {
    let server = Server::start();
    server.login().run("C: a CREATE \"My work\"\nS: a OK …");
    server.put("\"My work\"", b"Subject: x\r\n\r\nx\r\n");
    server.select("\"My work\"").run(
        r#"
        C: a STORE 1 -X-GM-LABELS ("my Work")
        S: a NO [CANNOT] my Work is a mailbox here: use COPY or MOVE
        C: b STORE 1 +X-GM-LABELS ("My work" other)
        S~ * 1 FETCH (X-GM-LABELS (other))
        S: b OK …
        C: c SEARCH X-GM-LABELS "My work"
        S: * SEARCH 1
        S: c OK …
        # Another program has set that keyword. It can be removed.
        C: d STORE 1 +FLAGS.SILENT (My=20work)
        S~ d OK …
        C: e STORE 1 -X-GM-LABELS ("My work")
        S~ * 1 FETCH (X-GM-LABELS (other))
        S: e OK …
        "#,
    );
}

/// A server with three messages, and a session that has labelled some.
fn queried() -> (Server, Wire) {
    let server = Server::start();
    for message in [
        "From: amy@example.org\r\nSubject: dinner\r\nMessage-ID: <1@x>\r\n\r\ntonight\r\n",
        "From: bo@example.org\r\nTo: ana@example.org\r\nSubject: dinner and movie\r\n\
         MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
         --b\r\n\r\ntomorrow.txt\r\n--b--\r\n",
        "From: amy@example.org\r\nSubject: files\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b\r\n\
         Content-Type: application/pdf; name=\"a.pdf\"\r\n\
         Content-Disposition: attachment; filename*=utf-8''gr%C3%BCn.pdf\r\n\r\n%PDF\r\n--b--\r\n",
    ] {
        server.put("INBOX", message.as_bytes());
    }
    let mut wire = server.select("INBOX");
    wire.run("C: a STORE 2 +FLAGS (\\Seen work my=20own/label)\nS~ a OK …\nC: b STORE 3 +FLAGS (\\Draft)\nS~ b OK …");
    (server, wire)
}

#[test]
fn a_query_of_gmail_is_a_search() {
    let (_server, mut wire) = queried();
    searches(
        &mut wire,
        &[
            ("X-GM-RAW \"from:amy dinner\"", "1"),
            ("X-GM-RAW \"from:amy OR from:bo\"", "1 2 3"),
            ("X-GM-RAW \"subject:(dinner movie)\"", "2"),
            ("X-GM-RAW \"-from:amy\"", "2"),
            ("X-GM-RAW \"is:unread {dinner files}\"", "1 3"),
            ("X-GM-RAW has:attachment", "3"),
            ("X-GM-RAW \"-has:attachment\"", "1 2"),
            ("X-GM-RAW filename:pdf", "3"),
            ("X-GM-RAW \"filename:{doc gr}\"", "3"),
            ("X-GM-RAW filename:txt", ""),
            ("X-GM-RAW label:work", "2"),
            ("X-GM-RAW label:my-own-label", "2"),
            (r#"X-GM-RAW "label:\"My own/label\"""#, "2"),
            ("X-GM-RAW in:my-own-label", "2"),
            ("X-GM-RAW \"-label:my-own-label\"", "1 3"),
            ("X-GM-RAW has:userlabels", "2"),
            ("X-GM-RAW has:nouserlabels", "1 3"),
            ("X-GM-RAW \"rfc822msgid:1@x\"", "1"),
            ("X-GM-RAW \"older_than:1d\"", ""),
            ("X-GM-RAW \"newer_than:1d in:anywhere\" SEEN", "2"),
            ("X-GM-RAW \"after:1000000000 before:4000000000\"", "1 2 3"),
            ("X-GM-RAW \"before:1000000000 OR after:4000000000\"", ""),
            ("X-GM-RAW \"in:inbox dinner\"", "1 2"),
            ("X-GM-RAW \"in:sent dinner\"", ""),
            ("X-GM-RAW \"in:sent OR in:inbox\"", "1 2 3"),
            ("X-GM-RAW in:drafts", "3"),
            ("X-GM-RAW in:nowhere", ""),
            ("X-GM-RAW \"to:me\"", "2"),
        ],
    );
}

#[test]
fn queries_that_are_refused_and_queries_in_other_commands() {
    let (_server, mut wire) = queried();
    wire.run(
        r#"
        C: b SEARCH X-GM-RAW "category:social dinner"
        S: b NO [CANNOT] X-GM-RAW: category:social cannot be searched for here
        C: c SEARCH X-GM-RAW "(dinner"
        S: c NO [CANNOT] …
        C: d SEARCH RETURN (ALL UPDATE) X-GM-RAW dinner
        S: * ESEARCH (TAG "d") ALL 1:2
        S: * NO [NOUPDATE "d"] …
        S: d OK …
        C: e SEARCH X-GM-RAW
        S: e BAD …
        C: f SEARCH X-GM-RAW "has:drive"
        S: f NO [CANNOT] X-GM-RAW: has:drive cannot be searched for here
        C: g SEARCH X-GM-RAW "in:snoozed"
        S: g NO [CANNOT] X-GM-RAW: there is no state snoozed here
        C: h SEARCH X-GM-RAW "dinner AROUND 3 movie"
        S: h NO [CANNOT] X-GM-RAW: AROUND cannot be searched for here
        # Half a condition would find too much.
        C: h1 SEARCH X-GM-RAW "OR"
        S: h1 NO [CANNOT] X-GM-RAW: OR needs a term on both sides: write "OR" in quotes to search for it
        C: h2 SEARCH X-GM-RAW "dinner ()"
        S: h2 NO [CANNOT] X-GM-RAW: brackets have no terms in them
        C: h3 SEARCH X-GM-RAW "dinner -"
        S: h3 NO [CANNOT] X-GM-RAW: - needs a term after it
        C: i UID SORT (SUBJECT) UTF-8 X-GM-RAW "from:amy OR from:bo"
        S: * SORT 1 2 3
        S: i OK …
        C: j THREAD REFERENCES UTF-8 X-GM-RAW label:work
        S: * THREAD (2)
        S: j OK …
        "#,
    );
}
