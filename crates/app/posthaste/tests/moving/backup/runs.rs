//! Repeated runs: the contents of a backup after accounts changed, after a run for some accounts
//! only, and after the store returned to an earlier state.

use super::*;

/// An account that was removed and made again, or restored, is another account of the same name. It
/// is no reason to leave out everybody else, and the earlier one's mail is not given up.
#[test]
fn an_account_that_took_a_name_again_stops_no_other() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let (dir, server) = lived();
    let target = path_in(&dir, "backup");
    done(&server.command(&["backup", &target], ""));
    done(&server.command(&["account", "remove", ANA, "--yes"], ""));
    done(&server.command(&["restore", &target, "--account", ANA], ""));
    let mbox = path_in(&dir, "mail.mbox");
    done(&server.command(&import(&mbox, BEN, "Later"), ""));
    let output = server.command(&["backup", &target], "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.code() == Some(1) && said.contains(&format!("account remove {ANA} --data {target}"))
    );
    let of_backup = |args: &[&str]| on(&target, args);
    let shown = done(&of_backup(&["account", "show", ANA]));
    has_all(&shown, "Lists/Rust");
    let shown = done(&of_backup(&["account", "show", BEN]));
    has_all(&shown, "Later");
    done(&of_backup(&["account", "remove", ANA, "--yes"]));
    done(&server.command(&["backup", &target], ""));
    let backup = served(Path::new(&target));
    same(&server, &backup, (ANA, ANA), &MAILBOXES);
}

/// As after a rebuild that lost messages, whose UIDs others have now.
#[test]
fn an_account_that_the_backup_has_otherwise_stops_no_other() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let (dir, server) = lived();
    let target = path_in(&dir, "backup");
    done(&server.command(&["backup", &target], ""));
    let mbox = path_in(&dir, "mail.mbox");
    let of_backup = |args: &[&str]| on(&target, args);
    done(&of_backup(&import(&mbox, ANA, "INBOX")));
    let mut client = login(server.address("imap"), ANA);
    for command in ["SELECT Archive", "COPY 30 INBOX"] {
        assert!(client.imap(command).unwrap().last().unwrap().starts_with("t OK"), "{command}");
    }
    done(&server.command(&import(&mbox, BEN, "Later"), ""));
    let output = server.command(&["backup", &target], "");
    leaves_out_ana(&output, "a new directory");
    let shown = done(&of_backup(&["account", "show", BEN]));
    has_all(&shown, "Later");
}

/// The embedded store in a directory, as a command sees it.
fn on(data: &str, args: &[&str]) -> Output {
    Command::new(BINARY).args(args).args(["--data", data]).output().unwrap()
}

/// UIDVALIDITY of a mailbox, and the UIDs of its messages.
fn uids(server: &Server, user: &str, mailbox: &str) -> (u32, String) {
    let mut client = login(server.address("imap"), user);
    let status = client.imap(&format!("STATUS {mailbox} (UIDVALIDITY)")).unwrap().concat();
    let digits = status.split("UIDVALIDITY ").nth(1).unwrap().split(')').next().unwrap();
    client.imap(&format!("EXAMINE {mailbox}")).unwrap();
    let found = client.imap("UID SEARCH ALL").unwrap();
    let found = found.iter().find(|line| line.starts_with("* SEARCH") || line.starts_with("* ESEARCH"));
    (digits.parse().unwrap(), found.unwrap().clone())
}

/// A run of one account changes neither which accounts the backup's last state has, nor whether
/// that state is whole.
#[test]
fn a_run_of_one_account_leaves_the_state_of_all_as_it_was() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let (dir, server) = lived();
    let path = |name: &str| path_in(&dir, name);
    let target = path("backup");
    done(&server.command(&["backup", &target], ""));
    done(&server.command(&["account", "remove", BEN, "--yes"], ""));
    done(&server.command(&["backup", &target], ""));
    done(&server.command(&["backup", &target, "--account", ANA], ""));
    let said = done(&on(&path("first"), &["restore", &target]));
    assert!(said.contains("ben@example.org is not part of the last backup"), "{said}");
    assert!(said.contains("restored 2 accounts"), "{said}");

    // A run of all accounts that does not finish: another account has ana's name.
    server.add_account(BEN, PASSWORD);
    done(&server.command(&["account", "remove", ANA, "--yes"], ""));
    server.add_account(ANA, PASSWORD);
    assert_eq!(server.command(&["backup", &target], "").status.code(), Some(1));
    let said = |output: Output| String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(server.command(&["backup", &target, "--account", ANA], "").status.code(), Some(1));
    let half = said(on(&path("second"), &["restore", &target]));
    assert!(half.contains("did not finish"), "{half}");
    // The earlier account of that name is as it was: this run left it out.
    done(&on(&path("second"), &["restore", &target, "--account", ANA]));
    done(&on(&path("third"), &["restore", &target, "--incomplete"]));
}

/// Messages that came after the backup are lost, and others get their UIDs.
#[test]
fn restored_mailboxes_have_new_uid_validities() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let (dir, server) = lived();
    let path = |name: &str| path_in(&dir, name);
    let (target, data) = (path("backup"), path("restored"));
    done(&server.command(&["backup", &target], ""));
    done(&on(&data, &["restore", &target]));
    // Cut off, and run again: the UIDVALIDITYs are those that the first run chose.
    let cut_off = path("cut-off");
    let mut first = Command::new(BINARY).args(["restore", &target, "--data", &cut_off]).spawn().unwrap();
    while !Path::new(&cut_off).join("format").is_file() {
        std::thread::yield_now();
    }
    first.kill().unwrap();
    first.wait().unwrap();
    done(&on(&cut_off, &["restore", &target]));
    assert!(on(&cut_off, &["check"]).status.success());
    let restored = served(Path::new(&data));
    let mut given = Vec::new();
    for mailbox in MAILBOXES {
        let ((before, uids_before), (after, uids_after)) =
            (uids(&server, ANA, mailbox), uids(&restored, ANA, mailbox));
        assert!(after > before, "{mailbox}: {before}, {after}");
        assert_eq!(uids_before, uids_after, "{mailbox}");
        given.push(after);
    }
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), MAILBOXES.len(), "no UIDVALIDITY is given twice");
    assert!(restored.command(&["check"], "").status.success());
    // The restored store continues in the same backup, with new mail.
    let mbox = path_in(&dir, "mail.mbox");
    done(&restored.command(&import(&mbox, BEN, "Later"), ""));
    done(&restored.command(&["backup", &target], ""));
    let backup = served(Path::new(&target));
    same(&restored, &backup, (ANA, ANA), &MAILBOXES);
    same(&restored, &backup, (BEN, BEN), &["INBOX", "Later"]);
}

/// The store went back to the state of another backup, from before a mailbox was removed. This
/// backup has removed it, and no mailbox gets its id again.
#[test]
fn a_mailbox_that_came_back_keeps_nobody_else_out_of_the_backup() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let (dir, server) = lived();
    let path = |name: &str| path_in(&dir, name);
    let (monday, tuesday, data) = (path("monday"), path("tuesday"), path("restored"));
    done(&server.command(&["backup", &monday], ""));
    done(&server.command(&["backup", &tuesday], ""));
    let mut client = login(server.address("imap"), ANA);
    assert!(client.imap("DELETE Archive").unwrap().last().unwrap().starts_with("t OK"));
    done(&server.command(&["backup", &tuesday], ""));
    done(&on(&data, &["restore", &monday, "--keep-uidvalidity"]));
    let mbox = path_in(&dir, "mail.mbox");
    done(&on(&data, &import(&mbox, BEN, "Later")));
    let output = on(&data, &["backup", &tuesday]);
    leaves_out_ana(&output, "a new directory");
    let shown = done(&on(&tuesday, &["account", "show", BEN]));
    has_all(&shown, "Later");
    assert!(on(&tuesday, &["check"]).status.success());
}

/// The store went back to an earlier state, and only the backup has the mail that came since.
#[test]
fn mail_that_the_store_lost_stays_in_the_backup() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let (dir, server) = lived();
    let path = |name: &str| path_in(&dir, name);
    let (monday, tuesday, data) = (path("monday"), path("tuesday"), path("restored"));
    done(&server.command(&["backup", &monday], ""));
    let mut client = login(server.address("imap"), ANA);
    for command in ["SELECT Lists/Rust", "COPY 1:10 Archive"] {
        assert!(client.imap(command).unwrap().last().unwrap().starts_with("t OK"), "{command}");
    }
    done(&server.command(&["backup", &tuesday], ""));
    done(&on(&data, &["restore", &monday, "--keep-uidvalidity"]));
    let mbox = path_in(&dir, "mail.mbox");
    done(&on(&data, &import(&mbox, BEN, "Later")));
    // The second run is no better.
    for _ in 0..2 {
        leaves_out_ana(&on(&data, &["backup", &tuesday]), "the source is at an earlier state");
    }
    let output = on(&data, &["copy-store", "--from", &data, "--to", &tuesday]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("earlier state"), "{said}");
    let shown = done(&on(&tuesday, &["account", "show", BEN]));
    has_all(&shown, "Later");
    let backup = served(Path::new(&tuesday));
    same(&server, &backup, (ANA, ANA), &MAILBOXES);
    assert!(backup.command(&["check"], "").status.success());
}

/// A store whose log is damaged after the end of its index is backed up, and the run reports that
/// mail may be missing.
#[test]
fn a_store_that_lacks_acknowledged_commits_is_no_whole_backup() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| path_in(&dir, name);
    let (store, target) = (path("store"), path("backup"));
    done(&lived_in(dir.path()).command(&["backup", &store], ""));
    let (pack, index) =
        (Path::new(&store).join("packs/00000001.pack"), Path::new(&store).join("index/data.mdb"));
    let (pack_before, index_before) = (std::fs::read(&pack).unwrap(), std::fs::read(&index).unwrap());
    let server = served(Path::new(&store));
    let mut client = login(server.address("imap"), BEN);
    for serial in 0..6 {
        let message = format!("Subject: late {serial}\r\n\r\nlate\r\n");
        let line = format!("APPEND INBOX {{{}+}}\r\n{message}", message.len());
        assert!(client.imap(&line).unwrap().last().unwrap().starts_with("t OK"));
    }
    assert!(server.stop().status.success());
    let mut after = std::fs::read(&pack).unwrap();
    let end = (0..after.len()).find(|at| pack_before.get(*at) != Some(&after[*at])).unwrap();
    after[end + 60] ^= 0x20;
    std::fs::write(&pack, after).unwrap();
    std::fs::write(&index, index_before).unwrap();

    let output = on(&store, &["backup", &target]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        said.contains("damaged: the store: ") && said.contains("acknowledged"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let shown = done(&on(&target, &["account", "show", ANA]));
    has_all(&shown, "Lists/Rust");
    assert_eq!(on(&path("restored"), &["restore", &target]).status.code(), Some(2));
    // A copy would leave out the same commits; a target would have them only after its first write.
    for [from, to] in [[&store, &path("copy")], [&target, &store]] {
        let output = on(&store, &["copy-store", "--from", from, "--to", to]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("without its last commits"), "{said}");
    }
}
