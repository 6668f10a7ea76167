//! Reports about mail that others bring in the name of a domain (RFC 7489 §7.2), with a name
//! server of our own.

use posthaste_testkit::{DnsRecord, DnsServer, LineClient, Server, ServerBuilder, dot_stuffed, run_python};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

/// Sends a message to ana, and returns the reply to it.
fn send(server: &Server, from: &str, author: &str) -> String {
    let mut client = LineClient::connect(server.address("smtp")).unwrap();
    client.reply().unwrap();
    for command in
        ["EHLO host.good.test", &format!("MAIL FROM:<{from}>"), &format!("RCPT TO:<{USER}>"), "DATA"]
    {
        let reply = client.ask(command).unwrap();
        assert!(reply.starts_with(['2', '3']), "{command}: {reply}");
    }
    client
        .send(&dot_stuffed(format!("From: <{author}>\r\nSubject: hello\r\n\r\nHi.\r\n").as_bytes()))
        .unwrap();
    client.reply().unwrap()
}

#[test]
fn a_domain_hears_of_mail_in_its_name() {
    let txt = |name: &'static str, text: &str| (name, DnsRecord::Txt(text.to_owned()));
    let dns = DnsServer::start([
        txt("good.test", "v=spf1 ip4:127.0.0.1 -all"),
        txt("bad.test", "v=spf1 -all"),
        txt("_dmarc.good.test", "v=DMARC1; p=reject; aspf=s; rua=mailto:ana@example.org"),
        // This domain names ana, whose domain did not agree to that (RFC 7489 §7.1).
        txt("_dmarc.rude.test", "v=DMARC1; p=none; rua=mailto:ana@example.org"),
        txt("good.test._report._dmarc.example.org", "v=DMARC1"),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("posthaste.toml");
    let text = format!(
        "hostname = \"mx.example.org\"\n[relay]\nenabled = true\ndns = [\"{}\"]\n\
         [authentication]\ntrusted_networks = []\n[reports]\nperiod = \"2 s\"\n",
        dns.address()
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&config, text)
        .listen("smtp=127.0.0.1:0")
        .listen("imap=127.0.0.1:0")
        .start();
    server.add_account(USER, PASSWORD);
    assert!(send(&server, "a@rude.test", "a@rude.test").starts_with("250"));
    assert!(send(&server, "a@good.test", "a@good.test").starts_with("250"));
    assert!(send(&server, "x@bad.test", "a@sub.good.test").starts_with("550 5.7.26"));
    // Two reports: of good.test, and of its subdomain, whose policy is that of good.test.
    let mut reports: Vec<String> = Vec::new();
    for text in server.mail(USER, PASSWORD, "INBOX", 4) {
        let text = String::from_utf8(text).unwrap();
        if text.contains("Subject: Report Domain: ") {
            reports.push(text);
        }
    }
    const SCRIPT: &str = r#"
import email, gzip, sys
import xml.etree.ElementTree as tree
seen = []
for text in sys.argv[1:]:
    part = email.message_from_string(text).get_payload()[1]
    assert part.get_content_type() == "application/gzip"
    report = tree.fromstring(gzip.decompress(part.get_payload(decode=True)))
    policy = report.find("policy_published")
    for record in report.findall("record"):
        seen.append(" ".join(record.findtext(path) for path in [
            "identifiers/header_from", "row/source_ip", "row/count", "row/policy_evaluated/disposition",
            "row/policy_evaluated/dkim", "row/policy_evaluated/spf", "auth_results/spf/domain",
            "auth_results/spf/result"]) + " " + policy.findtext("domain") + " " + policy.findtext("aspf"))
print("\n".join(sorted(seen)))
"#;
    let all: Vec<&str> = reports.iter().map(String::as_str).collect();
    assert_eq!(
        run_python(SCRIPT, &all),
        "good.test 127.0.0.1 1 none fail pass good.test pass good.test s\n\
         sub.good.test 127.0.0.1 1 reject fail fail bad.test fail good.test s\n"
    );
    assert!(reports.iter().all(|text| {
        text.contains("Subject: Report Domain: good.test Submitter: mx.example.org Report-ID: <")
    }));
}
