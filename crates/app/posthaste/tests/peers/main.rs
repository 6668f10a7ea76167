//! Debian's Postfix and Exim as peers: mail goes from Posthaste through them to Posthaste and back,
//! with the reports of both.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exim;
mod postfix;

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use posthaste_testkit::{
    DnsRecord, DnsServer, LineClient, Server, ServerBuilder, client_tests_wanted, command, dot_stuffed,
    free_port, message_by, zone,
};

use crate::exim::Exim;
use crate::postfix::Postfix;

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const PASSWORD: &str = "correct horse";
/// base64 of NUL `ana@a.test` NUL `correct horse`.
const PLAIN: &str = "AGFuYUBhLnRlc3QAY29ycmVjdCBob3JzZQ==";
/// How long mail may take before a test gives up: far longer than it needs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The message that ana submits.
fn message(serial: usize) -> Vec<u8> {
    message_by("Ana <ana@a.test>", serial)
}

/// Configures Posthaste for one domain, which sends mail for others to these addresses. With a name
/// server it verifies what comes from this machine.
fn configure(data: &Path, domain: &str, routes: &[(&str, SocketAddr)], dns: Option<SocketAddr>) -> PathBuf {
    std::fs::create_dir_all(data).unwrap();
    let routes: Vec<String> =
        routes.iter().map(|(to, host)| format!("{{ domain = \"{to}\", host = \"{host}\" }}")).collect();
    let mut text = format!("hostname = \"mail.{domain}\"\ndomain = \"{domain}\"\n");
    if dns.is_some() {
        text += "[authentication]\ntrusted_networks = []\n";
    }
    text += "[relay]\nenabled = true\nretry_first = \"1 s\"\nretry_longest = \"1 s\"\n";
    text += &format!("routes = [{}]\n", routes.join(", "));
    text += &dns.map(|dns| format!("dns = [\"{dns}\"]\n")).unwrap_or_default();
    let file = data.with_extension("toml");
    std::fs::write(&file, text).unwrap();
    file
}

fn posthaste(data: &Path, config: &Path, smtp: SocketAddr) -> Server {
    ServerBuilder::new(BINARY)
        .data(data)
        .arg("--config")
        .arg(config.to_str().unwrap())
        .listen(&format!("smtp={smtp}"))
        .listen("imap=127.0.0.1:0")
        .listen("submission=127.0.0.1:0")
        .start()
}

/// Domains and who takes their mail.
type Routes<'a> = &'a [(&'a str, SocketAddr)];
/// Addresses and where their mail goes.
type Aliases<'a> = &'a [(&'a str, &'a str)];

/// A mail server of others for `p.test`.
trait Peer {
    /// Its log so far.
    fn log(&self) -> String;
    /// Where it files what comes for pia.
    fn maildir(&self) -> PathBuf;
}

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Postfix,
    Exim,
}

impl Kind {
    fn check(self) -> Result<(), String> {
        match self {
            Self::Postfix => Postfix::check(),
            Self::Exim => Exim::check(),
        }
    }

    fn start(self, dir: &Path, smtp: SocketAddr, routes: Routes<'_>, aliases: Aliases<'_>) -> Box<dyn Peer> {
        match self {
            Self::Postfix => Box::new(Postfix::start(dir, smtp, routes, aliases)),
            Self::Exim => Box::new(Exim::start(dir, smtp, routes, aliases)),
        }
    }

    /// The peer's name in its Received fields.
    fn trace(self) -> &'static str {
        match self {
            Self::Postfix => "by mail.p.test (Postfix)",
            Self::Exim => "by mail.p.test with esmtp",
        }
    }

    /// The peer's report about an alias. Exim counts the hand-over to the next host as the
    /// delivery.
    fn alias_action(self) -> &'static str {
        match self {
            Self::Postfix => "\r\nAction: expanded\r\n",
            Self::Exim => "\r\nAction: delivered\r\nFinal-Recipient: rfc822;team@p.test\r\n",
        }
    }

    /// How many messages it gives up in the test of reports.
    fn bounces(self) -> usize {
        match self {
            Self::Postfix => 2,
            Self::Exim => 1,
        }
    }

    /// The line of its log for a message that it gave up.
    fn bounce(self) -> &'static str {
        match self {
            Self::Postfix => "status=bounced",
            Self::Exim => " ** nobody@b.test ",
        }
    }
}

/// Waits until a peer answers.
fn await_greeting(smtp: SocketAddr, peer: &dyn Peer) {
    let deadline = Instant::now() + TIMEOUT;
    while LineClient::connect(smtp).is_err() {
        assert!(Instant::now() < deadline, "the peer does not start: {}", peer.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Two Posthastes, for `a.test` and `b.test`, and a peer for `p.test` between them.
struct World {
    a: Server,
    b: Server,
    kind: Kind,
    peer: Box<dyn Peer>,
    _dir: tempfile::TempDir,
}

impl World {
    /// One after another, a world for each peer that can be started.
    fn each() -> impl Iterator<Item = Self> {
        [Kind::Postfix, Kind::Exim].into_iter().filter_map(Self::new)
    }

    /// `None` if the peer cannot be started.
    fn new(kind: Kind) -> Option<Self> {
        if !client_tests_wanted() {
            return None;
        }
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        let can_start = if is_root { kind.check() } else { Err("needs root".to_owned()) };
        if let Err(why) = can_start {
            println!("SKIPPED with {kind:?}: {why}");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let (smtp_a, smtp_b, smtp_p) = (free_port(), free_port(), free_port());
        let (data_a, data_b) = (dir.path().join("a"), dir.path().join("b"));
        let config_a = configure(&data_a, "a.test", &[("p.test", smtp_p), ("b.test", smtp_p)], None);
        let add = ["domain", "add", "a.test", "--config", config_a.to_str().unwrap()];
        let printed = command(Path::new(BINARY), &data_a, &add, "");
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let mut records = zone(&String::from_utf8(printed.stdout).unwrap());
        records.push(("mail.a.test".to_owned(), DnsRecord::A([192, 0, 2, 1])));
        let dns = DnsServer::start(records.iter().map(|(name, record)| (name.as_str(), record.clone())));
        let config_b =
            configure(&data_b, "b.test", &[("p.test", smtp_p), ("a.test", smtp_p)], Some(dns.address()));
        let a = posthaste(&data_a, &config_a, smtp_a);
        let b = posthaste(&data_b, &config_b, smtp_b);
        a.add_account("ana@a.test", PASSWORD);
        b.add_account("bo@b.test", PASSWORD);
        let aliases =
            [("team@p.test", "bo@b.test"), ("lost@p.test", "nobody@b.test"), ("pia@p.test", "pia@p.test")];
        let routes = [("a.test", smtp_a), ("b.test", smtp_b)];
        let peer = kind.start(&dir.path().join("p"), smtp_p, &routes, &aliases);
        Some(Self { a, b, kind, peer, _dir: dir })
    }

    /// Hands a message in as ana, with parameters of MAIL and for one recipient with parameters.
    fn submit(&self, mail: &str, rcpt: &str, message: &[u8]) {
        let mut client = LineClient::connect(self.a.address("submission")).unwrap();
        client.reply().unwrap();
        for (command, code) in [
            ("EHLO client.test", "250"),
            (&format!("AUTH PLAIN {PLAIN}"), "235"),
            (&format!("MAIL FROM:<ana@a.test>{mail}"), "250"),
            (&format!("RCPT TO:{rcpt}"), "250"),
            ("DATA", "354"),
        ] {
            let reply = client.ask(command).unwrap();
            assert!(reply.starts_with(code), "{command}: {reply}");
        }
        client.send(&dot_stuffed(message)).unwrap();
        let reply = client.reply().unwrap();
        assert!(reply.starts_with("250 2.0.0 Queued, id "), "{reply}");
    }
}

/// Waits until a folder has this many messages, and returns them.
fn folder(server: &Server, user: &str, name: &str, count: usize) -> Vec<Vec<u8>> {
    server.mail(user, PASSWORD, name, count)
}

/// Whether a report names this ENVID. Field names are written in either case (RFC 5322 §1.2.2).
fn of_envelope(report: &str, id: &str) -> bool {
    report.to_ascii_lowercase().contains(&format!("\r\noriginal-envelope-id: {id}\r\n"))
}

/// The only message of an INBOX, as text.
fn only(server: &Server, user: &str) -> String {
    String::from_utf8_lossy(&folder(server, user, "INBOX", 1)[0]).into_owned()
}

#[test]
fn mail_goes_through_a_peer_and_comes_back_byte_for_byte() {
    for world in World::each() {
        // Odd for a line protocol: dots, long lines, octets of eight bits, blanks at the end.
        let odd = [
            b"Subject: odd\r\nMessage-ID: <1@a.test>\r\nDate: Mon, 23 Nov 2026 12:00:00 +0000\r\nFrom: ana@a.test\r\n\r\n.\r\n..\r\n".as_slice(),
            &[b'x'; 900],
            b"\r\n\xc3\xa9\xff \t\r\n\r\n\r\n",
        ]
        .concat();
        world.submit(" BODY=8BITMIME", "<team@p.test>", &odd);
        let got = folder(&world.b, "bo@b.test", "INBOX", 1);
        let trace = String::from_utf8_lossy(&got[0]);
        assert!(got[0].ends_with(&odd), "{trace}");
        assert!(trace.contains(world.kind.trace()) && trace.contains("by mail.a.test (Posthaste)"));
        assert!(trace.starts_with("Return-Path: <ana@a.test>\r\n"));
    }
}

/// Mail that leaves `a.test` is signed. Behind Postfix the sender's address proves nothing (SPF),
/// and the signatures do.
#[test]
fn signatures_are_verified_behind_a_peer() {
    for world in World::each() {
        let text = b"From: Ana <ana@a.test>\r\nTo: bo@b.test\r\nDate: Mon, 23 Nov 2026 12:00:00 +0000\r\n\
                     Message-ID: <1@a.test>\r\nSubject: signed\r\n\r\nwords  with blanks \r\n\r\n";
        world.submit("", "<bo@b.test>", text);
        let got = only(&world.b, "bo@b.test");
        let results: String = got.split("\r\nReceived:").next().unwrap_or_default().replace("\r\n\t", " ");
        assert_eq!(results.matches("dkim=pass").count(), 2, "{got}");
        assert!(results.contains("spf=fail") && results.contains("dmarc=pass"), "{got}");
        assert!(got.ends_with("words  with blanks \r\n\r\n"), "{got}");
    }
}

/// RFC 3461 through three hosts: the peer hands the parameters on, and Posthaste reports.
#[test]
fn success_is_reported_through_a_peer() {
    for world in World::each() {
        world.submit(
            " RET=HDRS ENVID=id+2B1",
            "<bo@b.test> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bo@b.test",
            &message(1),
        );
        folder(&world.b, "bo@b.test", "INBOX", 1);
        let report = only(&world.a, "ana@a.test");
        for part in [
            "Return-Path: <>\r\n",
            world.kind.trace(),
            "\r\nOriginal-Envelope-Id: id+1\r\nReporting-MTA: dns; mail.b.test\r\n",
            "\r\nOriginal-Recipient: rfc822; bo@b.test\r\nFinal-Recipient: rfc822; bo@b.test\r\nAction: delivered\r\n",
        ] {
            assert!(report.contains(part), "{part:?} is not in\n{report}");
        }
    }
}

/// The same where the peer is the last host, where it expands an alias, and where it has to give
/// the message up.
#[test]
fn a_peer_reports_what_it_was_asked_for() {
    for world in World::each() {
        world.submit(" ENVID=one", "<pia@p.test> NOTIFY=SUCCESS", &message(1));
        let report = only(&world.a, "ana@a.test");
        assert!(report.contains("\r\nAction: delivered\r\n") && report.contains("pia@p.test"), "{report}");
        assert!(of_envelope(&report, "one"), "{report}");
        world.submit(" ENVID=two", "<team@p.test> NOTIFY=SUCCESS", &message(2));
        let reports = folder(&world.a, "ana@a.test", "INBOX", 2);
        let report = String::from_utf8_lossy(&reports[1]);
        assert!(report.contains(world.kind.alias_action()), "{report}");
        // Our 550 makes the peer write the report; a sender who wanted no report gets none. Exim
        // 4.96 reports nevertheless if the address is an alias.
        if world.kind == Kind::Postfix {
            world.submit("", "<lost@p.test> NOTIFY=NEVER", &message(2));
        }
        world.submit(" ENVID=three", "<lost@p.test>", &message(3));
        let reports = folder(&world.a, "ana@a.test", "INBOX", 3);
        let report = String::from_utf8_lossy(&reports[2]);
        assert!(report.contains("\r\nAction: failed\r\n") && report.contains("nobody@b.test"), "{report}");
        assert!(of_envelope(&report, "three"), "{report}");
        // Each message has its own time, and the log is written by another process.
        let bounced = || world.peer.log().matches(world.kind.bounce()).count();
        let deadline = Instant::now() + TIMEOUT;
        while bounced() < world.kind.bounces() {
            assert!(Instant::now() < deadline, "{}", world.peer.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(bounced(), world.kind.bounces(), "{}", world.peer.log());
    }
}

/// The last server runs the user's script: one message is filed, one is sent on to the peer.
#[test]
fn what_comes_through_a_peer_is_filtered_filed_and_forwarded() {
    for world in World::each() {
        let script = "require [\"fileinto\", \"mailbox\", \"copy\"];\r\n\
                      if header :contains \"Subject\" \"forward\" { redirect :copy \"pia@p.test\"; }\r\n\
                      fileinto :create \"From outside\";\r\n";
        let output = world.b.command(&["sieve", "put", "bo@b.test", "main", "-", "--activate"], script);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        world.submit("", "<team@p.test>", b"Subject: forward this\r\n\r\nwords\r\n");
        let filed = folder(&world.b, "bo@b.test", "From outside", 1);
        assert!(filed[0].ends_with(b"Subject: forward this\r\n\r\nwords\r\n"));
        let pia = world.peer.maildir().join("new");
        let deadline = Instant::now() + TIMEOUT;
        let files =
            || std::fs::read_dir(&pia).map(|dir| dir.map(|file| file.unwrap().path()).collect::<Vec<_>>());
        while files().map_or(0, |files| files.len()) == 0 {
            assert!(Instant::now() < deadline, "pia gets nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
        let text = std::fs::read_to_string(&files().unwrap()[0]).unwrap();
        assert!(
            text.contains("\nX-Sieve-Redirected-From: bo@b.test\n") && text.ends_with("\nwords\n"),
            "{text}"
        );
    }
}
