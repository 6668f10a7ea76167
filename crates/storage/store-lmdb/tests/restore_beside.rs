//! A restore into a store that others use: a server that takes deliveries and maintains the store,
//! an import by another process, and a second restore.

#![allow(clippy::unwrap_used)]

mod world;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_mail_model::{AccountId, FlagSet, Id, MailboxId};
use posthaste_store::{Compare, Engine, TargetIds, Transfer};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options};

use world::{World, body, maintain, rebuild_whole, small};

const DIR: &str = "POSTHASTE_TEST_IMPORT_DIR";
const IMPORTED: u32 = 200;

/// Runs as another process: an import into an account of its own.
#[tokio::test]
async fn the_import() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let engine = LmdbEngine::open(Path::new(&dir), small()).unwrap();
    let mut world = World::of_account(3);
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for n in 0..IMPORTED {
        world.append(&engine, inbox, &[body(n, 3_000)]).await.unwrap();
        world.set_directory(&engine, &format!("imported/{n:04}"), Some(b"a digest")).await.unwrap();
    }
    world.verify_contents(&engine).await;
}

/// An account with mail that has flags, was copied and expunged.
async fn lived_in(engine: &LmdbEngine, n: u64) -> World {
    let mut world = World::of_account(n);
    let inbox = world.create(engine, "INBOX").await.unwrap();
    let other = world.create(engine, "Other").await.unwrap();
    for round in 0..12 {
        let bodies: Vec<_> = (0..50).map(|at| body(round * 100 + at, 2_000)).collect();
        world.append(engine, inbox, &bodies).await.unwrap();
    }
    let uids: Vec<u32> = (1..=600).collect();
    world.copy(engine, inbox, &uids[100..300], other).await.unwrap();
    world.flag(engine, inbox, &uids[50..150], FlagSet::SEEN).await.unwrap();
    world.expunge(engine, inbox, &uids[200..400]).await.unwrap();
    world
}

/// Other ids for an account.
fn targets(world: &World, n: u64) -> TargetIds {
    let ids = world.list.entries.iter().zip(1..).map(|(e, at)| (e.id, MailboxId(Id::new(n << 32, at))));
    TargetIds::with_ids(AccountId(Id::new(n, 1)), ids.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_is_whole_beside_deliveries_an_import_maintenance_and_another_restore() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = LmdbEngine::open(from.path(), small()).unwrap();
    let lost = [lived_in(&backup, 1).await, lived_in(&backup, 2).await];
    let lock = EngineLock::acquire(to.path()).unwrap().into();
    let options = Options { checkpoint_within: Duration::from_millis(10), ..small() };
    let server = LmdbEngine::serve(lock, options).unwrap();
    let mut others = World::of_account(9);
    let inbox = others.create(&server, "INBOX").await.unwrap();
    let mut import = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_import"])
        .env(DIR, to.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();

    let is_over = AtomicBool::new(false);
    let deliveries = async {
        let mut n = 0;
        while !is_over.load(Ordering::Acquire) || n < 60 {
            others.append(&server, inbox, &[body(n, 5_000), body(n + 1, 5_000)]).await.unwrap();
            n += 2;
            others.expunge(&server, inbox, &[n]).await.unwrap();
        }
    };
    let maintenance = async {
        let mut rounds = 0;
        while !is_over.load(Ordering::Acquire) || rounds < 20 {
            assert_eq!(server.maintain().await.unwrap().faults, [""; 0]);
            rounds += 1;
            tokio::task::yield_now().await;
        }
    };
    let restored = |at: usize| {
        let transfer = Transfer::new(&backup, &server).to_targets(targets(&lost[at], 11 + at as u64));
        let account = lost[at].list.account;
        async move {
            let mut copied = 0;
            transfer.copy(account, &mut |n| copied += n).await.unwrap();
            assert_eq!(copied, transfer.messages(account).await.unwrap());
            assert_eq!(transfer.audit(account, Compare::All, &mut |_| {}).await.unwrap(), [""; 0]);
        }
    };
    let restores = async {
        tokio::join!(restored(0), restored(1));
        while import.try_wait().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        is_over.store(true, Ordering::Release);
    };
    tokio::join!(deliveries, maintenance, restores);

    assert!(import.wait().unwrap().success(), "the import");
    for at in 0..2 {
        restored(at).await;
    }
    // The import has the directory.
    let imported = server.directory_scan("imported/", None, usize::MAX).await.unwrap();
    assert_eq!(imported.len(), IMPORTED as usize);
    others.directory = imported.into_iter().map(|e| (e.name, (e.version, e.value))).collect();
    others.verify(&server).await;
    maintain(&server).await;
    others.verify(&server).await;
    server.close();
    rebuild_whole(to.path(), &small());
    let after = LmdbEngine::open(to.path(), small()).unwrap();
    others.verify(&after).await;
    for (lost, n) in lost.iter().zip(11..) {
        let transfer = Transfer::new(&backup, &after).to_targets(targets(lost, n));
        let faults = transfer.audit(lost.list.account, Compare::All, &mut |_| {}).await.unwrap();
        assert_eq!(faults, [""; 0]);
    }
}
