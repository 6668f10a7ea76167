//! A store copied into another: embedded into embedded, or into a cluster where the switch for that
//! is set.

use std::path::Path;
use std::process::{Command, Output};

use posthaste_testkit::{LineClient, Mbox, ServerBuilder, engine_of, message};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const COUNT: usize = 30;

/// The program with these arguments, whatever engine the tests run on.
fn posthaste(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).stdin(std::process::Stdio::null()).output().unwrap()
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(output: &Output, word: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains(word), "{:?} {said}", output.status);
}

/// An embedded store with an account, its alias and mail in two mailboxes.
fn source(dir: &Path) -> String {
    let data = dir.join("source").to_str().unwrap().to_owned();
    let password = dir.join("password");
    std::fs::write(&password, "password4tests\n").unwrap();
    let add = Command::new(BINARY)
        .args(["account", "add", USER, "--data", &data, "--password-stdin", "--alias", "info@example.org"])
        .stdin(std::fs::File::open(&password).unwrap())
        .output();
    done(&add.unwrap());
    let mbox = dir.join("mail.mbox");
    Mbox::write(&mbox, COUNT).unwrap();
    for mailbox in ["INBOX", "Archive/2020"] {
        let import =
            ["import", mbox.to_str().unwrap(), "--account", USER, "--mailbox", mailbox, "--data", &data];
        done(&posthaste(&import));
    }
    data
}

#[test]
fn a_copied_store_serves_the_same_mail() {
    let dir = tempfile::tempdir().unwrap();
    let from = source(dir.path());
    let settings = (dir.path().join("annotations.toml"), "imap.annotations = true\n");
    let builder = ServerBuilder::new(BINARY).settings(&settings.0, settings.1);
    let server = builder.data(Path::new(&from)).engine("embedded").start();
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {USER} password4tests")).unwrap();
    client.imap("SETMETADATA Archive/2020 (/private/comment \"old mail\")").unwrap();
    client.imap("SELECT Archive/2020").unwrap();
    let stored = client.imap("STORE 7 ANNOTATION (/comment (value.priv \"of one\"))").unwrap();
    assert!(stored[0].starts_with("t OK"), "{stored:?}");
    drop(client);
    assert!(server.stop().status.success());
    let data = dir.path().join("target");
    let to = engine_of(Path::new(BINARY), &data).unwrap_or_else(|| data.to_str().unwrap().to_owned());
    for _ in 0..2 {
        // The second run finds everything there.
        let said = done(&posthaste(&["copy-store", "--from", &from, "--to", &to]));
        assert!(said.contains(&format!("{} messages", 2 * COUNT)), "{said}");
        assert!(said.contains("both stores hold the same"), "{said}");
    }
    let server = ServerBuilder::new(BINARY).data(&data).settings(&settings.0, settings.1).start();
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    let answer = client.imap(&format!("LOGIN {USER} password4tests")).unwrap();
    assert!(answer.last().unwrap().starts_with("t OK"), "{answer:?}");
    for mailbox in ["INBOX", "Archive/2020"] {
        let status = client.imap(&format!("STATUS {mailbox} (MESSAGES UIDNEXT)")).unwrap();
        assert!(status[0].contains(&format!("MESSAGES {COUNT} UIDNEXT {}", COUNT + 1)), "{status:?}");
    }
    let comment = client.imap("GETMETADATA Archive/2020 /private/comment").unwrap();
    assert_eq!(comment[0], "* METADATA Archive/2020 (/private/comment \"old mail\")");
    client.imap("SELECT Archive/2020").unwrap();
    let comment = client.imap("FETCH 7 (ANNOTATION (/comment value.priv))").unwrap();
    assert_eq!(comment[0], "* 7 FETCH (ANNOTATION (/comment (value.priv \"of one\")))");
    client.send(b"f UID FETCH 7 (BODY.PEEK[])\r\n").unwrap();
    let line = client.line().unwrap();
    let wanted = message(6);
    let size = line.rsplit_once('{').unwrap().1.trim_end_matches('}').parse().unwrap();
    let body = client.bytes(size).unwrap();
    assert!(body.ends_with(&wanted), "{}", String::from_utf8_lossy(&body));
    drop(client);
    let shown = server.command(&["account", "show", USER], "");
    assert!(done(&shown).contains("info@example.org"));
    assert!(server.command(&["check"], "").status.success());
}

#[test]
fn messages_that_cannot_be_copied_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let from = source(dir.path());
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    refused(&posthaste(&["copy-store", "--from", &from, "--to", &from]), "same store");
    refused(&posthaste(&["copy-store", "--from", &path("nowhere"), "--to", &path("b")]), "does not exist");
    refused(&posthaste(&["copy-store", "--from", "pop://x/y", "--to", &path("b")]), "neither");
    let one = ["copy-store", "--from", &from, "--to", &path("b"), "--account", "ben@example.org"];
    refused(&posthaste(&one), "no such account");
    // Another account that only has the same name.
    std::fs::create_dir(path("other")).unwrap();
    let stranger = source(&dir.path().join("other"));
    refused(
        &posthaste(&["copy-store", "--from", &from, "--to", &stranger]),
        "already has another account named",
    );
}
