//! Rich mail (`winmail.dat`) on its way in, for accounts of each format, and what clients see.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use posthaste_testkit::{LineClient, Server, ServerBuilder, client_tests_wanted, dot_stuffed, run_python};
use posthaste_tnef::samples;

const PASSWORD: &str = "correct horse";
const ANA: &str = "ana@example.org";
const BEN: &str = "ben@example.org";

/// A server on which Ana keeps mail as sent, and Ben wants MIME.
fn server() -> Server {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .listen("imap=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .listen("smtp=127.0.0.1:0")
        .start();
    server.add_account(ANA, PASSWORD);
    let added = server.command(&["account", "add", BEN, "--format", "mime", "--password-stdin"], PASSWORD);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    server
}

fn send(server: &Server, protocol: &str, to: &[&str], text: &[u8]) {
    let mut client = LineClient::connect(server.address(protocol)).unwrap();
    client.reply().unwrap();
    client.ask(if protocol == "lmtp" { "LHLO test" } else { "EHLO test" }).unwrap();
    let mut say = |command: &str, code: &str| {
        let reply = client.ask(command).unwrap();
        assert!(reply.starts_with(code), "{command}: {reply}");
    };
    say("MAIL FROM:<sender@x.example>", "250");
    to.iter().for_each(|to| say(&format!("RCPT TO:<{to}>"), "250"));
    say("DATA", "354");
    client.send(&dot_stuffed(text)).unwrap();
    for _ in 0..if protocol == "lmtp" { to.len() } else { 1 } {
        let reply = client.reply().unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
}

fn login(server: &Server, user: &str) -> LineClient {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {user} \"{PASSWORD}\"")).unwrap();
    client.imap("EXAMINE INBOX").unwrap();
    client
}

/// One literal that a FETCH answers with.
fn literal(client: &mut LineClient, message: usize, item: &str) -> Vec<u8> {
    let (mut literals, end) = client.literals(&format!("FETCH {message} ({item})")).unwrap();
    assert!(end.starts_with("t OK") && literals.len() == 1, "{end}");
    literals.remove(0).1
}

fn body(client: &mut LineClient, message: usize) -> Vec<u8> {
    literal(client, message, "BODY.PEEK[]")
}

/// Whether a message is as it was sent, behind the fields of its transport.
fn is_as_sent(body: &[u8], sent: &[u8]) -> bool {
    body.ends_with(sent)
}

#[test]
fn one_message_for_two_formats() {
    let server = server();
    let sent = samples::mail(&samples::note());
    send(&server, "lmtp", &[ANA, BEN], &sent);
    let mut ana = login(&server, ANA);
    assert!(is_as_sent(&body(&mut ana, 1), &sent));
    let structure = ana.imap("FETCH 1 BODYSTRUCTURE").unwrap().concat();
    assert!(structure.contains("\"ms-tnef\""), "{structure}");

    let mut ben = login(&server, BEN);
    let whole = body(&mut ben, 1);
    assert!(!whole.windows(7).any(|piece| piece.eq_ignore_ascii_case(b"ms-tnef")));
    // All that IMAP says of it agrees.
    let items = ben.imap("FETCH 1 (RFC822.SIZE BODYSTRUCTURE)").unwrap().concat();
    assert!(items.contains(&format!("RFC822.SIZE {} ", whole.len())), "{items} {}", whole.len());
    for word in ["\"alternative\"", "\"related\"", "\"png\"", "\"rfc822\"", "<logo@x.example>"] {
        assert!(items.to_ascii_lowercase().contains(word), "{word}: {items}");
    }
    assert_eq!(literal(&mut ben, 1, "BINARY.PEEK[1.2.1]"), samples::HTML.as_bytes());
    assert_eq!(literal(&mut ben, 1, "BINARY.PEEK[1.2.2]"), samples::IMAGE);
    assert_eq!(literal(&mut ben, 1, "BINARY.PEEK[2]"), samples::FILE);
    let found = ben.imap("SEARCH SUBJECT Outer BODY bold").unwrap().concat();
    assert!(found.contains("* SEARCH 1"), "{found}");
    // The same for mail by SMTP.
    send(&server, "smtp", &[BEN], &sent);
    ben.imap("NOOP").unwrap();
    assert_eq!(literal(&mut ben, 2, "BINARY.PEEK[2]"), samples::FILE);
}

#[test]
fn what_stays_as_sent_in_every_format() {
    let server = server();
    let rich = samples::mail(&samples::note());
    let mut damaged = rich.clone();
    let at = damaged.windows(4).position(|piece| piece == b"eJ8+").unwrap();
    damaged[at] = b'X';
    let signed = String::from_utf8(rich.clone()).unwrap();
    let signed =
        signed.replace("multipart/mixed", "multipart/signed; protocol=\"application/pgp-signature\"");
    let plain = b"Subject: x\r\n\r\nsee winmail.dat, application/ms-tnef\r\n".to_vec();
    let all = [damaged, signed.into_bytes(), plain];
    for sent in &all {
        send(&server, "lmtp", &[BEN], sent);
    }
    let mut ben = login(&server, BEN);
    for (place, sent) in all.iter().enumerate() {
        assert!(is_as_sent(&body(&mut ben, place + 1), sent), "{place}");
    }
    let said = server.logged("rich mail is stored as sent");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("damaged") && said[0].contains("signature of TNEF") && said[0].contains(BEN));
    // APPEND stores what the client sent: RFC 9051 §6.3.12.
    let mut client = login(&server, BEN);
    client.send(format!("a APPEND INBOX {{{}+}}\r\n", rich.len()).as_bytes()).unwrap();
    client.send(&rich).unwrap();
    client.send(b"\r\n").unwrap();
    while !client.line().unwrap().starts_with("a OK") {}
    assert_eq!(body(&mut client, 4), rich);
}

#[test]
fn a_format_counts_from_when_it_is_set() {
    let server = server();
    let sent = samples::mail(&samples::note());
    send(&server, "lmtp", &[ANA], &sent);
    for (format, is_rich) in [("mime", false), ("rich", true), ("mime", false), ("keep", true)] {
        let set = server.command(&["account", "set", ANA, "--format", format], "");
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        send(&server, "lmtp", &[ANA], &sent);
        let mut ana = login(&server, ANA);
        let status = ana.imap("STATUS INBOX (MESSAGES)").unwrap().concat();
        let count = status.split("MESSAGES ").nth(1).unwrap().split(')').next().unwrap().parse().unwrap();
        assert_eq!(is_as_sent(&body(&mut ana, count), &sent), is_rich, "{format}");
        assert!(is_as_sent(&body(&mut ana, 1), &sent), "earlier mail stays");
    }
}

/// A script sees the message as the account keeps it. What it sends on is the message as it came.
#[test]
fn scripts_see_mime_and_redirect_what_came() {
    let server = server();
    let script = "require [\"copy\", \"fileinto\", \"mime\"];\n\
        if header :mime :anychild :contains \"content-type\" \"text/html\" { fileinto \"Drafts\"; }\n\
        redirect :copy \"ana@example.org\";\n";
    let put = server.command(&["sieve", "put", "--activate", BEN, "main", "-"], script);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    let sent = samples::mail(&samples::note());
    send(&server, "lmtp", &[BEN], &sent);
    let mut ben = login(&server, BEN);
    ben.imap("EXAMINE Drafts").unwrap();
    assert_eq!(literal(&mut ben, 1, "BINARY.PEEK[2]"), samples::FILE);
    assert!(is_as_sent(&body(&mut login(&server, ANA), 1), &sent));
}

/// Python reads a converted note and a meeting right, by its own IMAP and MIME.
#[test]
fn python_reads_what_was_converted() {
    if !client_tests_wanted() {
        return;
    }
    let server = server();
    send(&server, "lmtp", &[BEN], &samples::mail(&samples::note()));
    send(&server, "lmtp", &[BEN], &samples::mail(&samples::meeting("IPM.Schedule.Meeting.Request")));
    let script = r#"
import email, email.policy, imaplib, sys
client = imaplib.IMAP4("127.0.0.1", int(sys.argv[1]))
client.login(sys.argv[2], sys.argv[3])
client.select("INBOX", readonly=True)
def read(number):
    raw = client.fetch(str(number), "(BODY.PEEK[])")[1][0][1]
    return email.message_from_bytes(raw, policy=email.policy.default)
note = read(1)
assert not any(part.defects for part in note.walk()), [part.defects for part in note.walk()]
assert note.get_body(("plain",)).get_content().strip() == "Grüße, bold &"
assert "<b>bold</b> &amp;" in note.get_body(("html",)).get_content()
files = [(part.get_filename(), part.get_content_type()) for part in note.iter_attachments()]
assert files == [("Prüfung – n° 1.bin", "application/octet-stream"), ("Inner.eml", "message/rfc822")], files
inner = list(note.iter_attachments())[1].get_content()
assert inner["subject"] == "Inner" and inner["from"].addresses[0].display_name == "Émile"
meeting = read(2)
calendar = [part for part in meeting.walk() if part.get_content_type() == "text/calendar"]
assert calendar[0].get_param("method") == "REQUEST"
text = calendar[0].get_content()
assert "\nDTSTART:20231114T221320Z" in text and "mailto:ana@y.example" in text.replace("\r", "").replace("\n ", ""), text
print("read")
"#;
    let port = server.address("imap").port().to_string();
    assert_eq!(run_python(script, &[&port, BEN, PASSWORD]).trim(), "read");
}
