//! A snapshot does not change while another process expunges all of it and maintenance removes the
//! packs.
//!
//! The other process is this test binary, started again with `POSTHASTE_TEST_DIR` set and ordered
//! to run `the_other_process` only.

#![allow(clippy::unwrap_used)]

mod world;

use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use posthaste_mail_model::{AccountId, FlagSet, Id};
use posthaste_store::{Counts, DirectoryChange, Engine, MailboxCommit, MailboxHead, StoreError};
use posthaste_store_lmdb::LmdbEngine;

use world::{World, body, maintain, small};

const DIR: &str = "POSTHASTE_TEST_DIR";

fn run_the_other_process(dir: &Path) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_other_process"]).env(DIR, dir);
    assert!(command.status().unwrap().success());
}

/// Expunges everything and maintains to the end.
#[tokio::test]
async fn the_other_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let engine = LmdbEngine::open(Path::new(&dir), small()).unwrap();
    for entry in engine.load_list(AccountId(Id::new(1, 0))).await.unwrap().entries {
        let head = engine.heads(&[entry.id]).await.unwrap().remove(0).unwrap();
        let all = posthaste_mail_model::NumSet::range(1, head.uid_next.value() - 1);
        let modseq = head.modseq.next();
        let commit = MailboxCommit {
            mailbox: entry.id,
            expected: head.modseq,
            head: MailboxHead { modseq, counts: Counts::default(), ..head },
            appended: vec![],
            changed: vec![],
            expunged: vec![(modseq, all)],
        };
        engine.commit(commit).await.unwrap();
    }
    maintain(&engine).await;
}

#[tokio::test]
async fn a_snapshot_stays_what_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let other = world.create(&engine, "other").await.unwrap();
    // Some four packs of 1 MiB.
    for n in 0..80 {
        world.append(&engine, inbox, &[body(n, 50_000), Bytes::new()]).await.unwrap();
    }
    let some: Vec<u32> = (1..60).collect();
    world.copy(&engine, inbox, &some, other).await.unwrap();
    world.flag(&engine, inbox, &some, FlagSet::SEEN).await.unwrap();
    world.set_directory(&engine, "account/1", Some(b"one")).await.unwrap();
    engine.close();

    let first = dir.path().join("packs/00000001.pack");
    assert!(first.exists());
    let snapshot = LmdbEngine::snapshot(dir.path(), small()).unwrap();
    world.verify_contents(&snapshot).await;
    run_the_other_process(dir.path());
    assert!(!first.exists(), "maintenance removed no pack: this test shows nothing");
    world.verify_contents(&snapshot).await;
    let change = DirectoryChange { name: "a".into(), expected: 0, value: Some(Bytes::new()) };
    let refused = snapshot.directory_commit(change).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    drop(snapshot);

    // The next one is of another instant.
    let snapshot = LmdbEngine::snapshot(dir.path(), small()).unwrap();
    let heads = snapshot.heads(&[inbox, other]).await.unwrap();
    assert!(heads.into_iter().flatten().all(|head| head.counts == Counts::default()));
}
