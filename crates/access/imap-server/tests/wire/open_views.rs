//! The memory of the newest views of mailboxes has a bound. RFC 5530 §3: UNAVAILABLE.

use posthaste_directory::NewAccount;
use posthaste_imap_server::{ImapOptions, ImapService};
use posthaste_mail_model::Flag;
use posthaste_net::ByteBudget;
use posthaste_store::{IncomingMessage, StoreOptions};

use crate::harness::{Server, USER, search, unhurried};
use crate::sharing::{BO, SHARED, share};

/// 100 of them count: the first thousand of each mailbox do not.
const MESSAGES: usize = 1_100;

/// A server where an account may have one mailbox of so many messages open, and all together two.
fn server() -> Server {
    let options = StoreOptions { open_views_bytes: 300 * 29, ..StoreOptions::default() };
    let service = |delivery| {
        ImapService::new(unhurried(ImapOptions::default()), delivery, None, ByteBudget::new(256 << 20))
    };
    Server::start_storing(options, |engine| engine, service)
}

/// Adds messages to a mailbox that nobody has open.
fn fill(server: &Server, owner: &str, mailbox: &str) {
    let (store, _) = server.behind();
    let (_, id) = server.mailbox(owner, mailbox);
    let bytes = bytes::Bytes::from_static(b"Subject: a\r\n\r\nText\r\n");
    let message = IncomingMessage {
        summary: posthaste_delivery::summarize(&bytes).into(),
        bytes,
        body: store.new_body_id(),
        flags: vec![Flag::Deleted],
        date: 1_000_000_000,
        saved: Some(1),
    };
    server.wait(store.destination(id).append(vec![message; MESSAGES])).expect("messages");
}

#[test]
fn a_mailbox_that_has_no_room_is_refused_for_now_and_the_session_goes_on() {
    let server = server();
    // The login makes the INBOX.
    drop(server.login());
    for mailbox in ["More", "Few"] {
        server.make_mailbox(mailbox);
    }
    fill(&server, USER, "INBOX");
    fill(&server, USER, "More");
    let (mut first, mut second) = (server.select("INBOX"), server.login());
    second.run(
        r#"
        C: a SELECT More
        S: a NO [UNAVAILABLE] Too many messages are in open mailboxes: …
        C: b EXAMINE More
        S: b NO [UNAVAILABLE] …
        C: c STATUS More (MESSAGES UIDNEXT)
        S: * STATUS More (MESSAGES 1100 UIDNEXT 1101)
        S: c OK …
        C: d STATUS More (RECENT)
        S: * STATUS More (RECENT 1100)
        S: d OK …
        C: n STATUS More (DELETED-STORAGE)
        S: n NO [UNAVAILABLE] …
        C: o LIST "" More RETURN (STATUS (DELETED-STORAGE))
        S: * LIST (…) "/" More
        S: o OK …
        C: e ESEARCH IN (mailboxes "More") ALL
        S: e NO [UNAVAILABLE] …
        C: f APPEND More {10+}
        C: Subject: b
        S: f OK [APPENDUID …] …
        C: g SELECT Few
        S~ g OK [READ-WRITE] …
        C: h SELECT INBOX
        S~ h OK [READ-WRITE] …
        C: i SELECT Few
        S~ i OK [READ-WRITE] …"#,
    );
    // Nobody has the INBOX open any more. It makes room.
    first.run("C: j SELECT Few\nS~ j OK [READ-WRITE] …");
    second.run("C: k SELECT More\nS~ k OK [READ-WRITE] …");
    first.run("C: l SELECT INBOX\nS: * OK [CLOSED] …\nS: l NO [UNAVAILABLE] …\nC: m NOOP\nS: m OK …");
}

#[test]
fn an_account_does_not_keep_others_from_their_mailboxes() {
    let server = server();
    server.add_account("bob@example.org", NewAccount::default());
    // The login makes the INBOX.
    drop(server.login());
    server.make_mailbox("More");
    for (owner, mailbox) in [(USER, "INBOX"), (USER, "More"), ("bob@example.org", "INBOX")] {
        fill(&server, owner, mailbox);
    }
    let _first = server.select("INBOX");
    server.login().run("C: a SELECT More\nS: a NO [UNAVAILABLE] …");
    server.login_as("bob@example.org").run("C: b SELECT INBOX\nS~ b OK [READ-WRITE] …");
}

/// A server whose user has two mailboxes, INBOX and More, of which one has room.
fn server_with_two_full() -> Server {
    let server = server();
    // The login makes the INBOX.
    drop(server.login());
    server.make_mailbox("More");
    fill(&server, USER, "INBOX");
    fill(&server, USER, "More");
    server
}

#[test]
fn an_open_mailbox_gets_no_messages_without_room_and_the_session_goes_on() {
    let server = server_with_two_full();
    server.select("INBOX").run(
        r#"
        C: a COPY 1:170 INBOX
        S: a NO [UNAVAILABLE] Too many messages are in open mailboxes: …
        C: b COPY 1:170 More
        S: b OK [COPYUID …] …
        C: c COPY 1:10 INBOX
        S~ c OK [COPYUID …] …
        C: d NOOP
        S: d OK …"#,
    );
}

/// Their mod-sequences need not rise: nobody has the mailbox open.
#[test]
fn copies_have_their_annotations_in_a_mailbox_that_has_no_room() {
    let server = server_with_two_full();
    server.select("INBOX").run(
        r#"
        C: a STORE 1 ANNOTATION (/comment (value.priv "mine"))
        S: a OK …
        C: b COPY 1 More
        S: b OK [COPYUID …] …
        C: c SELECT More
        S~ c OK …
        C: d FETCH 1101 (ANNOTATION (/comment value.priv))
        S: * 1101 FETCH (ANNOTATION (/comment (value.priv "mine")))
        S: d OK …"#,
    );
}

#[test]
fn a_new_message_is_seen_in_a_mailbox_of_others_that_has_no_room() {
    let server = server();
    share(&server, "lrsi");
    fill(&server, USER, "P");
    fill(&server, BO, "INBOX");
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        r#"
        C: a SELECT INBOX
        S~ a OK …
        C: b APPEND {SHARED} (\Seen) {{3+}}
        C: xy
        S: b OK [APPENDUID …] …
        C: c SELECT {SHARED}
        S~ c OK …"#
    ));
    assert_eq!(search(&mut bo, "SEEN"), "1103");
}
