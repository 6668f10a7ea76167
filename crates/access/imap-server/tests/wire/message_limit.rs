//! MESSAGELIMIT and SAVELIMIT: RFC 9738. The limit is three messages here; a server is configured
//! with 1000 at least (§3).

use posthaste_directory::AccountChange;
use posthaste_imap_server::ImapOptions;

use crate::harness::Server;

fn limited(messages: usize) -> Server {
    let server = Server::start_with(ImapOptions { message_limit: 3, ..ImapOptions::default() });
    server.with_messages(messages);
    server
}

#[test]
fn the_capability_names_one_limit() {
    Server::start().login().run("C: a CAPABILITY\nS: * CAPABILITY …\nS: a OK …");
    let server = limited(0);
    server.login().run("C: a CAPABILITY\nS: * CAPABILITY … MESSAGELIMIT=3 …\nS: a OK …");
    // An account has a limit of its own, or none.
    server.limit(AccountChange { command_limit: Some(Some(7)), ..AccountChange::default() });
    server.login().run("C: a CAPABILITY\nS: * CAPABILITY … MESSAGELIMIT=7 …\nS: a OK …");
    server.limit(AccountChange { command_limit: Some(Some(0)), ..AccountChange::default() });
    let mut wire = server.login();
    wire.send(b"a CAPABILITY\r\n");
    let lines = wire.skip_to("a OK …");
    assert!(!lines.concat().contains("LIMIT=3"), "{lines:?}");
    server.limit(AccountChange { save_limit: Some(Some(2)), ..AccountChange::default() });
    server.login().run("C: a CAPABILITY\nS: * CAPABILITY … SAVELIMIT=2 …\nS: a OK …");
    // RFC 9738 §3: never both.
    let both =
        AccountChange { command_limit: Some(None), save_limit: Some(Some(2)), ..AccountChange::default() };
    server.limit(both);
    let mut wire = server.login();
    wire.send(b"a CAPABILITY\r\n");
    let lines = wire.skip_to("a OK …").concat();
    assert!(lines.contains("MESSAGELIMIT=3") && !lines.contains("SAVELIMIT"), "{lines}");
}

#[test]
fn the_newest_messages_are_processed_and_the_answer_says_where_it_stopped() {
    let server = limited(6);
    server.select("INBOX").run(
        r#"
        C: a FETCH 1:* (UID)
        S: * 4 FETCH (UID 4)
        S: * 5 FETCH (UID 5)
        S: * 6 FETCH (UID 6)
        S: a OK [MESSAGELIMIT 3 4] …
        # The client goes on below.
        C: b UID FETCH 1:3 (FLAGS)
        S: * 1 FETCH (UID 1 FLAGS (…))
        S: * 2 FETCH (UID 2 FLAGS (…))
        S: * 3 FETCH (UID 3 FLAGS (…))
        S: b OK UID FETCH completed
        C: c UID STORE 1:* +FLAGS.SILENT (\Seen)
        S: c OK [MESSAGELIMIT 3 4] …
        C: d SEARCH SEEN
        S: * SEARCH 4 5 6
        S: d OK [MESSAGELIMIT 3 4] …
        # What counts are the messages that are searched, not those that match.
        C: e UID SEARCH UIDAFTER 3 SEEN
        S: * SEARCH 4 5 6
        S: e OK … completed
        C: f UID SEARCH UIDBEFORE 4 UNSEEN
        S: * SEARCH 1 2 3
        S: f OK … completed
        C: g UID SEARCH UIDAFTER 1 UNSEEN
        S: * SEARCH
        S: g OK [MESSAGELIMIT 3 4] …
        C: h SEARCH UIDAFTER 4294967295
        S: * SEARCH
        S: h OK … completed
        C: i SEARCH UIDBEFORE 1
        S: * SEARCH
        S: i OK … completed
        C: j SEARCH UIDAFTER 1:2
        S: j BAD …
        C: k SEARCH UIDBEFORE 0
        S: k BAD …
        "#,
    );
}

#[test]
fn a_saved_result_is_what_was_found_within_the_limit() {
    let server = limited(6);
    server.select("INBOX").run(
        r#"
        C: a SEARCH RETURN (SAVE) ALL
        S: a OK [MESSAGELIMIT 3 4] …
        C: b FETCH $ (UID)
        S: * 4 FETCH (UID 4)
        S: * 5 FETCH (UID 5)
        S: * 6 FETCH (UID 6)
        S: b OK …
        # RFC 9394: a page of what is searched.
        C: c UID SEARCH RETURN (PARTIAL -1:-2) ALL
        S: * ESEARCH (TAG "c") UID PARTIAL (-1:-2 5:6)
        S: c OK [MESSAGELIMIT 3 4] …
        C: d UID FETCH 1:* (FLAGS) (PARTIAL 1:3)
        S: * 1 FETCH …
        S: * 2 FETCH …
        S: * 3 FETCH …
        S: d OK …
        C: e UID FETCH 1:* (FLAGS) (PARTIAL 1:4)
        S: e NO [MESSAGELIMIT 3] …
        "#,
    );
}

#[test]
fn a_result_within_the_limit_is_kept_up_to_date() {
    let server = limited(4);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a UID SEARCH RETURN (ALL UPDATE) UNSEEN
        S: * ESEARCH (TAG "a") UID ALL 2:4
        S: a OK [MESSAGELIMIT 3 2] …
        "#,
    );
    server.with_messages(1);
    wire.run(
        r#"
        C: b NOOP
        S: * 5 EXISTS
        S: * … RECENT
        S: * ESEARCH (TAG "a") UID ADDTO (0 5)
        S: b OK …
        "#,
    );
}

#[test]
fn a_move_stops_and_a_copy_is_refused() {
    let server = limited(6);
    server.select("INBOX").run(
        r#"
        C: a COPY 1:* Archive
        S: a NO [MESSAGELIMIT 3 4] …
        C: b COPY 4:6 Archive
        S: b OK [COPYUID …] …
        C: c MOVE 1:* Archive
        S: * OK [COPYUID … 4:6 4:6] Moved
        S: * 6 EXPUNGE
        S: * 5 EXPUNGE
        S: * 4 EXPUNGE
        S: c OK [MESSAGELIMIT 3 4] …
        C: d UID SEARCH ALL
        S: * SEARCH 1 2 3
        S: d OK …
        "#,
    );
}

#[test]
fn uid_expunge_counts_what_it_removes_and_expunge_is_not_limited() {
    let server = limited(9);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a UID STORE 6:9 +FLAGS.SILENT (\Deleted)
        S: a OK [MESSAGELIMIT 3 7] …
        C: b UID STORE 2:4 +FLAGS.SILENT (\Deleted)
        S: b OK …
        C: c UID EXPUNGE 1:7
        S: * 7 EXPUNGE
        S: * 4 EXPUNGE
        S: * 3 EXPUNGE
        S: c OK [MESSAGELIMIT 3 3] …
        # 2, 8 and 9 are left.
        C: d STORE 1 +FLAGS.SILENT (\Deleted)
        S: d OK …
        C: e EXPUNGE
        S: * 6 EXPUNGE
        S: * 5 EXPUNGE
        S: * 2 EXPUNGE
        S: * 1 EXPUNGE
        S: e OK EXPUNGE completed
        "#,
    );
}

#[test]
fn another_code_comes_with_the_answer() {
    let server = limited(5);
    let mut wire = server.login();
    wire.run("C: e ENABLE QRESYNC UIDONLY\nS~ e OK …\nC: s SELECT INBOX\nS~ s OK …");
    wire.run(
        r#"
        C: a UID STORE 2:5 +FLAGS.SILENT (\Deleted)
        S: * 3 UIDFETCH (MODSEQ (…))
        S: * 4 UIDFETCH (MODSEQ (…))
        S: * 5 UIDFETCH (MODSEQ (…))
        S: a OK [MESSAGELIMIT 3 3] …
        C: b UID STORE 2 +FLAGS.SILENT (\Deleted)
        S: * 2 UIDFETCH (MODSEQ (…))
        S: b OK …
        # RFC 9738 §3.1: an untagged NO has it, where the tagged response has another code.
        C: c UID EXPUNGE 1:*
        S: * VANISHED 3:5
        S: * NO [MESSAGELIMIT 3 3] …
        S: c OK [HIGHESTMODSEQ …] …
        C: d UID FETCH 1:* (FLAGS)
        S: * 1 UIDFETCH (FLAGS (…))
        S: * 2 UIDFETCH (FLAGS (…\Deleted))
        S: d OK …
        "#,
    );
}

#[test]
fn orders_threads_and_appends_are_whole_or_refused() {
    let server = limited(4);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a SORT (SUBJECT) UTF-8 ALL
        S: a NO [MESSAGELIMIT 3] …
        C: b SORT (SUBJECT) UTF-8 UIDAFTER 1
        S: * SORT 2 3 4
        S: b OK …
        C: c THREAD REFERENCES UTF-8 ALL
        S: c NO [MESSAGELIMIT 3] …
        C: d THREAD ORDEREDSUBJECT UTF-8 2:4
        S: * THREAD …
        S: d OK …
        "#,
    );
    let message = "{3+}\r\na\r\n ";
    wire.send(format!("e APPEND INBOX {}{{3+}}\r\na\r\n\r\n", message.repeat(3)).as_bytes());
    wire.expect("e NO [MESSAGELIMIT 3] …");
    wire.send(format!("f APPEND INBOX {}{{3+}}\r\na\r\n\r\n", message.repeat(2)).as_bytes());
    wire.skip_to("f OK [APPENDUID … 5:7] …");
}

#[test]
fn savelimit_limits_copy_and_append_alone() {
    let server = Server::start_with(ImapOptions { save_limit: 2, ..ImapOptions::default() });
    server.with_messages(3);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a UID FETCH 1:* (FLAGS)
        S: * 1 FETCH …
        S: * 2 FETCH …
        S: * 3 FETCH …
        S: a OK …
        C: b COPY 1:* Archive
        S: b NO [MESSAGELIMIT 2 2] …
        C: c COPY 2:* Archive
        S: c OK [COPYUID …] …
        C: d MOVE 1:* Archive
        S: * OK [COPYUID …] Moved
        S: * 3 EXPUNGE
        S: * 2 EXPUNGE
        S: * 1 EXPUNGE
        S: d OK …
        "#,
    );
    let message = "{3+}\r\na\r\n ";
    wire.send(format!("e APPEND INBOX {}{{3+}}\r\na\r\n\r\n", message.repeat(2)).as_bytes());
    wire.expect("e NO [MESSAGELIMIT 2] …");
}

#[test]
fn expunged_by_others_and_small_batches() {
    let server = limited(6);
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    two.run("C: a UID STORE 5:6 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS~ b OK …");
    // The limit counts what the session knows.
    one.run(
        r#"
        C: a FETCH 1:* (UID ENVELOPE)
        S: * 4 FETCH (UID 4 …
        S: * NO [MESSAGELIMIT 3 4] …
        S: a OK [EXPUNGEISSUED] …
        C: b UIDBATCHES 2
        S: * 6 EXPUNGE
        S: * 5 EXPUNGE
        S: b NO [TOOFEW] …
        C: c UIDBATCHES 3
        S: * UIDBATCHES (TAG "c") 4:2,1:1
        S: c OK …
        "#,
    );
}

/// Without any limit of RFC 9738, too: a commit of any number of messages would take any memory.
#[test]
fn one_copy_and_one_move_take_so_many_messages() {
    let server = Server::start_with(ImapOptions { copied_max: 3, ..ImapOptions::default() });
    server.with_messages(4);
    server.select("INBOX").run(
        r#"
        C: a CREATE Other
        S: a OK …
        C: r RENAME INBOX Old
        S: r NO [LIMIT] INBOX has over 3 messages: move them to the new mailbox in parts
        C: b COPY 1:* Other
        S: b NO [LIMIT] One command copies or moves at most 3 messages: name fewer of them
        C: c UID MOVE 1:4 Other
        S: c NO [LIMIT] One command copies or moves at most 3 messages: name fewer of them
        C: d COPY 2:4 Other
        S: d OK [COPYUID …
        C: e MOVE 1:3 Other
        S: * OK [COPYUID …
        S: * 3 EXPUNGE
        S: * 2 EXPUNGE
        S: * 1 EXPUNGE
        S: e OK …
    "#,
    );
}
