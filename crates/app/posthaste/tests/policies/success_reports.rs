//! Reports of success to senders elsewhere: nobody gets one about mail that somebody else sent.

use posthaste_testkit::{DnsRecord, DnsServer, LineClient, Server, ServerBuilder, free_port};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

struct World {
    server: Server,
    _dns: DnsServer,
    _dir: tempfile::TempDir,
}

/// A server with these settings of `[authentication]`. The hosts of the senders do not answer, so
/// that a report stays in the queue.
fn world(settings: &str) -> World {
    let spf = |policy: &str| DnsRecord::Txt(format!("v=spf1 {policy}"));
    let dns = DnsServer::start([("good.test", spf("ip4:127.0.0.1 -all")), ("none.test", spf("-all"))]);
    let dir = tempfile::tempdir().unwrap();
    let nowhere = free_port();
    let route = |domain: &str| format!("{{ domain = \"{domain}\", host = \"{nowhere}\" }}");
    let text = format!(
        "hostname = \"mx.example.org\"\n[relay]\nenabled = true\ndns = [\"{}\"]\nroutes = [{}, {}]\n\
         [authentication]\n{settings}\n",
        dns.address(),
        route("good.test"),
        route("none.test"),
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&dir.path().join("posthaste.toml"), text)
        .listen("smtp=127.0.0.1:0")
        .listen("imap=127.0.0.1:0")
        .start();
    server.add_account(USER, PASSWORD);
    World { server, _dns: dns, _dir: dir }
}

impl World {
    /// Sends a message to ana with a request for a report of success. Returns how many items the
    /// queue then has.
    fn items_after(&self, from: &str) -> usize {
        let mut client = LineClient::connect(self.server.address("smtp")).unwrap();
        client.reply().unwrap();
        for (command, code) in [
            ("EHLO host.good.test".to_owned(), "250"),
            (format!("MAIL FROM:<{from}>"), "250"),
            (format!("RCPT TO:<{USER}> NOTIFY=SUCCESS"), "250"),
            ("DATA".to_owned(), "354"),
            (format!("From: <{from}>\r\nSubject: hello\r\n\r\nHi.\r\n."), "250 2.0.0 Delivered"),
        ] {
            let reply = client.ask(&command).unwrap();
            assert!(reply.starts_with(code), "{command}: {reply}");
        }
        let output = self.server.command(&["queue", "list"], "");
        assert!(output.status.success(), "{output:?}");
        // The last line is the sum.
        String::from_utf8(output.stdout).unwrap().lines().count() - 1
    }
}

#[test]
fn a_forged_sender_gets_no_report_of_success() {
    let world = world("trusted_networks = []");
    assert_eq!(world.items_after("a@none.test"), 0);
    assert_eq!(world.items_after("a@good.test"), 1);
    assert_eq!(world.server.mail(USER, PASSWORD, "INBOX", 2).len(), 2);
}

#[test]
fn without_verification_only_trusted_hosts_get_reports_of_success() {
    let off = "enabled = false\n";
    assert_eq!(world(&format!("{off}trusted_networks = []")).items_after("a@good.test"), 0);
    for settings in [off, ""] {
        // This machine is trusted.
        assert_eq!(world(settings).items_after("a@none.test"), 1);
    }
}
