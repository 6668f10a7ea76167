//! SELECT, EXAMINE, CLOSE, UNSELECT, CHECK, NOOP: RFC 3501 §6.3.1, §6.4.

use crate::harness::Server;

#[test]
fn select_reports_all_of_a_mailbox() {
    let server = Server::start();
    server.with_messages(3);
    server.login().run(
        r#"
        C: a SELECT inbox
        S: * FLAGS (\Answered \Flagged \Deleted \Seen \Draft)
        S: * OK [PERMANENTFLAGS (\Answered \Flagged \Deleted \Seen \Draft \*)] …
        S: * 3 EXISTS
        S: * 3 RECENT
        S: * OK [UNSEEN 1] …
        S: * OK [UIDVALIDITY …] …
        S: * OK [UIDNEXT 4] …
        S: * OK [HIGHESTMODSEQ 3] …
        S: * OK [MAILBOXID (…)] …
        S: * OK [ANNOTATIONS 65536] …
        S: a OK [READ-WRITE] SELECT completed
        C: b FETCH 1 FLAGS
        S: * 1 FETCH (FLAGS (\Recent))
        S: b OK FETCH completed
        C: c CHECK
        S: c OK CHECK completed
        # The next session finds nothing recent.
        C: d EXAMINE INBOX
        S: * OK [CLOSED] …
        S: * FLAGS (…)
        S: * OK [PERMANENTFLAGS ()] …
        S: * 3 EXISTS
        S: * 0 RECENT
        S~ d OK [READ-ONLY] EXAMINE completed
        C: e STORE 1 +FLAGS (\Seen)
        S: e NO [READ-ONLY] …
        C: f FETCH 1 BODY[]
        S: * 1 FETCH (BODY[] {30}
        S~ f OK …
        C: g FETCH 1 FLAGS
        S: * 1 FETCH (FLAGS ())
        S: g OK …
        "#,
    );
}

#[test]
fn recent_is_seen_by_all_and_claimed_by_one() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.login();
    wire.run(
        r#"
        C: a EXAMINE INBOX
        S~ * 2 RECENT
        S~ a OK …
        C: b SELECT INBOX
        S~ * 2 RECENT
        S~ b OK …
        C: c STATUS INBOX (RECENT)
        S: * STATUS INBOX (RECENT 0)
        S: c OK …
        "#,
    );
    server.login().run("C: a SELECT INBOX\nS~ * 0 RECENT\nS~ a OK …");
}

#[test]
fn a_failed_select_leaves_nothing_selected() {
    let server = Server::start();
    server.select("INBOX").run(
        r#"
        C: a SELECT nowhere
        S: * OK [CLOSED] …
        S: a NO [NONEXISTENT] …
        C: b CHECK
        S: b BAD …
        C: c SELECT "a//b"
        S: c NO [CANNOT] …
        C: d SELECT ""
        S: d NO [CANNOT] …
        "#,
    );
}

#[test]
fn close_expunges_silently_and_unselect_does_not() {
    let server = Server::start();
    server.with_messages(3);
    server.select("INBOX").run(
        r#"
        C: a STORE 2 +FLAGS.SILENT (\Deleted)
        S: a OK …
        C: b UNSELECT
        S: b OK UNSELECT completed
        C: c EXAMINE INBOX
        S~ c OK …
        C: d CLOSE
        S: d OK …
        C: e SELECT INBOX
        S~ * 3 EXISTS
        S~ e OK …
        C: f CLOSE
        S: f OK CLOSE completed
        C: g SELECT INBOX
        S~ * 2 EXISTS
        S~ g OK …
        "#,
    );
}

#[test]
fn an_empty_mailbox() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a SELECT Sent
        S~ * 0 EXISTS
        S: * 0 RECENT
        S: * OK [UIDVALIDITY …
        S: * OK [UIDNEXT 1] …
        S: * OK [HIGHESTMODSEQ 1] …
        S~ a OK …
        C: c FETCH 1 FLAGS
        S: c BAD …
        C: d UID FETCH 1:* FLAGS
        S: d OK …
        C: e SEARCH ALL
        S: * SEARCH
        S: e OK …
        C: f EXPUNGE
        S: f OK …
        "#,
    );
}

/// RFC 9051 §9, seq-number: BAD for a number without a message, "This includes "*" if the selected
/// mailbox is empty". UIDs need not exist (§6.4.9), and a search finds nothing.
#[test]
fn a_star_without_a_message() {
    let server = Server::start();
    let mut wire = server.select("Sent");
    for command in [
        "FETCH * FLAGS",
        "FETCH 1:* FLAGS",
        "FETCH *:1 (FLAGS) (CHANGEDSINCE 1)",
        "STORE * +FLAGS (\\Seen)",
        "COPY 1:* INBOX",
        "MOVE * INBOX",
        "FETCH $,* FLAGS",
    ] {
        // An OK in between resets the count of bad commands.
        wire.run(&format!("C: a {command}\nS~ a BAD …\nC: b UID FETCH * FLAGS\nS: b OK …"));
    }
    wire.run(
        r#"
        C: c SEARCH *
        S: * SEARCH
        S: c OK …
        C: d FETCH $ FLAGS
        S: d OK …
        C: e UID STORE * +FLAGS (\Seen)
        S: e OK …
        C: f UID MOVE * INBOX
        S: f OK …
        "#,
    );
}
