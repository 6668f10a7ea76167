//! Checkpoints of mailboxes keep the log as large as the store, and a rebuild from them equals one
//! from all commits.

use std::sync::Arc;

use posthaste_mail_model::{BodyId, FlagSet, Id, MailboxId, ModSeq};
use posthaste_store::{CommitOutcome, Engine, MailboxCommit};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, Rebuild, rebuild};
use tokio::task::JoinSet;

use crate::world::{Held, World, body, flip, maintain, packs_len, rebuilt_equals, records, serve, small};

/// The kinds of records that the tests look for.
const COMMIT: u8 = 2;
const CHECKPOINT: u8 = 9;

/// Everything that commits can do, on three mailboxes, `rounds` times, with maintenance between.
async fn busy(engine: &LmdbEngine, world: &mut World, rounds: u32) -> [MailboxId; 3] {
    let mut boxes = Vec::new();
    for name in ["INBOX", "Other", "Third"] {
        boxes.push(world.create(engine, name).await.unwrap());
    }
    let [inbox, other, third] = boxes.try_into().unwrap();
    for n in 0..rounds {
        let bodies: Vec<_> = (0..3).map(|i| body(n * 3 + i, 300)).collect();
        world.append(engine, inbox, &bodies).await.unwrap();
        let uids: Vec<u32> = world.boxes[&inbox].messages.keys().copied().collect();
        let [first, .., last] = uids[..] else { panic!("messages were appended") };
        for flags in [FlagSet::SEEN, FlagSet::EMPTY, FlagSet::FLAGGED] {
            world.flag(engine, inbox, &uids, flags).await.unwrap();
        }
        world.copy(engine, inbox, &uids, other).await.unwrap();
        world.move_messages(engine, inbox, &[first], third).await.unwrap();
        let there: Vec<u32> = world.boxes[&other].messages.keys().copied().take(3).collect();
        world.expunge(engine, other, &there).await.unwrap();
        world.flag(engine, inbox, &[last], FlagSet::DELETED).await.unwrap();
        if n % 3 == 2 {
            maintain(engine).await;
        }
    }
    [inbox, other, third]
}

#[tokio::test]
async fn a_rebuild_from_checkpoints_equals_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { pack_bytes: 30_000, ..small() };
    let mut world = World::new();
    let engine = LmdbEngine::open(dir.path(), options.clone()).unwrap();
    let [inbox, other, _] = busy(&engine, &mut world, 30).await;
    world.verify(&engine).await;
    engine.close();
    let many = records(dir.path(), CHECKPOINT).len();
    assert!(many >= 3, "{many} checkpoints");
    rebuilt_equals(dir.path(), &world, &options).await;

    // The rebuilt index continues from there.
    let engine = LmdbEngine::open(dir.path(), options.clone()).unwrap();
    world.remove(&engine, other).await.unwrap();
    for _ in 0..200 {
        world.flag(&engine, inbox, &[3], FlagSet::SEEN).await.unwrap();
        world.flag(&engine, inbox, &[3], FlagSet::EMPTY).await.unwrap();
    }
    maintain(&engine).await;
    world.verify(&engine).await;
    engine.close();
    rebuilt_equals(dir.path(), &world, &options).await;
}

/// A transfer brings messages that have changed since they came, and messages of which nobody knows
/// when they came.
#[tokio::test]
async fn a_kill_a_checkpoint_and_a_rebuild_keep_first_mod_sequences() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let engine = serve(dir.path(), small());
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for n in 0..3 {
        world.append(&engine, inbox, &[body(n, 300)]).await.unwrap();
    }
    let new = [3, 4].map(|n| (BodyId(Id::new(77, u128::from(n))), body(n, 300)));
    let mut commit = world.appending(inbox, &new);
    commit.appended[0].created = ModSeq::new(2).unwrap();
    commit.appended[1].created = ModSeq::ZERO;
    world.commit(&engine, commit).await.unwrap();
    engine.kill();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.verify(&engine).await;
    engine.close();
    rebuilt_equals(dir.path(), &world, &small()).await;

    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    for flags in [FlagSet::SEEN, FlagSet::EMPTY].into_iter().cycle().take(100) {
        world.flag(&engine, inbox, &[2, 4, 5], flags).await.unwrap();
    }
    maintain(&engine).await;
    engine.close();
    assert!(!records(dir.path(), CHECKPOINT).is_empty());
    rebuilt_equals(dir.path(), &world, &small()).await;
}

/// The `n`th change of one flag of one of this many messages: every message gets \Seen and loses
/// it, in turns.
fn flag_one(held: &mut Held, mailbox: MailboxId, n: u32, messages: u32) -> MailboxCommit {
    let expected = held.head.modseq;
    held.head.modseq = expected.next();
    let is_seen = (n / messages).is_multiple_of(2);
    let flags = if is_seen { FlagSet::SEEN } else { FlagSet::EMPTY };
    held.head.counts.unseen = held.head.counts.unseen + 1 - 2 * u32::from(is_seen);
    let message = held.messages.get_mut(&(n % messages + 1)).unwrap();
    message.row = message.row.with_flags(flags, held.head.modseq);
    let (head, changed) = (held.head.clone(), vec![message.row]);
    MailboxCommit { mailbox, expected, head, appended: vec![], changed, expunged: vec![] }
}

#[tokio::test]
async fn the_log_of_a_hundred_thousand_changes_is_as_large_as_the_store() {
    const MESSAGES: u32 = 100;
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { pack_bytes: 1 << 20, checkpoint_from: 16 << 10, ..small() };
    let mut world = World::new();
    let lock = Arc::new(EngineLock::acquire(dir.path()).unwrap());
    let engine = LmdbEngine::serve(lock, options()).unwrap();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let bodies: Vec<_> = (0..MESSAGES).map(|n| body(n, 500)).collect();
    world.append(&engine, inbox, &bodies).await.unwrap();
    let engine = Arc::new(engine);
    for batch in 0..1_000 {
        let mut answers = JoinSet::new();
        for n in batch * 100..(batch + 1) * 100 {
            let commit = flag_one(world.boxes.get_mut(&inbox).unwrap(), inbox, n, MESSAGES);
            let engine = Arc::clone(&engine);
            answers.spawn(async move { engine.commit(commit).await.unwrap() });
        }
        assert!(answers.join_all().await.iter().all(|outcome| *outcome == CommitOutcome::Done));
        if batch % 5 == 4 {
            maintain(&engine).await;
        }
    }
    maintain(&engine).await;
    drop(engine);
    // A checkpoint has 54 octets a message. It is due after four times as many octets of commits
    // (at least 16 KiB, 120 octets each). Maintenance runs after 500 commits more at the latest.
    let replayed = records(dir.path(), COMMIT).len();
    let commits_max = 4 * (54 * MESSAGES as usize).max(16 << 10) / 120 + 500;
    assert!(replayed <= 3 * commits_max, "{replayed} commits are left of 100,000");
    // Packs of bodies and log are compacted when they are half dead and 256 KiB of them are.
    let bytes = packs_len(dir.path());
    assert!(bytes < 2 << 20, "{bytes} octets for {MESSAGES} messages of 500");
    rebuilt_equals(dir.path(), &world, &options()).await;
}

#[tokio::test]
async fn a_damaged_checkpoint_costs_nothing_while_the_commits_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    busy(&engine, &mut world, 4).await;
    engine.close();
    let checkpoints = records(dir.path(), CHECKPOINT);
    assert!(!checkpoints.is_empty());
    for (pack, at) in checkpoints {
        flip(&pack, at + 60);
    }
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    assert!(!engine.check(&mut |_| {}).await.unwrap().faults.is_empty(), "check finds it");
    engine.close();
    let lock = EngineLock::acquire(dir.path()).unwrap();
    let report = rebuild(&lock, &small(), Rebuild::Force, &mut |_| {}).unwrap();
    drop(lock);
    assert!(report.faults.iter().all(|fault| fault.contains("a checkpoint of mailbox")), "{report:?}");
    world.verify_contents(&LmdbEngine::open(dir.path(), small()).unwrap()).await;
}

#[tokio::test]
async fn a_damaged_checkpoint_concerns_its_mailbox_alone() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { pack_bytes: 20_000, ..small() };
    let mut world = World::new();
    let engine = LmdbEngine::open(dir.path(), options.clone()).unwrap();
    let quiet = world.create(&engine, "Quiet").await.unwrap();
    world.append(&engine, quiet, &[body(1, 200)]).await.unwrap();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.append(&engine, inbox, &[body(2, 200), body(3, 200)]).await.unwrap();
    for n in 0..3_000 {
        let flags = if n % 2 == 0 { FlagSet::SEEN } else { FlagSet::EMPTY };
        world.flag(&engine, inbox, &[1], flags).await.unwrap();
        if n % 100 == 99 {
            maintain(&engine).await;
        }
    }
    engine.close();
    let before = records(dir.path(), COMMIT).len();
    assert!(before < 1_000, "{before} commits: the older ones were dropped");
    for (pack, at) in records(dir.path(), CHECKPOINT) {
        flip(&pack, at + 60);
    }
    let uid_validity = |list: &posthaste_store::MailboxList, id| {
        list.entries.iter().find(|entry| entry.id == id).unwrap().uid_validity
    };

    // With the old index, its mailbox is taken from there.
    let lock = EngineLock::acquire(dir.path()).unwrap();
    let report = rebuild(&lock, &options, Rebuild::Force, &mut |_| {}).unwrap();
    drop(lock);
    assert!(report.faults.iter().any(|fault| fault.contains("a checkpoint of mailbox")), "{report:?}");
    world.verify_contents(&LmdbEngine::open(dir.path(), options.clone()).unwrap()).await;

    // Without it, the mailbox is reported, and no client takes one message for another.
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let lock = EngineLock::acquire(dir.path()).unwrap();
    let report = rebuild(&lock, &options, Rebuild::Force, &mut |_| {}).unwrap();
    drop(lock);
    let named = |id: MailboxId| report.faults.iter().any(|fault| fault.contains(&format!("mailbox {id}")));
    assert!(named(inbox) && !named(quiet), "{report:?}");
    let engine = LmdbEngine::open(dir.path(), options.clone()).unwrap();
    let list = engine.load_list(world.list.account).await.unwrap();
    assert_ne!(uid_validity(&list, inbox), uid_validity(&world.list, inbox));
    assert_eq!(uid_validity(&list, quiet), uid_validity(&world.list, quiet));
    assert_eq!(engine.heads(&[quiet]).await.unwrap(), [Some(world.boxes[&quiet].head.clone())]);
}
