//! `posthaste sieve`, as somebody who writes a script uses it.

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

/// All that a script may ask of a server has an option.
#[test]
fn a_script_is_tried_with_mailboxes_earlier_messages_and_the_scripts_around_it() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["before", "after"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
    }
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "main.sieve",
        "require [\"special-use\", \"mailboxid\", \"duplicate\", \"fileinto\", \"copy\"];\r\n\
         if specialuse_exists \"Spam\" \"\\\\Junk\" { fileinto :copy \"Use\"; }\r\n\
         if mailboxidexists \"F1\" { fileinto :copy \"Id\"; }\r\n\
         if duplicate { fileinto :copy \"Twice\"; }\r\n",
    );
    write("before/a.sieve", "require [\"fileinto\", \"copy\"]; fileinto :copy \"First\";");
    write("after/z.sieve", "require [\"fileinto\", \"copy\"]; fileinto :copy \"Last\";");
    write("a.eml", "From: a@example.org\r\nTo: ana@example.org\r\nMessage-ID: <1@x>\r\n\r\nhello\r\n");
    let test =
        |more: &[&str]| posthaste(dir.path(), &[&["sieve", "test", "main.sieve", "a.eml"], more].concat());
    let found = |out: &str| {
        ["First", "Use", "Id", "Twice", "Last"]
            .into_iter()
            .filter(|name| out.contains(name))
            .collect::<Vec<_>>()
    };
    let (code, out, err) = test(&[]);
    assert!(code == Some(0) && found(&out).is_empty(), "{out}{err}");
    let mailboxes = ["--special-use", "Spam=\\Junk", "--mailbox-id", "F1"];
    let others = ["--seen", "<1@x>", "--before", "before", "--after", "after"];
    let (code, out, err) = test(&[&mailboxes[..], &others].concat());
    assert_eq!((code, found(&out)), (Some(0), vec!["First", "Use", "Id", "Twice", "Last"]), "{out}{err}");
    let places: Vec<_> = ["First", "Use", "Last"].iter().map(|name| out.find(name)).collect();
    assert!(places.is_sorted(), "{out}");
    let (code, _, err) = test(&["--special-use", "Spam"]);
    assert!(code == Some(2) && err.contains("NAME=USE"), "{err}");
}

/// Scripts that the server refuses are refused here, too.
#[test]
fn a_script_that_is_too_long_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("long.sieve"), format!("# {}\r\nkeep;\r\n", "x".repeat(256 * 1024)))
        .unwrap();
    let (code, out, _) = posthaste(dir.path(), &["sieve", "check", "long.sieve"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
}

/// RFC 5260 §5: the zone of the server.
#[test]
fn dates_are_those_of_the_servers_zone() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "main.sieve",
        "require [\"date\", \"fileinto\"];\r\n\
         if allof (currentdate \"zone\" \"+0530\", date \"date\" \"time\" \"05:30:00\") { fileinto \"East\"; }\r\n",
    );
    write("a.eml", "From: a@example.org\r\nDate: Thu, 01 Jan 2026 00:00:00 +0000\r\n\r\nhello\r\n");
    let output = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["sieve", "test", "main.sieve", "a.eml"])
        .current_dir(dir.path())
        .env("TZ", "IST-5:30")
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("East"), "{out}");
}
