//! MAILBOX-REFERRALS: RFC 2193.

use crate::harness::{Server, USER};

const TEAM: &str = "imap://ana%40example.org;AUTH=*@two.example.org/Groups/Team";

fn referring() -> Server {
    let server = Server::start();
    server.refer_mailbox("Team", Some(TEAM));
    server.refer_mailbox("Lists/rust", Some("imap://bo;AUTH=*@three.example.org/rust"));
    server.refer_mailbox("Team/old", Some("imap://bo;AUTH=*@three.example.org/old"));
    server
}

/// RFC 2193 §4.1, §4.2, §4.4; the longest name counts.
#[test]
fn commands_with_such_a_name_are_answered_with_the_url() {
    let server = referring();
    let mut client = server.login();
    client.run(&format!(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY … MAILBOX-REFERRALS …
        S: a OK …
        C: b SELECT Team
        S: b NO [REFERRAL {TEAM}] …
        C: c EXAMINE Team/2026/q1
        S: c NO [REFERRAL {TEAM}/2026/q1] …
        C: d STATUS "Team/a b?" (MESSAGES)
        S: d NO [REFERRAL {TEAM}/a%20b%3F] …
        C: e CREATE Team/new
        S: e NO [REFERRAL {TEAM}/new] …
        C: f DELETE Team/old/x
        S: f NO [REFERRAL imap://bo;AUTH=*@three.example.org/old/x] …
        C: g SUBSCRIBE Lists/rust
        S: g NO [REFERRAL imap://bo;AUTH=*@three.example.org/rust] …
        C: h UNSUBSCRIBE Lists/rust
        S: h NO [REFERRAL imap://bo;AUTH=*@three.example.org/rust] …
        C: i APPEND Team {{3+}}
        C: abc
        S: i NO [REFERRAL {TEAM}] …
        C: j CREATE Teamwork
        S: j OK …
        C: k SELECT Teamwork
        S~ k OK …
        C: l GETQUOTAROOT Team
        S: l NO [REFERRAL {TEAM}] …
        "#,
    ));
    server.with_messages(1);
    client.run(&format!(
        r#"
        C: m SELECT INBOX
        S~ m OK …
        C: n COPY 1 Team
        S: n NO [REFERRAL {TEAM}] …
        C: o UID MOVE 1 Team/x
        S: o NO [REFERRAL {TEAM}/x] …
        C: p FETCH 1 (UID)
        S: * 1 FETCH (UID 1)
        S: p OK …
        "#,
    ));
}

/// A referral takes precedence over a local mailbox of that name. SELECT by ids (OBJECTID+) obeys
/// it, too.
#[test]
fn ids_of_a_mailbox_with_such_a_name_are_answered_with_the_url() {
    let server = Server::start();
    server.make_mailbox("Team/new");
    let (account, id) = server.mailbox(USER, "Team/new");
    server.refer_mailbox("Team", Some(TEAM));
    server.login().run(&format!(
        r#"
        C: a SELECT INBOX (OBJECTID (MAILBOXID {id} ACCOUNTID u{account}))
        S: * ENABLED OBJECTID+
        S: a NO [REFERRAL {TEAM}/new] …
        C: b EXAMINE Team/new (OBJECTID (MAILBOXID {id}))
        S: b NO [REFERRAL {TEAM}/new] …
        "#
    ));
    server.refer_mailbox("Team", None);
    server.login().run(&format!(
        r#"
        C: c SELECT INBOX (OBJECTID (MAILBOXID {id}))
        S: * ENABLED OBJECTID+
        S~ * OK [OBJECTID (MAILBOXID {id} ACCOUNTID u{account})] Ok
        S~ c OK [READ-WRITE] …
        "#
    ));
}

/// RFC 2193 §4.3: a pair of URLs.
#[test]
fn a_rename_is_answered_with_both_urls() {
    let server = referring();
    server.login().run(&format!(
        r#"
        C: a RENAME Team Group
        S: a NO [REFERRAL {TEAM} imap://ana%40example.org;AUTH=*@localhost/Group] …
        C: b RENAME Drafts Team/Drafts
        S: b NO [REFERRAL imap://ana%40example.org;AUTH=*@localhost/Drafts {TEAM}/Drafts] …
        C: c RENAME Team/a Team/b
        S: c NO [REFERRAL {TEAM}/a {TEAM}/b] …
        C: d RENAME Drafts Sketches
        S: d OK …
        "#,
    ));
}

/// RFC 2193 §5, RFC 5258 §3.1: REMOTE.
#[test]
fn only_rlist_and_rlsub_show_them() {
    let server = referring();
    let mut client = server.login();
    client.run(
        r#"
        C: b LIST "" "T*"
        S: * LIST (\HasNoChildren \Trash) "/" Trash
        S: b OK …
        C: c RLIST "" "T*"
        S: * LIST (\Remote \HasChildren) "/" Team
        S: * LIST (\Remote) "/" Team/old
        S: * LIST (\HasNoChildren \Trash) "/" Trash
        S: c OK RLIST completed
        C: d RLIST "" "L%"
        S: * LIST (\Noselect \HasChildren) "/" Lists
        S: d OK …
        C: e LIST "" "L%"
        S: e OK …
        C: f RLIST "" ""
        S: * LIST (\Noselect) "/" ""
        S: f OK …
        C: g LSUB "" "T*"
        S: * LSUB () "/" Trash
        S: g OK …
        C: h RLSUB "" "T*"
        S: * LSUB () "/" Team
        S: * LSUB () "/" Team/old
        S: * LSUB () "/" Trash
        S: h OK RLSUB completed
        C: k RLSUB "" "Lis%"
        S: * LSUB (\Noselect) "/" Lists
        S: k OK …
        C: i LIST (REMOTE) "" "Te*"
        S: * LIST (\Remote \HasChildren) "/" Team
        S: * LIST (\Remote) "/" Team/old
        S: i OK …
        C: j LIST (SUBSCRIBED REMOTE) "" "Li*"
        S: * LIST (\Remote) "/" Lists/rust
        S: j OK …
        "#,
    );
    server.connect().run("C: a RLIST \"\" *\nS: a BAD …\nC: b RLSUB \"\" *\nS: b BAD …");
}

#[test]
fn a_mailbox_that_is_no_longer_elsewhere_can_be_made() {
    let server = referring();
    server.refer_mailbox("Team", None);
    server.login().run(
        r#"
        C: a CREATE Team
        S: a OK …
        C: b SELECT Team/old
        S: b NO [REFERRAL …/old] …
        C: c SELECT Team
        S~ c OK …
        "#,
    );
}
