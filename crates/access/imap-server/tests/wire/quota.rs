//! QUOTA: RFC 9208.

use std::sync::{Arc, Mutex};

use posthaste_directory::{AccountChange, NewAccount};
use posthaste_imap_server::AdministrativeAct;

use crate::harness::Server;

fn limited(bytes: Option<u64>, messages: Option<u64>) -> Server {
    let server = Server::start();
    server.limit(AccountChange {
        quota_bytes: Some(bytes),
        quota_messages: Some(messages),
        ..AccountChange::default()
    });
    server
}

#[test]
fn one_root_has_all_mailboxes_of_an_account() {
    let server = limited(Some(64 << 10), Some(9));
    server.login().run(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY … QUOTA QUOTA=RES-STORAGE QUOTA=RES-MESSAGE QUOTA=RES-MAILBOX …
        S: a OK …
        C: b GETQUOTAROOT INBOX
        S: * QUOTAROOT INBOX ""
        S: * QUOTA "" (STORAGE 0 64 MESSAGE 0 9)
        S: b OK …
        # 17 octets and the cost of a message are begun units.
        C: c APPEND INBOX {17+}
        C: Subject: x
        C:
        C: yz
        S: c OK …
        C: d CREATE Other
        S: d OK …
        C: e APPEND Other {17+}
        C: Subject: x
        C:
        C: yz
        S: e OK …
        C: f GETQUOTA ""
        S: * QUOTA "" (STORAGE 3 64 MESSAGE 2 9)
        S: f OK …
        C: g GETQUOTAROOT "Other"
        S: * QUOTAROOT Other ""
        S: * QUOTA "" (STORAGE 3 64 MESSAGE 2 9)
        S: g OK …
        "#,
    );
}

#[test]
fn a_limit_that_is_not_set_is_not_named() {
    limited(None, Some(9)).login().run("C: a GETQUOTA \"\"\nS: * QUOTA \"\" (MESSAGE 0 9)\nS: a OK …\n");
    limited(Some(1 << 20), None)
        .login()
        .run("C: a GETQUOTA \"\"\nS: * QUOTA \"\" (STORAGE 0 1024)\nS: a OK …\n");
    limited(None, None).login().run(
        r#"
        C: a GETQUOTAROOT INBOX
        S: * QUOTAROOT INBOX
        S: a OK …
        C: b GETQUOTA ""
        S: b NO [NONEXISTENT] …
        "#,
    );
}

#[test]
fn missing_and_forbidden_objects_are_refused() {
    let server = limited(None, Some(9));
    server.connect().run("C: a GETQUOTA \"\"\nS: a BAD …");
    server.login().run(
        r#"
        # A mailbox that could be made would count, too.
        C: a GETQUOTAROOT Nowhere
        S: * QUOTAROOT Nowhere ""
        S: * QUOTA "" (MESSAGE 0 9)
        S: a OK …
        C: b GETQUOTA another
        S: b NO [NONEXISTENT] …
        C: b1 CAPABILITY
        S: * CAPABILITY … QUOTA QUOTA=RES-STORAGE …
        S: b1 OK …
        C: c SETQUOTA "" (MESSAGE 1000000)
        S: c NO [NOPERM] …
        C: d SETQUOTA "" ()
        S: d NO [NOPERM] …
        C: e SETQUOTA ""
        S: e BAD …
        C: f GETQUOTA
        S: f BAD …
        C: g SETQUOTA "" (MESSAGE -1)
        S: g BAD …
        C: h GETQUOTA ""
        S: * QUOTA "" (MESSAGE 0 9)
        S: h OK …
        "#,
    );
}

#[test]
fn status_says_what_an_expunge_gives_back() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a STATUS INBOX (DELETED DELETED-STORAGE)\nS: * STATUS INBOX (DELETED 0 DELETED-STORAGE 0)\nS: a OK …");
    for flags in ["", "(\\Deleted) ", "(\\Deleted \\Seen) "] {
        wire.send(format!("p APPEND INBOX {flags}{{16+}}\r\nSubject: x\r\n\r\ny\r\n").as_bytes());
        wire.run("S~ p OK …");
    }
    wire.run(
        r#"
        C: b STATUS INBOX (MESSAGES DELETED DELETED-STORAGE SIZE)
        S: * STATUS INBOX (MESSAGES 3 DELETED 2 DELETED-STORAGE 32 SIZE 48)
        S: b OK …
        C: c LIST "" INBOX RETURN (STATUS (DELETED-STORAGE))
        S: * LIST (…) "/" INBOX
        S: * STATUS INBOX (DELETED-STORAGE 32)
        S: c OK …
        "#,
    );
}

#[test]
fn mailboxes_are_limited_too() {
    let server = Server::start();
    server.login();
    server.limit(AccountChange { quota_mailboxes: Some(Some(8)), ..AccountChange::default() });
    server.login().run(
        r#"
        C: a GETQUOTA ""
        S: * QUOTA "" (MAILBOX 6 8)
        S: a OK …
        # The level above it counts, too.
        C: b CREATE a/b/c
        S: b NO [OVERQUOTA] …
        C: c CREATE a/b
        S: c OK …
        C: d CREATE d
        S: d NO [OVERQUOTA] …
        C: e RENAME a/b a/c
        S: e OK …
        # Levels that RENAME makes count as those that CREATE makes. What INBOX becomes does, too.
        C: e1 RENAME a/c x/y/z
        S: e1 NO [OVERQUOTA] …
        C: e2 RENAME INBOX Old
        S: e2 NO [OVERQUOTA] …
        C: e3 LIST "" (a/% x)
        S: * LIST (\HasNoChildren) "/" a/c
        S: e3 OK …
        C: f DELETE a/c
        S: f OK …
        C: g CREATE d
        S: g OK …
        C: h GETQUOTAROOT d
        S: * QUOTAROOT d ""
        S: * QUOTA "" (MAILBOX 8 8)
        S: h OK …
        "#,
    );
}

/// RFC 9208 §4.3.1: the server knows the size before it accepts the literal.
#[test]
fn a_message_without_room_is_refused_before_it_is_sent() {
    let server = limited(Some(40 << 10), None);
    let mut wire = server.login();
    wire.run(
        r#"
        C: a APPEND INBOX {50000}
        S: a NO [OVERQUOTA] …
        C: b APPEND INBOX (\Seen) "01-Jan-2026 00:00:00 +0000" {40960}
        S: b NO [OVERQUOTA] …
        # The octets that each message costs count, too.
        C: c APPEND "INBOX" {39937}
        S: c NO [OVERQUOTA] …
        C: d APPEND INBOX {30000}
        S: + …
        "#,
    );
    wire.send(&literal(30_000, "\r\n"));
    wire.run(
        r#"
        S: d OK …
        C: e APPEND INBOX {9000}
        S: e NO [OVERQUOTA] …
        # Several messages count together (RFC 3502).
        C: f APPEND INBOX {4000}
        S: + …
        "#,
    );
    wire.send(&literal(4_000, " {5000}\r\n"));
    wire.run(
        r#"
        S: f NO [OVERQUOTA] …
        # Parts of a message (RFC 4469). A URL is none.
        C: g APPEND INBOX CATENATE (TEXT {50000}
        S: g NO [OVERQUOTA] …
        C: h APPEND INBOX CATENATE (URL {10000}
        S: + …
        "#,
    );
    wire.send(&literal(10_000, ")\r\n"));
    wire.run(
        r#"
        S: h NO …
        # Binary (RFC 3516).
        C: i APPEND INBOX ~{50000}
        S: i NO [OVERQUOTA] …
        # A mailbox that does not exist is the better reason.
        C: j APPEND Nowhere {50000}
        S: + …
        "#,
    );
    wire.send(&literal(50_000, "\r\n"));
    wire.run(
        "S: j NO [TRYCREATE] …\nC: k STATUS INBOX (MESSAGES)\nS: * STATUS INBOX (MESSAGES 1)\nS: k OK …",
    );
}

#[test]
fn a_replacement_that_can_have_no_room_is_refused_before_it_is_sent() {
    let server = limited(Some(40 << 10), None);
    let mut wire = server.select("INBOX");
    wire.run("C: a APPEND INBOX {30000}\nS: + …");
    wire.send(&literal(30_000, "\r\n"));
    // RFC 8508 §3.4: the old message makes room. One that is larger than the quota has none.
    wire.run("S~ a OK …\nC: b REPLACE 1 INBOX {41000}\nS: b NO [OVERQUOTA] …");
    wire.run("C: c UID REPLACE 1 INBOX {39000}\nS: + …");
    wire.send(&literal(39_000, "\r\n"));
    wire.run("S~ c OK …");
    // An account that is over its quota may make a message smaller.
    server.limit(AccountChange { quota_bytes: Some(Some(10_000)), ..AccountChange::default() });
    let mut wire = server.select("INBOX");
    wire.run("C: d REPLACE 1 INBOX {20000}\nS: + …");
    wire.send(&literal(20_000, "\r\n"));
    wire.run("S~ d OK …");
}

/// A literal that does not wait is read to its end.
#[test]
fn a_message_that_is_sent_at_once_is_refused_and_read() {
    let server = limited(Some(40 << 10), None);
    let mut wire = server.login();
    wire.send(b"a APPEND INBOX {50000+}\r\n");
    wire.send(&literal(50_000, " {3+}\r\nabc\r\n"));
    wire.run("S: a NO [OVERQUOTA] …\nC: b NOOP\nS: b OK …");
}

/// This many bytes of a message, and the text after them.
fn literal(len: usize, end: &str) -> Vec<u8> {
    let head = "Subject: x\r\n\r\n";
    format!("{head}{}{end}", "x".repeat(len - head.len())).into_bytes()
}

const BEN: &str = "ben@example.org";

/// A server where ben sets the quotas of example.org.
fn with_setter() -> Server {
    let server = Server::start();
    server.add_account(BEN, NewAccount { sets_quotas: true, ..NewAccount::default() });
    server
}

/// RFC 9208 §4.1.3, with its example.
#[test]
fn an_administrator_sets_the_quotas_of_the_domain() {
    if posthaste_testkit::skips_cluster("the harness compares accounts in one poll") {
        return;
    }
    let server = with_setter();
    server.add_account("sales@example.org", NewAccount { shared: true, ..NewAccount::default() });
    let mut ana = server.login();
    let mut ben = server.login_as(BEN);
    ben.run(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY … QUOTASET …
        S: a OK …
        C: A0 SETQUOTA "" (STORAGE 512)
        S: * QUOTA "" (STORAGE 0 512)
        S: A0 OK …
        C: b SETQUOTA "Other Users/ana@example.org" (STORAGE 64 MESSAGE 2 MAILBOX 9)
        S: * QUOTA "Other Users/ana@example.org" (STORAGE 0 64 MESSAGE 0 2 MAILBOX 6 9)
        S: b OK …
        C: c GETQUOTA "Other Users/Ana@Example.ORG"
        S: * QUOTA "Other Users/Ana@Example.ORG" (STORAGE 0 64 MESSAGE 0 2 MAILBOX 6 9)
        S: c OK …
        # What is not named is lifted.
        C: d SETQUOTA "Other Users/ana@example.org" (message 1)
        S: * QUOTA "Other Users/ana@example.org" (MESSAGE 0 1)
        S: d OK …
        C: e SETQUOTA "Shared/sales@example.org" (MESSAGE 7)
        S: * QUOTA "Shared/sales@example.org" (MESSAGE 0 7)
        S: e OK …
        C: f SETQUOTA "Shared/sales@example.org" ()
        S: f OK …
        C: g GETQUOTA "Shared/sales@example.org"
        S: g NO [NONEXISTENT] …
        "#,
    );
    // Her session may be older than the limit.
    server.compare_accounts();
    ana.run(
        r#"
        C: a GETQUOTA ""
        S: * QUOTA "" (MESSAGE 0 1)
        S: a OK …
        C: b APPEND INBOX {16+}
        C: Subject: x
        C:
        C: y
        S: b OK …
        C: c APPEND INBOX {16+}
        C: Subject: x
        C:
        C: y
        S: c NO [OVERQUOTA] …
        "#,
    );
}

#[test]
fn quotas_of_others_are_not_to_be_set() {
    let server = with_setter();
    server.add_account("eve@example.net", NewAccount::default());
    server.add_account("plain", NewAccount { sets_quotas: true, ..NewAccount::default() });
    server.login_as(BEN).run(
        r#"
        # Another domain, nobody, another namespace, a mailbox, and no name at all.
        C: a SETQUOTA "Other Users/eve@example.net" (MESSAGE 1)
        S: a NO [NONEXISTENT] …
        C: b SETQUOTA "Other Users/nobody@example.org" (MESSAGE 1)
        S: b NO [NONEXISTENT] …
        C: c SETQUOTA "Shared/ana@example.org" (MESSAGE 1)
        S: c NO [NONEXISTENT] …
        C: d SETQUOTA "Other Users/ana@example.org/INBOX" (MESSAGE 1)
        S: d NO [NONEXISTENT] …
        C: e SETQUOTA "Other Users/a b c" (MESSAGE 1)
        S: e NO [NONEXISTENT] …
        C: f SETQUOTA ana@example.org (MESSAGE 1)
        S: f NO [NONEXISTENT] …
        C: g GETQUOTA "Other Users/eve@example.net"
        S: g NO [NONEXISTENT] …
        # Resources that are not limited, limits that cannot be.
        C: h SETQUOTA "" (ANNOTATION-STORAGE 1)
        S: h NO [CANNOT] …
        C: i SETQUOTA "" (STORAGE 9223372036854775807)
        S: i NO [CANNOT] …
        C: j SETQUOTA "" (MESSAGE 1 MESSAGE 2)
        S: j BAD …
        C: k GETQUOTA ""
        S: k NO [NONEXISTENT] …
        "#,
    );
    // A plain name has no domain.
    server.login_as("plain").run("C: a SETQUOTA \"\" (MESSAGE 1)\nS: a NO [NONEXISTENT] …");
}

#[test]
fn the_right_to_set_quotas_may_be_taken() {
    let server = with_setter();
    let mut ben = server.login_as(BEN);
    server.limit_of(BEN, AccountChange { sets_quotas: Some(false), ..AccountChange::default() });
    ben.run("C: a SETQUOTA \"\" (MESSAGE 1)\nS: a NO [NOPERM] …");
    server.login_as(BEN).run("C: a SETQUOTA \"\" (MESSAGE 1)\nS: a NO [NOPERM] …");
}

#[test]
fn quotas_that_are_set_are_recorded() {
    let acts = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&acts);
    let server = Server::start_recording(Arc::new(move |act: AdministrativeAct| {
        record.lock().unwrap().push(format!("{} {} {}", act.by, act.what, act.is_done));
    }));
    server.add_account(BEN, NewAccount { sets_quotas: true, ..NewAccount::default() });
    server.login_as(BEN).run(
        r#"
        C: a SETQUOTA "Other Users/ana@example.org" (STORAGE 64 MESSAGE 2)
        S: * QUOTA …
        S: a OK …
        C: b SETQUOTA "" ()
        S: b OK …
        C: c SETQUOTA "Other Users/nobody@example.org" (MESSAGE 1)
        S: c NO [NONEXISTENT] …
        "#,
    );
    let acts = acts.lock().unwrap();
    assert_eq!(
        *acts,
        [
            "ben@example.org SETQUOTA ana@example.org STORAGE 64 MESSAGE 2 true",
            "ben@example.org SETQUOTA ben@example.org none true"
        ]
    );
}
