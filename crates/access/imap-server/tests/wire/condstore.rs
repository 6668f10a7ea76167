//! CONDSTORE and QRESYNC: RFC 7162.

use crate::harness::Server;

#[test]
fn condstore() {
    let server = Server::start();
    server.with_messages(3);
    let mut other = server.select("INBOX");
    server.login().run(
        r#"
        C: a ENABLE CONDSTORE X-UNKNOWN
        S: * ENABLED CONDSTORE
        S: a OK …
        C: b SELECT INBOX
        S~ * OK [HIGHESTMODSEQ 3] …
        S~ b OK …
        C: c STORE 1 +FLAGS (\Seen)
        S: * 1 FETCH (UID 1 FLAGS (\Seen) MODSEQ (4))
        S: c OK …
        C: d STORE 2 +FLAGS.SILENT (\Seen)
        S: * 2 FETCH (UID 2 MODSEQ (5))
        S: d OK …
        C: e STORE 1:3 (UNCHANGEDSINCE 4) +FLAGS.SILENT (\Flagged)
        S: * 1 FETCH (UID 1 MODSEQ (6))
        S: * 3 FETCH (UID 3 MODSEQ (6))
        S: e OK [MODIFIED 2] …
        C: f UID STORE 1:3 (UNCHANGEDSINCE 5) -FLAGS (\Flagged)
        S: * 2 FETCH (UID 2 FLAGS (\Seen) MODSEQ (5))
        S: f OK [MODIFIED 1,3] …
        C: g FETCH 1:* (FLAGS) (CHANGEDSINCE 5)
        S: * 1 FETCH (FLAGS (\Flagged \Seen) MODSEQ (6))
        S: * 3 FETCH (FLAGS (\Flagged) MODSEQ (6))
        S: g OK …
        C: h STATUS INBOX (HIGHESTMODSEQ)
        S: * STATUS INBOX (HIGHESTMODSEQ 6)
        S: h OK …
        "#,
    );
    // Others who did not ask for it see no MODSEQ.
    other.run("C: a NOOP\nS: * 1 FETCH (UID 1 FLAGS (\\Recent \\Flagged \\Seen))\nS~ a OK …");
}

#[test]
fn vanished_takes_the_place_of_expunge() {
    let server = Server::start();
    server.with_messages(5);
    let mut other = server.select("INBOX");
    server.login().run(
        r#"
        C: a SELECT INBOX (QRESYNC (1 1))
        S: a BAD …
        C: b ENABLE QRESYNC
        S: * ENABLED QRESYNC
        S: b OK …
        C: c SELECT INBOX
        S~ c OK …
        C: d STORE 2:3 +FLAGS.SILENT (\Deleted)
        S~ d OK …
        C: e EXPUNGE
        S: * VANISHED 2:3
        S: e OK [HIGHESTMODSEQ 7] EXPUNGE completed
        C: f MOVE 1 Archive
        S: * OK [COPYUID … 1 1] …
        S: * VANISHED 1
        S: f OK [HIGHESTMODSEQ 8] …
        C: g UID FETCH 1:* (FLAGS) (CHANGEDSINCE 6 VANISHED)
        S: * VANISHED (EARLIER) 1:3
        S: g OK …
        "#,
    );
    other.run("C: a NOOP\nS: * 3 EXPUNGE\nS: * 2 EXPUNGE\nS: * 1 EXPUNGE\nS: a OK …");
}

#[test]
fn coming_back_after_a_while() {
    let server = Server::start();
    server.with_messages(5);
    let mut first = server.select("INBOX");
    let lines = first.run("C: a SELECT INBOX").skip_to("a OK …");
    let validity = lines.iter().find_map(|l| l.strip_prefix("* OK [UIDVALIDITY ")).unwrap();
    let validity = validity.split(']').next().unwrap();
    first.run(
        r#"
        C: b STORE 2,4 +FLAGS.SILENT (\Deleted)
        S: b OK …
        C: c EXPUNGE
        S~ c OK …
        C: d STORE 1 +FLAGS.SILENT (\Seen)
        S: d OK …
        "#,
    );
    let back = |arguments: &str, expected: &str| {
        server.login().run(&format!(
            "C: a ENABLE QRESYNC\nS~ a OK …\nC: b SELECT INBOX (QRESYNC ({arguments}))\nS~ * OK [MAILBOXID …\n{expected}"
        ));
    };
    let all = "S: * VANISHED (EARLIER) 2,4\nS: * 1 FETCH (UID 1 FLAGS (\\Seen) MODSEQ (8))\nS: b OK …";
    back(&format!("{validity} 5"), all);
    back(&format!("{validity} 5 1:5"), all);
    // Only of what the client has.
    back(&format!("{validity} 5 2:3"), "S: * VANISHED (EARLIER) 2\nS: b OK …");
    // Another life of the mailbox: nothing the client remembers is of use.
    back("1 5", "S: b OK …");
    // Nothing since.
    back(&format!("{validity} 8"), "S: b OK …");
    // Once the engine has forgotten when, all that is missing is told, except below what both know to agree.
    if !server.forget_expunged("INBOX") {
        eprintln!("SKIPPED on a cluster: what an engine answers that has forgotten (it takes 4,096 commits)");
        return;
    }
    back(&format!("{validity} 7 1:5"), "S: * VANISHED (EARLIER) 2,4\nS: * 1 FETCH (UID 1 …\nS: b OK …");
    back(
        &format!("{validity} 7 1:5 (1:2 1,3)"),
        "S: * VANISHED (EARLIER) 4\nS: * 1 FETCH (UID 1 …\nS: b OK …",
    );
}

#[test]
fn a_new_mailbox_says_one_and_means_none() {
    let server = Server::start();
    let mut wire = server.login();
    let lines = wire.run("C: a ENABLE QRESYNC\nS~ a OK …\nC: b SELECT INBOX").skip_to("b OK …");
    let validity = lines.iter().find_map(|l| l.strip_prefix("* OK [UIDVALIDITY ")).unwrap();
    let validity = validity.split(']').next().unwrap();
    assert!(lines.iter().any(|l| l.starts_with("* OK [HIGHESTMODSEQ 1]")), "{lines:?}");
    server.with_messages(1);
    wire.run(&format!(
        "C: c SELECT INBOX (QRESYNC ({validity} 1))\nS~ * OK [MAILBOXID …\nS: * 1 FETCH (UID 1 FLAGS (…) MODSEQ (1))\nS: c OK …"
    ));
}
