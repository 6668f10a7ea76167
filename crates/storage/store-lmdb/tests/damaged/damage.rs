//! Damage in a body, a summary, a row or a pack is reported and never served. The simulator's sweep
//! damages every region of a store.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use posthaste_mail_model::{BodyId, Id, MailboxId, NumSet};
use posthaste_store::compressed::compress;
use posthaste_store::{CommitOutcome, Engine, Row, StoreError, Stored};
use posthaste_store_lmdb::LmdbEngine;

use crate::world::{self, World, body, small, summarize};

/// A closed store with one mailbox of 300 messages.
async fn store(dir: &Path) -> (World, MailboxId) {
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let bodies: Vec<_> = (0..300).map(|n| body(1_000 + n, 900)).collect();
    world.append(&engine, inbox, &bodies).await.unwrap();
    world.verify(&engine).await;
    (world, inbox)
}

/// Flips a bit in every copy of `what` in a file.
fn damage(path: &Path, what: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<usize> =
        bytes.windows(what.len()).enumerate().filter(|(_, w)| *w == what).map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "nothing to damage");
    for at in places {
        bytes[at + what.len() / 2] ^= 0x04;
    }
    std::fs::write(path, bytes).unwrap();
}

fn index_file(dir: &Path) -> PathBuf {
    dir.join("index/data.mdb")
}

fn first_pack(dir: &Path) -> PathBuf {
    dir.join("packs/00000001.pack")
}

async fn faults(engine: &LmdbEngine) -> Vec<String> {
    engine.check(&mut |_| {}).await.unwrap().faults
}

async fn repair(dir: &Path, world: &World) {
    world::rebuild_whole(dir, &small());
    let engine = LmdbEngine::open(dir, small()).unwrap();
    world.verify(&engine).await;
}

/// A check reports a compressed body that cannot be decompressed, although its record is intact. It
/// reports nothing about a valid body.
#[tokio::test]
async fn a_body_that_cannot_be_decompressed() {
    let served = body(7, 300_000);
    let stored = compress(&served).unwrap();
    let mut damaged = stored.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    for (stored, expected) in [(stored, None), (damaged.into(), Some("a compressed frame is damaged"))] {
        let dir = tempfile::tempdir().unwrap();
        let mut world = World::new();
        let engine = world::serve(dir.path(), small());
        let inbox = world.create(&engine, "INBOX").await.unwrap();
        let mut commit = world.appending(inbox, &[(BodyId(Id::new(77, 1)), stored.clone())]);
        let message = &mut commit.appended[0];
        let row = message.row;
        message.row = Row::new(row.uid(), served.len() as u32, row.date(), row.flags(), row.modseq());
        (commit.head.counts.messages, commit.head.counts.unseen) = (1, 1);
        commit.head.counts.bytes = served.len() as u64;
        assert_eq!(engine.commit(commit).await.unwrap(), CommitOutcome::Done);
        engine.kill();
        for _ in 0..2 {
            let engine = LmdbEngine::open(dir.path(), small()).unwrap();
            assert!(engine.read_body(BodyId(Id::new(77, 1)), 0..u64::MAX).await.unwrap() == stored);
            let faults = faults(&engine).await;
            assert_eq!(faults.len(), usize::from(expected.is_some()), "{faults:?}");
            assert!(expected.is_none_or(|expected| faults[0].ends_with(expected)), "{faults:?}");
            engine.close();
            world::rebuild_whole(dir.path(), &small());
        }
    }
}

#[tokio::test]
async fn damage_in_a_body_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    damage(&first_pack(dir.path()), b"Message 1123, byte for byte. Message 1123");
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut refused = 0;
    for message in world.boxes[&inbox].messages.values() {
        match engine.read_body(message.body, 0..u64::MAX).await {
            Ok(bytes) => assert_eq!(bytes, message.bytes),
            Err(StoreError::Corrupt(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(refused, 1);
    let faults = faults(&engine).await;
    assert!(faults.len() == 1 && faults[0].contains("pack 1 at byte"), "{faults:?}");
}

#[tokio::test]
async fn a_damaged_summary_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    let bytes = &world.boxes[&inbox].messages[&200].bytes;
    damage(&index_file(dir.path()), &summarize(bytes));
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut seen = Vec::new();
    let mut visit = |stored: Stored<'_>| {
        seen.push((stored.uid.value(), stored.summary.to_vec()));
        ControlFlow::Continue(())
    };
    engine.summaries(inbox, &NumSet::range(1, 300), &mut visit).await.unwrap().refuse().unwrap();
    // The summary is made again from the body.
    let held = world.boxes[&inbox].messages.iter();
    assert!(seen.into_iter().eq(held.map(|(uid, m)| (*uid, summarize(&m.bytes)))));
    assert!(faults(&engine).await.iter().any(|f| f.contains("UID 200")));
    engine.close();
    repair(dir.path(), &world).await;
}

#[tokio::test]
async fn damage_in_a_row_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    damage(&index_file(dir.path()), &world.boxes[&inbox].messages[&250].row.to_bytes());
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let error = engine.load(inbox, &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert!(!faults(&engine).await.is_empty());
    engine.close();
    repair(dir.path(), &world).await;
}

#[tokio::test]
async fn a_pack_cut_short_or_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    let pack = std::fs::OpenOptions::new().write(true).open(first_pack(dir.path())).unwrap();
    pack.set_len(200_000).unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let last = &world.boxes[&inbox].messages[&300];
    assert!(matches!(engine.read_body(last.body, 0..10).await, Err(StoreError::Corrupt(_))));
    assert!(!faults(&engine).await.is_empty());
}

#[tokio::test]
async fn a_missing_pack_among_others() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.append(&engine, inbox, &[body(1, 1_500_000)]).await.unwrap();
    world.append(&engine, inbox, &[body(2, 10)]).await.unwrap();
    engine.close();
    std::fs::remove_file(first_pack(dir.path())).unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let old = &world.boxes[&inbox].messages[&300];
    assert!(matches!(engine.read_body(old.body, 0..10).await, Err(StoreError::Corrupt(_))));
    assert!(faults(&engine).await.iter().any(|f| f.contains("pack 1 cannot be opened")));
    // Mail outside that pack is still served.
    world.append(&engine, inbox, &[body(3, 10)]).await.unwrap();
    let new = world.boxes[&inbox].messages[&303].body;
    assert_eq!(engine.read_body(new, 0..10).await.unwrap(), body(3, 10));
}
