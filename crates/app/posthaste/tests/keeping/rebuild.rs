//! The output of `posthaste check --rebuild` about the old index, and about a mailbox that it
//! cannot place.

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

/// The list commit of a mailbox is damaged, and no index had it.
#[test]
fn a_mailbox_that_is_in_no_list_is_given_to_an_account() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    posthaste(&data, &["account", "add", "ana@example.org", "--password-stdin"], "a long pass phrase");
    let mbox = dir.path().join("mail.mbox");
    posthaste_testkit::Mbox::write(&mbox, 7).unwrap();
    let import = ["import", mbox.to_str().unwrap(), "--account", "ana@example.org", "--mailbox", "Work"];
    posthaste(&data, &import, "");
    let pack = data.join("packs/00000001.pack");
    let mut bytes = std::fs::read(&pack).unwrap();
    let mut lists = (64..bytes.len() - 400).step_by(8);
    let of_work = |at: &usize| {
        let content = &bytes[at + 48..at + 300];
        bytes[*at..].starts_with(b"PHR1") && bytes[at + 4] == 3 && content.windows(4).any(|w| w == b"Work")
    };
    let record = lists.rfind(of_work).unwrap();
    bytes[record + 60] ^= 0x20;
    std::fs::write(&pack, bytes).unwrap();
    std::fs::remove_dir_all(data.join("index")).unwrap();

    let said = posthaste(&data, &["check", "--rebuild", "--force"], "");
    let id = said.split("--recover ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let recover = ["check", "--recover", &id, "--account", "ana@example.org"];
    let said = posthaste(&data, &recover, "");
    assert_eq!(said, "ana@example.org has the mailbox as Recovered-1, with 7 messages\n");
    let shown = posthaste(&data, &["account", "show", "ana@example.org"], "");
    assert!(shown.lines().any(|line| line.contains("Recovered-1") && line.contains("7 messages")), "{shown}");
    let again = Command::new(env!("CARGO_BIN_EXE_posthaste")).args(recover).arg("--data").arg(&data).output();
    let refused = String::from_utf8(again.unwrap().stderr).unwrap();
    assert!(refused.contains("no mailbox of this id without an account"), "{refused}");
    let audit = std::fs::read_to_string(data.join("audit.log")).unwrap();
    assert!(audit.contains(&format!("check --recover {id} --account ana@example.org")), "{audit}");
}
