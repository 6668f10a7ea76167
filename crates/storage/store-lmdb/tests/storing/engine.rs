//! The engine as a whole: stored mail is read back, after reopening, maintenance and a rebuild as
//! well.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, FlagSet, Id, ModSeq, Uid};
use posthaste_store::form::{Form, FormHeader};
use posthaste_store::{CommitOutcome, Engine, Holders, StoreError};
use posthaste_store_lmdb::LmdbEngine;

use crate::world::{self, World, body, maintain, rebuild_whole, serve, small};

/// Some of everything.
async fn lived_in(engine: &LmdbEngine) -> World {
    let mut world = World::new();
    let inbox = world.create(engine, "INBOX").await.unwrap();
    let other = world.create(engine, "a/b").await.unwrap();
    let doomed = world.create(engine, "doomed").await.unwrap();
    for n in 0..40 {
        let bodies: Vec<Bytes> = (0..n % 7 + 1).map(|i| body(n * 10 + i, (n * 997) as usize)).collect();
        world.append(engine, inbox, &bodies).await.unwrap();
    }
    let large = body(1, 300_000);
    world.append(engine, inbox, &[large.clone(), Bytes::new(), large]).await.unwrap();
    let uids: Vec<u32> = (1..120).collect();
    world.copy(engine, inbox, &uids, other).await.unwrap();
    world.copy(engine, inbox, &uids[..50], doomed).await.unwrap();
    world.flag(engine, inbox, &uids, FlagSet::SEEN).await.unwrap();
    let odd: Vec<u32> = (1..100).step_by(2).collect();
    world.flag(engine, inbox, &odd, FlagSet::DELETED).await.unwrap();
    world.expunge(engine, inbox, &odd).await.unwrap();
    world.remove(engine, doomed).await.unwrap();
    for n in 0..5 {
        world.set_directory(engine, &format!("account/{n}"), Some(b"one")).await.unwrap();
    }
    world.set_directory(engine, "account/1", Some(b"two")).await.unwrap();
    world.set_directory(engine, "account/2", None).await.unwrap();
    world
}

#[tokio::test]
async fn what_was_put_in_comes_out() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let epoch = engine.epoch();
    let world = lived_in(&engine).await;
    world.verify(&engine).await;
    assert_eq!(engine.epoch(), epoch);
    engine.close();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.verify(&engine).await;
    maintain(&engine).await;
    world.verify(&engine).await;
}

#[tokio::test]
async fn the_index_can_be_made_again_from_the_packs() {
    let dir = tempfile::tempdir().unwrap();
    for maintained in [false, true] {
        let dir = dir.path().join(maintained.to_string());
        let engine = LmdbEngine::open(&dir, small()).unwrap();
        let mut world = lived_in(&engine).await;
        if maintained {
            maintain(&engine).await;
        }
        engine.close();
        std::fs::remove_dir_all(dir.join("index")).unwrap();
        world::rebuild_whole(&dir, &small());
        let engine = LmdbEngine::open(&dir, small()).unwrap();
        world.verify(&engine).await;
        // And it continues from there.
        let inbox = *world.boxes.keys().next().unwrap();
        world.append(&engine, inbox, &[body(1, 5)]).await.unwrap();
        maintain(&engine).await;
        world.verify(&engine).await;
    }
}

#[tokio::test]
async fn a_commit_against_an_old_state_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.append(&engine, inbox, &[body(1, 10)]).await.unwrap();
    let mut stale = world.appending(inbox, &[(BodyId(Id::new(9, 9)), body(2, 10))]);
    stale.expected = ModSeq::ZERO;
    assert_eq!(engine.commit(stale.clone()).await.unwrap(), CommitOutcome::Conflict);
    assert!(engine.read_body(BodyId(Id::new(9, 9)), 0..1).await.is_err());
    let mut lowering = world.appending(inbox, &[]);
    lowering.head.uid_next = Uid::MIN;
    assert!(matches!(engine.commit(lowering).await, Err(StoreError::Refused(_))));
    stale.mailbox = posthaste_mail_model::MailboxId(Id::new(9, 9));
    assert!(matches!(engine.commit(stale).await, Err(StoreError::NoMailbox(_))));
    // A copy of an expunged message.
    let other = world.create(&engine, "other").await.unwrap();
    let before = world.clone();
    world.expunge(&engine, inbox, &[1]).await.unwrap();
    let mut stale = before.clone();
    assert_eq!(stale.copy(&engine, inbox, &[1], other).await.unwrap(), CommitOutcome::Conflict);
    world.verify(&engine).await;
}

#[tokio::test]
async fn commits_that_wait_together_are_one_group_and_each_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let mut boxes = Vec::new();
    for n in 0..20 {
        boxes.push(world.create(&engine, &format!("m{n}")).await.unwrap());
    }
    let shared = BodyId(Id::new(77, 1));
    let mut waiting = Vec::new();
    for mailbox in &boxes {
        let mut commit = world.appending(*mailbox, &[(shared, body(1, 100_000))]);
        commit.head.counts.messages = 1;
        commit.head.counts.unseen = 1;
        commit.head.counts.bytes = 100_000;
        waiting.push(engine.commit(commit.clone()));
        commit.head.counts.messages = 2;
        waiting.push(engine.commit(commit));
    }
    let mut done = 0;
    for outcome in futures_util::future::join_all(waiting).await {
        done += usize::from(outcome.unwrap() == CommitOutcome::Done);
    }
    assert_eq!(done, boxes.len());
    let report = engine.check(&mut |_| {}).await.unwrap();
    assert_eq!(report.faults, [""; 0]);
    let packs: u64 = std::fs::read_dir(dir.path().join("packs"))
        .unwrap()
        .map(|f| f.unwrap().metadata().unwrap().len())
        .sum();
    assert!(packs < 1_000_000, "one body of 100 kB, stored once: {packs}");
}

#[tokio::test]
async fn ranges_of_a_body() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let bytes = body(3, 200_000);
    world.append(&engine, inbox, std::slice::from_ref(&bytes)).await.unwrap();
    let id = world.boxes[&inbox].messages[&1].body;
    for (start, end) in [(0, 1), (0, 65_536), (65_535, 65_537), (131_072, 200_000), (70_000, 70_001), (5, 5)]
    {
        let part = engine.read_body(id, start..end).await.unwrap();
        assert_eq!(part, bytes.slice(start as usize..end as usize));
    }
    assert_eq!(engine.read_body(id, 199_990..u64::MAX).await.unwrap(), bytes.slice(199_990..));
    assert!(engine.read_body(id, 200_000..300_000).await.unwrap().is_empty());
}

#[tokio::test]
async fn packs_are_emptied_and_live_records_move() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for n in 0..60 {
        world.append(&engine, inbox, &[body(n, 100_000)]).await.unwrap();
    }
    let size = || -> u64 {
        std::fs::read_dir(dir.path().join("packs"))
            .unwrap()
            .map(|f| f.unwrap().metadata().unwrap().len())
            .sum()
    };
    let before = size();
    let expunged: Vec<u32> = (1..=60).filter(|n| n % 8 != 0).collect();
    world.expunge(&engine, inbox, &expunged).await.unwrap();
    maintain(&engine).await;
    world.verify(&engine).await;
    assert!(size() < before / 2, "{} of {before}", size());
    engine.close();
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    world::rebuild_whole(dir.path(), &small());
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.verify(&engine).await;
}

#[tokio::test]
async fn a_full_map_refuses_commits_and_reading_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let options = posthaste_store_lmdb::Options { map_bytes: 1 << 20, ..small() };
    let engine = LmdbEngine::open(dir.path(), options).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let refused = loop {
        let bodies: Vec<Bytes> = (0..100).map(|n| body(n, 10)).collect();
        if let Err(error) = world.append(&engine, inbox, &bodies).await {
            break error;
        }
    };
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    world.verify(&engine).await;
}

#[tokio::test]
async fn one_body_many_times_in_one_commit_and_copies_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let other = world.create(&engine, "other").await.unwrap();
    for few in [3, 60] {
        let id = |n: u32| BodyId(Id::new(1 << 44, u128::from(few * 1000 + n % 40)));
        let bodies: Vec<_> = (0..few).map(|n| (id(n), body(n % 40, 500))).collect();
        let commit = world.appending(inbox, &bodies);
        assert_eq!(world.commit(&engine, commit).await.unwrap(), CommitOutcome::Done);
    }
    world.verify(&engine).await;
    world.copy(&engine, inbox, &[50, 1, 2, 3, 9, 40, 41, 8, 60, 61, 63, 4], other).await.unwrap();
    world.copy(&engine, other, &[1, 3, 5, 12, 2], other).await.unwrap();
    world.verify(&engine).await;
    maintain(&engine).await;
    world.verify(&engine).await;
    let all: Vec<u32> = world.boxes[&inbox].messages.keys().copied().collect();
    world.expunge(&engine, inbox, &all).await.unwrap();
    maintain(&engine).await;
    world.verify(&engine).await;
}

/// Summaries that were added later are there after a restart and a kill, also in copies that link
/// to them. A rebuild leaves them to be made again.
#[tokio::test]
async fn added_summaries_survive_a_kill_and_are_made_again_after_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let engine = serve(dir.path(), small());
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let other = world.create(&engine, "other").await.unwrap();
    let mail: Vec<_> = (0..50).map(|n| body(n, 600)).collect();
    world.append(&engine, inbox, &mail[..10]).await.unwrap();
    world.append_bare(&engine, inbox, &mail[10..]).await.unwrap();
    let uids: Vec<u32> = (1..=50).collect();
    world.copy(&engine, inbox, &uids, other).await.unwrap();
    // While the index lacks commits.
    world.flag(&engine, inbox, &uids[..20], FlagSet::SEEN).await.unwrap();
    assert_eq!(world.add_summaries(&engine, inbox).await.unwrap(), 40);
    world.append(&engine, inbox, &mail[..1]).await.unwrap();
    assert_eq!(world.add_summaries(&engine, other).await.unwrap(), 0, "copies share them");
    world.verify(&engine).await;
    engine.kill();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.verify(&engine).await;
    assert_eq!(world.add_summaries(&engine, inbox).await.unwrap(), 0);
    // Copies get their own when the originals go.
    world.expunge(&engine, inbox, &uids[..30]).await.unwrap();
    maintain(&engine).await;
    world.verify(&engine).await;
    assert_eq!(world.add_summaries(&engine, other).await.unwrap(), 0);
    engine.close();
    rebuild_whole(dir.path(), &small());
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.verify(&engine).await;
    assert_eq!(world.add_summaries(&engine, inbox).await.unwrap(), 20);
    assert_eq!(world.add_summaries(&engine, other).await.unwrap(), 40);
    world.verify(&engine).await;
}

/// A body that took another form is there in one form or the other after a crash, and after a
/// rebuild; nothing else changes.
#[tokio::test]
async fn a_body_in_another_form_survives_crash_and_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let (bytes, kept) = (body(1, 300_000), body(2, 5_000));
    let ids = [BodyId(Id::new(77, 1)), BodyId(Id::new(77, 2))];
    let header = FormHeader { form: Form::Plain, served_len: bytes.len() as u32, digest: [0; 8] };
    let other = header.before(b"shorter");
    {
        let engine = serve(dir.path(), small());
        let inbox = world.create(&engine, "INBOX").await.unwrap();
        let new = [(ids[0], bytes.clone()), (ids[1], kept.clone())];
        let mut commit = world.appending(inbox, &new);
        (commit.head.counts.messages, commit.head.counts.unseen) = (2, 2);
        commit.head.counts.bytes = (bytes.len() + kept.len()) as u64;
        assert_eq!(engine.commit(commit).await.unwrap(), CommitOutcome::Done);
        for _ in 0..5 {
            assert_eq!(
                engine.recode(ids[0], other.clone(), Holders::Any).await.unwrap(),
                CommitOutcome::Done
            );
            maintain(&engine).await;
            assert_eq!(
                engine.recode(ids[0], bytes.clone(), Holders::Any).await.unwrap(),
                CommitOutcome::Done
            );
        }
        assert_eq!(engine.recode(ids[0], other.clone(), Holders::Any).await.unwrap(), CommitOutcome::Done);
        engine.kill();
    }
    {
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        assert!(engine.read_body(ids[0], 0..u64::MAX).await.unwrap() == other, "acknowledged");
        assert!(engine.read_body(ids[1], 0..u64::MAX).await.unwrap() == kept);
        assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
        maintain(&engine).await;
        assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
    }
    rebuild_whole(dir.path(), &small());
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let found = engine.read_body(ids[0], 0..u64::MAX).await.unwrap();
    assert!(found == other || found == bytes);
    assert!(engine.read_body(ids[1], 0..u64::MAX).await.unwrap() == kept);
    assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
}

/// One account gave an original up, and another one received it again. Its record is before or
/// after the one without it, since each process has a pack of its own.
#[tokio::test]
async fn a_rebuild_finds_an_original_among_the_records_of_a_body() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let (bytes, id) = (body(1, 5_000), BodyId(Id::new(77, 1)));
    let header = FormHeader { form: Form::Rich, served_len: bytes.len() as u32, digest: [0; 8] };
    let rich = header.before(&bytes);
    {
        let engine = serve(dir.path(), small());
        let inbox = world.create(&engine, "INBOX").await.unwrap();
        let mut commit = world.appending(inbox, &[(id, bytes.clone())]);
        (commit.head.counts.messages, commit.head.counts.unseen) = (1, 1);
        commit.head.counts.bytes = bytes.len() as u64;
        assert_eq!(engine.commit(commit).await.unwrap(), CommitOutcome::Done);
        for form in [&rich, &bytes] {
            assert_eq!(engine.recode(id, form.clone(), Holders::Any).await.unwrap(), CommitOutcome::Done);
        }
        assert!(engine.read_body(id, 0..u64::MAX).await.unwrap() == bytes);
    }
    rebuild_whole(dir.path(), &small());
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    assert!(engine.read_body(id, 0..u64::MAX).await.unwrap() == rich);
    assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
}

/// A rich message of 60 MB, which is converted whole, was read in one poll. The one other thread
/// is busy here.
#[test]
fn a_long_body_is_read_on_another_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async {
        let inbox = world.create(&engine, "INBOX").await.unwrap();
        let large = body(1, 4 << 20);
        world.append(&engine, inbox, &[large.clone(), body(2, 1_000)]).await.unwrap();
        let messages: Vec<_> = world.boxes[&inbox].messages.values().collect();
        let (long, short) = (messages[0].body, messages[1].body);
        let busy = tokio::task::spawn_blocking(move || wait.recv().unwrap());
        assert!(engine.read_body(long, 100..1 << 20).await.unwrap() == large[100..1 << 20]);
        assert_eq!(engine.read_body(short, 0..u64::MAX).await.unwrap(), body(2, 1_000));
        let mut whole = engine.read_body(long, 0..u64::MAX);
        assert!(poll_fn(|cx| Poll::Ready(whole.as_mut().poll(cx).is_pending())).await);
        go.send(()).unwrap();
        busy.await.unwrap();
        assert!(whole.await.unwrap() == large);
    });
}
