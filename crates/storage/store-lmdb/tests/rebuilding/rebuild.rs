//! A rebuild loses the damaged records and nothing else, and names its losses.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use posthaste_mail_model::{FlagSet, MailboxId, NumSet, UidValidity};
use posthaste_store::{CommitOutcome, Engine, ListCommit, Report, Stored};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, Rebuild, rebuild};

use crate::world::{World, body, maintain, rebuild_whole, small, summarize};

const MESSAGES: u32 = 60;

/// Bytes of the name of a kind of record: where its head has the kind.
pub(crate) const COMMIT: u8 = 2;
pub(crate) const LIST: u8 = 3;

/// A closed store: 60 messages in 60 commits, flags, an expunge, a copy.
async fn store(dir: &Path) -> (World, MailboxId) {
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for n in 0..MESSAGES {
        world.append(&engine, inbox, &[body(n, 400)]).await.unwrap();
    }
    world.flag(&engine, inbox, &[3, 4, 5], FlagSet::SEEN).await.unwrap();
    world.expunge(&engine, inbox, &[10, 11]).await.unwrap();
    (world, inbox)
}

fn pack(dir: &Path) -> PathBuf {
    dir.join("packs/00000001.pack")
}

/// Where the heads of records of a kind begin.
fn records(dir: &Path, kind: u8) -> Vec<usize> {
    let bytes = std::fs::read(pack(dir)).unwrap();
    let is_head = |at: &usize| bytes[*at..].starts_with(b"PHR1") && bytes[*at + 4] == kind;
    (64..bytes.len() - 48).step_by(8).filter(is_head).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x20;
    std::fs::write(path, bytes).unwrap();
}

fn run(dir: &Path, mode: Rebuild) -> Report {
    rebuild(&EngineLock::acquire(dir).unwrap(), &small(), mode, &mut |_| {}).unwrap()
}

/// UIDs and bodies of a mailbox; no bytes where the body cannot be read.
async fn messages(engine: &LmdbEngine, mailbox: MailboxId) -> BTreeMap<u32, Option<bytes::Bytes>> {
    let mut bodies = Vec::new();
    let mut visit = |s: Stored<'_>| {
        bodies.push((s.uid.value(), s.body));
        ControlFlow::Continue(())
    };
    let unreadable = engine.summaries(mailbox, &NumSet::range(1, u32::MAX), &mut visit).await.unwrap();
    assert!(unreadable.0.is_empty());
    let mut found = BTreeMap::new();
    for (uid, body) in bodies {
        found.insert(uid, engine.read_body(body, 0..u64::MAX).await.ok());
    }
    found
}

async fn uid_validity(engine: &LmdbEngine, world: &World) -> UidValidity {
    engine.load_list(world.list.account).await.unwrap().entries[0].uid_validity
}

/// Every message that is there is the one it was, under this UIDVALIDITY at least.
async fn nothing_is_mistaken(engine: &LmdbEngine, world: &World, inbox: MailboxId) -> usize {
    let there = messages(engine, inbox).await;
    for (uid, bytes) in &there {
        assert_eq!(bytes.as_ref(), Some(&world.boxes[&inbox].messages[uid].bytes), "UID {uid}");
    }
    there.len()
}

#[tokio::test]
async fn a_damaged_commit_that_the_old_index_has_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    for (hit, at) in records(dir.path(), COMMIT).into_iter().enumerate().step_by(7) {
        // Once the head, once the content.
        let at = at + if hit % 2 == 0 { 12 } else { 60 };
        flip(&pack(dir.path()), at);
        let report = run(dir.path(), Rebuild::UnlessFaulty);
        assert!(!report.faults.is_empty());
        assert!(!dir.path().join("index.old").exists(), "with faults, the index stays as it is");
        let report = run(dir.path(), Rebuild::Force);
        assert!(
            report.faults.iter().any(|f| f.contains("was taken from the old index")),
            "{:?}",
            report.faults
        );
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        assert_eq!(nothing_is_mistaken(&engine, &world, inbox).await, MESSAGES as usize - 2);
        assert_eq!(engine.heads(&[inbox]).await.unwrap()[0].as_ref().unwrap(), &world.boxes[&inbox].head);
        assert_eq!(uid_validity(&engine, &world).await, world.list.entries[0].uid_validity);
        engine.close();
        std::fs::remove_dir_all(dir.path().join("index.old")).unwrap();
        flip(&pack(dir.path()), at);
    }
}

#[tokio::test]
async fn without_an_old_index_a_damaged_commit_costs_its_messages_alone_and_uids_are_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    let commits = records(dir.path(), COMMIT);
    // The last append, one in the middle, the first one.
    for n in [MESSAGES as usize - 1, 30, 0] {
        for inside in [12, 60] {
            flip(&pack(dir.path()), commits[n] + inside);
            std::fs::remove_dir_all(dir.path().join("index")).unwrap();
            let report = run(dir.path(), Rebuild::Force);
            let engine = LmdbEngine::open(dir.path(), small()).unwrap();
            let there = nothing_is_mistaken(&engine, &world, inbox).await;
            assert_eq!(there, MESSAGES as usize - 3, "all but the one of the damaged commit");
            assert!(uid_validity(&engine, &world).await > world.list.entries[0].uid_validity);
            let head = engine.heads(&[inbox]).await.unwrap().remove(0).unwrap();
            assert_eq!(head.counts.messages as usize, there);
            assert!(report.faults.iter().any(|f| f.contains("new UIDVALIDITY")), "{:?}", report.faults);
            let faults = engine.check(&mut |_| {}).await.unwrap().faults;
            assert!(faults.iter().all(|f| f.starts_with("pack 1 at byte")), "{faults:?}");
            // Maintenance leaves the packs: lost records may be recovered in another way.
            maintain(&engine).await;
            engine.close();
            assert!(pack(dir.path()).exists());
            flip(&pack(dir.path()), commits[n] + inside);
        }
    }
}

/// Marked packs keep what no message holds. When the owner has given that up, space comes back.
#[tokio::test]
async fn after_a_forced_rebuild_space_comes_back_when_the_loss_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    // A commit on flags: no message is lost.
    let at = records(dir.path(), COMMIT)[MESSAGES as usize] + 60;
    flip(&pack(dir.path()), at);
    let report = run(dir.path(), Rebuild::Force);
    assert!(!report.faults.is_empty());
    flip(&pack(dir.path()), at);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    // Another pack for what follows, as the server makes one.
    world.append(&engine, inbox, &[body(900, 400)]).await.unwrap();
    let all: Vec<u32> = world.boxes[&inbox].messages.keys().copied().collect();
    world.expunge(&engine, inbox, &all).await.unwrap();
    maintain(&engine).await;
    assert!(pack(dir.path()).exists());
    assert_eq!(engine.accept_loss().await.unwrap(), 1);
    maintain(&engine).await;
    assert!(!pack(dir.path()).exists());
    world.verify(&engine).await;
    assert_eq!(engine.accept_loss().await.unwrap(), 0);
}

/// A pack whose record is damaged stays marked.
#[tokio::test]
async fn a_pack_with_a_damaged_record_is_kept_although_the_loss_was_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    flip(&pack(dir.path()), records(dir.path(), COMMIT)[MESSAGES as usize] + 60);
    run(dir.path(), Rebuild::Force);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.append(&engine, inbox, &[body(900, 400)]).await.unwrap();
    let most: Vec<u32> = world.boxes[&inbox].messages.keys().copied().skip(5).collect();
    world.expunge(&engine, inbox, &most).await.unwrap();
    engine.accept_loss().await.unwrap();
    let mut faults = Vec::new();
    loop {
        let report = engine.maintain().await.unwrap();
        faults.extend(report.faults);
        if report.examined == 0 {
            break;
        }
    }
    assert!(matches!(&faults[..], [fault] if fault.contains("it is left as it is")), "{faults:?}");
    assert!(pack(dir.path()).exists());
    assert_eq!(
        engine.accept_loss().await.unwrap(),
        1,
        "maintenance met the record and marked the pack again"
    );
    nothing_is_mistaken(&engine, &world, inbox).await;
}

#[tokio::test]
async fn a_lost_last_commit_gives_a_new_uid_validity() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.append(&engine, inbox, &[body(1, 400)]).await.unwrap();
    world.append(&engine, inbox, &[body(2, 400)]).await.unwrap();
    engine.close();
    let last = *records(dir.path(), COMMIT).last().unwrap();
    for inside in [12, 60] {
        flip(&pack(dir.path()), last + inside);
        std::fs::remove_dir_all(dir.path().join("index")).unwrap();
        run(dir.path(), Rebuild::Force);
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        // UID 2 will be given again: under another UIDVALIDITY it is another message.
        assert_eq!(engine.heads(&[inbox]).await.unwrap()[0].as_ref().unwrap().uid_next.value(), 2);
        assert!(uid_validity(&engine, &world).await > world.list.entries[0].uid_validity);
        engine.close();
        flip(&pack(dir.path()), last + inside);
    }
}

/// The old index is behind: it has the mailbox as it was before the damaged commit.
#[tokio::test]
async fn a_damaged_commit_that_an_older_index_lacks_gives_a_new_uid_validity() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let work = world.create(&engine, "Work").await.unwrap();
    world.append(&engine, inbox, &[body(1, 400)]).await.unwrap();
    engine.close();
    let index = dir.path().join("index/data.mdb");
    let behind = std::fs::read(&index).unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.append(&engine, inbox, &[body(2, 400)]).await.unwrap();
    world.append(&engine, work, &[body(3, 400)]).await.unwrap();
    engine.close();
    std::fs::write(&index, behind).unwrap();
    flip(&pack(dir.path()), records(dir.path(), COMMIT)[1] + 60);
    run(dir.path(), Rebuild::Force);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    assert_eq!(engine.heads(&[inbox]).await.unwrap()[0].as_ref().unwrap().uid_next.value(), 2);
    assert!(uid_validity(&engine, &world).await > world.list.entries[0].uid_validity);
}

/// A mailbox whose list commit is damaged is in no list. Its mail is there, and an account can get
/// it.
#[tokio::test]
async fn a_mailbox_that_no_list_has_is_named_and_can_be_given_to_an_account() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    world.create(&engine, "INBOX").await.unwrap();
    let work = world.create(&engine, "Work").await.unwrap();
    world.append(&engine, work, &[body(1, 400), body(2, 400)]).await.unwrap();
    assert!(engine.unlisted().await.unwrap().is_empty());
    engine.close();
    flip(&pack(dir.path()), records(dir.path(), LIST).last().unwrap() + 60);
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let named = format!("--recover {work} --account");
    let report = run(dir.path(), Rebuild::Force);
    assert!(report.faults.iter().any(|fault| fault.contains(&named)), "{:?}", report.faults);

    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let faults = engine.check(&mut |_| {}).await.unwrap().faults;
    assert!(faults.iter().any(|fault| fault.contains(&named)), "{faults:?}");
    let unlisted = engine.unlisted().await.unwrap();
    assert_eq!(unlisted.iter().map(|found| (found.mailbox, found.messages)).collect::<Vec<_>>(), [(work, 2)]);
    let list = engine.load_list(world.list.account).await.unwrap();
    let entry = world.list.entries.iter().find(|entry| entry.id == work).unwrap().clone();
    let commit = ListCommit {
        account: list.account,
        expected: list.version,
        version: list.version.next(),
        uid_validity_last: entry.uid_validity.value(),
        upsert: vec![entry],
        remove: vec![],
        subscribe: vec![],
        unsubscribe: vec![],
    };
    assert_eq!(engine.commit_list(commit).await.unwrap(), CommitOutcome::Done);
    assert!(engine.unlisted().await.unwrap().is_empty());
    assert_eq!(nothing_is_mistaken(&engine, &world, work).await, 2);
}

#[tokio::test]
async fn a_damaged_head_of_a_pack_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _) = store(dir.path()).await;
    flip(&pack(dir.path()), 20);
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let report = run(dir.path(), Rebuild::Force);
    assert!(report.faults.iter().any(|f| f.contains("head of pack 1")), "{:?}", report.faults);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let inbox = *world.boxes.keys().next().unwrap();
    assert_eq!(nothing_is_mistaken(&engine, &world, inbox).await, MESSAGES as usize - 2);
}

#[tokio::test]
async fn a_message_whose_body_is_damaged_stays_and_the_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    let body_record = records(dir.path(), 1)[20];
    flip(&pack(dir.path()), body_record + 200);
    let report = run(dir.path(), Rebuild::Force);
    assert!(report.faults.iter().any(|f| f.contains("UID 21")), "{:?}", report.faults);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let there = messages(&engine, inbox).await;
    assert_eq!(there.len(), MESSAGES as usize - 2);
    let unreadable: Vec<u32> = there.iter().filter(|(_, b)| b.is_none()).map(|(uid, _)| *uid).collect();
    assert_eq!(unreadable, [21]);
    assert_eq!(uid_validity(&engine, &world).await, world.list.entries[0].uid_validity);
}

#[tokio::test]
async fn a_missing_pack_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for n in 0..4 {
        world.append(&engine, inbox, &[body(n, 1_100_000)]).await.unwrap();
    }
    engine.close();
    std::fs::remove_file(dir.path().join("packs/00000002.pack")).unwrap();
    for index in [true, false] {
        if !index {
            std::fs::remove_dir_all(dir.path().join("index")).unwrap();
        }
        let report = run(dir.path(), Rebuild::UnlessFaulty);
        assert!(report.faults.iter().any(|f| f.contains("pack 2 is missing")), "{:?}", report.faults);
    }
}

/// The last commits on a mailbox lay in a pack that is missing. Without an index that has them,
/// its UIDs would be given again.
#[tokio::test]
async fn a_missing_pack_gives_a_new_uid_validity_where_the_index_lacks_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let other = world.create(&engine, "Other").await.unwrap();
    world.append(&engine, inbox, &[body(1, 1_100_000)]).await.unwrap();
    let before = tempfile::tempdir().unwrap();
    std::fs::copy(dir.path().join("index/data.mdb"), before.path().join("data.mdb")).unwrap();
    world.append(&engine, inbox, &[body(2, 1_100_000)]).await.unwrap();
    world.append(&engine, other, &[body(3, 1_100_000)]).await.unwrap();
    engine.close();
    std::fs::remove_file(dir.path().join("packs/00000002.pack")).unwrap();
    let was = world.list.entries[0].uid_validity;
    // The index has all that the pack said. The message in it is there and cannot be read.
    run(dir.path(), Rebuild::Force);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    assert_eq!(uid_validity(&engine, &world).await, was);
    let there = messages(&engine, inbox).await;
    assert!(there.len() == 2 && there[&1].is_some() && there[&2].is_none());
    engine.close();
    // An index from before it has not, and without an index nothing has.
    for index in [Some(before.path().join("data.mdb")), None] {
        std::fs::remove_dir_all(dir.path().join("index")).unwrap();
        if let Some(index) = &index {
            std::fs::create_dir(dir.path().join("index")).unwrap();
            std::fs::copy(index, dir.path().join("index/data.mdb")).unwrap();
        }
        let report = run(dir.path(), Rebuild::Force);
        assert!(report.faults.iter().any(|f| f.contains("new UIDVALIDITY")), "{:?}", report.faults);
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        assert!(uid_validity(&engine, &world).await > was);
        engine.close();
    }
}

#[tokio::test]
async fn a_rebuild_needs_the_store_for_itself() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let lock = EngineLock::acquire(dir.path()).unwrap();
    let refusal = rebuild(&lock, &small(), Rebuild::Force, &mut |_| {}).unwrap_err().to_string();
    assert!(refusal.contains("another process has the store open"), "{refusal}");
    // A damaged `format` whose lock the other process has is not replaced, either.
    let format = dir.path().join("format");
    let whole = std::fs::read(&format).unwrap();
    std::fs::write(&format, b"nothing").unwrap();
    let refusal = rebuild(&lock, &small(), Rebuild::Force, &mut |_| {}).unwrap_err().to_string();
    assert!(refusal.contains("another process has the store open"), "{refusal}");
    assert_eq!(std::fs::read(&format).unwrap(), b"nothing");
    std::fs::write(&format, whole).unwrap();
    engine.close();
    rebuild(&lock, &small(), Rebuild::Force, &mut |_| {}).unwrap();
}

/// If the file is removed while a command runs, no other process can open the store. Otherwise
/// the command's acknowledged commits would go into an index that no longer belongs to the store.
#[tokio::test]
async fn removing_the_format_beside_a_command_lets_nobody_in() {
    for has_mail in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        let mut world = World::new();
        let mut inbox = None;
        if has_mail {
            inbox = Some(world.create(&engine, "INBOX").await.unwrap());
            world.append(&engine, inbox.unwrap(), &[body(0, 400)]).await.unwrap();
        }
        let format = dir.path().join("format");
        let whole = std::fs::read(&format).unwrap();
        std::fs::remove_file(&format).unwrap();
        let lock = EngineLock::acquire(dir.path()).unwrap();
        let refusal = rebuild(&lock, &small(), Rebuild::Force, &mut |_| {}).unwrap_err().to_string();
        let why = if has_mail { "another process has the store open" } else { "no store is here" };
        assert!(refusal.contains(why), "{refusal}");
        // No new store is made in its place, either.
        LmdbEngine::open(dir.path(), small()).unwrap_err();
        assert!(!format.exists());
        match inbox {
            Some(inbox) => world.append(&engine, inbox, &[body(1, 400)]).await.unwrap(),
            None => world.create(&engine, "INBOX").await.map(|_| CommitOutcome::Done).unwrap(),
        };
        engine.close();
        // Once the command has ended, the packs say what the file was.
        rebuild(&lock, &small(), Rebuild::UnlessFaulty, &mut |_| {}).unwrap();
        assert_eq!(std::fs::read(&format).unwrap(), whole);
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        world.verify(&engine).await;
    }
}

/// The transactions of a rebuild with these summaries, in the meta pages of the index.
async fn transactions_of_rebuild(summarize: fn(&[u8]) -> Vec<u8>) -> u64 {
    const PAGE: usize = 4096;
    let dir = tempfile::tempdir().unwrap();
    store(dir.path()).await;
    rebuild_whole(dir.path(), &Options { summarize, ..small() });
    let index = std::fs::read(dir.path().join("index/data.mdb")).unwrap();
    let of = |meta: usize| u64::from_le_bytes(index[meta * PAGE + 16 + 128..][..8].try_into().unwrap());
    of(0).max(of(1))
}

/// LMDB keeps what a transaction writes in memory, and 5,000 summaries may have 50 GB.
#[tokio::test]
async fn a_rebuild_writes_long_summaries_in_several_transactions() {
    let short = transactions_of_rebuild(summarize).await;
    let long = transactions_of_rebuild(|_| vec![7; 1 << 20]).await;
    // 58 MiB, and 16 MiB in each.
    assert!(long >= short + 3, "{long} transactions, and {short} with short summaries");
}
