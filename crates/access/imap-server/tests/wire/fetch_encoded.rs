//! Messages within a message that are in base64 or quoted-printable: they are served as messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::harness::{Server, fetch, fetch_text, literal};

/// The message within, and the sections of it.
const HEADER: &str = "Subject: =?utf-8?q?=C3=A4?=\r\nFrom: b@x.test\r\nReceived: by d\r\n\
                      Content-Type: multipart/mixed; boundary=i\r\n\r\n";
const PART: &str =
    "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n";

fn inner(filler: usize) -> String {
    let text = "filler line\r\n".repeat(filler);
    format!(
        "{HEADER}--i\r\n{PART}gr=C3=BCn\r\n--i\r\nContent-Type: message/rfc822\r\n\r\nSubject: deep\r\n\r\n{text}\r\n--i--\r\n"
    )
}

/// A message that has the one within, encoded so.
fn outer(encoding: &str, inner: &str) -> String {
    let encoded = match encoding {
        "base64" => {
            let lines = STANDARD.encode(inner);
            lines
                .as_bytes()
                .chunks(76)
                .map(|line| format!("{}\r\n", str::from_utf8(line).expect("ASCII")))
                .collect()
        }
        "quoted-printable" => inner.replace('=', "=3D"),
        _ => inner.to_owned(),
    };
    format!(
        "Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\n\r\nfirst\r\n--o\r\nContent-Type: message/rfc822\r\n\
         Content-Transfer-Encoding: {encoding}\r\nContent-Disposition: attachment; filename=a.eml\r\n\r\n{encoded}\r\n--o--\r\n"
    )
}

/// RFC 9051 §6.4.5.1: a message has parts, "referring to parts of the MESSAGE part's body". All of
/// them are those of the same message in 8bit; only its own bytes stay encoded. The larger message
/// is read piece by piece.
#[test]
fn sections_belong_to_the_decoded_message() {
    let server = Server::start();
    for filler in [1, 20_000] {
        let inner = inner(filler);
        for encoding in ["8bit", "base64", "quoted-printable"] {
            server.put("INBOX", outer(encoding, &inner).as_bytes());
        }
    }
    let mut wire = server.select("INBOX");
    for item in [
        "BODY.PEEK[2.HEADER]",
        "BODY.PEEK[2.TEXT]",
        "BODY.PEEK[2.HEADER.FIELDS (Subject Received)]",
        "BODY.PEEK[2.HEADER.FIELDS.NOT (Subject)]<3.9>",
        "BODY.PEEK[2.1]",
        "BODY.PEEK[2.1.MIME]",
        "BODY.PEEK[2.2]<5.20>",
        "BODY.PEEK[2.2.HEADER]",
        "BODY.PEEK[2.2.1]",
        "BODY.PEEK[2.3]",
        "BODY.PEEK[2.1.1]",
        "BODY.PEEK[2.1.TEXT]",
        "BINARY.PEEK[2]",
        "BINARY.PEEK[2]<4.20>",
        "BINARY.SIZE[2]",
        "BINARY.PEEK[2.1]",
        "BINARY.PEEK[2.1]<2.3>",
        "BINARY.SIZE[2.1]",
        "BINARY.PEEK[2.2]",
        "BINARY.SIZE[2.3]",
    ] {
        for first in [1, 4] {
            let expected = fetch_text(&mut wire, first, item);
            for number in [first + 1, first + 2] {
                assert_eq!(fetch_text(&mut wire, number, item), expected, "{item} of {number}");
            }
        }
    }
    assert_eq!(fetch_text(&mut wire, 2, "BODY.PEEK[2.HEADER]"), literal("BODY[2.HEADER]", HEADER));
    assert_eq!(fetch_text(&mut wire, 2, "BINARY.PEEK[2.1]"), literal("BINARY[2.1]", "gr\u{fc}n"));
    // Several items of one message, which is decoded once.
    for number in [2, 5] {
        let answer =
            fetch_text(&mut wire, number, "(BINARY.PEEK[2.1] BODY.PEEK[2.2.HEADER] BINARY.SIZE[2.1])");
        assert!(answer.starts_with("BINARY[2.1] {5}"), "{answer}");
        assert!(answer.ends_with("BINARY.SIZE[2.1] 5"), "{answer}");
    }
}

/// The envelope and the parts are those of the decoded message; size and lines are those of the
/// encoded bytes, which BODY[2] sends.
#[test]
fn bodystructure_has_the_decoded_message() {
    let server = Server::start();
    let inner = inner(1);
    let mut structures = Vec::new();
    for encoding in ["8bit", "base64", "quoted-printable"] {
        server.put("INBOX", outer(encoding, &inner).as_bytes());
    }
    let mut wire = server.select("INBOX");
    for number in 1..=3 {
        let structure = fetch_text(&mut wire, number, "BODYSTRUCTURE");
        let start = structure.find("(NIL \"=?utf-8?q?=C3=A4?=\"").expect(&structure);
        let end = structure.find(" \"mixed\" (\"boundary\" \"i\")").expect(&structure);
        structures.push(structure[start..end].to_owned());
    }
    assert_eq!(structures[0], structures[1]);
    assert_eq!(structures[0], structures[2]);
    let encoded = STANDARD.encode(&inner);
    let size = encoded.len() + encoded.len().div_ceil(76) * 2;
    let structure = fetch_text(&mut wire, 2, "BODY");
    let part = format!("(\"message\" \"rfc822\" NIL NIL NIL \"base64\" {size} (");
    assert!(structure.contains(&part), "{structure} has no {part}");
    assert!(fetch_text(&mut wire, 2, "BODY.PEEK[2]").starts_with(&format!("BODY[2] {{{size}}}")));
}

/// A NUL goes out in BINARY alone, also from a message that was decoded.
#[test]
fn nul_in_a_decoded_message() {
    let server = Server::start();
    server.put("INBOX", outer("base64", "Subject: x\r\n\r\na\0b").as_bytes());
    let mut wire = server.select("INBOX");
    assert_eq!(fetch(&mut wire, 1, "BODY.PEEK[2.1]"), b"BODY[2.1] {3}\r\na\x80b");
    assert_eq!(fetch(&mut wire, 1, "BINARY.PEEK[2.1]"), b"BINARY[2.1] ~{3}\r\na\0b");
}
