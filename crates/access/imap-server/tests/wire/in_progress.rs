//! INPROGRESS: RFC 9585.

use std::time::Duration;

use posthaste_directory::{AccountChange, NewAccount};
use posthaste_mail_model::{Flag, NumSet};
use posthaste_store::FlagChange;
use posthaste_testkit::Wire;

use crate::gate::Gate;
use crate::harness::{Server, USER, searches};

/// RFC 9585 §3: "SHOULD NOT be quiet for too long". Each command here waits for the store.
#[test]
fn commands_that_take_long_say_that_they_are_going_on() {
    let (server, gate) = Gate::server();
    server.with_messages(3);
    // It is read in pieces.
    server.put("INBOX", &[b"Subject: large\r\n\r\n".to_vec(), vec![b'x'; 140 << 10]].concat());
    for name in ["One", "Two", "Three", "Four", "Eight"] {
        server.login().run(&format!("C: a CREATE {name}\nS~ a OK …"));
        server.put(name, b"x");
    }
    let mut wire = server.select("INBOX");
    wire.send(
        b"g GENURLAUTH \"imap://ana%40example.org@localhost/INBOX/;UID=3;URLAUTH=authuser\" INTERNAL\r\n",
    );
    let answer = wire.skip_to("* GENURLAUTH …").pop().expect("a line");
    let url = answer.trim_start_matches("* GENURLAUTH ");
    wire.skip_to("g OK …");
    for command in [
        "STATUS One (RECENT)",
        "LIST \"\" Two RETURN (STATUS (RECENT))",
        // Its mailbox is opened for it.
        "ESEARCH IN (mailboxes Eight) ALL",
        "FETCH 1 BODY[]",
        // Before the first response, without a change of \Seen.
        "FETCH 2:3 BODY.PEEK[]",
        "FETCH 4 BODY.PEEK[TEXT]",
        "STORE 1 ANNOTATION (/comment (value.priv \"x\"))",
        "APPEND INBOX {1+}\r\nx",
        "REPLACE 1 INBOX {1+}\r\nx",
        &format!("URLFETCH {url}"),
        "COPY 1 One",
        "MOVE 1 One",
        "STORE 1 +FLAGS.SILENT (\\Deleted)",
        "EXPUNGE",
        "STORE 1 +FLAGS.SILENT (\\Deleted)",
        "CLOSE",
        "SELECT Three",
        "DELETE Four",
        "RENAME Two Five",
        "CREATE Six",
        "SUBSCRIBE Seven",
        "UNSUBSCRIBE Seven",
    ] {
        gate.set_open(false);
        wire.send(format!("a {command}\r\n").as_bytes());
        wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
        gate.set_open(true);
        wire.skip_to("a OK …");
    }
}

/// The same of commands that read or change the directory, or count what an account uses.
#[test]
fn commands_that_wait_for_the_directory_say_that_they_are_going_on() {
    let (server, gate) = Gate::server();
    server.put("INBOX", b"x");
    // No session opens it, so its counts are in no cache.
    server.make_mailbox("Two");
    server.add_account("bo@example.org", NewAccount::default());
    server.grant("bo@example.org", "INBOX", USER, "lria");
    server.limit(AccountChange {
        sets_quotas: Some(true),
        quota_messages: Some(Some(100)),
        ..AccountChange::default()
    });
    for command in [
        "SETACL INBOX cy@example.org lr",
        "GETACL INBOX",
        "DELETEACL INBOX cy@example.org",
        "MYRIGHTS \"Other Users/bo@example.org/INBOX\"",
        "LISTRIGHTS \"Other Users/bo@example.org/INBOX\" cy@example.org",
        "SETMETADATA INBOX (/private/comment \"x\")",
        "GETMETADATA INBOX /private/comment",
        "GETMETADATA \"\" /shared/comment",
        "LIST \"\" INBOX RETURN (METADATA (/private/comment))",
        "GETQUOTA \"\"",
        "GETQUOTAROOT INBOX",
        "SETQUOTA \"\" (MESSAGE 200)",
        "GENURLAUTH \"imap://ana%40example.org@localhost/INBOX/;UID=1;URLAUTH=authuser\" INTERNAL",
        "RESETKEY INBOX",
        "RESETKEY",
        "LIST \"\" \"Other Users/*\"",
        "RLIST \"\" \"Other Users/*\"",
        "XLIST \"\" \"Other Users/*\"",
        "STATUS \"Other Users/bo@example.org/INBOX\" (MESSAGES)",
        "SELECT \"Other Users/bo@example.org/INBOX\"",
        "APPEND \"Other Users/bo@example.org/INBOX\" {1+}\r\nx",
        "ENABLE METADATA",
        "ESEARCH IN (personal) ALL",
        "NOTIFY SET (MAILBOXES INBOX (MailboxMetadataChange ServerMetadataChange))",
        "DELETE Two",
    ] {
        let mut wire = server.login();
        gate.set_directory_open(false);
        wire.send(format!("a {command}\r\n").as_bytes());
        wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
        gate.set_directory_open(true);
        wire.skip_to("a OK …");
    }
}

/// The rights in the selected mailbox of another user are read before each command.
#[test]
fn commands_that_wait_for_rights_say_that_they_are_going_on() {
    let (server, gate) = Gate::server();
    server.add_account("bo@example.org", NewAccount::default());
    server.grant("bo@example.org", "INBOX", USER, "lrs");
    let mut wire = server.login();
    wire.run("C: s SELECT \"Other Users/bo@example.org/INBOX\"\nS~ s OK …");
    for command in ["NOOP", "SEARCH ALL", "UID FETCH 1:* (FLAGS)"] {
        gate.set_directory_open(false);
        wire.send(format!("a {command}\r\n").as_bytes());
        wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
        gate.set_directory_open(true);
        wire.skip_to("a OK …");
    }
}

/// A session in the INBOX of another user, in which it has these rights and has put a message with
/// these flags.
fn in_inbox_of_bo(server: &Server, rights: &str, flags: &str) -> Wire {
    server.add_account("bo@example.org", NewAccount::default());
    server.grant("bo@example.org", "INBOX", USER, rights);
    let mut wire = server.login();
    wire.send(format!("p APPEND \"Other Users/bo@example.org/INBOX\" {flags} {{1+}}\r\nx\r\n").as_bytes());
    wire.skip_to("p OK …");
    wire.run("C: s SELECT \"Other Users/bo@example.org/INBOX\"\nS~ s OK …");
    wire
}

/// They are read again before the changes are reported, with which a command ends.
#[test]
fn commands_that_wait_for_rights_at_their_end_say_so() {
    let (server, gate) = Gate::server();
    let mut wire = in_inbox_of_bo(&server, "lrite", r"(\Deleted)");
    gate.set_open(false);
    wire.send(b"a FETCH 1 BODY.PEEK[]\r\n");
    wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
    // The command waits for the message, and has read the rights before.
    gate.set_directory_open(false);
    gate.set_open(true);
    wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
    gate.set_directory_open(true);
    wire.skip_to("a OK …");
}

/// IDLE reads them before it reports a change.
#[test]
fn an_idle_that_waits_for_rights_says_that_it_is_going_on() {
    let (server, gate) = Gate::server();
    let mut wire = in_inbox_of_bo(&server, "lri", r"()");
    let ((store, _), (_, mailbox)) = (server.behind(), server.mailbox("bo@example.org", "INBOX"));
    let mailbox = server.wait(store.open(mailbox)).expect("the mailbox");
    wire.send(b"i IDLE\r\n");
    wire.skip_to("+ idling");
    gate.set_directory_open(false);
    let (uids, flags) = (NumSet::range(1, 1), [Flag::Flagged]);
    let change = mailbox.store_flags(&uids, FlagChange::Add, &flags, None);
    server.wait(change).expect("a flag that is set");
    wire.skip_to("* OK [INPROGRESS (\"i\" NIL NIL)] Working");
    gate.set_directory_open(true);
    wire.skip_to("* 1 FETCH (UID 1 FLAGS (…\\Flagged))");
    wire.send(b"DONE\r\n");
    wire.skip_to("i OK …");
}

/// `\Seen` of messages that changed there is read again before they are reported.
#[test]
fn commands_that_wait_for_seen_flags_say_that_they_are_going_on() {
    let (server, gate) = Gate::server();
    let mut wire = in_inbox_of_bo(&server, "lrwi", r"()");
    let ((store, _), (_, mailbox)) = (server.behind(), server.mailbox("bo@example.org", "INBOX"));
    let mailbox = server.wait(store.open(mailbox)).expect("the mailbox");
    let (uids, flags) = (NumSet::range(1, 1), [Flag::Flagged]);
    for (command, change) in [
        ("NOOP", FlagChange::Add),
        ("SEARCH ALL", FlagChange::Remove),
        ("UID FETCH 1 (UID)", FlagChange::Add),
    ] {
        server.wait(mailbox.store_flags(&uids, change, &flags, None)).expect("a changed flag");
        gate.set_seen_open(false);
        wire.send(format!("a {command}\r\n").as_bytes());
        wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
        gate.set_seen_open(true);
        wire.skip_to("* 1 FETCH (UID 1 FLAGS (…))");
        wire.skip_to("a OK …");
    }
    // The command's own change: it waits for its commit, and then for these flags.
    gate.set_open(false);
    wire.send(b"a STORE 1 -FLAGS (\\Flagged)\r\n");
    wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
    gate.set_seen_open(false);
    gate.set_open(true);
    wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
    gate.set_seen_open(true);
    wire.skip_to("* 1 FETCH (UID 1 FLAGS (…))");
    wire.skip_to("a OK …");
    wire.send(b"i IDLE\r\n");
    wire.skip_to("+ idling");
    gate.set_seen_open(false);
    server.wait(mailbox.store_flags(&uids, FlagChange::Add, &flags, None)).expect("a changed flag");
    wire.skip_to("* OK [INPROGRESS (\"i\" NIL NIL)] Working");
    gate.set_seen_open(true);
    wire.skip_to("* 1 FETCH (UID 1 FLAGS (…\\Flagged))");
    wire.send(b"DONE\r\n");
    wire.skip_to("i OK …");
    // A search through mailboxes opens each.
    let mut wire = server.login();
    gate.set_seen_open(false);
    wire.send(b"e ESEARCH IN (mailboxes \"Other Users/bo@example.org/INBOX\") ALL\r\n");
    wire.skip_to("* OK [INPROGRESS (\"e\" …");
    gate.set_seen_open(true);
    wire.skip_to("* ESEARCH (TAG \"e\" MAILBOX …) UID ALL 1");
    wire.skip_to("e OK …");
}

/// Annotations that others may have changed are read with every command.
#[test]
fn commands_that_wait_for_annotations_say_that_they_are_going_on() {
    let (server, gate) = Gate::server();
    server.put("INBOX", b"x");
    let mut of_mailboxes = server.login();
    of_mailboxes.run("C: e ENABLE METADATA\nS~ e OK …");
    let mut of_messages = server.login();
    of_messages.run("C: s SELECT INBOX (ANNOTATE)\nS~ s OK …");
    let store = "C: b STORE 1 ANNOTATION (/comment (value.shared \"x\"))\nS~ b OK …";
    server.select("INBOX").run(store);
    gate.set_directory_open(false);
    for wire in [&mut of_mailboxes, &mut of_messages] {
        wire.send(b"a NOOP\r\n");
        wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
    }
    gate.set_directory_open(true);
    of_mailboxes.skip_to("a OK …");
    of_messages.skip_to("* 1 FETCH (UID 1 ANNOTATION (/comment))");
    of_messages.skip_to("a OK …");
}

/// A search reads what its criteria name before it begins.
#[test]
fn searches_that_wait_for_filters_and_annotations_say_that_they_are_going_on() {
    let (server, gate) = Gate::server();
    server.put("INBOX", b"x");
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: f SETMETADATA "" (/private/filters/values/new "UNSEEN")
        S~ f OK …
        C: s STORE 1 ANNOTATION (/comment (value.priv "x"))
        S~ s OK …
        "#,
    );
    for command in [
        "SEARCH FILTER new",
        "SORT (SUBJECT) UTF-8 FILTER new",
        "THREAD REFERENCES UTF-8 FILTER new",
        "ESEARCH IN (selected) FILTER new",
        "SEARCH ANNOTATION /comment value.priv x",
        "SORT (ANNOTATION /comment value.priv) UTF-8 ALL",
        "THREAD REFERENCES UTF-8 ANNOTATION /comment value.priv x",
        "ESEARCH IN (selected) ANNOTATION /comment value.priv x",
        "FETCH 1 (ANNOTATION (/comment value.priv))",
    ] {
        gate.set_directory_open(false);
        wire.send(format!("a {command}\r\n").as_bytes());
        wire.skip_to("* OK [INPROGRESS (\"a\" …");
        gate.set_directory_open(true);
        wire.skip_to("a OK …");
    }
}

#[test]
fn a_fetch_that_waits_for_expunged_messages_says_that_it_is_going_on() {
    let (server, gate) = Gate::server();
    server.with_messages(3);
    let mut wire = server.login();
    wire.run("C: q ENABLE QRESYNC\nS~ q OK …\nC: s SELECT INBOX\nS~ s OK …");
    server.expunge_elsewhere("INBOX", 2);
    wire.run("C: n NOOP\nS~ n OK …");
    gate.set_open(false);
    wire.send(b"a UID FETCH 1:* (FLAGS) (CHANGEDSINCE 1 VANISHED)\r\n");
    wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
    gate.set_open(true);
    wire.skip_to("* VANISHED (EARLIER) …");
    wire.skip_to("a OK …");
}

/// A result that is kept up to date (RFC 5267 §4.3) is searched with the report of a change.
#[test]
fn a_command_that_waits_for_a_kept_result_says_that_it_is_going_on() {
    let (server, gate) = Gate::server();
    let mut wire = server.select("INBOX");
    wire.run("C: u SEARCH RETURN (UPDATE) BODY \"play no work\"\nS~ u OK …");
    server.put("INBOX", b"Subject: large\r\n\r\nAll play no work.\r\n");
    gate.set_open(false);
    wire.send(b"a NOOP\r\n");
    wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
    gate.set_open(true);
    wire.skip_to("* ESEARCH (TAG \"u\") ADDTO (0 1)");
    wire.skip_to("a OK …");
}

/// Of a quota, the counts of all mailboxes are read.
#[test]
fn a_replace_that_waits_for_its_quota_says_that_it_is_going_on() {
    let (server, gate) = Gate::server();
    server.put("INBOX", b"x");
    // No session opens it, so its counts are in no cache.
    server.make_mailbox("Two");
    server.limit(AccountChange { quota_messages: Some(Some(100)), ..AccountChange::default() });
    let mut wire = server.select("INBOX");
    gate.set_directory_open(false);
    wire.send(b"a REPLACE 1 INBOX {2+}\r\nxx\r\n");
    wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
    gate.set_directory_open(true);
    wire.skip_to("a OK …");
}

#[test]
fn a_search_that_takes_long_says_how_far_it_is() {
    let (server, gate) = Gate::server();
    // The index cannot decide: it knows each word, but not their order.
    for _ in 0..2 {
        server.put("INBOX", b"Subject: large\r\n\r\nAll work and no play.\r\n");
    }
    let mut wire = server.select("INBOX");
    wire.run("C: c CAPABILITY\nS: * CAPABILITY … INPROGRESS …\nS~ c OK …");
    gate.set_open(false);
    wire.send(b"a1 SEARCH BODY \"play no work\"\r\n");
    let report = wire.expect("* OK [INPROGRESS …");
    gate.set_open(true);
    wire.skip_to("* SEARCH");
    // On a cluster, the end of a command is reported, too.
    wire.skip_to("a1 OK …");
    // Nothing is known before the messages to read were counted.
    let known = ["NIL NIL", "0 2", "1 2"].map(|known| format!("* OK [INPROGRESS (\"a1\" {known})] Working"));
    assert!(known.contains(&report), "{report}");
    // RFC 9585 §4: such a tag would end the response code. A page may need any number of messages.
    for (command, report) in [
        ("a]2 SEARCH BODY \"play no work\"", "* OK [INPROGRESS (NIL …"),
        ("b SEARCH RETURN (PARTIAL 1:2) BODY \"play no work\"", "* OK [INPROGRESS (\"b\" … NIL)] Working"),
    ] {
        gate.set_open(false);
        wire.send(format!("{command}\r\n").as_bytes());
        wire.expect(report);
        gate.set_open(true);
        let tag = command.split(' ').next().unwrap_or_default();
        wire.skip_to(&format!("{tag} OK …"));
    }
}

/// The levels of a fuzzy search are searches of their own. A report must not divide the response
/// that has their scores.
#[test]
fn a_fuzzy_search_in_several_mailboxes_reports_before_its_response() {
    let (server, gate) = Gate::server_reporting(Duration::from_millis(1));
    server.put("INBOX", b"Subject: large\r\n\r\nAll work and no play.\r\n");
    let mut wire = server.select("INBOX");
    // The search reads the message, and each level reads it again.
    for reads in 0..4 {
        gate.close_after_reads(reads);
        wire.send(b"a ESEARCH IN (mailboxes INBOX) RETURN (ALL RELEVANCY) FUZZY BODY \"play no work\"\r\n");
        let mut lines: Vec<String> = Vec::new();
        while lines.last().is_none_or(|line| !line.starts_with("a OK ")) {
            let line = wire.line().expect("a line");
            if line.contains("INPROGRESS") {
                gate.set_open(true);
            }
            lines.push(line);
        }
        lines.retain(|line| !line.starts_with("* OK [INPROGRESS (\"a\" "));
        assert_eq!(lines.len(), 2, "{reads}: {lines:?}");
        assert!(lines[0].starts_with("* ESEARCH (TAG \"a\" MAILBOX INBOX "), "{reads}: {lines:?}");
        assert!(lines[0].ends_with(") UID ALL 1 RELEVANCY (75)"), "{reads}: {lines:?}");
    }
}

#[test]
fn a_command_that_is_quick_says_nothing() {
    let server = Server::start();
    server.with_messages(3);
    let mut wire = server.select("INBOX");
    searches(&mut wire, &[("BODY nothing", ""), ("ALL", "1 2 3")]);
    wire.run("C: b SORT (SUBJECT) UTF-8 ALL\nS: * SORT 1 2 3\nS: b OK …");
}
