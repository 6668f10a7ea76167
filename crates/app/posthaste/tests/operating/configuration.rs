//! The configuration of a server: which values are read, when they are read again, and which are
//! shown.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, ServerBuilder, script};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";

/// Whether this user can log in.
fn logs_in(server: &Server, user: &str, password: &str) -> bool {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    let answer = client.imap(&format!("LOGIN {user} \"{password}\"")).unwrap().pop().unwrap();
    answer.starts_with("t OK")
}

/// Waits until this is so: a signal is handled in its own time.
fn until(is_so: impl Fn() -> bool, otherwise: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{otherwise}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A server with its configuration and its data in one directory.
fn configured() -> (Server, tempfile::TempDir) {
    configured_with(&[])
}

/// The same with these listeners; without any, with the testkit's.
fn configured_with(listeners: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerBuilder::new(BINARY)
        .data(dir.path().join("data"))
        .settings(&dir.path().join("posthaste.toml"), "[log]\nlevel = \"info\"\n");
    let listen = |server: ServerBuilder, name: &&str| server.listen(&format!("{name}=127.0.0.1:0"));
    (listeners.iter().fold(server, listen).start(), dir)
}

#[test]
fn sighup_reads_certificate_and_configuration_again() {
    let (server, dir) = configured();
    let file = dir.path().join("posthaste.toml");
    let certificate = || {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &server.address("imaps").to_string(), "-showcerts"])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split("-----BEGIN CERTIFICATE-----")
            .nth(1)
            .map(|t| t.split("-----END").next().unwrap().to_owned())
    };
    let before = certificate().expect("a certificate");
    std::fs::remove_file(server.data().join("tls-certificate.pem")).unwrap();
    std::fs::remove_file(server.data().join("tls-key.pem")).unwrap();
    // Another server's self-signed pair plays the renewed one.
    let other = ServerBuilder::new(BINARY).start();
    for name in ["tls-certificate.pem", "tls-key.pem"] {
        std::fs::copy(other.data().join(name), server.data().join(name)).unwrap();
    }
    server.signal("HUP");
    // A new certificate is the sign that the signal was handled.
    until(|| certificate().expect("a certificate") != before, "the certificate is still the old one");
    // A broken configuration is refused, and the server continues with the old one.
    std::fs::write(&file, "[log]\nlevle = \"info\"\n").unwrap();
    server.signal("HUP");
    server.add_account(USER, "long enough");
    assert!(logs_in(&server, USER, "long enough"));
}

/// The certificate that a listener shows, PEM; `start` is the STARTTLS of `openssl s_client`, or
/// nothing.
fn shown(address: std::net::SocketAddr, start: &str) -> String {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &address.to_string(), "-showcerts"]);
    if !start.is_empty() {
        client.args(["-starttls", start]);
    }
    let output = client.stdin(std::process::Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pem =
        text.split("-----BEGIN CERTIFICATE-----").nth(1).unwrap_or_else(|| panic!("{start}: {output:?}"));
    pem.split("-----END").next().unwrap().trim().to_owned()
}

#[test]
fn sighup_with_another_certificate_path_is_taken_by_every_listener() {
    const LISTENERS: [(&str, &str); 10] = [
        ("imap", "imap"),
        ("imaps", ""),
        ("pop3", "pop3"),
        ("pop3s", ""),
        ("submission", "smtp"),
        ("submissions", ""),
        ("smtp", "smtp"),
        ("lmtp", "lmtp"),
        ("sieve", "sieve"),
        ("https", ""),
    ];
    let (server, dir) = configured_with(&LISTENERS.map(|(name, _)| name));
    let file = dir.path().join("posthaste.toml");
    let before = shown(server.address("imaps"), "");
    // Another server's self-signed pair plays the new one.
    let other = ServerBuilder::new(BINARY).listen("imap=127.0.0.1:0").start();
    let path = |name: &str| other.data().join(name).to_str().unwrap().to_owned();
    let new = std::fs::read_to_string(path("tls-certificate.pem")).unwrap();
    let new =
        new.split("-----BEGIN CERTIFICATE-----").nth(1).unwrap().split("-----END").next().unwrap().trim();
    assert_ne!(before, new);
    let tls = format!(
        "[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        path("tls-certificate.pem"),
        path("tls-key.pem")
    );
    std::fs::write(&file, tls).unwrap();
    server.signal("HUP");
    // The first listener shows when.
    until(|| shown(server.address("imap"), "imap") == new, "the certificate is still the old one");
    for (protocol, start) in LISTENERS {
        assert_eq!(shown(server.address(protocol), start), new, "{protocol}");
    }
}

/// A client that names another protocol was led here by somebody between (RFC 7301 §3.2).
#[test]
fn a_protocol_with_a_name_in_alpn_takes_no_other() {
    const NAMES: [(&str, &str, &str); 5] = [
        ("imap", "imap", "imap"),
        ("imaps", "", "imap"),
        ("pop3", "pop3", "pop3"),
        ("pop3s", "", "pop3"),
        ("sieve", "sieve", "managesieve"),
    ];
    let (server, _dir) = configured_with(&NAMES.map(|(listener, ..)| listener));
    for (listener, start, name) in NAMES {
        let agreed = |offered: &str| {
            let mut client = Command::new("openssl");
            client.args(["s_client", "-alpn", offered, "-connect", &server.address(listener).to_string()]);
            if !start.is_empty() {
                client.args(["-starttls", start]);
            }
            let output = client.stdin(std::process::Stdio::null()).output().unwrap();
            String::from_utf8_lossy(&output.stdout).contains(&format!("ALPN protocol: {name}\n"))
        };
        assert!(agreed(name), "{listener}");
        assert!(!agreed("http/1.1"), "{listener}");
    }
}

/// The first line of an answer to a connection that begins with these bytes.
fn first_line(address: std::net::SocketAddr, start: &str) -> String {
    let mut client = LineClient::connect(address).unwrap();
    client.send(start.as_bytes()).unwrap();
    client.line().unwrap_or_default()
}

/// The header of a proxy for a client on another machine.
const HEADER: &str = "PROXY TCP4 192.0.2.7 198.51.100.1 56324 143\r\n";

#[test]
fn behind_a_proxy_the_address_in_the_header_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (file, log, logging) =
        (dir.path().join("mine.toml"), dir.path().join("log"), dir.path().join("logging"));
    std::fs::write(&file, "[listen]\nproxy_networks = [\"127.0.0.1\"]\n[login]\nplaintext = \"always\"\n")
        .unwrap();
    script(&logging, &format!("exec '{BINARY}' \"$@\" 2>>'{}'", log.display()));
    const GREETINGS: [(&str, &str); 6] = [
        ("imap", "* OK"),
        ("pop3", "+OK"),
        ("lmtp", "220"),
        ("submission", "220"),
        ("smtp", "220"),
        ("sieve", "\"IMPLEMENTATION\""),
    ];
    // A request gets the first line of HTTP.
    const WITHIN_TLS: [(&str, &str, &str); 4] = [
        ("imaps", "", "* OK"),
        ("pop3s", "", "+OK"),
        ("submissions", "", "220"),
        ("https", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "HTTP/1.1 "),
    ];
    let server = ServerBuilder::new(&logging).arg("--config").arg(file.to_str().unwrap());
    let listen = |server: ServerBuilder, name: &str| server.listen(&format!("{name}=127.0.0.1:0"));
    let names = GREETINGS.iter().map(|(name, _)| *name).chain(WITHIN_TLS.iter().map(|(name, ..)| *name));
    let server = names.fold(server, listen).start();
    // Listeners that begin with TLS do the handshake after a header, and not without one.
    for (protocol, request, greeting) in WITHIN_TLS {
        let client = || LineClient::connect(server.address(protocol)).unwrap();
        let mut behind = client();
        behind.send(HEADER.as_bytes()).unwrap();
        let mut behind = behind.tls().unwrap();
        behind.send(request.as_bytes()).unwrap();
        let line = behind.line().unwrap();
        assert!(line.starts_with(greeting), "{protocol}: {line}");
        assert!(client().tls().is_err(), "{protocol}");
    }
    // The others greet after a header.
    for (protocol, greeting) in GREETINGS {
        let line = first_line(server.address(protocol), HEADER);
        assert!(line.starts_with(greeting), "{protocol}: {line}");
        assert_eq!(first_line(server.address(protocol), "a NOOP\r\n"), "", "{protocol}");
    }
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.send(HEADER.as_bytes()).unwrap();
    client.line().unwrap();
    assert!(client.imap(&format!("LOGIN {USER} wrong")).unwrap().pop().unwrap().starts_with("t NO"));
    // Without the network the header is a bad command, and the greeting waits for nothing.
    std::fs::write(&file, "[login]\nplaintext = \"loopback\"\n").unwrap();
    server.signal("HUP");
    let greets = || first_line(server.address("imap"), "a NOOP\r\n").starts_with("* OK");
    until(greets, "the server still awaits a header");
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.send(HEADER.as_bytes()).unwrap();
    client.line().unwrap();
    assert!(client.line().unwrap().contains(" BAD "));
    // The log is complete once the server ended.
    server.stop();
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains("login failed address=192.0.2.7 protocol=imap"), "{said}");
    assert!(said.contains("a proxy must begin with a PROXY header"), "{said}");
}

/// How a client logs in over one protocol. Of each answer, the beginning of its last line.
struct Dialect {
    protocol: &'static str,
    greeting: &'static str,
    /// The command that lists mechanisms, and its answer.
    list: [&'static str; 2],
    /// Logs in by `MECHANISM` with the initial response `RESPONSE`.
    login: &'static str,
    refused: &'static str,
    accepted: &'static str,
    challenge: &'static str,
    /// A command for passwords without SASL; the answers if it is refused, and if it is accepted.
    password: Option<[&'static str; 3]>,
}

const DIALECTS: [Dialect; 4] = [
    Dialect {
        protocol: "imap",
        greeting: "* OK",
        list: ["a CAPABILITY", "a OK"],
        login: "a AUTHENTICATE MECHANISM RESPONSE",
        refused: "a NO [PRIVACYREQUIRED]",
        accepted: "a OK",
        challenge: "+ ",
        password: Some(["a LOGIN ana@example.org \"correct horse\"", "a NO [PRIVACYREQUIRED]", "a OK"]),
    },
    Dialect {
        protocol: "pop3",
        greeting: "+OK",
        list: ["CAPA", "."],
        login: "AUTH MECHANISM RESPONSE",
        refused: "-ERR Encryption is required",
        accepted: "+OK Logged in",
        challenge: "+ ",
        password: Some(["USER ana@example.org", "-ERR Passwords are accepted only over TLS", "+OK"]),
    },
    Dialect {
        protocol: "submission",
        greeting: "220 ",
        list: ["EHLO client.example", "250 "],
        login: "AUTH MECHANISM RESPONSE",
        refused: "538 5.7.11",
        accepted: "235 ",
        challenge: "334 ",
        password: None,
    },
    Dialect {
        protocol: "sieve",
        greeting: "OK",
        list: ["CAPABILITY", "OK"],
        login: "AUTHENTICATE \"MECHANISM\" \"RESPONSE\"",
        refused: "NO (ENCRYPT-NEEDED)",
        accepted: "OK \"Logged in\"",
        challenge: "\"",
        password: None,
    },
];

/// Mechanisms, each with an initial response of the account. They are base64 of name and password
/// (RFC 4616 §2), of the name, and of `n,,n=ana@example.org,r=nonce` (RFC 5802 §7).
const MECHANISMS: [(&str, &str); 3] = [
    ("PLAIN", "AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl"),
    ("LOGIN", "YW5hQGV4YW1wbGUub3Jn"),
    ("SCRAM-SHA-256", "biwsbj1hbmFAZXhhbXBsZS5vcmcscj1ub25jZQ=="),
];

impl Dialect {
    /// A connection that begins with this header, and the mechanisms and other words that the
    /// server lists there.
    fn begin(&self, server: &Server, header: &str) -> (LineClient, Vec<String>) {
        let mut client = LineClient::connect(server.address(self.protocol)).unwrap();
        client.send(header.as_bytes()).unwrap();
        while !client.line().unwrap().starts_with(self.greeting) {}
        let [command, last] = self.list;
        client.send(format!("{command}\r\n").as_bytes()).unwrap();
        let mut listed = Vec::new();
        loop {
            let line = client.line().unwrap();
            listed.extend(line.split([' ', '"', '=']).map(str::to_owned));
            if line.starts_with(last) {
                return (client, listed);
            }
        }
    }

    /// The answers to a login by each mechanism, each with whether the mechanism is listed.
    fn logins(&self, server: &Server, header: &str) -> [(bool, String); 3] {
        MECHANISMS.map(|(mechanism, response)| {
            let (mut client, listed) = self.begin(server, header);
            let command = self.login.replace("MECHANISM", mechanism).replace("RESPONSE", response);
            (listed.iter().any(|word| word == mechanism), answer(&mut client, &command))
        })
    }
}

/// The answer to a command, without untagged lines of IMAP.
fn answer(client: &mut LineClient, command: &str) -> String {
    client.send(format!("{command}\r\n").as_bytes()).unwrap();
    loop {
        let line = client.line().unwrap();
        if !line.starts_with("* ") {
            return line;
        }
    }
}

/// With the default `[login]`. The proxy is on this machine, and its client is not.
#[test]
fn behind_a_proxy_no_password_is_accepted_in_the_clear() {
    let dir = tempfile::tempdir().unwrap();
    let start = |config: &str| {
        let file = dir.path().join("mine.toml");
        let server = ServerBuilder::new(BINARY).data(dir.path().join("data")).settings(&file, config);
        let listen = |server: ServerBuilder, dialect: &Dialect| {
            server.listen(&format!("{}=127.0.0.1:0", dialect.protocol))
        };
        DIALECTS.iter().fold(server, listen).start()
    };
    let server = start("[listen]\nproxy_networks = [\"127.0.0.1\"]\n");
    server.add_account(USER, "correct horse");
    for dialect in &DIALECTS {
        for (is_listed, answer) in dialect.logins(&server, HEADER) {
            assert!(!is_listed && answer.starts_with(dialect.refused), "{}: {answer}", dialect.protocol);
        }
        let (mut client, _) = dialect.begin(&server, HEADER);
        if let Some([command, refused, _]) = dialect.password {
            let answer = answer(&mut client, command);
            assert!(answer.starts_with(refused), "{answer}");
        }
    }
    assert!(server.stop().status.success());
    // A client on this machine, without a proxy.
    let server = start("");
    for dialect in &DIALECTS {
        let [plain, login, scram] = dialect.logins(&server, "");
        assert!(plain.1.starts_with(dialect.accepted), "{}: {}", dialect.protocol, plain.1);
        for (_, answer) in [&login, &scram] {
            assert!(answer.starts_with(dialect.challenge), "{}: {answer}", dialect.protocol);
        }
        // ManageSieve lists no LOGIN, which was never standardised.
        assert!(plain.0 && scram.0, "{}", dialect.protocol);
        let (mut client, _) = dialect.begin(&server, "");
        if let Some([command, _, accepted]) = dialect.password {
            let answer = answer(&mut client, command);
            assert!(answer.starts_with(accepted), "{answer}");
        }
    }
}

/// It waited for 5 minutes. A read of this client fails after one.
#[test]
fn submission_ends_with_the_time_for_the_login() {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerBuilder::new(BINARY)
        .settings(&dir.path().join("mine.toml"), "[limits]\nlogin_timeout = \"1 s\"\n")
        .listen("submission=127.0.0.1:0")
        .start();
    let mut client = LineClient::connect(server.address("submission")).unwrap();
    assert!(client.reply().unwrap().starts_with("220 "));
    let last = client.reply().unwrap();
    assert!(last.starts_with("421 4.4.2 "), "{last}");
    assert!(client.line().is_err(), "the connection is closed");
}

#[test]
fn a_certificate_that_ends_soon_is_named_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (name, days) in [("long", "100"), ("short", "5")] {
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                days,
                "-subj",
                "/CN=mail.example",
            ])
            .args(["-addext", &format!("subjectAltName=DNS:{name}.example")])
            .args(["-keyout", &path(&format!("{name}.key")), "-out", &path(&format!("{name}.pem"))])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    }
    let tls = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nothers = [{{ certificate = {:?}, key = {:?} }}]\n",
        path("long.pem"),
        path("long.key"),
        path("short.pem"),
        path("short.key")
    );
    std::fs::write(path("mine.toml"), tls).unwrap();
    let (log, logging) = (path("log"), path("logging"));
    script(Path::new(&logging), &format!("exec '{BINARY}' \"$@\" 2>>'{log}'"));
    let server = ServerBuilder::new(&logging).arg("--config").arg(path("mine.toml")).start();
    // The certificate of the requested name is shown. The log of the start is complete after the
    // stop.
    let shown = |name: &str| {
        let at = server.address("imaps").to_string();
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &at, "-servername", name, "-showcerts"])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let pem = |name: &str| std::fs::read_to_string(path(name)).unwrap().trim().to_owned();
    assert!(shown("short.example").contains(&pem("short.pem")));
    assert!(shown("unknown.example").contains(&pem("long.pem")));
    server.stop();
    let said = std::fs::read_to_string(log).unwrap();
    let warned: Vec<_> = said.lines().filter(|line| line.contains("expires soon")).collect();
    assert!(warned.len() == 1 && warned[0].contains("short.pem"), "{said}");
    assert!(warned[0].contains("days_left=4"), "{said}");
}

#[test]
fn a_reader_that_leaves_is_no_failure_to_report() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = Command::new(BINARY).args(["config", "--default"]).stdout(writer).output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(141), b"".as_slice()));
}

#[test]
fn the_configuration_is_documented_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let printed = Command::new(BINARY).args(["config", "--default"]).output().unwrap();
    std::fs::write(&file, &printed.stdout).unwrap();
    let read = Command::new(BINARY).arg("config").arg("--config").arg(&file).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    std::fs::write(&file, "[limits]\nconections = 3\n").unwrap();
    let wrong = Command::new(BINARY).arg("serve").arg("--config").arg(&file).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("limits.conections") && said.contains("limits.connections"), "{said}");
}

#[test]
fn a_password_of_the_configuration_is_not_printed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, "engine = \"cassandra://mail:hunter2@db1/mail\"\n").unwrap();
    let shown = Command::new(BINARY).arg("config").arg("--config").arg(&file).output().unwrap();
    let said = format!("{shown:?}");
    assert!(shown.status.success() && said.contains("mail:…@db1"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    for (section, remedy) in [
        ("[relay]\nsmarthost = \"mail:hunter2@db1:25\"", "mail.example.net"),
        ("[screening]\nrspamd = \"http://mail:hunter2@127.0.0.1:11333\"", "write http://HOST:PORT"),
    ] {
        std::fs::write(&file, section).unwrap();
        let refused = Command::new(BINARY).arg("serve").arg("--config").arg(&file).output().unwrap();
        let said = format!("{refused:?}");
        assert!(refused.status.code() == Some(2) && said.contains(remedy), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_configuration_that_others_could_have_put_there_is_not_read() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("posthaste.toml");
    std::fs::write(&file, "domain = \"of.the.file\"\n").unwrap();
    let with_modes = |of_dir: u32, of_file: u32| {
        let set = |path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        set(dir.path(), of_dir);
        set(&file, of_file);
        let output = Command::new(BINARY).arg("config").current_dir(dir.path()).output().unwrap();
        (output.status.code(), format!("{output:?}"))
    };
    for (of_dir, of_file, who) in
        [(0o1777, 0o644, "the working directory can be written"), (0o755, 0o666, "it can be written")]
    {
        let (code, said) = with_modes(of_dir, of_file);
        assert_eq!(code, Some(2));
        assert!(said.contains("./posthaste.toml is not read") && said.contains(who), "{said}");
        assert!(said.contains("--config") && !said.contains("of.the.file"), "{said}");
    }
    let (code, said) = with_modes(0o755, 0o644);
    assert!(code == Some(0) && said.contains("of.the.file"), "{said}");
}

/// A release build, too: `scripts/hostile` relies on it.
#[test]
fn long_polls_are_logged_if_that_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("posthaste.toml");
    let server = ServerBuilder::new(BINARY).settings(&config, "[log]\nlong_polls = \"1 ns\"\n").start();
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    // The line about one poll is written before the next begins.
    client.imap("NOOP").unwrap();
    client.imap("NOOP").unwrap();
    let lines = server.logged("one poll of a task used too much CPU time");
    let is_whole =
        |line: &String| ["imap", "microseconds=", "on_the_clock="].iter().all(|part| line.contains(part));
    assert!(lines.iter().any(is_whole), "{lines:?}");
}
