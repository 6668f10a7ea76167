//! Programs of Debian that nobody here wrote: swaks at submission and at the `smtp` listener, and
//! sieve-connect at ManageSieve.

use std::process::Command;

use posthaste_testkit::{LineClient, Server, ServerBuilder, client_tests_wanted, run_client};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct_horse";

fn server() -> Server {
    let mut server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"));
    for protocol in ["imap", "smtp", "submission", "submissions", "sieve"] {
        server = server.listen(&format!("{protocol}=127.0.0.1:0"));
    }
    let server = server.start();
    server.add_account(USER, PASSWORD);
    server
}

fn swaks(server: &Server, listener: &str, more: &[&str]) -> String {
    let mut command = Command::new("swaks");
    let port = server.address(listener).port().to_string();
    command.args(["--server", "127.0.0.1", "--port", &port, "--from", USER, "--to", USER, "--timeout", "30"]);
    command.args(["--helo", "client.example.net"]).args(more);
    run_client(command)
}

#[test]
fn swaks_hands_mail_in_by_every_way() {
    if !client_tests_wanted() {
        return;
    }
    let server = server();
    let login = |mechanism| ["--auth", mechanism, "--auth-user", USER, "--auth-password", PASSWORD];
    let ways: [(&str, Vec<&str>); 5] = [
        ("smtp", vec!["--h-Subject", "plain"]),
        ("smtp", vec!["--h-Subject", "tls", "--tls"]),
        ("submission", [&["--h-Subject", "clear login"], &login("PLAIN")[..]].concat()),
        ("submission", [&["--h-Subject", "starttls", "--tls"], &login("LOGIN")[..]].concat()),
        ("submissions", [&["--h-Subject", "tls first", "--tls-on-connect"], &login("PLAIN")[..]].concat()),
    ];
    for (listener, arguments) in &ways {
        let talk = swaks(&server, listener, arguments);
        assert!(talk.contains("250 2.0.0 Delivered"), "{talk}");
    }
    // Inside TLS alone.
    assert!(swaks(&server, "smtp", &["--tls", "--quit-after", "EHLO"]).contains("250-REQUIRETLS"));
    assert!(!swaks(&server, "smtp", &["--quit-after", "EHLO"]).contains("REQUIRETLS"));
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {USER} {PASSWORD}")).unwrap();
    client.imap("EXAMINE INBOX").unwrap();
    for (_, arguments) in &ways {
        let found = client.imap(&format!("SEARCH SUBJECT \"{}\"", arguments[1])).unwrap();
        assert!(
            found.iter().any(|line| line.starts_with("* SEARCH ") && line.ends_with(char::is_numeric)),
            "{found:?}"
        );
    }
}

#[test]
fn sieve_connect_keeps_scripts() {
    if !client_tests_wanted() {
        return;
    }
    let server = server();
    let dir = tempfile::tempdir().unwrap();
    let (good, wrong) = (dir.path().join("good.sieve"), dir.path().join("wrong.sieve"));
    std::fs::write(&good, "require \"fileinto\";\r\nfileinto \"Junk\";\r\n").unwrap();
    std::fs::write(&wrong, "fileinto keep;\r\n").unwrap();
    let port = server.address("sieve").port().to_string();
    let run = |arguments: &[&str]| {
        let mut shell = Command::new("sh");
        // The password comes on a descriptor, so that it is in no list of processes.
        shell.args([
            "-c",
            "echo \"$1\" | { shift; sieve-connect --passwordfd 0 \"$@\" 2>&1 || echo \"ended with $?\"; }",
            "sh",
        ]);
        shell.args([PASSWORD, "--server", "127.0.0.1", "--port", &port, "--user", USER, "--notlsverify"]);
        shell.args(["--authmech", "PLAIN", "--4"]).args(arguments);
        run_client(shell)
    };
    let upload = |file: &std::path::Path| {
        run(&["--upload", "--localsieve", file.to_str().unwrap(), "--remotesieve", "main"])
    };
    let said = upload(&good);
    assert!(!said.contains("ended with"), "{said}");
    assert!(upload(&wrong).contains("ended with"), "a script that does not compile is refused");
    let said = run(&["--activate", "--remotesieve", "main"]);
    assert!(!said.contains("ended with"), "{said}");
    let listed = run(&["--list"]);
    assert!(listed.contains("\"main\"") && listed.contains("ACTIVE"), "{listed}");
    let copy = dir.path().join("copy.sieve");
    run(&["--download", "--remotesieve", "main", "--localsieve", copy.to_str().unwrap()]);
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&good).unwrap());
    let said = run(&["--deactivate"]);
    assert!(!said.contains("ended with"), "{said}");
    run(&["--delete", "--remotesieve", "main"]);
    assert!(!run(&["--list"]).contains("main"));
}
