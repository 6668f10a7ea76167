//! CREATEDMODSEQ: X-CREATEDMODSEQ, an extension of Cyrus. Of a message it is the mod-sequence
//! with which the message came into its mailbox.

use crate::harness::{Server, fetch_text};

#[test]
fn changes_of_flags_leave_it_and_copies_have_their_own() {
    let server = Server::start();
    server.with_messages(4);
    server.login().run(
        r#"
        C: a SELECT INBOX
        S~ a OK …
        C: b FETCH 1:* CREATEDMODSEQ
        S: * 1 FETCH (CREATEDMODSEQ (1))
        S: * 2 FETCH (CREATEDMODSEQ (2))
        S: * 3 FETCH (CREATEDMODSEQ (3))
        S: * 4 FETCH (CREATEDMODSEQ (4))
        S: b OK …
        # It is no command that switches CONDSTORE on: RFC 7162 §3.1.
        C: c STORE 1,3 +FLAGS (\Flagged)
        S: * 1 FETCH (UID 1 FLAGS (…\Flagged))
        S: * 3 FETCH (UID 3 FLAGS (…\Flagged))
        S: c OK …
        C: d UID FETCH 1:2 (createdmodseq MODSEQ)
        S~ * 1 FETCH (UID 1 CREATEDMODSEQ (1) MODSEQ (5))
        S: * 2 FETCH (UID 2 CREATEDMODSEQ (2) MODSEQ (2))
        S: d OK …
        C: e CREATE Work
        S~ e OK …
        C: f COPY 2:3 Work
        S: f OK …
        C: g MOVE 1 Work
        S~ g OK …
        C: h UID FETCH 1:* (CREATEDMODSEQ)
        S: * 1 FETCH (UID 2 CREATEDMODSEQ (2))
        S: * 2 FETCH (UID 3 CREATEDMODSEQ (3))
        S: * 3 FETCH (UID 4 CREATEDMODSEQ (4))
        S: h OK …
        C: i RENAME Work Done
        S~ i OK …
        C: j SELECT Done
        S~ j OK …
        C: k FETCH 1:* (CREATEDMODSEQ)
        S: * 1 FETCH (CREATEDMODSEQ (1))
        S: * 2 FETCH (CREATEDMODSEQ (1))
        S: * 3 FETCH (CREATEDMODSEQ (2))
        S: k OK …
        # A section is no part of the name.
        C: l FETCH 1 CREATEDMODSEQ[1]
        S: l BAD …
        "#,
    );
}

/// With items that need the body, and with UIDs alone (RFC 9586).
#[test]
fn it_stands_beside_all_other_items() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.select("INBOX");
    let fetched = fetch_text(&mut wire, 2, "(CREATEDMODSEQ BODY.PEEK[]<0.7> RFC822.SIZE)");
    assert!(fetched.starts_with("CREATEDMODSEQ (2) BODY[]<0> "), "{fetched}");
    server.login().run(
        r#"
        C: a ENABLE UIDONLY
        S: * ENABLED UIDONLY
        S: a OK …
        C: s SELECT INBOX
        S~ s OK …
        C: b UID FETCH 1:* (CREATEDMODSEQ)
        S: * 1 UIDFETCH (CREATEDMODSEQ (1))
        S: * 2 UIDFETCH (CREATEDMODSEQ (2))
        S: b OK …
        C: c UID FETCH 1:* (CREATEDMODSEQ) (PARTIAL -1:-1)
        S: * 2 UIDFETCH (CREATEDMODSEQ (2))
        S: c OK …
        "#,
    );
}

/// Each mailbox counts its own changes from its creation.
#[test]
fn a_mailbox_is_created_with_the_first_mod_sequence() {
    let server = Server::start();
    server.with_messages(2);
    server.login().run(
        r#"
        C: a STATUS INBOX (CREATEDMODSEQ MESSAGES)
        S: * STATUS INBOX (CREATEDMODSEQ 1 MESSAGES 2)
        S: a OK …
        C: b LIST "" INBOX RETURN (STATUS (CREATEDMODSEQ))
        S: * LIST (…) "/" INBOX
        S: * STATUS INBOX (CREATEDMODSEQ 1)
        S: b OK …
        "#,
    );
}
