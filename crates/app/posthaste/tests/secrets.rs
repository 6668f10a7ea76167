//! Secrets in the log. A server that logs all it can, as text and as JSON, gets passwords in every
//! way, right and wrong, with TLS and without. Some clients say it where there is no login.
//! Passwords of the server's own are here, too.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_testkit::{LineClient, Server, ServerBuilder};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const NAME: &str = "ana@example.org";
/// Both are words that nothing else would write.
const PASSWORD: &str = "zebra-7731-quartz";
const WRONG: &str = "ocelot-9152-basalt";
const PROTOCOLS: [&str; 4] = ["imap", "pop3", "submission", "sieve"];
/// Ports that offer no login, with their greetings.
const WITHOUT_LOGIN: [(&str, &str); 2] = [("smtp", "EHLO a.example"), ("lmtp", "LHLO a.example")];
const LISTENERS: [&str; 9] =
    ["imap", "imaps", "pop3", "pop3s", "submission", "submissions", "sieve", "smtp", "lmtp"];

/// How a client reaches a protocol.
#[derive(Clone, Copy, Debug)]
enum Way {
    Clear,
    Tls,
}

const WAYS: [Way; 2] = [Way::Clear, Way::Tls];

/// Reads a greeting or capabilities of ManageSieve, or its answer.
fn until_ok(client: &mut LineClient) {
    while !client.line().unwrap().starts_with("OK") {}
}

/// A connection whose greeting was not read. ManageSieve has only STARTTLS (RFC 5804 §2.2). So do
/// the ports without a login (RFC 3207).
fn connect(server: &Server, protocol: &str, way: Way) -> LineClient {
    let plain = |listener: &str| LineClient::connect(server.address(listener)).unwrap();
    let without_login = WITHOUT_LOGIN.iter().find(|(name, _)| *name == protocol);
    match (way, protocol, without_login) {
        (Way::Clear, ..) => plain(protocol),
        (Way::Tls, "sieve", _) => {
            let mut client = plain("sieve");
            until_ok(&mut client);
            client.send(b"STARTTLS\r\n").unwrap();
            until_ok(&mut client);
            client.tls().unwrap()
        }
        (Way::Tls, _, Some((_, hello))) => {
            let mut client = plain(protocol);
            client.reply().unwrap();
            client.ask(hello).unwrap();
            let reply = client.ask("STARTTLS").unwrap();
            assert!(reply.starts_with("220"), "{protocol}: {reply}");
            client.tls().unwrap()
        }
        (Way::Tls, _, None) => plain(&format!("{protocol}s")).tls().unwrap(),
    }
}

/// RFC 4616, in base64.
fn plain(password: &str) -> String {
    STANDARD.encode(format!("\0{NAME}\0{password}"))
}

/// The input of each protocol, line by line.
fn logins(password: &str) -> Vec<(&'static str, String)> {
    let (plain, alone, octets) = (plain(password), STANDARD.encode(password), password.len());
    vec![
        ("imap", format!("a LOGIN {NAME} \"{password}\"\n")),
        ("imap", format!("a LOGIN {NAME} {{{octets}+}}\n{password}\n")),
        ("imap", format!("a AUTHENTICATE PLAIN {plain}\n")),
        ("imap", format!("a AUTHENTICATE PLAIN\n{plain}\n")),
        ("pop3", format!("USER {NAME}\nPASS {password}\n")),
        ("pop3", format!("AUTH PLAIN {plain}\n")),
        ("submission", format!("EHLO a.example\nAUTH PLAIN {plain}\n")),
        ("submission", format!("EHLO a.example\nAUTH LOGIN {}\n{alone}\n", STANDARD.encode(NAME))),
        ("sieve", format!("AUTHENTICATE \"PLAIN\" \"{plain}\"\n")),
        ("sieve", format!("AUTHENTICATE \"PLAIN\" {{{}+}}\n{plain}\n", plain.len())),
    ]
}

/// Input for a port that offers no login: clients try one there, and say a password elsewhere.
fn misplaced(hello: &str, password: &str) -> Vec<String> {
    let (plain, name, alone) = (plain(password), STANDARD.encode(NAME), STANDARD.encode(password));
    vec![
        format!("AUTH PLAIN {plain}\n"),
        format!("{hello}\nAUTH PLAIN {plain}\n"),
        format!("{hello}\nAUTH PLAIN\n{plain}\n"),
        format!("{hello}\nAUTH LOGIN {name}\n{alone}\n"),
        format!("{hello}\nAUTH LOGIN\n{name}\n{alone}\n"),
        format!("{hello}\nAUTH X {plain}\nAUTH {alone}\nAUTH {password} {password}\n"),
        format!("LOGIN {NAME} {password}\nUSER {NAME}\nPASS {password}\n{password}\n{password} x\n"),
        format!("{hello}\nVRFY {password}\nEXPN {password}\nNOOP {password}\nHELP {password}\n"),
        format!("{hello}\nMAIL FROM:<{NAME}> AUTH={password} {password}\nRCPT {password}\n"),
        format!("{hello} {password}\n{hello}\nDATA {password}\nBDAT {password}\nSTARTTLS {password}\n"),
        // The end of a session of so many mistakes is logged with the last reply.
        format!("PASS {password}\n").repeat(30),
    ]
}

/// Sends lines, and ends; what the server said.
fn say(server: &Server, protocol: &str, way: Way, lines: &str) -> String {
    let mut client = connect(server, protocol, way);
    client.send(lines.replace('\n', "\r\n").as_bytes()).unwrap();
    String::from_utf8(client.finish().unwrap()).unwrap()
}

/// Logs in with a password, right or wrong, which these lines hold.
fn log_in(server: &Server, protocol: &str, way: Way, lines: &str, password: &str) {
    let said = say(server, protocol, way, lines);
    let last = said.trim_end().lines().next_back().unwrap_or_default();
    let is_in = ["a OK", "+OK Logged in", "235", "OK \"Logged in\""].iter().any(|ok| last.starts_with(ok));
    assert_eq!(is_in, password == PASSWORD, "{protocol}, {way:?}: {said:?}");
}

/// The hash of a SCRAM mechanism.
#[derive(Clone, Copy, Debug)]
enum Hash {
    Sha256,
    Sha1,
}

impl Hash {
    fn mechanism(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha1 => "SCRAM-SHA-1",
        }
    }

    fn digest(self, octets: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        };
        digest::digest(algorithm, octets).as_ref().to_vec()
    }

    fn hmac(self, key: &[u8], octets: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), octets).as_ref().to_vec()
    }

    /// `Hi`: RFC 5802 §2.2.
    fn salted(self, password: &str, salt: &[u8], rounds: NonZeroU32) -> Vec<u8> {
        let (algorithm, len) = match self {
            Self::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, digest::SHA256_OUTPUT_LEN),
            Self::Sha1 => (pbkdf2::PBKDF2_HMAC_SHA1, digest::SHA1_OUTPUT_LEN),
        };
        let mut out = vec![0; len];
        pbkdf2::derive(algorithm, rounds, salt, password.as_bytes(), &mut out);
        out
    }
}

/// The secrets of an exchange of SCRAM (RFC 5802 §3, RFC 7677): its keys, and the messages with
/// the proof.
struct Scram {
    keys: Vec<Vec<u8>>,
    messages: Vec<String>,
}

/// How a protocol writes an exchange.
struct Exchange {
    client: LineClient,
    protocol: &'static str,
}

impl Exchange {
    /// After the greeting.
    fn open(server: &Server, protocol: &'static str, way: Way) -> Self {
        let mut client = connect(server, protocol, way);
        match protocol {
            "sieve" => until_ok(&mut client),
            _ => drop(client.line().unwrap()),
        }
        if protocol == "submission" {
            client.ask("EHLO a.example").unwrap();
        }
        Self { client, protocol }
    }

    fn begin(&mut self, mechanism: &str, initial: &str) {
        let command = match self.protocol {
            "imap" => format!("a AUTHENTICATE {mechanism} {initial}\r\n"),
            "sieve" => format!("AUTHENTICATE \"{mechanism}\" \"{initial}\"\r\n"),
            _ => format!("AUTH {mechanism} {initial}\r\n"),
        };
        self.client.send(command.as_bytes()).unwrap();
    }

    fn respond(&mut self, response: &str) {
        let line = match self.protocol {
            "sieve" => format!("\"{response}\"\r\n"),
            _ => format!("{response}\r\n"),
        };
        self.client.send(line.as_bytes()).unwrap();
    }

    /// The server's next message; its line if that is the end of the exchange.
    fn challenge(&mut self) -> Result<String, String> {
        let line = self.client.line().unwrap();
        let encoded = match self.protocol {
            "sieve" => line.strip_prefix('"').and_then(|line| line.strip_suffix('"')),
            "submission" => line.strip_prefix("334 "),
            _ => line.strip_prefix("+ "),
        };
        match encoded {
            Some(encoded) => Ok(String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()),
            None => Err(line),
        }
    }
}

/// Logs in with a password, and returns its secrets.
fn scram(server: &Server, protocol: &'static str, way: Way, hash: Hash, password: &str) -> Scram {
    let mut exchange = Exchange::open(server, protocol, way);
    let first = format!("n={NAME},r=nonce-{protocol}");
    exchange.begin(hash.mechanism(), &STANDARD.encode(format!("n,,{first}")));
    let challenge = exchange.challenge().unwrap();
    let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name)).unwrap();
    let (nonce, rounds) = (field("r="), field("i=").parse().unwrap());
    let salted = hash.salted(password, &STANDARD.decode(field("s=")).unwrap(), rounds);
    let without_proof = format!("c=biws,r={nonce}");
    let message = format!("{first},{challenge},{without_proof}");
    let (client_key, server_key) = (hash.hmac(&salted, b"Client Key"), hash.hmac(&salted, b"Server Key"));
    let stored_key = hash.digest(&client_key);
    let signature = hash.hmac(&stored_key, message.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, byte)| key ^ byte).collect();
    let proof = STANDARD.encode(proof);
    let last = STANDARD.encode(format!("{without_proof},p={proof}"));
    exchange.respond(&last);
    let verifier = STANDARD.encode(hash.hmac(&server_key, message.as_bytes()));
    let answer = exchange.challenge();
    assert_eq!(answer.is_ok(), password == PASSWORD, "{protocol}, {way:?}, {hash:?}: {answer:?}");
    if let Ok(said) = answer {
        assert_eq!(said, format!("v={verifier}"));
        exchange.respond("");
        exchange.client.line().unwrap();
    }
    Scram { keys: vec![salted, client_key, stored_key, server_key], messages: vec![last, proof, verifier] }
}

/// A key as a log could show it.
fn written(key: &[u8]) -> [String; 4] {
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let numbers = format!("{:?}", &key[..8]);
    [STANDARD.encode(key), hex.to_uppercase(), hex, numbers.trim_matches(['[', ']']).to_owned()]
}

/// Writes a configuration by which all is logged, in this format.
fn configuration(dir: &Path, format: &str) -> PathBuf {
    let config = dir.join("posthaste.toml");
    let log = format!("[log]\nlevel = \"trace\"\nformat = \"{format}\"\n");
    let text = log + "[login]\nscram_iterations = 4096\nscram_sha1 = true\n";
    std::fs::write(&config, text).unwrap();
    config
}

/// Says a password in every way there is. Each failure is answered later than the one before, so
/// all of them are tried at the same time.
fn say_in_every_way(server: &Server, password: &str) {
    thread::scope(|scope| {
        for way in WAYS {
            for (protocol, lines) in logins(password) {
                scope.spawn(move || log_in(server, protocol, way, &lines, password));
            }
            // Input that is no login, and mistakes of a client in one.
            for protocol in PROTOCOLS {
                for line in [
                    format!("a LOGIN {NAME} {password} x\n"),
                    format!("PASS {password}\n"),
                    format!("{password}\n"),
                    format!("{password} {password}\n").repeat(30),
                ] {
                    scope.spawn(move || say(server, protocol, way, &line));
                }
            }
            for (protocol, hello) in WITHOUT_LOGIN {
                for lines in misplaced(hello, password) {
                    scope.spawn(move || {
                        let said = say(server, protocol, way, &lines);
                        let is_login = |line: &str| line.starts_with("235") || line.starts_with("334");
                        assert!(!said.lines().any(is_login), "{protocol}, {way:?}: {said:?}");
                    });
                }
            }
        }
    });
}

/// All exchanges of SCRAM, with the right password and with a wrong one.
fn exchanges(server: &Server) -> Vec<Scram> {
    thread::scope(|scope| {
        let mut running = Vec::new();
        for way in WAYS {
            for hash in [Hash::Sha256, Hash::Sha1] {
                for protocol in PROTOCOLS {
                    for password in [PASSWORD, WRONG] {
                        running.push(scope.spawn(move || scram(server, protocol, way, hash, password)));
                    }
                }
            }
        }
        running.into_iter().map(|exchange| exchange.join().unwrap()).collect()
    })
}

#[test]
fn no_password_reaches_the_log() {
    no_secret_reaches_a_log_of("text");
}

#[test]
fn no_password_reaches_a_log_of_json() {
    no_secret_reaches_a_log_of("json");
}

fn no_secret_reaches_a_log_of(format: &str) {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path(), format);
    let server = ServerBuilder::new(BINARY).arg("--config").arg(config.to_string_lossy());
    let server = LISTENERS.iter().fold(server, |server, name| server.listen(&format!("{name}=127.0.0.1:0")));
    let server = server.start();
    let add = ["account", "add", NAME, "--password-stdin", "--config", &config.to_string_lossy()];
    let added = server.command(&add, PASSWORD);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    for password in [PASSWORD, WRONG] {
        say_in_every_way(&server, password);
    }
    let exchanges = exchanges(&server);
    let changed = server.command(&["account", "passwd", NAME, "--password-stdin"], WRONG);
    assert!(changed.status.success(), "{}", String::from_utf8_lossy(&changed.stderr));
    // A refused login is written at once, and the lines of logins before it with it.
    let mut last = LineClient::connect(server.address("imap")).unwrap();
    last.line().unwrap();
    let said = last.imap("LOGIN the-last-one x").unwrap();
    assert!(said.last().unwrap().contains(" NO "), "{said:?}");
    let log = server.logged("");
    assert!(log.iter().any(|line| line.contains("login failed") && line.contains("the-last-one")));
    assert_eq!(log.iter().any(|line| line.starts_with("{\"timestamp\":")), format == "json");
    assert!(log.iter().any(|line| line.contains("DEBUG")) && log.iter().any(|line| line.contains(NAME)));
    let words =
        [PASSWORD, WRONG].iter().flat_map(|word| [(*word).to_owned(), plain(word), STANDARD.encode(word)]);
    let of_scram = exchanges.iter().flat_map(|scram| {
        scram.keys.iter().flat_map(|key| written(key)).chain(scram.messages.iter().cloned())
    });
    for secret in words.chain(of_scram) {
        let found = log.iter().find(|line| line.contains(&secret));
        assert!(found.is_none(), "{found:?}");
    }
}

/// A program without clusters refuses the address. One with clusters finds no server there. The
/// test `bodies` has a server that reaches its store.
#[test]
fn no_secret_of_a_cluster_reaches_the_log() {
    for format in ["text", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let config = configuration(folder.path(), format);
        let output = Command::new(BINARY)
            .args(["serve", "--engine", &format!("cassandra://ana:{PASSWORD}@127.0.0.1:1/mail")])
            .arg("--config")
            .arg(&config)
            .arg("--data")
            .arg(folder.path().join("data"))
            .envs([("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", WRONG)])
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|octets| String::from_utf8(octets).unwrap()).concat();
        assert!(!output.status.success() && said.contains("127.0.0.1:1"), "{said}");
        for secret in [PASSWORD, WRONG] {
            assert!(!said.contains(secret) && !said.contains(&STANDARD.encode(secret)), "{said}");
        }
    }
}
