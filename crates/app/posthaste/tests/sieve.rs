//! `posthaste sieve`, as somebody who writes a script uses it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

fn posthaste(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_posthaste")).args(args).current_dir(dir).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_script_is_tried_with_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "main.sieve",
        "require [\"fileinto\", \"include\", \"envelope\", \"mailbox\"];\r\n\
         include :personal \"lists\";\r\n\
         if envelope :is \"from\" \"boss@example.org\" { redirect \"ana@example.net\"; keep; }\r\n",
    );
    write(
        "lists.sieve",
        "require [\"fileinto\", \"mailbox\"];\r\n\
         if header :contains \"List-Id\" \"rust\" { fileinto :create \"Lists/Rust\"; stop; }\r\n",
    );
    write(
        "list.eml",
        "From: a@example.org\r\nTo: \"Ana, A.\" <ana@example.org>\r\nList-Id: <rust.example>\r\n\r\nhello\r\n",
    );
    write("boss.eml", "Return-Path: <boss@example.org>\r\nTo: ana@example.org\r\n\r\nhello\r\n");
    let (code, out, err) = posthaste(dir.path(), &["sieve", "test", "main.sieve", "list.eml"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("envelope from <a@example.org> to <ana@example.org>\n"), "{out}");
    assert!(out.contains("Lists/Rust") && !out.contains("keep the message"), "{out}");
    let (_, out, _) = posthaste(dir.path(), &["sieve", "test", "main.sieve", "boss.eml"]);
    assert!(out.contains("send the message on to ana@example.net\nkeep the message in the inbox\n"), "{out}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4, "nothing was made");
}

/// RFC 5183.
#[test]
fn a_script_is_tried_in_an_environment() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "main.sieve",
        "require [\"environment\", \"fileinto\"];\r\n\
         if environment :is \"remote-ip\" \"192.0.2.1\" { fileinto \"Far\"; stop; }\r\n\
         if allof (environment :is \"location\" \"MDA\", environment :is \"phase\" \"during\",\r\n\
                   environment :is \"name\" \"Posthaste\", environment :matches \"host\" \"?*\",\r\n\
                   environment :matches \"version\" \"?*.*\", environment :contains \"domain\" \"\",\r\n\
                   not environment :contains \"remote-ip\" \"\") { keep; stop; }\r\n\
         discard;\r\n",
    );
    write("a.eml", "From: a@example.org\r\nTo: ana@example.org\r\n\r\nhello\r\n");
    let test =
        |more: &[&str]| posthaste(dir.path(), &[&["sieve", "test", "main.sieve", "a.eml"], more].concat());
    let (code, out, err) = test(&[]);
    assert!(code == Some(0) && out.contains("keep the message in the inbox"), "{out}{err}");
    let (_, out, _) = test(&["--environment", "Remote-IP=192.0.2.1"]);
    assert!(out.contains("Far"), "{out}");
    let (_, out, _) =
        test(&["--environment", "location=MS", "--environment", "phase=x", "--environment", "name="]);
    assert!(!out.contains("keep the message"), "{out}");
    let (code, _, err) = test(&["--environment", "remote-ip"]);
    assert!(code == Some(2) && err.contains("ITEM=VALUE"), "{err}");
}

#[test]
fn faults_of_a_script_name_their_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bad.sieve"), "if tru { keep; }\r\nfileinto \"x\";\r\n").unwrap();
    let (code, out, err) = posthaste(dir.path(), &["sieve", "check", "bad.sieve"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        err.contains("bad.sieve: line 1, column 4: ") && err.contains("bad.sieve: line 2, column 1: "),
        "{err}"
    );
    let (code, _, err) = posthaste(dir.path(), &["sieve", "check", "none.sieve"]);
    assert!(code == Some(2) && err.contains("none.sieve"), "{err}");
}
