//! `run --server-cpus` refuses what could not be measured as it says.

use std::process::{Command, id};

use posthaste_load_null_server::{Faults, start};

/// The exit code and the error of a run on a server that does nothing.
fn refused(words: &[&str]) -> (Option<i32>, String) {
    let at = start(Faults::default()).unwrap();
    let imap = format!("imap://{}", at.imap);
    let done = Command::new(env!("CARGO_BIN_EXE_posthaste-load"))
        .args(["run", "--workload", "inbox-sync", "--imap", &imap, "--users", "a", "--password", "b"])
        .args(["--ramp", "0", "--warmup", "0", "--measure", "100ms", "--quiet"])
        .args(words)
        .output()
        .unwrap();
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn processors_of_the_servers_own_need_a_server_that_keeps_to_them() {
    let own = id().to_string();
    // Without its process nobody knows where the server is.
    let (code, said) = refused(&["--server-cpus", "1"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--server-pid"), "{said}");
    // An agent's machine has processors of its own.
    let away = ["--server-cpus", "1", "--server-pid", &own, "--agent", "127.0.0.1:1", "--token-file", "t"];
    let (code, said) = refused(&away);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--agent"), "{said}");
    // The server has all processors, and the instrument none.
    let (code, said) = refused(&["--server-cpus", "4096", "--server-pid", &own]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the instrument needs one of them"), "{said}");
}

#[test]
fn a_run_that_is_refused_leaves_no_folder() {
    let (folder, own) = (tempfile::tempdir().unwrap(), id().to_string());
    let out = folder.path().join("out");
    let (code, said) =
        refused(&["--server-cpus", "4096", "--server-pid", &own, "--out", out.to_str().unwrap()]);
    assert_eq!((code, out.exists()), (Some(2), false), "{said}");
}
