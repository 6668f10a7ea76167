//! Extensions together with UIDONLY (RFC 9586) and QRESYNC (RFC 7162), each with a change by
//! another session.

use posthaste_directory::{AccountChange, NewAccount};
use posthaste_testkit::Wire;

use crate::gate::Gate;
use crate::harness::Server;
use crate::sharing::BO;

/// Four messages in two conversations. UID 1 is expunged, so that UIDs are no sequence numbers.
fn server() -> Server {
    let server = Server::start();
    fill(&server);
    server
}

fn fill(server: &Server) {
    server.put("INBOX", b"Subject: first\r\n\r\nx\r\n");
    server.put("INBOX", b"Message-ID: <2@x>\r\nSubject: unpaid invoices\r\n\r\nbody two\r\n");
    server
        .put("INBOX", b"Message-ID: <3@x>\r\nReferences: <2@x>\r\nSubject: Re: unpaid invoices\r\n\r\nx\r\n");
    server.put("INBOX", b"Subject: apples\r\n\r\nbody four\r\n");
    server.expunge_elsewhere("INBOX", 1);
}

/// INBOX, selected with an extension.
fn with(server: &Server, extension: &str) -> Wire {
    let mut wire = server.login();
    wire.run(&format!("C: a ENABLE {extension}\nS~ a OK …\nC: b SELECT INBOX\nS~ b OK …"));
    wire
}

/// The session hears that another one has expunged this message.
fn vanishes(server: &Server, wire: &mut Wire, uid: u32) {
    server.expunge_elsewhere("INBOX", uid);
    wire.run(&format!("C: v NOOP\nS: * VANISHED {uid}\nS~ v OK …"));
}

const BOTH: [&str; 2] = ["UIDONLY", "QRESYNC"];

#[test]
fn sort() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, extension);
        wire.run(
            r#"
            C: c UID SORT (SUBJECT) UTF-8 ALL
            S: * SORT 4 2 3
            S: c OK …
            C: d UID SORT RETURN (ALL COUNT MIN MAX) (REVERSE SUBJECT) UTF-8 ALL
            S: * ESEARCH (TAG "d") UID …
            S: d OK …
            "#,
        );
        vanishes(&server, &mut wire, 2);
        wire.run("C: e UID SORT (SUBJECT) UTF-8 ALL\nS: * SORT 4 3\nS: e OK …");
    }
    let server = server();
    with(&server, "UIDONLY").run("C: c SORT (SUBJECT) UTF-8 ALL\nS: c BAD [UIDREQUIRED] …");
    with(&server, "QRESYNC").run("C: c SORT (SUBJECT) UTF-8 ALL\nS: * SORT 3 1 2\nS: c OK …");
}

#[test]
fn thread() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, extension);
        wire.run("C: c UID THREAD REFERENCES UTF-8 ALL\nS: * THREAD (2 3)(4)\nS: c OK …");
        vanishes(&server, &mut wire, 2);
        wire.run("C: d UID THREAD REFERENCES UTF-8 ALL\nS: * THREAD (3)(4)\nS: d OK …");
    }
    with(&server(), "UIDONLY").run("C: c THREAD REFS UTF-8 ALL\nS: c BAD [UIDREQUIRED] …");
}

#[test]
fn thread_id() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, extension);
        wire.send(b"c UID FETCH 2:3 (THREADID)\r\n");
        let lines = wire.skip_to("c OK …");
        let ids: Vec<&str> =
            lines.iter().filter_map(|line| line.split_once("THREADID (")?.1.split(')').next()).collect();
        let [one, two] = ids.as_slice() else { panic!("{lines:?}") };
        assert_eq!(one, two);
        let name = if extension == "UIDONLY" { "UIDFETCH" } else { "FETCH" };
        assert!(lines[0].contains(&format!(" {name} (")), "{lines:?}");
        wire.run(&format!(
            "C: d UID SEARCH RETURN (ALL) THREADID {one}\nS: * ESEARCH (TAG \"d\") UID ALL 2:3\nS: d OK …"
        ));
        vanishes(&server, &mut wire, 2);
        wire.run(&format!(
            "C: e UID SEARCH RETURN (ALL) THREADID {one}\nS: * ESEARCH (TAG \"e\") UID ALL 3\nS: e OK …"
        ));
    }
}

#[test]
fn fuzzy() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, extension);
        wire.run(
            r#"
            C: c UID SEARCH RETURN (ALL RELEVANCY) FUZZY SUBJECT "invoices unpaid"
            S: * ESEARCH (TAG "c") UID ALL 2:3 RELEVANCY (…)
            S: c OK …
            "#,
        );
        vanishes(&server, &mut wire, 3);
        wire.run(
            r#"
            C: d UID SEARCH RETURN (ALL RELEVANCY) FUZZY SUBJECT "invoices unpaid"
            S: * ESEARCH (TAG "d") UID ALL 2 RELEVANCY (…)
            S: d OK …
            "#,
        );
    }
}

#[test]
fn pages() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, extension);
        wire.run("C: c UID SEARCH RETURN (PARTIAL 1:2) ALL\nS: * ESEARCH (TAG \"c\") UID PARTIAL (1:2 2:3)\nS: c OK …");
        vanishes(&server, &mut wire, 3);
        wire.run("C: d UID SEARCH RETURN (PARTIAL -1:-2) ALL\nS: * ESEARCH (TAG \"d\") UID PARTIAL (-1:-2 2,4)\nS: d OK …");
    }
    with(&server(), "UIDONLY").run(
        r#"
        C: c UID FETCH 1:* (FLAGS) (PARTIAL 2:3)
        S: * 3 UIDFETCH (FLAGS (…))
        S: * 4 UIDFETCH (FLAGS (…))
        S: c OK …
        "#,
    );
}

#[test]
fn contexts() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, extension);
        wire.run(
            r#"
            C: u UID SEARCH RETURN (ALL UPDATE) UNSEEN
            S: * ESEARCH (TAG "u") UID ALL 2:4
            S: u OK …
            C: s UID SORT RETURN (ALL UPDATE) (SUBJECT) UTF-8 UNSEEN
            S: * ESEARCH (TAG "s") UID ALL 4,2:3
            S: s OK …
            "#,
        );
        server.select("INBOX").run("C: a UID STORE 2 +FLAGS.SILENT (\\Seen)\nS~ a OK …");
        wire.run(
            r#"
            C: c NOOP
            S~ * ESEARCH (TAG "u") UID REMOVEFROM (0 2)
            S: * ESEARCH (TAG "s") UID REMOVEFROM (2 2)
            S: c OK …
            "#,
        );
        // RFC 5267 §4.3.4: before the message itself is reported.
        server.expunge_elsewhere("INBOX", 4);
        wire.run(
            r#"
            C: d NOOP
            S: * ESEARCH (TAG "u") UID REMOVEFROM (0 4)
            S: * ESEARCH (TAG "s") UID REMOVEFROM (1 4)
            S: * VANISHED 4
            S: d OK …
            "#,
        );
        server.select("INBOX").run("C: a UID STORE 2 -FLAGS.SILENT (\\Seen)\nS~ a OK …");
        wire.run(
            r#"
            C: e NOOP
            S~ * ESEARCH (TAG "u") UID ADDTO (0 2)
            S: * ESEARCH (TAG "s") UID ADDTO (1 2)
            S: e OK …
            "#,
        );
    }
}

#[test]
fn several_mailboxes_and_filters() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, extension);
        wire.run(
            r#"
            C: c SETMETADATA "" (/private/filters/values/paid "NOT SUBJECT unpaid")
            S: c OK …
            C: d ESEARCH IN (mailboxes INBOX) FILTER paid
            S: * ESEARCH (TAG "d" MAILBOX INBOX UIDVALIDITY …) UID ALL 4
            S: d OK …
            C: e UID SEARCH RETURN (ALL) FILTER paid
            S: * ESEARCH (TAG "e") UID ALL 4
            S: e OK …
            "#,
        );
        vanishes(&server, &mut wire, 4);
        wire.run(
            r#"
            C: f ESEARCH IN (mailboxes INBOX) RETURN (COUNT) SUBJECT unpaid
            S: * ESEARCH (TAG "f" MAILBOX INBOX UIDVALIDITY …) UID COUNT 2
            S: f OK …
            C: g UID SEARCH RETURN (COUNT) FILTER paid
            S: * ESEARCH (TAG "g") UID COUNT 0
            S: g OK …
            "#,
        );
    }
}

/// Reports about mailboxes have no sequence numbers. VANISHED is reported with them.
#[test]
fn metadata_quota_rights_and_xlist() {
    for extension in BOTH {
        let server = server();
        server.limit(AccountChange { quota_messages: Some(Some(9)), ..AccountChange::default() });
        let mut wire = with(&server, extension);
        wire.run(
            r#"
            C: c SETMETADATA INBOX (/private/comment "mine")
            S: c OK …
            C: d GETMETADATA INBOX /private/comment
            S: * METADATA INBOX (/private/comment "mine")
            S: d OK …
            C: e GETQUOTAROOT INBOX
            S: * QUOTAROOT INBOX ""
            S: * QUOTA "" (MESSAGE 3 9)
            S: e OK …
            C: f MYRIGHTS INBOX
            S: * MYRIGHTS INBOX lrswipkxteancd
            S: f OK …
            C: g XLIST "" INBOX
            S: * XLIST (\HasNoChildren \Inbox) "/" INBOX
            S: g OK …
            "#,
        );
        server.expunge_elsewhere("INBOX", 3);
        wire.run(
            r#"
            C: h GETQUOTA ""
            S: * QUOTA "" (MESSAGE 2 9)
            S~ h OK …
            C: i NOOP
            S~ i OK …
            C: j UID SEARCH RETURN (ALL) ALL
            S: * ESEARCH (TAG "j") UID ALL 2,4
            S: j OK …
            "#,
        );
    }
}

/// A right that is lost while the mailbox is selected.
#[test]
fn rights_in_a_mailbox_of_others() {
    for extension in BOTH {
        let server = server();
        server.add_account(BO, NewAccount::default());
        server.grant("ana@example.org", "INBOX", BO, "lrst");
        let mut wire = server.login_as(BO);
        wire.run(&format!("C: a ENABLE {extension}\nS~ a OK …"));
        wire.run(
            r#"
            C: b SELECT "Other Users/ana@example.org/INBOX"
            S~ b OK …
            C: c UID STORE 2 +FLAGS.SILENT (\Deleted)
            S~ c OK …
            C: d UID EXPUNGE 2
            S: d NO [NOPERM] …
            "#,
        );
        vanishes(&server, &mut wire, 3);
    }
}

#[test]
fn names_in_utf8() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, &format!("UTF8=ACCEPT {extension}"));
        wire.run(
            r#"
            C: c CREATE "Entwürfe"
            S: c OK …
            C: d UID COPY 2 "Entwürfe"
            S: d OK [COPYUID … 2 1] …
            C: e STATUS "Entwürfe" (MESSAGES)
            S: * STATUS "Entwürfe" (MESSAGES 1)
            S: e OK …
            "#,
        );
        vanishes(&server, &mut wire, 2);
    }
}

#[test]
fn annotations() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, extension);
        let name = if extension == "UIDONLY" { "UIDFETCH" } else { "FETCH" };
        wire.run("C: c UID STORE 2 ANNOTATION (/comment (value.priv \"x\"))\nS~ c OK …");
        wire.run(&format!(
            "C: d UID FETCH 2 (ANNOTATION (/comment value.priv))\nS: * … {name} (…ANNOTATION (/comment (value.priv \"x\")))\nS: d OK …"
        ));
        wire.run("C: e UID SEARCH RETURN (ALL) ANNOTATION /comment value.priv x\nS: * ESEARCH (TAG \"e\") UID ALL 2\nS: e OK …");
        vanishes(&server, &mut wire, 2);
        wire.run("C: f UID SEARCH RETURN (COUNT) ANNOTATION /comment value.priv x\nS: * ESEARCH (TAG \"f\") UID COUNT 0\nS: f OK …");
    }
}

/// RFC 5182 §2.1: what vanishes leaves the saved result, too.
#[test]
fn saved_results_and_what_is_fetched_of_them() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, extension);
        let name = if extension == "UIDONLY" { "UIDFETCH" } else { "FETCH" };
        wire.run("C: c UID SEARCH RETURN (SAVE) ALL\nS: c OK …");
        vanishes(&server, &mut wire, 3);
        wire.run(&format!(
            r#"
            C: d UID FETCH $ (EMAILID SAVEDATE PREVIEW)
            S: * … {name} (…EMAILID (…) SAVEDATE "…" PREVIEW "body two")
            S: * … {name} (…EMAILID (…) SAVEDATE "…" PREVIEW "body four")
            S: d OK …
            C: e UID COPY $ Archive
            S: e OK [COPYUID … 2,4 1:2] …
            C: f UID MOVE $ Archive
            S: * OK [COPYUID … 2,4 3:4] …
            S: * VANISHED 2,4
            S: f OK …
            C: g UID SEARCH RETURN (COUNT) $
            S: * ESEARCH (TAG "g") UID COUNT 0
            S: g OK …
            "#
        ));
    }
}

#[test]
fn idle() {
    for extension in BOTH {
        let server = server();
        let mut wire = with(&server, extension);
        let name = if extension == "UIDONLY" { "UIDFETCH" } else { "FETCH" };
        wire.run("C: c IDLE\nS: + idling");
        server.select("INBOX").run("C: a UID STORE 3 +FLAGS.SILENT (\\Seen)\nS~ a OK …");
        wire.run(&format!("S: * … {name} (…FLAGS (…\\Seen)…)"));
        server.expunge_elsewhere("INBOX", 2);
        wire.run("S: * VANISHED 2");
        // Earlier changes are reported after the continuation.
        wire.run("C: DONE\nS: c OK …");
        server.expunge_elsewhere("INBOX", 3);
        wire.run("C: d IDLE\nS: + idling\nS: * VANISHED 3\nC: DONE\nS: d OK …");
    }
}

/// A report of progress has no sequence numbers, and no untagged response is in its way.
#[test]
fn progress() {
    for extension in BOTH {
        let (server, gate) = Gate::server();
        fill(&server);
        // The index cannot decide: it knows each word, but not their order.
        server.put("INBOX", b"Subject: large\r\n\r\nAll work and no play.\r\n");
        let mut wire = with(&server, extension);
        gate.set_open(false);
        wire.send(b"c UID SEARCH UID 5 NOT BODY \"play no work\"\r\n");
        wire.expect("* OK [INPROGRESS (\"c\" …");
        gate.set_open(true);
        wire.skip_to("* SEARCH 5");
        wire.skip_to("c OK …");
        server.expunge_elsewhere("INBOX", 5);
        wire.send(b"v NOOP\r\n");
        // NOOP waits for the store, too, and reports it.
        let mut lines = wire.skip_to("v OK …");
        lines.retain(|line| !line.starts_with("* OK [INPROGRESS") && !line.starts_with("v OK"));
        assert_eq!(lines, ["* VANISHED 5"]);
    }
}
