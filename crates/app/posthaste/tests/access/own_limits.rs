//! Limits that one account has in place of the configuration's: from the command that sets them
//! to its sessions.

use std::process::Output;
use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, ServerBuilder};

const USER: &str = "ana@example.org";
const OTHER: &str = "bo@example.org";
const PASSWORD: &str = "correct horse";
/// Longest that anything may take: only a failure waits for it.
const TIMEOUT: Duration = Duration::from_secs(60);

fn server() -> Server {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).listen("imap=127.0.0.1:0").start();
    for user in [USER, OTHER] {
        server.add_account(user, PASSWORD);
    }
    server
}

fn set(server: &Server, options: &[&str]) -> Output {
    server.command(&[&["account", "set", USER], options].concat(), "")
}

/// Sets limits, which must succeed.
fn limit(server: &Server, options: &[&str]) {
    let output = set(server, options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn show(server: &Server, name: &str, options: &[&str]) -> String {
    let output = server.command(&[&["account", "show", name], options].concat(), "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A session, and the answer to its login.
fn log_in(server: &Server, user: &str) -> (LineClient, String) {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    let answer = client.imap(&format!("LOGIN {user} \"{PASSWORD}\"")).unwrap().pop().unwrap();
    (client, answer)
}

/// A session that must be admitted.
fn logged_in(server: &Server, user: &str) -> LineClient {
    let (client, answer) = log_in(server, user);
    assert!(answer.starts_with("t OK"), "{answer}");
    client
}

#[test]
fn an_account_has_its_own_number_of_connections() {
    let server = server();
    limit(&server, &["--connections", "2"]);
    let _held = [logged_in(&server, USER), logged_in(&server, USER)];
    let refused = log_in(&server, USER).1;
    assert!(refused.starts_with("t NO [LIMIT] Your account has too many connections"), "{refused}");
    let _others = [(); 3].map(|()| logged_in(&server, OTHER));
    // The next login reads the record.
    limit(&server, &["--connections", "default"]);
    drop(logged_in(&server, USER));
}

#[test]
fn open_sessions_follow_the_limits_of_their_account() {
    let server = server();
    let mut other = logged_in(&server, OTHER);
    limit(&server, &["--commands-per-minute", "1"]);
    let mut client = logged_in(&server, USER);
    // At this rate the last of them would be answered after four minutes.
    client.send(b"a NOOP\r\nb NOOP\r\nc NOOP\r\nd NOOP\r\ne NOOP\r\n").unwrap();
    assert!(client.line().unwrap().starts_with("a OK"));
    let deadline = Instant::now() + TIMEOUT;
    let over = loop {
        if let Some(line) = server.logged("an account is over a limit").pop() {
            break line;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(over.contains(USER) && over.contains("commands_per_minute"), "{over}");
    assert!(other.imap("NOOP").unwrap()[0].starts_with("t OK"));
    limit(&server, &["--commands-per-minute", "default"]);
    for tag in ["b", "c", "d", "e"] {
        let answer = client.line().unwrap();
        assert!(answer.starts_with(&format!("{tag} OK")), "{answer}");
    }
}

#[test]
fn a_command_sets_shows_and_takes_away_the_limits_of_an_account() {
    let server = server();
    for (option, value, why) in [
        ("--sent-per-hour", "1 MiB", "64 MiB or more"),
        ("--received-per-hour", "none", "64 MiB or more"),
        ("--connections", "-1", "is not a limit"),
        ("--submitted-messages-per-day", "1 GiB", "is not a limit"),
    ] {
        let output = set(&server, &[&format!("{option}={value}")]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{option} {value}: {said}");
    }
    assert!(!show(&server, USER, &[]).contains("limit    "));
    limit(
        &server,
        &["--connections", "7", "--sent-per-hour", "1 GiB", "--submitted-recipients-per-day", "0"],
    );
    let shown = show(&server, USER, &[]);
    for line in [
        "limit    connections 7",
        "limit    sent-per-hour 1.0 GiB",
        "limit    submitted-recipients-per-day no limit",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    let json = show(&server, USER, &["--json"]);
    for limit in ["\"connections\":7", "\"sent_per_hour\":1073741824", "\"submitted_recipients_per_day\":0"] {
        assert!(json.contains(limit), "{limit}: {json}");
    }
    // The others stay.
    limit(&server, &["--connections", "default", "--sent-on-messages-per-hour", "3"]);
    let shown = show(&server, USER, &[]);
    assert!(!shown.contains("limit    connections"), "{shown}");
    assert!(
        shown.contains("sent-per-hour 1.0 GiB\n") && shown.contains("sent-on-messages-per-hour 3\n"),
        "{shown}"
    );
    let add = ["account", "add", "cy@example.org", "--password-stdin", "--commands-per-minute", "9"];
    assert!(server.command(&add, PASSWORD).status.success());
    assert!(show(&server, "cy@example.org", &[]).contains("limit    commands-per-minute 9\n"));
    assert!(show(&server, OTHER, &["--json"]).contains("\"own_limits\":{}"));
}
