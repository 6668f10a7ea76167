//! QUOTA: RFC 9208.

use posthaste_directory::AccountChange;

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
fn what_is_not_there_or_not_allowed() {
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
