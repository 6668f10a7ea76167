//! Two servers on one cluster: any of them serves anyone, and each learns of the other's changes.
//!
//! Only on a cluster (`POSTHASTE_TEST_ENGINE`): one data directory belongs to one server.

use std::path::Path;

use posthaste_testkit::{LineClient, Server, ServerBuilder, engine_of, message};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";

/// Two servers that share a keyspace; `None` without a cluster.
fn two() -> Option<(Server, Server)> {
    let dir = tempfile::tempdir().unwrap();
    let Some(engine) = engine_of(Path::new(BINARY), &dir.path().join("first")) else {
        eprintln!("SKIPPED: POSTHASTE_TEST_ENGINE names no cluster that two servers could share");
        return None;
    };
    let start = || ServerBuilder::new(BINARY).engine(&engine).start();
    Some((start(), start()))
}

fn login(server: &Server) -> LineClient {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    let answer = client.imap(&format!("LOGIN {USER} password4tests")).unwrap();
    assert!(answer.last().unwrap().starts_with("t OK"), "{answer:?}");
    client
}

fn append(client: &mut LineClient, serial: usize) {
    let text = message(serial);
    client.send(format!("a APPEND INBOX {{{}+}}\r\n", text.len()).as_bytes()).unwrap();
    client.send(&text).unwrap();
    client.send(b"\r\n").unwrap();
    while !client.line().unwrap().starts_with("a OK") {}
}

/// Waits (with the deadline that every read has) until a line begins so.
fn until(client: &mut LineClient, start: &str) {
    while !client.line().unwrap().starts_with(start) {}
}

#[test]
fn an_idle_session_reports_mail_of_the_other_server() {
    let Some((first, second)) = two() else { return };
    first.add_account(USER, "password4tests");
    let mut here = login(&first);
    append(&mut here, 0);
    here.imap("SELECT INBOX").unwrap();
    here.send(b"i IDLE\r\n").unwrap();
    until(&mut here, "+ ");
    let mut there = login(&second);
    append(&mut there, 1);
    until(&mut here, "* 2 EXISTS");
    there.imap("SELECT INBOX").unwrap();
    there.imap("STORE 1 +FLAGS (\\Deleted)").unwrap();
    until(&mut here, "* 1 FETCH ");
    there.imap("EXPUNGE").unwrap();
    until(&mut here, "* 1 EXPUNGE");
    here.send(b"DONE\r\n").unwrap();
    until(&mut here, "i OK");
    // A command that is not IDLE sees the other server's work at once.
    append(&mut there, 2);
    let lines = here.imap("NOOP").unwrap();
    assert!(lines.iter().any(|line| line == "* 2 EXISTS"), "{lines:?}");
}

#[test]
fn a_password_changed_by_one_server_counts_on_the_other() {
    let Some((first, second)) = two() else { return };
    first.add_account(USER, "password4tests");
    login(&second);
    let changed = first.command(&["account", "passwd", USER, "--password-stdin"], "another one\n");
    assert!(changed.status.success(), "{}", String::from_utf8_lossy(&changed.stderr));
    let mut client = LineClient::connect(second.address("imap")).unwrap();
    client.line().unwrap();
    let answer = client.imap(&format!("LOGIN {USER} password4tests")).unwrap();
    assert!(answer.last().unwrap().starts_with("t NO"), "{answer:?}");
    let answer = client.imap(&format!("LOGIN {USER} \"another one\"")).unwrap();
    assert!(answer.last().unwrap().starts_with("t OK"), "{answer:?}");
}
