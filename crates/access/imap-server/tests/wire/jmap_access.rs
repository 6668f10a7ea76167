//! JMAPACCESS: RFC 9698.

use posthaste_imap_server::ImapOptions;

use crate::harness::Server;

const URL: &str = "https://mail.example.org/.well-known/jmap";

#[test]
fn the_url_of_the_jmap_session_is_reported_after_login() {
    let server = Server::start_with(ImapOptions { jmap_url: Some(URL.to_owned()), ..ImapOptions::default() });
    let mut client = server.connect();
    client.run(
        r#"
        C: a GETJMAPACCESS
        S: a BAD …
        "#,
    );
    client.send(b"b CAPABILITY\r\n");
    assert!(!client.line().unwrap().contains("JMAPACCESS"));
    let mut client = server.login();
    client.run(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY … JMAPACCESS …
        S: a OK …
        C: b GETJMAPACCESS
        S: * JMAPACCESS "https://mail.example.org/.well-known/jmap"
        S: b OK GETJMAPACCESS completed
        C: c SELECT INBOX
        S~ c OK …
        C: d GETJMAPACCESS
        S: * JMAPACCESS "https://mail.example.org/.well-known/jmap"
        S: d OK …
        C: e GETJMAPACCESS now
        S: e BAD …
        "#,
    );
}

#[test]
fn without_a_url_it_is_not_announced() {
    let server = Server::start();
    let mut client = server.login();
    client.send(b"a CAPABILITY\r\n");
    assert!(!client.line().unwrap().contains("JMAPACCESS"));
    client.run(
        r#"
        S: a OK …
        C: b GETJMAPACCESS
        S: b BAD …
        "#,
    );
}
