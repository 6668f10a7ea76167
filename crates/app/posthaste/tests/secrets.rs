//! Secrets in the log: every way to say a password, right and wrong, to a server that logs all it
//! can.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_testkit::{LineClient, ServerBuilder};

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

#[test]
fn no_password_reaches_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("posthaste.toml");
    std::fs::write(&config, "[log]\nlevel = \"trace\"\n").unwrap();
    let server =
        ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).arg("--config").arg(config.to_string_lossy());
    let server = PROTOCOLS.iter().fold(server, |server, name| server.listen(&format!("{name}=127.0.0.1:0")));
    let server = server.start();
    server.add_account(NAME, PASSWORD);
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
    let changed = server.command(&["account", "passwd", NAME, "--password-stdin"], WRONG);
    assert!(changed.status.success(), "{}", String::from_utf8_lossy(&changed.stderr));
    let log = server.logged("");
    assert!(log.iter().any(|line| line.contains("DEBUG")) && log.iter().any(|line| line.contains(NAME)));
    for secret in
        [PASSWORD, WRONG].iter().flat_map(|word| [(*word).to_owned(), plain(word), STANDARD.encode(word)])
    {
        let found = log.iter().find(|line| line.contains(&secret));
        assert!(found.is_none(), "{found:?}");
    }
}
