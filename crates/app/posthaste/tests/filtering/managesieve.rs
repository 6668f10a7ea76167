//! ManageSieve (RFC 5804) over a real socket, as transcripts, and what delivery makes of it.

use posthaste_testkit::{LineClient, Server, ServerBuilder, dot_stuffed};

const PASSWORD: &str = "correct horse";
/// base64 of NUL `ana@example.org` NUL `correct horse`.
const PLAIN: &str = "AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl";
/// The same with another password.
const WRONG: &str = "AGFuYUBleGFtcGxlLm9yZwB3cm9uZw==";

fn server() -> Server {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .listen("imap=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .listen("sieve=127.0.0.1:0")
        .start();
    server.add_account("ana@example.org", PASSWORD);
    server
}

/// A connection whose greeting has been read.
fn connect(server: &Server) -> LineClient {
    let mut client = LineClient::connect(server.address("sieve")).unwrap();
    while !client.line().unwrap().starts_with("OK") {}
    client
}

/// Plays a transcript: what `C:` sends, and the lines that `S:` gets; `…` matches any rest.
fn play(client: &mut LineClient, transcript: &str) {
    for line in transcript.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(sent) = line.strip_prefix("C: ") {
            client.send(format!("{sent}\r\n").as_bytes()).unwrap();
            continue;
        }
        let wanted = line.strip_prefix("S: ").unwrap();
        let got = client.line().unwrap();
        let is_right = match wanted.strip_suffix('…') {
            Some(start) => got.starts_with(start),
            None => got == wanted,
        };
        assert!(is_right, "wanted {wanted}\ngot    {got}");
    }
}

fn log_in(client: &mut LineClient) {
    play(client, &format!("C: AUTHENTICATE \"PLAIN\" \"{PLAIN}\"\nS: OK \"Logged in\""));
}

#[test]
fn the_greeting_lists_what_there_is() {
    let server = server();
    let mut client = LineClient::connect(server.address("sieve")).unwrap();
    play(
        &mut client,
        "S: \"IMPLEMENTATION\" \"Posthaste\"
         S: \"SASL\" \"SCRAM-SHA-256 PLAIN\"
         S: \"SIEVE\" \"…
         S: \"NOTIFY\" \"mailto\"
         S: \"MAXREDIRECTS\" \"8\"
         S: \"STARTTLS\"
         S: \"UNAUTHENTICATE\"
         S: \"VERSION\" \"1.0\"
         S: OK \"Posthaste is ready\"
         C: LOGOUT
         S: OK \"Goodbye\"",
    );
}

#[test]
fn scripts_are_stored_listed_renamed_and_removed() {
    let server = server();
    let mut client = connect(&server);
    log_in(&mut client);
    play(
        &mut client,
        "C: HAVESPACE \"main\" 100
         S: OK \"There is room\"
         C: HAVESPACE \"main\" 1000000
         S: NO (QUOTA/MAXSIZE) \"the script has 1000000 octets: …
         C: PUTSCRIPT \"main\" {6+}
         C: keep;
         S: NO \"a space or the end of the line is expected\"",
    );
    // The literal above ends within a line end: the command has no end of its own.
    play(
        &mut client,
        "C: PUTSCRIPT \"main\" \"keep;\"
         S: OK \"Stored\"
         C: PUTSCRIPT \"bad\" \"fileinto \\\"x\\\";\"
         S: NO …
         C: CHECKSCRIPT \"discard;\"
         S: OK \"The script is valid\"
         C: LISTSCRIPTS
         S: \"main\"
         S: OK \"Scripts listed\"
         C: SETACTIVE \"main\"
         S: OK \"Done\"
         C: DELETESCRIPT \"main\"
         S: NO (ACTIVE) …
         C: RENAMESCRIPT \"main\" \"first \\\"one\\\"\"
         S: OK \"Renamed\"
         C: LISTSCRIPTS
         S: \"first \\\"one\\\"\" ACTIVE
         S: OK \"Scripts listed\"
         C: GETSCRIPT \"first \\\"one\\\"\"
         S: {5}
         S: keep;
         S: OK \"Done\"
         C: GETSCRIPT \"main\"
         S: NO (NONEXISTENT) …
         C: SETACTIVE \"\"
         S: OK \"Done\"
         C: DELETESCRIPT \"first \\\"one\\\"\"
         S: OK \"Removed\"
         C: PUTSCRIPT \"a/b\" \"keep;\"
         S: NO \"a script's name has …
         C: NOOP \"tag\"
         S: OK (TAG \"tag\") \"Done\"
         C: UNAUTHENTICATE
         S: OK \"Logged out\"
         C: LISTSCRIPTS
         S: NO \"Log in first\"
         C: LOGOUT
         S: OK \"Goodbye\"",
    );
}

#[test]
fn a_script_that_is_put_runs_for_the_next_message() {
    let server = server();
    let mut client = connect(&server);
    log_in(&mut client);
    let script = "require \"reject\";\r\nreject \"no\";\r\n";
    client.send(format!("PUTSCRIPT \"main\" {{{}+}}\r\n{script}\r\n", script.len()).as_bytes()).unwrap();
    play(&mut client, "S: OK \"Stored\"\nC: SETACTIVE \"main\"\nS: OK \"Done\"");
    let mut lmtp = LineClient::connect(server.address("lmtp")).unwrap();
    lmtp.reply().unwrap();
    for command in ["LHLO x", "MAIL FROM:<bo@example.net>", "RCPT TO:<ana@example.org>", "DATA"] {
        assert!(lmtp.ask(command).unwrap().starts_with(['2', '3']), "{command}");
    }
    lmtp.send(&dot_stuffed(b"Subject: x\r\n\r\nx\r\n")).unwrap();
    assert_eq!(lmtp.reply().unwrap(), "550 5.7.1 no");
}

#[test]
fn a_session_ends_with_its_account() {
    let server = server();
    let mut client = connect(&server);
    log_in(&mut client);
    let disabled = server.command(&["account", "set", "ana@example.org", "--disable"], "");
    assert!(disabled.status.success(), "{disabled:?}");
    play(
        &mut client,
        "S: BYE \"Your login has ended: the account is disabled or removed, or its credential is no longer valid\"",
    );
    assert!(client.line().is_err(), "the connection is closed");
}

#[test]
fn a_session_ends_with_logout() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("posthaste.toml");
    std::fs::write(&config, "[limits]\naccount_connections = 1\n").unwrap();
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .listen("sieve=127.0.0.1:0")
        .arg("--config")
        .arg(config.to_string_lossy())
        .start();
    server.add_account("ana@example.org", PASSWORD);
    let (mut first, mut second) = (connect(&server), connect(&server));
    log_in(&mut first);
    let refused = format!("C: AUTHENTICATE \"PLAIN\" \"{PLAIN}\"\nS: NO (TRYLATER) …");
    play(&mut second, &refused);
    // RFC 5804 §2.14.1: the place is free, and what becomes of the account concerns nobody here.
    play(&mut first, "C: UNAUTHENTICATE\nS: OK \"Logged out\"");
    log_in(&mut second);
    play(&mut first, &refused);
}

#[test]
fn strangers_are_bounded_and_failures_logged() {
    let server = server();
    let mut client = connect(&server);
    play(
        &mut client,
        &format!(
            "C: PUTSCRIPT \"a\" \"keep;\"
             S: NO \"Log in first\"
             C: nonsense
             S: NO …
             C: AUTHENTICATE \"GSSAPI\"
             S: NO …
             C: AUTHENTICATE \"PLAIN\" \"{WRONG}\"
             S: NO …
             C: AUTHENTICATE \"PLAIN\"
             S: \"\"
             C: \"*\"
             S: NO \"the login was cancelled\"
             C: CHECKSCRIPT {{20000+}}
             S: BYE \"The command is too long\""
        ),
    );
    assert!(client.line().is_err(), "the connection is closed");
    let failed = server.logged("login failed");
    assert!(failed.iter().any(|line| line.contains("sieve") && line.contains("credentials")), "{failed:?}");
    // A script over the limit is read to its end and refused, and the session continues.
    let mut client = connect(&server);
    log_in(&mut client);
    client.send(b"PUTSCRIPT \"a\" {300000+}\r\n").unwrap();
    client.send(&vec![b'#'; 300_000]).unwrap();
    client.send(b"\r\n").unwrap();
    play(&mut client, "S: NO (QUOTA/MAXSIZE) …\nC: NOOP\nS: OK \"NOOP completed\"");
    // Twenty mistakes, and no more.
    let mut client = connect(&server);
    for _ in 0..20 {
        play(&mut client, "C: LISTSCRIPTS\nS: NO \"Log in first\"");
    }
    play(&mut client, "C: LISTSCRIPTS\nS: BYE \"Too many errors\"");
}
