//! BINARY, BINARY.PEEK, BINARY.SIZE: RFC 9051 §6.4.5, RFC 3516.

use crate::harness::{Server, fetch, fetch_text, literal};

const MIXED: &str = "\
Content-Type: multipart/mixed; boundary=b\n\
\n\
--b\n\
Content-Transfer-Encoding: base64\n\
\n\
aGVs\n\
bG8=\n\
--b\n\
Content-Transfer-Encoding: Quoted-Printable\n\
\n\
soft=\n\
\x20break=3D \n\
end\n\
--b\n\
Content-Type: application/octet-stream\n\
Content-Transfer-Encoding: base64\n\
\n\
YQBiAA==\n\
--b\n\
Content-Transfer-Encoding: x-unheard-of\n\
\n\
?\n\
--b\n\
\n\
as it is\n\
--b\n\
Content-Transfer-Encoding: base64\n\
\n\
--b\n\
Content-Type: message/rfc822\n\
\n\
Content-Transfer-Encoding: base64\n\
\n\
aW5uZXI=\n\
--b--\n";

#[test]
fn transfer_encodings_are_undone() {
    let server = Server::start();
    let mut wire = server.with_message(MIXED);
    for (part, content) in [
        ("1", "hello"),
        ("2", "soft break=\r\nend"),
        ("5", "as it is"),
        ("6", ""),
        ("7", "Content-Transfer-Encoding: base64\r\n\r\naW5uZXI="),
        ("7.1", "inner"),
    ] {
        let answer = fetch_text(&mut wire, 1, &format!("BINARY.PEEK[{part}]"));
        assert_eq!(answer, literal(&format!("BINARY[{part}]"), content));
        let answer = fetch_text(&mut wire, 1, &format!("BINARY.SIZE[{part}]"));
        assert_eq!(answer, format!("BINARY.SIZE[{part}] {}", content.len()));
    }
    // RFC 9051 §4.3: data with a NUL is a literal8.
    assert_eq!(fetch(&mut wire, 1, "BINARY.PEEK[3]"), b"BINARY[3] ~{4}\r\na\0b\0");
    assert_eq!(fetch(&mut wire, 1, "BINARY.PEEK[3]<0.1>"), b"BINARY[3]<0> {1}\r\na");
    assert_eq!(fetch(&mut wire, 1, "BINARY.PEEK[3]<1.9>"), b"BINARY[3]<1> ~{3}\r\n\0b\0");
    assert_eq!(fetch_text(&mut wire, 1, "BINARY.PEEK[1]<1.3>"), literal("BINARY[1]<1>", "ell"));
    assert_eq!(fetch_text(&mut wire, 1, "BINARY.PEEK[1]<9.3>"), literal("BINARY[1]<9>", ""));
    assert_eq!(fetch_text(&mut wire, 1, "BINARY.PEEK[9]"), "BINARY[9] NIL");
    assert_eq!(fetch_text(&mut wire, 1, "BINARY.SIZE[9]"), "BINARY.SIZE[9] 0");
    let whole = MIXED.replace('\n', "\r\n");
    assert_eq!(fetch_text(&mut wire, 1, "BINARY.PEEK[]"), literal("BINARY[]", &whole));
}

#[test]
fn an_unknown_encoding_is_reported() {
    let server = Server::start();
    server.with_message(MIXED).run(
        r#"
        C: a FETCH 1 BINARY.PEEK[4]
        S: a NO [UNKNOWN-CTE] …
        C: b FETCH 1 (UID BINARY.SIZE[4])
        S: b NO [UNKNOWN-CTE] …
        C: c FETCH 1 BODY.PEEK[4]
        S: * 1 FETCH (BODY[4] {1}
        S: ?)
        S: c OK …
        C: d FETCH 1 (BINARY.SIZE[1] BINARY.PEEK[1] UID)
        S: * 1 FETCH (BINARY.SIZE[1] 5 BINARY[1] {5}
        S: hello UID 1)
        S: d OK …
        C: e FETCH 1 BINARY[1.MIME]
        S: e BAD …
        C: f FETCH 1 BINARY.SIZE[1]<0.1>
        S: f BAD …
        C: g FETCH 1 BINARY[1]
        S: * 1 FETCH (FLAGS (\Recent \Seen) BINARY[1] {5}
        S: hello)
        S: g OK …
        "#,
    );
}

#[test]
fn messages_with_nuls_are_accepted_and_returned() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a APPEND INBOX ~{28}\nS: + …");
    wire.send(b"Subject: nul\r\n\r\n\0ne\0\r\nend\0\r\n\r\n");
    wire.run("S: a OK [APPENDUID … 1] …\nC: b SELECT INBOX\nS~ b OK …");
    assert_eq!(fetch(&mut wire, 1, "BINARY.PEEK[1]"), b"BINARY[1] ~{12}\r\n\0ne\0\r\nend\0\r\n");
    assert_eq!(fetch(&mut wire, 1, "BODY.PEEK[TEXT]<0.2>"), b"BODY[TEXT]<0> {2}\r\n\x80n");
}

#[test]
fn a_message_that_is_encoded_whole() {
    let server = Server::start();
    let mut wire =
        server.with_message("Content-Type: image/png\nContent-Transfer-Encoding: base64\n\nAP8A\n");
    assert_eq!(fetch(&mut wire, 1, "BINARY.PEEK[1]"), b"BINARY[1] ~{3}\r\n\0\xff\0");
    assert_eq!(fetch_text(&mut wire, 1, "BINARY.SIZE[1]"), "BINARY.SIZE[1] 3");
}

/// A plain literal holds no NUL (RFC 9051 §9, CHAR8). Each is sent as 0x80, as by other servers.
/// Sizes stay right. BINARY has the bytes themselves.
#[test]
fn a_nul_goes_out_in_a_literal8_alone() {
    let server = Server::start();
    let header = b"Subject: a\0b\r\nX-Other: c\0\r\nFrom: d@x.test\r\n\r\n";
    let small = [&header[..], b"e\0\0f\r\n"].concat();
    // Its NULs are at the ends of the pieces in which it is read.
    let large = [&header[..], &b"0123456\0".repeat(80_000)].concat();
    for message in [&small, &large] {
        server.put("INBOX (\\Seen)", message);
    }
    let mut wire = server.select("INBOX");
    let plain = |bytes: &[u8]| bytes.iter().map(|&b| if b == 0 { 0x80 } else { b }).collect::<Vec<u8>>();
    for (number, message) in [(1, &small), (2, &large)] {
        let body = &message[header.len()..];
        for (item, bytes) in [
            ("BODY[]", &message[..]),
            ("BODY[1]", body),
            ("BODY[TEXT]", body),
            ("BODY[HEADER]", &header[..]),
            ("BODY[HEADER.FIELDS (SUBJECT)]", b"Subject: a\0b\r\n\r\n"),
            ("BODY[HEADER.FIELDS (X-OTHER)]", b"X-Other: c\0\r\n\r\n"),
            ("RFC822", &message[..]),
            ("RFC822.TEXT", body),
            ("RFC822.HEADER", &header[..]),
        ] {
            let expected = [format!("{item} {{{}}}\r\n", bytes.len()).as_bytes(), &plain(bytes)].concat();
            assert!(fetch(&mut wire, number, item) == expected, "{item} of {number}");
        }
        let expected = [format!("BINARY[1] ~{{{}}}\r\n", body.len()).as_bytes(), body].concat();
        assert!(fetch(&mut wire, number, "BINARY[1]") == expected, "BINARY[1] of {number}");
        let size = fetch(&mut wire, number, "RFC822.SIZE");
        assert_eq!(size, format!("RFC822.SIZE {}", message.len()).into_bytes());
    }
}
