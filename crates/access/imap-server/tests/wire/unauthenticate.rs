//! UNAUTHENTICATE: RFC 8437.

use posthaste_imap_server::ImapOptions;
use posthaste_net::{AccountLimits, Accounts};

use crate::harness::{PASSWORD, Server, USER};

fn login(tag: &str) -> String {
    format!("C: {tag} LOGIN {USER} \"{PASSWORD}\"\nS: {tag} OK [CAPABILITY … UNAUTHENTICATE …] Logged in")
}

#[test]
fn everything_of_the_login_ends() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.connect();
    wire.run("C: a UNAUTHENTICATE\nS: a BAD …");
    wire.run(&login("b"));
    wire.run(
        r#"
        C: c ENABLE QRESYNC UIDONLY IMAP4rev2
        S~ c OK …
        C: d CREATE "Entwürfe"
        S: d OK …
        C: e SELECT INBOX
        S~ e OK …
        C: f UID STORE 1 +FLAGS.SILENT (\Deleted)
        S~ f OK …
        C: g UID SEARCH RETURN (SAVE) ALL
        S: g OK …
        C: h UNAUTHENTICATE
        S: h OK [CAPABILITY IMAP4rev1 …AUTH=PLAIN…] …
        C: i SELECT INBOX
        S: i BAD …
        C: j UNAUTHENTICATE
        S: j BAD …
        C: k NOOP
        S: k OK …
        "#,
    );
    wire.run(&login("l"));
    wire.run(
        r#"
        # No mailbox is selected.
        C: m UID FETCH 1 FLAGS
        S: m BAD …
        # Names are in modified UTF-7 again.
        C: n LIST "" Ent*
        S: * LIST (\HasNoChildren) "/" Entw&APw-rfe
        S: n OK …
        # What was enabled is not, nor is there a saved result. \Deleted was left alone.
        C: o SELECT INBOX
        S~ o OK …
        C: p FETCH 1:2 FLAGS
        S: * 1 FETCH (FLAGS (\Recent \Deleted))
        S: * 2 FETCH (FLAGS (\Recent))
        S: p OK …
        C: q SEARCH $
        S: * SEARCH
        S: q OK …
        C: r SELECT INBOX (QRESYNC (1 1))
        S: r BAD …
        C: s EXPUNGE
        S: * 1 EXPUNGE
        S: s OK …
        "#,
    );
}

/// RFC 8437 §8, and §3: no answer is NO.
#[test]
fn it_can_be_switched_off() {
    let server = Server::start_with(ImapOptions { unauthenticate: false, ..ImapOptions::default() });
    let mut wire = server.login();
    wire.send(b"a CAPABILITY\r\n");
    let lines = wire.skip_to("a OK …");
    assert!(!lines[0].contains("UNAUTHENTICATE"), "{lines:?}");
    wire.run("C: b UNAUTHENTICATE\nS: b BAD …\nC: c SELECT INBOX\nS~ c OK …");
}

#[test]
fn the_account_gets_its_connection_back() {
    let accounts = Accounts::new(AccountLimits { connections: 1, ..AccountLimits::default() });
    let server = Server::start_limited(accounts);
    let (mut one, mut two) = (server.login(), server.connect());
    two.run(&format!("C: a LOGIN {USER} \"{PASSWORD}\"\nS: a NO [LIMIT] …"));
    one.run("C: b UNAUTHENTICATE\nS: b OK …");
    two.run(&login("c"));
    one.run(&format!("C: d LOGIN {USER} \"{PASSWORD}\"\nS: d NO [LIMIT] …"));
}

#[test]
fn bad_commands_are_counted_again_from_the_beginning() {
    let server = Server::start();
    let mut wire = server.connect();
    wire.run("C: a FROB\nS: a BAD …\nC: b FROB\nS: b BAD …\nC: c FROB\nS: c BAD …");
    wire.run(&login("d"));
    wire.run("C: e UNAUTHENTICATE\nS: e OK …\nC: f FROB\nS: f BAD …\nC: g FROB\nS: g BAD …");
    wire.run("C: h FROB\nS: h BAD …\nC: i FROB\nS: i BAD …\nC: j FROB\nS: j BAD …\nS: * BYE …");
    wire.expect_end();
}
