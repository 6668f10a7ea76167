//! The cost of sessions, from the outside: over HTTP, and by `posthaste report cost`.

use std::path::Path;
use std::process::Command;

use posthaste_testkit::{LineClient, Server, ServerBuilder, dot_stuffed, message};
use serde_json::Value;

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

/// A session that reads one body of three, as a client that gives its name.
fn use_server(server: &Server) {
    let mut lmtp = LineClient::connect(server.address("lmtp")).unwrap();
    lmtp.reply().unwrap();
    lmtp.ask("LHLO test").unwrap();
    for serial in 0..3 {
        for command in ["MAIL FROM:<bob@example.net>", &format!("RCPT TO:<{USER}>"), "DATA"] {
            lmtp.ask(command).unwrap();
        }
        lmtp.send(&dot_stuffed(&message(serial))).unwrap();
        assert!(lmtp.reply().unwrap().starts_with("250"));
    }
    lmtp.ask("QUIT").unwrap();
    let mut imap = LineClient::connect(server.address("imap")).unwrap();
    imap.line().unwrap();
    imap.imap("ID (\"version\" \"1\" \"name\" \"probe\")").unwrap();
    imap.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
    imap.imap("SELECT INBOX").unwrap();
    imap.imap("FETCH 1:3 (FLAGS)").unwrap();
    imap.imap("FETCH 2 BODY.PEEK[]").unwrap();
    imap.imap("STORE 1 +FLAGS (\\Flagged)").unwrap();
    imap.imap("LOGOUT").unwrap();
}

/// `report cost … --json`, once the sessions above have ended.
fn report(server: &Server, args: &[&str]) -> Vec<Value> {
    loop {
        let output = server.command(&[&["report", "cost", "--json", "--top", "1000"], args].concat(), "");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ended = |line: &Value| line["command"] == "LOGOUT";
        if lines.iter().any(ended) || lines.iter().all(|line| line.get("command").is_none()) {
            return lines;
        }
    }
}

fn of<'a>(lines: &'a [Value], command: &str) -> &'a Value {
    lines
        .iter()
        .find(|line| line["command"] == command)
        .unwrap_or_else(|| panic!("no {command} in {lines:?}"))
}

/// A server that gives its metrics at an address, with its configuration and data in a directory.
fn with_metrics(dir: &Path) -> Server {
    let config = dir.join("posthaste.toml");
    std::fs::write(&config, "[listen]\nmetrics = [\"127.0.0.1:0\"]\n").unwrap();
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).data(dir.join("data"));
    server.arg("--config").arg(config.to_str().unwrap()).start()
}

#[test]
fn peers_that_say_nothing_keep_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    let server = with_metrics(dir.path());
    // A machine that needs more than their deadline of 10 s for all this loses them: then it is
    // tried again. A monitor that waits for a deadline does so each time.
    assert!((0..5).any(|_| a_monitor_is_answered_beside_them(&server)));
}

/// Whether a monitor is answered while peers say nothing, and the youngest of them still has its
/// connection then.
fn a_monitor_is_answered_beside_them(server: &Server) -> bool {
    let address = server.address("metrics");
    let slow: Vec<_> = (0..40).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let output = server.command(&["report", "cost", "--json"], "");
    assert!(output.status.success(), "{output:?}");
    // A monitor from the address is refused, too: it displaced the oldest of them and waited for
    // no deadline.
    assert!(figure(server, "posthaste_search_index_bytes") >= 0.0);
    let mut youngest = slow.last().unwrap();
    youngest.set_nonblocking(true).unwrap();
    let read = std::io::Read::read(&mut youngest, &mut [0]);
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn each_command_account_and_client_has_its_cost() {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).start();
    server.add_account(USER, PASSWORD);
    use_server(&server);
    let commands = report(&server, &[]);
    let fetch = of(&commands, "FETCH");
    assert_eq!((&fetch["protocol"], &fetch["folder"]), (&"imap".into(), &"100".into()));
    assert_eq!(
        (&fetch["commands"], &fetch["body_reads"], &fetch["commits"]),
        (&2.into(), &1.into(), &0.into())
    );
    // The flags are in the rows. FETCH of a body reads where it is, and the summary.
    let reads = |command: &str| of(&commands, command)["record_reads"].as_u64().unwrap();
    assert!(reads("SELECT") <= 3 && reads("LOGIN") == 0, "{commands:?}");
    assert!((1..=3).contains(&reads("FETCH")), "{fetch}");
    assert!(fetch["cpu_ns"].as_u64().unwrap() > 0);
    assert!(fetch["sent"].as_u64().unwrap() > message(1).len() as u64, "{fetch}");
    assert_eq!(of(&commands, "STORE")["commits"], 1);
    assert_eq!(of(&commands, "LOGIN")["folder"], "none");
    let data = of(&commands, "DATA");
    assert_eq!(
        (&data["protocol"], &data["commands"], &data["commits"]),
        (&"lmtp".into(), &3.into(), &3.into())
    );
    assert!(data["received"].as_u64().unwrap() > 3 * message(1).len() as u64, "{data}");
    assert!(of(&commands, "RCPT")["directory_reads"].as_u64().unwrap() >= 3);

    // A task of the server has its cost while it runs: this one looks for new accounts.
    let watch = commands.iter().find(|line| line["protocol"] == "watch").unwrap();
    assert_eq!((&watch["command"], &watch["commands"]), (&"background".into(), &0.into()));

    let accounts = report(&server, &["--by", "account"]);
    assert_eq!((accounts.len(), &accounts[0]["account"]), (1, &USER.into()));
    let clients = report(&server, &["--by", "client"]);
    assert_eq!((clients.len(), &clients[0]["client"]), (1, &"probe".into()));
    // The account and the client have the cost of the session: all its commands from the login on.
    assert_eq!((&accounts[0]["body_reads"], &clients[0]["body_reads"]), (&1.into(), &1.into()));
    let said = server.command(&["report", "cost", "--account", "ana@example.org"], "");
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("in folders up to 100\n") && said.contains("  INBOX: 0."), "{said}");
    assert!(said.contains("imap FETCH: too little data for an estimate\n"), "{said}");
    // All its commands with a folder were in the INBOX, and a folder that is small saves nothing.
    let cut = &report(&server, &["--account", USER])[0]["cut"];
    assert!(cut["inbox"]["cpu_s"].as_f64().unwrap() > 0.0, "{cut}");
    assert_eq!((&cut["inbox"], &cut["inbox"]["then_s"]), (&cut["all"], &cut["inbox"]["cpu_s"]));
    let named = |command: &str| cut["commands"].as_array().unwrap().iter().any(|c| c["command"] == command);
    assert!(named("FETCH") && named("SELECT") && !named("LOGIN"), "{cut}");

    for (by, value) in [("protocol", "imap"), ("folder", "100")] {
        let sums = report(&server, &["--by", by]);
        let sum = sums.iter().find(|sum| sum[by] == value).unwrap();
        assert_eq!(
            (&sum["body_reads"], sums.len()),
            (&1.into(), if by == "folder" { 2 } else { sums.len() })
        );
    }
    let roles = report(&server, &["--by", "role"]);
    assert!(roles.iter().any(|role| role["role"] == "writer" && role["threads"] == 1), "{roles:?}");
    let nobody = server.command(&["report", "cost", "--account", "bob@example.org"], "");
    assert!(String::from_utf8(nobody.stderr).unwrap().contains("bob@example.org has had no session"));
}

/// The figure of `name` in the text that monitors read.
fn figure(server: &Server, name: &str) -> f64 {
    let url = format!("http://{}/metrics", server.address("metrics"));
    let output = Command::new("curl").args(["-s", &url]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[test]
fn monitors_read_the_size_of_the_search_index() {
    let dir = tempfile::tempdir().unwrap();
    let server = with_metrics(dir.path());
    server.add_account(USER, PASSWORD);
    assert_eq!(figure(&server, "posthaste_search_index_bytes"), 0.0);
    // As many messages as a segment has at least. A server that has counted does not count again at
    // once: this is another one.
    let mail = dir.path().join("mail.mbox");
    let message = |n| {
        format!(
            "From bob@example.net Thu Jan  1 00:00:00 2026\nSubject: number {n}\n\nword{n} of message {n}\n\n"
        )
    };
    std::fs::write(&mail, (0..300).map(message).collect::<String>()).unwrap();
    let import =
        server.command(&["import", mail.to_str().unwrap(), "--account", USER, "--mailbox", "INBOX"], "");
    assert!(import.status.success(), "{import:?}");
    assert!(String::from_utf8_lossy(&import.stdout).contains("300"), "{import:?}");
    let check = server.command(&["check", "--reindex"], "");
    assert!(check.status.success(), "{check:?}");
    server.stop();
    let server = with_metrics(dir.path());
    let of = |unit: &str| figure(&server, &format!("posthaste_search_index_{unit}"));
    assert_eq!((of("segments"), of("mailboxes")), (1.0, 1.0), "{check:?}");
    assert!(of("bytes") > 1000.0);
    assert!(figure(&server, "posthaste_search_index_memory_bytes") >= 0.0);
}

#[test]
fn monitors_read_open_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = with_metrics(dir.path());
    server.add_account(USER, PASSWORD);
    use_server(&server);
    report(&server, &[]);
    let curl = |args: &[&str]| {
        let address = server.address("metrics");
        let url = format!("http://{address}/metrics");
        let output = Command::new("curl").args(["-s", "-i"]).args(args).arg(url).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = curl(&[]);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("# EOF\n"), "{text}");
    assert!(
        text.contains("posthaste_commands_total{protocol=\"imap\",command=\"FETCH\",folder=\"100\"} 2.0\n"),
        "{text}"
    );
    assert!(text.contains("posthaste_thread_cpu_seconds{role=\"writer\"} "), "{text}");
    assert!(curl(&["-X", "POST"]).starts_with("HTTP/1.1 405 "));
    let socket = data.join("metrics.sock");
    assert!(socket.exists());
    // A killed server leaves its socket; the next one replaces it.
    server.kill();
    assert!(socket.exists());
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).data(&data).start();
    assert!(server.command(&["report", "cost"], "").status.success());
    server.stop();
    assert!(!socket.exists());
}
