//! Secrets in the log: every way to say a password, right and wrong, to a server that logs all it
//! can.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use posthaste_testkit::{LineClient, Server, ServerBuilder};
use sha2::{Digest, Sha256};

const NAME: &str = "ana@example.org";
/// Both are words that nothing else would write.
const PASSWORD: &str = "zebra-7731-quartz";
const WRONG: &str = "ocelot-9152-basalt";
const PROTOCOLS: [&str; 4] = ["imap", "pop3", "submission", "sieve"];

/// RFC 4616, in base 64.
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
    ]
}

/// The secrets of an exchange of SCRAM-SHA-256 (RFC 5802 §3, RFC 7677): its keys, and the messages
/// with the proof.
struct Scram {
    keys: Vec<[u8; 32]>,
    messages: Vec<String>,
}

fn hmac(key: &[u8], data: &[u8]) -> [u8; 32] {
    Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(data).finalize().into_bytes().into()
}

/// Logs in with a password, and returns what nobody else may learn.
fn scram(server: &Server, protocol: &str, password: &str) -> Scram {
    let mut client = LineClient::connect(server.address(protocol)).unwrap();
    client.line().unwrap();
    let first = format!("n={NAME},r=nonce-{protocol}");
    let initial = STANDARD.encode(format!("n,,{first}"));
    let (command, asks) = match protocol {
        "imap" => (format!("a AUTHENTICATE SCRAM-SHA-256 {initial}\r\n"), "+ "),
        "pop3" => (format!("AUTH SCRAM-SHA-256 {initial}\r\n"), "+ "),
        _ => {
            client.ask("EHLO a.example").unwrap();
            (format!("AUTH SCRAM-SHA-256 {initial}\r\n"), "334 ")
        }
    };
    client.send(command.as_bytes()).unwrap();
    let line = client.line().unwrap();
    let challenge = line.strip_prefix(asks).unwrap_or_else(|| panic!("{protocol}: {line}"));
    let challenge = String::from_utf8(STANDARD.decode(challenge).unwrap()).unwrap();
    let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name)).unwrap();
    let (nonce, rounds) = (field("r="), field("i=").parse().unwrap());
    let salt = STANDARD.decode(field("s=")).unwrap();
    let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), &salt, rounds);
    let without_proof = format!("c=biws,r={nonce}");
    let message = format!("{first},{challenge},{without_proof}");
    let (client_key, server_key) = (hmac(&salted, b"Client Key"), hmac(&salted, b"Server Key"));
    let stored_key: [u8; 32] = Sha256::digest(client_key).into();
    let signature = hmac(&stored_key, message.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, byte)| key ^ byte).collect();
    let proof = STANDARD.encode(proof);
    let last = STANDARD.encode(format!("{without_proof},p={proof}"));
    client.send(format!("{last}\r\n").as_bytes()).unwrap();
    let answer = client.line().unwrap();
    assert_eq!(answer.starts_with(asks), password == PASSWORD, "{protocol}: {answer}");
    let verifier = STANDARD.encode(hmac(&server_key, message.as_bytes()));
    if password == PASSWORD {
        let said = STANDARD.decode(answer.strip_prefix(asks).unwrap()).unwrap();
        assert_eq!(String::from_utf8(said).unwrap(), format!("v={verifier}"));
        client.send(b"\r\n").unwrap();
        client.line().unwrap();
    }
    Scram { keys: vec![salted, client_key, stored_key, server_key], messages: vec![last, proof, verifier] }
}

/// A key as a log could show it.
fn written(key: &[u8; 32]) -> [String; 4] {
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let numbers = format!("{:?}", &key[..8]);
    [STANDARD.encode(key), hex.to_uppercase(), hex, numbers.trim_matches(['[', ']']).to_owned()]
}

#[test]
fn no_password_reaches_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("posthaste.toml");
    std::fs::write(&config, "[log]\nlevel = \"trace\"\n[login]\nscram_iterations = 4096\n").unwrap();
    let server =
        ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).arg("--config").arg(config.to_string_lossy());
    let server = PROTOCOLS.iter().fold(server, |server, name| server.listen(&format!("{name}=127.0.0.1:0")));
    let server = server.start();
    let add = ["account", "add", NAME, "--password-stdin", "--config", &config.to_string_lossy()];
    let added = server.command(&add, PASSWORD);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let say = |protocol: &str, lines: &str| {
        let mut client = LineClient::connect(server.address(protocol)).unwrap();
        client.send(lines.replace('\n', "\r\n").as_bytes()).unwrap();
        String::from_utf8(client.finish().unwrap()).unwrap()
    };
    for password in [PASSWORD, WRONG] {
        for (protocol, lines) in logins(password) {
            let said = say(protocol, &lines);
            let last = said.trim_end().lines().next_back().unwrap_or_default().to_owned();
            let is_in =
                ["a OK", "+OK Logged in", "235", "OK \"Logged in"].iter().any(|ok| last.starts_with(ok));
            assert_eq!(is_in, password == PASSWORD, "{protocol} answered {said:?}");
        }
        // Input that is no login, and mistakes of a client in one.
        let wrong =
            [format!("a LOGIN {NAME} {password} x\n"), format!("PASS {password}\n"), format!("{password}\n")];
        for (protocol, line) in PROTOCOLS.iter().flat_map(|name| wrong.iter().map(move |line| (name, line))) {
            say(protocol, line);
        }
    }
    let exchanges: Vec<Scram> = ["imap", "pop3", "submission"]
        .iter()
        .flat_map(|protocol| [PASSWORD, WRONG].map(|password| scram(&server, protocol, password)))
        .collect();
    let changed = server.command(&["account", "passwd", NAME, "--password-stdin"], WRONG);
    assert!(changed.status.success(), "{}", String::from_utf8_lossy(&changed.stderr));
    let log = server.logged("");
    assert!(log.iter().any(|line| line.contains("DEBUG")) && log.iter().any(|line| line.contains(NAME)));
    let words =
        [PASSWORD, WRONG].iter().flat_map(|word| [(*word).to_owned(), plain(word), STANDARD.encode(word)]);
    let of_scram = exchanges
        .iter()
        .flat_map(|scram| scram.keys.iter().flat_map(written).chain(scram.messages.iter().cloned()));
    for secret in words.chain(of_scram) {
        let found = log.iter().find(|line| line.contains(&secret));
        assert!(found.is_none(), "{found:?}");
    }
}
