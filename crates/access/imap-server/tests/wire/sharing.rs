//! Mailboxes of others: what each right permits, and what reaches open sessions.

use posthaste_directory::{AccountChange, NewAccount};
use posthaste_testkit::Wire;

use crate::harness::{Server, USER};

pub const BO: &str = "bo@example.org";
/// The mailbox of most tests, as the reader names it.
pub const SHARED: &str = "\"Other Users/ana@example.org/P\"";

/// A server where ana has a mailbox `P` with two messages, in which bo has these rights.
pub fn server(rights: &str) -> Server {
    let server = Server::start();
    share(&server, rights);
    server
}

/// Makes that mailbox on a server.
pub fn share(server: &Server, rights: &str) {
    server.add_account(BO, NewAccount::default());
    server.login().run("C: a CREATE P\nS: a OK …");
    server.put("P (\\Flagged)", b"Subject: one\r\n\r\n1\r\n");
    server.put("P", b"Subject: two\r\n\r\n2\r\n");
    server.grant(USER, "P", BO, rights);
}

fn opened(server: &Server) -> Wire {
    let mut wire = server.login_as(BO);
    wire.run(&format!("C: s SELECT {SHARED}\nS~ s OK …"));
    wire
}

#[test]
fn namespaces_and_lists() {
    let server = server("lr");
    server.add_account("sales@example.org", NewAccount { shared: true, ..NewAccount::default() });
    server.grant("sales@example.org", "INBOX", "anyone", "lrs");
    let mut bo = server.login_as(BO);
    bo.run(
        r#"
        C: a NAMESPACE
        S: * NAMESPACE (("" "/")) (("Other Users/" "/")) (("Shared/" "/"))
        S: a OK …
        C: b LIST "" "Other Users/*"
        S: * LIST (\HasNoChildren) "/" "Other Users/ana@example.org/P"
        S: b OK …
        C: c LIST "" Shared*
        S: * LIST (\HasNoChildren) "/" Shared/sales@example.org/INBOX
        S: c OK …
        C: d LIST "" S%
        S: * LIST … "/" Sent
        S: * LIST (\Noselect \HasChildren) "/" Shared
        S: d OK …
        C: e SUBSCRIBE "Other Users/ana@example.org/P"
        S: e OK …
        C: f LSUB "" "O*"
        S: * LSUB () "/" "Other Users/ana@example.org/P"
        S: f OK …
        C: g LIST (SUBSCRIBED) "" "O*"
        S: * LIST (\HasNoChildren \Subscribed) "/" "Other Users/ana@example.org/P"
        S: g OK …
        C: h STATUS Shared/sales@example.org/inbox (MESSAGES)
        S: * STATUS Shared/sales@example.org/INBOX (MESSAGES 0)
        S: h OK …
        # A namespace begins there.
        C: i CREATE Shared
        S: i NO [CANNOT] …
        C: j CREATE "Other Users"
        S: j NO [CANNOT] …
        C: k RENAME Sent Shared
        S: k NO [CANNOT] …
        "#,
    );
    // A login to a shared account is refused.
    server.connect().run("C: l LOGIN sales@example.org \"sesame street\"\nS: l NO [AUTHORIZATIONFAILED] …");
}

#[test]
fn an_older_mailbox_of_such_a_name_stays() {
    let server = Server::start();
    server.add_account("sales@example.org", NewAccount { shared: true, ..NewAccount::default() });
    server.grant("sales@example.org", "INBOX", "anyone", "lrs");
    server.make_mailbox("Shared/recipes");
    server.login().run(
        r#"
        C: a LIST "" Shared*
        S: * LIST (\HasChildren) "/" Shared
        S: * LIST (\HasNoChildren) "/" Shared/recipes
        S: * LIST (\HasNoChildren) "/" Shared/sales@example.org/INBOX
        S: a OK …
        C: b SELECT Shared/recipes
        S~ b OK [READ-WRITE] …
        C: c CREATE Shared/recipes/cakes
        S: c OK …
        C: d DELETE Shared/recipes/cakes
        S: d OK …
        "#,
    );
}

#[test]
fn an_opened_mailbox_says_what_may_be_changed() {
    let server = server("lr");
    server.login_as(BO).run(&format!(
        "C: a SELECT {SHARED}\nS~ * OK [PERMANENTFLAGS ()] …\nS~ a OK [READ-ONLY] …\n\
         C: b STORE 1 +FLAGS (\\Seen)\nS: b NO [READ-ONLY] …"
    ));
    server.grant(USER, "P", BO, "lrst");
    server.login_as(BO).run(&format!(
        "C: a SELECT {SHARED}\nS~ * OK [PERMANENTFLAGS (\\Deleted \\Seen)] …\nS~ a OK [READ-WRITE] …"
    ));
    server.grant(USER, "P", BO, "lrw");
    server.login_as(BO).run(&format!(
        "C: a SELECT {SHARED}\nS~ * OK [PERMANENTFLAGS (\\Answered \\Flagged \\Draft \\*)] …\nS~ a OK [READ-WRITE] …\n\
         C: b EXAMINE {SHARED}\nS~ b OK [READ-ONLY] …"
    ));
    // RFC 4314 §4: `r` opens it; `l` is for lists.
    server.grant(USER, "P", BO, "r");
    let mut bo = server.login_as(BO);
    bo.run(&format!("C: a SELECT {SHARED}\nS~ a OK [READ-ONLY] …\nC: b LIST \"\" O*\nS: b OK …"));
}

/// RFC 9051 §7.1: READ-WRITE, READ-ONLY and PERMANENTFLAGS of a mailbox that is selected.
#[test]
fn rights_that_change_reach_a_session_that_has_the_mailbox_open() {
    let server = server("lr");
    let (mut bo, mut idle) = (server.login_as(BO), server.login_as(BO));
    let mut examined = server.login_as(BO);
    bo.run(&format!(
        "C: a SELECT {SHARED}\nS~ a OK [READ-ONLY] …\nC: b STORE 1 +FLAGS (\\Seen)\nS: b NO [READ-ONLY] …"
    ));
    idle.run(&format!("C: a SELECT {SHARED}\nS~ a OK [READ-ONLY] …\nC: b IDLE\nS: + …"));
    examined.run(&format!("C: a EXAMINE {SHARED}\nS~ a OK [READ-ONLY] …"));
    server.grant(USER, "P", BO, "lrs");
    bo.run(
        r#"
        C: c STORE 1 +FLAGS (\Seen)
        S: * FLAGS (…)
        S: * OK [PERMANENTFLAGS (\Seen)] …
        S: * OK [READ-WRITE] …
        S: * 1 FETCH (UID 1 FLAGS (…\Seen))
        S: c OK …
        "#,
    );
    idle.run("S: * FLAGS (…)\nS: * OK [PERMANENTFLAGS (\\Seen)] …\nS: * OK [READ-WRITE] …");
    examined.run("C: b STORE 1 +FLAGS (\\Seen)\nS~ b NO [READ-ONLY] …");
    server.grant(USER, "P", BO, "lrst");
    bo.run("C: d NOOP\nS: * FLAGS (…)\nS: * OK [PERMANENTFLAGS (\\Deleted \\Seen)] …\nS: d OK …");
    server.grant(USER, "P", BO, "lr");
    bo.run(
        r#"
        C: e STORE 1 -FLAGS (\Seen)
        S: * FLAGS (…)
        S: * OK [PERMANENTFLAGS ()] …
        S: * OK [READ-ONLY] …
        S: e NO [READ-ONLY] …
        "#,
    );
}

#[test]
fn flags_without_a_right_stay_as_they_are() {
    let server = server("lrs");
    let mut bo = opened(&server);
    bo.run(
        r#"
        # RFC 4314 §4: it fails only if no flag may be changed.
        C: a STORE 1 +FLAGS (\Deleted \Answered)
        S: a NO [NOPERM] …
        C: b STORE 1 +FLAGS (\Seen \Deleted)
        S: * 1 FETCH (UID 1 FLAGS (…\Flagged \Seen))
        S: b OK …
        # What is replaced are the flags that may be changed.
        C: c STORE 1 FLAGS (\Draft \Seen)
        S: * 1 FETCH (UID 1 FLAGS (…\Flagged \Seen))
        S: c OK …
        C: d STORE 1 FLAGS ()
        S: * 1 FETCH (UID 1 FLAGS (…\Flagged))
        S: d OK …
        C: e STORE 1 -FLAGS (\Flagged)
        S: e NO [NOPERM] …
        # RFC 4314 §4: reading sets \Seen with `s` alone.
        C: f FETCH 2 BODY[TEXT]
        S: * 2 FETCH (FLAGS (…\Seen) BODY[TEXT] {3}
        S: 2
        S: )
        S: f OK …
        "#,
    );
    server.grant(USER, "P", BO, "lrw");
    bo.run(
        r#"
        C: g STORE 2 FLAGS (Work)
        S: * FLAGS (…)
        S: * OK [PERMANENTFLAGS (\Answered \Flagged \Draft \*)] …
        S: * FLAGS (… Work)
        S: * OK [PERMANENTFLAGS (\Answered \Flagged \Draft Work \*)] …
        S: * 2 FETCH (UID 2 FLAGS (…\Seen Work))
        S: g OK …
        C: h STORE 2 FLAGS (\Answered)
        S: * 2 FETCH (UID 2 FLAGS (…\Answered \Seen))
        S: h OK …
        C: i STORE 1 FLAGS.SILENT (Work)
        S: i OK …
        C: j FETCH 1 BODY[TEXT]
        S: * 1 FETCH (BODY[TEXT] {3}
        S: 1
        S: )
        S: j OK …
        C: k FETCH 1 FLAGS
        S: * 1 FETCH (FLAGS (…Work))
        S: k OK …
        "#,
    );
}

#[test]
fn conditional_stores_keep_their_condition() {
    let server = server("lrsw");
    server.login().run("C: a SELECT P\nS~ a OK …\nC: b STORE 2 +FLAGS (\\Answered)\nS~ b OK …");
    let mut bo = opened(&server);
    bo.run(
        r#"
        C: a STORE 1:2 (UNCHANGEDSINCE 2) FLAGS (\Seen \Draft)
        S: * OK [HIGHESTMODSEQ …] …
        S: * 1 FETCH (UID 1 FLAGS (…\Seen \Draft) MODSEQ (…))
        S: a OK [MODIFIED 2] …
        C: b FETCH 2 FLAGS
        S: * 2 FETCH (FLAGS (…\Answered))
        S: b OK …
        "#,
    );
}

#[test]
fn messages_go_in_and_out_with_their_rights() {
    let server = server("lr");
    let mut bo = opened(&server);
    bo.run(&format!(
        r#"
        C: a COPY 1 INBOX
        S: a OK [COPYUID …] …
        C: b COPY 1 {SHARED}
        S: b NO [NOPERM] …
        C: c APPEND {SHARED} {{2+}}
        C: x
        S: c NO [NOPERM] …
        C: d MOVE 1 INBOX
        S: d NO [READ-ONLY] …
        C: e EXPUNGE
        S: e NO [READ-ONLY] …
        "#
    ));
    server.grant(USER, "P", BO, "lri");
    let mut bo = opened(&server);
    bo.run(&format!(
        r#"
        C: a MOVE 1 INBOX
        S: a NO [NOPERM] …
        C: b EXPUNGE
        S: b NO [NOPERM] …
        C: c UID EXPUNGE 1
        S: c NO [NOPERM] …
        C: d REPLACE 1 {SHARED} {{3+}}
        C: xy
        S: d NO [NOPERM] …
        # RFC 4314 §4: flags that could not be set are not brought along.
        C: e APPEND {SHARED} (\Seen \Deleted \Flagged Work) {{3+}}
        C: xy
        S: * 3 EXISTS
        S: * … RECENT
        S: e OK [APPENDUID …] …
        C: f COPY 1 {SHARED}
        S: * 4 EXISTS
        S: * … RECENT
        S: f OK [COPYUID …] …
        C: g FETCH 3:4 FLAGS
        S: * 3 FETCH (FLAGS (\Recent))
        S: * 4 FETCH (FLAGS (\Recent))
        S: g OK …
        # Without `e` CLOSE removes nothing.
        C: h CLOSE
        S: h OK …
        "#
    ));
    server.login().run(
        "C: a SELECT P\nS~ a OK …\nC: b STORE 4 +FLAGS (\\Deleted)\nS~ b OK …\nC: c UNSELECT\nS: c OK …",
    );
    opened(&server).run("C: a CLOSE\nS: a OK …");
    opened(&server).run("C: a FETCH 4 UID\nS: * 4 FETCH (UID 4)\nS: a OK …");
    server.grant(USER, "P", BO, "lrte");
    let mut bo = opened(&server);
    bo.run(
        r#"
        C: a UID MOVE 2 INBOX
        S: * OK [COPYUID …] Moved
        S: * 2 EXPUNGE
        S: a OK …
        C: b EXPUNGE
        S: * 3 EXPUNGE
        S: b OK …
        "#,
    );
}

#[test]
fn mailboxes_are_made_moved_and_deleted_with_their_rights() {
    let server = server("lr");
    let mut bo = server.login_as(BO);
    bo.run(
        r#"
        C: a CREATE "Other Users/ana@example.org/P/New"
        S: a NO [NOPERM] …
        C: b CREATE "Other Users/ana@example.org/New"
        S: b NO [NOPERM] …
        C: c DELETE "Other Users/ana@example.org/P"
        S: c NO [NOPERM] …
        C: d RENAME "Other Users/ana@example.org/P" "Other Users/ana@example.org/Q"
        S: d NO [NOPERM] …
        C: e RENAME Sent "Other Users/ana@example.org/P/Sent"
        S: e NO …
        "#,
    );
    server.grant(USER, "P", BO, "lrkx");
    bo.run(
        r#"
        C: f CREATE "Other Users/ana@example.org/P/New/One"
        S: f OK [MAILBOXID …] …
        C: g MYRIGHTS "Other Users/ana@example.org/P/New"
        S: * MYRIGHTS "Other Users/ana@example.org/P/New" lrkxc
        S: g OK …
        C: h RENAME "Other Users/ana@example.org/P/New/One" "Other Users/ana@example.org/P/Two"
        S: h OK …
        C: i DELETE "Other Users/ana@example.org/P/New"
        S: i OK …
        # Nothing above `P` is bo's.
        C: j RENAME "Other Users/ana@example.org/P/Two" "Other Users/ana@example.org/Two"
        S: j NO [NOPERM] …
        # A mailbox stays in its account.
        C: k RENAME "Other Users/ana@example.org/P/Two" Two
        S: k NO [CANNOT] …
        C: l LIST "" "Other Users/*"
        S: * LIST (\HasChildren) "/" "Other Users/ana@example.org/P"
        S: * LIST (\HasNoChildren) "/" "Other Users/ana@example.org/P/Two"
        S: l OK …
        C: m DELETE "Other Users/ana@example.org/P/Two"
        S: m OK …
        C: n CREATE "Other Users/ana@example.org/P/Junk" (USE (\Junk))
        S: n NO [USEATTR] …
        "#,
    );
}

/// RFC 4314 §4: `x` for each mailbox that gets another name.
#[test]
fn a_rename_takes_no_mailbox_along_that_may_not_be_moved() {
    let server = server("lrkx");
    server.login().run(
        "C: a CREATE P/New/Hidden\nS: a OK …\nC: b DELETEACL P/New/Hidden bo@example.org\nS: b OK …\n\
         C: c CREATE P/New/Open\nS: c OK …",
    );
    let mut bo = server.login_as(BO);
    let stays = r#"
        C: l LIST "" "Other Users/*"
        S: * LIST (\HasChildren) "/" "Other Users/ana@example.org/P"
        S: * LIST (\HasChildren) "/" "Other Users/ana@example.org/P/New"
        S: * LIST (\HasNoChildren) "/" "Other Users/ana@example.org/P/New/Open"
        S: l OK …
    "#;
    bo.run(
        r#"
        C: a RENAME "Other Users/ana@example.org/P/New" "Other Users/ana@example.org/P/Old"
        S: a NO [NOPERM] …
        "#,
    );
    bo.run(stays);
    // It fails with all rights but this one, too.
    server.grant(USER, "P/New/Hidden", BO, "lrswiktea");
    bo.run(
        r#"
        C: b RENAME "Other Users/ana@example.org/P/New" "Other Users/ana@example.org/P/Old"
        S: b NO [NOPERM] …
        "#,
    );
    server.grant(USER, "P/New/Hidden", BO, "");
    bo.run(stays);
    // A mailbox that bo may not move is not moved by its owner's rights either: ana herself can.
    server.login().run("C: a RENAME P/New P/Old\nS: a OK …\nC: b RENAME P/Old P/New\nS: b OK …");
    server.grant(USER, "P/New/Hidden", BO, "x");
    bo.run(
        r#"
        C: c RENAME "Other Users/ana@example.org/P/New" "Other Users/ana@example.org/P/Old"
        S: c OK …
        "#,
    );
    server
        .login()
        .run("C: a STATUS P/Old/Hidden (MESSAGES)\nS: * STATUS P/Old/Hidden (MESSAGES 0)\nS: a OK …");
}

/// RFC 4314 §4: a level that RENAME makes is as one that CREATE makes.
#[test]
fn levels_that_a_rename_makes_have_the_list_of_the_mailbox_above() {
    let server = server("lrkx");
    let mut bo = server.login_as(BO);
    bo.run(
        r#"
        C: a CREATE "Other Users/ana@example.org/P/One"
        S: a OK …
        "#,
    );
    server.grant(USER, "P/One", BO, "lrx");
    bo.run(
        r#"
        C: b RENAME "Other Users/ana@example.org/P/One" "Other Users/ana@example.org/P/A/B/One"
        S: b OK …
        C: c MYRIGHTS "Other Users/ana@example.org/P/A"
        S: * MYRIGHTS "Other Users/ana@example.org/P/A" lrkxc
        S: c OK …
        C: d MYRIGHTS "Other Users/ana@example.org/P/A/B"
        S: * MYRIGHTS "Other Users/ana@example.org/P/A/B" lrkxc
        S: d OK …
        # What was moved keeps its own.
        C: e MYRIGHTS "Other Users/ana@example.org/P/A/B/One"
        S: * MYRIGHTS "Other Users/ana@example.org/P/A/B/One" lrxc
        S: e OK …
        "#,
    );
    // The new mailbox of INBOX has no list: its messages were nobody else's.
    server.login().run("C: a RENAME INBOX P/Mail/Old\nS: a OK …");
    bo.run(
        r#"
        C: f LIST "" "Other Users/ana@example.org/P/M*"
        S: * LIST (\HasNoChildren) "/" "Other Users/ana@example.org/P/Mail"
        S: f OK …
        C: g MYRIGHTS "Other Users/ana@example.org/P/Mail/Old"
        S: g NO [NONEXISTENT] …
        "#,
    );
}

#[test]
fn an_administrator_of_a_mailbox_may_share_it_further() {
    let server = server("lra");
    server.add_account("cy@example.org", NewAccount::default());
    server.login_as(BO).run(
        r#"
        C: a SETACL "Other Users/ana@example.org/P" cy@example.org lr
        S: a OK …
        C: b GETACL "Other Users/ana@example.org/P"
        S: * ACL "Other Users/ana@example.org/P" ana@example.org lrswipkxteancd bo@example.org lra cy@example.org lr
        S: b OK …
        C: c SETACL "Other Users/ana@example.org/P" ana@example.org ""
        S: c NO [CANNOT] …
        "#,
    );
    server.login_as("cy@example.org").run(
        r#"
        C: a SELECT "Other Users/ana@example.org/P"
        S~ a OK [READ-ONLY] …
        C: b GETACL "Other Users/ana@example.org/P"
        S: b NO [NOPERM] …
        "#,
    );
}

#[test]
fn messages_count_for_the_owner_of_the_mailbox() {
    let server = server("lritep");
    server.limit(AccountChange { quota_messages: Some(Some(3)), ..AccountChange::default() });
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        r#"
        C: a GETQUOTAROOT {SHARED}
        S: * QUOTAROOT {SHARED} "Other Users/ana@example.org"
        S: * QUOTA "Other Users/ana@example.org" (MESSAGE 2 3)
        S: a OK …
        C: b GETQUOTA "Other Users/ana@example.org"
        S: * QUOTA "Other Users/ana@example.org" (MESSAGE 2 3)
        S: b OK …
        C: c GETQUOTA ""
        S: c NO [NONEXISTENT] …
        C: d APPEND INBOX {{3+}}
        C: xy
        S: d OK …
        C: e APPEND INBOX {{3+}}
        C: xy
        S: e OK …
        C: f SELECT INBOX
        S~ f OK …
        C: g MOVE 1 {SHARED}
        S: * OK [COPYUID …] …
        S: * 1 EXPUNGE
        S: g OK …
        C: h MOVE 1 {SHARED}
        S: h NO [OVERQUOTA] …
        C: i COPY 1 {SHARED}
        S: i NO [OVERQUOTA] …
        C: j APPEND {SHARED} {{3+}}
        C: xy
        S: j NO [OVERQUOTA] …
        C: k REPLACE 1 {SHARED} {{3+}}
        C: xy
        S: k NO [OVERQUOTA] …
        "#
    ));
}

/// The response of a session that may no longer read its selected mailbox, for each way in which
/// it learns that.
const GONE: &str = "* BYE The selected mailbox was deleted, or may no longer be read";

#[test]
fn a_lost_right_reaches_open_sessions() {
    let server = server("lrw");
    let (mut one, mut idle) = (opened(&server), opened(&server));
    idle.run("C: i IDLE\nS: + …");
    one.run("C: a STORE 2 +FLAGS (\\Answered)\nS~ a OK …");
    idle.run("S: * 2 FETCH (…)");
    server.login().run("C: a SETACL P bo@example.org -w\nS: a OK …");
    idle.run("S~ * OK [READ-ONLY] …");
    one.run("C: b STORE 2 -FLAGS (\\Answered)\nS~ b NO [READ-ONLY] …\nC: c FETCH 2 UID\nS: * 2 FETCH (UID 2)\nS: c OK …");
    server.login().run("C: a DELETEACL P bo@example.org\nS: a OK …");
    // As if the mailbox were deleted.
    idle.run(&format!("S: {GONE}"));
    one.run(&format!("C: d FETCH 2 BODY[]\nS: {GONE}"));
    server.login_as(BO).run(&format!("C: a SELECT {SHARED}\nS: a NO [NONEXISTENT] …"));
}

/// An administrator removes the right while the server runs: nothing wakes the session.
#[test]
fn nothing_is_reported_after_another_process_took_the_right() {
    let server = server("lr");
    let (mut idle, mut notified) = (opened(&server), opened(&server));
    idle.run("C: i IDLE\nS: + …");
    notified.run("C: n NOTIFY SET (SELECTED (MessageNew (FLAGS) MessageExpunge FlagChange))\nS~ n OK …");
    server.grant(USER, "P", BO, "");
    server.put("P", b"Subject: secret\r\n\r\nsecret\r\n");
    idle.run(&format!("S: {GONE}"));
    notified.run(&format!("S: {GONE}"));
}

/// The right ends within a command, here by the command itself.
#[test]
fn a_right_that_ends_within_a_command_is_reported_as_between_commands() {
    let server = server("lra");
    let mut wire = opened(&server);
    wire.run(&format!("C: a DELETEACL {SHARED} {BO}\nS: a OK …\nS: {GONE}")).expect_end();
}

#[test]
fn changes_reach_other_sessions_also_with_qresync_and_uidonly() {
    let server = server("lrswite");
    let mut ana = server.login();
    ana.run("C: a ENABLE QRESYNC\nS~ a OK …\nC: b SELECT P\nS~ b OK …");
    let mut bo = server.login_as(BO);
    bo.run(&format!("C: a ENABLE UIDONLY\nS~ a OK …\nC: b SELECT {SHARED} (CONDSTORE)\nS~ b OK …"));
    bo.run("C: c UID STORE 2 FLAGS (\\Seen)\nS: * 2 UIDFETCH (FLAGS (\\Seen) MODSEQ (…))\nS: c OK …");
    // bo's `\Seen` flags are his own. Ana learns that something changed, and nothing else.
    ana.run("C: c NOOP\nS: * 2 FETCH (UID 2 FLAGS (…) MODSEQ (…))\nS: c OK …");
    ana.run("C: c2 SEARCH SEEN\nS: * SEARCH\nS: c2 OK …");
    bo.run("C: d UID STORE 1 +FLAGS.SILENT (\\Deleted)\nS~ d OK …\nC: e UID EXPUNGE 1\nS: * VANISHED 1\nS: e OK …");
    ana.run("C: d NOOP\nS: * VANISHED 1\nS: d OK …");
    let mut again = server.login_as(BO);
    again.run(&format!(
        "C: a ENABLE QRESYNC\nS~ a OK …\nC: b SELECT {SHARED} (QRESYNC (1 1))\nS~ b OK …\n\
         C: c UID FETCH 1:* FLAGS (CHANGEDSINCE 1 VANISHED)\nS: * VANISHED (EARLIER) 1\n\
         S: * 1 FETCH (UID 2 FLAGS (\\Seen) MODSEQ (…))\nS: c OK …"
    ));
}

#[test]
fn rev2_names_what_was_opened() {
    let server = server("lrx");
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        "C: a ENABLE IMAP4rev2\nS~ a OK …\nC: b SELECT {SHARED}\nS~ * LIST (\\HasNoChildren) \"/\" {SHARED}\nS~ b OK …"
    ));
    // A mailbox that may be deleted may be deleted while it is open.
    bo.run(&format!(
        "C: c DELETE {SHARED}\nS: * OK [CLOSED] …\nS: c OK …\nC: d SELECT {SHARED}\nS: d NO [NONEXISTENT] …"
    ));
}
