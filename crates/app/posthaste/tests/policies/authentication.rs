//! Mail from other hosts: SPF, DKIM and DMARC, seen from the outside, with a name server of our
//! own.

use std::process::Command;

use mail_auth::common::crypto::Ed25519Key;
use mail_auth::common::headers::HeaderWriter as _;
use mail_auth::dkim::DkimSigner;
use posthaste_testkit::{
    DnsRecord, DnsServer, LineClient, Server, ServerBuilder, client_tests_wanted, dot_stuffed, run_client,
};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

fn txt(name: &'static str, text: &str) -> (&'static str, DnsRecord) {
    (name, DnsRecord::Txt(text.to_owned()))
}

struct World {
    server: Server,
    key: Vec<u8>,
    _dns: DnsServer,
    _dir: tempfile::TempDir,
}

/// A server that believes nobody, and the domains of some senders.
fn world(settings: &str) -> World {
    world_with(settings, "v=DKIM1; p=")
}

/// The same with a key of `far.test`.
fn world_with(settings: &str, far: &str) -> World {
    let key = Ed25519Key::generate_pkcs8().unwrap();
    let public = Ed25519Key::from_pkcs8_der(&key).unwrap().public_key();
    let dkim = format!("v=DKIM1; k=ed25519; p={}", base64(&public));
    let dns = DnsServer::start([
        txt("good.test", "v=spf1 ip4:127.0.0.1 -all"),
        txt("_dmarc.good.test", "v=DMARC1; p=reject"),
        txt("strict.test", "v=spf1 -all"),
        txt("_dmarc.strict.test", "v=DMARC1; p=reject"),
        txt("s1._domainkey.strict.test", &dkim),
        txt("junk.test", "v=spf1 -all"),
        txt("_dmarc.junk.test", "v=DMARC1; p=quarantine"),
        txt("none.test", "v=spf1 -all"),
        txt("_dmarc.far.test", "v=DMARC1; p=reject"),
        ("7.2.0.192.in-addr.arpa", DnsRecord::Ptr("elsewhere.good.test".into())),
        ("7.2.0.192.in-addr.arpa", DnsRecord::Ptr("Host.Good.Test".into())),
        ("8.2.0.192.in-addr.arpa", DnsRecord::Ptr("host.good.test".into())),
        ("elsewhere.good.test", DnsRecord::A([192, 0, 2, 1])),
        ("host.good.test", DnsRecord::A([192, 0, 2, 7])),
        txt("s2._domainkey.far.test", far),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("posthaste.toml");
    let text = format!(
        "hostname = \"mx.example.org\"\n[relay]\ndns = [\"{}\"]\n[authentication]\ntrusted_networks = []\n{settings}\n",
        dns.address()
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&config, text)
        .listen("smtp=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .listen("imap=127.0.0.1:0")
        .start();
    server.add_account(USER, PASSWORD);
    World { server, key, _dns: dns, _dir: dir }
}

fn base64(bytes: &[u8]) -> String {
    let output = posthaste_testkit::run_python(
        "import base64,sys; print(base64.b64encode(bytes.fromhex(sys.argv[1])).decode())",
        &[&hex(bytes)],
    );
    output.trim().to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl World {
    /// Sends a message to ana, and returns the reply to it.
    fn send(&self, listener: &str, from: &str, message: &[u8]) -> String {
        let mut client = LineClient::connect(self.server.address(listener)).unwrap();
        client.reply().unwrap();
        let hello = if listener == "lmtp" { "LHLO" } else { "EHLO" };
        for command in [
            &format!("{hello} host.good.test"),
            &format!("MAIL FROM:<{from}>"),
            &format!("RCPT TO:<{USER}>"),
            "DATA",
        ] {
            let reply = client.ask(command).unwrap();
            assert!(reply.starts_with(['2', '3']), "{command}: {reply}");
        }
        client.send(&dot_stuffed(message)).unwrap();
        client.reply().unwrap()
    }

    /// The last message of a folder.
    fn last(&self, folder: &str) -> String {
        let mut client = LineClient::connect(self.server.address("imap")).unwrap();
        client.line().unwrap();
        client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
        client.imap(&format!("EXAMINE {folder}")).unwrap();
        let (mut literals, end) = client.literals("FETCH * (BODY.PEEK[])").unwrap();
        String::from_utf8(literals.pop().unwrap_or_else(|| panic!("{end}")).1).unwrap()
    }

    /// Signed for `strict.test`.
    fn signed(&self, message: &str) -> Vec<u8> {
        let key = Ed25519Key::from_pkcs8_der(&self.key).unwrap();
        let signer =
            DkimSigner::from_key(key).domain("strict.test").selector("s1").headers(["From", "Subject"]);
        let mut text = Vec::new();
        signer.sign(message.as_bytes()).unwrap().write_header(&mut text);
        text.extend_from_slice(message.as_bytes());
        text
    }
}

fn message(author: &str) -> String {
    format!("From: A <{author}>\r\nTo: <{USER}>\r\nSubject: hello\r\nMessage-ID: <1@x.test>\r\n\r\nHi.\r\n")
}

#[test]
fn verified_mail_is_delivered_with_its_results() {
    let world = world("");
    let reply = world.send("smtp", "a@good.test", message("a@good.test").as_bytes());
    assert!(reply.starts_with("250 "), "{reply}");
    let text = world.last("INBOX");
    assert!(
        text.starts_with("Return-Path: <a@good.test>\r\nAuthentication-Results: mx.example.org;\r\n"),
        "{text}"
    );
    for result in ["spf=pass", "dkim=none", "dmarc=pass", "header.from=good.test", "iprev="] {
        assert!(text.contains(result), "{result}: {text}");
    }
    assert!(text.ends_with(&message("a@good.test")), "{text}");

    // Signed mail from a host that SPF does not know.
    let signed = world.signed(&message("a@strict.test"));
    let reply = world.send("smtp", "a@strict.test", &signed);
    assert!(reply.starts_with("250 "), "{reply}");
    let text = world.last("INBOX");
    for result in ["spf=fail", "dkim=pass", "header.s=s1", "dmarc=pass"] {
        assert!(text.contains(result), "{result}: {text}");
    }
}

/// RFC 5183 §4.1. A name in DNS that leads to another address is not the client's.
#[test]
fn a_script_knows_the_client() {
    // Each connection says where it comes from.
    let world = world("[listen]\nproxy_networks = [\"127.0.0.1\"]");
    let script = "require [\"environment\", \"variables\", \"fileinto\", \"mailbox\"];\n\
                  set \"host\" \"unknown\";\n\
                  if environment :matches \"remote-host\" \"*\" { set \"host\" \"${1}\"; }\n\
                  if environment :matches \"remote-ip\" \"*\" { fileinto :create \"${1} ${host}\"; }\n";
    let put = world.server.command(&["sieve", "put", "--activate", USER, "main", "-"], script);
    assert!(put.status.success(), "{put:?}");
    let connect = |listener: &str, from: &str| {
        let mut client = LineClient::connect(world.server.address(listener)).unwrap();
        client.send(format!("PROXY TCP4 {from} 198.51.100.1 56324 25\r\n").as_bytes()).unwrap();
        client
    };
    for (listener, from) in [("smtp", "192.0.2.7"), ("smtp", "192.0.2.8"), ("lmtp", "192.0.2.7")] {
        let mut client = connect(listener, from);
        client.reply().unwrap();
        let hello = if listener == "lmtp" { "LHLO" } else { "EHLO" };
        for command in [
            &format!("{hello} host.good.test"),
            "MAIL FROM:<a@none.test>",
            &format!("RCPT TO:<{USER}>"),
            "DATA",
            "Subject: hello\r\n\r\nHi.\r\n.",
        ] {
            let reply = client.ask(command).unwrap();
            assert!(reply.starts_with(['2', '3']), "{command}: {reply}");
        }
    }
    let mut client = connect("imap", "127.0.0.1");
    client.line().unwrap();
    client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
    for folder in ["192.0.2.7 host.good.test", "192.0.2.8 unknown", "192.0.2.7 unknown"] {
        let answer = client.imap(&format!("STATUS \"{folder}\" (MESSAGES)")).unwrap();
        assert!(answer[0].contains("MESSAGES 1"), "{folder}: {answer:?}");
    }
}

/// RSA signatures and a seal that Debian's python3-dkim makes.
#[test]
fn rsa_and_arc_of_another_program_are_verified() {
    if !client_tests_wanted() {
        return;
    }
    const SCRIPT: &str = r#"
import sys, dkim
kind, key, message = sys.argv[1], open(sys.argv[2], "rb").read(), open(sys.argv[3], "rb").read()
if kind == "dkim":
    made = [dkim.sign(message, b"s2", b"far.test", key, canonicalize=(c, c)) for c in (b"simple", b"relaxed")]
else:
    results = b"Authentication-Results: far.test; spf=pass smtp.mailfrom=x@far.test\r\n"
    made = dkim.arc_sign(results + message, b"s2", b"far.test", key, b"far.test")
sys.stdout.write(b"".join(made).decode())
"#;
    let dir = tempfile::tempdir().unwrap();
    let (key, file) = (dir.path().join("key.pem"), dir.path().join("message.eml"));
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl").args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let path = key.to_str().unwrap();
    openssl(&["genrsa", "-traditional", "-out", path, "2048"]);
    let public = base64(&openssl(&["rsa", "-in", path, "-pubout", "-outform", "DER"]));
    let world = world_with("", &format!("v=DKIM1; k=rsa; p={public}"));
    let made = |kind: &str, message: &str| {
        std::fs::write(&file, message).unwrap();
        // Debian's own interpreter, which has its packages.
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", SCRIPT, kind]).arg(&key).arg(&file);
        run_client(python) + message
    };
    let message = message("a@far.test");
    let signed = made("dkim", &message);
    let reply = world.send("smtp", "a@good.test", signed.as_bytes());
    assert!(reply.starts_with("250 "), "{reply}");
    let text = world.last("INBOX");
    assert_eq!(text.matches("dkim=pass").count(), 2, "{text}");
    assert!(text.contains("dmarc=pass header.from=far.test"), "{text}");
    let reply = world.send("smtp", "a@good.test", signed.replace("Hi.", "Ho.").as_bytes());
    assert!(reply.starts_with("550 5.7.26 "), "{reply}");

    let sealed = made("arc", &message.replace("far.test", "none.test"));
    assert!(world.send("smtp", "a@good.test", sealed.as_bytes()).starts_with("250 "));
    assert!(world.last("INBOX").contains("\tarc=pass"), "{}", world.last("INBOX"));
    let reply = world.send("smtp", "a@good.test", sealed.replace("Hi.", "Ho.").as_bytes());
    assert!(reply.starts_with("250 "), "{reply}");
    let text = world.last("INBOX");
    assert!(text.contains("\tarc=") && !text.contains("arc=pass"), "{text}");
}

#[test]
fn mail_that_fails_dmarc_is_refused_or_goes_to_junk() {
    let world = world("");
    let reply = world.send("smtp", "a@strict.test", message("a@strict.test").as_bytes());
    assert!(reply.starts_with("550 5.7.26 ") && reply.contains("strict.test"), "{reply}");
    // One byte of a signed message was changed.
    let forged = String::from_utf8(world.signed(&message("a@strict.test"))).unwrap().replace("Hi.", "Ho.");
    let reply = world.send("smtp", "a@strict.test", forged.as_bytes());
    assert!(reply.starts_with("550 5.7.26 "), "{reply}");
    // SPF passes for another domain than the author's: it is not aligned.
    let reply = world.send("smtp", "a@good.test", message("a@strict.test").as_bytes());
    assert!(reply.starts_with("550 5.7.26 "), "{reply}");

    let reply = world.send("smtp", "a@junk.test", message("a@junk.test").as_bytes());
    assert!(reply.starts_with("250 "), "{reply}");
    assert!(world.last("Junk").contains("policy.dmarc=quarantine"));
    // Without a policy a failure is only reported.
    assert!(world.send("smtp", "a@none.test", message("a@none.test").as_bytes()).starts_with("250 "));
    assert!(world.last("INBOX").contains("spf=fail"));
    // The null path is judged by the host's name.
    assert!(world.send("smtp", "", message("a@none.test").as_bytes()).starts_with("250 "));
    assert!(world.last("INBOX").contains("smtp.helo=host.good.test"));
}

#[test]
fn a_script_files_what_is_quarantined_where_it_wants() {
    let world = world("");
    let script = "require \"fileinto\"; if header :contains \"Authentication-Results\" \"dmarc=fail\" { fileinto \"Sent\"; }";
    let put = world.server.command(&["sieve", "put", USER, "main", "-", "--activate"], script);
    assert!(put.status.success(), "{put:?}");
    assert!(world.send("smtp", "a@junk.test", message("a@junk.test").as_bytes()).starts_with("250 "));
    assert!(world.last("Sent").contains("policy.dmarc=quarantine"));
    let put = world.server.command(&["sieve", "put", USER, "main", "-", "--activate"], "keep;");
    assert!(put.status.success(), "{put:?}");
    assert!(world.send("smtp", "a@junk.test", message("b@junk.test").as_bytes()).starts_with("250 "));
    assert!(world.last("Junk").contains("b@junk.test"));
}

/// The sender of a message that belongs into the junk folder is perhaps a victim (RFC 3834 §2).
#[test]
fn a_forged_sender_of_junk_gets_no_answer_of_a_script() {
    let world = world("");
    let senders = ["bo@junk.test", "cy@none.test"];
    for sender in senders {
        world.server.add_account(sender, PASSWORD);
    }
    let script = "require \"vacation\"; vacation \"away\";";
    let put = world.server.command(&["sieve", "put", USER, "main", "-", "--activate"], script);
    assert!(put.status.success(), "{put:?}");
    for sender in senders {
        assert!(world.send("smtp", sender, message(sender).as_bytes()).starts_with("250 "));
    }
    let answers = senders.map(|sender| {
        let mut client = LineClient::connect(world.server.address("imap")).unwrap();
        client.line().unwrap();
        client.imap(&format!("LOGIN {sender} \"{PASSWORD}\"")).unwrap();
        client.imap("STATUS INBOX (MESSAGES)").unwrap().swap_remove(0)
    });
    assert!(world.last("Junk").contains("bo@junk.test"));
    assert!(answers[0].ends_with("(MESSAGES 0)") && answers[1].ends_with("(MESSAGES 1)"), "{answers:?}");
}

#[test]
fn forged_results_go_and_those_of_others_stay() {
    let world = world("dmarc = \"report\"");
    let claim = "Authentication-Results: mx.example.org; dmarc=pass header.from=strict.test\r\n";
    let other = "Authentication-Results: other.test; dkim=pass\r\n";
    let text = format!("{claim}{other}{}", message("a@strict.test"));
    assert!(
        world.send("smtp", "a@strict.test", text.as_bytes()).starts_with("250 "),
        "policies are only reported"
    );
    let got = world.last("INBOX");
    assert_eq!(got.matches("Authentication-Results: mx.example.org").count(), 1, "{got}");
    assert!(got.contains("dmarc=fail") && got.contains(other) && !got.contains(claim), "{got}");
    // LMTP comes from a host that has done all this.
    assert!(world.send("lmtp", "a@strict.test", text.as_bytes()).starts_with("250 "));
    assert!(world.last("INBOX").contains(claim));
}

#[test]
fn hosts_that_are_trusted_are_believed() {
    let world = world("");
    let config = world._dir.path().join("posthaste.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("trusted_networks = []", "trusted_networks = [\"127.0.0.0/8\"]"))
        .unwrap();
    world.server.signal("HUP");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while world.server.logged("were read again").is_empty() {
        assert!(std::time::Instant::now() < deadline, "the configuration was not read again");
        std::thread::yield_now();
    }
    assert!(world.send("smtp", "a@strict.test", message("a@strict.test").as_bytes()).starts_with("250 "));
    assert!(!world.last("INBOX").contains("Authentication-Results"));
}
