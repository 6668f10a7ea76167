//! Single damaged values of the old index: a rebuild takes all others, and the report names what it
//! left out.

use std::path::Path;

use heed::types::Bytes;
use heed::{Database, EnvOpenOptions, RwTxn};
use posthaste_mail_model::MailboxId;
use posthaste_store::{Engine, Report};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Rebuild, rebuild};

use crate::rebuild::{COMMIT, LIST};
use crate::world::{World, body, flip, small};

type Db = Database<Bytes, Bytes>;

/// A closed store of several packs, with two mailboxes and records of the directory.
async fn store(dir: &Path) -> (World, MailboxId) {
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.create(&engine, "Two").await.unwrap();
    for n in 0..3 {
        world.set_directory(&engine, &format!("account/{n}"), Some(b"one")).await.unwrap();
    }
    for n in 0..4 {
        world.append(&engine, inbox, &[body(n, 600_000), body(n, 700)]).await.unwrap();
    }
    engine.close();
    (world, inbox)
}

/// Changes a table of the index of a closed store; `None` names the main database.
fn edit(dir: &Path, table: Option<&str>, change: impl FnOnce(&mut RwTxn<'_>, Db)) {
    // SAFETY: no engine has the index open, so nothing changes its file but this environment.
    let env = unsafe { EnvOpenOptions::new().map_size(1 << 28).max_dbs(16).open(dir.join("index")) }.unwrap();
    let mut txn = env.write_txn().unwrap();
    let table: Db = env.open_database(&txn, table).unwrap().unwrap();
    change(&mut txn, table);
    txn.commit().unwrap();
    env.prepare_for_closing().wait();
}

/// Turns a bit of a value of the index.
fn damage(dir: &Path, table: Option<&str>, key: &[u8]) {
    edit(dir, table, |txn, table| {
        let mut value = table.get(txn, key).unwrap().unwrap().to_vec();
        *value.last_mut().unwrap() ^= 0x20;
        table.put(txn, key, &value).unwrap();
    });
}

/// Turns a bit in the content of a record of the first pack: the one of this kind and number.
fn damage_record(dir: &Path, kind: u8, number: usize) {
    let path = dir.join("packs/00000001.pack");
    let bytes = std::fs::read(&path).unwrap();
    let is_head = |at: &usize| bytes[*at..].starts_with(b"PHR1") && bytes[*at + 4] == kind;
    let head = (64..bytes.len() - 48).step_by(8).filter(is_head).nth(number).unwrap();
    flip(&path, head + 60);
}

fn run(dir: &Path, mode: Rebuild) -> Report {
    rebuild(&EngineLock::acquire(dir).unwrap(), &small(), mode, &mut |_| {}).unwrap()
}

fn state_of_pack(number: u8) -> [u8; 5] {
    [0, 0, 0, 0, number]
}

#[tokio::test]
async fn damaged_values_are_counted_and_are_no_faults() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    damage(dir.path(), None, &state_of_pack(2));
    damage(dir.path(), Some("directory"), b"account/1");
    damage(dir.path(), Some("heads"), &inbox.0.to_bytes());
    let report = run(dir.path(), Rebuild::UnlessFaulty);
    assert_eq!(report.faults, [""; 0]);
    let expected = [
        "damaged in the old index, and not used: states of packs (1)".to_owned(),
        "damaged in the old index, and not used: records of the directory (1)".to_owned(),
        format!("damaged in the old index: the head of mailbox {inbox}"),
    ];
    assert_eq!(report.left_out, expected);
    world.verify(&LmdbEngine::open(dir.path(), small()).unwrap()).await;
}

/// One damaged state hid those of all packs. So it was not known that the old index has the damaged
/// commit, and every mailbox was renewed.
#[tokio::test]
async fn the_states_of_the_other_packs_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let (world, inbox) = store(dir.path()).await;
    damage(dir.path(), None, &state_of_pack(2));
    damage_record(dir.path(), COMMIT, 0);
    let report = run(dir.path(), Rebuild::Force);
    assert!(report.left_out.iter().any(|part| part.contains("states of packs (1)")), "{:?}", report.left_out);
    assert!(report.faults.iter().any(|f| f.contains("was taken from the old index")), "{:?}", report.faults);
    assert!(!report.faults.iter().any(|f| f.contains("UIDVALIDITY")), "{:?}", report.faults);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    assert_eq!(engine.load_list(world.list.account).await.unwrap(), world.list);
    assert_eq!(engine.heads(&[inbox]).await.unwrap(), [Some(world.boxes[&inbox].head.clone())]);
}

/// One key that is no account's hid the lists of all accounts.
#[tokio::test]
async fn the_lists_of_accounts_are_used_beside_a_damaged_key() {
    let dir = tempfile::tempdir().unwrap();
    let (world, _) = store(dir.path()).await;
    edit(dir.path(), Some("lists"), |txn, lists| lists.put(txn, &[0; 3], b"junk").unwrap());
    damage_record(dir.path(), LIST, 1);
    let report = run(dir.path(), Rebuild::Force);
    let expected = "damaged in the old index, and not used: keys of mailbox lists (1)";
    assert!(report.left_out.iter().any(|part| part == expected), "{:?}", report.left_out);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    assert_eq!(engine.load_list(world.list.account).await.unwrap(), world.list);
}
