//! `posthaste check --rebuild` speaks of the old index only if there was one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn posthaste(data: &Path, args: &[&str], input: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(args).args(["--data", data.to_str().unwrap()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input is free not to.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn an_index_that_was_lost_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    posthaste(&data, &["account", "add", "ana@example.org", "--password-stdin"], "a long pass phrase");
    let said = posthaste(&data, &["check", "--rebuild"], "");
    assert!(said.contains("the new index is in place; the old one is kept as "), "{said}");
    assert!(data.join("index.old").is_dir());
    let said = posthaste(&data, &["check", "--rebuild"], "");
    assert!(said.contains(&format!("kept as {}", data.join("index.old.1").display())), "{said}");
    assert!(data.join("index.old.1").is_dir());

    std::fs::remove_dir_all(data.join("index.old.1")).unwrap();
    std::fs::remove_dir_all(data.join("index.old")).unwrap();
    std::fs::remove_dir_all(data.join("index")).unwrap();
    let said = posthaste(&data, &["check", "--rebuild"], "");
    assert!(
        said.contains("the new index is in place\nwithout the old index") && !said.contains("index.old"),
        "{said}"
    );
    assert!(!data.join("index.old").exists());
}
