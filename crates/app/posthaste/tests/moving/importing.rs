//! Imports that are killed while a server serves and delivers, and run again: every message is
//! there, and once.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use posthaste_testkit::{Mbox, Server, ServerBuilder, engine_of};

use crate::seen::{PASSWORD, count, deliver_until, login, serials};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
/// Messages of the source: six commits.
const COUNT: usize = 3_000;
/// Serials of messages that come by LMTP start here.
const DELIVERED: usize = 1_000_000;
/// Kills come when this many messages of the import are there: in the first commits, in the middle,
/// near the end.
const KILLS: [usize; 5] = [1, 500, 501, 1_500, 2_500];

fn import(server: &Server, source: &Path, mailbox: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["import", source.to_str().unwrap(), "--account", USER, "--mailbox", mailbox, "--data"]);
    command.arg(server.data());
    if let Some(engine) = engine_of(Path::new(BINARY), server.data()) {
        command.args(["--engine", &engine]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Messages imported, and messages that were there already.
fn said(output: &Output) -> (usize, usize) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let numbers: Vec<usize> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(text.ends_with("were there already\n") && numbers.len() == 2, "{text}");
    (numbers[0], numbers[1])
}

#[test]
fn a_killed_import_run_again_is_whole_and_single_beside_a_server() {
    let server = ServerBuilder::new(BINARY).start();
    server.add_account(USER, PASSWORD);
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("mail.mbox");
    Mbox::write(&source, COUNT).unwrap();
    // The last hundred messages are in the source twice.
    let twice = dir.path().join("twice");
    Mbox::write(&twice, COUNT).unwrap();
    let text = std::fs::read_to_string(&twice).unwrap();
    let from = text.find(&format!("Subject: Message {} of many", COUNT - 100)).unwrap();
    let from = text[..from].rfind("\nFrom sender").unwrap() + 1;
    std::fs::write(&source, format!("{text}{}", &text[from..])).unwrap();
    let total = COUNT + 100;

    let stop = AtomicBool::new(false);
    let lmtp = server.address("lmtp");
    let (killed, delivered) = std::thread::scope(|scope| {
        let deliverer = scope.spawn(|| deliver_until(lmtp, &[USER], DELIVERED, &stop));
        let mut client = login(server.address("imap"), USER);
        let mut killed = 0;
        for (round, enough) in KILLS.into_iter().enumerate() {
            let mailbox = format!("Imported{round}");
            let mut child = import(&server, &source, &mailbox).spawn().unwrap();
            while child.try_wait().unwrap().is_none() && count(&mut client, &mailbox) < enough {}
            child.kill().unwrap();
            child.wait().unwrap();
            let there = count(&mut client, &mailbox);
            killed += usize::from(there < total);
            // Messages that the owner moves meanwhile do not come back.
            let mut moved = 0;
            if there > 0 && round % 2 == 0 {
                moved = 1;
                client.imap(&format!("SELECT {mailbox}")).unwrap();
                client.imap("MOVE 1 Trash").unwrap();
                client.imap("UNSELECT").unwrap();
            }
            let again = import(&server, &source, &mailbox).output().unwrap();
            let (new, present) = said(&again);
            assert_eq!((new + present, present), (total, there), "round {round}");
            assert_eq!(count(&mut client, &mailbox), total - moved);
            assert_eq!(said(&import(&server, &source, &mailbox).output().unwrap()), (0, total));
            let found = serials(&mut client, &mailbox);
            let copies = |serial: usize| 1 + usize::from(serial >= COUNT - 100) - usize::from(serial < moved);
            for serial in 0..COUNT {
                let wanted = copies(serial);
                assert_eq!(found.get(&serial).copied().unwrap_or(0), wanted, "message {serial}");
            }
            assert_eq!(found.len(), COUNT - moved);
        }
        stop.store(true, Ordering::Release);
        (killed, deliverer.join().unwrap())
    });
    let mut client = login(server.address("imap"), USER);
    let inbox = serials(&mut client, "INBOX");
    assert_eq!(inbox.len(), delivered);
    assert!(inbox.values().all(|copies| *copies == 1));
    let check = server.command(&["check"], "");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    // A machine that stalls could let an import end before its kill, but not all of them.
    assert!(killed > 0, "no import was killed before its end");
}

#[test]
fn repeating_is_a_choice_and_two_imports_at_once_are_refused() {
    let server = ServerBuilder::new(BINARY).start();
    server.add_account(USER, PASSWORD);
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("mail.mbox");
    Mbox::write(&source, 5).unwrap();
    assert_eq!(said(&import(&server, &source, "INBOX").output().unwrap()), (5, 0));
    assert_eq!(said(&import(&server, &source, "INBOX").output().unwrap()), (0, 5));
    assert_eq!(said(&import(&server, &source, "INBOX").arg("--again").output().unwrap()), (5, 0));
    Mbox::write(&source, 7).unwrap();
    assert_eq!(said(&import(&server, &source, "INBOX").output().unwrap()), (2, 5));
    // Another import has the account's lock: here it is this test.
    if engine_of(Path::new(BINARY), server.data()).is_none() {
        let locks: Vec<_> = std::fs::read_dir(server.data().join("imports")).unwrap().collect();
        assert_eq!(locks.len(), 1);
        let file = std::fs::File::open(locks.into_iter().next().unwrap().unwrap().path()).unwrap();
        file.lock().unwrap();
        let refused = import(&server, &source, "INBOX").output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("another import into ana@example.org"));
        file.unlock().unwrap();
        assert_eq!(said(&import(&server, &source, "INBOX").output().unwrap()), (0, 7));
    }
    // The journals of an account's imports are removed with it.
    assert!(server.command(&["account", "remove", USER, "--yes"], "").status.success());
    server.add_account(USER, PASSWORD);
    assert_eq!(said(&import(&server, &source, "INBOX").output().unwrap()), (7, 0));
}
