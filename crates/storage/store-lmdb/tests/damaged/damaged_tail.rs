//! Damage in the part of the log that the index does not have yet. After a crash, that part is
//! the last batches. With an old index it is all later batches. The commits after it were
//! acknowledged.

use std::path::{Path, PathBuf};

use posthaste_mail_model::{MailboxId, Uid};
use posthaste_store::{Engine, Row, StoreError};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Rebuild, rebuild};

use crate::world::disk::{Failing, Sync};
use crate::world::{World, body, flip, records, serve, small};

const BODY: u8 = 1;
const COMMIT: u8 = 2;
/// Messages that the index has, and messages after its end, each in its own batch.
const KNOWN: u32 = 2;
const LATER: u32 = 6;

#[derive(Debug, Clone, Copy)]
enum Damage {
    /// A bit of the record's head.
    Head,
    /// A bit of its content.
    Content,
    /// The disk lost the sectors of the record.
    Sectors,
}

fn pack(dir: &Path) -> PathBuf {
    dir.join("packs/00000001.pack")
}

/// A closed store whose index lacks the last messages; its contents with and without the last one.
async fn behind(dir: &Path) -> (World, MailboxId, World) {
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for n in 0..KNOWN {
        world.append(&engine, inbox, &[body(n, 900)]).await.unwrap();
    }
    engine.close();
    let saved = std::fs::read(dir.join("index/data.mdb")).unwrap();
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut before_last = world.clone();
    for n in KNOWN..KNOWN + LATER {
        before_last = world.clone();
        world.append(&engine, inbox, &[body(n, 1_500)]).await.unwrap();
    }
    engine.close();
    std::fs::write(dir.join("index/data.mdb"), saved).unwrap();
    (world, inbox, before_last)
}

fn damage(dir: &Path, at: usize, damage: Damage) {
    match damage {
        Damage::Head => flip(&pack(dir), at + 12),
        Damage::Content => flip(&pack(dir), at + 56),
        Damage::Sectors => {
            let first = at / 512 * 512;
            lose(dir, first, first + 1024);
        }
    }
}

fn lose(dir: &Path, from: usize, to: usize) {
    let mut bytes = std::fs::read(pack(dir)).unwrap();
    bytes[from..to].fill(0);
    std::fs::write(pack(dir), bytes).unwrap();
}

async fn uids(engine: &LmdbEngine, mailbox: MailboxId) -> Vec<u32> {
    let mut uids = Vec::new();
    let mut note = |rows: &[Row]| {
        uids.extend(rows.iter().map(|row| row.uid().value()));
    };
    engine.load(mailbox, &mut note).await.unwrap();
    uids
}

#[tokio::test]
async fn an_opening_does_not_end_the_log_at_damage_that_acknowledged_commits_follow() {
    for kind in [BODY, COMMIT] {
        for hit in KNOWN..KNOWN + LATER - 1 {
            for how in [Damage::Head, Damage::Content, Damage::Sectors] {
                let dir = tempfile::tempdir().unwrap();
                let (mut world, inbox, _) = behind(dir.path()).await;
                damage(dir.path(), records(dir.path(), kind)[hit as usize].1, how);
                let packs = std::fs::read(pack(dir.path())).unwrap();
                for _ in 0..2 {
                    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
                    let refusal = world.append(&engine, inbox, &[body(90, 100)]).await.unwrap_err();
                    assert!(matches!(refusal, StoreError::Corrupt(_)), "{refusal}");
                    assert!(world.append(&engine, inbox, &[body(91, 100)]).await.is_err());
                    let text = refusal.to_string();
                    assert!(
                        text.contains("damaged at byte") && text.contains("check --rebuild"),
                        "{kind} {hit} {how:?}: {text}"
                    );
                    engine.close();
                }
                assert!(std::fs::read(pack(dir.path())).unwrap() == packs, "the log stays as it is");
                let lock = EngineLock::acquire(dir.path()).unwrap();
                let report = rebuild(&lock, &small(), Rebuild::Force, &mut |_| {}).unwrap();
                assert!(!report.faults.is_empty());
                drop(lock);
                // Only the message of the damaged record is lost, and no UID is given twice.
                let engine = LmdbEngine::open(dir.path(), small()).unwrap();
                let found = uids(&engine, inbox).await;
                let last = KNOWN + LATER;
                assert!(found.contains(&last), "{kind} {hit} {how:?}: {found:?}");
                assert!(found.len() as u32 >= last - 2, "{kind} {hit} {how:?}: {found:?}");
                let head = engine.heads(&[inbox]).await.unwrap().remove(0).unwrap();
                assert!(head.uid_next > Uid::new(last).unwrap(), "{:?}", head.uid_next);
            }
        }
    }
}

/// The pages of a tail that a process left may never have been synced, or their sync may have
/// failed. An index that names them must not reach the disk before they do.
#[tokio::test]
async fn a_redo_writes_and_syncs_the_tail_before_the_index_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox, _) = behind(dir.path()).await;
    let before = std::fs::read(dir.path().join("index/data.mdb")).unwrap();
    let last = records(dir.path(), COMMIT).last().unwrap().1 as u64;
    let tail = records(dir.path(), BODY)[KNOWN as usize].1 as u64;
    let disk = Failing::default();
    disk.plan([Sync::SavesIndex(dir.path().to_owned())]);
    let engine = LmdbEngine::open(dir.path(), disk.options()).unwrap();
    // The first sync of a pack is that of the tail: all of it was written again, and the index
    // was the old one.
    let synced = disk.synced.lock()[0];
    let writes = disk.writes.lock()[..synced].to_vec();
    assert_eq!(writes.first().map(|write| write.0), Some(tail), "{writes:?}");
    assert!(writes.last().is_some_and(|write| write.1 > last), "{writes:?}");
    assert!(writes.windows(2).all(|pair| pair[0].1 == pair[1].0), "{writes:?}");
    let pages = |index: &[u8]| index.iter().rposition(|b| *b != 0).map_or(0, |at| at / 4096);
    let saved = std::fs::read(dir.path().join("saved.mdb")).unwrap();
    assert_eq!(saved[..8192], before[..8192], "the meta pages at that moment");
    assert!(pages(&saved) >= pages(&before));
    world.verify(&engine).await;
    assert_eq!(uids(&engine, inbox).await.len() as u32, KNOWN + LATER);
}

/// A crash cut off the last batch, which was not acknowledged. The store opens without it.
#[tokio::test]
async fn a_last_batch_that_a_crash_tore_is_given_up() {
    for kind in [BODY, COMMIT] {
        let dir = tempfile::tempdir().unwrap();
        let (_, inbox, mut before_last) = behind(dir.path()).await;
        // The batch before it was synced: the sector that both share has that part.
        let at = records(dir.path(), kind).last().unwrap().1;
        lose(dir.path(), at, (at + 1).next_multiple_of(512));
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        before_last.verify_contents(&engine).await;
        before_last.append(&engine, inbox, &[body(90, 100)]).await.unwrap();
        before_last.verify(&engine).await;
    }
}

/// A transaction with acknowledged commits is lost, and they are damaged in the pack. Another
/// commit would overwrite them.
#[tokio::test]
async fn nothing_is_written_while_an_acknowledged_commit_cannot_be_redone() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Failing::default();
    let engine = serve(dir.path(), disk.options());
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.append(&engine, inbox, &[body(1, 700)]).await.unwrap();
    world.append(&engine, inbox, &[body(2, 700)]).await.unwrap();
    let (pack, at) = records(dir.path(), COMMIT).last().unwrap().clone();
    flip(&pack, at + 60);
    // The open transaction is lost with the commit whose sync fails.
    disk.plan([Sync::Fails]);
    let refused = world.clone().append(&engine, inbox, &[body(3, 700)]).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    for n in 4..7 {
        let refused = world.clone().append(&engine, inbox, &[body(n, 700)]).await.unwrap_err().to_string();
        assert!(refused.contains("is damaged, and nothing is written"), "{refused}");
    }
    flip(&pack, at + 60);
    world.append(&engine, inbox, &[body(7, 700)]).await.unwrap();
    world.verify(&engine).await;
}
