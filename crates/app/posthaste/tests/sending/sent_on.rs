//! Mail that the server forwards to other domains for an account or a group has limits. Mail over
//! them stays here, or is deferred.

use posthaste_testkit::{LineClient, Server, ServerBuilder, dot_stuffed};

const PASSWORD: &str = "correct horse";
const ANA: &str = "ana@example.org";
/// base64 of NUL `ana@example.org` NUL `correct horse`.
const PLAIN: &str = "AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl";

struct World {
    server: Server,
    _dir: tempfile::TempDir,
}

impl World {
    /// With these limits. No program listens at the smarthost: what is queued stays there.
    fn new(limits: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("[relay]\nenabled = true\nsmarthost = \"127.0.0.1:1\"\n[limits]\n{limits}\n");
        let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
            .settings(&dir.path().join("settings.toml"), text)
            .listen("imap=127.0.0.1:0")
            .listen("lmtp=127.0.0.1:0")
            .listen("smtp=127.0.0.1:0")
            .listen("submission=127.0.0.1:0")
            .start();
        for account in [ANA, "bob@example.org"] {
            server.add_account(account, PASSWORD);
        }
        Self { server, _dir: dir }
    }

    fn run(&self, args: &[&str], input: &str) -> String {
        let output = self.server.command(args, input);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn script(&self, script: &str) {
        self.run(&["sieve", "put", "--activate", ANA, "main", "-"], script);
    }

    /// Hands in a message; the reply to it.
    fn send(&self, protocol: &str, from: &str, to: &[&str]) -> String {
        self.send_text(protocol, from, to, "words\r\n")
    }

    fn send_text(&self, protocol: &str, from: &str, to: &[&str], words: &str) -> String {
        let mut client = LineClient::connect(self.server.address(protocol)).unwrap();
        client.reply().unwrap();
        client.ask(if protocol == "lmtp" { "LHLO test" } else { "EHLO test" }).unwrap();
        if protocol == "submission" {
            assert!(client.ask(&format!("AUTH PLAIN {PLAIN}")).unwrap().starts_with("235"));
        }
        client.ask(&format!("MAIL FROM:<{from}>")).unwrap();
        for to in to {
            let reply = client.ask(&format!("RCPT TO:<{to}>")).unwrap();
            assert!(reply.starts_with("250"), "{to}: {reply}");
        }
        client.ask("DATA").unwrap();
        let text = format!("From: {from}\r\nTo: {}\r\nSubject: hello\r\n\r\n{words}", to[0]);
        client.send(&dot_stuffed(text.as_bytes())).unwrap();
        client.reply().unwrap()
    }

    /// Three messages for ana from other domains. The server accepts them all.
    fn three_for_ana(&self) {
        for from in ["a@far.test", "b@far.test", "c@far.test"] {
            let reply = self.send("lmtp", from, &[ANA]);
            assert!(reply.starts_with("250"), "{reply}");
        }
    }

    fn queued(&self) -> usize {
        self.run(&["queue", "list"], "").lines().count() - 1
    }

    fn inbox(&self, user: &str, count: usize) {
        assert_eq!(self.server.mail(user, PASSWORD, "INBOX", count).len(), count);
    }

    fn logged_limits(&self) -> usize {
        self.server.logged("limits.sent_on_messages_per_hour").len()
    }
}

#[test]
fn mail_over_the_limit_of_a_forward_stays_in_the_mailbox() {
    let world = World::new("sent_on_messages_per_hour = 2\nsubmitted_messages_per_hour = 1");
    world.run(&["account", "set", ANA, "--forward", "ana@far.test", "--no-copy"], "");
    world.three_for_ana();
    world.inbox(ANA, 1);
    assert_eq!((world.queued(), world.logged_limits()), (2, 1));
    // With a copy all of it stays here anyway.
    world.run(&["account", "set", ANA, "--forward", "ana@far.test"], "");
    world.three_for_ana();
    world.inbox(ANA, 4);
    assert_eq!(world.queued(), 2);
    // Mail that ana submits has its own limit.
    let reply = world.send("submission", ANA, &["bo@far.test"]);
    assert!(reply.starts_with("250"), "{reply}");
    assert_eq!(world.queued(), 3);
    // Within this server nothing counts.
    world.run(&["account", "set", ANA, "--forward", "bob@example.org", "--no-copy"], "");
    world.three_for_ana();
    world.inbox("bob@example.org", 3);
    // Another account has its own limit, too.
    world.run(&["account", "set", "bob@example.org", "--forward", "bob@far.test", "--no-copy"], "");
    world.three_for_ana();
    world.inbox("bob@example.org", 4);
    assert_eq!(world.queued(), 5);
}

#[test]
fn mail_from_scripts_has_the_same_limit() {
    let world = World::new("sent_on_messages_per_hour = 2");
    world.script("redirect \"ana@far.test\";");
    world.three_for_ana();
    world.inbox(ANA, 1);
    assert_eq!((world.queued(), world.logged_limits()), (2, 1));
    let world = World::new("sent_on_messages_per_hour = 2");
    world.script("require \"vacation\"; vacation \"away\";");
    world.three_for_ana();
    world.inbox(ANA, 3);
    assert_eq!((world.queued(), world.logged_limits()), (2, 1));
    let world = World::new("sent_on_messages_per_day = 2");
    world.script("require \"enotify\"; notify \"mailto:ana@far.test\";");
    world.three_for_ana();
    world.inbox(ANA, 3);
    assert_eq!(world.queued(), 2);
}

#[test]
fn a_sender_has_groups_copy_only_so_much() {
    let world = World::new("group_copies_per_hour = 3");
    world.run(&["group", "set", "team@example.org", "x@far.test", "bob@example.org"], "");
    for from in [ANA, "ana+other@example.org"] {
        let reply = world.send("lmtp", from, &["team@example.org"]);
        assert!(reply.starts_with("250"), "{reply}");
    }
    world.inbox("bob@example.org", 2);
    let reply = world.send("lmtp", ANA, &["team@example.org"]);
    assert!(reply.starts_with("450 4.2.4 "), "{reply}");
    // A user with a login and an untrusted host with the same sender have separate limits.
    for _ in 0..2 {
        let reply = world.send("submission", ANA, &["team@example.org"]);
        assert!(reply.starts_with("250"), "{reply}");
    }
    let reply = world.send("submission", ANA, &["team@example.org"]);
    assert!(reply.starts_with("450 4.2.4 "), "{reply}");
    world.inbox("bob@example.org", 4);
    assert_eq!(world.queued(), 4);
    let reply = world.send("lmtp", "far@c.test", &["team@example.org"]);
    assert!(reply.starts_with("250"), "{reply}");
    // Somebody else gets the message at once: the group gets it later, from the queue.
    let reply = world.send("submission", ANA, &["team@example.org", ANA]);
    assert!(reply.starts_with("250"), "{reply}");
    world.inbox(ANA, 1);
    let list = world.run(&["queue", "list"], "");
    assert!(list.contains("\t+here\tteam@example.org\t"), "{list}");
    assert!(!world.server.logged("limits.group_copies_per_hour").is_empty());
}

/// Forwarded mail and submitted mail have separate limits.
#[test]
fn waiting_mail_of_an_account_has_a_limit_in_octets() {
    // Two messages of 28 KB fit, and a small one.
    let world = World::new("account_queued = \"64 KiB\"\nmessage_size = \"64 KiB\"");
    let submit =
        |words: usize| world.send_text("submission", ANA, &["bo@far.test"], &"words\r\n".repeat(words));
    for reply in [submit(4000), submit(4000)] {
        assert!(reply.starts_with("250"), "{reply}");
    }
    let reply = submit(4000);
    assert!(reply.starts_with("452 4.3.1 "), "{reply}");
    assert_eq!(world.queued(), 2);
    let reply = submit(1);
    assert!(reply.starts_with("250"), "a small one has room: {reply}");
    world.run(&["account", "set", ANA, "--forward", "ana@far.test", "--no-copy"], "");
    for _ in 0..3 {
        let reply = world.send_text("lmtp", "a@far.test", &[ANA], &"words\r\n".repeat(4000));
        assert!(reply.starts_with("250"), "{reply}");
    }
    world.inbox(ANA, 1);
    assert_eq!(world.queued(), 5);
    assert_eq!(world.server.logged("limits.account_queued").len(), 2);
}
