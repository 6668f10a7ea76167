//! Backups of a store that is being served and delivered to, and restores into one.

mod beside;
mod runs;

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_testkit::{Mbox, Server, ServerBuilder, engine_of, skips_cluster};
use tempfile::TempDir;

use crate::seen::{PASSWORD, count, deliver_until, login, seen, serials};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const ANA: &str = "ana@example.org";
const BEN: &str = "ben@example.org";
/// Messages that are imported.
const COUNT: usize = 700;
/// Serials of messages that come by LMTP start here.
const DELIVERED: usize = 1_000_000;

/// Users may annotate messages.
const ANNOTATIONS: &str = "imap.annotations = true\n";

const EMBEDDED: &str = "a backup is an embedded store, and these tests serve it";

/// A server with two accounts, an alias, and mail with flags in two mailboxes of one of them.
fn lived_in(dir: &Path) -> Server {
    let settings = dir.join("annotations.toml");
    let server = ServerBuilder::new(BINARY).settings(&settings, ANNOTATIONS).start();
    for user in [ANA, BEN] {
        server.add_account(user, PASSWORD);
    }
    done(&server.command(&["account", "set", ANA, "--alias", "info@example.org", "--connections", "40"], ""));
    done(&server.command(&["group", "set", "all@example.org", ANA, BEN], ""));
    let mbox = dir.join("mail.mbox");
    Mbox::write(&mbox, COUNT).unwrap();
    for mailbox in ["Archive", "Lists/Rust"] {
        let args = ["import", mbox.to_str().unwrap(), "--account", ANA, "--mailbox", mailbox];
        done(&server.command(&args, ""));
    }
    let script = dir.join("main.sieve");
    std::fs::write(&script, "keep; # hers\n").unwrap();
    done(&server.command(&["sieve", "put", ANA, "main", script.to_str().unwrap(), "--activate"], ""));
    // The first login makes an INBOX, with a UIDVALIDITY by the clock.
    login(server.address("imap"), BEN).imap("EXAMINE INBOX").unwrap();
    let mut client = login(server.address("imap"), ANA);
    for command in [
        "SELECT Archive",
        "STORE 3:90 +FLAGS.SILENT (\\Seen $Work)",
        "STORE 10:20 +FLAGS.SILENT (\\Deleted)",
        "EXPUNGE",
        "COPY 5:9 INBOX",
        "UNSUBSCRIBE Junk",
        "SETMETADATA Archive (/private/comment \"old mail\" /shared/vendor/x/color \"#fff\")",
        "SETMETADATA \"\" (/private/vendor/x/layout \"wide\")",
        "SELECT Lists/Rust",
        "STORE 3:4 ANNOTATION (/comment (value.priv \"of one\" value.shared \"for all\"))",
    ] {
        assert!(client.imap(command).unwrap().last().unwrap().starts_with("t OK"), "{command}");
    }
    server
}

/// A server as [`lived_in`], in a directory of its own.
fn lived() -> (TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = lived_in(dir.path());
    (dir, server)
}

fn path_in(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

/// The command that imports mail again, into one mailbox.
fn import<'a>(mbox: &'a str, account: &'a str, mailbox: &'a str) -> [&'a str; 6] {
    ["import", mbox, "--account", account, "--mailbox", mailbox]
}

/// `account show` lists this mailbox with all imported messages.
fn has_all(shown: &str, mailbox: &str) {
    let messages = format!("{COUNT} messages");
    assert!(shown.lines().any(|line| line.contains(mailbox) && line.contains(&messages)), "{shown}");
}

/// A run that leaves ana out, with this reason.
fn leaves_out_ana(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("left out: {ANA}: ")) && said.contains(why), "{said}");
}

fn done(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn refused(output: &Output, word: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains(word), "{:?} {said}", output.status);
}

/// The program on a server's store, not started yet.
fn on_store_of(server: &Server, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).arg("--data").arg(server.data());
    if let Some(engine) = engine_of(Path::new(BINARY), server.data()) {
        command.args(["--engine", &engine]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The embedded store in a directory, served.
fn served(data: &Path) -> Server {
    let settings = data.with_file_name("annotations.toml");
    ServerBuilder::new(BINARY).data(data).settings(&settings, ANNOTATIONS).start()
}

/// Both servers show the same of an account's mailboxes.
fn same(one: &Server, other: &Server, users: (&str, &str), mailboxes: &[&str]) {
    let servers = (one, other);
    let (mut one, mut other) = (login(one.address("imap"), users.0), login(other.address("imap"), users.1));
    for mailbox in mailboxes {
        let (before, after) = (seen(&mut one, mailbox), seen(&mut other, mailbox));
        assert_eq!(before.0, after.0, "{mailbox}");
        assert_eq!(before.1.len(), after.1.len(), "{mailbox}");
        for (before, after) in before.1.iter().zip(&after.1) {
            assert_eq!(before.0, after.0, "{mailbox}");
            assert!(before.1 == after.1, "{mailbox}: octets of {}", before.0);
        }
    }
    let annotations = |client: &mut posthaste_testkit::LineClient| {
        let mut found = client.imap("GETMETADATA (DEPTH infinity) \"\" (/private /shared)").unwrap();
        found.extend(
            client.imap("LIST \"\" * RETURN (METADATA (/private/comment /shared/vendor/x/color))").unwrap(),
        );
        client.imap("EXAMINE Lists/Rust").unwrap();
        found.extend(client.imap("UID FETCH 1:10 (ANNOTATION (/comment value))").unwrap());
        found
    };
    let (before, after) = (annotations(&mut one), annotations(&mut other));
    assert_eq!(before, after);
    assert!(users.0 != ANA || before.iter().any(|line| line.contains("old mail")), "{before:?}");
    assert!(users.0 != ANA || before.iter().any(|line| line.contains("of one")), "{before:?}");
    let scripts = |server: &Server, user| done(&server.command(&["sieve", "list", user], ""));
    let script = scripts(servers.0, users.0);
    assert_eq!(script, scripts(servers.1, users.1));
    assert!(users.0 != ANA || script.contains("main") && script.contains("active"), "{script:?}");
    let subscribed = |client: &mut posthaste_testkit::LineClient| client.imap("LSUB \"\" *").unwrap();
    assert_eq!(subscribed(&mut one), subscribed(&mut other));
}

const MAILBOXES: [&str; 3] = ["INBOX", "Archive", "Lists/Rust"];

/// Nothing below a directory is for anyone but its owner.
fn private(path: &Path) {
    let meta = std::fs::metadata(path).unwrap();
    let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(meta.permissions().mode() & 0o777, wanted, "{}", path.display());
    if meta.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| private(&entry.unwrap().path()));
    }
}

#[test]
fn a_backup_beside_deliveries_and_expunges_is_of_one_instant() {
    if skips_cluster("a cluster has no instant of all accounts") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = lived_in(dir.path());
    let target = dir.path().join("backup");
    let target_text = target.to_str().unwrap();
    let stop = AtomicBool::new(false);
    let (lmtp, imap) = (server.address("lmtp"), server.address("imap"));
    std::thread::scope(|scope| {
        // Each message goes to ana and, when that is acknowledged, to ben. Accounts are copied by
        // name.
        let deliverer = scope.spawn(|| deliver_until(lmtp, &[ANA, BEN], DELIVERED, &stop));
        let expunger = scope.spawn(|| {
            let mut client = login(imap, ANA);
            client.imap("SELECT Archive").unwrap();
            while !stop.load(Ordering::Acquire) {
                client.imap("STORE 1:2 +FLAGS.SILENT (\\Deleted)").unwrap();
                client.imap("EXPUNGE").unwrap();
            }
        });
        let mut watcher = login(imap, BEN);
        for run in 0..3 {
            let acknowledged = count(&mut watcher, "INBOX");
            let said = done(&server.command(&["backup", target_text], ""));
            assert!(
                said.contains("backed up 3 accounts") && said.contains("read back and compared"),
                "{said}"
            );
            if run == 0 {
                private(&target);
            }
            // The backup is a store: it can be served.
            let backup = served(&target);
            let mut ana = login(backup.address("imap"), ANA);
            let mut ben = login(backup.address("imap"), BEN);
            let mut of_ana = serials(&mut ana, "INBOX");
            of_ana.retain(|serial, _| *serial >= DELIVERED);
            let of_ben = serials(&mut ben, "INBOX");
            assert!(of_ben.len() >= acknowledged, "run {run}: something acknowledged before is missing");
            assert!(
                of_ben.keys().all(|serial| of_ana.contains_key(serial)),
                "run {run}: ben is newer than ana"
            );
            assert!(of_ana.len() - of_ben.len() <= 1, "run {run}: ana is newer than ben");
            drop((ana, ben));
            assert!(backup.command(&["check"], "").status.success());
            assert!(backup.stop().status.success());
        }
        stop.store(true, Ordering::Release);
        assert!(deliverer.join().unwrap() > 0);
        expunger.join().unwrap();
    });
    // With nothing under way, the backup equals the store.
    done(&server.command(&["backup", target_text], ""));
    let backup = served(&target);
    same(&server, &backup, (ANA, ANA), &MAILBOXES);
    same(&server, &backup, (BEN, BEN), &["INBOX"]);
    let shown = done(&backup.command(&["account", "show", ANA], ""));
    assert!(shown.contains("info@example.org") && shown.contains("connections 40\n"), "{shown}");
    assert!(done(&backup.command(&["group", "list"], "")).starts_with("all@example.org\t"));
    assert!(server.command(&["check"], "").status.success());
}

#[test]
fn an_account_comes_back_beside_deliveries_to_others() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = lived_in(dir.path());
    let target = dir.path().join("backup");
    let target = target.to_str().unwrap();
    done(&server.command(&["backup", target], ""));
    // The account's state, to compare with: another server on the backup.
    let before = served(Path::new(target));
    refused(&server.command(&["restore", target, "--account", ANA], ""), "restore overwrites nothing");
    refused(&server.command(&["restore", target], ""), "restore overwrites nothing");
    let stop = AtomicBool::new(false);
    let lmtp = server.address("lmtp");
    let delivered = std::thread::scope(|scope| {
        let deliverer = scope.spawn(|| deliver_until(lmtp, &[BEN], DELIVERED, &stop));
        let beside = ["restore", target, "--keep-uidvalidity", "--account", ANA, "--as", "old@example.org"];
        let said = done(&server.command(&beside, ""));
        assert!(said.contains("restored 1 accounts"), "{said}");
        done(&server.command(&["account", "remove", ANA, "--yes"], ""));
        let said = done(&server.command(&["restore", target, "--keep-uidvalidity", "--account", ANA], ""));
        assert!(said.contains("ana@example.org: it has a limit of its own: connections 40\n"), "{said}");
        stop.store(true, Ordering::Release);
        deliverer.join().unwrap()
    });
    same(&before, &server, (ANA, ANA), &MAILBOXES);
    same(&before, &server, (ANA, "old@example.org"), &MAILBOXES);
    let shown = done(&server.command(&["account", "show", ANA], ""));
    assert!(shown.contains("info@example.org") && shown.contains("connections 40\n"), "{shown}");
    let mut ben = login(server.address("imap"), BEN);
    assert_eq!(count(&mut ben, "INBOX"), delivered);
    // It lives on: mail comes in, and the journal of imports is still there.
    let mbox = dir.path().join("mail.mbox");
    let args = ["import", mbox.to_str().unwrap(), "--account", ANA, "--mailbox", "Archive"];
    assert!(done(&server.command(&args, "")).contains("imported 0 messages"));
    let once = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| deliver_until(lmtp, &[ANA], DELIVERED, &once));
        let mut ana = login(server.address("imap"), ANA);
        while count(&mut ana, "INBOX") < 6 {}
        once.store(true, Ordering::Release);
    });
    let check = server.command(&["check"], "");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

#[test]
fn a_backup_and_a_restore_that_are_killed_are_run_again() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = lived_in(dir.path());
    let (target, data) = (dir.path().join("backup"), dir.path().join("restored"));
    let (target_text, data_text) = (target.to_str().unwrap(), data.to_str().unwrap());
    // Each run is killed a little later than the one before, until one finishes.
    let killed = |command: &mut Command, after: Duration| {
        let mut child = command.spawn().unwrap();
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap().success()
    };
    let mut after = Duration::from_millis(5);
    while !killed(&mut on_store_of(&server, &["backup", target_text]), after) {
        after = after * 3 / 2;
        if target.join("format").is_file() {
            let out = dir.path().join("never");
            let output =
                Command::new(BINARY).args(["restore", target_text, "--data"]).arg(out).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || said.contains("did not finish"), "{said}");
            let _ = std::fs::remove_dir_all(dir.path().join("never"));
        }
    }
    let backup = served(&target);
    same(&server, &backup, (ANA, ANA), &MAILBOXES);
    let restore = || {
        let mut command = Command::new(BINARY);
        command.args(["restore", target_text, "--keep-uidvalidity", "--data", data_text]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut after = Duration::from_millis(5);
    while !killed(&mut restore(), after) {
        after = after * 3 / 2;
        // Each account that exists is complete: nobody sees half an account.
        if data.join("format").is_file() {
            let shown =
                Command::new(BINARY).args(["account", "show", ANA, "--data", data_text]).output().unwrap();
            let said = String::from_utf8_lossy(&shown.stdout);
            let whole = said.lines().any(|line| line.contains("Lists/Rust") && line.contains("700 messages"));
            assert!(!shown.status.success() || whole, "{said}");
        }
        assert!(after < Duration::from_secs(60), "it never ends");
    }
    // A run that was killed after its work, before its end, is run again like any other.
    assert!(restore().status().unwrap().success());
    let restored = served(&data);
    same(&backup, &restored, (ANA, ANA), &MAILBOXES);
    assert!(restored.command(&["check"], "").status.success());
}

#[test]
fn a_directory_that_is_no_backup_is_not_written() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = lived_in(dir.path());
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(path("papers")).unwrap();
    std::fs::write(path("papers/letter.txt"), "Dear Ben").unwrap();
    refused(&server.command(&["backup", &path("papers")], ""), "neither empty nor a backup");
    let other = lived_in(dir.path());
    if engine_of(Path::new(BINARY), server.data()).is_none() {
        refused(&server.command(&["backup", server.data().to_str().unwrap()], ""), "the store itself");
        assert!(other.stop().status.success());
    }
    refused(&server.command(&["restore", &path("nowhere")], ""), "does not exist");
    // One account of a backup, and an account that went.
    let target = path("backup");
    let said = done(&server.command(&["backup", &target, "--account", BEN], ""));
    assert!(said.contains("backed up 1 accounts"), "{said}");
    done(&server.command(&["backup", &target], ""));
    done(&server.command(&["account", "remove", BEN, "--yes"], ""));
    let of_backup =
        |args: &[&str]| done(&Command::new(BINARY).args(args).args(["--data", &target]).output().unwrap());
    assert!(of_backup(&["group", "list"]).contains("all@example.org"));
    done(&server.command(&["group", "remove", "all@example.org"], ""));
    let said = done(&server.command(&["backup", &target, "--skip-bodies"], ""));
    // A group that was removed would come back with the next restore.
    assert_eq!(of_backup(&["group", "list"]), "");
    assert!(said.contains("ben@example.org is only in the backup"), "{said}");
    assert!(said.contains("compared without bodies"), "{said}");
    let restore = |args: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(["restore", &target, "--data", &path("restored")]).args(args).output().unwrap()
    };
    let said = done(&restore(&[]));
    assert!(said.contains("ben@example.org is not part of the last backup"), "{said}");
    done(&restore(&["--account", BEN]));
}

#[test]
fn a_damaged_message_keeps_nobody_else_out_of_the_backup() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = lived_in(dir.path());
    let stop = AtomicBool::new(false);
    let lmtp = server.address("lmtp");
    std::thread::scope(|scope| {
        scope.spawn(|| deliver_until(lmtp, &[BEN], DELIVERED, &stop));
        let mut ben = login(server.address("imap"), BEN);
        while count(&mut ben, "INBOX") < 3 {}
        stop.store(true, Ordering::Release);
    });
    // One bit of one message of ana's.
    damage_message(server.data(), 600);

    let target = dir.path().join("backup");
    let target = target.to_str().unwrap();
    let backup = || {
        let output = server.command(&["backup", target], "");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = backup();
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(said.matches("damaged: ").count(), 1, "{said}");
    let (_, named) = said.split_once("damaged: ana@example.org: Archive: UID ").unwrap();
    let uid = named.split(' ').next().unwrap();
    // A later run says it again, and takes what came since.
    let mut ana = login(server.address("imap"), ANA);
    ana.imap("SELECT Lists/Rust").unwrap();
    assert!(ana.imap("COPY 1:4 Archive").unwrap().last().unwrap().starts_with("t OK"));
    assert_eq!(backup(), (code, said.clone()));
    let restored = dir.path().join("restored");
    let restore = |args: &[&str]| {
        let mut command = Command::new(BINARY);
        command
            .args(["restore", target, "--keep-uidvalidity", "--data", restored.to_str().unwrap()])
            .args(args)
            .output()
            .unwrap()
    };
    refused(&restore(&[]), "--incomplete");
    done(&restore(&["--incomplete"]));
    let restored = served(&restored);
    same(&server, &restored, (BEN, BEN), &["INBOX"]);
    // Everything of ana except the damaged message.
    same(&server, &restored, (ANA, ANA), &["INBOX", "Lists/Rust"]);
    let all = count(&mut ana, "Archive");
    assert_eq!(count(&mut login(restored.address("imap"), ANA), "Archive"), all - 1);
    // Without that message nothing is left out any more.
    let store = format!("UID STORE {uid} +FLAGS.SILENT (\\Deleted)");
    for command in ["SELECT Archive", &store, &format!("UID EXPUNGE {uid}")] {
        assert!(ana.imap(command).unwrap().last().unwrap().starts_with("t OK"), "{command}");
    }
    let (code, said) = backup();
    assert_eq!(code, Some(0), "{said}");
    same(&server, &served(Path::new(target)), (ANA, ANA), &MAILBOXES);
}

/// Turns over one bit of the message of this number, in a store that is closed or served.
fn damage_message(data: &Path, number: usize) {
    let needle = format!("Line 0 of message {number}:").into_bytes();
    let packs = std::fs::read_dir(data.join("packs")).unwrap().map(|entry| entry.unwrap().path());
    let found = packs.into_iter().find_map(|pack| {
        let bytes = std::fs::read(&pack).unwrap();
        let at = bytes.windows(needle.len()).position(|window| window == needle)?;
        Some((pack, at))
    });
    let (pack, at) = found.unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(pack).unwrap();
    file.write_all_at(&[needle[0] ^ 1], at as u64).unwrap();
}

/// A server as [`lived_in`], and the place of its backup, in which one message of ana's is damaged.
fn damaged_backup(dir: &Path) -> (Server, String) {
    let server = lived_in(dir);
    let target = dir.join("backup").to_str().unwrap().to_owned();
    done(&server.command(&["backup", &target], ""));
    damage_message(Path::new(&target), 600);
    (server, target)
}

#[test]
fn a_damaged_backup_is_named_and_takes_what_is_new() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (server, target) = damaged_backup(dir.path());
    let mbox = dir.path().join("mail.mbox");
    let args = ["import", mbox.to_str().unwrap(), "--account", BEN, "--mailbox", "Later"];
    done(&server.command(&args, ""));
    let output = server.command(&["backup", &target], "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("damaged: ana@example.org") && !said.contains("damaged: ben"), "{said}");
    assert!(said.contains(&format!("`posthaste check --data {target}`")), "{said}");
    let mut shown = Command::new(BINARY);
    let shown = done(&shown.args(["account", "show", BEN, "--data", &target]).output().unwrap());
    assert!(shown.lines().any(|line| line.contains("Later") && line.contains("700 messages")), "{shown}");
}

/// One message that the backup lost costs no other, and it is named.
#[test]
fn a_damaged_message_of_a_backup_is_left_out_of_a_restore_alone() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (server, target) = damaged_backup(dir.path());
    let restored = dir.path().join("restored");
    let restore = || {
        let mut command = Command::new(BINARY);
        command
            .args(["restore", &target, "--keep-uidvalidity", "--data", restored.to_str().unwrap()])
            .output()
            .unwrap()
    };
    let output = restore();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("restored 3 accounts"), "{said}");
    let named = said.lines().filter(|line| line.starts_with("left out: ")).collect::<Vec<_>>();
    assert!(
        matches!(named[..], [line] if line.starts_with("left out: ana@example.org: Archive: UID ")),
        "{said}"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("check --data {target}")));
    // All possible work is done, and the rest is named again.
    let output = restore();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("left out: ana@example.org: Archive: UID "), "{said}");
    assert_eq!(said.matches("was restored from this backup already").count(), 3, "{said}");
    let restored = served(&restored);
    same(&server, &restored, (BEN, BEN), &["INBOX"]);
    same(&server, &restored, (ANA, ANA), &["INBOX", "Lists/Rust"]);
    let archive = |server: &Server| {
        let mut client = login(server.address("imap"), ANA);
        (count(&mut client, "Archive"), client.imap("STATUS Archive (UIDNEXT UIDVALIDITY)").unwrap())
    };
    let ((all, status), (there, status_there)) = (archive(&server), archive(&restored));
    assert_eq!((there, status_there), (all - 1, status));
}
