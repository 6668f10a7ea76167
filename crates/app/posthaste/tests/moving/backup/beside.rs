//! Restores into a served store, at the same time as an import, maintenance and other restores.

use super::*;

#[test]
fn accounts_come_back_beside_an_import_maintenance_and_another_restore() {
    if skips_cluster(EMBEDDED) {
        return;
    }
    let (dir, server) = lived();
    let target = path_in(&dir, "backup");
    done(&server.command(&["backup", &target], ""));
    let before = served(Path::new(&target));
    // The server's maintenance removes all that the account had.
    done(&server.command(&["account", "remove", ANA, "--yes"], ""));
    let mbox = path_in(&dir, "mail.mbox");
    let import = import(&mbox, BEN, "Later");
    let restore = ["restore", &target, "--keep-uidvalidity", "--account", ANA];
    let aside = [&restore[..], &["--as", "old@example.org"]].concat();
    let running = [&import[..], &restore, &aside].map(|args| on_store_of(&server, args).spawn().unwrap());
    let [imported, restored, aside] = running.map(|child| done(&child.wait_with_output().unwrap()));
    assert!(imported.contains(&format!("imported {COUNT} messages")), "{imported}");
    for said in [restored, aside] {
        assert!(said.contains("restored 1 accounts") && said.contains("read back and compared"), "{said}");
    }
    same(&before, &server, (ANA, ANA), &MAILBOXES);
    same(&before, &server, (ANA, "old@example.org"), &MAILBOXES);
    assert_eq!(count(&mut login(server.address("imap"), BEN), "Later"), COUNT);
    let check = server.command(&["check"], "");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}
