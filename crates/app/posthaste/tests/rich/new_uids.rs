//! `posthaste convert --new-uids` on a cluster, which cannot change the form of a stored message.

use posthaste_testkit::on_cluster;

use crate::{ANA, PASSWORD, begin, builder, command, send, while_it_runs};

/// `kill -9` in the middle loses nothing. The next run continues, and nothing is there twice.
#[test]
fn a_conversion_with_new_uids_that_is_killed_loses_nothing() {
    const MESSAGES: usize = 30;
    if !on_cluster() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = builder().data(&data).start();
    server.add_account(ANA, PASSWORD);
    for n in 0..MESSAGES {
        let message = format!("Subject: message {n}\r\n\r\n{}", "text\r\n".repeat(n));
        send(&server, "lmtp", &[ANA], message.as_bytes());
    }
    // A new message is the last one.
    let all = || {
        let mut all = server.mail(ANA, PASSWORD, "INBOX", MESSAGES);
        all.sort();
        all
    };
    let before = all();
    let renew = ["convert", ANA, "--to", "rich", "--new-uids"];
    let left = || {
        let said = command(&data, &[&renew[..], &["--dry-run"]].concat()).stdout;
        let said = String::from_utf8(said).unwrap();
        let count = said.lines().find_map(|line| line.strip_prefix("new UIDs "));
        count.unwrap_or_else(|| panic!("{said}")).trim().parse::<usize>().unwrap()
    };
    assert_eq!(left(), MESSAGES);
    let mut run = begin(&data, &[&renew[..], &["--rate", "20"]].concat());
    while_it_runs(&mut run, || left() == MESSAGES);
    run.kill().unwrap();
    run.wait().unwrap();
    let whole = command(&data, &renew);
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    assert_eq!(left(), 0);
    assert!(all() == before);
    let checked = command(&data, &["check"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
