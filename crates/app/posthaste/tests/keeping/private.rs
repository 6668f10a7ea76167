//! Mail and verifiers of passwords are for the user that the server runs as, whatever the umask
//! was.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_testkit::{Server, ServerBuilder, message, script, skips_cluster};

use crate::seen::{PASSWORD, count, login};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
/// No user: neither a server's nor a person's.
const NOBODY: u32 = 65_534;

/// A program that starts the server with a umask that takes nothing away.
fn careless(dir: &Path) -> PathBuf {
    let path = dir.join("careless");
    script(&path, &format!("umask 000\nexec '{BINARY}' \"$@\""));
    path
}

/// Everything below a path, itself included, with its permissions.
fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
    let meta = fs::symlink_metadata(path).unwrap();
    let mut found = vec![(path.to_owned(), meta.mode() & 0o7777)];
    if meta.is_dir() {
        found.extend(fs::read_dir(path).unwrap().flat_map(|entry| modes(&entry.unwrap().path())));
    }
    found
}

/// Fails unless a path and everything below it is its owner's alone. How many files there are.
#[track_caller]
fn assert_closed(path: &Path) -> usize {
    let modes = modes(path);
    let open: Vec<_> = modes.iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(open.is_empty(), "others can read {open:?}");
    modes.len()
}

fn deliver(server: &Server) {
    let replies = server.hand_in("lmtp", "", &[USER], &message(1));
    assert!(replies[0].starts_with("250"), "{replies:?}");
}

#[test]
fn stores_backups_and_exports_are_their_owners_alone() {
    if skips_cluster("its mail is not in the data directory") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = ServerBuilder::new(careless(dir.path())).data(dir.path().join("data")).start();
    server.add_account(USER, PASSWORD);
    deliver(&server);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for args in [
        &["import", &path("careless"), "--account", USER][..],
        &["backup", &path("backup")],
        &["export", &path("mbox"), "--account", USER],
        &["export", &path("maildir"), "--account", USER, "--format", "maildir"],
    ] {
        let output = server.command(args, "");
        // A file that is no mail cannot be imported; the attempt makes files anyway.
        assert!(args[0] == "import" || output.status.success(), "{output:?}");
    }
    for name in ["data", "backup", "mbox", "maildir"] {
        assert!(assert_closed(&dir.path().join(name)) > 1, "{name}");
    }
}

#[test]
fn a_store_that_others_could_read_is_closed_when_it_is_opened() {
    if skips_cluster("its mail is not in the data directory") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = ServerBuilder::new(BINARY).data(&data).start();
    server.add_account(USER, PASSWORD);
    deliver(&server);
    assert!(server.stop().status.success());
    for (path, mode) in modes(&data) {
        fs::set_permissions(&path, Permissions::from_mode(mode | 0o055)).unwrap();
    }
    let server = ServerBuilder::new(BINARY).data(&data).start();
    assert_closed(&data);
    assert_eq!(count(&mut login(server.address("imap"), USER), "INBOX"), 1);
}

/// Runs a command as nobody; `None` if this test may not.
fn as_nobody(binary: &Path, args: &[&str]) -> Option<(bool, String)> {
    let output = Command::new(binary).args(args).uid(NOBODY).gid(NOBODY).current_dir("/").output().ok()?;
    Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn a_store_that_cannot_be_closed_is_refused_and_root_leaves_other_peoples_alone() {
    if skips_cluster("its mail is not in the data directory") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    // The place of the tests' own binary may be closed to others. Another process copies it, so
    // that no child of this one has the program open for writing.
    let binary = dir.path().join("posthaste");
    assert!(Command::new("cp").args(["-p", BINARY]).arg(&binary).status().unwrap().success());
    let data = dir.path().join("data");
    let server = ServerBuilder::new(&binary).data(&data).start();
    server.add_account(USER, PASSWORD);
    assert!(server.stop().status.success());
    for (path, mode) in modes(&data) {
        fs::set_permissions(&path, Permissions::from_mode(mode | 0o077)).unwrap();
    }
    let Some((done, said)) = as_nobody(&binary, &["account", "list", "--data", data.to_str().unwrap()])
    else {
        eprintln!("skipped: to be another user needs root");
        return;
    };
    assert!(!done && said.contains("can be read by other users") && said.contains("chmod go="), "{said}");

    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    let refused =
        Command::new(&binary).args(["account", "add", USER, "--data"]).arg(&theirs).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("sudo -u '#65534'"), "{said}");
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
}
