//! Mailbox lists and the directory.

use bytes::Bytes;
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, ModSeq, NumSet, UidValidity};

use super::{Factory, World, new_id};
use crate::change::CommitOutcome;
use crate::engine::DirectoryChange;
use crate::error::StoreError;
use crate::list::{ListCommit, MailboxEntry, MailboxList, SpecialUse};

fn empty_commit(list: &MailboxList) -> ListCommit {
    ListCommit {
        account: list.account,
        expected: list.version,
        version: list.version.next(),
        upsert: Vec::new(),
        remove: Vec::new(),
        subscribe: Vec::new(),
        unsubscribe: Vec::new(),
        uid_validity_last: list.uid_validity_last,
    }
}

fn name(text: &str) -> MailboxName {
    MailboxName::new(text).unwrap()
}

fn entry(text: &str, validity: u32, special_use: Option<SpecialUse>) -> MailboxEntry {
    let uid_validity = UidValidity::new(validity).unwrap();
    MailboxEntry { id: MailboxId(new_id()), name: name(text), uid_validity, special_use }
}

/// Creating, renaming, removing, subscribing: applied whole against the right version, refused
/// against another.
pub async fn lists_are_conditional(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let mut list = world.engine.load_list(world.account).await.unwrap();
    assert_eq!(list, MailboxList::empty(world.account));
    let first = ListCommit {
        upsert: vec![
            entry("INBOX", 5, None),
            entry("Größe/Ä", 7, None),
            entry("Sent", 6, Some(SpecialUse::Sent)),
        ],
        subscribe: vec![name("INBOX"), name("not/there")],
        uid_validity_last: 7,
        ..empty_commit(&list)
    };
    let mut steps = vec![first];
    for step in 0..3 {
        let commit = steps.pop().unwrap();
        assert_eq!(world.engine.commit_list(commit.clone()).await.unwrap(), CommitOutcome::Done);
        list = list.apply(&commit);
        assert_eq!(world.engine.load_list(world.account).await.unwrap(), list, "step {step}");
        // The same commit again names an old version.
        assert_eq!(world.engine.commit_list(commit).await.unwrap(), CommitOutcome::Conflict);
        assert_eq!(world.engine.load_list(world.account).await.unwrap(), list, "step {step}");
        let renamed = MailboxEntry { name: name(&format!("renamed {step}")), ..list.entries[1].clone() };
        steps.push(ListCommit {
            upsert: vec![renamed, entry(&format!("new {step}"), 10 + step, None)],
            remove: vec![list.entries.last().unwrap().id],
            subscribe: vec![name(&format!("subscribed {step}"))],
            unsubscribe: vec![name("not/there")],
            uid_validity_last: 10 + step,
            // Versions may be skipped.
            version: ModSeq::new(list.version.value() + 3).unwrap(),
            ..empty_commit(&list)
        });
    }
    let ids: Vec<MailboxId> = list.entries.iter().map(|e| e.id).collect();
    assert!(world.engine.heads(&ids).await.unwrap().iter().all(Option::is_some));
    world.check().await;
}

/// A mailbox taken off the list answers `NoMailbox`, at once and after its contents were swept
/// away.
pub async fn removed_mailboxes_cannot_be_read(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let (mut folder, mut kept) = (world.folder().await, world.folder().await);
    folder.commit(folder.appending(&[100, 200, 70_000])).await;
    kept.commit_copies(kept.copying(&folder, &NumSet::range(2, 3)), &folder).await;
    let list = world.engine.load_list(world.account).await.unwrap();
    let commit = ListCommit { remove: vec![folder.id], ..empty_commit(&list) };
    assert_eq!(world.engine.commit_list(commit).await.unwrap(), CommitOutcome::Done);
    for _ in 0..2 {
        let engine = &world.engine;
        assert_eq!(
            engine.heads(&[folder.id, kept.id]).await.unwrap(),
            [None, Some(kept.view.head().clone())]
        );
        let is_deleted = |error: StoreError| matches!(error, StoreError::NoMailbox(id) if id == folder.id);
        assert!(is_deleted(engine.load(folder.id, &mut |_| {}).await.unwrap_err()));
        assert!(is_deleted(engine.changes_since(folder.id, ModSeq::ZERO).await.unwrap_err()));
        assert!(is_deleted(engine.commit(folder.appending(&[1])).await.unwrap_err()));
        kept.verify().await;
        world.check().await;
    }
    // A mailbox that is created again under the name is another one.
    let mut again = world.folder().await;
    again.verify().await;
    again.commit(again.appending(&[5])).await;
    again.verify().await;
}

/// A mailbox is in one list. Only the account that has it may change its entry.
pub async fn a_mailbox_is_in_one_list(factory: &dyn Factory) {
    let (world, other) = (World::new(factory).await, AccountId(new_id()));
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[100, 200])).await;
    let (engine, mine) = (&world.engine, world.engine.load_list(world.account).await.unwrap());
    let empty = engine.load_list(other).await.unwrap();
    let taken = MailboxEntry { name: name("INBOX"), ..mine.entries[0].clone() };
    let forged = |upsert| ListCommit { upsert, uid_validity_last: 9, ..empty_commit(&empty) };
    for upsert in [vec![taken.clone()], vec![entry("own", 8, None), taken.clone()]] {
        let outcome = engine.commit_list(forged(upsert)).await;
        assert!(matches!(outcome, Err(StoreError::Refused(_))), "{outcome:?}");
        assert_eq!(engine.load_list(other).await.unwrap(), empty);
    }
    let renamed = ListCommit { upsert: vec![taken], ..empty_commit(&mine) };
    assert_eq!(engine.commit_list(renamed).await.unwrap(), CommitOutcome::Done);
    folder.verify().await;
    let own = forged(vec![entry("own", 8, None)]);
    assert_eq!(engine.commit_list(own).await.unwrap(), CommitOutcome::Done);
    world.check().await;
}

/// Directory records: created once, changed against their version, removed, listed in order.
pub async fn directory_entries_have_versions(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let engine = &world.engine;
    let prefix = format!("suite/{}/", world.account);
    let change = |name: &str, expected: u64, value: Option<&'static str>| {
        let value = value.map(|v| Bytes::from_static(v.as_bytes()));
        engine.directory_commit(DirectoryChange { name: format!("{prefix}{name}"), expected, value })
    };
    assert_eq!(engine.directory_entry(&format!("{prefix}a")).await.unwrap(), None);
    assert_eq!(change("a", 0, Some("1")).await.unwrap(), CommitOutcome::Done);
    assert_eq!(change("a", 0, Some("2")).await.unwrap(), CommitOutcome::Conflict);
    assert_eq!(change("a", 1, Some("2")).await.unwrap(), CommitOutcome::Done);
    assert_eq!(change("a", 1, None).await.unwrap(), CommitOutcome::Conflict);
    let found = engine.directory_entry(&format!("{prefix}a")).await.unwrap().unwrap();
    assert_eq!((found.version, &found.value[..]), (2, &b"2"[..]));
    for name in ["c", "b", "bb", "ü", "b/x"] {
        assert_eq!(change(name, 0, Some("x")).await.unwrap(), CommitOutcome::Done);
    }
    let names = |entries: Vec<crate::DirectoryEntry>| -> Vec<String> {
        entries.into_iter().map(|e| e.name.strip_prefix(&prefix).unwrap().to_owned()).collect()
    };
    let scan = |after: Option<String>, limit| {
        let prefix = prefix.clone();
        async move { engine.directory_scan(&prefix, after.as_deref(), limit).await.unwrap() }
    };
    assert_eq!(names(scan(None, 100).await), ["a", "b", "b/x", "bb", "c", "ü"]);
    assert_eq!(names(scan(None, 2).await), ["a", "b"]);
    assert_eq!(names(scan(Some(format!("{prefix}b")), 2).await), ["b/x", "bb"]);
    assert_eq!(
        names(engine.directory_scan(&format!("{prefix}b"), None, 9).await.unwrap()),
        ["b", "b/x", "bb"]
    );
    assert_eq!(change("b", 1, None).await.unwrap(), CommitOutcome::Done);
    assert_eq!(engine.directory_entry(&format!("{prefix}b")).await.unwrap(), None);
    assert_eq!(names(scan(None, 100).await), ["a", "b/x", "bb", "c", "ü"]);
    let (bb, z) = (format!("{prefix}bb"), format!("{prefix}z"));
    for (after, limit) in [(None, 100), (None, 2), (Some(&bb), 100), (Some(&bb), 1), (Some(&z), 100)] {
        let after = after.map(String::as_str);
        let listed = engine.directory_names(&prefix, after, limit).await.unwrap();
        let scanned = engine.directory_scan(&prefix, after, limit).await.unwrap();
        assert_eq!(listed, scanned.into_iter().map(|entry| entry.name).collect::<Vec<_>>());
    }
    assert_eq!(change("nothing", 3, Some("x")).await.unwrap(), CommitOutcome::Conflict);
    world.check().await;
}

/// A page of records has a bound of octets. Its first record comes in any case.
pub async fn pages_of_the_directory_are_bounded_in_octets(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let engine = &world.engine;
    let prefix = format!("suite/{}/", world.account);
    for (name, len) in [("a", 900), ("b", 300), ("c", 300), ("d", 300), ("e", 1), ("f", 1)] {
        let value = Some(Bytes::from(vec![b'x'; len]));
        let change = DirectoryChange { name: format!("{prefix}{name}"), expected: 0, value };
        assert_eq!(engine.directory_commit(change).await.unwrap(), CommitOutcome::Done);
    }
    // Engines may count some octets of their own with each value.
    for (octets, limit, pages) in [
        (700, 9, vec!["a", "bc", "def"]),
        (0, 9, vec!["a", "b", "c", "d", "e", "f"]),
        (4_000, 4, vec!["abcd", "ef"]),
    ] {
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = engine.directory_scan_within(&prefix, after.as_deref(), limit, octets).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.name.clone());
            assert!(page.iter().all(|entry| entry.version == 1 && entry.value.iter().all(|x| *x == b'x')));
            found.push(page.iter().filter_map(|entry| entry.name.strip_prefix(&prefix)).collect::<String>());
        }
        assert_eq!(found, pages, "{octets} octets");
    }
    let names = |after: Option<String>, limit| {
        let prefix = prefix.clone();
        async move { engine.directory_names(&prefix, after.as_deref(), limit).await.unwrap().concat() }
    };
    let named = |names: &str| names.chars().map(|name| format!("{prefix}{name}")).collect::<String>();
    assert_eq!(names(None, 4).await, named("abcd"));
    assert_eq!(names(Some(format!("{prefix}d")), 4).await, named("ef"));
    assert_eq!(names(Some(format!("{prefix}f")), 4).await, "");
    world.check().await;
}
