//! LOGIN-REFERRALS: RFC 2221.

use posthaste_directory::Referral;

use crate::harness::{PASSWORD, Server, USER};

const URL: &str = "imap://ana%40example.org;AUTH=*@server2.example.org/";
/// \0ana@example.org\0sesame street
const PLAIN: &str = "AGFuYUBleGFtcGxlLm9yZwBzZXNhbWUgc3RyZWV0";

fn referring(admits: bool) -> Server {
    let server = Server::start();
    server.refer(Some(Referral { url: URL.to_owned(), admits }));
    server
}

/// RFC 2221 §4.1, with the examples of LOGIN and AUTHENTICATE.
#[test]
fn a_right_password_is_answered_with_the_other_server() {
    let server = referring(false);
    server.connect().run(&format!(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY … LOGIN-REFERRALS …
        S: a OK …
        C: b LOGIN {USER} "{PASSWORD}"
        S: b NO [REFERRAL {URL}] …
        C: c AUTHENTICATE PLAIN {PLAIN}
        S: c NO [REFERRAL {URL}] …
        # No login has succeeded.
        C: d SELECT INBOX
        S: d BAD …
        C: e LOGOUT
        S: * BYE …
        S: e OK …
        "#,
    ));
}

/// A client without the password does not learn whether the account exists, or where it is.
#[test]
fn a_wrong_password_is_answered_as_for_any_account() {
    let server = referring(false);
    let mut wire = server.connect();
    wire.send(format!("a LOGIN {USER} wrong\r\nb LOGIN nobody@example.org wrong\r\n").as_bytes());
    let (of_her, of_nobody) = (wire.line().expect("a line"), wire.line().expect("a line"));
    assert_eq!(of_her.trim_start_matches("a "), of_nobody.trim_start_matches("b "));
    assert!(of_her.starts_with("a NO [AUTHENTICATIONFAILED] "), "{of_her}");
}

/// Each try costs a hash. A client that tries again and again has to connect again.
#[test]
fn a_client_that_does_not_follow_is_sent_away() {
    let server = referring(false);
    let mut wire = server.connect();
    let tries = (0..100).find(|_| {
        wire.send(format!("a LOGIN {USER} \"{PASSWORD}\"\r\n").as_bytes());
        wire.expect("a NO [REFERRAL …] …");
        wire.send(b"n NOOP\r\n");
        wire.line().is_none_or(|line| line.starts_with("* BYE "))
    });
    assert!(tries.is_some());
}

/// RFC 2221 §4: a tagged OK says that the server has mailboxes that the user may read.
#[test]
fn a_login_may_succeed_all_the_same() {
    let server = referring(true);
    server.connect().run(&format!(
        r#"
        C: a LOGIN {USER} "{PASSWORD}"
        S: * CAPABILITY IMAP4rev1 … LOGIN-REFERRALS … QUOTA …
        S: a OK [REFERRAL {URL}] Logged in…
        C: b SELECT INBOX
        S~ b OK [READ-WRITE] …
        "#,
    ));
    server.connect().run(&format!(
        r#"
        C: a AUTHENTICATE PLAIN {PLAIN}
        S: * CAPABILITY IMAP4rev1 …
        S: a OK [REFERRAL {URL}] …
        "#,
    ));
}

/// RFC 2221 §3: BYE may have the code, too. A mailbox that has moved is not changed here any more.
#[test]
fn sessions_end_once_the_account_has_moved() {
    if posthaste_testkit::skips_cluster("the harness compares accounts in one poll") {
        return;
    }
    let server = Server::start();
    let (mut one, mut other) = (server.login(), server.select("INBOX"));
    server.refer(Some(Referral { url: URL.to_owned(), admits: false }));
    server.compare_accounts();
    for wire in [&mut one, &mut other] {
        wire.run(&format!("C: a CREATE Late\nS: * BYE [REFERRAL {URL}] …"));
        wire.expect_end();
    }
    server.refer(None);
    server.login().run("C: a LIST \"\" Late\nS: a OK …");
}
