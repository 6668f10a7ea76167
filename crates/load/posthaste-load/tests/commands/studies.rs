//! `study` refuses what could only be a run of errors, before it fills or writes anything.

use std::fs;
use std::process::Command;

use posthaste_load_null_server::{Faults, start};

/// The exit code and the error of a study that is refused, and whether it left a folder.
fn refused(words: &[&str]) -> (Option<i32>, String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let done = Command::new(env!("CARGO_BIN_EXE_posthaste-load"))
        .arg("study")
        .args(words)
        .args(["--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    (done.status.code(), String::from_utf8(done.stderr).unwrap(), out.exists())
}

#[test]
fn a_running_server_that_lacks_what_a_study_needs_is_refused() {
    let at = start(Faults::default()).unwrap();
    let imap = format!("A=imap://{}", at.imap);
    let cases = [
        (vec!["pop3", "--quick", "--server", &imap], "add pop3://HOST:PORT"),
        // Before anything is planned, too.
        (vec!["pop3", "--quick", "--plan", "--server", &imap], "add pop3://HOST:PORT"),
        (
            vec!["koka", "--quick", "--server", "A=pop3://127.0.0.1:1,lmtp://127.0.0.1:1"],
            "add imap://HOST:PORT",
        ),
        (vec!["koka", "--shortest"], "use --quick"),
        (vec!["compare", "--quick", "--server", "A=imap://127.0.0.1:1,agent=h:1"], "--token-file"),
        // A study of nodes needs them, a Cassandra, and a program that can use it.
        (vec!["scale-out", "--quick", "--server", &imap], "sweeps up to 3 nodes, and A has 1"),
        (vec!["scale-out", "--quick", "--server", "dovecot"], "Dovecot has no nodes to sweep"),
        (vec!["scale-out", "--quick", "--posthaste", "/bin/true"], "--features cluster"),
        (vec!["scale-out", "--quick", "--cassandra", "db1/mail"], "a keyspace is not named"),
        (vec!["koka", "--quick", "--cassandra", "db1"], "koka does not"),
    ];
    for (words, remedy) in cases {
        let (code, said, wrote) = refused(&words);
        assert_eq!((code, wrote), (Some(2), false), "{words:?}: {said}");
        assert!(said.contains(remedy), "{words:?}: {said}");
    }
    let smtp = format!("A=imap://{}", at.lmtp);
    let (code, said, _) = refused(&["compare", "--quick", "--server", &smtp]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("imap"), "{said}");
}

#[test]
fn the_plan_of_each_study_has_its_time_and_its_disk() {
    for (name, _) in posthaste_load_study::BUILTIN {
        let servers = if *name == "regress" { "posthaste new=./posthaste" } else { "posthaste" };
        let done = Command::new(env!("CARGO_BIN_EXE_posthaste-load"))
            .args(["study", *name, "--plan", "--server", servers])
            .output()
            .unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        let total = said.lines().find(|line| line.starts_with("in all: about ")).unwrap_or_default();
        assert!(total.ends_with(" of disk"), "{name}: {said}");
    }
}

#[test]
fn the_plan_of_two_builds_is_shown_and_nothing_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    // Any file may be a build, as long as it is not started.
    let program = env!("CARGO_BIN_EXE_posthaste-load");
    let done = Command::new(program)
        .args(["regress", program, program, "--quick", "--plan"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success() && said.contains("rounds: old, new"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("in all: about ")), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
