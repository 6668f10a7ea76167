//! A hundred thousand messages: imported whole, pulled whole by mbsync, and pulled again with
//! nothing to do.

use posthaste_testkit::{Mbox, Mbsync, ServerBuilder, client_tests_wanted, message};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
const COUNT: usize = 100_000;

#[test]
fn a_large_mbox_is_imported_and_mirrored_whole() {
    if !client_tests_wanted() {
        return;
    }
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).start();
    server.add_account(USER, PASSWORD);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mbox = dir.join("large.mbox");
    Mbox::write(&mbox, COUNT).unwrap();
    let import =
        server.command(&["import", mbox.to_str().unwrap(), "--account", USER, "--mailbox", "Large"], "");
    assert!(import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
    assert!(String::from_utf8_lossy(&import.stdout).contains(&COUNT.to_string()));
    std::fs::remove_file(&mbox).unwrap();

    let mirror = Mbsync::new(dir, server.address("imap"), USER, PASSWORD, "Large");
    mirror.run();
    let pulled = mirror.files("Large");
    assert_eq!(pulled.len(), COUNT);
    // Every message is there, and is what was imported (mbsync keeps Maildir files with LF and adds
    // X-TUID while it works).
    let mut seen = vec![false; COUNT];
    for file in &pulled {
        let text = std::fs::read_to_string(file).unwrap();
        let serial: usize = text.split("X-Serial: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        assert!(!std::mem::replace(&mut seen[serial], true), "message {serial} came twice");
        if serial.is_multiple_of(1000) {
            let wanted = String::from_utf8(message(serial)).unwrap().replace("\r\n", "\n");
            let body = |text: &str| text.split_once("\n\n").unwrap().1.to_owned();
            assert_eq!(body(&text), body(&wanted));
        }
    }
    mirror.run();
    assert_eq!(mirror.files("Large"), pulled, "the second run found something to do");
}
