//! Debian's Postfix as a peer: mail goes from Posthaste through it to Posthaste and back, with the
//! reports of both.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use posthaste_testkit::{
    DnsRecord, DnsServer, LineClient, Server, ServerBuilder, client_tests_wanted, command, dot_stuffed,
    free_port, message, zone,
};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const PASSWORD: &str = "correct horse";
/// base64 of NUL `ana@a.test` NUL `correct horse`.
const PLAIN: &str = "AGFuYUBhLnRlc3QAY29ycmVjdCBob3JzZQ==";
/// How long mail may take before a test gives up: far longer than it needs.
const PATIENCE: Duration = Duration::from_secs(60);
const POSTFIX: &str = "/usr/sbin/postfix";

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

/// A Postfix of our own for `p.test`, with its files in one directory. It ends with the test.
struct Postfix {
    master: Child,
    dir: PathBuf,
}

impl Postfix {
    fn start(dir: &Path, smtp: SocketAddr, routes: &[(&str, SocketAddr)], aliases: &[(&str, &str)]) -> Self {
        let owner = |what: &str| {
            let id = Command::new("id").args([what, "postfix"]).output().unwrap();
            String::from_utf8(id.stdout).unwrap().trim().parse::<u32>().unwrap()
        };
        let (uid, gid) = (owner("-u"), owner("-g"));
        for (name, is_postfixs) in [("", false), ("queue", false), ("data", true), ("mail", true)] {
            let path = dir.join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            if is_postfixs {
                chown(&path, Some(uid), Some(gid)).unwrap();
            }
        }
        let table = |pairs: Vec<String>| format!("inline:{{ {} }}", pairs.join(", "));
        let transports =
            routes.iter().map(|(to, host)| format!("{{ {to} = smtp:[{}]:{} }}", host.ip(), host.port()));
        let aliases = aliases.iter().map(|(from, to)| format!("{{ {from} = {to} }}"));
        let dir_text = dir.display();
        let main = format!(
            "compatibility_level = 3.6\nqueue_directory = {dir_text}/queue\ndata_directory = {dir_text}/data\n\
             maillog_file = {dir_text}/mail.log\nmaillog_file_prefixes = {dir_text}\nmyhostname = mail.p.test\n\
             inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmynetworks = 127.0.0.1/32\nmydestination =\n\
             local_header_rewrite_clients =\nalias_maps =\nalias_database =\nlocal_recipient_maps =\nvirtual_alias_domains =\n\
             virtual_mailbox_domains = p.test\nvirtual_mailbox_base = {dir_text}/mail\n\
             virtual_mailbox_maps = inline:{{ {{ pia@p.test = pia/ }} }}\nvirtual_uid_maps = static:{uid}\n\
             virtual_gid_maps = static:{gid}\nvirtual_minimum_uid = 1\nvirtual_alias_maps = {}\n\
             transport_maps = {}\nsmtpd_relay_restrictions = permit_mynetworks, reject\n",
            table(aliases.collect()),
            table(transports.collect()),
        );
        std::fs::write(dir.join("main.cf"), main).unwrap();
        let services = [
            format!("{smtp} inet n - n - - smtpd"),
            "pickup unix n - n 60 1 pickup".to_owned(),
            "cleanup unix n - n - 0 cleanup".to_owned(),
            "qmgr unix n - n 300 1 qmgr".to_owned(),
            "rewrite unix - - n - - trivial-rewrite".to_owned(),
            "bounce unix - - n - 0 bounce".to_owned(),
            "defer unix - - n - 0 bounce".to_owned(),
            "trace unix - - n - 0 bounce".to_owned(),
            "verify unix - - n - 1 verify".to_owned(),
            "proxymap unix - - n - - proxymap".to_owned(),
            "smtp unix - - n - - smtp".to_owned(),
            "virtual unix - n n - - virtual".to_owned(),
            "error unix - - n - - error".to_owned(),
            "retry unix - - n - - error".to_owned(),
            "tlsmgr unix - - n 1000? 1 tlsmgr".to_owned(),
            "anvil unix - - n - 1 anvil".to_owned(),
            "scache unix - - n - 1 scache".to_owned(),
            "postlog unix-dgram n - n - 1 postlogd".to_owned(),
        ];
        std::fs::write(dir.join("master.cf"), services.join("\n") + "\n").unwrap();
        let master = Command::new(POSTFIX)
            .args(["-c", dir.to_str().unwrap(), "start-fg"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let postfix = Self { master, dir: dir.to_owned() };
        let deadline = Instant::now() + PATIENCE;
        while LineClient::connect(smtp).is_err() {
            assert!(Instant::now() < deadline, "Postfix does not start: {}", postfix.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        postfix
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("mail.log")).unwrap_or_default()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        // `start-fg` ends with its master, which ends the daemons.
        let stop = Command::new(POSTFIX).args(["-c", self.dir.to_str().unwrap(), "stop"]).output();
        if !stop.is_ok_and(|output| output.status.success()) {
            let _ = self.master.kill();
        }
        let _ = self.master.wait();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// Two Posthastes, for `a.test` and `b.test`, and a Postfix for `p.test` between them.
struct World {
    a: Server,
    b: Server,
    postfix: Postfix,
    _dir: tempfile::TempDir,
}

impl World {
    /// `None` if there is no Postfix that could be started.
    fn new() -> Option<Self> {
        if !client_tests_wanted() {
            return None;
        }
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        if !Path::new(POSTFIX).exists() || !is_root {
            println!("SKIPPED: needs root and {POSTFIX} (Debian: apt-get install postfix)");
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
        let postfix = Postfix::start(&dir.path().join("p"), smtp_p, &routes, &aliases);
        Some(Self { a, b, postfix, _dir: dir })
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

/// The only message of an INBOX, as text.
fn only(server: &Server, user: &str) -> String {
    String::from_utf8_lossy(&folder(server, user, "INBOX", 1)[0]).into_owned()
}

#[test]
fn mail_goes_through_postfix_and_comes_back_byte_for_byte() {
    let Some(world) = World::new() else { return };
    // What is odd for a line protocol: dots, long lines, octets of eight bits, blanks at the end.
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
    assert!(trace.contains("by mail.p.test (Postfix)") && trace.contains("by mail.a.test (Posthaste)"));
    assert!(trace.starts_with("Return-Path: <ana@a.test>\r\n"));
}

/// What leaves `a.test` is signed. Behind Postfix the sender's address proves nothing (SPF), and
/// the signatures do.
#[test]
fn signatures_are_verified_behind_postfix() {
    let Some(world) = World::new() else { return };
    let text = b"From: Ana <ana@a.test>\r\nTo: bo@b.test\r\nDate: Mon, 23 Nov 2026 12:00:00 +0000\r\n\
                 Message-ID: <1@a.test>\r\nSubject: signed\r\n\r\nwords  with blanks \r\n\r\n";
    world.submit("", "<bo@b.test>", text);
    let got = only(&world.b, "bo@b.test");
    let results: String = got.split("\r\nReceived:").next().unwrap_or_default().replace("\r\n\t", " ");
    assert_eq!(results.matches("dkim=pass").count(), 2, "{got}");
    assert!(results.contains("spf=fail") && results.contains("dmarc=pass"), "{got}");
    assert!(got.ends_with("words  with blanks \r\n\r\n"), "{got}");
}

/// RFC 3461 through three hosts: Postfix hands the parameters on, and Posthaste reports.
#[test]
fn success_is_reported_through_postfix() {
    let Some(world) = World::new() else { return };
    world.submit(" RET=HDRS ENVID=id+2B1", "<bo@b.test> NOTIFY=SUCCESS,FAILURE", &message(1));
    folder(&world.b, "bo@b.test", "INBOX", 1);
    let report = only(&world.a, "ana@a.test");
    for part in [
        "Return-Path: <>\r\n",
        "by mail.p.test (Postfix)",
        "\r\nOriginal-Envelope-Id: id+1\r\nReporting-MTA: dns; mail.b.test\r\n",
        "\r\nOriginal-Recipient: rfc822; bo@b.test\r\nFinal-Recipient: rfc822; bo@b.test\r\nAction: delivered\r\n",
    ] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
}

/// The same where Postfix is the last host, where it expands an alias, and where it has to give
/// the message up.
#[test]
fn postfix_reports_what_it_was_asked_for() {
    let Some(world) = World::new() else { return };
    world.submit(" ENVID=one", "<pia@p.test> NOTIFY=SUCCESS", &message(1));
    let report = only(&world.a, "ana@a.test");
    assert!(report.contains("\r\nAction: delivered\r\n") && report.contains("pia@p.test"), "{report}");
    assert!(report.contains("\r\nOriginal-Envelope-Id: one\r\n"), "{report}");
    world.submit(" ENVID=two", "<team@p.test> NOTIFY=SUCCESS", &message(2));
    let reports = folder(&world.a, "ana@a.test", "INBOX", 2);
    let report = String::from_utf8_lossy(&reports[1]);
    assert!(report.contains("\r\nAction: expanded\r\n"), "{report}");
    // Our 550 makes Postfix write the report; nobody is told who wanted none.
    world.submit("", "<lost@p.test> NOTIFY=NEVER", &message(2));
    world.submit(" ENVID=three", "<lost@p.test>", &message(3));
    let reports = folder(&world.a, "ana@a.test", "INBOX", 3);
    let report = String::from_utf8_lossy(&reports[2]);
    assert!(report.contains("\r\nAction: failed\r\n") && report.contains("nobody@b.test"), "{report}");
    assert!(report.contains("\r\nOriginal-Envelope-Id: three\r\n"), "{report}");
    assert_eq!(world.postfix.log().matches("status=bounced").count(), 2, "{}", world.postfix.log());
}

/// The last server runs the user's script: one message is filed, one is sent on to Postfix.
#[test]
fn what_comes_through_postfix_is_filtered_filed_and_forwarded() {
    let Some(world) = World::new() else { return };
    let script = "require [\"fileinto\", \"mailbox\", \"copy\"];\r\n\
                  if header :contains \"Subject\" \"forward\" { redirect :copy \"pia@p.test\"; }\r\n\
                  fileinto :create \"From Postfix\";\r\n";
    let output = world.b.command(&["sieve", "put", "bo@b.test", "main", "-", "--activate"], script);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.submit("", "<team@p.test>", b"Subject: forward this\r\n\r\nwords\r\n");
    let filed = folder(&world.b, "bo@b.test", "From Postfix", 1);
    assert!(filed[0].ends_with(b"Subject: forward this\r\n\r\nwords\r\n"));
    let pia = world.postfix.dir.join("mail/pia/new");
    let deadline = Instant::now() + PATIENCE;
    let files =
        || std::fs::read_dir(&pia).map(|dir| dir.map(|file| file.unwrap().path()).collect::<Vec<_>>());
    while files().map_or(0, |files| files.len()) == 0 {
        assert!(Instant::now() < deadline, "pia gets nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = std::fs::read_to_string(&files().unwrap()[0]).unwrap();
    assert!(text.contains("\nX-Sieve-Redirected-From: bo@b.test\n") && text.ends_with("\nwords\n"), "{text}");
}
