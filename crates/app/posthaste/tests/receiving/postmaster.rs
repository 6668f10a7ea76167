//! Mail for postmasters whose address nobody has, on each listener (RFC 5321 §4.5.1): who gets
//! it, and what the administrator sees.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, ServerBuilder};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const PASSWORD: &str = "correct horse";
/// base64 of NUL `ana@a.test` NUL `correct horse`.
const PLAIN: &str = "AGFuYUBhLnRlc3QAY29ycmVjdCBob3JzZQ==";
/// Longest that anything may take: only a failure waits for it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server of `a.test` and `b.test`, with ana in the one and bo in the other.
struct World {
    server: Server,
    config: PathBuf,
    _dir: tempfile::TempDir,
}

fn settings(postmaster: &str) -> String {
    format!("domain = \"a.test\"\nhostname = \"mail.a.test\"\npostmaster = \"{postmaster}\"\n")
}

impl World {
    fn new(postmaster: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("settings.toml");
        let mut server = ServerBuilder::new(BINARY).settings(&config, settings(postmaster));
        for protocol in ["smtp", "lmtp", "submission", "imap"] {
            server = server.listen(&format!("{protocol}=127.0.0.1:0"));
        }
        let server = server.start();
        for name in ["ana@a.test", "bo@b.test"] {
            server.add_account(name, PASSWORD);
        }
        let world = Self { server, config, _dir: dir };
        // The first start made it.
        world.run(&["account", "remove", "postmaster@a.test", "--yes"]);
        world
    }

    /// Runs a command, which must succeed; what it printed.
    fn run(&self, args: &[&str]) -> String {
        let args = [args, &["--config", self.config.to_str().unwrap()]].concat();
        let output = self.server.command(&args, "");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A client of this listener that may send mail. By submission it is ana.
    fn client(&self, protocol: &str) -> LineClient {
        let mut client = LineClient::connect(self.server.address(protocol)).unwrap();
        client.reply().unwrap();
        let hello = if protocol == "lmtp" { "LHLO client.test" } else { "EHLO client.test" };
        assert!(client.ask(hello).unwrap().starts_with("250"));
        if protocol == "submission" {
            assert!(client.ask(&format!("AUTH PLAIN {PLAIN}")).unwrap().starts_with("235"));
        }
        client
    }

    /// Sends a message, which must be taken.
    fn send(&self, protocol: &str, to: &[&str]) {
        let mut client = self.client(protocol);
        let reply = client.hand_in("ana@a.test", to, b"From: ana@a.test\r\n\r\nHelp!\r\n").unwrap();
        assert!(reply.starts_with("250"), "{protocol}: {reply}");
        let replies = if protocol == "lmtp" { to.len() } else { 1 };
        for _ in 1..replies {
            assert!(client.reply().unwrap().starts_with("250"));
        }
    }

    /// Whether an INBOX has this many messages.
    fn has(&self, user: &str, count: usize) {
        assert_eq!(self.server.mail(user, PASSWORD, "INBOX", count).len(), count);
    }

    /// Waits until the log has a line with this text.
    fn logs(&self, what: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(line) = self.server.logged(what).pop() {
                return line;
            }
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn each_listener_takes_it_for_an_account_of_the_domain() {
    let world = World::new("");
    let protocols = ["smtp", "lmtp", "submission"];
    for protocol in protocols {
        world.send(
            protocol,
            &["postmaster", "POSTMASTER@A.test", "Postmaster@mail.a.test", "postmaster@b.test"],
        );
        for nobody in ["postmaster@elsewhere.test", "nobody@a.test"] {
            let mut client = world.client(protocol);
            client.ask("MAIL FROM:<ana@a.test>").unwrap();
            let reply = client.ask(&format!("RCPT TO:<{nobody}>")).unwrap();
            assert!(reply.starts_with("550"), "{protocol}: {nobody}: {reply}");
        }
    }
    world.has("ana@a.test", protocols.len());
    world.has("bo@b.test", protocols.len());
    assert_eq!(
        world.run(&["route", "postmaster"]),
        "postmaster means ana@a.test (nobody has the address), which is an account: INBOX\n"
    );
    assert_eq!(
        world.run(&["route", "PostMaster@b.test"]),
        "PostMaster@b.test means bo@b.test (nobody has the address), which is an account: INBOX\n"
    );
    // In a domain without accounts it is the server's own postmaster, not another domain's.
    world.run(&["account", "set", "bo@b.test", "--alias", "info@c.test", "--sets-quotas", "true"]);
    assert_eq!(
        world.run(&["route", "postmaster@c.test"]),
        "postmaster@c.test means ana@a.test (nobody has the address), which is an account: INBOX\n"
    );
    // An address of that name comes first.
    world.run(&["account", "set", "bo@b.test", "--alias", "postmaster@a.test"]);
    world.send("smtp", &["postmaster"]);
    world.has("bo@b.test", protocols.len() + 1);
    assert_eq!(
        world.run(&["route", "postmaster"]),
        "postmaster means postmaster@a.test, which is an alias of bo@b.test: INBOX\n"
    );
}

#[test]
fn the_setting_names_who_gets_it_and_a_reload_changes_that() {
    let world = World::new("bo@b.test");
    world.send("smtp", &["postmaster", "postmaster@a.test"]);
    world.has("bo@b.test", 1);
    assert_eq!(
        world.run(&["route", "postmaster@a.test"]),
        "postmaster@a.test means bo@b.test (the setting `postmaster`), which is an account: INBOX\n"
    );
    // A name without a domain is of the configured one.
    std::fs::write(&world.config, settings("ana")).unwrap();
    world.server.signal("HUP");
    world.logs("configuration and certificate were read again");
    world.send("lmtp", &["postmaster@b.test"]);
    world.has("ana@a.test", 1);
    world.has("bo@b.test", 1);
}

#[test]
fn a_setting_that_names_nobody_is_noticed_and_mail_is_taken() {
    let world = World::new("none@a.test");
    let warning = world.logs("names nobody who takes mail here");
    assert!(warning.contains("none@a.test"), "{warning}");
    world.send("submission", &["postmaster"]);
    world.has("ana@a.test", 1);
    let route = world.run(&["route", "postmaster"]);
    assert!(
        route.contains("ana@a.test (the setting `postmaster` names none@a.test, which takes no"),
        "{route}"
    );
    let refused = |postmaster: &str| {
        let file = world.config.with_file_name("wrong.toml");
        std::fs::write(&file, settings(postmaster)).unwrap();
        let output = Command::new(BINARY).arg("--config").arg(&file).arg("config").output().unwrap();
        assert!(!output.status.success(), "{postmaster}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("two words").contains("`postmaster` is no address"));
    assert!(refused("ana@").contains("`postmaster` is no address"));
}
