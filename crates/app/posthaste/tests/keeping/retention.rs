//! Mail leaves folders by rule: by the command while the server runs, and by the server itself.

use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, ServerBuilder};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

fn imap(server: &Server) -> LineClient {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
    client
}

fn append(client: &mut LineClient, flags: &str, date: &str) {
    client
        .send(
            format!("t APPEND INBOX ({flags}) \"{date} 12:00:00 +0000\" {{8+}}\r\nA: b\r\n\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
    let said = client.line().unwrap();
    assert!(said.starts_with("t OK"), "{said}");
}

/// Three old messages, one of them flagged, and one that is new for years to come.
fn fill(client: &mut LineClient) {
    append(client, "", "07-Feb-2001");
    append(client, "\\Flagged", "08-Feb-2001");
    append(client, "\\Seen", "01-Mar-2001");
    append(client, "", "01-Jan-2099");
}

fn count(client: &mut LineClient, folder: &str) -> String {
    let said = client.imap(&format!("STATUS {folder} (MESSAGES)")).unwrap();
    said[0].clone()
}

#[test]
fn a_dry_run_first_and_then_the_mail_is_in_its_month() {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).start();
    server.add_account(USER, PASSWORD);
    let mut client = imap(&server);
    fill(&mut client);
    client.imap("SELECT INBOX").unwrap();
    let retention = |args: &[&str]| server.command(&[&["retention"], args].concat(), "");
    let rule = ["--mailbox", "INBOX", "--older-than", "1 year", "--to", "archive"];
    let said = String::from_utf8(retention(&rule).stdout).unwrap();
    assert!(said.contains("1 messages") && said.contains("INBOX: to Archive/2001-02"), "{said}");
    assert!(said.ends_with("2 messages, 16 B: nothing was changed; add --apply to do it\n"), "{said}");
    assert!(count(&mut client, "INBOX").ends_with("(MESSAGES 4)"));
    assert!(count(&mut client, "Archive/2001-02").starts_with("t NO"), "nothing was made either");

    let applied = retention(&[&rule[..], &["--apply"]].concat());
    assert!(applied.status.success(), "{applied:?}");
    // The session that has the folder open hears of it.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut expunged = Vec::new();
    while expunged.len() < 2 {
        assert!(Instant::now() < deadline, "no EXPUNGE came: {expunged:?}");
        expunged.extend(client.imap("NOOP").unwrap().into_iter().filter(|line| line.ends_with("EXPUNGE")));
    }
    client.imap("SELECT Archive/2001-03").unwrap();
    let said = client.imap("FETCH 1 (FLAGS INTERNALDATE)").unwrap();
    assert!(said[0].contains("\\Seen") && said[0].contains(" 1-Mar-2001"), "{said:?}");
    let audit = std::fs::read_to_string(server.data().join("audit.log")).unwrap();
    assert!(
        audit.contains("retention --mailbox INBOX --older-than '1 year' --to archive --apply"),
        "{audit}"
    );

    // A folder that is not there, and one without old mail.
    for mailbox in ["Inbx", "INBOX"] {
        let said = retention(&["--mailbox", mailbox, "--older-than", "100 years", "--to", "trash"]);
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said, "no message is selected, so nothing would be changed\n", "{mailbox}");
    }

    // A wrong command changes nothing and says what to do.
    for (args, why) in [
        (&["--mailbox", "INBOX", "--to", "trash"][..], "--older-than nor --keep-newest"),
        (&["--mailbox", "INBOX", "--older-than", "1 year"], "--to"),
        (&["--mailbox", "\\Trsh", "--older-than", "1 day", "--to", "nowhere"], "not a special use"),
        (
            &["--mailbox", "\\Trash", "--older-than", "1 day", "--to", "trash"],
            "--to trash has no effect in \\Trash: take --to nowhere",
        ),
        (&["--mailbox", "", "--older-than", "1 day", "--to", "trash"], "--mailbox is empty"),
        (&[], "`retention.rules` is empty"),
    ] {
        let output = retention(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(why), "{args:?}: {said}");
    }
}

/// The account's own limit counts, and not the server's. The rest stays and is named.
#[test]
fn a_rule_moves_no_more_than_the_target_may_hold() {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).start();
    server.add_account(USER, PASSWORD);
    fill(&mut imap(&server));
    let limit = |messages: &str| {
        let output = server.command(&["account", "set", USER, "--folder-messages", messages], "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        imap(&server)
    };
    let mut client = limit("2");
    let rule = ["--mailbox", "INBOX", "--older-than", "1 year", "--flagged-too", "--to", "trash", "--apply"];
    let output = server.command(&[&["retention"], &rule[..]].concat(), "");
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success() && said.ends_with("2 messages, 16 B\n"), "{said}{why}");
    assert!(why.contains("Trash may hold 2 messages, so the rest stays"), "{why}");
    for folder in ["INBOX", "Trash"] {
        assert!(count(&mut client, folder).ends_with("(MESSAGES 2)"), "{folder}");
    }
    // RENAME of INBOX moves its messages to a new folder: all of them, or none.
    let mut client = limit("1");
    let said = client.imap("RENAME INBOX Old").unwrap();
    assert!(said.last().unwrap().starts_with("t NO [LIMIT] "), "{said:?}");
    assert!(count(&mut client, "Old").starts_with("t NO"), "nothing was made");
    let said = limit("2").imap("RENAME INBOX Old").unwrap();
    assert!(said.last().unwrap().starts_with("t OK"), "{said:?}");
    assert!(count(&mut client, "Old").ends_with("(MESSAGES 2)"));
}

#[test]
fn the_server_applies_its_rules() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("posthaste.toml");
    let rules = r#"
        [retention]
        every = "100 ms"
        rules = [
            { mailbox = "INBOX", older_than = "1 year", keep_flagged = false, accounts = ["*@example.org"], action = "trash" },
            { mailbox = "\\Trash", older_than = "1 year", age_from = "received", keep_newest = 1, keep_flagged = false, action = "delete" },
        ]"#;
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).settings(&config, rules).start();
    server.add_account(USER, PASSWORD);
    let mut client = imap(&server);
    fill(&mut client);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (inbox, trash) = (count(&mut client, "INBOX"), count(&mut client, "Trash"));
        if inbox.ends_with("(MESSAGES 1)") && trash.ends_with("(MESSAGES 1)") {
            break;
        }
        assert!(Instant::now() < deadline, "{inbox} {trash}");
        std::thread::yield_now();
    }
    // A line is written after its commit.
    loop {
        let logged = server.logged("a retention rule moved or deleted mail of a folder");
        let is_of_inbox = |line: &String| line.contains("folder=\"INBOX\"") && line.contains("to=\"Trash\"");
        if logged.iter().any(is_of_inbox) {
            break;
        }
        assert!(Instant::now() < deadline, "{logged:?}");
        std::thread::yield_now();
    }
}
