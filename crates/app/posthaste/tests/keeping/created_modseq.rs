//! CREATEDMODSEQ (X-CREATEDMODSEQ of Cyrus): a kill, a rebuild, a backup and a restore keep it.

use std::path::Path;

use posthaste_testkit::{LineClient, Server, ServerBuilder, skips_cluster};

const PASSWORD: &str = "correct horse";
const ANA: &str = "ana@example.org";

fn binary() -> &'static Path {
    env!("CARGO_BIN_EXE_posthaste").as_ref()
}

fn start(dir: &Path) -> Server {
    ServerBuilder::new(binary()).listen("imap=127.0.0.1:0").data(dir.join("data")).start()
}

fn run(dir: &Path, args: &[&str]) {
    let output = posthaste_testkit::command(binary(), &dir.join("data"), args, "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn login(server: &Server) -> LineClient {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {ANA} \"{PASSWORD}\"")).unwrap();
    client
}

fn done(client: &mut LineClient, command: &str) -> Vec<String> {
    let mut lines = client.imap(command).unwrap();
    let end = lines.pop().unwrap();
    assert!(end.starts_with("t OK"), "{command}: {end}");
    lines
}

/// The values of all messages in two mailboxes.
fn values(server: &Server) -> Vec<Vec<String>> {
    let mut client = login(server);
    let of = |mailbox| {
        done(&mut client, &format!("EXAMINE {mailbox}"));
        done(&mut client, "UID FETCH 1:* (CREATEDMODSEQ)")
    };
    ["INBOX", "Archive"].map(of).into()
}

#[test]
fn kills_rebuilds_and_backups_keep_the_first_mod_sequences() {
    if skips_cluster("it has no packs to rebuild an index from") {
        return;
    }
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = start(dir.path());
    server.add_account(ANA, PASSWORD);
    let mut client = login(&server);
    for n in 1..=5 {
        let text = format!("Subject: number {n}\r\n\r\nx\r\n");
        done(&mut client, &format!("APPEND INBOX {{{}+}}\r\n{text}", text.len()));
    }
    done(&mut client, "SELECT INBOX");
    done(&mut client, "STORE 2:3 +FLAGS (\\Flagged)");
    done(&mut client, "COPY 1:2 Archive");
    done(&mut client, "MOVE 5 Archive");
    let inbox = (1..=4).map(|n| format!("* {n} FETCH (UID {n} CREATEDMODSEQ ({n}))"));
    let archive = [(1, 1), (2, 1), (3, 2)];
    let archive = archive.map(|(n, created)| format!("* {n} FETCH (UID {n} CREATEDMODSEQ ({created}))"));
    let expected = [inbox.collect(), archive.to_vec()];
    assert_eq!(values(&server), expected);

    server.kill();
    let server = start(dir.path());
    assert_eq!(values(&server), expected, "after a kill");
    server.kill();
    std::fs::remove_dir_all(dir.path().join("data/index")).unwrap();
    run(dir.path(), &["check", "--rebuild"]);
    run(dir.path(), &["check"]);
    let server = start(dir.path());
    assert_eq!(values(&server), expected, "after a rebuild");

    let backup = dir.path().join("backup");
    let output = server.command(&["backup", backup.to_str().unwrap()], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.stop();
    run(other.path(), &["restore", backup.to_str().unwrap()]);
    // The restored messages are of commits whose rows have later mod-sequences.
    std::fs::remove_dir_all(other.path().join("data/index")).unwrap();
    run(other.path(), &["check", "--rebuild"]);
    assert_eq!(values(&start(other.path())), expected, "restored");
}
