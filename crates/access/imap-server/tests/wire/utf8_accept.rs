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

/// RFC 6855 §3
#[test]
fn names_that_are_no_utf8_end_in_bad() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a ENABLE UTF8=ACCEPT\nS~ a OK …");
    for (at, command) in [
        "CREATE \"?\"",
        "STATUS \"?\" (MESSAGES)",
        "LIST \"\" \"?*\"",
        "RENAME a \"?\"",
        "APPEND \"?\" {1+}\r\nx",
    ]
    .iter()
    .enumerate()
    {
        for octets in [&b"\xff\xfe"[..], b"\xc3", b"\xed\xa0\x80"] {
            let (before, after) = command.split_once('?').unwrap();
            wire.send(&[format!("b{at} {before}").as_bytes(), octets, after.as_bytes(), b"\r\n"].concat());
            wire.run(&format!("S: b{at} BAD …"));
        }
    }
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
