//! Mail that comes in by LMTP and submission, seen from the outside: byte-exact, for whom it is,
//! refused when it is not ours.

use std::net::SocketAddr;

use posthaste_testkit::{LineClient, Server, ServerBuilder, dot_stuffed, message, message_by};

const PASSWORD: &str = "correct horse";
/// base64 of NUL `ana@example.org` NUL `correct horse`.
const PLAIN: &str = "AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl";

fn server() -> Server {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).start();
    server.add_account("ana@example.org", PASSWORD);
    server.add_account("bob@example.org", PASSWORD);
    server
}

/// The bodies in a user's INBOX, in UID order.
fn inbox(imap: SocketAddr, user: &str) -> Vec<Vec<u8>> {
    let mut client = LineClient::connect(imap).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {user} \"{PASSWORD}\"")).unwrap();
    let selected = client.imap("EXAMINE INBOX").unwrap();
    if selected.iter().any(|l| l == "* 0 EXISTS") {
        return Vec::new();
    }
    client.bodies().unwrap()
}

/// The received message without the trace fields in front.
fn without_trace(body: &[u8], original: &[u8]) -> Vec<u8> {
    let at = body.len().checked_sub(original.len()).expect("at least as long as what was sent");
    let trace = String::from_utf8_lossy(&body[..at]).into_owned();
    assert!(trace.contains("Received: ") && trace.ends_with("\r\n"), "{trace:?}");
    body[at..].to_vec()
}

#[test]
fn two_lmtp_connections_at_once_deliver_byte_for_byte() {
    let server = server();
    let (lmtp, imap) = (server.address("lmtp"), server.address("imap"));
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || {
                let mut client = LineClient::connect(lmtp).unwrap();
                client.reply().unwrap();
                assert!(client.ask("LHLO test").unwrap().contains("PIPELINING"));
                for n in 0..50 {
                    let text = hard(half * 50 + n);
                    client
                        .send(b"MAIL FROM:<x@example.net> BODY=8BITMIME\r\nRCPT TO:<ana@example.org>\r\nRCPT TO:<bob+lists@example.org>\r\nDATA\r\n")
                        .unwrap();
                    for code in ["250", "250", "250", "354"] {
                        let reply = client.reply().unwrap();
                        assert!(reply.starts_with(code), "{reply}");
                    }
                    client.send(&dot_stuffed(&text)).unwrap();
                    for _ in 0..2 {
                        let reply = client.reply().unwrap();
                        assert!(reply.starts_with("250 2."), "{reply}");
                    }
                }
                assert!(client.ask("QUIT").unwrap().starts_with("221"));
            });
        }
    });
    let mut wanted: Vec<_> = (0..100).map(hard).collect();
    wanted.sort();
    for user in ["ana@example.org", "bob@example.org"] {
        let mut came: Vec<_> = inbox(imap, user)
            .iter()
            .map(|body| {
                let serial = String::from_utf8_lossy(body)
                    .split("X-Serial: ")
                    .nth(1)
                    .unwrap()
                    .split("\r\n")
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap();
                without_trace(body, &hard(serial))
            })
            .collect();
        came.sort();
        assert_eq!(came, wanted, "{user}");
    }
}

/// A message with what transports like to break: dots, 8-bit, long lines, trailing blanks.
fn hard(serial: usize) -> Vec<u8> {
    let mut text = message(serial);
    text.extend_from_slice(b".\r\n..\r\n.dot\r\n trailing \t\r\n\r\n\xff\xfe\r\n");
    text.extend(std::iter::repeat_n(b'x', 900 + serial));
    text.extend_from_slice(b"\r\n");
    text
}

/// The same by ana.
fn hard_of_ana(serial: usize) -> Vec<u8> {
    let text = message(serial);
    [message_by("Ana <ana@example.org>", serial), hard(serial)[text.len()..].to_vec()].concat()
}

#[test]
fn submission_delivers_locally_and_refuses_what_is_not_ours() {
    let server = server();
    let mut client = LineClient::connect(server.address("submission")).unwrap();
    client.reply().unwrap();
    let hello = client.ask("EHLO client.example").unwrap();
    for word in
        ["AUTH", "STARTTLS", "PIPELINING", "8BITMIME", "SMTPUTF8", "SIZE", "CHUNKING", "ENHANCEDSTATUSCODES"]
    {
        assert!(hello.contains(word), "{word} is missing in {hello}");
    }
    assert!(client.ask("MAIL FROM:<ana@example.org>").unwrap().starts_with("530"));
    let refused = client.ask("AUTH PLAIN AGFuYUBleGFtcGxlLm9yZwB3cm9uZw==").unwrap();
    assert!(refused.starts_with("535 5.7.8"), "{refused}");
    let welcome = client.ask(&format!("AUTH PLAIN {PLAIN}")).unwrap();
    assert!(welcome.starts_with("235"), "{welcome}");
    assert!(client.ask("MAIL FROM:<ana@example.org>").unwrap().starts_with("250"));
    let elsewhere = client.ask("RCPT TO:<someone@elsewhere.example>").unwrap();
    assert!(elsewhere.starts_with("550 5.1.2"), "{elsewhere}");
    let nobody = client.ask("RCPT TO:<nobody@example.org>").unwrap();
    assert!(nobody.starts_with("550 5.1.1"), "{nobody}");
    assert!(client.ask("RCPT TO:<bob@example.org>").unwrap().starts_with("250"));
    assert!(client.ask("DATA").unwrap().starts_with("354"));
    client.send(&dot_stuffed(&hard_of_ana(3))).unwrap();
    let reply = client.reply().unwrap();
    assert!(reply.starts_with("250 2."), "{reply}");
    // CHUNKING: the same in two chunks, no dots doubled.
    let text = hard_of_ana(4);
    client.ask("MAIL FROM:<ana@example.org>").unwrap();
    client.ask("RCPT TO:<bob@example.org>").unwrap();
    let (head, tail) = text.split_at(100);
    client.send(format!("BDAT {}\r\n", head.len()).as_bytes()).unwrap();
    client.send(head).unwrap();
    assert!(client.reply().unwrap().starts_with("250"));
    client.send(format!("BDAT {} LAST\r\n", tail.len()).as_bytes()).unwrap();
    client.send(tail).unwrap();
    assert!(client.reply().unwrap().starts_with("250"));
    // The log has the account that sent each of them.
    let logged = server.logged_times("delivered", 2);
    let of_ana = |line: &&String| line.contains("account=\"ana@example.org\"");
    assert_eq!(logged.iter().filter(of_ana).count(), 2, "{logged:?}");
    let came = inbox(server.address("imap"), "bob@example.org");
    assert_eq!(came.len(), 2);
    assert_eq!(without_trace(&came[0], &hard_of_ana(3)), hard_of_ana(3));
    assert_eq!(without_trace(&came[1], &hard_of_ana(4)), hard_of_ana(4));
}

#[test]
fn an_alias_added_while_the_server_runs_delivers_at_once() {
    let server = server();
    let rcpt = |address: &str| {
        let mut client = LineClient::connect(server.address("lmtp")).unwrap();
        client.reply().unwrap();
        client.ask("LHLO test").unwrap();
        client.ask("MAIL FROM:<>").unwrap();
        client.ask(&format!("RCPT TO:<{address}>")).unwrap()
    };
    assert!(rcpt("info@example.org").starts_with("550 5.1.1"));
    let set = server.command(&["account", "set", "ana@example.org", "--alias", "info@example.org"], "");
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    assert!(rcpt("info@example.org").starts_with("250"));
    assert!(rcpt("INFO@Example.ORG").starts_with("250"));
}

/// The announcements alone would take all of the memory for incoming mail.
#[test]
fn announced_literals_do_not_stop_lmtp() {
    let server = server();
    let mut waiting = Vec::new();
    for _ in 0..16 {
        let mut client = LineClient::connect(server.address("imap")).unwrap();
        client.line().unwrap();
        client.imap(&format!("LOGIN ana@example.org \"{PASSWORD}\"")).unwrap();
        client.send(b"a APPEND INBOX {67108864}\r\n").unwrap();
        assert!(client.line().unwrap().starts_with("+ "));
        waiting.push(client);
    }
    let mut client = LineClient::connect(server.address("lmtp")).unwrap();
    client.reply().unwrap();
    for (command, code) in [
        ("LHLO test", "250"),
        ("MAIL FROM:<x@example.net> SIZE=60000000", "250"),
        ("RCPT TO:<bob@example.org>", "250"),
        ("DATA", "354"),
    ] {
        let reply = client.ask(command).unwrap();
        assert!(reply.starts_with(code), "{command}: {reply}");
    }
    client.send(&dot_stuffed(&message(1))).unwrap();
    let reply = client.reply().unwrap();
    assert!(reply.starts_with("250 2."), "{reply}");
}
