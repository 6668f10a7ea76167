//! SIGHUP with a configuration that cannot be used: everything stays as it was. SIGHUP with a
//! valid configuration. A part of it needs the next start.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use posthaste_testkit::{LineClient, command, free_port, skips_cluster};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// A machine under load takes its time.
const TIMEOUT: Duration = Duration::from_secs(60);
const REFUSED: &str = "the configuration was not reloaded";
const RELOADED: &str = "configuration and certificate were read again";
const ENDS_SOON: &str = "this certificate expires soon";
const WAITS: &str = "it takes effect at the next start of the server key=\"store.compress\"";
const NAME_WAITS: &str = "it takes effect at the next start of the server key=\"hostname\"";

/// A server whose listeners are those of its configuration.
struct Server {
    child: Child,
    log: PathBuf,
    imap: SocketAddr,
}

impl Server {
    fn start(dir: &Path) -> Self {
        let log = dir.join("log");
        let mut child = Command::new(BINARY)
            .args(["serve", "--config", dir.join("mine.toml").to_str().unwrap()])
            .args(["--data", dir.join("data").to_str().unwrap()])
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("ready ") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the server ended");
        }
        let imap = line.split("imap=").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
        Self { child, log, imap }
    }

    /// Sends SIGHUP, and waits until the log has this text this many times.
    fn reload(&self, text: &str, times: usize) {
        let status = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
        let deadline = Instant::now() + TIMEOUT;
        while self.count(text) < times {
            assert!(Instant::now() < deadline, "{}", fs::read_to_string(&self.log).unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn count(&self, text: &str) -> usize {
        fs::read_to_string(&self.log).unwrap().matches(text).count()
    }

    /// The name in the greeting, and whether a user can log in without TLS.
    fn shows(&self) -> (String, bool) {
        let mut client = LineClient::connect(self.imap).unwrap();
        let greeting = client.line().unwrap();
        let name = greeting.split(']').nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        let answer = client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap().pop().unwrap();
        (name, answer.starts_with("t OK"))
    }

    /// The certificate.
    fn certificate(&self) -> String {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &self.imap.to_string(), "-starttls", "imap", "-showcerts"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split("-----BEGIN CERTIFICATE-----").nth(1).unwrap().split("-----END").next().unwrap().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a configuration with one listener for IMAP, and these for POP3.
fn configure(dir: &Path, host: &str, pop3: &[SocketAddr], rest: &str) {
    let pop3: Vec<String> = pop3.iter().map(|address| format!("\"{address}\"")).collect();
    let text = format!(
        "hostname = \"{host}\"\n[listen]\nimap = [\"127.0.0.1:0\"]\nimaps = []\npop3 = [{}]\npop3s = []\nlmtp = \
         []\nsubmission = []\nsubmissions = []\nsmtp = []\nsieve = []\n{rest}",
        pop3.join(", ")
    );
    fs::write(dir.join("mine.toml"), text).unwrap();
}

/// A server with the configuration "before.example", and an account.
fn started_with_user(dir: &Path) -> Server {
    configure(dir, "before.example", &[], "");
    let server = Server::start(dir);
    let add = ["account", "add", USER, "--password-stdin"];
    let added = command(Path::new(BINARY), &dir.join("data"), &add, PASSWORD);
    assert!(added.status.success(), "{added:?}");
    server
}

#[test]
fn a_busy_port_leaves_everything_as_it_was() {
    if skips_cluster("the server and the command name no engine") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = started_with_user(dir);
    let recorded = || {
        let act = format!("act=\"serve: reload {}\" user=", dir.join("mine.toml").display());
        let log = fs::read_to_string(dir.join("data/audit.log")).unwrap();
        log.lines().filter(|line| line.contains(&act) && line.ends_with(" outcome=done")).count()
    };
    let certificate = server.certificate();
    assert_eq!(server.shows(), ("before.example".to_owned(), true));
    // One port that is free, and one that another program has.
    let free = free_port();
    // The system gives a port of its own choice to others once it is free.
    let busy = TcpListener::bind(free_port()).unwrap();
    let busy_at = busy.local_addr().unwrap();
    let rest = "[login]\nplaintext = \"never\"\n[store]\ncompress = \"zstd\"\n";
    configure(dir, "after.example", &[free, busy_at], rest);
    // A new pair is made for the next one who reads it.
    for name in ["tls-certificate.pem", "tls-key.pem"] {
        fs::remove_file(dir.join("data").join(name)).unwrap();
    }
    server.reload(REFUSED, 1);
    assert!(server.count(&format!("cannot listen on {busy_at}")) == 1 && server.count(WAITS) == 0);
    assert_eq!(server.shows(), ("before.example".to_owned(), true));
    assert_eq!((server.certificate(), recorded()), (certificate.clone(), 0));
    assert!(LineClient::connect(free).is_err(), "a port of the refused configuration is open");
    drop(busy);
    // The port is free as soon as no child of another test holds the listener.
    while TcpStream::connect(busy_at).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Settings that need a restart are named each time.
    for times in 1..=2 {
        server.reload(RELOADED, times);
        assert_eq!((server.count(WAITS), server.count(NAME_WAITS), recorded()), (times, times, times));
    }
    // Scripts, the queue and reports have the old name, too.
    assert_eq!(server.shows(), ("before.example".to_owned(), false));
    assert_ne!(server.certificate(), certificate);
    for address in [free, busy_at] {
        assert!(LineClient::connect(address).unwrap().line().unwrap().starts_with("+OK"));
    }
}

/// With such a time nobody could log in, or the sum of times ended the server.
#[test]
fn a_time_out_of_its_range_leaves_everything_as_it_was() {
    if skips_cluster("the server and the command name no engine") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = started_with_user(dir);
    for (before, time) in ["0 s", "300000000000 years"].into_iter().enumerate() {
        let rest = format!("[login]\nplaintext = \"never\"\n[limits]\nlogin_timeout = \"{time}\"\n");
        configure(dir, "before.example", &[], &rest);
        server.reload(REFUSED, before + 1);
        assert_eq!(server.count("limits.login_timeout"), before + 1);
        assert_eq!(server.shows(), ("before.example".to_owned(), true));
    }
    let file = dir.join("mine.toml");
    let shown = Command::new(BINARY).arg("config").arg("--config").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&shown.stderr);
    assert_eq!(shown.status.code(), Some(2));
    assert!(said.contains("must be from 1 s to 1 year") && said.contains("`limits.login_timeout`"), "{said}");
}

/// The daily look and this one are the same: `serve::expiry`.
#[test]
fn a_certificate_that_ends_soon_is_named_after_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (chain, key) = (dir.join("chain.pem"), dir.join("key.pem"));
    let certify = |days: u64| {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["mail.example".to_owned()]).unwrap();
        params.not_after = (SystemTime::now() + Duration::from_secs(days * 24 * 60 * 60)).into();
        fs::write(&chain, params.self_signed(&pair).unwrap().pem()).unwrap();
        fs::write(&key, pair.serialize_pem()).unwrap();
    };
    certify(100);
    let tls = format!("[tls]\ncertificate = {chain:?}\nkey = {key:?}\n");
    configure(dir, "mail.example", &[], &tls);
    let server = Server::start(dir);
    server.reload(RELOADED, 1);
    assert_eq!(server.count(ENDS_SOON), 0);
    certify(5);
    server.reload(RELOADED, 2);
    assert!(server.count(ENDS_SOON) > 0);
}
