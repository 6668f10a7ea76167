//! Mail that leaves, signed (DKIM): from `posthaste domain add` to other programs that verify it,
//! with a name server of our own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use posthaste_store::{CommitOutcome, DirectoryChange, Engine as _};
use posthaste_store_lmdb::{LmdbEngine, Options};
use posthaste_testkit::{
    DnsRecord, DnsServer, LineClient, Server, ServerBuilder, client_tests_wanted, command, dot_stuffed,
    free_port, run_client, zone,
};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const PASSWORD: &str = "correct horse";
/// How long mail may take before a test gives up: far longer than it needs.
const TIMEOUT: Duration = Duration::from_secs(60);

fn done(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A data directory, and its configuration.
struct Site {
    data: PathBuf,
    config: PathBuf,
}

impl Site {
    fn new(dir: &Path, domain: &str) -> Self {
        let place =
            Self { data: dir.join(domain).join("data"), config: dir.join(domain).join("posthaste.toml") };
        std::fs::create_dir_all(dir.join(domain)).unwrap();
        place.configure(domain, "");
        place
    }

    fn configure(&self, domain: &str, relay: &str) {
        let text = format!(
            "domain = \"{domain}\"\nhostname = \"mail.{domain}\"\n[authentication]\ntrusted_networks = []\n\
             [submission]\nsender = \"envelope\"\n[relay]\nretry_first = \"1 s\"\nretry_longest = \"1 s\"\n{relay}\n"
        );
        std::fs::write(&self.config, text).unwrap();
    }

    fn run(&self, args: &[&str]) -> Output {
        let args = [args, &["--config", self.config.to_str().unwrap()]].concat();
        command(Path::new(BINARY), &self.data, &args, "")
    }

    /// Gives a directory record another content.
    fn damage(&self, name: &str, value: &str) {
        let engine = LmdbEngine::open(&self.data, Options::new(posthaste_delivery::summarize)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let expected = engine.directory_entry(name).await.unwrap().unwrap().version;
            let value = Some(value.to_owned().into());
            let change = DirectoryChange { name: name.to_owned(), expected, value };
            assert_eq!(engine.directory_commit(change).await.unwrap(), CommitOutcome::Done);
        });
    }

    fn serve(&self, smtp: SocketAddr) -> Server {
        let mut server = ServerBuilder::new(BINARY).data(&self.data).arg("--config");
        server = server.arg(self.config.to_str().unwrap()).listen(&format!("smtp={smtp}"));
        for protocol in ["imap", "lmtp", "submission"] {
            server = server.listen(&format!("{protocol}=127.0.0.1:0"));
        }
        server.start()
    }
}

fn serve_zone(records: &[(String, DnsRecord)]) -> DnsServer {
    DnsServer::start(records.iter().map(|(name, record)| (name.as_str(), record.clone())))
}

fn address(name: &str) -> (String, DnsRecord) {
    (name.to_owned(), DnsRecord::A([127, 0, 0, 1]))
}

/// Two servers that find each other by DNS. The domain of each is set up.
struct World {
    a: Server,
    b: Server,
    place: Site,
    /// The records that `domain add` printed for both, and the addresses of both hosts.
    zone: Vec<(String, DnsRecord)>,
    _dns: DnsServer,
    dir: tempfile::TempDir,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let (place, other) = (Site::new(dir.path(), "a.test"), Site::new(dir.path(), "b.test"));
    let printed = done(&place.run(&["domain", "add", "A.Test"]));
    let printed = printed + &done(&other.run(&["domain", "add", "b.test"]));
    let mut zone = zone(&printed);
    zone.extend([address("mail.a.test"), address("mail.b.test")]);
    let dns = serve_zone(&zone);
    let (smtp_a, smtp_b) = (free_port(), free_port());
    let relay = |port: u16| {
        let dns = dns.address();
        format!("dns = [\"{dns}\"]\nport = {port}\nprivate_networks = [\"127.0.0.1\"]")
    };
    place.configure("a.test", &relay(smtp_b.port()));
    other.configure("b.test", &relay(smtp_a.port()));
    let (a, b) = (place.serve(smtp_a), other.serve(smtp_b));
    a.add_account("ana@a.test", PASSWORD);
    b.add_account("bo@b.test", PASSWORD);
    World { a, b, place, zone, _dns: dns, dir }
}

fn submission(server: &Server) -> LineClient {
    let mut client = LineClient::connect(server.address("submission")).unwrap();
    client.reply().unwrap();
    client.ask("EHLO client.test").unwrap();
    // NUL `ana@a.test` NUL `correct horse`.
    let plain = "AUTH PLAIN AGFuYUBhLnRlc3QAY29ycmVjdCBob3JzZQ==";
    assert!(client.ask(plain).unwrap().starts_with("235"));
    client
}

/// Hands a message in, and expects that it is taken.
fn send(client: &mut LineClient, from: &str, to: &str, message: &str) {
    let reply = client.hand_in(from, &[to], message.as_bytes()).unwrap();
    assert!(reply.starts_with("250 "), "{reply}");
}

/// Waits until an INBOX has this many messages, and returns them.
fn inbox(server: &Server, user: &str, count: usize) -> Vec<String> {
    folder(server, user, "INBOX", count)
}

/// The same of any folder.
fn folder(server: &Server, user: &str, name: &str, count: usize) -> Vec<String> {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {user} \"{PASSWORD}\"")).unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while !client.imap(&format!("EXAMINE {name}")).unwrap().contains(&format!("* {count} EXISTS")) {
        assert!(Instant::now() < deadline, "{user} does not get {count} messages in {name}");
        std::thread::sleep(Duration::from_millis(20));
    }
    client.send(b"f FETCH 1:* (BODY.PEEK[])\r\n").unwrap();
    let mut bodies = Vec::new();
    loop {
        let line = client.line().unwrap();
        if line.starts_with("f ") {
            return bodies;
        }
        if let Some(size) = line.strip_suffix('}').and_then(|l| l.rsplit('{').next()) {
            bodies.push(String::from_utf8(client.bytes(size.parse().unwrap()).unwrap()).unwrap());
            client.line().unwrap();
        }
    }
}

/// The verdict of Debian's python3-dkim on each signature, from the top:
/// `algorithm selector domain verdict`; then of the chain, as in `arc=pass`.
fn judged(world: &World, message: &str) -> String {
    const SCRIPT: &str = r#"
import json, sys, dkim
records = json.load(open(sys.argv[1]))
def dns(name, timeout=5):
    return records.get(name.decode().rstrip(".").lower(), "").encode()
message = open(sys.argv[2], "rb").read()
d = dkim.DKIM(message, minkey=1024)
for at in range(sum(1 for name, _ in d.headers if name.lower() == b"dkim-signature")):
    d = dkim.DKIM(message, minkey=1024)
    try:
        good = d.verify(idx=at, dnsfunc=dns)
    except dkim.DKIMException as error:
        good = error
    tags = d.signature_fields
    print(tags[b"a"].decode(), tags[b"s"].decode(), d.domain.decode(), good)
chain, _, why = dkim.arc_verify(message, dnsfunc=dns, minkey=1024)
print("arc=" + chain.decode(), why)
"#;
    let texts = world.zone.iter().filter_map(|(name, record)| match record {
        DnsRecord::Txt(text) => Some(format!("{name:?}: {text:?}")),
        _ => None,
    });
    let (records, file) = (world.dir.path().join("records.json"), world.dir.path().join("message.eml"));
    std::fs::write(&records, format!("{{{}}}", texts.collect::<Vec<_>>().join(","))).unwrap();
    std::fs::write(&file, message).unwrap();
    // Debian's own interpreter, which has its packages.
    let mut python = Command::new("/usr/bin/python3");
    python.arg("-c").arg(SCRIPT).arg(records).arg(file);
    run_client(python)
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn submitted_mail_is_signed_and_others_verify_it() {
    let world = world();
    assert!(done(&world.place.run(&["domain", "check", "a.test"])).lines().all(|l| l.starts_with("right ")));
    let head =
        "From: Ana <ana@A.test>\r\nTo: bo@b.test\r\nSubject: one\r\n  two \t three\r\nMIME-Version: 1.0\r\n";
    let long = "0123456789 abcdefghijklmnopqrstuvwxyz\r\n".repeat(10_000);
    let messages = [
        format!("{head}\r\nHi.\r\n"),
        format!("{head}\r\n.\r\n..two  dots \t\r\n\r\nthree\r\n\r\n\r\n"),
        format!(
            "{head}Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nJörg\r\n"
        ),
        format!("{head}\r\n"),
        // Larger than a message that is signed in place.
        format!("{head}\r\n{long}"),
    ];
    let mut client = submission(&world.a);
    for message in &messages {
        send(&mut client, "ana@a.test", "bo@b.test", message);
    }
    let got = inbox(&world.b, "bo@b.test", messages.len());
    for message in &got {
        let top = message.get(..2_500.min(message.len())).unwrap();
        // `mail-auth`, in the server that took it: both signatures, by the records printed.
        for verdict in ["spf=pass", "header.s=r", "header.s=e", "dmarc=pass"] {
            assert!(top.contains(verdict), "{verdict}: {top}");
        }
        assert_eq!((count(top, "dkim=pass"), count(top, "dkim=")), (2, 2), "{top}");
    }
    if !client_tests_wanted() {
        return;
    }
    for message in &got {
        let said = judged(&world, message);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines.len() == 3 && lines[..2].iter().all(|line| line.ends_with(" a.test True")), "{said}");
        assert!(lines[0].starts_with("rsa-sha256 r2") && lines[1].starts_with("ed25519-sha256 e2"), "{said}");
    }
    // The judge sees a change of the body, a second field of a name that is sealed, and none else.
    let signed = got.iter().find(|message| message.ends_with("\r\nHi.\r\n")).unwrap();
    for changed in [
        signed.replace("\r\nHi.", "\r\nHo."),
        format!("Subject: x\r\n{signed}"),
        format!("Cc: x@y\r\n{signed}"),
    ] {
        assert!(!judged(&world, &changed).contains("True"), "{changed}");
    }
    assert_eq!(count(&judged(&world, &format!("X-Other: x\r\n{signed}")), "True"), 2);
}

#[test]
fn a_server_that_runs_sends_once_a_domain_is_set_up() {
    let dir = tempfile::tempdir().unwrap();
    let place = Site::new(dir.path(), "a.test");
    let server = place.serve(free_port());
    server.add_account("ana@a.test", PASSWORD);
    let elsewhere = |client: &mut LineClient| {
        client.ask("MAIL FROM:<ana@a.test>").unwrap();
        client.ask("RCPT TO:<bo@b.test>").unwrap()
    };
    assert!(elsewhere(&mut submission(&server)).starts_with("550 "));
    done(&place.run(&["domain", "add", "a.test"]));
    let deadline = Instant::now() + TIMEOUT;
    while !elsewhere(&mut submission(&server)).starts_with("250 ") {
        assert!(Instant::now() < deadline, "the server does not see the domain");
    }
    // Users alone: a stranger may not.
    let mut stranger = LineClient::connect(server.address("smtp")).unwrap();
    stranger.reply().unwrap();
    stranger.ask("EHLO x.test").unwrap();
    assert!(elsewhere(&mut stranger).starts_with("550 "));
}

#[test]
fn mail_of_others_is_not_signed_and_reports_are() {
    let world = world();
    let script = "redirect \"bo@b.test\"; redirect \"nobody@b.test\"; keep;";
    let put = world.a.command(&["sieve", "put", "ana@a.test", "main", "-", "--activate"], script);
    assert!(put.status.success(), "{put:?}");
    let mut client = LineClient::connect(world.a.address("lmtp")).unwrap();
    client.reply().unwrap();
    client.ask("LHLO x.test").unwrap();
    // A stranger who writes our domain gets no signature of it.
    send(
        &mut client,
        "bo@b.test",
        "ana@a.test",
        "From: boss@a.test\r\nTo: ana@a.test\r\nSubject: forged\r\n\r\nHi.\r\n",
    );
    // The treatment that our DMARC record requires.
    let forged = folder(&world.b, "bo@b.test", "Junk", 1).remove(0);
    assert!(forged.contains("Subject: forged\r\n\r\nHi.") && forged.contains("dkim=none"), "{forged}");
    assert!(!forged.contains("DKIM-Signature"), "{forged}");
    let report = inbox(&world.b, "bo@b.test", 1).remove(0);
    assert!(report.contains("From: Mail Delivery System <postmaster@mail.a.test>"), "{report}");
    assert_eq!(count(&report, "d=a.test;"), 2, "{report}");
    assert!(report.contains("dmarc=pass header.from=mail.a.test"), "{report}");
}

#[test]
fn mail_that_is_sent_on_is_sealed() {
    let world = world();
    world.a.add_account("eve@a.test", PASSWORD);
    for (server, user, to) in [(&world.a, "ana@a.test", "bo@b.test"), (&world.b, "bo@b.test", "eve@a.test")] {
        let script = format!("redirect \"{to}\"; keep;");
        let put = server.command(&["sieve", "put", user, "main", "-", "--activate"], &script);
        assert!(put.status.success(), "{put:?}");
    }
    let connect = |protocol: &str| {
        let mut client = LineClient::connect(world.a.address(protocol)).unwrap();
        client.reply().unwrap();
        client.ask(if protocol == "lmtp" { "LHLO x.test" } else { "EHLO x.test" }).unwrap();
        client
    };
    let message = "From: x@c.test\r\nTo: ana@a.test\r\nSubject: far\r\nMessage-ID: <1@c.test>\r\n\r\nHi.\r\n";
    send(&mut connect("smtp"), "x@c.test", "ana@a.test", message);
    let (once, twice) =
        (inbox(&world.b, "bo@b.test", 1).remove(0), inbox(&world.a, "eve@a.test", 1).remove(0));
    assert!(once.contains("Authentication-Results: mail.b.test;") && once.contains("\tarc=pass"), "{once}");
    assert_eq!((count(&once, "ARC-Seal: i=1; "), count(&once, "ARC-Seal: ")), (1, 1), "{once}");
    // The results of `a.test` when the message came.
    assert!(once.contains("ARC-Authentication-Results: i=1; mail.a.test;\r\n\tiprev="), "{once}");
    assert!(
        twice.contains("Authentication-Results: mail.a.test;") && twice.contains("\tarc=pass"),
        "{twice}"
    );
    assert_eq!((count(&twice, "ARC-Seal: i=2; "), count(&twice, "ARC-Seal: ")), (1, 2), "{twice}");
    assert!(twice.contains("ARC-Authentication-Results: i=2; mail.b.test;"), "{twice}");
    if client_tests_wanted() {
        for sealed in [&once, &twice] {
            assert!(judged(&world, sealed).contains("arc=pass"), "{}", judged(&world, sealed));
            let changed = sealed.replace("\r\nHi.", "\r\nHo.");
            assert!(judged(&world, &changed).contains("arc=fail"));
        }
    }
    // Results that came with the message are not ours, whatever name they bear.
    let forged = "Authentication-Results: mail.a.test; dmarc=pass header.from=c.test\r\n";
    let forged = format!("{forged}{}", message.replace("<1@", "<2@"));
    send(&mut connect("lmtp"), "x@c.test", "ana@a.test", &forged);
    let plain = inbox(&world.b, "bo@b.test", 2).remove(1);
    assert!(plain.contains("<2@c.test>") && !plain.contains("ARC-"), "{plain}");
}

#[test]
fn a_user_gets_no_signature_of_another_domain() {
    let world = world();
    done(&world.place.run(&["domain", "add", "c.test"]));
    let mut client = submission(&world.a);
    let of = |author: &str| format!("From: {author}\r\nTo: bo@b.test\r\nSubject: {author}\r\n\r\nHi.\r\n");
    send(&mut client, "ana@a.test", "bo@b.test", &of("boss@c.test"));
    send(&mut client, "ana@a.test", "bo@b.test", &of("ana@a.test"));
    let got = inbox(&world.b, "bo@b.test", 2);
    let signed = |author: &str| {
        count(got.iter().find(|m| m.contains(&format!("Subject: {author}"))).unwrap(), "DKIM-Signature: v=1;")
    };
    assert_eq!((signed("boss@c.test"), signed("ana@a.test")), (0, 2));
    // A script's reply with somebody else's address in `:from` is sent as its owner.
    for (count_of_mail, from) in [(3, "boss@c.test"), (4, "ana@a.test")] {
        let script =
            format!("require \"vacation\"; vacation :from \"{from}\" :subject \"away {from}\" \"Away.\";");
        let put = world.a.command(&["sieve", "put", "ana@a.test", "main", "-", "--activate"], &script);
        assert!(put.status.success(), "{put:?}");
        let mut client = LineClient::connect(world.a.address("lmtp")).unwrap();
        client.reply().unwrap();
        client.ask("LHLO x.test").unwrap();
        send(
            &mut client,
            "bo@b.test",
            "ana@a.test",
            "From: bo@b.test\r\nTo: ana@a.test\r\nSubject: a\r\n\r\nHi.\r\n",
        );
        let got = inbox(&world.b, "bo@b.test", count_of_mail);
        let answer = got.iter().find(|m| m.contains(&format!("Subject: away {from}"))).unwrap();
        assert_eq!(count(answer, "DKIM-Signature: v=1;"), 2, "{answer}");
        assert!(answer.contains("\r\nFrom: ana@a.test\r\n") && !answer.contains("d=c.test"), "{answer}");
    }
}

#[test]
fn mail_that_cannot_be_signed_is_refused_for_now() {
    let world = world();
    let World { a, place, .. } = world;
    a.stop();
    // A record of a program that comes later: this one must not send unsigned.
    let record = "{\"v\":2,\"keys\":[]}";
    place.damage("dkim/a.test", record);
    let a = place.serve(free_port());
    let mut client = submission(&a);
    for command in ["MAIL FROM:<ana@a.test>", "RCPT TO:<bo@b.test>", "DATA"] {
        assert!(client.ask(command).unwrap().starts_with(['2', '3']), "{command}");
    }
    client.send(&dot_stuffed(b"From: ana@a.test\r\n\r\nHi.\r\n")).unwrap();
    assert!(client.reply().unwrap().starts_with("451 "));
    assert!(String::from_utf8_lossy(&a.command(&["queue", "list"], "").stdout).contains("0 items"));
}

#[test]
fn keys_are_rotated_in_two_steps() {
    let dir = tempfile::tempdir().unwrap();
    let place = Site::new(dir.path(), "a.test");
    let mut published = zone(&done(&place.run(&["domain", "add", "a.test"])));
    published.push(address("mail.a.test"));
    let set = |published: &[(String, DnsRecord)]| {
        let dns = serve_zone(published);
        place.configure("a.test", &format!("dns = [\"{}\"]", dns.address()));
        dns
    };
    let _dns = set(&published);
    let list = || done(&place.run(&["domain", "list"]));
    assert!(place.run(&["domain", "rotate", "a.test", "--finish"]).status.code() == Some(2));
    let printed = done(&place.run(&["domain", "rotate", "a.test"]));
    let next = zone(&printed);
    assert_eq!(next.len(), 2);
    // The same again: no further keys are made.
    assert_eq!(zone(&done(&place.run(&["domain", "rotate", "a.test"]))), next);
    let before = list();
    assert!(before.contains("\tsigns with ") && before.contains("\tnext "), "{before}");
    let early = place.run(&["domain", "rotate", "a.test", "--finish"]);
    assert_eq!(early.status.code(), Some(1), "{early:?}");
    assert_eq!(list(), before);
    published.extend(next);
    let _dns = set(&published);
    let said = done(&place.run(&["domain", "rotate", "a.test", "--finish"]));
    assert!(said.contains("may be removed after "), "{said}");
    assert!(!list().contains("next"));
    done(&place.run(&["domain", "check", "a.test"]));
    // The records of the new keys are missing in DNS: mail would fail.
    let old: Vec<_> = published.drain(..published.len() - 2).collect();
    let _dns = set(&old);
    let failed = place.run(&["domain", "check", "a.test"]);
    let text = String::from_utf8_lossy(&failed.stdout);
    assert!(failed.status.code() == Some(1) && count(&text, "missing ") == 2, "{text}");
}

#[test]
fn keys_go_with_backups_and_copies() {
    let dir = tempfile::tempdir().unwrap();
    let place = Site::new(dir.path(), "a.test");
    done(&place.run(&["domain", "add", "a.test"]));
    let shown = done(&place.run(&["domain", "show", "a.test"]));
    assert!(place.run(&["domain", "add", "a.test"]).status.code() == Some(2));
    let backup = dir.path().join("backup");
    done(&place.run(&["backup", backup.to_str().unwrap()]));
    // A rotation is in the next backup.
    done(&place.run(&["domain", "rotate", "a.test"]));
    done(&place.run(&["domain", "rotate", "a.test", "--finish", "--force"]));
    done(&place.run(&["backup", backup.to_str().unwrap()]));
    let rotated = done(&place.run(&["domain", "show", "a.test"]));
    assert_ne!(shown, rotated);
    let other = Site { data: dir.path().join("other"), config: place.config.clone() };
    done(&other.run(&["restore", backup.to_str().unwrap()]));
    assert_eq!(done(&other.run(&["domain", "show", "a.test"])), rotated);
    let copy = dir.path().join("copy");
    let (from, to) = (place.data.to_str().unwrap(), copy.to_str().unwrap());
    done(&place.run(&["copy-store", "--from", from, "--to", to]));
    let copy = Site { data: copy.clone(), config: place.config.clone() };
    assert_eq!(done(&copy.run(&["domain", "show", "a.test"])), rotated);
    done(&copy.run(&["domain", "remove", "a.test", "--yes"]));
    assert_eq!(copy.run(&["domain", "show", "a.test"]).status.code(), Some(2));
}
