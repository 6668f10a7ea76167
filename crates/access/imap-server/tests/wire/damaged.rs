//! Messages that exist and cannot be read. Each is an error of its own and is named by
//! its number. The others are served.
//! RFC 9051 §6.4.4, §6.4.5, §6.4.7; RFC 5530 §3, CORRUPTION.

use crate::harness::Server;

#[test]
fn fetch_answers_for_readable_messages_and_names_the_others() {
    let server = Server::start();
    server.with_messages(5);
    if !server.damage_summaries(&[2, 4, 5]) {
        return;
    }
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a FETCH 1:* (UID RFC822.SIZE ENVELOPE)
        S: * 1 FETCH (UID 1 RFC822.SIZE … ENVELOPE (NIL "number 1" …
        S: * 3 FETCH (UID 3 RFC822.SIZE … ENVELOPE (NIL "number 3" …
        S: a NO [CORRUPTION] Stored data of UID 2,4:5 is damaged; all other messages were sent
        C: b UID FETCH 1:3 BODY.PEEK[]
        S~ * 3 FETCH (UID 3 BODY[] …
        S~ b NO [CORRUPTION] Stored data of UID 2 is damaged; all other messages were sent
        C: c FETCH 1:5 (FLAGS)
        S: * 1 FETCH (FLAGS (…))
        S: * 2 FETCH (FLAGS (…))
        S: * 3 FETCH (FLAGS (…))
        S: * 4 FETCH (FLAGS (…))
        S: * 5 FETCH (FLAGS (…))
        S: c OK …
        C: d UID FETCH 1,3 ENVELOPE
        S: * 1 FETCH (…
        S: * 3 FETCH (…
        S: d OK …
        "#,
    );
}

#[test]
fn a_message_expunged_by_others_is_no_damage() {
    let server = Server::start();
    server.with_messages(4);
    if !server.damage_summaries(&[4]) {
        return;
    }
    let mut wire = server.select("INBOX");
    wire.run("C: a NOOP\nS: a OK …");
    let mut other = server.select("INBOX");
    other.run("C: a STORE 2 +FLAGS.SILENT (\\Deleted)\nS~ a OK …\nC: b EXPUNGE\nS~ b OK …");
    wire.run(
        r"
        C: b FETCH 1:3 ENVELOPE
        S~ * 1 FETCH (ENVELOPE …
        S~ * 3 FETCH (ENVELOPE …
        S~ b OK [EXPUNGEISSUED] …
        ",
    );
}

#[test]
fn one_lost_body_does_not_end_a_fetch_of_others() {
    let server = Server::start();
    server.with_messages(4);
    if !server.lose_body(2) {
        return;
    }
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a FETCH 1:3 (UID BODY.PEEK[HEADER])
        S: * 1 FETCH (UID 1 BODY[HEADER] {…
        S~ * 3 FETCH (UID 3 BODY[HEADER] {…
        S~ a NO [CORRUPTION] Stored data of UID 2 is damaged; all other messages were sent
        C: b FETCH 2 ENVELOPE
        S: * 2 FETCH (ENVELOPE (NIL "number 2" …
        S: b OK …
        "#,
    );
}

#[test]
fn search_says_nothing_rather_than_leave_a_message_out() {
    let server = Server::start();
    server.with_messages(5);
    if !(server.damage_summaries(&[3]) && server.lose_body(5)) {
        return;
    }
    let mut wire = server.select("INBOX");
    wire.run(
        r"
        C: a SEARCH SUBJECT number
        S: a NO [CORRUPTION] Stored data of UID 3 is damaged and cannot be searched; search without them
        C: b SEARCH TEXT body
        S: b NO [CORRUPTION] Stored data of UID 3,5 is damaged and cannot be searched; search without them
        C: c SEARCH SUBJECT number NOT UID 3
        S: * SEARCH 1 2 4 5
        S: c OK …
        C: d SEARCH UNSEEN
        S: * SEARCH 1 2 3 4 5
        S: d OK …
        C: e UID SEARCH RETURN (SAVE COUNT) SUBJECT number NOT UID 3
        S: * ESEARCH …COUNT 4
        S: e OK …
        C: f SEARCH RETURN (SAVE COUNT) SUBJECT number
        S: f NO [CORRUPTION] …
        C: g FETCH $ FLAGS
        S: g OK …
        ",
    );
}

#[test]
fn a_summary_of_an_unknown_format_is_named_by_fetch_and_search() {
    let server = Server::start();
    server.with_messages(2);
    server.put_with_summary(b"Subject: number 3\r\n\r\nbody 3\r\n", b"\xff\xff\0\0\x08\0\0\0");
    server.with_messages(1);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a FETCH 1:* ENVELOPE
        S: * 1 FETCH (ENVELOPE (NIL "number 1" …
        S: * 2 FETCH (ENVELOPE (NIL "number 2" …
        S: * 4 FETCH (ENVELOPE (NIL "number 1" …
        S: a NO [CORRUPTION] Stored data of UID 3 is damaged; all other messages were sent
        C: b FETCH 2:4 BODY.PEEK[TEXT]
        S~ * 2 FETCH (BODY[TEXT] …
        S~ * 4 FETCH (BODY[TEXT] …
        S~ b NO [CORRUPTION] Stored data of UID 3 is damaged; all other messages were sent
        C: c SEARCH SUBJECT number
        S: c NO [CORRUPTION] Stored data of UID 3 is damaged and cannot be searched; search without them
        C: d SEARCH TEXT body
        S: d NO [CORRUPTION] Stored data of UID 3 is damaged and cannot be searched; search without them
        C: e SEARCH TEXT number NOT UID 3
        S: * SEARCH 1 2 4
        S: e OK …
        "#,
    );
}

#[test]
fn copy_takes_all_or_none() {
    let server = Server::start();
    server.with_messages(3);
    if !server.damage_summaries(&[2]) {
        return;
    }
    let mut wire = server.select("INBOX");
    wire.run(
        r"
        C: a CREATE Saved
        S~ a OK …
        C: b COPY 1:3 Saved
        S: b NO [CORRUPTION] Stored data of UID 2 is damaged
        C: c STATUS Saved (MESSAGES)
        S: * STATUS Saved (MESSAGES 0)
        S: c OK …
        C: d MOVE 1:3 Saved
        S: d NO [CORRUPTION] Stored data of UID 2 is damaged
        C: e COPY 1,3 Saved
        S: e OK [COPYUID … 1,3 1:2] …
        ",
    );
}
