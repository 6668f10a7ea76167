//! The packs are complete, but the index is missing, empty or old, or the file `format` is lost
//! or damaged. The store is not opened, or is brought up to date. No mail is lost.

use std::path::Path;

use posthaste_mail_model::MailboxId;
use posthaste_store::Engine;
use posthaste_store_lmdb::LmdbEngine;

use crate::world::{self, World, body, maintain, small};

/// A closed store of several packs and its contents.
async fn store(dir: &Path) -> (World, MailboxId) {
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for n in 0..4 {
        world.append(&engine, inbox, &[body(n, 600_000), body(n, 700)]).await.unwrap();
    }
    (world, inbox)
}

fn refusal(dir: &Path) -> String {
    LmdbEngine::open(dir, small()).unwrap_err().to_string()
}

fn packs(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir.join("packs")).unwrap();
    let mut names: Vec<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn repaired(dir: &Path, world: &World) {
    world::rebuild_whole(dir, &small());
    world.verify(&LmdbEngine::open(dir, small()).unwrap()).await;
}

#[tokio::test]
async fn a_missing_index_is_not_replaced_by_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _) = store(dir.path()).await;
    let there = packs(dir.path());
    for lost in ["index", "index/data.mdb"] {
        let path = dir.path().join(lost);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap()
        } else {
            std::fs::remove_file(path).unwrap()
        }
        for _ in 0..3 {
            let refusal = refusal(dir.path());
            assert!(refusal.contains("index/data.mdb is missing"), "{refusal}");
            assert!(refusal.contains("posthaste check --rebuild"), "{refusal}");
        }
        assert_eq!(packs(dir.path()), there);
        repaired(dir.path(), &world).await;
    }
}

#[tokio::test]
async fn an_empty_index_beside_full_packs_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _) = store(dir.path()).await;
    let other = tempfile::tempdir().unwrap();
    LmdbEngine::open(other.path(), small()).unwrap().close();
    std::fs::copy(other.path().join("index/data.mdb"), dir.path().join("index/data.mdb")).unwrap();
    let there = packs(dir.path());
    let refusal = refusal(dir.path());
    assert!(refusal.contains("holds mail that the index does not know"), "{refusal}");
    assert_eq!(packs(dir.path()), there);
    repaired(dir.path(), &world).await;
}

#[tokio::test]
async fn missing_packs_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _) = store(dir.path()).await;
    let (packs, away) = (dir.path().join("packs"), dir.path().join("away"));
    std::fs::rename(&packs, &away).unwrap();
    assert!(refusal(dir.path()).contains("packs/ is missing"));
    std::fs::create_dir(&packs).unwrap();
    assert!(refusal(dir.path()).contains("none of the"), "an empty mount point");
    std::fs::remove_dir(&packs).unwrap();
    std::fs::rename(&away, &packs).unwrap();
    world.verify(&LmdbEngine::open(dir.path(), small()).unwrap()).await;
}

#[tokio::test]
async fn an_old_index_that_lacks_packs_is_refused_and_a_rebuild_finds_all() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let index = dir.path().join("index/data.mdb");
    let backup = std::fs::read(&index).unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.append(&engine, inbox, &[body(7, 1_500_000)]).await.unwrap();
    world.append(&engine, inbox, &[body(8, 10)]).await.unwrap();
    engine.close();
    std::fs::write(index, backup).unwrap();
    let there = packs(dir.path());
    assert!(refusal(dir.path()).contains("older than its packs"));
    assert_eq!(packs(dir.path()), there);
    repaired(dir.path(), &world).await;
}

#[tokio::test]
async fn an_old_index_of_the_same_packs_is_brought_up() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let other = world.create(&engine, "other").await.unwrap();
    world.append(&engine, inbox, &[body(1, 700), body(2, 700), body(3, 700)]).await.unwrap();
    engine.close();
    let index = dir.path().join("index/data.mdb");
    let backup = std::fs::read(&index).unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    for n in 0..50 {
        world.append(&engine, inbox, &[body(10 + n, 900)]).await.unwrap();
    }
    world.copy(&engine, inbox, &[1, 2, 3, 9], other).await.unwrap();
    world.expunge(&engine, inbox, &[2, 20]).await.unwrap();
    world.create(&engine, "third").await.unwrap();
    world.set_directory(&engine, "account/ana", Some(b"x")).await.unwrap();
    maintain(&engine).await;
    engine.close();
    std::fs::write(index, backup).unwrap();
    // Two commands in a row, as when somebody imports into a restored store.
    for n in 0..2 {
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        world.verify(&engine).await;
        world.append(&engine, inbox, &[body(90 + n, 500)]).await.unwrap();
        engine.close();
    }
    maintain(&LmdbEngine::open(dir.path(), small()).unwrap()).await;
    repaired(dir.path(), &world).await;
}

#[tokio::test]
async fn a_rebuild_that_was_cut_off_between_its_renames_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _) = store(dir.path()).await;
    // Where a file system cannot exchange two names, the old index is moved away first.
    std::fs::rename(dir.path().join("index"), dir.path().join("index.old")).unwrap();
    assert!(refusal(dir.path()).contains("posthaste check --rebuild"));
    repaired(dir.path(), &world).await;
    assert!(dir.path().join("index.old/data.mdb").exists(), "a saved index is never written over");
}

#[tokio::test]
async fn a_retired_pack_is_removed_once_the_index_says_so_and_its_number_is_not_given_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let all: Vec<u32> = world.boxes[&inbox].messages.keys().copied().collect();
    world.expunge(&engine, inbox, &all).await.unwrap();
    maintain(&engine).await;
    engine.close();
    let left = packs(dir.path());
    assert!(!left.contains(&"00000001.pack".to_owned()), "{left:?}");
    let highest = left.last().unwrap().clone();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    for n in 0..3 {
        world.append(&engine, inbox, &[body(n, 1_200_000)]).await.unwrap();
    }
    engine.close();
    let mut new: Vec<_> = packs(dir.path()).into_iter().filter(|name| !left.contains(name)).collect();
    assert!(!new.is_empty() && new.iter().all(|name| *name > highest), "{new:?} after {left:?}");
    new.sort();
    // The log records that the first packs were emptied: a rebuild does not miss them.
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    repaired(dir.path(), &world).await;
}

/// Every record is bound to the id in `format`: a bit that turns there must not cost the store.
#[tokio::test]
async fn a_lost_or_damaged_format_is_written_again_by_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _) = store(dir.path()).await;
    let (path, there) = (dir.path().join("format"), packs(dir.path()));
    let whole = std::fs::read(&path).unwrap();
    let damage: Vec<Option<Vec<u8>>> = (0..whole.len() * 8)
        .map(|bit| {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            Some(bytes)
        })
        .chain([None, Some(Vec::new()), Some(vec![0; 512])])
        .collect();
    let (mut refused, mut newer) = (0, 0);
    for bytes in damage {
        match &bytes {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let text = bytes.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        match LmdbEngine::open(dir.path(), small()) {
            // The version of an older program, or another spelling of the same id.
            Ok(engine) => {
                assert!(engine.check(&mut |_| {}).await.unwrap().faults.is_empty(), "{text}");
            }
            Err(error) if error.to_string().contains("use a newer program") => newer += 1,
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("`posthaste check --rebuild`"), "{error}");
                assert_eq!(packs(dir.path()), there);
                // A rebuild of the whole store for each bit would take a minute.
                if refused % 16 == 0 || bytes.as_ref().is_none_or(|bytes| bytes.len() != whole.len()) {
                    repaired(dir.path(), &world).await;
                    assert_eq!(std::fs::read(&path).unwrap(), whole, "{text}");
                }
            }
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(refused > 300 && newer < 8, "{refused} refused, {newer} newer");
    world.verify(&LmdbEngine::open(dir.path(), small()).unwrap()).await;
}

#[tokio::test]
async fn the_packs_of_another_store_are_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (world, _) = store(dir.path()).await;
    store(other.path()).await;
    let (ours, theirs) = (dir.path().join("packs"), other.path().join("packs"));
    std::fs::rename(&ours, dir.path().join("put away")).unwrap();
    std::fs::rename(theirs, &ours).unwrap();
    let refusal = refusal(dir.path());
    assert!(refusal.contains("they are those of another store"), "{refusal}");
    std::fs::remove_dir_all(&ours).unwrap();
    std::fs::rename(dir.path().join("put away"), &ours).unwrap();
    world.verify(&LmdbEngine::open(dir.path(), small()).unwrap()).await;
}
