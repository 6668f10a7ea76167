//! CATENATE: RFC 4469, with URLs of RFC 5092 and URL-PARTIAL of RFC 5550.

use posthaste_directory::AccountChange;
use posthaste_imap_server::ImapOptions;
use posthaste_net::ByteBudget;

use crate::harness::{Server, fetch, fetch_text, literal};

/// A message of two parts, its line ends LF.
const PARTS: &str = "Subject: parts\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n\
    --b\nContent-Type: text/plain\n\nfirst\n--b\nContent-Type: text/x-other\n\nsecond\n--b--\n";

#[test]
fn a_message_is_put_together_from_texts_and_parts() {
    let server = Server::start();
    let mut wire = server.with_message(PARTS);
    // After RFC 4469 Appendix A.
    wire.run(
        r#"
        C: a APPEND Drafts (\Seen \Draft $Mine) "02-Jan-2020 10:00:00 +0000" CATENATE (URL "/INBOX/;UID=1/;SECTION=HEADER" TEXT {12}
        S: + …
        C: --b
        C:
        C: new
        C:  URL ";UID=1/;SECTION=2" TEXT {7+}
        C: 
        C: --b--)
        S: a OK [APPENDUID … 1] APPEND completed
        "#,
    );
    let mut drafts = server.select("Drafts");
    let whole = "Subject: parts\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
        --b\r\n\r\nnew\r\nsecond\r\n--b--";
    assert_eq!(fetch_text(&mut drafts, 1, "BODY.PEEK[]"), literal("BODY[]", whole));
    assert_eq!(
        fetch_text(&mut drafts, 1, "(FLAGS INTERNALDATE)"),
        "FLAGS (\\Recent \\Seen \\Draft $Mine) INTERNALDATE \" 2-Jan-2020 10:00:00 +0000\""
    );
}

#[test]
fn every_form_of_url() {
    let server = Server::start();
    let mut wire = server.with_message(PARTS);
    let mut validity = String::new();
    wire.send(b"v STATUS INBOX (UIDVALIDITY)\r\n");
    for line in wire.skip_to("v …") {
        if let Some((_, rest)) = line.split_once("(UIDVALIDITY ") {
            validity = rest.trim_end_matches(')').to_owned();
        }
    }
    let urls = [
        ("imap://ana@example.org@localhost/INBOX/;UID=1/;SECTION=1", "first"),
        ("imap://ana%40example.org@localhost/INBOX/;UID=1/;SECTION=1", "first"),
        ("imap://ana%40example.org;AUTH=*@localhost:143/INBOX/;UID=1/;SECTION=1", "first"),
        ("imap://example.org/INBOX/;UID=1/;SECTION=1", "first"),
        ("//localhost/INBOX/;UID=1/;SECTION=1", "first"),
        ("/inbox;UIDVALIDITY=VALIDITY/;UID=1/;SECTION=1", "first"),
        (";UID=1/;SECTION=1", "first"),
        ("/INBOX/;UID=1;section=2.MIME", "Content-Type: text/x-other\r\n\r\n"),
        ("/INBOX/;UID=1/;SECTION=HEADER.FIELDS%20(SUBJECT)", "Subject: parts\r\n\r\n"),
        ("/INBOX/;UID=1/;SECTION=HEADER.FIELDS.NOT%20(Content-Type%20Subject)", "MIME-Version: 1.0\r\n\r\n"),
        ("/INBOX/;UID=1/;PARTIAL=9.5", "parts"),
        ("/INBOX/;UID=1/;SECTION=2/;PARTIAL=3", "ond"),
        ("/INBOX/;UID=1/;SECTION=HEADER.FIELDS%20(SUBJECT)/;PARTIAL=9.5", "parts"),
        // A range after the end is empty, which is no fault (RFC 5092 §6).
        ("/INBOX/;UID=1/;SECTION=2/;PARTIAL=300.5", ""),
    ];
    let mut count = 0;
    for (url, text) in urls {
        let url = url.replace("VALIDITY=VALIDITY", &format!("VALIDITY={validity}"));
        wire.send(format!("a APPEND Drafts CATENATE (TEXT {{2+}}\r\n:  URL \"{url}\")\r\n").as_bytes());
        wire.expect("a OK [APPENDUID …] …");
        count += 1;
        let got = fetch(&mut server.select("Drafts"), count, "BODY.PEEK[]");
        assert_eq!(String::from_utf8_lossy(&got), literal("BODY[]", &format!(": {text}")), "{url}");
    }
}

#[test]
fn a_url_without_a_message_is_reported_and_nothing_is_appended() {
    let server = Server::start();
    let mut wire = server.with_message(PARTS);
    for url in [
        "/INBOX/;UID=2",
        "/Nowhere/;UID=1",
        "/INBOX;UIDVALIDITY=1/;UID=1",
        "/INBOX/;UID=1/;SECTION=7",
        "/INBOX/;UID=1/;SECTION=1.2.3.TEXT",
        "imap://other.example/INBOX/;UID=1",
        "imap://bo%40example.org@localhost/INBOX/;UID=1",
        "/INBOX",
        "/INBOX?TEXT%20x",
        "INBOX/;UID=1",
        "http://localhost/",
        "/INBOX/;UID=1;URLAUTH=anonymous",
    ] {
        wire.send(format!("a APPEND Drafts CATENATE (URL \"{url}\")\r\n").as_bytes());
        wire.expect(&format!("a NO [BADURL {url}] …"));
    }
    // Characters that the code cannot contain are in percent encoding.
    wire.run(
        r#"
        C: b APPEND Drafts CATENATE (URL "a]é b")
        S: b NO [BADURL a%5D%C3%A9%20b] …
        # One bad URL takes all messages back (RFC 3502 §3).
        C: c APPEND Drafts {5+}
        C: whole CATENATE (URL /INBOX/;UID=1) CATENATE (TEXT {1+}
        C: x URL /INBOX/;UID=9)
        S: c NO [BADURL /INBOX/;UID=9] …
        C: d APPEND Nowhere CATENATE (URL /INBOX/;UID=1)
        S: d NO [TRYCREATE] …
        C: e APPEND Drafts CATENATE ()
        S: e BAD …
        C: f APPEND Drafts CATENATE (URL)
        S: f BAD …
        C: g APPEND Drafts CATENATE (TEXT /INBOX/;UID=1)
        S: g BAD …
        C: h APPEND Drafts CATENATE {1+}
        C: x
        S: h BAD …
        C: i STATUS Drafts (MESSAGES)
        S: * STATUS Drafts (MESSAGES 0)
        S: i OK …
        "#,
    );
    // Without a selected mailbox, a relative URL has no base.
    server.login().run("C: a APPEND Drafts CATENATE (URL ;UID=1)\nS: a NO [BADURL ;UID=1] …");
}

#[test]
fn several_messages_and_literals_with_nul_and_utf8() {
    let server = Server::start();
    let mut wire = server.with_message(PARTS);
    wire.send(
        b"a APPEND Drafts CATENATE (TEXT ~{3+}\r\na\0b URL ;UID=1/;PARTIAL=0.1) (\\Seen) {5+}\r\nwhole ",
    );
    wire.send(b"CATENATE (UTF8 (~{4+}\r\n\xc3\xa9\r\n) URL {22+}\r\n/INBOX/;UID=1/;PARTIAL)\r\n");
    wire.run("S: a NO [BADURL /INBOX/;UID=1/;PARTIAL] …");
    wire.send(
        b"a APPEND Drafts CATENATE (TEXT ~{3+}\r\na\0b URL ;UID=1/;PARTIAL=0.1) (\\Seen) {5+}\r\nwhole ",
    );
    wire.send(b"CATENATE (UTF8 (~{4+}\r\n\xc3\xa9\r\n) URL {13+}\r\n/INBOX/;UID=1)\r\n");
    wire.run("S: a OK [APPENDUID … 1:3] …");
    let mut drafts = server.select("Drafts");
    assert_eq!(fetch(&mut drafts, 1, "BINARY.PEEK[]"), b"BINARY[] ~{4}\r\na\0bS");
    assert_eq!(fetch_text(&mut drafts, 2, "(FLAGS RFC822.SIZE)"), "FLAGS (\\Recent \\Seen) RFC822.SIZE 5");
    let text = fetch(&mut drafts, 3, "BODY.PEEK[]<0.10>");
    assert_eq!(text, "BODY[]<0> {10}\r\né\r\nSubjec".as_bytes());
}

#[test]
fn replace_takes_a_message_that_is_put_together() {
    let server = Server::start();
    let mut one = server.with_message(PARTS);
    let mut two = server.select("INBOX");
    one.run(
        r#"
        C: a UID REPLACE 1 INBOX (\Draft) CATENATE (TEXT {16+}
        C: Subject: new
        C:
        C:  URL "/INBOX/;UID=1/;SECTION=1")
        S: * OK [APPENDUID … 2] …
        S: * 1 EXPUNGE
        S: * 1 EXISTS
        S~ a OK …
        C: b REPLACE 1 INBOX CATENATE (URL "/INBOX/;UID=1")
        S: b NO [BADURL /INBOX/;UID=1] …
        "#,
    );
    assert_eq!(fetch_text(&mut one, 1, "BODY.PEEK[TEXT]"), literal("BODY[TEXT]", "first"));
    two.run("C: a NOOP\nS: * 1 EXPUNGE\nS: * 1 EXISTS\nS~ a OK …");
}

#[test]
fn with_uid_only_and_qresync_and_a_message_that_another_session_expunges() {
    let server = Server::start();
    server.put("INBOX", PARTS.as_bytes());
    let mut one = server.login();
    one.run("C: a ENABLE QRESYNC UIDONLY\nS~ a OK …\nC: b SELECT INBOX\nS~ b OK …");
    one.run(
        "C: c APPEND INBOX CATENATE (URL \";UID=1/;SECTION=2\")\nS: * 2 EXISTS\nS~ c OK [APPENDUID … 2] …",
    );
    server.select("INBOX").run("C: a UID STORE 1 +FLAGS (\\Deleted)\nS~ a OK …\nC: b EXPUNGE\nS~ b OK …");
    one.run("C: d APPEND INBOX CATENATE (URL \";UID=1\")\nS: * VANISHED 1\nS: d NO [BADURL ;UID=1] …");
}

#[test]
fn limits_are_those_of_an_append() {
    let options =
        ImapOptions { append_bytes_max: 1000, append_total_bytes_max: 2500, ..ImapOptions::default() };
    let server = Server::start_within(options, None, ByteBudget::new(1 << 20));
    let mut wire = server.with_message(&format!("Subject: x\n\n{}\n", "y".repeat(585)));
    let twice = "CATENATE (URL ;UID=1 URL ;UID=1)";
    let one = "CATENATE (URL ;UID=1)";
    wire.run(&format!("C: a APPEND Drafts {twice}\nS: a NO [TOOBIG] …"));
    wire.run(&format!("C: b APPEND Drafts {one} {one} {one} {one} {one}\nS: b NO [TOOBIG] …"));
    wire.run(&format!("C: c APPEND Drafts {one} {one} {one}\nS: c OK [APPENDUID … 1:3] …"));
    // Each part of a header counts as all of it, which is read for it.
    let fields = "URL \";UID=1/;SECTION=HEADER.FIELDS%20(X)\" ".repeat(90);
    wire.run(&format!("C: d APPEND Drafts CATENATE ({})\nS: d NO [TOOBIG] …", fields.trim_end()));
    let many = "URL ;UID=1/;PARTIAL=0.1 ".repeat(1025);
    wire.run(&format!(
        "C: e APPEND Drafts CATENATE ({})\nS: e BAD Too many parts in one CATENATE …",
        many.trim_end()
    ));
    wire.run("C: f APPEND Drafts CATENATE (TEXT {1001}\nS: f NO [TOOBIG] …");
    server.limit(AccountChange { quota_messages: Some(Some(4)), ..AccountChange::default() });
    server.login().run("C: g APPEND Drafts CATENATE (URL /INBOX/;UID=1)\nS: g NO [OVERQUOTA] …");
}

#[test]
fn without_memory_for_it_a_message_is_refused() {
    let options =
        ImapOptions { append_bytes_max: 600, append_total_bytes_max: 600, ..ImapOptions::default() };
    let server = Server::start_within(options, None, ByteBudget::new(700));
    let mut wire = server.with_message(&format!("Subject: x\n\n{}\n", "y".repeat(400)));
    wire.run("C: a APPEND Drafts CATENATE (URL ;UID=1)\nS: a OK [APPENDUID … 1] …");
    // The memory was given back.
    wire.run("C: b APPEND Drafts CATENATE (URL ;UID=1)\nS: b OK [APPENDUID … 2] …");
}
