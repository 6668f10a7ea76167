//! NOTIFY: RFC 5465. Nothing here waits for a time: a change is reported as soon as it is there.

use posthaste_imap_server::ImapOptions;

use crate::harness::{Server, response};

/// A session of another client.
const MESSAGE: &[u8] = b"From: a@example.org\r\nSubject: news\r\n\r\nText.\r\n";

#[test]
fn a_session_gets_reports_of_other_mailboxes_without_a_command() {
    let server = Server::start();
    server.login().run("C: a CREATE Lists/Lemonade\nS: a OK …\nC: b CREATE Lists/Im2000\nS: b OK …");
    server.put("Lists/Lemonade", MESSAGE);
    let mut wire = server.select("INBOX");
    // RFC 5465 §3.1, in the form of its grammar.
    wire.run(
        r#"
        C: b NOTIFY SET STATUS (SELECTED (MessageNew (UID BODY.PEEK[HEADER.FIELDS (FROM SUBJECT)]) MessageExpunge)) (SUBTREE Lists (MessageNew MessageExpunge))
        S: * STATUS Lists (UIDVALIDITY … UIDNEXT 1 MESSAGES 0)
        S: * STATUS Lists/Im2000 (UIDVALIDITY … UIDNEXT 1 MESSAGES 0)
        S: * STATUS Lists/Lemonade (UIDVALIDITY … UIDNEXT 2 MESSAGES 1)
        S: b OK NOTIFY completed
        "#,
    );
    server.put("Lists/Lemonade", MESSAGE);
    wire.expect("* STATUS Lists/Lemonade (UIDVALIDITY … UIDNEXT 3 MESSAGES 2)");
    // A new message of the selected mailbox comes with the requested items.
    server.put("INBOX", MESSAGE);
    wire.expect("* 1 EXISTS");
    wire.expect("* 1 RECENT");
    let fetched = String::from_utf8(response(&mut wire)).unwrap();
    assert!(fetched.starts_with("* 1 FETCH (UID 1 BODY[HEADER.FIELDS (FROM SUBJECT)] {"), "{fetched}");
    assert!(fetched.contains("Subject: news\r\n"), "{fetched}");
    // Flags were not requested, neither here nor there, nor other mailboxes.
    let mut other = server.select("INBOX");
    other.run("C: a STORE 1 +FLAGS (\\Flagged)\nS: * 1 FETCH …\nS: a OK …");
    server.put("Archive", MESSAGE);
    other.run(
        "C: b SELECT Lists/Lemonade\nS~ b OK …\nC: c STORE 1 +FLAGS (\\Seen)\nS: * 1 FETCH …\nS: c OK …",
    );
    // RFC 5465 §5.3
    other.run("C: d STORE 2 +FLAGS (\\Deleted)\nS: * 2 FETCH …\nS: d OK …\nC: e EXPUNGE\nS~ e OK …");
    wire.expect("* STATUS Lists/Lemonade (UIDVALIDITY … UIDNEXT 3 MESSAGES 1)");
    other.run("C: f SELECT INBOX\nS~ f OK …\nC: g STORE 1 +FLAGS (\\Deleted)\nS: * 1 FETCH …\nS: g OK …");
    other.run("C: h EXPUNGE\nS~ h OK …");
    wire.expect("* 1 EXPUNGE");
    wire.run("C: c NOTIFY NONE\nS: c OK …");
    server.put("Lists/Lemonade", MESSAGE);
    server.put("INBOX", MESSAGE);
    wire.run("C: d NOOP\nS: d OK …");
}

#[test]
fn flags_are_reported_by_status_and_by_fetch() {
    let server = Server::start();
    server.put("INBOX", MESSAGE);
    server.put("Archive", MESSAGE);
    let mut wire = server.login();
    wire.run("C: e ENABLE CONDSTORE\nS~ e OK …\nC: s SELECT INBOX\nS~ s OK …");
    wire.run(
        r#"
        C: a NOTIFY SET (SELECTED (MessageNew MessageExpunge FlagChange)) (PERSONAL (MessageNew MessageExpunge FlagChange))
        S: a OK …
        "#,
    );
    let mut other = server.select("INBOX");
    other.run("C: a STORE 1 +FLAGS (\\Seen)\nS: * 1 FETCH …\nS: a OK …");
    wire.expect("* 1 FETCH (UID 1 FLAGS (…\\Seen) MODSEQ (2))");
    other.run("C: b SELECT Archive\nS~ b OK …\nC: c STORE 1 +FLAGS (\\Seen)\nS: * 1 FETCH …\nS: c OK …");
    // RFC 5465 §5.1: HIGHESTMODSEQ, once CONDSTORE is enabled.
    wire.expect("* STATUS Archive (UIDVALIDITY … UNSEEN 0 HIGHESTMODSEQ 2)");
    server.put("Archive", MESSAGE);
    wire.expect("* STATUS Archive (UIDVALIDITY … UIDNEXT 3 MESSAGES 2 UNSEEN 1 HIGHESTMODSEQ 3)");
    // RFC 5465 §3.1: with FlagChange also to clients that have not enabled it.
    server.login().run(
        r#"
        C: a NOTIFY SET STATUS (MAILBOXES Archive (MessageNew MessageExpunge FlagChange))
        S: * STATUS Archive (UIDVALIDITY … UIDNEXT 3 MESSAGES 2 UNSEEN 1 HIGHESTMODSEQ 3)
        S: a OK …
        C: b NOTIFY SET STATUS (MAILBOXES Archive (MessageNew MessageExpunge))
        S: * STATUS Archive (UIDVALIDITY … UIDNEXT 3 MESSAGES 2)
        S: b OK …
        "#,
    );
}

#[test]
fn expunge_waits_for_a_command_with_selected_delayed() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.select("INBOX");
    wire.run("C: a NOTIFY SET (SELECTED-DELAYED (MessageNew MessageExpunge FlagChange))\nS: a OK …");
    let mut other = server.select("INBOX");
    other.run("C: a STORE 1 +FLAGS.SILENT (\\Deleted)\nS: a OK …");
    wire.expect("* 1 FETCH (UID 1 FLAGS (…\\Deleted))");
    other.run("C: b EXPUNGE\nS: * 1 EXPUNGE\nS: b OK …\nC: c STORE 1 +FLAGS.SILENT (\\Seen)\nS: c OK …");
    // The other message keeps its number.
    wire.expect("* 2 FETCH (UID 2 FLAGS (…\\Seen))");
    wire.run("C: b NOOP\nS: * 1 EXPUNGE\nS: b OK …");
    // IDLE is a command that allows it (RFC 5465 §4).
    wire.run("C: c IDLE\nS: + …");
    other.run("C: d STORE 1 +FLAGS.SILENT (\\Deleted)\nS: d OK …");
    wire.expect("* 1 FETCH (UID 2 …");
    other.run("C: e EXPUNGE\nS: * 1 EXPUNGE\nS: e OK …");
    wire.run("S: * 1 EXPUNGE\nC: DONE\nS: c OK …");
}

#[test]
fn without_selected_nothing_is_reported_of_that_mailbox_also_while_it_idles() {
    let server = Server::start();
    let mut wire = server.select("INBOX");
    wire.run("C: a NOTIFY SET (MAILBOXES (INBOX Archive) (MessageNew MessageExpunge))\nS: a OK …");
    server.put("INBOX", MESSAGE);
    wire.run("C: b NOOP\nS: b OK …\nC: c IDLE\nS: + …");
    server.put("INBOX", MESSAGE);
    server.put("Archive", MESSAGE);
    wire.run("S: * STATUS Archive (UIDVALIDITY … UIDNEXT 2 MESSAGES 1)\nC: DONE\nS: c OK …");
    // Changes of the mailbox that were not reported yet are reported once the client has left it.
    wire.run("C: d UNSELECT\nS: d OK …\nS: * STATUS INBOX (UIDVALIDITY … UIDNEXT 3 MESSAGES 2)");
    server.put("INBOX", MESSAGE);
    wire.expect("* STATUS INBOX (UIDVALIDITY … UIDNEXT 4 MESSAGES 3)");
}

#[test]
fn a_sessions_own_changes_are_not_reported_to_it() {
    let server = Server::start();
    server.put("INBOX", MESSAGE);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a NOTIFY SET (SELECTED (MessageNew (UID) MessageExpunge)) (PERSONAL (MessageNew MessageExpunge MailboxName SubscriptionChange))
        S: a OK …
        C: b COPY 1 Archive
        S: b OK [COPYUID …] …
        C: c COPY 1 INBOX
        S: * 2 EXISTS
        S: * 2 RECENT
        S: c OK [COPYUID …] …
        C: d CREATE New
        S: d OK …
        C: e SUBSCRIBE New
        S: e OK …
        C: f RENAME New Newer
        S: f OK …
        C: g DELETE Newer
        S: g OK …
        C: h MOVE 2 Archive
        S: * OK [COPYUID …] Moved
        S: * 2 EXPUNGE
        S: h OK …
        "#,
    );
    // Changes by others are reported.
    server.put("INBOX", MESSAGE);
    wire.run("S: * 2 EXISTS\nS: * … RECENT\nS: * 2 FETCH (UID 3)");
    server.put("Archive", MESSAGE);
    wire.expect("* STATUS Archive (UIDVALIDITY … UIDNEXT 4 MESSAGES 3)");
    // CLOSE removes messages: the client knows.
    wire.run(
        "C: i STORE 1 +FLAGS.SILENT (\\Deleted)\nS: i OK …\nC: j CLOSE\nS: j OK …\nC: k NOOP\nS: k OK …",
    );
}

#[test]
fn names_come_go_and_change() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a NOTIFY SET (PERSONAL (MailboxName SubscriptionChange))\nS: a OK …");
    let mut other = server.login();
    // RFC 5465 §5.4
    other.run("C: a CREATE Projects\nS: a OK …");
    wire.expect(r#"* LIST (\HasNoChildren) "/" Projects"#);
    other.run("C: b CREATE Projects/One\nS: b OK …");
    wire.expect(r#"* LIST (\HasNoChildren) "/" Projects/One"#);
    wire.expect(r#"* LIST (\HasChildren) "/" Projects"#);
    other.run("C: c RENAME Projects/One Projects/Two\nS: c OK …");
    wire.expect(r#"* LIST (\HasNoChildren) "/" Projects/Two ("OLDNAME" (Projects/One))"#);
    other.run("C: d DELETE Projects/Two\nS: d OK …");
    wire.expect(r#"* LIST (\NonExistent) "/" Projects/Two"#);
    wire.expect(r#"* LIST (\HasNoChildren) "/" Projects"#);
    // RFC 5465 §5.5
    other.run("C: e SUBSCRIBE Projects\nS: e OK …");
    wire.expect(r#"* LIST (\HasNoChildren \Subscribed) "/" Projects"#);
    other.run("C: f UNSUBSCRIBE Projects\nS: f OK …");
    wire.expect(r#"* LIST (\HasNoChildren) "/" Projects"#);
    other.run("C: g SUBSCRIBE Nothing\nS: g OK …");
    wire.expect(r#"* LIST (\NonExistent \Subscribed) "/" Nothing"#);
}

/// RFC 5465 §5.4: mailboxes below a renamed one have no LIST.
#[test]
fn a_renamed_mailbox_has_one_line_with_all_below_it() {
    let server = Server::start();
    let mut other = server.login();
    other.run("C: a CREATE a/b/c\nS: a OK …");
    let mut wire = server.login();
    wire.run("C: a NOTIFY SET (PERSONAL (MailboxName))\nS: a OK …");
    other.run("C: b RENAME a z\nS: b OK …");
    wire.expect(r#"* LIST (\HasChildren) "/" z ("OLDNAME" (a))"#);
    other.run("C: c RENAME z/b y\nS: c OK …");
    wire.expect(r#"* LIST (\HasChildren) "/" y ("OLDNAME" (z/b))"#);
    wire.expect(r#"* LIST (\HasNoChildren) "/" z"#);
    wire.run("C: b NOOP\nS: b OK …");
}

#[test]
fn names_are_reported_as_the_session_writes_them() {
    let server = Server::start();
    let (mut one, mut two) = (server.login(), server.login());
    two.run("C: e ENABLE IMAP4rev2\nS~ e OK …");
    for wire in [&mut one, &mut two] {
        wire.run("C: a NOTIFY SET (PERSONAL (MailboxName MessageNew MessageExpunge))\nS: a OK …");
    }
    let mut other = server.login();
    other.run("C: a CREATE Entw&APw-rfe\nS: a OK …");
    one.expect(r#"* LIST (\HasNoChildren) "/" Entw&APw-rfe"#);
    two.expect("* LIST (\\HasNoChildren) \"/\" \"Entw\u{fc}rfe\"");
    server.put("Entw&APw-rfe", MESSAGE);
    one.expect("* STATUS Entw&APw-rfe (…)");
    two.expect("* STATUS \"Entw\u{fc}rfe\" (…)");
}

#[test]
fn groups_name_mailboxes_and_none_leaves_some_out() {
    let server = Server::start();
    let mut other = server.login();
    other.run("C: a CREATE a/b/c\nS: a OK …\nC: b CREATE d\nS: b OK …\nC: c SUBSCRIBE d\nS: c OK …");
    let mut wire = server.login();
    wire.run(
        r#"
        C: a NOTIFY SET STATUS (MAILBOXES a/b NONE) (SUBTREE (a nowhere) (MessageNew MessageExpunge)) (SUBSCRIBED (MessageNew MessageExpunge))
        S~ * STATUS a (…)
        S: * STATUS a/b/c (…)
        S: * STATUS d (…)
        S: a OK …
        "#,
    );
    for mailbox in ["a/b", "d"] {
        server.put(mailbox, MESSAGE);
    }
    wire.expect("* STATUS d (…)");
    // RFC 5465 §6.4: subscriptions count as they are now.
    other.run("C: d UNSUBSCRIBE d\nS: d OK …");
    server.put("d", MESSAGE);
    server.put("a/b/c", MESSAGE);
    wire.expect("* STATUS a/b/c (…)");
    // INBOXES are all mailboxes in which mail may be filed (§6.2).
    wire.run("C: b NOTIFY SET (INBOXES (MessageNew MessageExpunge))\nS: b OK …");
    server.put("d", MESSAGE);
    wire.expect("* STATUS d (UIDVALIDITY … UIDNEXT 4 MESSAGES 3)");
}

/// RFC 5465 §6: "multiple <event-group>s can apply to the same mailbox".
#[test]
fn events_of_all_groups_that_name_a_mailbox_are_reported() {
    let server = Server::start();
    let mut other = server.login();
    other.run("C: a CREATE a\nS: a OK …\nC: b SUBSCRIBE a\nS: b OK …");
    let mut wire = server.login();
    wire.run(
        r#"
        C: a NOTIFY SET (MAILBOXES (INBOX a) (MessageNew MessageExpunge)) (SUBSCRIBED (SubscriptionChange MailboxMetadataChange)) (PERSONAL (MailboxName)) (SUBTREE a (MessageNew MessageExpunge FlagChange))
        S: a OK …
        "#,
    );
    server.put("a", MESSAGE);
    wire.expect("* STATUS a (UIDVALIDITY … UIDNEXT 2 MESSAGES 1 UNSEEN 1 HIGHESTMODSEQ 1)");
    server.put("INBOX", MESSAGE);
    wire.expect("* STATUS INBOX (UIDVALIDITY … UIDNEXT 2 MESSAGES 1)");
    other.run("C: c SETMETADATA a (/private/comment \"mine\")\nS: c OK …");
    wire.expect("* METADATA a /private/comment");
    // Two groups name the mailbox. One of them names it only until the change.
    other.run("C: d UNSUBSCRIBE a\nS: d OK …");
    wire.expect(r#"* LIST (\HasNoChildren) "/" a"#);
    other.run("C: e DELETE a\nS: e OK …");
    wire.expect(r#"* LIST (\NonExistent) "/" a"#);
    // NONE ends the list of a mailbox's groups.
    wire.run("C: b NOTIFY SET (MAILBOXES INBOX NONE) (PERSONAL (MessageNew MessageExpunge))\nS: b OK …");
    server.put("INBOX", MESSAGE);
    server.put("Archive", MESSAGE);
    wire.expect("* STATUS Archive (UIDVALIDITY … UIDNEXT 2 MESSAGES 1)");
}

#[test]
fn senseless_commands_are_refused_and_change_nothing() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a NOTIFY SET (PERSONAL (MessageNew MessageExpunge))\nS: a OK …");
    for (command, answer) in [
        // RFC 5465 §5
        ("SET (PERSONAL (MessageNew))", "BAD …"),
        ("SET (PERSONAL (MessageExpunge))", "BAD …"),
        ("SET (PERSONAL (FlagChange))", "BAD …"),
        ("SET (PERSONAL (FlagChange MessageNew))", "BAD …"),
        ("SET (PERSONAL (MessageNew (UID) MessageExpunge))", "BAD …"),
        // RFC 5465 §6.1
        // RFC 5465 §6.1: one of them, once.
        ("SET (SELECTED NONE) (SELECTED-DELAYED NONE)", "BAD …"),
        ("SET (SELECTED NONE) (SELECTED NONE)", "BAD …"),
        ("SET (SELECTED-DELAYED NONE) (PERSONAL NONE) (SELECTED-DELAYED NONE)", "BAD …"),
        ("SET (SELECTED (MailboxName))", "BAD …"),
        ("SET (SELECTED (ServerMetadataChange))", "BAD …"),
        ("SET (PERSONAL (AnnotationChange))", "BAD …"),
        (
            "SET (PERSONAL (Weather))",
            "NO [BADEVENT (MessageNew MessageExpunge FlagChange AnnotationChange MailboxName \
             SubscriptionChange MailboxMetadataChange ServerMetadataChange)] Weather is not supported",
        ),
        ("SET", "BAD …"),
        ("SET STATUS", "BAD …"),
        ("SET (PERSONAL)", "BAD …"),
        ("SET (PERSONAL ())", "BAD …"),
        ("SET (MAILBOXES NONE)", "BAD …"),
        ("SET (MAILBOXES () NONE)", "BAD …"),
        ("SET (EVERYTHING NONE)", "BAD …"),
        ("SOME", "BAD …"),
    ] {
        // An OK in between resets the count of bad commands.
        wire.run(&format!("C: x NOTIFY {command}\nS: x {answer}\nC: y NAMESPACE\nS~ y OK …"));
    }
    server.put("Archive", MESSAGE);
    wire.expect("* STATUS Archive (…)");
    server.connect().run("C: a NOTIFY NONE\nS: a BAD …");
}

#[test]
fn too_many_mailboxes_at_once_end_the_notifications() {
    let server = Server::start_with(ImapOptions { notify_mailboxes_max: 2, ..ImapOptions::default() });
    let mut other = server.login();
    other.run("C: a CREATE a\nS: a OK …\nC: b CREATE b\nS: b OK …\nC: c CREATE c\nS: c OK …");
    let mut wire = server.login();
    wire.run(
        "C: a NOTIFY SET (PERSONAL (MessageNew MessageExpunge))\nS: a OK …\nC: b APPEND INBOX {1}\nS: + …",
    );
    // While a command is on its way, nothing is reported.
    for mailbox in ["a", "b", "c"] {
        server.put(mailbox, MESSAGE);
    }
    wire.send(b"x\r\n");
    // RFC 5465 §5.8
    wire.run("S: * OK [NOTIFICATIONOVERFLOW] …\nS: b OK [APPENDUID …] …");
    server.put("a", MESSAGE);
    wire.run("C: c NOOP\nS: c OK …\nC: d NOTIFY SET (PERSONAL (MessageNew MessageExpunge))\nS: d OK …");
    // One mailbox counts once, however often it changed.
    wire.run("C: e APPEND INBOX {1}\nS: + …");
    for _ in 0..3 {
        server.put("a", MESSAGE);
        server.put("b", MESSAGE);
    }
    wire.send(b"x\r\n");
    wire.run("S: * STATUS a (…)\nS: * STATUS b (…)\nS: e OK …");
}

#[test]
fn vanished_and_uidfetch() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.login();
    wire.run("C: e ENABLE QRESYNC UIDONLY\nS~ e OK …\nC: s SELECT INBOX\nS~ s OK …");
    wire.run(
        "C: a NOTIFY SET (SELECTED (MessageNew (FLAGS RFC822.SIZE) MessageExpunge FlagChange))\nS: a OK …",
    );
    server.put("INBOX (\\Flagged)", MESSAGE);
    wire.run("S: * 3 EXISTS\nS: * … RECENT\nS: * 3 UIDFETCH (FLAGS (…\\Flagged) RFC822.SIZE 45)");
    let mut other = server.select("INBOX");
    other.run("C: a STORE 1 +FLAGS.SILENT (\\Deleted)\nS: a OK …");
    wire.expect("* 1 UIDFETCH (FLAGS (…\\Deleted) MODSEQ (4))");
    other.run("C: b EXPUNGE\nS: * 1 EXPUNGE\nS: b OK …");
    wire.expect("* VANISHED 1");
}

#[test]
fn results_that_are_kept_up_to_date_follow_their_cause() {
    let server = Server::start();
    server.with_messages(1);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a NOTIFY SET (SELECTED (MessageNew (UID FLAGS) MessageExpunge FlagChange))
        S: a OK …
        C: b UID SEARCH RETURN (ALL UPDATE) UNSEEN
        S: * ESEARCH (TAG "b") UID ALL 1
        S: b OK …
        "#,
    );
    server.put("INBOX", MESSAGE);
    // RFC 5465 §5.2: EXISTS precedes ESEARCH.
    wire.run("S: * 2 EXISTS\nS: * … RECENT\nS: * ESEARCH (TAG \"b\") UID ADDTO (0 2)\nS: * 2 FETCH (UID 2 FLAGS (…))");
    let mut other = server.select("INBOX");
    other.run("C: a STORE 1 +FLAGS.SILENT (\\Seen)\nS: a OK …");
    // §5.1: FETCH precedes ESEARCH.
    wire.run("S: * 1 FETCH (UID 1 FLAGS (…\\Seen))\nS: * ESEARCH (TAG \"b\") UID REMOVEFROM (0 1)");
    other.run("C: b STORE 2 +FLAGS.SILENT (\\Deleted)\nS: b OK …");
    wire.expect("* 2 FETCH (UID 2 FLAGS (…\\Deleted))");
    other.run("C: c EXPUNGE\nS: * 2 EXPUNGE\nS: c OK …");
    // §5.3
    wire.run("S: * ESEARCH (TAG \"b\") UID REMOVEFROM (0 2)\nS: * 2 EXPUNGE");
}

#[test]
fn annotations_of_mailboxes_and_of_the_server() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a NOTIFY SET (MAILBOXES INBOX (MailboxMetadataChange ServerMetadataChange))\nS: a OK …");
    let mut other = server.login();
    // RFC 5465 §5.6, §5.7
    other.run("C: a SETMETADATA INBOX (/private/comment \"mine\")\nS: a OK …");
    wire.expect("* METADATA INBOX /private/comment");
    other.run("C: b SETMETADATA Archive (/private/comment \"mine\")\nS: b OK …");
    other.run("C: c SETMETADATA \"\" (/private/comment \"mine\")\nS: c OK …");
    wire.expect("* METADATA \"\" /private/comment");
    // The session's own changes are not reported.
    wire.run("C: b SETMETADATA INBOX (/private/comment \"ours\")\nS: b OK …\nC: c NOOP\nS: c OK …");
    // After ENABLE METADATA all are reported, and each once.
    wire.run("C: d ENABLE METADATA\nS~ d OK …");
    other.run("C: d SETMETADATA INBOX (/private/comment NIL)\nS: d OK …");
    wire.run("S: * METADATA INBOX /private/comment\nC: e NOOP\nS: e OK …");
}

#[test]
fn a_mailbox_that_is_deleted_and_a_session_that_ends() {
    let mut server = Server::start();
    server.login().run("C: a CREATE Gone\nS: a OK …");
    let mut wire = server.select("Gone");
    wire.run("C: a NOTIFY SET (SELECTED (MessageNew MessageExpunge)) (PERSONAL (MailboxName))\nS: a OK …");
    let mut watcher = server.login();
    watcher.run("C: a NOTIFY SET (PERSONAL (MailboxName MessageNew MessageExpunge))\nS: a OK …");
    server.login().run("C: a DELETE Gone\nS: a OK …");
    watcher.expect(r#"* LIST (\NonExistent) "/" Gone"#);
    wire.run("S~ * BYE The selected mailbox was deleted");
    server.shut_down();
    watcher.expect("* BYE The server is shutting down");
}

#[test]
fn a_new_login_begins_without_notifications() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run(
        "C: a NOTIFY SET (PERSONAL (MessageNew MessageExpunge))\nS: a OK …\nC: b UNAUTHENTICATE\nS: b OK …",
    );
    wire.run("C: l LOGIN ana@example.org \"sesame street\"\nS: l OK …");
    server.put("Archive", MESSAGE);
    wire.run("C: c NOOP\nS: c OK …");
}

#[test]
fn the_capability_is_announced() {
    Server::start().login().run("C: a CAPABILITY\nS: * CAPABILITY … NOTIFY …\nS: a OK …");
}

/// RFC 9051 §2.2.2: each command has a tagged response. This one arrives while the report of
/// changes searches for a context.
#[test]
fn a_command_that_arrives_during_a_report_is_answered() {
    let server = Server::start();
    for n in 0..15 {
        server.put("INBOX", format!("Subject: s{n}\r\n\r\nw{n}\r\n").as_bytes());
    }
    let (mut first, mut second) = (server.select("INBOX"), server.select("INBOX"));
    first.run(
        "C: n NOTIFY SET (SELECTED (MessageNew (UID) MessageExpunge FlagChange))\nS~ n OK …\n\
         C: c UID SORT RETURN (UPDATE ALL) (SUBJECT) UTF-8 ALL\nS~ c OK …\n\
         C: d UID SEARCH RETURN (UPDATE ALL) BODY w\nS~ d OK …",
    );
    for _ in 0..40 {
        second.send(b"a APPEND INBOX {19+}\r\nSubject: s4\r\n\r\nw0\r\n\r\nb STORE 1:3 FLAGS ()\r\n");
        first.send(b"q UID SEARCH ALL\r\n");
        let answer = first.skip_to("q …");
        assert!(answer.last().is_some_and(|end| end.starts_with("q OK")), "{answer:?}");
        second.skip_to("b …");
    }
}

/// RFC 5465 §5.1: a FETCH for the selected mailbox, a STATUS for others.
#[test]
fn annotations_that_others_changed_are_reported() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.login();
    wire.run(
        r#"
        C: a NOTIFY SET (SELECTED (MessageNew MessageExpunge AnnotationChange)) (PERSONAL (MessageNew MessageExpunge AnnotationChange))
        S: a OK …
        C: b ENABLE CONDSTORE
        S~ b OK …
        C: c SELECT INBOX
        S~ c OK …
        "#,
    );
    let mut other = server.select("INBOX");
    other.run("C: a STORE 2 ANNOTATION (/comment (value.priv \"x\"))\nS: a OK …");
    wire.run("S: * 2 FETCH (UID 2 ANNOTATION (/comment) MODSEQ (…))");
    // The client did not request flags, and its own change is no news: it gets MODSEQ. If its
    // command comes before the server has looked at the other change, FLAGS are there as well.
    other.run("C: b STORE 1 +FLAGS.SILENT (\\Seen)\nS: b OK …");
    wire.run(
        r#"
        C: d STORE 1 ANNOTATION (/altsubject (value.shared "y"))
        S: * 1 FETCH (UID 1 …MODSEQ (…))
        S: d OK …
        C: e SELECT Archive
        S~ e OK …
        "#,
    );
    other.run("C: c STORE 1 ANNOTATION (/comment (value.priv \"z\"))\nS~ c OK …");
    wire.run("S: * STATUS INBOX (UIDVALIDITY … UNSEEN 1 HIGHESTMODSEQ …)");
    // From now on nothing.
    wire.run("C: f NOTIFY NONE\nS: f OK …\nC: g SELECT INBOX\nS~ g OK …");
    other.run("C: d STORE 1 ANNOTATION (/comment (value.priv NIL))\nS~ d OK …");
    wire.run("C: h NOOP\nS: h OK …");
}

/// The mailbox was selected before.
#[test]
fn annotations_are_reported_from_notify_on() {
    let server = Server::start();
    server.with_messages(1);
    let mut wire = server.select("INBOX");
    let mut other = server.select("INBOX");
    other.run("C: a STORE 1 ANNOTATION (/comment (value.priv \"x\"))\nS: a OK …");
    wire.run(
        r#"
        C: a NOTIFY SET (SELECTED-DELAYED (MessageNew MessageExpunge FlagChange AnnotationChange))
        S: * 1 FETCH (UID 1 FLAGS (…))
        S: a OK …
        "#,
    );
    other.run("C: b STORE 1 ANNOTATION (/altsubject (value.priv \"y\"))\nS: b OK …");
    wire.run("S: * 1 FETCH (UID 1 FLAGS (…))\nS: * 1 FETCH (UID 1 ANNOTATION (/altsubject))");
    // Without the event, nothing but FlagChange is left.
    wire.run("C: b NOTIFY SET (SELECTED (MessageNew MessageExpunge FlagChange))\nS: b OK …");
    other.run("C: c STORE 1 ANNOTATION (/comment (value.priv NIL))\nS: c OK …");
    wire.run("S: * 1 FETCH (UID 1 FLAGS (…))\nC: c NOOP\nS: c OK …");
}

#[test]
fn without_annotations_there_is_no_such_event() {
    let server = Server::start_with(ImapOptions { annotations: false, ..ImapOptions::default() });
    server.login().run(
        r#"
        C: a NOTIFY SET (PERSONAL (MessageNew MessageExpunge AnnotationChange))
        S: a NO [BADEVENT (MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange MailboxMetadataChange ServerMetadataChange)] AnnotationChange is not supported
        "#,
    );
}
