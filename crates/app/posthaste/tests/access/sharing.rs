//! Shared mailboxes, end to end on the real server: by clients of others, by the command line,
//! across restarts and in a backup.

use std::process::{Command, Output};

use posthaste_testkit::{LineClient, Server, ServerBuilder, client_tests_wanted, run_client, run_python};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const PASSWORD: &str = "correct horse";

fn server() -> Server {
    let server = ServerBuilder::new(BINARY).start();
    server.add_account("ana@example.org", PASSWORD);
    server.add_account("bo@example.org", PASSWORD);
    server
}

fn done(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn run(server: &Server, args: &[&str]) -> String {
    done(&server.command(args, ""))
}

#[test]
fn the_command_line_shares_and_says_so_in_the_audit_log() {
    let server = server();
    run(&server, &["account", "add", "--shared", "sales@example.org"]);
    assert_eq!(
        run(&server, &["acl", "set", "sales@example.org", "INBOX", "anyone", "lrs"]),
        "INBOX\tanyone\tlrs\n"
    );
    assert_eq!(
        run(&server, &["acl", "set", "sales@example.org", "INBOX", "bo@example.org", "+ite"]),
        "INBOX\tbo@example.org\tite\n"
    );
    run(&server, &["acl", "set", "sales@example.org", "INBOX", "-ana@example.org", "s"]);
    assert_eq!(
        run(&server, &["acl", "show", "sales@example.org"]),
        "INBOX\tanyone\tlrs\nINBOX\t-ana@example.org\ts\nINBOX\tbo@example.org\tite\n"
    );
    run(&server, &["acl", "remove", "sales@example.org", "INBOX", "bo@example.org"]);
    let json = run(&server, &["acl", "show", "sales@example.org", "INBOX", "--json"]);
    assert!(json.contains("\"who\":\"anyone\"") && !json.contains("bo@example.org"), "{json}");
    for wrong in [
        &["acl", "set", "sales@example.org", "INBOX", "anyone", "lrq"][..],
        &["acl", "set", "sales@example.org", "Nowhere", "anyone", "lr"],
        &["acl", "set", "nobody@example.org", "INBOX", "anyone", "lr"],
        &["acl", "set", "sales@example.org", "INBOX", "sales@example.org", "lr"],
    ] {
        assert_eq!(server.command(wrong, "").status.code(), Some(2), "{wrong:?}");
    }
    let audit = std::fs::read_to_string(server.data().join("audit.log")).unwrap();
    for act in ["account add --shared sales@example.org", "acl set sales@example.org INBOX anyone lrs"] {
        assert!(audit.contains(act), "{audit}");
    }
}

#[test]
fn imaplib_and_curl_see_what_is_shared() {
    if !client_tests_wanted() {
        return;
    }
    let server = server();
    run(&server, &["account", "add", "--shared", "sales@example.org"]);
    run(&server, &["acl", "set", "sales@example.org", "INBOX", "anyone", "lr"]);
    run(&server, &["acl", "set", "sales@example.org", "INBOX", "ana@example.org", "i"]);
    let address = server.address("imap");
    let said =
        run_python(include_str!("../clients/imaplib_sharing.py"), &[&address.port().to_string(), PASSWORD]);
    assert!(said.contains("imaplib: shared"), "{said}");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "60"]);
    curl.args(["--user", &format!("bo@example.org:{PASSWORD}")]);
    curl.arg(format!("imap://{address}/Shared%2Fsales%40example.org%2FINBOX;MAILINDEX=1"));
    assert!(run_client(curl).contains("Subject: order"));
}

#[test]
fn rights_are_in_a_backup_and_go_with_an_account() {
    let server = server();
    // The first login makes the mailboxes.
    login(&server, "ana@example.org");
    run(&server, &["acl", "set", "ana@example.org", "INBOX", "bo@example.org", "lr"]);
    let dir = tempfile::tempdir().unwrap();
    let backup = dir.path().join("backup");
    run(&server, &["backup", backup.to_str().unwrap()]);
    run(
        &server,
        &["restore", backup.to_str().unwrap(), "--account", "ana@example.org", "--as", "eve@example.org"],
    );
    assert_eq!(run(&server, &["acl", "show", "eve@example.org"]), "INBOX\tbo@example.org\tlr\n");
    run(&server, &["account", "remove", "bo@example.org", "--yes"]);
    assert_eq!(run(&server, &["acl", "show", "ana@example.org"]), "");
    assert_eq!(run(&server, &["acl", "show", "eve@example.org"]), "");
}

/// bo's `\Seen` flags in ana's mailbox, also in a copy of her account. The owner's `\Seen` flags
/// stay hers.
#[test]
fn seen_flags_are_backed_up_and_copied_with_an_account() {
    let server = server();
    let mut ana = login(&server, "ana@example.org");
    for n in 1..=3 {
        ana.imap(&format!("APPEND INBOX {{16+}}\r\nSubject: {n:03}\r\n\r\n")).unwrap();
    }
    ana.imap("SELECT INBOX").unwrap();
    ana.imap("STORE 1 +FLAGS (\\Seen)").unwrap();
    ana.imap("SETACL INBOX bo@example.org lrs").unwrap();
    let mut bo = login(&server, "bo@example.org");
    let mut seen = |owner: &str| {
        bo.imap(&format!("SELECT \"Other Users/{owner}/INBOX\"")).unwrap();
        bo.imap("SEARCH SEEN").unwrap().remove(0)
    };
    assert_eq!(seen("ana@example.org"), "* SEARCH");
    let mut other = login(&server, "bo@example.org");
    other.imap("SELECT \"Other Users/ana@example.org/INBOX\"").unwrap();
    other.imap("STORE 2:3 +FLAGS (\\Seen)").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let backup = dir.path().join("backup");
    run(&server, &["backup", backup.to_str().unwrap()]);
    let restore = ["restore", backup.to_str().unwrap(), "--account", "ana@example.org", "--as"];
    run(&server, &[&restore[..], &["eve@example.org"]].concat());
    for owner in ["ana@example.org", "eve@example.org"] {
        assert_eq!(seen(owner), "* SEARCH 2 3", "{owner}");
    }
    let mut eve = login(&server, "eve@example.org");
    eve.imap("SELECT INBOX").unwrap();
    assert_eq!(eve.imap("SEARCH SEEN").unwrap().remove(0), "* SEARCH 1");
}

/// bo's `\Seen` flag of a message that he added was acknowledged, and so was its mod-sequence.
#[test]
fn seen_flags_of_new_messages_outlive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let start = || ServerBuilder::new(BINARY).data(&data).start();
    let server = start();
    server.add_account("ana@example.org", PASSWORD);
    server.add_account("bo@example.org", PASSWORD);
    login(&server, "ana@example.org").imap("SETACL INBOX bo@example.org lrsi").unwrap();
    let shared = "\"Other Users/ana@example.org/INBOX\"";
    let mut bo = login(&server, "bo@example.org");
    let said = bo.imap(&format!("APPEND {shared} (\\Seen) {{1+}}\r\nx")).unwrap();
    assert!(said.last().is_some_and(|line| line.starts_with("t OK ")), "{said:?}");
    server.kill();
    let server = start();
    let mut bo = login(&server, "bo@example.org");
    bo.imap(&format!("SELECT {shared}")).unwrap();
    // The message came with the first one.
    let found = bo.imap("SEARCH SEEN MODSEQ 2").unwrap();
    assert!(found.iter().any(|line| line.starts_with("* SEARCH 1 (MODSEQ ")), "{found:?}");
}

fn login(server: &Server, user: &str) -> LineClient {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {user} \"{PASSWORD}\"")).unwrap();
    client
}

/// Enough copies at once are links to the originals.
#[test]
fn copies_of_shared_mail_outlive_the_account_that_they_came_from() {
    let server = server();
    let mut ana = login(&server, "ana@example.org");
    for n in 1..=40 {
        ana.imap(&format!("APPEND INBOX {{16+}}\r\nSubject: {n:03}\r\n\r\n")).unwrap();
    }
    ana.imap("SETACL INBOX bo@example.org lr").unwrap();
    let mut bo = login(&server, "bo@example.org");
    bo.imap("SELECT \"Other Users/ana@example.org/INBOX\"").unwrap();
    bo.imap("COPY 1:* INBOX").unwrap();
    run(&server, &["account", "remove", "ana@example.org", "--yes"]);
    run(&server, &["check"]);
    let mut bo = login(&server, "bo@example.org");
    bo.imap("SELECT INBOX").unwrap();
    let (messages, _) = bo.literals("FETCH 1:* (ENVELOPE BODY.PEEK[])").unwrap();
    assert_eq!(messages.len(), 40);
    assert!(
        messages.iter().all(|(line, body)| line.contains("ENVELOPE") && body.len() == 16),
        "{messages:?}"
    );
}
