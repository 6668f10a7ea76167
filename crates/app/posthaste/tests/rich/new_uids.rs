//! `posthaste convert` on a cluster: it changes the form of short messages. With `--new-uids`, it
//! makes new messages of long ones.

use posthaste_testkit::on_cluster;

use crate::convert::{number_of, skips_objects};
use crate::{ANA, PASSWORD, begin, builder, command, send, server, while_it_runs};

/// On a cluster, `convert --to` says that it cannot change the form of a long message, and leaves
/// it alone. With `--dry-run` it says what would change. With new UIDs it makes a new one.
#[test]
fn a_cluster_changes_the_form_of_short_messages_alone() {
    if !on_cluster() || skips_objects() {
        return;
    }
    let server = server();
    for lines in [1, 50_000] {
        let message = format!("Subject: plain\r\n\r\n{}", "text\r\n".repeat(lines));
        send(&server, "lmtp", &[ANA], message.as_bytes());
    }
    let before = server.mail(ANA, PASSWORD, "INBOX", 2);
    let (plain, renew) = (&[][..], &["--new-uids"][..]);
    for (to, options, status, converted, renewed) in [
        ("rich", &["--dry-run"][..], 2, 1, 0),
        ("rich", plain, 2, 1, 0),
        ("keep", plain, 0, 1, 0),
        ("rich", renew, 0, 1, 1),
        ("rich", renew, 0, 0, 0),
        ("keep", renew, 0, 1, 1),
    ] {
        let did = server.command(&[&["convert", ANA, "--to", to], options].concat(), "");
        let (report, why) = (String::from_utf8(did.stdout).unwrap(), String::from_utf8_lossy(&did.stderr));
        let counts = (number_of(&report, "converted "), number_of(&report, "new UIDs "));
        assert_eq!((did.status.code(), counts), (Some(status), (converted, renewed)), "{to}: {report}{why}");
        assert_eq!(status == 2, why.contains("form of stored mail: 1 messages stay"), "{why}");
        assert!(server.mail(ANA, PASSWORD, "INBOX", 2) == before, "{to}");
    }
}

/// `kill -9` in the middle loses nothing. The next run continues, and nothing is there twice.
#[test]
fn a_conversion_with_new_uids_that_is_killed_loses_nothing() {
    const MESSAGES: usize = 12;
    if !on_cluster() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = builder().data(&data).start();
    server.add_account(ANA, PASSWORD);
    for n in 0..MESSAGES {
        let message = format!("Subject: message {n}\r\n\r\n{}", "text\r\n".repeat(50_000 + n));
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
        number_of(&String::from_utf8(said).unwrap(), "new UIDs ")
    };
    assert_eq!(left(), MESSAGES);
    let mut run = begin(&data, &[&renew[..], &["--rate", "5"]].concat());
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
