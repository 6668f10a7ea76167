//! Greeting, login in all its forms, STARTTLS, and what is legal when: RFC 9051 §3, §6.1, §6.2.

use std::sync::Arc;
use std::time::Duration;

use posthaste_imap_server::{ClearTextLogin, ImapOptions};
use posthaste_net::Certificates;

use crate::harness::{PASSWORD, Server, USER};

#[test]
fn greeting_capability_id_noop_logout() {
    let server = Server::start();
    let mut wire = posthaste_testkit::Wire::connect(server.address());
    let greeting =
        wire.expect("* OK [CAPABILITY IMAP4rev1 IMAP4rev2 SASL-IR LITERAL+ ID ENABLE IDLE …] localhost …");
    assert!(greeting.contains(" AUTH=PLAIN") && greeting.contains(" AUTH=SCRAM-SHA-256"), "{greeting}");
    assert!(!greeting.contains("STARTTLS") && !greeting.contains("LOGINDISABLED"), "{greeting}");
    wire.run(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY IMAP4rev1 IMAP4rev2 …
        S: a OK CAPABILITY completed
        C: b NOOP
        S: b OK NOOP completed
        C: c ID ("name" "test" "version" NIL)
        S: * ID ("name" "Posthaste" "version" "…")
        S: c OK ID completed
        C: d id nil
        S: * ID (…)
        S: d OK ID completed
        C: e LOGOUT
        S: * BYE …
        S: e OK LOGOUT completed
        "#,
    );
    wire.expect_end();
}

#[test]
fn login_and_its_refusals() {
    let server = Server::start();
    let mut wire = server.connect();
    wire.run(&format!(
        r#"
        C: a LOGIN {USER} wrong
        S: a NO [AUTHENTICATIONFAILED] …
        C: b LOGIN nobody wrong
        S: b NO [AUTHENTICATIONFAILED] …
        C: c LOGIN {{{}}}
        S: + …
        C: {USER} {{{}+}}
        C: {PASSWORD}
        S: c OK [CAPABILITY …] Logged in
        C: d LOGIN again again
        S: d BAD …
        C: e CAPABILITY
        S: * CAPABILITY … QRESYNC … APPENDLIMIT=67108864 COMPRESS=DEFLATE
        S: e OK …
        "#,
        USER.len(),
        PASSWORD.len()
    ));
}

#[test]
fn failures_of_others_on_loopback_refuse_nobody() {
    let server = Server::start();
    std::thread::scope(|scope| {
        for n in 0..65 {
            let mut wire = server.connect();
            let guess = format!("C: a LOGIN u{n}@example.org wrong\nS: a NO [AUTHENTICATIONFAILED] …");
            scope.spawn(move || {
                wire.run(&guess);
            });
        }
    });
    // Her first login from here.
    server.login();
}

#[test]
fn authenticate() {
    let server = Server::start();
    // \0ana@example.org\0sesame street
    let plain = "AGFuYUBleGFtcGxlLm9yZwBzZXNhbWUgc3RyZWV0";
    server.connect().run(&format!("C: a AUTHENTICATE PLAIN {plain}\nS: a OK [CAPABILITY …] Logged in"));
    server.connect().run(&format!(
        r#"
        C: a AUTHENTICATE PLAIN
        S: +…
        C: {plain}
        S: a OK [CAPABILITY …] Logged in
        "#
    ));
    server.connect().run(
        r#"
        C: a AUTHENTICATE LOGIN
        S: + VXNlcm5hbWU6
        C: YW5hQGV4YW1wbGUub3Jn
        S: + UGFzc3dvcmQ6
        C: c2VzYW1lIHN0cmVldA==
        S: a OK [CAPABILITY …] Logged in
        "#,
    );
    server.connect().run(
        r#"
        C: a AUTHENTICATE PLAIN
        S: +…
        C: *
        S: a BAD AUTHENTICATE cancelled
        C: b AUTHENTICATE PLAIN
        S: +…
        C: !!!
        S: b BAD …
        C: c AUTHENTICATE GSSAPI
        S: c NO [CANNOT] …
        C: d AUTHENTICATE PLAIN AGFuYUBleGFtcGxlLm9yZwB3cm9uZw==
        S: d NO [AUTHENTICATIONFAILED] …
        "#,
    );
}

#[test]
fn no_password_in_the_clear() {
    let options = ImapOptions { clear_text_login: ClearTextLogin::Never, ..ImapOptions::default() };
    let server = Server::start_with(options);
    let mut wire = posthaste_testkit::Wire::connect(server.address());
    let greeting = wire.expect("* OK [CAPABILITY … LOGINDISABLED …");
    assert!(!greeting.contains("AUTH=PLAIN"), "{greeting}");
    wire.run(&format!(
        r#"
        C: a LOGIN {USER} x
        S: a NO [PRIVACYREQUIRED] …
        C: b AUTHENTICATE PLAIN
        S: b NO [PRIVACYREQUIRED] …
        "#
    ));
}

#[test]
fn scram_in_the_clear_only_where_the_configuration_has_it() {
    // "n,,n=ana@example.org,r=nonce"
    const FIRST: &str = "biwsbj1hbmFAZXhhbXBsZS5vcmcscj1ub25jZQ==";
    let server = |scram| {
        let login = ClearTextLogin::Never;
        Server::start_with(ImapOptions {
            clear_text_login: login,
            clear_text_scram: scram,
            ..ImapOptions::default()
        })
    };
    let closed = server(ClearTextLogin::Never);
    let mut wire = posthaste_testkit::Wire::connect(closed.address());
    let greeting = wire.expect("* OK [CAPABILITY … LOGINDISABLED…");
    assert!(!greeting.contains("AUTH="), "{greeting}");
    wire.run(&format!("C: a AUTHENTICATE SCRAM-SHA-256 {FIRST}\nS: a NO [PRIVACYREQUIRED] …"));
    let open = server(ClearTextLogin::Loopback);
    let mut wire = posthaste_testkit::Wire::connect(open.address());
    wire.expect("* OK [CAPABILITY … LOGINDISABLED AUTH=SCRAM-SHA-256] …");
    wire.run(&format!("C: a AUTHENTICATE SCRAM-SHA-256 {FIRST}\nS: + …\nC: *\nS: a BAD …"));
}

#[test]
fn the_lines_of_an_exchange_obey_the_deadline_of_the_login() {
    // Silence alone would be borne for an hour.
    let hour = Duration::from_secs(3600);
    let options = ImapOptions {
        pre_login_within: hour,
        login_within: Duration::from_millis(300),
        ..ImapOptions::default()
    };
    let server = Server::start_with(options);
    // On a busy machine the deadline may come before the exchange begins: then it is tried again.
    loop {
        let mut wire = posthaste_testkit::Wire::connect(server.address());
        wire.send(b"a AUTHENTICATE LOGIN\r\n");
        wire.expect("* OK …");
        match wire.line() {
            Some(line) if line.starts_with("* BYE ") => {}
            Some(line) if line.starts_with("+ ") => {
                wire.run("S: * BYE …").expect_end();
                return;
            }
            line => panic!("{line:?}"),
        }
    }
}

#[test]
fn a_noop_does_not_reset_the_count_of_bad_commands() {
    let server = Server::start();
    let mut wire = server.connect();
    for _ in 0..4 {
        wire.run("C: a NONSENSE\nS: a BAD …\nC: b NOOP\nS: b OK …\nC: c CAPABILITY\nS: * …\nS: c OK …");
    }
    wire.run("C: a NONSENSE\nS: a BAD …\nS: * BYE Too many bad commands").expect_end();
}

#[test]
fn states() {
    let server = Server::start();
    server.connect().run(
        r#"
        C: a SELECT INBOX
        S: a BAD SELECT cannot be given in this state
        C: b FETCH 1 FLAGS
        S: b BAD …
        C: c STARTTLS
        S: c BAD …
        "#,
    );
    server.login().run(
        r#"
        C: a FETCH 1 FLAGS
        S: a BAD FETCH cannot be given in this state
        C: b CLOSE
        S: b BAD …
        C: c UNSELECT
        S: c BAD …
        C: d EXPUNGE
        S: d BAD …
        C: e STARTTLS
        S: e BAD …
        C: f AUTHENTICATE PLAIN
        S: f BAD …
        "#,
    );
}

#[test]
fn starttls() {
    let certificates = Certificates::self_signed_in_memory("localhost").unwrap();
    let trusted = certificates.leaf();
    let options = ImapOptions { clear_text_login: ClearTextLogin::Never, ..ImapOptions::default() };
    let server = Server::start_tls(options, Some(certificates));
    let mut wire = posthaste_testkit::Wire::connect(server.address());
    wire.run(
        "S: * OK [CAPABILITY … STARTTLS LOGINDISABLED …\nC: a STARTTLS\nS: a OK Begin TLS negotiation now",
    );
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted).unwrap();
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    let session = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let tls = rustls::StreamOwned::new(session, wire.into_stream());
    let mut wire = posthaste_testkit::Wire::over(tls);
    wire.run(&format!(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY … AUTH=SCRAM-SHA-256-PLUS AUTH=SCRAM-SHA-256 AUTH=PLAIN AUTH=LOGIN
        S: a OK …
        C: b LOGIN {USER} "{PASSWORD}"
        S: b OK …
        C: c STARTTLS
        S: c BAD …
        C: d SELECT INBOX
        S~ d OK …
        "#
    ));
}

#[test]
fn octets_after_starttls_in_clear_are_refused() {
    let certificates = Certificates::self_signed_in_memory("localhost").unwrap();
    let server = Server::start_tls(ImapOptions::default(), Some(certificates));
    let mut wire = server.connect();
    wire.send(b"a STARTTLS\r\nb NOOP\r\n");
    wire.run("S: a BAD …\nS: * BYE …").expect_end();
}

#[test]
fn a_shutdown_says_bye() {
    let mut server = Server::start();
    let (mut one, mut two, mut idle) = (server.connect(), server.select("INBOX"), server.select("INBOX"));
    idle.run("C: i IDLE\nS: + idling");
    server.shut_down();
    one.run("S: * BYE …").expect_end();
    two.run("S: * BYE …").expect_end();
    idle.run("S: i OK …\nS: * BYE …").expect_end();
}
