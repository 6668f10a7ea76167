//! Changes that NOTIFY does not report (RFC 5465): no command of the session brings it either.

use posthaste_imap_server::ImapOptions;

use crate::harness::{PASSWORD, Server, USER};

const MESSAGE: &[u8] = b"Subject: news\r\n\r\nText.\r\n";

/// RFC 5465 §3.1: SELECTED NONE. Each command has its own responses and no others.
#[test]
fn a_command_reports_what_it_has_changed_and_nothing_else() {
    let server = Server::start();
    server.with_messages(6);
    let mut wire = server.select("INBOX");
    wire.run("C: a NOTIFY SET (SELECTED NONE)\nS: a OK …");
    let mut other = server.select("INBOX");
    other.run("C: a STORE 1 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS: * 1 EXPUNGE\nS: b OK …");
    other.run("C: c UID STORE 2 +FLAGS.SILENT (\\Flagged Later)\nS~ c OK …");
    server.put("INBOX", MESSAGE);
    wire.run(
        r#"
        C: b STORE 3 +FLAGS (\Seen)
        S~ * 3 FETCH (UID 3 FLAGS (…\Seen…))
        S: b OK …
        C: c STORE 4 +FLAGS.SILENT (\Seen)
        S: c OK …
        C: d FETCH 5 BODY[TEXT]
        S: * 5 FETCH (FLAGS (…\Seen…) BODY[TEXT] {9}
        S: Body 5.
        S: )
        S: d OK …
        C: e UID STORE 6 +FLAGS.SILENT (\Deleted)
        S: e OK …
        C: f UID EXPUNGE 1:6
        S: * 6 EXPUNGE
        S: f OK …
        C: g UID MOVE 5 Archive
        S: * OK [COPYUID …] …
        S: * 5 EXPUNGE
        S: g OK …
        C: h NOOP
        S: h OK …
        C: i FETCH 1:* (UID FLAGS)
        S: * 1 FETCH (UID 1 …)
        S: * 2 FETCH (UID 2 …)
        S: * 3 FETCH (UID 3 FLAGS (…\Seen…))
        S: * 4 FETCH (UID 4 FLAGS (…\Seen…))
        S: i OK …
        # §3.1: NOTIFY SET returns what has accumulated.
        C: j NOTIFY SET (SELECTED (MessageNew MessageExpunge FlagChange))
        S: * 1 EXPUNGE
        S: * 4 EXISTS
        S: * … RECENT
        S: * 1 FETCH (UID 2 FLAGS (…\Flagged…Later…))
        S: j OK …
        "#,
    );
}

/// RFC 8508: the old message goes by the client's own command. Without MessageNew the new one is
/// not reported, as after APPEND.
#[test]
fn a_replaced_message_goes_and_the_new_one_comes_with_the_next_notify() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.select("INBOX");
    wire.run("C: a NOTIFY SET (SELECTED NONE)\nS: a OK …");
    server.put("INBOX", MESSAGE);
    wire.run("C: b REPLACE 1 INBOX {1}\nS: + …\nC: x\nS: * OK [APPENDUID … 4] …\nS: * 1 EXPUNGE\nS: b OK …");
    wire.run(
        r#"
        C: c APPEND INBOX {1}
        S: + …
        C: x
        S: c OK [APPENDUID … 5] …
        C: d NOTIFY SET (SELECTED NONE)
        S: * 4 EXISTS
        S: * … RECENT
        S: d OK …
        "#,
    );
}

/// RFC 7162 §3.2: a client that gets the MODSEQ of its own change must not take all changes before
/// it for reported.
#[test]
fn the_highest_modseq_stays_where_reports_ended() {
    let server = Server::start();
    server.with_messages(3);
    let mut wire = server.login();
    wire.run("C: e ENABLE QRESYNC\nS~ e OK …\nC: s SELECT INBOX\nS~ s OK …");
    wire.run("C: a NOTIFY SET (SELECTED NONE)\nS: a OK …");
    server.select("INBOX").run("C: a STORE 1 +FLAGS.SILENT (\\Flagged)\nS: a OK …");
    wire.run(
        r#"
        C: b STORE 2 +FLAGS.SILENT (\Deleted)
        S: * 2 FETCH (UID 2 MODSEQ (5))
        S: * OK [HIGHESTMODSEQ 3] …
        S: b OK …
        C: c EXPUNGE
        S: * VANISHED 2
        S: c OK [HIGHESTMODSEQ 3] …
        C: d NOTIFY SET (SELECTED (MessageNew MessageExpunge FlagChange))
        S: * 1 FETCH (UID 1 FLAGS (…\Flagged…) MODSEQ (4))
        S: * OK [HIGHESTMODSEQ 6] …
        S: d OK …
        "#,
    );
}

/// RFC 5465 §5: without FlagChange, the flags that others set are not reported by a command that
/// sets flags of another message.
#[test]
fn without_flag_change_only_the_commands_own_messages_are_reported() {
    let server = Server::start();
    server.with_messages(3);
    let mut wire = server.select("INBOX");
    wire.run("C: a NOTIFY SET (SELECTED (MessageNew MessageExpunge))\nS: a OK …");
    let mut other = server.select("INBOX");
    // While a command is on its way, nothing is reported.
    wire.run("C: b FETCH 2 BODY[HEADER.FIELDS ({7}\nS: + …");
    other.run("C: a STORE 1 +FLAGS.SILENT (\\Flagged)\nS: a OK …");
    wire.run(
        r#"
        C: Subject)]
        S: * 2 FETCH (FLAGS (…\Seen…) BODY[HEADER.FIELDS (Subject)] {21}
        S: Subject: number 2
        S:
        S: )
        S: b OK …
        C: c STORE 3 +FLAGS (\Seen)
        S: * 3 FETCH (UID 3 FLAGS (…\Seen…))
        S: c OK …
        "#,
    );
}

/// RFC 5465 §3.1: NOTIFY NONE means "not interested in any kind of event", in each mailbox that is
/// selected from then on.
#[test]
fn after_none_nothing_is_reported() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.select("INBOX");
    wire.run("C: a NOTIFY NONE\nS: a OK …");
    let mut other = server.select("INBOX");
    other.run("C: a STORE 1 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS: * 1 EXPUNGE\nS: b OK …");
    server.put("INBOX", MESSAGE);
    wire.run("C: b NOOP\nS: b OK …\nC: c IDLE\nS: + …");
    other.run("C: c STORE 1 +FLAGS.SILENT (\\Flagged)\nS~ c OK …");
    wire.run("C: DONE\nS: c OK …");
    // The client sees the mailbox as it is when it is selected.
    wire.run("C: e SELECT INBOX\nS~ * 2 EXISTS\nS~ e OK …");
    server.put("INBOX", MESSAGE);
    wire.run("C: f NOOP\nS: f OK …");
    wire.run(
        r#"
        C: g NOTIFY SET (SELECTED (MessageNew MessageExpunge FlagChange))
        S: * 3 EXISTS
        S: * … RECENT
        S: g OK …
        "#,
    );
    server.put("INBOX", MESSAGE);
    wire.run("S: * 4 EXISTS\nS: * … RECENT");
}

/// RFC 8437: the next login begins as on a new connection.
#[test]
fn none_ends_with_the_login() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a NOTIFY NONE\nS: a OK …\nC: b UNAUTHENTICATE\nS: b OK …");
    wire.run(&format!("C: l LOGIN {USER} \"{PASSWORD}\"\nS: l OK …\nC: s SELECT INBOX\nS~ s OK …"));
    server.put("INBOX", MESSAGE);
    wire.run("C: c NOOP\nS: * 1 EXISTS\nS: * 1 RECENT\nS: c OK …");
}

/// RFC 5465 §5.8: NOTIFICATIONOVERFLOW is "as if a NOTIFY NONE command had just been received".
#[test]
fn after_an_overflow_nothing_is_reported() {
    let server = Server::start_with(ImapOptions { notify_mailboxes_max: 1, ..ImapOptions::default() });
    server.login().run("C: a CREATE a\nS: a OK …\nC: b CREATE b\nS: b OK …");
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a NOTIFY SET (SELECTED (MessageNew MessageExpunge)) (MAILBOXES (a b) (MessageNew MessageExpunge))
        S: a OK …
        C: b APPEND Archive {1}
        S: + …
        "#,
    );
    // While a command is on its way, nothing is reported.
    server.put("a", MESSAGE);
    server.put("b", MESSAGE);
    wire.run("C: x\nS: * OK [NOTIFICATIONOVERFLOW] …\nS: b OK …");
    server.put("INBOX", MESSAGE);
    wire.run("C: c NOOP\nS: c OK …");
}
