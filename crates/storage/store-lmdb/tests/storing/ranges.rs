//! Checkpoints of ranges keep the log of lists and of the directory no larger than these are. A
//! rebuild from them equals a rebuild from all changes.

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;

use posthaste_mail_model::MailboxId;
use posthaste_store::{CommitOutcome, DirectoryChange, Engine, StoreError};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, Rebuild, rebuild};
use tokio::task::JoinSet;

use crate::world::{self, World, body, flip, maintain, packs_len, rebuilt_equals, records, small};

/// The kinds of records that the tests look for.
const LIST: u8 = 3;
const DIRECTORY: u8 = 4;
const RANGE: u8 = 10;

/// Small packs, and passes from 64 × 16 octets of changes on.
fn options() -> Options {
    Options { pack_bytes: 64 << 10, checkpoint_from: 16, ..small() }
}

/// Writes a directory of this many records, and removes none.
async fn many_names(world: &mut World, engine: &LmdbEngine, count: u32) {
    for n in 0..count {
        let name = format!("account/{n:04}@example.org");
        world.set_directory(engine, &name, Some(&[b'x'; 60])).await.unwrap();
    }
}

/// Puts and removes a name, as the queue does with each message.
async fn come_and_go(world: &mut World, engine: &LmdbEngine, names: std::ops::Range<u32>) {
    for n in names {
        let name = format!("queue/{n}");
        world.set_directory(engine, &name, Some(b"a message on its way")).await.unwrap();
        world.set_directory(engine, &name, None).await.unwrap();
        if n % 50 == 49 {
            maintain(engine).await;
        }
    }
}

#[tokio::test]
async fn the_log_of_a_hundred_thousand_changes_of_the_directory_is_as_large_as_that() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { pack_bytes: 256 << 10, checkpoint_from: 1 << 10, ..small() };
    let mut world = World::new();
    let lock = Arc::new(EngineLock::acquire(dir.path()).unwrap());
    let engine = Arc::new(LmdbEngine::serve(lock, options()).unwrap());
    many_names(&mut world, &engine, 20).await;
    for batch in 0..500 {
        for value in [Some(bytes::Bytes::from_static(b"on its way")), None] {
            let mut answers = JoinSet::new();
            for n in batch * 100..(batch + 1) * 100 {
                let expected = u64::from(value.is_none());
                let change = DirectoryChange { name: format!("queue/{n}"), expected, value: value.clone() };
                let engine = Arc::clone(&engine);
                answers.spawn(async move { engine.directory_commit(change).await.unwrap() });
            }
            assert!(answers.join_all().await.iter().all(|outcome| *outcome == CommitOutcome::Done));
        }
        maintain(&engine).await;
    }
    drop(engine);
    // A pass is due after 64 KiB of changes. The changes since the pass before the last are kept,
    // some 80 octets each. So are the changes between two rounds of maintenance.
    let left = records(dir.path(), DIRECTORY).len();
    let kept_max = 3 * (64 << 10) / 80 + 3 * 200;
    assert!(left <= kept_max, "{left} changes are left of 100,000");
    let bytes = packs_len(dir.path());
    assert!(bytes < 2 << 20, "{bytes} octets for a directory of 20 records");
    rebuilt_equals(dir.path(), &world, &options()).await;
}

/// Makes and removes mailboxes; answers the removed ones.
async fn list_churn(world: &mut World, engine: &LmdbEngine, rounds: u32) -> Vec<MailboxId> {
    let mut removed = Vec::new();
    for n in 0..rounds {
        let id = world.create(engine, &format!("Folder {n}")).await.unwrap();
        world.append(engine, id, &[body(n, 100)]).await.unwrap();
        world.remove(engine, id).await.unwrap();
        removed.push(id);
        if n % 20 == 19 {
            maintain(engine).await;
        }
    }
    removed
}

#[tokio::test]
async fn a_removed_mailbox_stays_removed_when_its_removal_left_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.append(&engine, inbox, &[body(1, 100)]).await.unwrap();
    let removed = list_churn(&mut world, &engine, 300).await;
    engine.close();
    let left = records(dir.path(), LIST).len();
    assert!(left < 300, "{left} list commits are left of 601");
    rebuilt_equals(dir.path(), &world, &options()).await;
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    assert!(engine.heads(&removed).await.unwrap().iter().all(Option::is_none));
    for id in removed {
        world.boxes.insert(id, Default::default());
        let commit = world.appending(id, &[]);
        assert!(matches!(engine.commit(commit).await, Err(StoreError::NoMailbox(_))));
    }
}

/// A list of 10,000 mailboxes takes 10 ms to read, and a task may take no more of its thread. The
/// one other thread is busy, so maintenance has not come to the writer yet.
#[test]
fn a_pass_reads_its_ranges_on_another_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async {
        many_names(&mut world, &engine, 50).await;
        let busy = tokio::task::spawn_blocking(move || wait.recv().unwrap());
        let mut round = engine.maintain();
        let mut is_waiting = async || poll_fn(|cx| Poll::Ready(round.as_mut().poll(cx).is_pending())).await;
        assert!(is_waiting().await);
        // The writer works in turn: what it had to do before this has been done.
        world.set_directory(&engine, "queue/1", Some(b"x")).await.unwrap();
        assert!(is_waiting().await);
        go.send(()).unwrap();
        busy.await.unwrap();
        assert!(round.await.unwrap().examined > 0);
    });
}

#[tokio::test]
async fn a_rebuild_at_any_step_of_the_passes_equals_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    // More than a round of a pass writes: a pass takes several.
    for n in 0..30 {
        world.set_directory(&engine, &format!("script/{n:03}"), Some(&[b'y'; 40_000])).await.unwrap();
    }
    many_names(&mut world, &engine, 50).await;
    world.create(&engine, "INBOX").await.unwrap();
    for n in 0_u32..60 {
        engine.maintain().await.unwrap();
        // Changes before and after the place where the pass continues.
        world.set_directory(&engine, "account/0001@example.org", Some(&n.to_le_bytes())).await.unwrap();
        for script in [n, n + 7, n + 14] {
            let value = (n % 3 != 0).then_some(&[b'z'; 40_000][..]);
            world.set_directory(&engine, &format!("script/{:03}", script % 30), value).await.unwrap();
        }
        let id = world.create(&engine, &format!("Folder {n}")).await.unwrap();
        if n % 2 == 0 {
            world.remove(&engine, id).await.unwrap();
        }
        let copy = tempfile::tempdir().unwrap();
        copy_packs(dir.path(), copy.path());
        world::rebuild_whole(copy.path(), &options());
        world.verify(&LmdbEngine::open(copy.path(), options()).unwrap()).await;
    }
    let ranges = records(dir.path(), RANGE).len();
    assert!(ranges > 30, "{ranges} ranges: of two passes, which took several rounds");
}

/// The packs and the format of a store that is open.
fn copy_packs(from: &Path, to: &Path) {
    std::fs::create_dir(to.join("packs")).unwrap();
    std::fs::copy(from.join("format"), to.join("format")).unwrap();
    for entry in std::fs::read_dir(from.join("packs")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join("packs").join(path.file_name().unwrap())).unwrap();
    }
}

/// A store in which several passes are complete, and the superseded records left the log: its packs
/// are small, so that they are soon compacted.
async fn passed(dir: &Path) -> World {
    let mut world = World::new();
    let engine = LmdbEngine::open(dir, Options { pack_bytes: 4 << 10, ..options() }).unwrap();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.append(&engine, inbox, &[body(1, 100)]).await.unwrap();
    many_names(&mut world, &engine, 40).await;
    for round in 0..6 {
        come_and_go(&mut world, &engine, round * 60..(round + 1) * 60).await;
        list_churn(&mut world, &engine, 30).await;
        // Rows that a range of the pass before lacks.
        let name = format!("account/{round:04}@example.org");
        world.set_directory(&engine, &name, Some(b"changed")).await.unwrap();
        world.create(&engine, &format!("Kept {round}")).await.unwrap();
    }
    maintain(&engine).await;
    world.verify(&engine).await;
    engine.close();
    assert!(records(dir, DIRECTORY).len() < 700, "changes left the log");
    world
}

#[tokio::test]
async fn one_damaged_range_costs_nothing() {
    let original = tempfile::tempdir().unwrap();
    let world = passed(original.path()).await;
    let ranges = records(original.path(), RANGE);
    assert!(ranges.len() >= 8, "two passes over four tables");
    for (pack, at) in ranges {
        let dir = tempfile::tempdir().unwrap();
        copy_packs(original.path(), dir.path());
        flip(&dir.path().join("packs").join(pack.file_name().unwrap()), at + 50);
        let lock = EngineLock::acquire(dir.path()).unwrap();
        let report = rebuild(&lock, &options(), Rebuild::Force, &mut |_| {}).unwrap();
        drop(lock);
        assert!(report.faults.len() == 1, "it is reported, and nothing else: {report:?}");
        world.verify_contents(&LmdbEngine::open(dir.path(), options()).unwrap()).await;
    }
}

#[tokio::test]
async fn an_old_index_brings_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    world.create(&engine, "INBOX").await.unwrap();
    let removed = world.create(&engine, "Old").await.unwrap();
    for n in 0..20 {
        world.set_directory(&engine, &format!("account/{n}"), Some(b"old")).await.unwrap();
    }
    engine.close();
    let old = std::fs::read(dir.path().join("index/data.mdb")).unwrap();
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    world.remove(&engine, removed).await.unwrap();
    for n in 0..20 {
        world.set_directory(&engine, &format!("account/{n}"), None).await.unwrap();
    }
    come_and_go(&mut world, &engine, 0..3_000).await;
    engine.close();
    let left = records(dir.path(), DIRECTORY).len();
    assert!(left < 3_000, "the removals left the log: {left} of 6,000 changes");
    std::fs::write(dir.path().join("index/data.mdb"), old).unwrap();
    world::rebuild_whole(dir.path(), &options());
    world.verify(&LmdbEngine::open(dir.path(), options()).unwrap()).await;
}
