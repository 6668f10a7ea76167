//! Results that are kept up to date: CONTEXT=SEARCH and CONTEXT=SORT (RFC 5267 §4).

use posthaste_net::ByteBudget;
use posthaste_testkit::Wire;

use crate::harness::Server;

#[test]
fn a_search_that_is_kept_up_to_date() {
    let server = Server::start();
    server.with_messages(3);
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    one.run(
        r#"
        C: B01 UID SEARCH RETURN (UPDATE) UNSEEN
        S: * ESEARCH (TAG "B01") UID ALL 1:3
        S: B01 OK …
        # The client's own change, also one it wants no FETCH for.
        C: a STORE 2 +FLAGS.SILENT (\Seen)
        S: * ESEARCH (TAG "B01") UID REMOVEFROM (0 2)
        S: a OK …
        C: b STORE 2 -FLAGS (\Seen)
        S: * 2 FETCH (UID 2 FLAGS (…))
        S: * ESEARCH (TAG "B01") UID ADDTO (0 2)
        S: b OK …
        # A flag that the search does not name.
        C: c STORE 1:3 +FLAGS.SILENT (\Answered)
        S: c OK …
        "#,
    );
    // A context of another session: RFC 5267 §4.3.3, ADDTO comes after EXISTS.
    server.with_messages(2);
    two.run("C: a STORE 1 +FLAGS (\\Seen \\Deleted)\nS~ a OK …");
    one.run(
        r#"
        C: d NOOP
        S: * 5 EXISTS
        S: * … RECENT
        S: * 1 FETCH (UID 1 FLAGS (…))
        S: * ESEARCH (TAG "B01") UID REMOVEFROM (0 1) ADDTO (0 4:5)
        S: d OK …
        "#,
    );
    // RFC 5267 §4.3.4: REMOVEFROM comes before EXPUNGE. Message 1 was not in the result.
    two.run("C: b STORE 3 +FLAGS (\\Deleted)\nS~ b OK …\nC: c EXPUNGE\nS~ c OK …");
    one.run(
        r#"
        C: e NOOP
        S: * ESEARCH (TAG "B01") UID REMOVEFROM (0 3)
        S: * 3 EXPUNGE
        S: * 1 EXPUNGE
        S: e OK …
        C: f CANCELUPDATE "B01"
        S: f OK …
        C: g UID STORE 4 +FLAGS.SILENT (\Seen)
        S: g OK …
        # A tag that names no context.
        C: h CANCELUPDATE "B01" "never"
        S: h OK …
        C: i CANCELUPDATE B01
        S: i BAD …
        "#,
    );
}

#[test]
fn numbers_are_valid_when_they_are_sent() {
    let server = Server::start();
    server.with_messages(4);
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    one.run(
        r#"
        C: B01 SEARCH RETURN (UPDATE COUNT) ALL
        S: * ESEARCH (TAG "B01") COUNT 4
        S: B01 OK …
        "#,
    );
    two.run("C: a STORE 2:3 +FLAGS (\\Deleted)\nS~ a OK …\nC: b EXPUNGE\nS~ b OK …");
    server.with_messages(1);
    one.run(
        r#"
        # EXPUNGE is held back, and so is REMOVEFROM; the new message is number 5.
        C: a FETCH 1 UID
        S: * 1 FETCH (UID 1)
        S: * 5 EXISTS
        S: * … RECENT
        S: * ESEARCH (TAG "B01") ADDTO (0 5)
        S: a OK …
        C: b NOOP
        S: * ESEARCH (TAG "B01") REMOVEFROM (0 2:3)
        S: * 3 EXPUNGE
        S: * 2 EXPUNGE
        S: b OK …
        "#,
    );
}

#[test]
fn a_sort_that_is_kept_up_to_date() {
    let server = Server::start();
    for subject in ["delta", "alpha", "golf", "juliett"] {
        server.put("INBOX", format!("Subject: {subject}\r\n\r\nx\r\n").as_bytes());
    }
    let mut one = server.select("INBOX");
    one.run(
        r#"
        C: S01 UID SORT RETURN (UPDATE ALL) (SUBJECT) UTF-8 UNSEEN
        S: * ESEARCH (TAG "S01") UID ALL 2,1,3:4
        S: S01 OK …
        C: S02 SORT RETURN (UPDATE COUNT) (REVERSE SUBJECT) UTF-8 ALL
        S: * ESEARCH (TAG "S02") COUNT 4
        S: S02 OK …
        "#,
    );
    for subject in ["hotel", "bravo", "Re: golf", "india"] {
        server.put("INBOX", format!("Subject: {subject}\r\n\r\nx\r\n").as_bytes());
    }
    // alpha bravo delta golf golf hotel india juliett
    one.run(
        r#"
        C: a NOOP
        S: * 8 EXISTS
        S: * … RECENT
        S: * ESEARCH (TAG "S01") UID ADDTO (2 6 5 7,5,8)
        S: * ESEARCH (TAG "S02") ADDTO (2 8,5 5 7 7 6)
        S: a OK …
        # Removals go from the last place to the first.
        C: b UID STORE 2,5,8 +FLAGS.SILENT (\Seen)
        S: * ESEARCH (TAG "S01") UID REMOVEFROM (6 5,8 1 2)
        S: b OK …
        C: c UID STORE 8,3 +FLAGS.SILENT (\Deleted)
        S: c OK …
        C: d UID EXPUNGE 8,3
        S: * ESEARCH (TAG "S01") UID REMOVEFROM (3 3)
        S: * ESEARCH (TAG "S02") REMOVEFROM (4 3 2 8)
        S: * 8 EXPUNGE
        S: * 3 EXPUNGE
        S: d OK …
        C: e UID SORT RETURN (ALL) (SUBJECT) UTF-8 UNSEEN
        S: * ESEARCH (TAG "e") UID ALL 6,1,7,4
        S: e OK …
        "#,
    );
}

#[test]
fn texts_of_new_messages_are_searched() {
    let server = Server::start();
    server.put("INBOX", b"Subject: one\r\n\r\nA needle.\r\n");
    let mut one = server.select("INBOX");
    one.run(
        r#"
        C: B01 UID SEARCH RETURN (UPDATE) TEXT needle UNSEEN
        S: * ESEARCH (TAG "B01") UID ALL 1
        S: B01 OK …
        C: B02 UID SEARCH RETURN (UPDATE) BODY needle
        S: * ESEARCH (TAG "B02") UID ALL 1
        S: B02 OK …
        "#,
    );
    server.put("INBOX", b"Subject: two\r\n\r\nHay.\r\n");
    server.put("INBOX", b"Subject: needle\r\n\r\nHay.\r\n");
    server.put("INBOX", b"Subject: four\r\n\r\nNeedles.\r\n");
    one.run(
        r#"
        C: a NOOP
        S: * 4 EXISTS
        S: * … RECENT
        S: * ESEARCH (TAG "B01") UID ADDTO (0 3:4)
        S: * ESEARCH (TAG "B02") UID ADDTO (0 4)
        S: a OK …
        "#,
    );
    // Three bodies were read at each of both searches, and none because of a flag.
    let read = server.service().messages_searched();
    one.run(
        r#"
        C: b STORE 1:4 +FLAGS.SILENT (\Flagged)
        S: b OK …
        C: c STORE 4 +FLAGS.SILENT (\Seen)
        S: * ESEARCH (TAG "B01") UID REMOVEFROM (0 4)
        S: c OK …
        "#,
    );
    assert_eq!(server.service().messages_searched(), read);
}

#[test]
fn updates_come_while_a_client_idles() {
    let server = Server::start();
    server.with_messages(2);
    let (mut idle, mut other) = (server.select("INBOX"), server.select("INBOX"));
    idle.run(
        r#"
        C: B01 UID SEARCH RETURN (UPDATE) UNSEEN
        S: * ESEARCH (TAG "B01") UID ALL 1:2
        S: B01 OK …
        C: B02 UID SORT RETURN (UPDATE) (REVERSE SUBJECT) UTF-8 NOT KEYWORD Work
        S: * ESEARCH (TAG "B02") UID ALL 2,1
        S: B02 OK …
        C: i IDLE
        S: + idling
        "#,
    );
    other.run("C: a STORE 1 +FLAGS (Work \\Seen)\nS~ a OK …");
    idle.run(
        r#"
        S: * FLAGS …
        S: * OK [PERMANENTFLAGS …
        S: * 1 FETCH (UID 1 FLAGS (…))
        S: * ESEARCH (TAG "B01") UID REMOVEFROM (0 1)
        S: * ESEARCH (TAG "B02") UID REMOVEFROM (2 1)
        "#,
    );
    other.run("C: b STORE 1 +FLAGS (\\Deleted)\nS~ b OK …");
    idle.run("S: * 1 FETCH …");
    other.run("C: c EXPUNGE\nS~ c OK …");
    idle.run("S: * 1 EXPUNGE");
    server.deliver(b"Subject: new\r\n\r\nx\r\n");
    idle.run(
        r#"
        S: * 2 EXISTS
        S: * … RECENT
        S: * ESEARCH (TAG "B01") UID ADDTO (0 3)
        S: * ESEARCH (TAG "B02") UID ADDTO (2 3)
        C: DONE
        S: i OK …
        "#,
    );
}

#[test]
fn results_that_are_not_updated() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.select("INBOX");
    // RFC 5267 §4.3.1: the search itself is answered.
    for criteria in ["YOUNGER 100", "NOT OLDER 100", "RECENT", "OR NEW OLD", "UID 1:*"] {
        wire.run(&format!(
            "C: a SEARCH RETURN (UPDATE COUNT) {criteria}\nS: * ESEARCH (TAG \"a\") COUNT 2\nS: * NO [NOUPDATE \"a\"] …\nS: a OK …"
        ));
    }
    for n in 1..=8 {
        wire.run(&format!(
            "C: n{n} SEARCH RETURN (UPDATE COUNT) ALL\nS: * ESEARCH (TAG \"n{n}\") COUNT 2\nS: n{n} OK …"
        ));
    }
    wire.run(
        r#"
        C: n9 SORT RETURN (UPDATE COUNT) (DATE) UTF-8 ALL
        S: * ESEARCH (TAG "n9") COUNT 2
        S: * NO [NOUPDATE "n9"] …
        S: n9 OK …
        # RFC 5267 §4.3
        C: n8 SORT RETURN (UPDATE) (DATE) UTF-8 FLAGGED
        S: n8 BAD Tag reuse…
        # Without UPDATE a tag may come again.
        C: n8 SEARCH RETURN (COUNT CONTEXT) ALL
        S: * ESEARCH (TAG "n8") COUNT 2
        S: n8 OK …
        C: a CANCELUPDATE "n8" "n7" "n6" "n5" "n4" "n3" "n2"
        S: a OK …
        C: n8 SEARCH RETURN (UPDATE COUNT) UNSEEN
        S: * ESEARCH (TAG "n8") COUNT 2
        S: n8 OK …
        C: b STORE 2 +FLAGS.SILENT (\Seen)
        S: * ESEARCH (TAG "n8") REMOVEFROM (0 2)
        S: b OK …
        "#,
    );
    // RFC 5267 §4.3: updates cease when the mailbox is no longer selected.
    for ending in ["UNSELECT", "CLOSE", "EXAMINE INBOX", "SELECT INBOX"] {
        wire.run(&format!(
            "C: e {ending}\nS~ e OK …\nC: s SELECT INBOX\nS~ s OK …\nC: x STORE 1:2 +FLAGS.SILENT (\\Seen)\nS: x OK …"
        ));
        wire.run(
            r#"
            C: B01 SEARCH RETURN (UPDATE COUNT) SEEN
            S: * ESEARCH (TAG "B01") COUNT 2
            S: B01 OK …
            C: y STORE 2 -FLAGS.SILENT (\Seen)
            S: * ESEARCH (TAG "B01") REMOVEFROM (0 2)
            S: y OK …
            "#,
        );
    }
}

/// RFC 5267 §4.3: sequence numbers in the criteria name the messages they named at first. `$` does
/// the same.
#[test]
fn sets_of_messages_stay_those_messages() {
    let server = Server::start();
    server.with_messages(4);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: s UID SEARCH RETURN (SAVE) 2,4
        S: s OK …
        C: B01 UID SEARCH RETURN (UPDATE) 2:* UNSEEN
        S: * ESEARCH (TAG "B01") UID ALL 2:4
        S: B01 OK …
        C: B02 UID SEARCH RETURN (SAVE UPDATE ALL) $ UNSEEN
        S: * ESEARCH (TAG "B02") UID ALL 2,4
        S: B02 OK …
        C: t UID SEARCH RETURN (SAVE) 1
        S: t OK …
        C: a UID STORE 1 +FLAGS.SILENT (\Deleted)
        S: a OK …
        C: b UID EXPUNGE 1
        S: * 1 EXPUNGE
        S: b OK …
        C: c UID STORE 2:3 +FLAGS.SILENT (\Seen)
        S: * ESEARCH (TAG "B01") UID REMOVEFROM (0 2:3)
        S: * ESEARCH (TAG "B02") UID REMOVEFROM (0 2)
        S: c OK …
        "#,
    );
    server.with_messages(1);
    wire.run(
        r#"
        C: d NOOP
        S: * 4 EXISTS
        S: * … RECENT
        S: d OK …
        C: e UID STORE 2 -FLAGS.SILENT (\Seen)
        S: * ESEARCH (TAG "B01") UID ADDTO (0 2)
        S: * ESEARCH (TAG "B02") UID ADDTO (0 2)
        S: e OK …
        # A message that changes has a new mod-sequence.
        C: B03 UID SEARCH RETURN (UPDATE COUNT) MODSEQ 1000
        S: * OK [HIGHESTMODSEQ …
        S: * ESEARCH (TAG "B03") UID COUNT 0
        S: B03 OK …
        "#,
    );
}

/// RFC 9586 §3: no sequence number any more.
#[test]
fn with_uids_only() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: B01 SEARCH RETURN (UPDATE COUNT) UNSEEN
        S: * ESEARCH (TAG "B01") COUNT 2
        S: B01 OK …
        C: B02 UID SORT RETURN (UPDATE COUNT) (SIZE) UTF-8 UNSEEN
        S: * ESEARCH (TAG "B02") UID COUNT 2
        S: B02 OK …
        C: e ENABLE UIDONLY
        S: * NO [NOUPDATE "B01"] …
        S: * ENABLED UIDONLY
        S: e OK …
        C: a UID STORE 1 +FLAGS (\Seen)
        S: * 1 UIDFETCH (FLAGS (…))
        S: * ESEARCH (TAG "B02") UID REMOVEFROM (1 1)
        S: a OK …
        C: b UID STORE 2 +FLAGS.SILENT (\Deleted)
        S: b OK …
        C: c EXPUNGE
        S: * ESEARCH (TAG "B02") UID REMOVEFROM (1 2)
        S: * VANISHED 2
        S: c OK …
        "#,
    );
    server.with_messages(1);
    wire.run(
        "C: d NOOP\nS: * 2 EXISTS\nS: * … RECENT\nS: * ESEARCH (TAG \"B02\") UID ADDTO (1 3)\nS: d OK …",
    );
}

/// A page is answered as without UPDATE, and all of the result is kept up to date (RFC 5267 §4.4).
#[test]
fn a_page_of_a_result_that_is_kept() {
    let server = Server::start();
    server.with_messages(6);
    server.select("INBOX").run(
        r#"
        C: P01 UID SEARCH RETURN (PARTIAL 1:2 UPDATE CONTEXT) UNSEEN
        S: * ESEARCH (TAG "P01") UID PARTIAL (1:2 1:2)
        S: P01 OK …
        C: a STORE 5 +FLAGS.SILENT (\Seen)
        S: * ESEARCH (TAG "P01") UID REMOVEFROM (0 5)
        S: a OK …
        C: b UID SEARCH RETURN (PARTIAL 500:400) UNSEEN
        S: * ESEARCH (TAG "b") UID PARTIAL (500:400 NIL)
        S: b OK …
        "#,
    );
}

#[test]
fn without_memory_for_a_result() {
    let budget = ByteBudget::new(1 << 20);
    let server = Server::start_keeping(budget.clone());
    server.with_messages(2);
    let text = "x".repeat(8000);
    let keep = |wire: &mut Wire, tag: &str, refusal: &str| {
        let search = format!("{tag} SEARCH RETURN (UPDATE COUNT) NOT SUBJECT {{8000+}}\r\n{text}\r\n");
        wire.send(search.as_bytes());
        wire.run(&format!("S: * ESEARCH (TAG \"{tag}\") COUNT 2\n{refusal}\nS: {tag} OK …"));
    };
    // A session's first 12 KiB take nothing from the budget. Then it takes 64 KiB at once, and an
    // account has a quarter: four times 64 KiB.
    let mut sessions: Vec<Wire> = (0..4).map(|_| server.select("INBOX")).collect();
    for (nth, wire) in sessions.iter_mut().enumerate() {
        keep(wire, "a", "");
        assert_eq!(budget.available(), (1 << 20) - nth * (64 << 10));
        keep(wire, "b", "");
    }
    let mut last = server.select("INBOX");
    keep(&mut last, "a", "");
    keep(&mut last, "b", "S: * NO [NOUPDATE \"b\"] …");
    // It is given back with a session's last result.
    sessions[0].run("C: c CANCELUPDATE \"a\" \"b\"\nS: c OK …");
    keep(&mut last, "b", "");
    last.run("C: u UNSELECT\nS: u OK …");
    assert_eq!(budget.available(), (1 << 20) - 3 * (64 << 10));
}

#[test]
fn it_is_announced() {
    let server = Server::start();
    let mut wire: Wire = server.login();
    wire.send(b"a CAPABILITY\r\n");
    let capability = wire.expect("* CAPABILITY …");
    assert!(capability.contains(" ESORT CONTEXT=SEARCH CONTEXT=SORT "), "{capability}");
    wire.run("S: a OK …\nC: b CANCELUPDATE \"x\"\nS: b BAD …");
}
