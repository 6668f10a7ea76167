//! Recipients at addresses, `ana@[192.0.2.1]` (RFC 5321 §4.1.3), and a CR without LF in a header.

use posthaste_smtp_server::Role;

use crate::talk::Setup;

async fn rcpt(role: Role, greeting: &str) -> crate::talk::Server {
    let mut setup = Setup::new(role);
    setup.options.domain = Some("example.org".to_owned());
    setup.options.host = "mail.example.org".to_owned();
    let server = setup.start().await;
    let mut client = server.connect().await;
    client
        .play(&format!(
            "S: 220 …
             C: {greeting}
             S: 250 …
             C: MAIL FROM:<x@example.net>
             C: RCPT TO:<ana@[127.0.0.1]>
             C: RCPT TO:<INFO+x@[IPv6:::ffff:127.0.0.1]>
             C: RCPT TO:<nobody@[127.0.0.1]>
             C: RCPT TO:<ana@[127.0.0.2]>
             C: RCPT TO:<ana@[IPv6:::1]>
             C: RCPT TO:<ana@[localhost]>
             C: RCPT TO:<postmaster@[192.0.2.1]>
             C: BDAT 0 LAST
             S: 250 2.1.0 …
             S: 250 2.1.5 …
             S: 250 2.1.5 …
             S: 550 5.1.1 No such user here
             S: 550 5.1.2 Mail for that address literal is not accepted here; name a domain
             S: 550 5.1.2 Mail for that address literal is not accepted here; name a domain
             S: 550 5.1.2 Mail for that address literal is not accepted here; name a domain
             S: 550 5.1.2 Mail for that address literal is not accepted here; name a domain
             S: 250 2.0.0 Delivered, id …"
        ))
        .await;
    server
}

#[tokio::test]
async fn the_address_of_the_listener_is_its_first_domain() {
    let server = rcpt(Role::Smtp, "HELO a.example").await;
    assert_eq!(server.inbox("ana@example.org").await.len(), 1);
}

#[tokio::test]
async fn the_postmaster_of_an_address_is_the_bare_one() {
    let mut setup = Setup::new(Role::Smtp);
    setup.options.domain = Some("example.org".to_owned());
    let server = setup.start().await;
    server.delivery.directory().aliases().add("postmaster@example.org", "ben@example.org").await.unwrap();
    let mut client = server.connect().await;
    client
        .play(
            "S: 220 …
             C: HELO a.example
             S: 250 …
             C: MAIL FROM:<>
             C: RCPT TO:<Postmaster@[127.0.0.1]>
             C: BDAT 0 LAST
             S: 250 2.1.0 …
             S: 250 2.1.5 …
             S: 250 2.0.0 Delivered, id …",
        )
        .await;
    assert_eq!(server.inbox("ben@example.org").await.len(), 1);
}

/// RFC 5321 §2.3.8. LMTP peers pass on what strangers sent.
#[tokio::test]
async fn a_bare_cr_in_a_header_is_refused_by_lmtp_too() {
    for (role, greeting) in [(Role::Smtp, "HELO a.example"), (Role::Lmtp, "LHLO a.example")] {
        let server = Setup::new(role).start().await;
        let mut client = server.connect().await;
        let hello = if role == Role::Lmtp { "S* 250 HELP" } else { "S: 250 …" };
        client
            .play(&format!(
                "S: 220 …
                 C: {greeting}
                 {hello}
                 C: MAIL FROM:<x@example.net>
                 C: RCPT TO:<ana@example.org>
                 C: DATA
                 S: 250 2.1.0 …
                 S: 250 2.1.5 …
                 S: 354 …"
            ))
            .await;
        client.send(b"Subject: a\rBcc: x@example.net\r\n\r\nwords\r\n.\r\n").await;
        client.play("S: 550 5.6.0 The header has a CR without LF: end each line with CR LF").await;
        assert!(server.inbox("ana@example.org").await.is_empty());
    }
}
