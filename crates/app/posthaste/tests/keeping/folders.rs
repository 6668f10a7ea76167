//! Folders with many messages: a line in the log over one limit, refusals over the other, and the
//! list of the largest.

use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, ServerBuilder, dot_stuffed, message};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

fn imap(server: &Server) -> LineClient {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
    client
}

/// Delivers a message and returns what LMTP says.
fn deliver(server: &Server, serial: usize) -> String {
    let mut client = LineClient::connect(server.address("lmtp")).unwrap();
    client.reply().unwrap();
    for command in ["LHLO test", "MAIL FROM:<bob@example.net>", &format!("RCPT TO:<{USER}>"), "DATA"] {
        client.ask(command).unwrap();
    }
    client.send(&dot_stuffed(&message(serial))).unwrap();
    client.reply().unwrap()
}

/// The answer to an APPEND.
fn append(client: &mut LineClient, folder: &str) -> String {
    client.send(format!("t APPEND {folder} {{7+}}\r\nA: b\r\n\r\n\r\n").as_bytes()).unwrap();
    loop {
        let line = client.line().unwrap();
        if line.starts_with("t ") {
            return line;
        }
    }
}

fn last(lines: &[String]) -> &str {
    lines.last().unwrap()
}

/// Another host is refused before it sends the message.
fn host_is_refused_at_rcpt(server: &Server) {
    let mut host = LineClient::connect(server.address("smtp")).unwrap();
    host.reply().unwrap();
    for command in ["EHLO host.example.net", "MAIL FROM:<bob@example.net>"] {
        assert!(host.ask(command).unwrap().starts_with("250"));
    }
    let said = host.ask(&format!("RCPT TO:<{USER}>")).unwrap();
    assert!(said.starts_with("452 4.2.2 "), "{said}");
}

/// The openings of large folders that the server has counted for a protocol.
fn openings(server: &Server, protocol: &str) -> u64 {
    let output = server.command(&["report", "cost", "--by", "protocol", "--json"], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let sums = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    sums.filter(|sum| sum["protocol"] == protocol).filter_map(|sum| sum["large_folders"].as_u64()).sum()
}

/// Two folders, the INBOX with four messages and the archive with two, and what they cost.
fn the_largest_are_listed(server: &Server) {
    let report = |args: &[&str]| {
        let output = server.command(&[&["report", "folders"], args].concat(), "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let said = report(&["--top", "2"]);
    let words: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(words[0][0] == "4" && words[0].ends_with(&["less", USER, "INBOX"]), "{said}");
    assert!(words[1][0] == "2" && words[1].ends_with(&["less", USER, "Archive"]), "{said}");
    assert!(words[2].is_empty() && said.contains("since the start of the server"), "{said}");
    let said = report(&["--account", USER, "--top", "1", "--json"]);
    assert!(said.contains("\"messages\":4") && said.lines().count() == 1, "{said}");
    // Its commands in the INBOX, which no smaller one would make cheaper.
    let line: serde_json::Value = serde_json::from_str(&said).unwrap();
    let cost = &line["cost"];
    assert!(cost["cpu_s"].as_f64().unwrap() > 0.0 && cost["of"] == "inbox", "{said}");
    assert_eq!(cost["then_s"], cost["cpu_s"]);
}

/// Four SELECTs and an EXAMINE of the INBOX with four messages, and a login by POP3.
fn openings_are_logged_and_counted(server: &Server) {
    // The lines of the log come through a pipe, in order: those of the login are behind ours.
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.logged("protocol=pop3 session").is_empty() {
        assert!(Instant::now() < deadline, "the login is not in the log");
        std::thread::yield_now();
    }
    let logged = server.logged("was opened");
    assert!(!logged.iter().any(|line| line.contains("folder=\"Archive\"")), "it has two: {logged:?}");
    let of = |protocol: &str| logged.iter().rfind(|line| line.contains(protocol)).unwrap();
    for protocol in ["protocol=imap", "protocol=pop3"] {
        let line = of(protocol);
        for part in
            ["client=127.0.0.1", "items=4", "limit=2", "account=\"ana@example.org\"", "folder=\"INBOX\""]
        {
            assert!(line.contains(part), "{line}");
        }
    }

    // A command is counted when its session waits again.
    loop {
        let counted = ["imap", "pop3"].map(|protocol| openings(server, protocol));
        if counted == [5, 1] {
            break;
        }
        assert!(Instant::now() < deadline, "{counted:?} openings are counted");
    }
}

#[test]
fn over_one_limit_a_line_is_logged_and_over_the_other_nothing_comes_in() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("posthaste.toml");
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&config, "[limits]\nfolder_messages_warn = 2\nfolder_messages_max = 4\n")
        .listen("imap=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .listen("pop3=127.0.0.1:0")
        .listen("smtp=127.0.0.1:0")
        .start();
    server.add_account(USER, PASSWORD);

    for serial in 0..4 {
        let said = deliver(&server, serial);
        assert!(said.starts_with("250 "), "{said}");
    }
    // The sender keeps it and tries again: RFC 5321 §4.2.1.
    let said = deliver(&server, 4);
    assert!(said.starts_with("452 4.2.2 "), "{said}");
    // A host is refused before it sends the message, so that the other recipients get it once.
    host_is_refused_at_rcpt(&server);
    let mut client = imap(&server);
    let said = append(&mut client, "INBOX");
    assert!(said.starts_with("t NO [LIMIT] ") && said.contains('4'), "{said}");
    for command in ["COPY 1 INBOX", "COPY 1:2 Archive", "COPY 1:3 Archive", "MOVE 1:3 Archive"] {
        client.imap("SELECT INBOX").unwrap();
        let said = client.imap(command).unwrap();
        let is_refused = last(&said).starts_with("t NO [LIMIT]");
        // The second fills the archive to two, so that three more do not fit.
        assert_eq!(is_refused, command != "COPY 1:2 Archive", "{command}: {said:?}");
    }
    // No refused message is there, and expunged messages make room.
    let status = client.imap("STATUS INBOX (MESSAGES)").unwrap();
    assert!(status[0].ends_with("(MESSAGES 4)"), "{status:?}");
    client.imap("STORE 1 +FLAGS.SILENT (\\Deleted)").unwrap();
    client.imap("EXPUNGE").unwrap();
    assert!(deliver(&server, 4).starts_with("250 "));

    client.imap("EXAMINE Archive").unwrap();
    client.imap("EXAMINE INBOX").unwrap();
    let mut reader = LineClient::connect(server.address("pop3")).unwrap();
    reader.send(format!("USER {USER}\r\nPASS {PASSWORD}\r\n").as_bytes()).unwrap();
    for _ in 0..3 {
        assert!(reader.line().unwrap().starts_with("+OK"));
    }
    openings_are_logged_and_counted(&server);
    the_largest_are_listed(&server);
}

#[test]
fn an_account_has_thresholds_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("posthaste.toml");
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&config, "[limits]\nfolder_messages_warn = 100\nfolder_messages_max = 2\n")
        .listen("imap=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .listen("smtp=127.0.0.1:0")
        .start();
    server.add_account(USER, PASSWORD);
    let set = |args: &[&str]| {
        let output = server.command(&[&["account", "set", USER], args].concat(), "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    set(&["--folder-messages", "3", "--folder-warn", "1"]);
    for serial in 0..3 {
        let said = deliver(&server, serial);
        assert!(said.starts_with("250 "), "its own limit is above the server's: {said}");
    }
    let said = deliver(&server, 3);
    assert!(said.starts_with("452 4.2.2 "), "{said}");
    host_is_refused_at_rcpt(&server);
    let mut client = imap(&server);
    client.imap("SELECT INBOX").unwrap();
    for command in ["COPY 1 INBOX", "COPY 1:3 Archive", "COPY 1 Archive"] {
        let said = client.imap(command).unwrap();
        let is_refused = last(&said).starts_with("t NO [LIMIT]");
        assert_eq!(is_refused, command != "COPY 1:3 Archive", "{command}: {said:?}");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.logged("was opened").is_empty() {
        assert!(Instant::now() < deadline, "the opening is not in the log");
        std::thread::yield_now();
    }
    let line = &server.logged("was opened")[0];
    assert!(line.contains("limit=1") && line.contains("items=3"), "{line}");

    let shown = server.command(&["account", "show", USER], "");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("at most 3 messages") && shown.contains("over 1 messages"), "{shown}");
    // Without limits of its own it has those of the server, and 0 is no limit.
    set(&["--folder-messages", "none", "--folder-warn", "none"]);
    let said = deliver(&server, 4);
    assert!(said.starts_with("452 4.2.2 "), "{said}");
    set(&["--folder-messages", "0"]);
    let said = deliver(&server, 5);
    assert!(said.starts_with("250 "), "{said}");
}
