//! A mailbox list without one of its records is an error, not a shorter list.

use std::path::Path;

use heed::types::Bytes;
use heed::{Database, EnvOpenOptions, RwTxn};
use posthaste_store::{Engine, StoreError};
use posthaste_store_lmdb::LmdbEngine;

use crate::world::{World, maintain, rebuild_whole, small};

type Db = Database<Bytes, Bytes>;

/// A closed store with three mailboxes, and subscriptions to them and to one that is removed.
async fn store(dir: &Path) -> World {
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut world = World::new();
    for name in ["INBOX", "One", "Two", "Three"] {
        world.create(&engine, name).await.unwrap();
    }
    let two = world.list.entries.iter().find(|entry| entry.name.as_str() == "Two").unwrap().id;
    world.remove(&engine, two).await.unwrap();
    maintain(&engine).await;
    world.verify(&engine).await;
    world
}

/// Changes the index of a closed store.
fn edit(dir: &Path, change: impl FnOnce(&mut RwTxn<'_>, Db)) {
    // SAFETY: no engine has the index open, so nothing changes its file but this environment.
    let env = unsafe { EnvOpenOptions::new().map_size(1 << 28).max_dbs(16).open(dir.join("index")) }.unwrap();
    let mut txn = env.write_txn().unwrap();
    let lists: Db = env.open_database(&txn, Some("lists")).unwrap().unwrap();
    change(&mut txn, lists);
    txn.commit().unwrap();
    env.prepare_for_closing().wait();
}

fn keys(txn: &RwTxn<'_>, lists: Db) -> Vec<Vec<u8>> {
    lists.iter(txn).unwrap().map(|item| item.unwrap().0.to_vec()).collect()
}

#[tokio::test]
async fn a_bit_in_the_account_of_a_key_hides_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let world = store(dir.path()).await;
    // The list's own record, three mailboxes, four subscriptions: one of a mailbox that was
    // deleted.
    for at in 0..8 {
        let mut moved = Vec::new();
        edit(dir.path(), |txn, lists| {
            let key = keys(txn, lists)[at].clone();
            let value = lists.get(txn, &key).unwrap().unwrap().to_vec();
            lists.delete(txn, &key).unwrap();
            moved = [key.clone(), key.clone(), value.clone()].to_vec();
            moved[1][3] ^= 0x20;
            lists.put(txn, &moved[1], &value).unwrap();
        });
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        let refusal = engine.load_list(world.list.account).await;
        assert!(matches!(refusal, Err(StoreError::Corrupt(_))), "record {at}: {refusal:?}");
        assert!(!engine.check(&mut |_| {}).await.unwrap().faults.is_empty());
        engine.close();
        edit(dir.path(), |txn, lists| {
            lists.delete(txn, &moved[1]).unwrap();
            lists.put(txn, &moved[0], &moved[2]).unwrap();
        });
    }
    world.verify(&LmdbEngine::open(dir.path(), small()).unwrap()).await;
    rebuild_whole(dir.path(), &small());
    world.verify(&LmdbEngine::open(dir.path(), small()).unwrap()).await;
}
