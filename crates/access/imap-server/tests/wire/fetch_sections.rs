//! FETCH of header, text and parts without decoding, whole and in part: RFC 9051 §6.4.5, RFC 3501
//! §6.4.5.

use crate::harness::{Server, fetch_text, literal};

/// Two parts, the second a message with two parts of its own; fields that summaries keep and fields
/// they do not.
const NESTED: &str = "\
Received: by a\n\
From: ana@x.test\n\
Received: by b\n\
\tfor c\n\
To: b@x.test,\n\
\x20c@x.test\n\
Subject: outer\n\
X-Own: 1\n\
DKIM-Signature: v=1\n\
X-Own: 2\n\
Content-Type: multipart/mixed; boundary=o\n\
\n\
preamble\n\
--o\n\
Content-Type: text/plain\n\
X-Mime: one\n\
\n\
first\n\
--o\n\
Content-Type: message/rfc822\n\
\n\
Subject: inner\n\
Received: by d\n\
Content-Type: multipart/alternative; boundary=i\n\
\n\
--i\n\
\n\
plain\n\
--i\n\
Content-Type: text/html; charset=utf-8\n\
Content-Transfer-Encoding: quoted-printable\n\
\n\
<b>r=C3=ADch</b>\n\
--i--\n\
--o--\n\
epilogue\n";

/// `NESTED` as it is stored, from the first occurrence of one text to that of another behind it.
fn between(from: &str, to: &str) -> String {
    let stored = NESTED.replace('\n', "\r\n");
    let start = stored.find(&from.replace('\n', "\r\n")).expect("the beginning");
    let rest = &stored[start..];
    let end = if to.is_empty() { rest.len() } else { rest.find(&to.replace('\n', "\r\n")).expect("the end") };
    rest[..end].to_owned()
}

#[test]
fn sections_of_parts() {
    let server = Server::start();
    let mut wire = server.with_message(NESTED);
    for (section, content) in [
        ("1", "first".to_owned()),
        ("1.MIME", "Content-Type: text/plain\r\nX-Mime: one\r\n\r\n".to_owned()),
        ("2", between("Subject: inner", "\n--o--")),
        ("2.MIME", "Content-Type: message/rfc822\r\n\r\n".to_owned()),
        ("2.HEADER", between("Subject: inner", "--i\n")),
        ("2.TEXT", between("--i\n", "\n--o--")),
        ("2.HEADER.FIELDS (Received Subject)", "Subject: inner\r\nReceived: by d\r\n\r\n".to_owned()),
        (
            "2.HEADER.FIELDS.NOT (Received Subject)",
            "Content-Type: multipart/alternative; boundary=i\r\n\r\n".to_owned(),
        ),
        ("2.1", "plain".to_owned()),
        ("2.1.MIME", "\r\n".to_owned()),
        ("2.2", "<b>r=C3=ADch</b>".to_owned()),
        ("HEADER", between("Received: by a", "preamble")),
        ("TEXT", between("preamble", "")),
        ("", between("Received", "")),
    ] {
        let answer = fetch_text(&mut wire, 1, &format!("BODY.PEEK[{section}]"));
        assert_eq!(answer, literal(&format!("BODY[{section}]"), &content));
    }
    for section in ["3", "1.1", "1.HEADER", "1.TEXT", "2.3", "2.1.1", "2.1.HEADER", "4294967295"] {
        assert_eq!(
            fetch_text(&mut wire, 1, &format!("BODY.PEEK[{section}]")),
            format!("BODY[{section}] NIL")
        );
    }
    let absent = "BODY.PEEK[1.HEADER.FIELDS (Subject)]";
    assert_eq!(fetch_text(&mut wire, 1, absent), "BODY[1.HEADER.FIELDS (Subject)] NIL");
    for bad in ["0", "1.", "MIME", "HEADER.FIELDS", "HEADER.FIELDS ()", "1.0", "01", "TEXT.1", "4294967296"] {
        wire.run(&format!("C: b FETCH 1 BODY[{bad}]\nS: b BAD …"));
    }
}

/// RFC 9051 §6.4.5.1: fields in the order of the message, whichever way they are requested, and
/// wherever they are kept.
#[test]
fn header_fields() {
    let server = Server::start();
    let mut wire = server.with_message(NESTED);
    for (section, content) in [
        ("HEADER.FIELDS (X-Own To)", "To: b@x.test,\r\n c@x.test\r\nX-Own: 1\r\nX-Own: 2\r\n\r\n"),
        (
            "HEADER.FIELDS (SUBJECT Received dkim-signature x-own)",
            "Received: by a\r\nReceived: by b\r\n\tfor c\r\nSubject: outer\r\nX-Own: 1\r\nDKIM-Signature: v=1\r\n\
             X-Own: 2\r\n\r\n",
        ),
        ("HEADER.FIELDS (Absent X-Absent)", "\r\n"),
        (
            "HEADER.FIELDS.NOT (Received Content-Type To DKIM-Signature)",
            "From: ana@x.test\r\nSubject: outer\r\nX-Own: 1\r\nX-Own: 2\r\n\r\n",
        ),
        (
            "HEADER.FIELDS.NOT (Content-Type To X-Own)",
            "Received: by a\r\nFrom: ana@x.test\r\nReceived: by b\r\n\tfor c\r\nSubject: outer\r\nDKIM-Signature: v=1\r\n\r\n",
        ),
    ] {
        let answer = fetch_text(&mut wire, 1, &format!("BODY.PEEK[{section}]"));
        assert_eq!(answer, literal(&format!("BODY[{section}]"), content));
    }
    // Names that are not atoms are printed so that they can be read back; quoted as asked, they are
    // no others.
    assert_eq!(
        fetch_text(&mut wire, 1, "BODY.PEEK[HEADER.FIELDS (\"Subject\" \"a b\")]"),
        literal("BODY[HEADER.FIELDS (Subject \"a b\")]", "Subject: outer\r\n\r\n")
    );
}

#[test]
fn headers_that_end_otherwise() {
    let server = Server::start();
    for message in [
        "Subject: no body and no blank line",
        "Subject: with a line end\r\n",
        "Subject: blank line, no body\r\n\r\n",
        "\r\nno header\r\n",
        "not a field\r\nSubject: after it\r\nnor this\r\n\r\nbody",
        "Subject: bare\n\nbody\n",
    ] {
        server.put("INBOX", message.as_bytes());
    }
    let mut wire = server.select("INBOX");
    for (number, kept) in [
        (1, "Subject: no body and no blank line"),
        (2, "Subject: with a line end\r\n"),
        (3, "Subject: blank line, no body\r\n\r\n"),
        (4, "\r\n"),
        (5, "Subject: after it\r\n\r\n"),
        (6, "Subject: bare\n\n"),
    ] {
        // The second way opens the message, and answers the same.
        for names in ["Subject", "Subject Received"] {
            let section = format!("HEADER.FIELDS ({names})");
            let answer = fetch_text(&mut wire, number, &format!("BODY.PEEK[{section}]"));
            assert_eq!(answer, literal(&format!("BODY[{section}]"), kept));
        }
    }
    assert_eq!(fetch_text(&mut wire, 3, "BODY.PEEK[TEXT]"), literal("BODY[TEXT]", ""));
    assert_eq!(fetch_text(&mut wire, 4, "BODY.PEEK[TEXT]"), literal("BODY[TEXT]", "no header\r\n"));
    assert_eq!(fetch_text(&mut wire, 4, "BODY.PEEK[1]"), literal("BODY[1]", "no header\r\n"));
    assert_eq!(fetch_text(&mut wire, 6, "BODY.PEEK[]"), literal("BODY[]", "Subject: bare\n\nbody\n"));
}

#[test]
fn partial_ranges() {
    let server = Server::start();
    let mut wire = server.with_message("Subject: x\nReceived: y\n\n0123456789");
    for (item, answer) in [
        ("BODY.PEEK[TEXT]<0.4>", literal("BODY[TEXT]<0>", "0123")),
        ("BODY.PEEK[TEXT]<8.4>", literal("BODY[TEXT]<8>", "89")),
        ("BODY.PEEK[TEXT]<9.1>", literal("BODY[TEXT]<9>", "9")),
        ("BODY.PEEK[TEXT]<10.1>", literal("BODY[TEXT]<10>", "")),
        ("BODY.PEEK[TEXT]<4294967295.4294967295>", literal("BODY[TEXT]<4294967295>", "")),
        ("BODY.PEEK[]<0.99999>", literal("BODY[]<0>", "Subject: x\r\nReceived: y\r\n\r\n0123456789")),
        ("BODY.PEEK[1]<2.3>", literal("BODY[1]<2>", "234")),
        ("BODY.PEEK[HEADER]<3.5>", literal("BODY[HEADER]<3>", "ject:")),
        ("BODY.PEEK[HEADER.FIELDS (Subject)]<9.9>", literal("BODY[HEADER.FIELDS (Subject)]<9>", "x\r\n\r\n")),
        ("BODY.PEEK[HEADER.FIELDS (Received)]<10.2>", literal("BODY[HEADER.FIELDS (Received)]<10>", "y\r")),
        ("BODY.PEEK[HEADER.FIELDS (Subject)]<99.9>", literal("BODY[HEADER.FIELDS (Subject)]<99>", "")),
        ("BODY.PEEK[2]<1.1>", "BODY[2]<1> NIL".to_owned()),
        ("BINARY.PEEK[1]<2.3>", literal("BINARY[1]<2>", "234")),
        // Other servers accept a count of 0, and clients send it.
        ("BODY.PEEK[]<0.0>", literal("BODY[]<0>", "")),
        ("BODY.PEEK[TEXT]<4.0>", literal("BODY[TEXT]<4>", "")),
        ("BODY.PEEK[HEADER.FIELDS (Subject)]<2.0>", literal("BODY[HEADER.FIELDS (Subject)]<2>", "")),
        ("BINARY.PEEK[1]<0.0>", literal("BINARY[1]<0>", "")),
    ] {
        assert_eq!(fetch_text(&mut wire, 1, item), answer, "{item}");
    }
    wire.run("C: b FETCH 1 BODY.PEEK[]<5>\nS: b BAD …");
}

#[test]
fn fetch_items_that_set_seen_and_others() {
    let server = Server::start();
    server.with_messages(1);
    let mut wire = server.login();
    wire.run("C: x EXAMINE INBOX\nS~ x OK [READ-ONLY] …");
    for item in ["BODY[]", "RFC822", "RFC822.TEXT", "BODY[TEXT]", "BINARY[1]"] {
        wire.run(&format!("C: x FETCH 1 {item}\nS: * 1 FETCH ({item} {{…}}\nS~ x OK …"));
    }
    wire.run("C: x FETCH 1 FLAGS\nS: * 1 FETCH (FLAGS (\\Recent))\nS: x OK …\nC: s SELECT INBOX\nS~ s OK …");
    for item in [
        "BODY.PEEK[]",
        "BODY.PEEK[1]",
        "BINARY.PEEK[1]",
        "BINARY.SIZE[1]",
        "RFC822.HEADER",
        "RFC822.SIZE",
        "ENVELOPE",
        "BODY",
        "BODYSTRUCTURE",
        "PREVIEW",
        "FULL",
    ] {
        wire.run(&format!("C: p FETCH 1 {item}\nS~ p OK …"));
        assert_eq!(fetch_text(&mut wire, 1, "FLAGS"), "FLAGS (\\Recent)", "{item}");
    }
    for item in
        ["BODY[]", "BODY[TEXT]<0.1>", "BODY[HEADER]", "BODY[1.MIME]", "RFC822", "RFC822.TEXT", "BINARY[1]"]
    {
        wire.run(&format!(
            "C: u STORE 1 -FLAGS.SILENT (\\Seen)\nS: u OK …\nC: f FETCH 1 {item}\n\
             S: * 1 FETCH (FLAGS (\\Recent \\Seen) {}…\nS~ f OK …\nC: g FETCH 1 {item}\nS: * 1 FETCH ({}…\nS~ g OK …",
            item.split('<').next().unwrap_or_default(),
            item.split('<').next().unwrap_or_default(),
        ));
    }
    // The flags requested with it are those after it.
    wire.run(
        r#"
        C: u STORE 1 -FLAGS.SILENT (\Seen)
        S: u OK …
        C: f UID FETCH 1 (FLAGS BODY[TEXT])
        S: * 1 FETCH (UID 1 FLAGS (\Recent \Seen) BODY[TEXT] {9}
        S: Body 1.
        S: )
        S: f OK …
        "#,
    );
}

#[test]
fn macros_and_the_names_of_rev1() {
    let server = Server::start();
    server.put("INBOX \"01-Jan-2020 10:00:00 +0100\"", b"Subject: s\r\n\r\nb\r\n");
    server.select("INBOX").run(
        r#"
        C: a FETCH 1 FAST
        S: * 1 FETCH (FLAGS (\Recent) INTERNALDATE " 1-Jan-2020 09:00:00 +0000" RFC822.SIZE 17)
        S: a OK …
        C: b FETCH 1 ALL
        S: * 1 FETCH (FLAGS (\Recent) INTERNALDATE "…" RFC822.SIZE 17 ENVELOPE (NIL "s" NIL NIL NIL NIL NIL NIL NIL NIL))
        S: b OK …
        C: c FETCH 1 full
        S: * 1 FETCH (FLAGS (\Recent) INTERNALDATE "…" RFC822.SIZE 17 ENVELOPE (…) BODY ("text" "plain" ("charset" "us-ascii") NIL NIL "7bit" 3 1))
        S: c OK …
        C: d UID FETCH 1 (FAST)
        S: d BAD …
        C: e FETCH 1 (RFC822.HEADER RFC822.SIZE)
        S: * 1 FETCH (RFC822.HEADER {14}
        S: Subject: s
        S:
        S:  RFC822.SIZE 17)
        S: e OK …
        C: f UID FETCH 1 (RFC822.TEXT UID)
        S: * 1 FETCH (FLAGS (\Recent \Seen) RFC822.TEXT {3}
        S: b
        S:  UID 1)
        S: f OK …
        C: g FETCH 1 RFC822
        S: * 1 FETCH (RFC822 {17}
        S# 17
        S: )
        S: g OK …
        # An item asked for twice is answered once.
        C: h FETCH 1 (UID UID FLAGS)
        S: * 1 FETCH (UID 1 FLAGS (\Recent \Seen))
        S: h OK …
        C: i FETCH 1 ()
        S: i BAD …
        C: j FETCH 1 NONSENSE
        S: j BAD …
        C: k FETCH 2 UID
        S: k BAD …
        C: l FETCH 0 UID
        S: l BAD …
        "#,
    );
}

#[test]
fn sets_of_numbers() {
    let server = Server::start();
    server.with_messages(5);
    server.select("INBOX").run(
        r#"
        C: a STORE 2 +FLAGS.SILENT (\Deleted)
        S: a OK …
        C: b EXPUNGE
        S: * 2 EXPUNGE
        S: b OK …
        C: c FETCH 4,1:2,2 UID
        S: * 1 FETCH (UID 1)
        S: * 2 FETCH (UID 3)
        S: * 4 FETCH (UID 5)
        S: c OK …
        C: d UID FETCH 2:3,99 FLAGS
        S: * 2 FETCH (UID 3 FLAGS (\Recent))
        S: d OK …
        C: e UID FETCH 99:* UID
        S: * 4 FETCH (UID 5)
        S: e OK …
        C: f UID FETCH 2 FLAGS
        S: f OK …
        C: g FETCH *:3 UID
        S: * 3 FETCH (UID 4)
        S: * 4 FETCH (UID 5)
        S: g OK …
        C: h FETCH * (UID)
        S: * 4 FETCH (UID 5)
        S: h OK …
        C: i SELECT Drafts
        S~ i OK …
        C: j UID FETCH 1:* FLAGS
        S: j OK …
        C: k FETCH 1 FLAGS
        S: k BAD …
        "#,
    );
}
