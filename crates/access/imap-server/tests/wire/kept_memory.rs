//! NOTIFY and METADATA take memory for what they keep from the budget for results that are kept up
//! to date.

use posthaste_net::ByteBudget;

use crate::harness::Server;

/// An account has a quarter of this.
const BYTES: usize = 64 << 10;

/// The hashes of 240,000 short annotations took 20 MB a session.
#[test]
fn changes_of_too_many_annotations_are_not_reported() {
    let server = Server::start_keeping(ByteBudget::new(BYTES));
    let mut early = server.login();
    early.run("C: a ENABLE METADATA\nS: * ENABLED METADATA\nS: a OK …");
    let mut wire = server.login();
    let all: String = (0..100).map(|n| format!(" /private/a{n} \"x\"")).collect();
    wire.run(&format!("C: a SETMETADATA INBOX ({})\nS: a OK …", all.trim_start()));
    early.run(
        r#"
        C: b NOOP
        S: * NO There are too many annotations: their changes are not reported
        S: b OK …
        C: c NOOP
        S: c OK …
    "#,
    );
    wire.run(
        r#"
        C: b ENABLE METADATA
        S: * ENABLED
        S: b OK …
        C: c NOTIFY SET (PERSONAL (MailboxMetadataChange))
        S: c NO [NOTIFICATIONOVERFLOW] …
    "#,
    );
}

#[test]
fn what_notify_keeps_has_a_bound() {
    let server = Server::start_keeping(ByteBudget::new(BYTES));
    let mut wire = server.login();
    let names: String = (0..200).map(|n| format!(" {n:0100}")).collect();
    wire.run(&format!(
        "C: a NOTIFY SET (MAILBOXES ({}) (MessageNew MessageExpunge))\nS: a NO [NOTIFICATIONOVERFLOW] …",
        names.trim_start(),
    ));
    let fields = "x ".repeat(999);
    wire.run(&format!(
        "C: b NOTIFY SET (SELECTED (MessageNew (BODY.PEEK[HEADER.FIELDS ({fields}x)]) MessageExpunge))\n\
         S: b NO [NOTIFICATIONOVERFLOW] …",
    ));
    wire.run("C: c NOTIFY SET (MAILBOXES INBOX (MessageNew MessageExpunge))\nS: c OK …");
}
