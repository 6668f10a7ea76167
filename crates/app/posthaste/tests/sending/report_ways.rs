//! Reports to senders of this server go where their other mail goes: through forwards, scripts and
//! groups.

use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, free_port};

use crate::relaying::{PASSWORD, PLAIN, relaying, route};

const TIMEOUT: Duration = Duration::from_secs(60);

/// `a.test` with ana and bo; `b.test` with x.
struct World {
    a: Server,
    b: Server,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (smtp_a, smtp_b) = (free_port(), free_port());
        let a = relaying(&dir.path().join("a"), "a.test", smtp_a, &route("b.test", smtp_b));
        let b = relaying(&dir.path().join("b"), "b.test", smtp_b, &route("a.test", smtp_a));
        for user in ["ana@a.test", "bo@a.test"] {
            a.add_account(user, PASSWORD);
        }
        b.add_account("x@b.test", PASSWORD);
        Self { a, b, _dir: dir }
    }

    fn run(&self, args: &[&str], input: &str) {
        let output = self.a.command(args, input);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn script(&self, account: &str, script: &str) {
        self.run(&["sieve", "put", "--activate", account, "main", "-"], script);
    }

    /// Ana sends a message to somebody who is not there.
    fn submit_in_vain(&self) {
        let mut client = LineClient::connect(self.a.address("submission")).unwrap();
        client.reply().unwrap();
        client.ask("EHLO client.test").unwrap();
        client.ask(&format!("AUTH PLAIN {PLAIN}")).unwrap();
        client.ask("MAIL FROM:<ana@a.test>").unwrap();
        client.ask("RCPT TO:<nobody@b.test>").unwrap();
        client.ask("DATA").unwrap();
        let reply = client.ask("From: ana@a.test\r\nSubject: hello\r\n\r\nwords\r\n.").unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }

    fn wait_until_queue_is_empty(&self) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let list = self.a.command(&["queue", "list"], "").stdout;
            if list.starts_with(b"0 items") {
                break;
            }
            assert!(Instant::now() < deadline, "{}", String::from_utf8_lossy(&list));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for this number of messages in a mailbox of `a.test`.
    fn mail(&self, user: &str, mailbox: &str, count: usize) -> Vec<String> {
        let mail = self.a.mail(user, PASSWORD, mailbox, count);
        mail.into_iter().map(|message| String::from_utf8(message).unwrap()).collect()
    }
}

fn assert_is_report(message: &str) {
    assert!(message.starts_with("Return-Path: <>\r\n"), "{message}");
    assert!(message.contains("\r\nSubject: Your message was not delivered\r\n"), "{message}");
    assert!(message.contains("Final-Recipient: rfc822; nobody@b.test\r\nAction: failed\r\n"), "{message}");
    assert_eq!(message.matches("Return-Path:").count(), 1, "{message}");
}

#[test]
fn a_report_is_forwarded() {
    let world = World::new();
    world.run(&["account", "set", "ana@a.test", "--forward", "x@b.test", "--no-copy"], "");
    world.submit_in_vain();
    let far = world.b.mail("x@b.test", PASSWORD, "INBOX", 1).remove(0);
    let far = String::from_utf8(far).unwrap();
    assert_is_report(&far);
    assert!(far.contains("\r\nX-Sieve-Redirected-From: ana@a.test\r\n"), "{far}");
    assert!(world.mail("ana@a.test", "INBOX", 0).is_empty());
    // The address that it is forwarded to takes no mail: nobody gets a report about that.
    world.run(&["account", "set", "ana@a.test", "--forward", "gone@b.test"], "");
    world.submit_in_vain();
    assert_is_report(&world.mail("ana@a.test", "INBOX", 1)[0]);
    world.wait_until_queue_is_empty();
    assert_eq!(world.mail("ana@a.test", "INBOX", 1).len(), 1);
    // Two accounts that forward to each other: it stays with one of them.
    world.run(&["account", "set", "ana@a.test", "--forward", "bo@a.test", "--no-copy"], "");
    world.run(&["account", "set", "bo@a.test", "--forward", "ana@a.test", "--no-copy"], "");
    world.submit_in_vain();
    assert_eq!(world.mail("ana@a.test", "INBOX", 2).len(), 2);
    assert!(world.mail("bo@a.test", "INBOX", 0).is_empty());
}

/// A script files it, and answers nothing.
#[test]
fn a_script_files_a_report() {
    let world = World::new();
    world.script(
        "ana@a.test",
        "require [\"fileinto\", \"mailbox\", \"vacation\", \"envelope\"];\n\
         vacation \"I am away\";\n\
         if envelope \"from\" \"\" { fileinto :create \"Bounces\"; }",
    );
    world.submit_in_vain();
    assert_is_report(&world.mail("ana@a.test", "Bounces", 1)[0]);
    // A refusal of a report has no one to go to: it is kept.
    world.script("ana@a.test", "require \"reject\"; reject \"no reports\";");
    world.submit_in_vain();
    assert_is_report(&world.mail("ana@a.test", "INBOX", 1)[0]);
    world.wait_until_queue_is_empty();
    assert_eq!(world.mail("ana@a.test", "INBOX", 1).len(), 1);
    // A refused login is written at once, and the lines of messages before it with it.
    let mut last = LineClient::connect(world.b.address("imap")).unwrap();
    last.line().unwrap();
    let refused = last.imap("LOGIN x@b.test wrong").unwrap();
    assert!(refused.last().unwrap().contains(" NO "), "{refused:?}");
    assert!(world.a.logged("vacation reply").is_empty() && world.b.logged("delivered").is_empty());
}

#[test]
fn a_report_comes_to_each_member_of_a_group() {
    let world = World::new();
    world.run(&["group", "set", "team@a.test", "ana@a.test", "bo@a.test"], "");
    // A list whose owner is a group: reports about its members go there.
    world.run(&["group", "set", "list@a.test", "nobody@b.test", "--owner", "team@a.test"], "");
    let mut client = LineClient::connect(world.a.address("smtp")).unwrap();
    client.reply().unwrap();
    for (command, code) in [
        ("EHLO mail.c.test", "250"),
        ("MAIL FROM:<far@c.test>", "250"),
        ("RCPT TO:<list@a.test>", "250"),
        ("DATA", "354"),
        ("From: far@c.test\r\nSubject: to the list\r\n\r\nwords\r\n.", "250"),
    ] {
        let reply = client.ask(command).unwrap();
        assert!(reply.starts_with(code), "{command}: {reply}");
    }
    for member in ["ana@a.test", "bo@a.test"] {
        assert_is_report(&world.mail(member, "INBOX", 1)[0]);
    }
}
