//! `posthaste check --reindex`: of all accounts or of one, what it prints, and searches after it.

use std::path::Path;

use posthaste_testkit::{LineClient, Server, ServerBuilder};

const ANA: &str = "ana@example.org";
const BOB: &str = "bob@example.org";
const PASSWORD: &str = "correct horse";

fn start(dir: &Path) -> Server {
    ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .data(dir.join("data"))
        .listen("imap=127.0.0.1:0")
        .start()
}

/// An account with 300 messages. Each has a word of its own.
fn with_mail(server: &Server, dir: &Path, account: &str) {
    server.add_account(account, PASSWORD);
    let mail = dir.join(format!("{account}.mbox"));
    let message = |n: u32| {
        let words: String = (0..80).map(|i| format!("word{} ", (n * 7 + i * 13) % 400)).collect();
        format!("From bob@example.net Thu Jan  1 00:00:00 2026\nSubject: number {n}\n\n{words}\nown{n}x\n\n")
    };
    std::fs::write(&mail, (0..300).map(message).collect::<String>()).unwrap();
    let import =
        server.command(&["import", mail.to_str().unwrap(), "--account", account, "--mailbox", "INBOX"], "");
    assert!(import.status.success(), "{import:?}");
}

/// The output of `check` with these options.
fn check(server: &Server, options: &[&str]) -> String {
    let output = server.command(&[&["check"], options].concat(), "");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The share of the text that the index takes, in percent.
fn share(said: &str) -> f64 {
    let (before, _) = said.split_once(" % of their text of ").unwrap_or_else(|| panic!("{said}"));
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn of_one_account_and_of_all_and_searches_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    with_mail(&server, dir.path(), ANA);
    with_mail(&server, dir.path(), BOB);
    let nothing = check(&server, &[]);
    assert!(nothing.contains("in 0 segments of 0 mailboxes, for 0 messages"), "{nothing}");

    let one = check(&server, &["--reindex", "--account", ANA]);
    assert!(one.contains(" mailboxes indexed\n"), "{one}");
    assert!(one.contains("in 1 segments of 1 mailboxes, for 300 messages; "), "{one}");
    let all = check(&server, &["--reindex"]);
    assert!(all.contains("in 2 segments of 2 mailboxes, for 600 messages; "), "{all}");
    // Both have the same mail. 35 % of the text and 96 bytes a message are the bound.
    assert!(share(&one) > 1.0 && share(&one) < 60.0, "{one}");
    assert!((share(&one) - share(&all)).abs() < 1.0, "{one}{all}");
    let again = check(&server, &["--reindex", "--account", BOB]);
    assert_eq!(again.lines().last(), all.lines().last(), "it replaces what is there");

    let nobody = server.command(&["check", "--reindex", "--account", "eve@example.org"], "");
    assert!(!nobody.status.success(), "{nobody:?}");

    let mut imap = LineClient::connect(server.address("imap")).unwrap();
    imap.line().unwrap();
    imap.imap(&format!("LOGIN {ANA} \"{PASSWORD}\"")).unwrap();
    imap.imap("SELECT INBOX").unwrap();
    for (keys, found) in [
        ("BODY own7x", "* SEARCH 8"),
        ("TEXT wn299", "* SEARCH 300"),
        ("SUBJECT \"number 12\" BODY own12", "* SEARCH 13 121 122 123 124 125 126 127 128 129 130"),
        ("BODY nowhere", "* SEARCH"),
    ] {
        let lines = imap.imap(&format!("SEARCH {keys}")).unwrap();
        assert_eq!(lines.first().map(String::as_str), Some(found), "{keys}: {lines:?}");
    }
}
