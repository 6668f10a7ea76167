//! TLS to other hosts, as their domains and the senders want it: MTA-STS, DANE, REQUIRETLS, and the
//! reports about it. Two servers, a name server of our own, and an authority of our own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use posthaste_testkit::{
    DnsRecord, DnsServer, LineClient, Server, ServerBuilder, command, dot_stuffed, free_port, message_by,
    run_python, zone,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PublicKeyData, SigningKey};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const PASSWORD: &str = "correct horse";
/// base64 of NUL `ana@a.test` NUL `correct horse`.
const PLAIN: &str = "AGFuYUBhLnRlc3QAY29ycmVjdCBob3JzZQ==";
const TIMEOUT: Duration = Duration::from_secs(60);

/// The message that ana submits.
fn message(serial: usize) -> Vec<u8> {
    message_by("Ana <ana@a.test>", serial)
}

fn done(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The settings of a world.
struct Made<'m> {
    /// The names in the certificate of `b.test`'s host.
    names: &'m [&'m str],
    /// The policy of `b.test`.
    mode: &'m str,
    /// More settings of `a.test`: of the section `relay`, and sections.
    relay: &'m str,
    sections: &'m str,
}

const GOOD: Made<'_> =
    Made { names: &["mail.b.test", "mta-sts.b.test"], mode: "enforce", relay: "", sections: "" };

/// `a.test` sends to `b.test`, which has a policy and serves it.
struct World {
    a: Option<Server>,
    b: Server,
    zone: Vec<(String, DnsRecord)>,
    dns: DnsServer,
    /// The data that TLSA records name: the public key of `b.test`'s host.
    key: Vec<u8>,
    settings: PathBuf,
    smtp_a: SocketAddr,
    dir: tempfile::TempDir,
}

fn address(name: &str) -> (String, DnsRecord) {
    (name.to_owned(), DnsRecord::A([127, 0, 0, 1]))
}

/// A certificate and key as files; the public key.
fn certificate(dir: &Path, names: &[&str], issuer: &CertifiedIssuer<'static, impl SigningKey>) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, issuer).unwrap();
    std::fs::write(dir.join("chain.pem"), certificate.pem()).unwrap();
    std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    std::process::Command::new("chmod").arg("600").arg(dir.join("key.pem")).status().unwrap();
    key.subject_public_key_info()
}

fn start(config: &Path, data: &Path, listen: &[String]) -> Server {
    let mut server = ServerBuilder::new(BINARY).data(data).arg("--config").arg(config.to_str().unwrap());
    for one in listen.iter().map(String::as_str).chain([
        "imap=127.0.0.1:0",
        "submission=127.0.0.1:0",
        "submissions=127.0.0.1:0",
    ]) {
        server = server.listen(one);
    }
    server.start()
}

impl World {
    fn new(made: &Made<'_>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for place in ["a", "b"] {
            std::fs::create_dir(dir.path().join(place)).unwrap();
        }
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let ca = dir.path().join("ca.pem");
        std::fs::write(&ca, authority.pem()).unwrap();
        let key = certificate(&dir.path().join("b"), made.names, &authority);
        let (smtp_a, smtp_b, https) = (free_port(), free_port(), free_port());
        let (config, data) = (dir.path().join("b/posthaste.toml"), dir.path().join("b/data"));
        let tls = dir.path().join("b").display().to_string();
        let dns = DnsServer::start([]);
        let relay = |port: u16| {
            format!(
                "dns = [\"{}\"]\nport = {port}\nprivate_networks = [\"127.0.0.0/8\"]\nsts_port = {}\nca = {ca:?}",
                dns.address(),
                https.port()
            )
        };
        let text = format!(
            "hostname = \"mail.b.test\"\ndomain = \"b.test\"\n[tls]\ncertificate = \"{tls}/chain.pem\"\n\
             key = \"{tls}/key.pem\"\n[listen]\nhttps = [\"{https}\"]\n[mta_sts]\nmode = \"{}\"\n[relay]\n{}\n",
            made.mode,
            relay(smtp_a.port())
        );
        std::fs::write(&config, text).unwrap();
        let at = ["--config", config.to_str().unwrap()];
        let printed =
            done(&command(Path::new(BINARY), &data, &[&["domain", "add", "b.test"], &at[..]].concat(), ""));
        let mut zone = zone(&printed);
        zone.extend(["mail.a.test", "a.test", "mail.b.test", "mta-sts.b.test"].map(address));
        zone.push(("_smtp._tls.b.test".into(), DnsRecord::Txt("v=TLSRPTv1; rua=mailto:bo@b.test".into())));
        zone.retain(|(_, record)| {
            *record != DnsRecord::Txt("v=TLSRPTv1; rua=mailto:postmaster@b.test".into())
        });
        serve(&dns, &zone);
        let b = start(&config, &data, &[format!("smtp={smtp_b}"), format!("https={https}")]);
        b.add_account("bo@b.test", PASSWORD);
        let settings = dir.path().join("a/posthaste.toml");
        let text = format!(
            "hostname = \"mail.a.test\"\ndomain = \"a.test\"\n{}\n[relay]\nenabled = true\nretry_first = \"1 s\"\n\
             retry_longest = \"1 s\"\n{}\n{}\n",
            made.sections,
            relay(smtp_b.port()),
            made.relay
        );
        std::fs::write(&settings, text).unwrap();
        let mut world = Self { a: None, b, zone, dns, key, settings, smtp_a, dir };
        world.start_a();
        world.a().add_account("ana@a.test", PASSWORD);
        world
    }

    fn start_a(&mut self) {
        let listen = format!("smtp={}", self.smtp_a);
        self.a = Some(start(&self.settings, &self.dir.path().join("a/data"), &[listen]));
    }

    fn a(&self) -> &Server {
        self.a.as_ref().unwrap()
    }

    /// Serves the zone with some records changed.
    fn change(&self, change: impl FnOnce(&mut Vec<(String, DnsRecord)>)) {
        let mut zone = self.zone.clone();
        change(&mut zone);
        serve(&self.dns, &zone);
    }

    /// Has `b.test` named another host for its mail.
    fn move_mx(&self) {
        self.change(|zone| {
            zone.retain(|(_, record)| !matches!(record, DnsRecord::Mx(..)));
            zone.push(("b.test".into(), DnsRecord::Mx(10, "evil.test".into())));
            zone.push(address("evil.test"));
        });
    }

    /// Hands in a message from ana to bo.
    fn submit(&self, text: &[u8]) {
        let mut client = LineClient::connect(self.a().address("submission")).unwrap();
        client.reply().unwrap();
        client.ask("EHLO client.test").unwrap();
        assert!(client.ask(&format!("AUTH PLAIN {PLAIN}")).unwrap().starts_with("235"));
        for (command, code) in
            [("MAIL FROM:<ana@a.test>", "250"), ("RCPT TO:<bo@b.test>", "250"), ("DATA", "354")]
        {
            let reply = client.ask(command).unwrap();
            assert!(reply.starts_with(code), "{command}: {reply}");
        }
        client.send(&dot_stuffed(text)).unwrap();
        assert!(client.reply().unwrap().starts_with("250 2.0.0 Queued"));
    }

    /// The same over TLS, with REQUIRETLS: by Python's smtplib.
    fn submit_requiring_tls(&self) -> String {
        const SCRIPT: &str = r#"
import smtplib, ssl, sys
port, password = int(sys.argv[1]), sys.argv[2]
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
client = smtplib.SMTP("127.0.0.1", port)
client.ehlo()
print("clear" if client.has_extn("requiretls") else "not in clear")
print(client.docmd("MAIL", "FROM:<ana@a.test> REQUIRETLS")[0])
client.starttls(context=context)
client.ehlo()
print("offered" if client.has_extn("requiretls") else "not offered")
client.login("ana@a.test", password)
client.sendmail("ana@a.test", ["bo@b.test"], "Subject: secret\r\n\r\nThe body.\r\n", mail_options=["REQUIRETLS", "RET=FULL"])
print("sent")
"#;
        run_python(SCRIPT, &[&self.a().address("submission").port().to_string(), PASSWORD])
    }

    fn inbox(&self, server: &Server, user: &str, count: usize) -> Vec<String> {
        let all = server.mail(user, PASSWORD, "INBOX", count);
        all.into_iter().map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
    }

    /// Waits until bo has mail and a report about TLS. More reports may follow: about the
    /// connections that brought others.
    fn report(&self) -> String {
        let mut client = LineClient::connect(self.b.address("imap")).unwrap();
        client.line().unwrap();
        client.imap(&format!("LOGIN bo@b.test \"{PASSWORD}\"")).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            client.imap("EXAMINE INBOX").unwrap();
            let got = client.bodies().unwrap();
            let mut texts = got.iter().map(|text| String::from_utf8_lossy(text));
            let report = texts.find(|text| text.contains("TLS-Report-Domain: b.test"));
            if let Some(report) = report.filter(|_| got.len() > 1) {
                return report.into_owned();
            }
            assert!(Instant::now() < deadline, "of {} messages none is a report", got.len());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the queue of `a.test` says this of what waits.
    fn waits_with(&self, words: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let listed = done(&self.a().command(&["queue", "list"], ""));
            if listed.contains(words) {
                return;
            }
            assert!(Instant::now() < deadline, "{words:?} is not in {listed}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn serve(dns: &DnsServer, zone: &[(String, DnsRecord)]) {
    dns.serve(zone.iter().map(|(name, record)| (name.as_str(), record.clone())));
}

#[test]
fn a_policy_that_is_published_is_followed() {
    let mut world = World::new(&GOOD);
    world.submit(&message(1));
    let got = world.inbox(&world.b, "bo@b.test", 1);
    assert!(got[0].contains("with ESMTPS"), "{}", got[0]);
    // DNS now names another host.
    drop(world.a.take());
    world.move_mx();
    world.start_a();
    world.submit(&message(2));
    world.waits_with("is not listed in the MTA-STS policy of b.test");
    assert_eq!(world.inbox(&world.b, "bo@b.test", 1).len(), 1);
}

#[test]
fn without_the_record_a_policy_that_was_fetched_counts() {
    let mut world = World::new(&GOOD);
    world.submit(&message(1));
    world.inbox(&world.b, "bo@b.test", 1);
    drop(world.a.take());
    world.change(|zone| {
        zone.retain(|(name, record)| !matches!(record, DnsRecord::Mx(..)) && name != "_mta-sts.b.test");
        zone.push(("b.test".into(), DnsRecord::Mx(10, "evil.test".into())));
        zone.push(address("evil.test"));
    });
    world.start_a();
    world.submit(&message(2));
    world.waits_with("is not listed in the MTA-STS policy of b.test");
}

#[test]
fn a_certificate_for_another_name_gets_no_mail() {
    let world = World::new(&Made { names: &["other.test", "mta-sts.b.test"], ..GOOD });
    world.submit(&message(1));
    world.waits_with("TLS failed");
    // RFC 8689 §5: the sender prefers delivery to TLS.
    world.submit(b"TLS-Required: No\r\nSubject: anyhow\r\n\r\nx\r\n");
    let got = world.inbox(&world.b, "bo@b.test", 1);
    assert!(got[0].contains("Subject: anyhow"), "{}", got[0]);
}

/// A policy in the mode "testing" stops nothing; the domain hears of what failed.
#[test]
fn failures_of_tls_are_reported() {
    let made = Made {
        names: &["other.test", "mta-sts.b.test"],
        mode: "testing",
        sections: "[reports]\nperiod = \"2 s\"",
        ..GOOD
    };
    let world = World::new(&made);
    world.submit(&message(1));
    let report = world.report();
    for line in [
        "TLS-Report-Submitter: mail.a.test\r\n",
        "Content-Type: multipart/report; report-type=\"tlsrpt\";",
        "Content-Type: application/tlsrpt+gzip\r\n",
        "Subject: Report Domain: b.test Submitter: mail.a.test Report-ID: <",
    ] {
        assert!(report.contains(line), "{line:?} is not in {report}");
    }
    const SCRIPT: &str = r#"
import email, gzip, json, sys
message = email.message_from_string(sys.argv[1])
report = json.loads(gzip.decompress(message.get_payload()[1].get_payload(decode=True)))
policy = next(p for p in report["policies"] if p["policy"]["policy-type"] == "sts")
print(policy["policy"]["policy-domain"], policy["policy"]["mx-host"], policy["policy"]["policy-string"][1])
print(policy["summary"]["total-failure-session-count"] > 0)
print(policy["failure-details"][0]["result-type"], policy["failure-details"][0]["receiving-mx-hostname"])
print("failure-reason-code" in policy["failure-details"][0])
"#;
    assert_eq!(
        run_python(SCRIPT, &[&report]),
        "b.test ['mail.b.test'] mode: testing\nTrue\ncertificate-host-mismatch mail.b.test\nFalse\n"
    );
}

#[test]
fn the_command_that_checks_a_domain_fetches_its_policy() {
    let world = World::new(&GOOD);
    let config = world.dir.path().join("b/posthaste.toml");
    let printed = world.b.command(&["domain", "check", "b.test", "--config", config.to_str().unwrap()], "");
    let text = String::from_utf8_lossy(&printed.stdout);
    assert!(text.contains("right    https://mta-sts.b.test/.well-known/mta-sts.txt\n"), "{text}");
    assert!(text.contains("right    _mta-sts.b.test TXT v=STSv1; id="), "{text}");
}

#[test]
fn a_message_that_requires_tls_goes_only_over_verified_tls() {
    let world = World::new(&GOOD);
    assert_eq!(world.submit_requiring_tls(), "not in clear\n530\noffered\nsent\n");
    let got = world.inbox(&world.b, "bo@b.test", 1);
    assert!(got[0].contains("Subject: secret") && got[0].contains("with ESMTPS"), "{}", got[0]);
    // Nothing proves a host of a domain without a policy: the sender hears of it at once, and the
    // report has no body.
    let other = World::new(&Made { mode: "none", ..GOOD });
    other.submit_requiring_tls();
    let report = other.inbox(other.a(), "ana@a.test", 1).remove(0);
    assert!(report.contains("Action: failed\r\nStatus: 5.7.10\r\n"), "{report}");
    assert!(report.contains("Subject: secret") && !report.contains("The body."), "{report}");
}

/// The resolver says that DNSSEC proves its answers.
#[test]
fn a_key_that_dns_names_is_enough() {
    let dane = Made { names: &["unknown.test"], mode: "none", relay: "dane = true", ..GOOD };
    let world = World::new(&dane);
    let port = world.b.address("smtp").port();
    let name = format!("_{port}._tcp.mail.b.test");
    let with = |data: Vec<u8>| {
        let mut zone = world.zone.clone();
        zone.push((name.clone(), DnsRecord::Tlsa(3, 1, 0, data)));
        serve(&world.dns, &zone);
    };
    world.dns.prove();
    with(b"another key".to_vec());
    world.submit(&message(1));
    world.waits_with("TLS failed");
    with(world.key.clone());
    let got = world.inbox(&world.b, "bo@b.test", 1);
    assert!(got[0].contains("with ESMTPS"), "{}", got[0]);
}

/// Unusable records of DANE: their certificate usage does not apply to mail.
fn with_unusable_records(world: &World) {
    let name = format!("_{}._tcp.mail.b.test", world.b.address("smtp").port());
    world.dns.prove();
    world.change(|zone| zone.push((name, DnsRecord::Tlsa(1, 1, 1, vec![7; 32]))));
}

/// Records of this kind must not remove the certificate check that a policy demands.
#[test]
fn records_that_nobody_can_use_replace_no_policy() {
    let made = Made { names: &["other.test", "mta-sts.b.test"], relay: "dane = true", ..GOOD };
    let world = World::new(&made);
    with_unusable_records(&world);
    world.submit(&message(1));
    world.waits_with("TLS failed");
    // With a good certificate, mail goes.
    let good = World::new(&Made { relay: "dane = true", ..GOOD });
    with_unusable_records(&good);
    good.submit(&message(2));
    let got = good.inbox(&good.b, "bo@b.test", 1);
    assert!(got[0].contains("with ESMTPS"), "{}", got[0]);
}

/// RFC 8689 §4.2.1: a certificate of an authority is as good as one that fits a record.
#[test]
fn records_that_nobody_can_use_hinder_no_message_that_requires_tls() {
    let world = World::new(&Made { mode: "none", relay: "dane = true", ..GOOD });
    with_unusable_records(&world);
    world.submit_requiring_tls();
    let got = world.inbox(&world.b, "bo@b.test", 1);
    assert!(got[0].contains("Subject: secret") && got[0].contains("with ESMTPS"), "{}", got[0]);
    // Without such a certificate the sender hears of it at once.
    let names = &["other.test", "mta-sts.b.test"];
    let other = World::new(&Made { names, mode: "none", relay: "dane = true", ..GOOD });
    with_unusable_records(&other);
    other.submit_requiring_tls();
    let report = other.inbox(other.a(), "ana@a.test", 1).remove(0);
    assert!(report.contains("Action: failed\r\nStatus: 5.7.5\r\n"), "{report}");
}

/// The host of a route may want a login. Its certificate is verified before the password is sent.
#[test]
fn the_host_of_a_route_gets_a_login() {
    let names = &["127.0.0.1", "mail.b.test", "mta-sts.b.test"];
    let mut world = World::new(&Made { names, ..GOOD });
    world.b.add_account("ana@a.test", "another horse");
    let password = world.dir.path().join("password");
    std::fs::write(&password, "another horse\n").unwrap();
    std::process::Command::new("chmod").arg("600").arg(&password).status().unwrap();
    let settings = std::fs::read_to_string(&world.settings).unwrap();
    let route = |host: SocketAddr, tls: &str| {
        let login = format!("user = \"ana@a.test\", password_file = {password:?}");
        format!("routes = [{{ domain = \"b.test\", host = \"{host}\", tls = \"{tls}\", {login} }}]\n")
    };
    let hosts = [("submissions", "implicit"), ("submission", "verified")];
    for (count, (listener, tls)) in (1..).zip(hosts) {
        drop(world.a.take());
        let log = "[log]\nlevel = \"trace\"\n";
        let text = format!("{settings}{}{log}", route(world.b.address(listener), tls));
        std::fs::write(&world.settings, text).unwrap();
        world.start_a();
        world.submit(&message(count));
        let got = world.inbox(&world.b, "bo@b.test", count);
        assert!(got[count - 1].contains("with ESMTPSA"), "{}", got[count - 1]);
        // All of it was logged, except the password: as it is, or as AUTH PLAIN has it.
        assert!(!world.a().logged("TRACE").is_empty());
        for secret in ["another horse", "AGFuYUBhLnRlc3QAYW5vdGhlciBob3JzZQ=="] {
            assert_eq!(world.a().logged(secret), [""; 0]);
        }
    }
    // A host with a certificate for another name gets no password.
    let mut other = World::new(&GOOD);
    drop(other.a.take());
    let settings = std::fs::read_to_string(&other.settings).unwrap();
    let text = format!("{settings}{}", route(other.b.address("submissions"), "implicit"));
    std::fs::write(&other.settings, text).unwrap();
    other.start_a();
    other.submit(&message(3));
    other.waits_with("TLS failed");
}
