//! Access control lists, in the store.

use std::collections::BTreeMap;

use posthaste_store::{CopiedRecords, DirectoryEntry, TargetIds};

use super::*;
use crate::directory::Directory;
use crate::testing::{add, directory, other_process};

fn mailbox(n: u64) -> MailboxId {
    MailboxId(Id::new(n, 1))
}

fn rights(letters: &str) -> Rights {
    Rights::parse(letters.as_bytes()).unwrap()
}

async fn set(directory: &Directory, owner: &Account, n: u64, who: &str, letters: &str) {
    let who = Identifier::parse(who).unwrap();
    directory.acls().set_rights(owner, mailbox(n), &who, |_| rights(letters)).await.unwrap();
}

/// The rights of an account, as `owner 1 lr; owner 2 l`.
async fn seen(directory: &Directory, reader: &Account) -> String {
    let mut lines = Vec::new();
    for sharer in directory.acls().sharers(reader).await.unwrap() {
        let Some(sharing) = directory.acls().shared_by(&sharer, reader).await.unwrap() else { continue };
        for (mailbox, rights) in sharing.mailboxes {
            let n = (1..9).find(|n| self::mailbox(*n) == mailbox).unwrap();
            lines.push(format!("{} {n} {rights}", sharing.owner.name));
        }
    }
    lines.sort();
    lines.join("; ")
}

#[test]
fn rights_are_the_granted_less_the_denied() {
    let mut acl = Acl::default();
    for (who, letters) in
        [("anyone", "lr"), ("Ana@Example.org", "wi"), ("-ana@example.org", "r"), ("-anyone", "i")]
    {
        acl.set(&Identifier::parse(who).unwrap(), rights(letters));
    }
    assert_eq!(acl.rights_of("ana@example.org"), rights("lw"));
    assert_eq!(acl.rights_of("bo@example.org"), rights("lr"));
    assert!(Identifier::parse("no one").is_err() && Identifier::parse("-").is_err());
    let entry = DirectoryEntry { name: "acl/x".into(), version: 1, value: acl.print("acl/x").unwrap() };
    assert_eq!(Acl::read(&entry).unwrap(), acl);
}

#[tokio::test]
async fn others_see_what_is_shared_and_each_change_counts() {
    let (records, directory) = directory();
    let other = other_process(&records);
    let ana = add(&directory, "ana@example.org", "pencil").await;
    let bo = add(&directory, "bo@example.org", "pencil").await;
    let cy = add(&directory, "cy@example.org", "pencil").await;
    assert_eq!(other.acls().changes().await.unwrap(), 0);
    set(&directory, &ana, 1, "bo@example.org", "lrs").await;
    set(&directory, &ana, 2, "anyone", "l").await;
    set(&directory, &cy, 3, "-anyone", "l").await;
    let count = other.acls().changes().await.unwrap();
    assert_ne!(count, 0);
    assert_eq!(seen(&other, &bo).await, "ana@example.org 1 lrs; ana@example.org 2 l");
    assert_eq!(seen(&other, &cy).await, "ana@example.org 2 l");
    // A right that is denied to everybody gives nobody an entry there; a right that is granted
    // later does.
    set(&directory, &cy, 3, "anyone", "lr").await;
    assert_eq!(seen(&other, &bo).await, "ana@example.org 1 lrs; ana@example.org 2 l; cy@example.org 3 r");
    set(&directory, &cy, 3, "anyone", "").await;
    let count = other.acls().changes().await.unwrap();
    assert_eq!(seen(&other, &ana).await, "");
    // Each owner's changes are counted for himself, too.
    let of_ana = other.acls().changes_of(ana.id).await.unwrap();
    let of_cy = other.acls().changes_of(cy.id).await.unwrap();
    set(&directory, &ana, 2, "anyone", "lr").await;
    assert!(other.acls().changes_of(ana.id).await.unwrap() > of_ana);
    assert_eq!(other.acls().changes_of(cy.id).await.unwrap(), of_cy);
    set(&directory, &ana, 2, "anyone", "l").await;
    set(&directory, &ana, 1, "bo@example.org", "").await;
    directory.acls().remove(ana.id, mailbox(2)).await.unwrap();
    assert_ne!(other.acls().changes().await.unwrap(), count);
    assert_eq!(seen(&other, &bo).await, "");
    assert!(other.acls().all(ana.id).await.unwrap().iter().all(|(_, acl)| acl.is_empty()));
}

#[tokio::test]
async fn a_new_account_with_a_removed_name_gets_none_of_its_rights() {
    let (_, directory) = directory();
    let ana = add(&directory, "ana@example.org", "pencil").await;
    let bo = add(&directory, "bo@example.org", "pencil").await;
    set(&directory, &ana, 1, "bo@example.org", "lr").await;
    set(&directory, &ana, 1, "-bo@example.org", "w").await;
    set(&directory, &bo, 2, "ana@example.org", "lr").await;
    directory.remove("bo@example.org").await.unwrap();
    assert!(directory.acls().get(ana.id, mailbox(1)).await.unwrap().is_empty());
    assert!(directory.acls().all(bo.id).await.unwrap().is_empty());
    let second = add(&directory, "bo@example.org", "pencil").await;
    assert_eq!(seen(&directory, &second).await, "");
    assert_eq!(seen(&directory, &ana).await, "");
}

#[tokio::test]
async fn a_list_is_bounded() {
    let (_, directory) = directory();
    let ana = add(&directory, "ana@example.org", "pencil").await;
    let one = |n: usize| Identifier::parse(&format!("u{n}@example.org")).unwrap();
    for n in 0..ACL_ENTRIES_MAX {
        directory.acls().set_rights(&ana, mailbox(1), &one(n), |_| Rights::LOOKUP).await.unwrap();
    }
    let refused = directory.acls().set_rights(&ana, mailbox(1), &one(999), |_| Rights::LOOKUP).await;
    assert!(matches!(refused, Err(AclError::TooMany)));
    directory.acls().set_rights(&ana, mailbox(1), &one(7), |_| Rights::READ).await.unwrap();
    directory.acls().set_rights(&ana, mailbox(1), &one(8), |_| Rights::NONE).await.unwrap();
    assert_eq!(directory.acls().get(ana.id, mailbox(1)).await.unwrap().len(), ACL_ENTRIES_MAX - 1);
}

#[tokio::test]
async fn a_change_that_lost_a_race_is_made_again() {
    let (records, directory) = directory();
    let ana = add(&directory, "ana@example.org", "pencil").await;
    records.conflict(3);
    set(&directory, &ana, 1, "bo@example.org", "lr").await;
    records.conflict(usize::MAX);
    let bo = Identifier::parse("bo@example.org").unwrap();
    let refused = directory.acls().set_rights(&ana, mailbox(1), &bo, |_| Rights::LOOKUP).await;
    assert!(matches!(refused, Err(AclError::Directory(DirectoryError::Busy(_)))));
}

#[tokio::test]
async fn lists_go_along_to_another_store() {
    let ((_, here), (_, there)) = (directory(), directory());
    let ana = add(&here, "ana@example.org", "pencil").await;
    set(&here, &ana, 1, "bo@example.org", "lr").await;
    set(&here, &ana, 2, "anyone", "l").await;
    let same = TargetIds::with_ids(ana.id, BTreeMap::new());
    copy_acls(here.records.engine(), &ana, there.records.engine(), &ana.name, &same).await.unwrap();
    assert!(same_acls(here.records.engine(), ana.id, there.records.engine()).await.unwrap());
    assert_ne!(there.acls().changes().await.unwrap(), 0);
    set(&here, &ana, 2, "anyone", "").await;
    assert!(!same_acls(here.records.engine(), ana.id, there.records.engine()).await.unwrap());
    copy_acls(here.records.engine(), &ana, there.records.engine(), &ana.name, &same).await.unwrap();
    assert!(same_acls(here.records.engine(), ana.id, there.records.engine()).await.unwrap());
    // Under another name, at other places.
    let bo = add(&there, "bo@example.org", "pencil").await;
    let eve = add(&there, "eve@example.org", "pencil").await;
    let places = TargetIds::with_ids(eve.id, BTreeMap::from([(mailbox(1), mailbox(7))]));
    copy_acls(here.records.engine(), &ana, there.records.engine(), &eve.name, &places).await.unwrap();
    assert_eq!(seen(&there, &bo).await, "eve@example.org 7 lr");
}

/// A backup may be forged.
#[tokio::test]
async fn lists_of_a_backup_are_those_that_their_owner_could_make() {
    let ((_, here), (_, there)) = (directory(), directory());
    let ana = add(&here, "ana@example.org", "pencil").await;
    set(&here, &ana, 1, "bo@example.org", "lr").await;
    set(&here, &ana, 1, "anyone", "l").await;
    set(&here, &ana, 2, "anyone", "lr").await;
    let mut long = Acl::default();
    for n in 0..=ACL_ENTRIES_MAX {
        long.set(&Identifier::parse(&format!("u{n}@example.org")).unwrap(), Rights::LOOKUP);
    }
    let name = key(ana.id, mailbox(3));
    let long = Some(long.print(&name).unwrap());
    here.records.put(name, 0, long).await.unwrap();
    let bo = add(&there, "bo@example.org", "pencil").await;
    let cy = add(&there, "cy@example.org", "pencil").await;
    let eve = add(&there, "eve@example.org", "pencil").await;
    let ids = (1..4).map(|n| (mailbox(n), mailbox(n)));
    let places = TargetIds::with_ids(eve.id, ids.collect());
    let copy = async |records| {
        let places = TargetIds { records, ..places.clone() };
        copy_acls(here.records.engine(), &ana, there.records.engine(), &eve.name, &places).await.unwrap()
    };
    assert_eq!(copy(CopiedRecords::OfListedAndOwn).await, ACL_ENTRIES_MAX + 3);
    assert_eq!(seen(&there, &bo).await, "eve@example.org 1 lr");
    assert!(there.acls().sharers(&cy).await.unwrap().is_empty());
    assert_eq!(copy(CopiedRecords::OfListed).await, ACL_ENTRIES_MAX + 1);
    assert_eq!(seen(&there, &cy).await, "eve@example.org 1 l; eve@example.org 2 lr");
}

/// The store fails between the list and the count: the client gets an error, and tries again.
#[tokio::test]
async fn a_change_made_again_is_counted_if_it_was_not() {
    let (records, directory) = directory();
    let ana = add(&directory, "ana@example.org", "pencil").await;
    let bo = Identifier::parse("bo@example.org").unwrap();
    set(&directory, &ana, 1, "bo@example.org", "lr").await;
    let (count, of_ana) = (directory.acls().changes().await, directory.acls().changes_of(ana.id).await);
    records.fail_on("sharing/");
    let failed = directory.acls().set_rights(&ana, mailbox(1), &bo, |_| Rights::NONE).await;
    assert!(matches!(failed, Err(AclError::Directory(DirectoryError::Store(_)))), "{failed:?}");
    assert!(directory.acls().get(ana.id, mailbox(1)).await.unwrap().is_empty(), "it was made");
    records.fail_on("");
    directory.acls().set_rights(&ana, mailbox(1), &bo, |_| Rights::NONE).await.unwrap();
    assert!(directory.acls().changes().await.unwrap() > count.unwrap());
    assert!(directory.acls().changes_of(ana.id).await.unwrap() > of_ana.unwrap());

    set(&directory, &ana, 1, "bo@example.org", "lr").await;
    let count = directory.acls().changes().await.unwrap();
    records.fail_on("sharing/");
    directory.acls().remove(ana.id, mailbox(1)).await.unwrap_err();
    records.fail_on("");
    directory.acls().remove(ana.id, mailbox(1)).await.unwrap();
    assert!(directory.acls().changes().await.unwrap() > count);
    // An account that never shared anything: deleting a mailbox changes no count.
    let cy = add(&directory, "cy@example.org", "pencil").await;
    let count = directory.acls().changes().await.unwrap();
    directory.acls().remove(cy.id, mailbox(1)).await.unwrap();
    assert_eq!(directory.acls().changes().await.unwrap(), count);
}

#[tokio::test]
async fn all_lists_of_an_account_are_bounded_together() {
    let (records, directory) = directory();
    let ana = add(&directory, "ana@example.org", "pencil").await;
    let bo = Identifier::parse("bo@example.org").unwrap();
    // As many as there may be, put there by a program without the bound.
    let mut full = Acl::default();
    for n in 0..ACL_ENTRIES_MAX {
        full.set(&Identifier::parse(&format!("u{n}@example.org")).unwrap(), Rights::LOOKUP);
    }
    let lists = (ACCOUNT_ENTRIES_MAX / ACL_ENTRIES_MAX) as u64;
    for n in 1..=lists {
        let key = key(ana.id, mailbox(n));
        records.put(&key, full.print(&key).unwrap());
    }
    let refused = directory.acls().set_rights(&ana, mailbox(lists + 1), &bo, |_| Rights::LOOKUP).await;
    assert!(matches!(refused, Err(AclError::TooManyInAll)), "{refused:?}");
    // A new mailbox has none then, rather than not being made.
    directory.acls().inherit(&ana, mailbox(lists + 1), &full).await.unwrap();
    assert!(directory.acls().get(ana.id, mailbox(lists + 1)).await.unwrap().is_empty());
    // An entry less, an entry more; again and again, also past the numbers where all are counted.
    let u7 = Identifier::parse("u7@example.org").unwrap();
    for _ in 0..100 {
        directory.acls().set_rights(&ana, mailbox(1), &u7, |_| Rights::NONE).await.unwrap();
        directory.acls().set_rights(&ana, mailbox(lists + 1), &bo, |_| Rights::LOOKUP).await.unwrap();
        let refused = directory.acls().set_rights(&ana, mailbox(1), &u7, |_| Rights::LOOKUP).await;
        assert!(matches!(refused, Err(AclError::TooManyInAll)), "{refused:?}");
        directory.acls().remove(ana.id, mailbox(lists + 1)).await.unwrap();
        directory.acls().set_rights(&ana, mailbox(1), &u7, |_| Rights::LOOKUP).await.unwrap();
    }
}

#[test]
fn a_record_says_without_its_list_what_the_list_says() {
    let entry = |json: &str| DirectoryEntry {
        name: "acl/x".into(),
        version: 1,
        value: Bytes::copy_from_slice(json.as_bytes()),
    };
    for json in [
        r#"{"v":1,"entries":{}}"#,
        r#"{"v":1,"entries":{"ana@example.org":"lr","-ana@example.org":"r","anyone":"w","-anyone":"l"}}"#,
        r#"{"entries":{"bo@example.org":"lr","-bo@example.org":"w"},"v":1}"#,
        // A name that JSON escapes.
        r#"{"v":1,"entries":{"\u0061na@example.org":"lr","bo@example.org":"i"}}"#,
        r#"{ "v" : 1, "entries" : { "anyone" : "lrswipkxtea" } }"#,
    ] {
        let entry = entry(json);
        let acl = Acl::read(&entry).unwrap();
        for reader in ["ana@example.org", "bo@example.org", "cy@example.org"] {
            assert_eq!(read::rights_in(&entry, reader).unwrap(), acl.rights_of(reader), "{json} {reader}");
        }
        assert_eq!(read::count_in(&entry).unwrap(), acl.len(), "{json}");
    }
    for json in ["", "{}", r#"{"v":1,"entries":{},"x":1}"#, r#"{"v":1,"entries":{}}x"#] {
        assert!(read::rights_in(&entry(json), "ana@example.org").is_err(), "{json}");
        assert!(read::count_in(&entry(json)).is_err(), "{json}");
    }
}

/// The record of each account that was named stays.
#[tokio::test]
async fn a_user_names_a_bounded_number_of_accounts() {
    let (records, directory) = directory();
    let ana = add(&directory, "ana@example.org", "pencil").await;
    let bo = add(&directory, "bo@example.org", "pencil").await;
    let name = format!("sharing/named/{}", bo.id);
    records.put(&name, format!(r#"{{"v":1,"grants":{}}}"#, NAMED_MAX - 2).into());
    let set_by_bo = async |n: u64, letters| {
        let who = Identifier::parse(&format!("u{n}@example.org")).unwrap();
        directory.acls().set_rights_by((bo.id, &ana), mailbox(1), &who, |_| rights(letters)).await
    };
    // One after another: the list has one entry at most.
    for n in 1..=2 {
        set_by_bo(n, "lr").await.unwrap();
        set_by_bo(n, "").await.unwrap();
    }
    let refused = set_by_bo(3, "lr").await;
    assert!(matches!(refused, Err(AclError::TooManyNamed)), "{refused:?}");
    // One that was named before, and the owner, whom this does not limit.
    set_by_bo(1, "lr").await.unwrap();
    let who = Identifier::parse("u3@example.org").unwrap();
    directory.acls().set_rights_by((ana.id, &ana), mailbox(1), &who, |_| rights("l")).await.unwrap();
    directory.remove("bo@example.org").await.unwrap();
    assert!(directory.acls().records.entry(&name).await.unwrap().is_none());
}
