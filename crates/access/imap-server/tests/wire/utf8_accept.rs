//! UTF8=ACCEPT: RFC 6855.

use crate::harness::{Server, fetch_text};

#[test]
fn names_and_strings_are_utf8_once_it_is_enabled() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY … UTF8=ACCEPT …
        S: a OK …
        C: b CREATE "Entw&APw-rfe"
        S: b OK …
        C: c ENABLE UTF8=ACCEPT
        S: * ENABLED UTF8=ACCEPT
        S: c OK …
        C: d ENABLE utf8=accept
        S: * ENABLED
        S: d OK …
        C: e LIST "" Ent*
        S: * LIST (\HasNoChildren) "/" "Entwürfe"
        S: e OK …
        C: f STATUS "Entwürfe" (MESSAGES)
        S: * STATUS "Entwürfe" (MESSAGES 0)
        S: f OK …
        # `&` is a letter.
        C: g CREATE "R&D"
        S: g OK …
        C: h SUBSCRIBE "R&D"
        S: h OK …
        # It is not IMAP4rev2: RECENT stays, and SEARCH answers SEARCH.
        C: i SELECT "Entwürfe"
        S~ i OK …
        C: j SEARCH ALL
        S: * SEARCH
        S: j OK …
        # RFC 6855 §3: a search names no charset, and its text is UTF-8.
        C: k SEARCH CHARSET UTF-8 SUBJECT x
        S: k BAD …
        "#,
    );
    server.login().run("C: a LIST \"\" R*\nS: * LIST (\\HasNoChildren) \"/\" R&-D\nS: a OK …");
}

#[test]
fn a_message_with_a_header_in_utf8_comes_and_goes() {
    let server = Server::start();
    let mut wire = server.login();
    let message = "Subject: Grüße\r\nFrom: Jürgen <jürgen@example.org>\r\n\r\nGuten Tag.\r\n";
    wire.run("C: c ENABLE UTF8=ACCEPT\nS~ c OK …\nC: s SELECT INBOX\nS~ s OK …");
    // RFC 6855 §4.
    wire.send(format!("p APPEND INBOX UTF8 (~{{{}+}}\r\n{message})\r\n", message.len()).as_bytes());
    wire.run(
        r#"
        S~ p OK [APPENDUID …
        C: k SEARCH SUBJECT "grüße"
        S: * SEARCH 1
        S: k OK …
        "#,
    );
    let envelope = fetch_text(&mut wire, 1, "ENVELOPE");
    for text in ["Grüße", "Jürgen", "jürgen"] {
        assert!(envelope.contains(text), "{envelope}");
    }
}
