//! A crash while maintenance copies a pack that is mostly dead, and the loss of the index.

use std::path::{Path, PathBuf};

use posthaste_mail_model::MailboxId;
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, Rebuild, rebuild};

use crate::world::{World, body, maintain, records, small};

const BODY: u8 = 1;
const RETIRE: u8 = 6;

fn pack(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("packs/{number:08}.pack"))
}

/// Where the records of a kind begin in the second pack.
fn copies(dir: &Path, kind: u8) -> Vec<usize> {
    let second = pack(dir, 2);
    let mut offsets: Vec<usize> = records(dir, kind)
        .into_iter()
        .filter(|(path, _)| *path == second)
        .map(|(_, offset)| offset)
        .collect();
    offsets.sort_unstable();
    offsets
}

enum First {
    /// The removal of its file was lost in the crash.
    Kept,
    Removed,
}

/// A closed store whose first pack maintenance has just copied to the second one. A part of the
/// second copy is lost.
async fn torn(dir: &Path, first: First) -> (World, MailboxId) {
    let options = Options { pack_bytes: 20_000, checkpoint_from: 1 << 30, ..small() };
    let engine = LmdbEngine::open(dir, options).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let bodies = [body(0, 900), body(1, 2_000), body(2, 900), body(3, 20_000)];
    world.append(&engine, inbox, &bodies).await.unwrap();
    world.expunge(&engine, inbox, &[4]).await.unwrap();
    let before = std::fs::read(pack(dir, 1)).unwrap();
    maintain(&engine).await;
    engine.close();
    assert!(!pack(dir, 1).exists());
    assert_eq!((copies(dir, BODY).len(), copies(dir, RETIRE).len()), (3, 1));
    if let First::Kept = first {
        std::fs::write(pack(dir, 1), before).unwrap();
    }
    let mut bytes = std::fs::read(pack(dir, 2)).unwrap();
    bytes[copies(dir, BODY)[1] + 1_000..][..500].fill(0);
    std::fs::write(pack(dir, 2), bytes).unwrap();
    (world, inbox)
}

/// Seed 20012464 of the simulator. The record that retires the pack was whole. Nothing is lost: the
/// pack is still there.
#[tokio::test]
async fn a_torn_round_of_maintenance_stays_out_where_the_index_is_lost() {
    // Another process may have made the next pack and not written to it.
    for has_next in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (mut world, inbox) = torn(dir.path(), First::Kept).await;
        if has_next {
            std::fs::write(pack(dir.path(), 3), b"").unwrap();
        }
        world.lose_index_twice(dir.path(), inbox, 20).await;
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        maintain(&engine).await;
        world.verify(&engine).await;
    }
}

/// The pack was removed, so the round was committed.
#[tokio::test]
async fn a_damaged_copy_of_a_body_that_is_nowhere_else_is_a_fault() {
    let dir = tempfile::tempdir().unwrap();
    torn(dir.path(), First::Removed).await;
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let lock = EngineLock::acquire(dir.path()).unwrap();
    let faults = rebuild(&lock, &small(), Rebuild::UnlessFaulty, &mut |_| {}).unwrap().faults;
    assert_eq!(faults.len(), 1, "the other copies are whole: {faults:?}");
    assert!(faults[0].contains("checksum does not match"), "{faults:?}");
}
