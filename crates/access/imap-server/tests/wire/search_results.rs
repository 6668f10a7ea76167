//! ESEARCH and the saved result: RFC 4731, RFC 5182, RFC 9051 §6.4.4; what a session knows while
//! others expunge.

use posthaste_net::ByteBudget;
use posthaste_testkit::Wire;

use crate::harness::Server;

#[test]
fn the_results_that_are_wanted_are_reported() {
    let server = Server::start();
    server.with_messages(6);
    server.select("INBOX").run(
        r#"
        C: z STORE 1 +FLAGS.SILENT (\Deleted)
        S: z OK …
        C: z EXPUNGE
        S: * 1 EXPUNGE
        S: z OK …
        C: y STORE 1,3:4 +FLAGS.SILENT (\Seen)
        S: y OK …
        C: a SEARCH RETURN (MIN) SEEN
        S: * ESEARCH (TAG "a") MIN 1
        S: a OK …
        C: b SEARCH RETURN (MAX) SEEN
        S: * ESEARCH (TAG "b") MAX 4
        S: b OK …
        C: c SEARCH RETURN (COUNT) SEEN
        S: * ESEARCH (TAG "c") COUNT 3
        S: c OK …
        C: d SEARCH RETURN (ALL) SEEN
        S: * ESEARCH (TAG "d") ALL 1,3:4
        S: d OK …
        C: e SEARCH RETURN () SEEN
        S: * ESEARCH (TAG "e") ALL 1,3:4
        S: e OK …
        C: f UID SEARCH RETURN (COUNT ALL MAX MIN) SEEN
        S: * ESEARCH (TAG "f") UID MIN 2 MAX 5 COUNT 3 ALL 2,4:5
        S: f OK …
        C: g SEARCH RETURN (MIN MAX COUNT ALL) ANSWERED
        S: * ESEARCH (TAG "g") COUNT 0
        S: g OK …
        C: h SEARCH RETURN (MIN) ANSWERED
        S: * ESEARCH (TAG "h")
        S: h OK …
        C: i SEARCH RETURN (MIN) CHARSET UTF-8 SEEN
        S: * ESEARCH (TAG "i") MIN 1
        S: i OK …
        C: j SEARCH RETURN (NONSENSE) SEEN
        S: j BAD …
        # A tag that has to be quoted with care.
        C: a.b'!- SEARCH RETURN (COUNT) ALL
        S: * ESEARCH (TAG "a.b'!-") COUNT 5
        S: a.b'!- OK …
        "#,
    );
}

/// RFC 9051 §9: `sequence-set =/ seq-last-command`. So `$` may be one of several ranges.
#[test]
fn a_saved_result_among_ranges() {
    let server = Server::start();
    server.with_messages(8);
    server.expunge_elsewhere("INBOX", 1);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a SEARCH RETURN (SAVE) UID 3:4
        S: a OK …
        C: b FETCH 1,$ UID
        S: * 1 FETCH (UID 2)
        S: * 2 FETCH (UID 3)
        S: * 3 FETCH (UID 4)
        S: b OK …
        C: c UID FETCH $,8:* UID
        S: * 2 FETCH (UID 3)
        S: * 3 FETCH (UID 4)
        S: * 7 FETCH (UID 8)
        S: c OK …
        C: d SEARCH 7,$
        S: * SEARCH 2 3 7
        S: d OK …
        C: e UID SEARCH NOT UID $,7:8
        S: * SEARCH 2 5 6
        S: e OK …
        C: f STORE $,9 +FLAGS (\Seen)
        S: f BAD …
        C: g UID SEARCH RETURN (ALL UPDATE) OR UID $,5 1,$
        S: * ESEARCH (TAG "g") UID ALL 2:5
        S: g OK …
        C: h FETCH 1:$ UID
        S: h BAD …
        "#,
    );
    server.expunge_elsewhere("INBOX", 3);
    wire.run(
        r#"
        C: i NOOP
        S: * ESEARCH (TAG "g") UID REMOVEFROM (0 3)
        S: * 2 EXPUNGE
        S: i OK …
        C: j ENABLE UIDONLY
        S~ j OK …
        C: k UID COPY $,2 Archive
        S: k OK [COPYUID … 2,4 1:2] …
        C: l UID SEARCH 1,$
        S: l BAD [UIDREQUIRED] …
        C: m UID SEARCH $
        S: * SEARCH 4
        S: m OK …
        "#,
    );
}

#[test]
fn a_saved_result() {
    let server = Server::start();
    server.with_messages(6);
    server.select("INBOX").run(
        r#"
        C: a STORE 2:5 +FLAGS.SILENT (\Flagged)
        S: a OK …
        # Nothing was saved: nothing is meant.
        C: b FETCH $ UID
        S: b OK …
        C: c SEARCH RETURN (SAVE) FLAGGED
        S: c OK …
        C: d FETCH $ UID
        S: * 2 FETCH (UID 2)
        S: * 3 FETCH (UID 3)
        S: * 4 FETCH (UID 4)
        S: * 5 FETCH (UID 5)
        S: d OK …
        C: e SEARCH $ 4:*
        S: * SEARCH 4 5
        S: e OK …
        C: f UID SEARCH NOT UID $
        S: * SEARCH 1 6
        S: f OK …
        C: g SEARCH RETURN (SAVE COUNT) $ NOT 3
        S: * ESEARCH (TAG "g") COUNT 3
        S: g OK …
        # RFC 5182 §2.1: messages that go, go from the result too.
        C: h STORE 4 +FLAGS.SILENT (\Deleted)
        S: h OK …
        C: i EXPUNGE
        S: * 4 EXPUNGE
        S: i OK …
        C: j UID FETCH $ FLAGS
        S: * 2 FETCH (UID 2 FLAGS (…))
        S: * 4 FETCH (UID 5 FLAGS (…))
        S: j OK …
        # RFC 5182 §2.4: with MIN and MAX alone, those.
        C: k SEARCH RETURN (SAVE MIN) ALL
        S: * ESEARCH (TAG "k") MIN 1
        S: k OK …
        C: l SEARCH $
        S: * SEARCH 1
        S: l OK …
        C: m SEARCH RETURN (MAX SAVE MIN) ALL
        S: * ESEARCH (TAG "m") MIN 1 MAX 5
        S: m OK …
        C: n SEARCH $
        S: * SEARCH 1 5
        S: n OK …
        C: o SEARCH RETURN (MAX SAVE COUNT) 2:4
        S: * ESEARCH (TAG "o") MAX 4 COUNT 3
        S: o OK …
        # RFC 5182 §2.1: neither BAD nor a search that does not save changes it.
        C: p SEARCH RETURN (SAVE) LARGER
        S: p BAD …
        C: q SEARCH RETURN (SAVE) NONSENSE
        S: q BAD …
        C: r SEARCH RETURN (COUNT) 1
        S: * ESEARCH (TAG "r") COUNT 1
        S: r OK …
        C: s SEARCH $
        S: * SEARCH 2 3 4
        S: s OK …
        # NO does.
        C: t SEARCH RETURN (SAVE) CHARSET x-none 1
        S: t NO [BADCHARSET (US-ASCII UTF-8 Big5 …)] …
        C: u SEARCH $
        S: * SEARCH
        S: u OK …
        C: v SEARCH RETURN (SAVE) ALL
        S: v OK …
        C: w STORE $ +FLAGS.SILENT (\Answered)
        S: w OK …
        C: x COPY $ Archive
        S: x OK [COPYUID … 1:3,5:6 1:5] …
        C: y SEARCH ANSWERED
        S: * SEARCH 1 2 3 4 5
        S: y OK …
        # Another mailbox, another life.
        C: z SELECT Archive
        S~ z OK …
        C: aa SEARCH $
        S: * SEARCH
        S: aa OK …
        "#,
    );
}

#[test]
fn while_another_expunges() {
    let server = Server::start();
    server.with_messages(4);
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    two.run("C: a STORE 2 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS: * 2 EXPUNGE\nS: b OK …");
    one.run(
        r#"
        C: a SEARCH UID 3:4
        S: * SEARCH 3 4
        S: a OK …
        # Its EXPUNGE is held back: message 2 matches by its flags, and is no more.
        C: a2 SEARCH UNSEEN
        S: * SEARCH 1 2 3 4
        S: a2 OK [EXPUNGEISSUED] …
        C: a3 SEARCH RETURN (MAX) UNSEEN 1:2
        S: * ESEARCH (TAG "a3") MAX 2
        S: a3 OK [EXPUNGEISSUED] …
        # RFC 2180 §4.3, RFC 5530 §3: message 2 could not be looked at.
        C: b SEARCH SUBJECT number
        S: * SEARCH 1 3 4
        S: b OK [EXPUNGEISSUED] …
        C: c SEARCH BODY body
        S: * SEARCH 1 3 4
        S: c OK [EXPUNGEISSUED] …
        C: c2 SEARCH SEEN SUBJECT number
        S: * SEARCH
        S: c2 OK SEARCH …
        C: d SEARCH RETURN (SAVE) TEXT number
        S: d OK [EXPUNGEISSUED] …
        C: d2 SEARCH RETURN (COUNT) TEXT number
        S: * ESEARCH (TAG "d2") COUNT 3
        S: d2 OK [EXPUNGEISSUED] …
        C: e UID SEARCH RETURN (COUNT) ALL
        S: * ESEARCH (TAG "e") UID COUNT 4
        S: * 2 EXPUNGE
        S: e OK …
        C: f FETCH $ UID
        S: * 1 FETCH (UID 1)
        S: * 2 FETCH (UID 3)
        S: * 3 FETCH (UID 4)
        S: f OK …
        "#,
    );
}

/// RFC 9051 §6.4.4 names two charsets that each server has. We decode all that mail has.
#[test]
fn texts_in_other_charsets() {
    let server = Server::start();
    let mut wire = server.with_message("Subject: =?utf-8?Q?=C3=BCber?=\n\nПривет\n");
    for (command, answer) in [
        (&b"a SEARCH CHARSET ISO-8859-1 SUBJECT {4+}\r\n\xdcber\r\n"[..], "* SEARCH 1"),
        (b"a SEARCH CHARSET latin-1 SUBJECT {4+}\r\n\xfcbe! OR ALL ALL\r\n", "* SEARCH"),
        (b"a SEARCH CHARSET KOI8-R BODY {6+}\r\n\xf0\xd2\xc9\xd7\xc5\xd4\r\n", "* SEARCH 1"),
        (b"a SEARCH CHARSET UTF-7 SUBJECT +APw-ber\r\n", "* SEARCH 1"),
        (b"a SORT (DATE) ISO-8859-1 SUBJECT {4+}\r\n\xfcber\r\n", "* SORT 1"),
        (b"a THREAD REFERENCES ISO-8859-1 HEADER SUBJECT {4+}\r\n\xfcber\r\n", "* THREAD (1)"),
        (
            b"a ESEARCH IN (selected) RETURN (COUNT) CHARSET windows-1252 TEXT {4+}\r\n\xfcber\r\n",
            "* ESEARCH (TAG \"a\" MAILBOX INBOX …) UID COUNT 1",
        ),
    ] {
        wire.send(command);
        wire.run(&format!("S: {answer}\nS: a OK …"));
    }
}

#[test]
fn charsets() {
    let server = Server::start();
    server.with_message("Subject: =?utf-8?Q?=C3=BCber?=\n\nx\n").run(
        r#"
        C: a SEARCH CHARSET UTF-8 SUBJECT {5}
        S: + …
        C: Über
        S: * SEARCH 1
        S: a OK …
        C: b SEARCH CHARSET us-ascii SUBJECT ber
        S: * SEARCH 1
        S: b OK …
        C: c SEARCH CHARSET "utf-8" SUBJECT {3+}
        C: üb TEXT {3+}
        C: BER
        S: * SEARCH 1
        S: c OK …
        C: d SEARCH CHARSET X-NONE SUBJECT x
        S: d NO [BADCHARSET (US-ASCII UTF-8 Big5 …)] …
        C: e UID SEARCH RETURN (ALL) CHARSET "" ALL
        S: e NO [BADCHARSET (US-ASCII UTF-8 Big5 …)] …
        C: f SEARCH SUBJECT "über"
        S: * SEARCH 1
        S: f OK …
        "#,
    );
}

/// RFC 5182 §2.5: NOTSAVED, and `$` is empty.
#[test]
fn a_result_without_memory_is_not_saved() {
    let budget = ByteBudget::new(64 << 10);
    let server = Server::start_keeping(budget.clone());
    server.with_messages(1);
    let mut wire = server.select("INBOX");
    // Every second one of 2,048 messages is flagged: 1,024 ranges take 8 KiB.
    for _ in 0..11 {
        wire.run("C: a COPY 1:* INBOX\nS~ a OK …");
    }
    let every_second: Vec<String> = (1..=1024).map(|n| (2 * n).to_string()).collect();
    wire.run(&format!("C: b STORE {} +FLAGS.SILENT (\\Flagged)\nS~ b OK …", every_second.join(",")));
    // A small result takes nothing from the budget. An account has a quarter: 16 KiB.
    let mut sessions: Vec<Wire> = (0..3).map(|_| server.select("INBOX")).collect();
    for (nth, wire) in sessions[..2].iter_mut().enumerate() {
        wire.run("C: c SEARCH RETURN (SAVE) 1:2000\nS: c OK …");
        assert_eq!(budget.available(), (64 - 8 * nth) << 10);
        wire.run("C: d SEARCH RETURN (SAVE) FLAGGED\nS: d OK …");
        assert_eq!(budget.available(), (64 - 8 * (nth + 1)) << 10);
    }
    for command in [
        "SEARCH RETURN (SAVE COUNT) FLAGGED",
        "UID SEARCH RETURN (SAVE) FLAGGED",
        "SORT RETURN (SAVE ALL) (SIZE) UTF-8 FLAGGED",
        "ESEARCH IN (selected) RETURN (SAVE COUNT) FLAGGED",
    ] {
        sessions[2].run(&format!(
            "C: e SEARCH RETURN (SAVE) 1\nS: e OK …\nC: f {command}\nS: f NO [NOTSAVED] …\n\
             C: g SEARCH $\nS: * SEARCH\nS: g OK …"
        ));
    }
    // A result that replaces another one has its memory.
    sessions[0].run("C: h SEARCH RETURN (SAVE) FLAGGED\nS: h OK …\nC: i SEARCH RETURN (SAVE) 1\nS: i OK …");
    sessions[2].run(
        r#"
        C: j SORT RETURN (SAVE COUNT) (SIZE) UTF-8 FLAGGED
        S: * ESEARCH (TAG "j") COUNT 1024
        S: j OK …
        C: k SEARCH RETURN (COUNT) $
        S: * ESEARCH (TAG "k") COUNT 1024
        S: k OK …
        C: l ESEARCH IN (selected) RETURN (SAVE) 1
        S: l OK …
        C: m ESEARCH IN (selected) RETURN (SAVE COUNT) FLAGGED
        S: * ESEARCH (TAG "m" MAILBOX INBOX UIDVALIDITY …) UID COUNT 1024
        S: m OK …
        "#,
    );
    for wire in &mut sessions {
        wire.run("C: n UNSELECT\nS: n OK …");
    }
    assert_eq!(budget.available(), 64 << 10);
}
