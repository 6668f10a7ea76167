//! DIGEST.SHA1: DIGEST=SHA1, an extension of Cyrus. It is the SHA-1 of the bytes that BINARY[] has.

use crate::harness::{Server, fetch_text};

/// Computed by Python's hashlib. The first message has a NUL. The second one is read in pieces.
#[test]
fn a_digest_is_of_all_bytes_of_the_message() {
    let server = Server::start();
    let header = &b"Subject: digest\r\n\r\n"[..];
    server.put("INBOX (\\Seen)", &[header, b"a\0b\r\n"].concat());
    server.put("INBOX", &[header, &b"0123456789abcde\n".repeat(40_000)].concat());
    let mut wire = server.login();
    wire.run("C: a SELECT INBOX\nS~ a OK …");
    assert_eq!(
        fetch_text(&mut wire, 1, "DIGEST.SHA1"),
        "DIGEST.SHA1 29a2c7556b3880a33785962f8f77e0492204ce16"
    );
    assert_eq!(
        fetch_text(&mut wire, 2, "DIGEST.SHA1"),
        "DIGEST.SHA1 f430b5ed0049d7a4ff469d97b1b1db78b4eb44bc"
    );
    // It sets no \Seen, and the name is as in other items: in any case, and without a section.
    wire.run(
        r#"
        C: b UID FETCH 2 (FLAGS digest.sha1)
        S: * 2 FETCH (UID 2 FLAGS (\Recent) DIGEST.SHA1 f430b5ed0049d7a4ff469d97b1b1db78b4eb44bc)
        S: b OK …
        C: c FETCH 1 DIGEST.SHA1[1]
        S: c BAD …
        C: d FETCH 1 DIGEST.MD5
        S: d BAD …
        "#,
    );
}
