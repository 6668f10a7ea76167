//! One message for several recipients, of whom some cannot take it: seen from the outside.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, free_port};

use crate::relaying::{PASSWORD, PLAIN, relaying, route};

const TIMEOUT: Duration = Duration::from_secs(60);

/// `a.test` with ana, cy and dee, and bo who has room for one octet in 10 KiB; `b.test` with x.
struct World {
    a: Server,
    b: Server,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (smtp_a, smtp_b) = (free_port(), free_port());
        let settings = |route: String| {
            format!("retry_longest = \"1 s\"\n{route}\n[listen]\nmetrics = [\"127.0.0.1:0\"]")
        };
        let a = relaying(&dir.path().join("a"), "a.test", smtp_a, &settings(route("b.test", smtp_b)));
        let b = relaying(&dir.path().join("b"), "b.test", smtp_b, &settings(route("a.test", smtp_a)));
        for user in ["ana@a.test", "bo@a.test", "cy@a.test", "dee@a.test"] {
            a.add_account(user, PASSWORD);
        }
        b.add_account("x@b.test", PASSWORD);
        let world = Self { a, b, _dir: dir };
        // A small message fits, and one of 20 KB does not.
        world.run(&["account", "set", "bo@a.test", "--quota", "10 KiB"]);
        world
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self.a.command(args, "");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Hands in a message; the reply to it.
    fn send(&self, protocol: &str, from: &str, to: &[&str], subject: &str) -> String {
        let mut client = LineClient::connect(self.a.address(protocol)).unwrap();
        client.reply().unwrap();
        client.ask("EHLO client.test").unwrap();
        if protocol == "submission" {
            assert!(client.ask(&format!("AUTH PLAIN {PLAIN}")).unwrap().starts_with("235"));
        }
        client.ask(&format!("MAIL FROM:<{from}>")).unwrap();
        for to in to {
            let reply = client.ask(&format!("RCPT TO:<{to}>")).unwrap();
            assert!(reply.starts_with("250"), "{to}: {reply}");
        }
        client.ask("DATA").unwrap();
        let text = "some words and more of them\r\n".repeat(700);
        client.ask(&format!("Subject: {subject}\r\n\r\n{text}.")).unwrap()
    }

    fn inbox(&self, user: &str, count: usize) -> Vec<String> {
        let server = if user.ends_with("b.test") { &self.b } else { &self.a };
        let mail = server.mail(user, PASSWORD, "INBOX", count);
        mail.into_iter().map(|message| String::from_utf8(message).unwrap()).collect()
    }

    fn queue(&self) -> Vec<String> {
        self.run(&["queue", "list"]).lines().map(str::to_owned).collect()
    }

    /// A line of the metrics of `a.test`, without its name.
    fn metric(&self, name: &str) -> f64 {
        let mut stream = std::net::TcpStream::connect(self.a.address("metrics")).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|value| value.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    fn wait_until_queue_is_empty(&self) {
        let deadline = Instant::now() + TIMEOUT;
        while self.queue() != ["0 items, 0 B"] {
            assert!(Instant::now() < deadline, "{:?}", self.queue());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn recipients_over_quota_get_it_later_and_the_others_once() {
    let world = World::new();
    let ways = [("submission", "ana@a.test"), ("smtp", "x@b.test"), ("smtp", "")];
    for (protocol, from) in ways {
        // Only bo has to wait.
        let reply = world.send(protocol, from, &["cy@a.test", "bo@a.test"], "for two");
        assert!(reply.starts_with("250 2.0.0 Delivered"), "{protocol}: {reply}");
    }
    let waiting = world.queue();
    assert_eq!(waiting.len(), ways.len() + 1, "{waiting:?}");
    assert!(waiting.iter().take(ways.len()).all(|line| line.contains("\t+here\tbo@a.test\t")), "{waiting:?}");
    // Beside a recipient elsewhere.
    let reply = world.send("submission", "ana@a.test", &["bo@a.test", "x@b.test"], "here and there");
    assert!(reply.starts_with("250"), "{reply}");
    assert_eq!(world.inbox("x@b.test", 1).len(), 1);
    assert_eq!(world.inbox("bo@a.test", 0).len(), 0);
    assert_eq!(world.metric("posthaste_queue_messages_by_age{age=\"5m\"}"), (ways.len() + 1) as f64);
    assert_eq!(world.metric("posthaste_queue_messages{state=\"held\"}"), 0.0);
    // Each of bo's was tried before.
    let tries = (ways.len() + 1) as f64;
    let deadline = Instant::now() + TIMEOUT;
    while world.metric("posthaste_queue_recipients_total{outcome=\"deferred\"}") < tries {
        assert!(Instant::now() < deadline, "{:?}", world.queue());
        std::thread::sleep(Duration::from_millis(20));
    }
    world.run(&["account", "set", "bo@a.test", "--quota", "10 MiB"]);
    let got = world.inbox("bo@a.test", ways.len() + 1);
    for (_, from) in ways {
        assert!(got.iter().any(|text| text.starts_with(&format!("Return-Path: <{from}>\r\nReceived: "))));
    }
    world.wait_until_queue_is_empty();
    assert_eq!(world.inbox("bo@a.test", ways.len() + 1).len(), ways.len() + 1);
    assert_eq!(world.inbox("cy@a.test", ways.len()).len(), ways.len());
    // All of bo's, and the one for `b.test`.
    let sent = (ways.len() + 2) as f64;
    assert_eq!(world.metric("posthaste_queue_recipients_total{outcome=\"sent\"}"), sent);
    assert_eq!(world.metric("posthaste_queue_wait_seconds_bucket{le=\"+Inf\"}"), sent);
    assert_eq!(world.metric("posthaste_queue_connections_total{to=\"route\",outcome=\"made\"}"), 1.0);
    assert!(world.metric("posthaste_queue_connections_total{to=\"here\",outcome=\"made\"}") >= 1.0);
    // No report is sent: all of it was delivered.
    assert!(world.inbox("ana@a.test", 0).is_empty());
    assert_eq!(world.inbox("x@b.test", 1).len(), 1);
    assert!(world.a.command(&["check"], "").status.success());
}

#[test]
fn the_sender_gets_a_report_about_failed_recipients() {
    let world = World::new();
    // No member accepts mail.
    world.run(&["group", "set", "empty@a.test", "nobody@a.test"]);
    let failed = "Final-Recipient: rfc822; empty@a.test\r\nAction: failed\r\nStatus: 5.7.1\r\n";
    let reply = world.send("submission", "ana@a.test", &["empty@a.test", "cy@a.test"], "one");
    assert!(reply.starts_with("250"), "{reply}");
    assert!(world.inbox("ana@a.test", 1)[0].contains(failed));
    let reply = world.send("smtp", "x@b.test", &["cy@a.test", "empty@a.test"], "two");
    assert!(reply.starts_with("250"), "{reply}");
    let report = world.inbox("x@b.test", 1).remove(0);
    assert!(report.contains(failed) && report.contains("Return-Path: <>\r\n"), "{report}");
    // RFC 5321 §4.5.5: nobody hears of a message without a sender.
    let reply = world.send("smtp", "", &["cy@a.test", "empty@a.test"], "three");
    assert!(reply.starts_with("250"), "{reply}");
    // No member accepts it: the client is refused, and there is no report.
    let reply = world.send("smtp", "x@b.test", &["empty@a.test"], "four");
    assert!(reply.starts_with("550 5.7.1 "), "{reply}");
    // One for now and one permanently, and nobody has it: the client tries again.
    let reply = world.send("smtp", "x@b.test", &["empty@a.test", "bo@a.test"], "five");
    assert!(reply.starts_with("452 4.2.2 "), "{reply}");
    world.wait_until_queue_is_empty();
    assert_eq!((world.inbox("x@b.test", 1).len(), world.inbox("ana@a.test", 1).len()), (1, 1));
    assert_eq!(world.inbox("cy@a.test", 3).len(), 3);
}

/// A script that refuses and an account without room: while nobody has the message the client
/// hears of it, and no report leaves.
#[test]
fn a_script_refuses_for_one() {
    let world = World::new();
    let script = "require \"reject\"; reject \"not me\";";
    let put = world.a.command(&["sieve", "put", "--activate", "dee@a.test", "main", "-"], script);
    assert!(put.status.success());
    let reply = world.send("smtp", "x@b.test", &["dee@a.test", "bo@a.test"], "nobody has it");
    assert!(reply.starts_with("452 4.2.2 "), "{reply}");
    let reply = world.send("smtp", "x@b.test", &["dee@a.test", "bo@a.test", "cy@a.test"], "cy has it");
    assert!(reply.starts_with("250"), "{reply}");
    let report = world.inbox("x@b.test", 1).remove(0);
    assert!(report.contains("Final-Recipient: rfc822; dee@a.test\r\nAction: failed\r\n"), "{report}");
    world.run(&["account", "set", "bo@a.test", "--quota", "10 MiB"]);
    assert_eq!(world.inbox("bo@a.test", 1).len(), 1);
    world.wait_until_queue_is_empty();
    assert_eq!((world.inbox("x@b.test", 1).len(), world.inbox("cy@a.test", 1).len()), (1, 1));
}

#[test]
fn a_member_of_a_group_who_has_no_room_gets_it_later() {
    let world = World::new();
    let members = ["cy@a.test", "bo@a.test", "x@b.test"];
    world.run(&[&["group", "set", "team@a.test"], &members[..], &["--owner", "ana@a.test"]].concat());
    let reply = world.send("smtp", "", &["team@a.test"], "for all");
    assert!(reply.starts_with("250"), "{reply}");
    let reply = world.send("smtp", "dee@a.test", &["team@a.test"], "for all");
    assert!(reply.starts_with("250"), "{reply}");
    assert_eq!(world.inbox("x@b.test", 2).len(), 2);
    world.run(&["account", "set", "bo@a.test", "--quota", "10 MiB"]);
    let got = world.inbox("bo@a.test", 2);
    assert!(got.iter().any(|text| text.starts_with("Return-Path: <ana@a.test>\r\n")), "{got:?}");
    assert!(got.iter().all(|text| text.contains("X-Sieve-Redirected-From: team@a.test\r\n")), "{got:?}");
    world.wait_until_queue_is_empty();
    assert_eq!((world.inbox("cy@a.test", 2).len(), world.inbox("bo@a.test", 2).len()), (2, 2));
    assert!(world.inbox("ana@a.test", 0).is_empty());
}

/// The sender learns that the postmaster refuses a message, and not which account that is.
#[test]
fn a_report_does_not_name_the_account_of_a_postmaster() {
    let world = World::new();
    world.run(&["account", "remove", "postmaster@a.test", "--yes"]);
    world.run(&["account", "set", "dee@a.test", "--sets-quotas", "true"]);
    let script = "require \"reject\"; reject \"not me\";";
    let put = world.a.command(&["sieve", "put", "--activate", "dee@a.test", "main", "-"], script);
    assert!(put.status.success());
    let reply = world.send("smtp", "x@b.test", &["cy@a.test", "Postmaster@a.test"], "help");
    assert!(reply.starts_with("250"), "{reply}");
    let report = world.inbox("x@b.test", 1).remove(0);
    let failed = "Final-Recipient: rfc822; Postmaster@a.test\r\nAction: failed\r\n";
    assert!(report.contains(failed) && !report.contains("dee@a.test"), "{report}");
}

/// The recipient that waits has the address of its account: nobody has that of the postmaster.
#[test]
fn a_postmaster_without_room_gets_it_later() {
    let world = World::new();
    world.run(&["account", "remove", "postmaster@a.test", "--yes"]);
    world.run(&["account", "set", "bo@a.test", "--sets-quotas", "true"]);
    let reply = world.send("smtp", "x@b.test", &["cy@a.test", "postmaster@a.test"], "help");
    assert!(reply.starts_with("250"), "{reply}");
    let waiting = world.queue();
    assert!(waiting[0].contains("\t+here\tbo@a.test\t"), "{waiting:?}");
    world.run(&["account", "set", "bo@a.test", "--quota", "10 MiB"]);
    assert_eq!((world.inbox("bo@a.test", 1).len(), world.inbox("cy@a.test", 1).len()), (1, 1));
    world.wait_until_queue_is_empty();
    assert!(world.inbox("x@b.test", 0).is_empty());
}
