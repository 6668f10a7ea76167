//! States after a crash or a failing disk, made by hand: found by the simulator, each with the seed
//! it had there.
//!
//! A crash is no damage. The next opening and a rebuild must both say so, and must agree on the
//! rest.

use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use posthaste_mail_model::{FlagSet, MailboxId};
use posthaste_store::{CommitOutcome, Engine, Report, Stored};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, Rebuild, rebuild};

use crate::world::disk::{Failing, Sync, save_index};
use crate::world::{World, body, maintain, rebuild_whole, serve, small};

fn restore_index(dir: &Path) {
    std::fs::rename(dir.join("saved.mdb"), dir.join("index/data.mdb")).unwrap();
}

fn pack(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("packs/{number:08}.pack"))
}

/// Where the records of a kind begin.
fn records(dir: &Path, number: u32, kind: u8) -> Vec<usize> {
    let bytes = std::fs::read(pack(dir, number)).unwrap();
    let is_head = |at: &usize| bytes[*at..].starts_with(b"PHR1") && bytes[*at + 4] == kind;
    (64..bytes.len().saturating_sub(48)).step_by(8).filter(is_head).collect()
}

const BODY: u8 = 1;
const COMMIT: u8 = 2;
const LIST: u8 = 3;
const RETIRE: u8 = 6;

fn change(dir: &Path, number: u32, change: impl FnOnce(&mut [u8])) {
    let mut bytes = std::fs::read(pack(dir, number)).unwrap();
    change(&mut bytes);
    std::fs::write(pack(dir, number), bytes).unwrap();
}

/// The disk never got the whole sector that follows this byte.
fn lose_sector(dir: &Path, number: u32, after: usize) {
    change(dir, number, |bytes| bytes[after.next_multiple_of(512)..][..512].fill(0));
}

fn run(dir: &Path, mode: Rebuild) -> Report {
    rebuild(&EngineLock::acquire(dir).unwrap(), &small(), mode, &mut |_| {}).unwrap()
}

/// A closed store with one mailbox and a message in it.
async fn store(dir: &Path) -> (World, MailboxId) {
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.append(&engine, inbox, &[body(0, 900)]).await.unwrap();
    (world, inbox)
}

/// Two commits of a server that was ended before its index had them. Answers the store before them.
async fn tail_of_two(dir: &Path) -> (World, MailboxId) {
    let (before, inbox) = store(dir).await;
    let (mut world, engine) = (before.clone(), serve(dir, small()));
    for n in 1..3 {
        world.append(&engine, inbox, &[body(n, 2_000)]).await.unwrap();
    }
    engine.kill();
    (before, inbox)
}

/// A closed store whose index lacks the last batch, of two messages; its contents without them.
async fn tail_of_one_batch(dir: &Path, len: usize) -> (World, MailboxId) {
    let (before, inbox) = store(dir).await;
    let (mut world, engine) = (before.clone(), serve(dir, small()));
    world.append(&engine, inbox, &[body(1, len), body(2, len)]).await.unwrap();
    engine.kill();
    (before, inbox)
}

async fn verify(dir: &Path, world: &World) {
    world.verify(&LmdbEngine::open(dir, small()).unwrap()).await;
}

/// Texts of the messages of a mailbox that can be read.
async fn texts(dir: &Path, mailbox: MailboxId) -> Vec<bytes::Bytes> {
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut bodies = Vec::new();
    let mut visit = |s: Stored<'_>| {
        bodies.push(s.body);
        ControlFlow::Continue(())
    };
    let all = posthaste_mail_model::NumSet::range(1, u32::MAX);
    engine.summaries(mailbox, &all, &mut visit).await.unwrap().refuse().unwrap();
    let mut texts = Vec::new();
    for body in bodies {
        texts.extend(engine.read_body(body, 0..u64::MAX).await.ok());
    }
    texts
}

/// Seed 7, state 14. A power cut lost a sector of a batch.
#[tokio::test]
async fn a_batch_of_which_a_sector_was_lost_is_no_fault_for_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let (before, _) = tail_of_one_batch(dir.path(), 2_000).await;
    lose_sector(dir.path(), 1, records(dir.path(), 1, BODY)[1]);
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &before).await;
}

/// Seed 100135. The head of a large body was written by a write of its own. The disk had that
/// sector before the body was written into it.
#[tokio::test]
async fn a_batch_of_which_the_rest_of_a_sector_was_lost_is_no_fault_for_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let (before, _) = tail_of_one_batch(dir.path(), 70_000).await;
    // Head, and a table of two blocks.
    let content = records(dir.path(), 1, BODY)[1] + 48 + 8;
    change(dir.path(), 1, |bytes| bytes[content..content.next_multiple_of(512)].fill(0));
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &before).await;
}

/// Seed 100468. The file of a retired pack was still there. The index knows it, and is not older
/// than the packs.
#[tokio::test]
async fn a_retired_pack_that_is_still_there_makes_no_index_old() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let disk = Failing::default();
    let engine = LmdbEngine::open(dir.path(), Options { pack_bytes: 20_000, ..disk.options() }).unwrap();
    world.append(&engine, inbox, &[body(1, 15_000), body(2, 15_000)]).await.unwrap();
    world.expunge(&engine, inbox, &[2, 3]).await.unwrap();
    *disk.keeps_files.lock() = true;
    while engine.maintain().await.is_ok_and(|report| report.examined > 0) {}
    engine.close();
    assert!(pack(dir.path(), 1).exists() && pack(dir.path(), 2).exists());
    let before = world.clone();
    let engine = serve(dir.path(), disk.options());
    world.append(&engine, inbox, &[body(3, 2_000), body(4, 2_000)]).await.unwrap();
    engine.kill();
    let body = *records(dir.path(), 2, BODY).iter().rev().nth(1).unwrap();
    lose_sector(dir.path(), 2, body);
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &before).await;
}

/// Seed 100429. The tail of a sealed pack was torn; a rebuild then ended the pack where it was
/// torn, and refused commits came back.
#[tokio::test]
async fn a_torn_tail_of_a_sealed_pack_stays_out() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let disk = Failing::default();
    let engine = LmdbEngine::open(dir.path(), Options { pack_bytes: 500, ..disk.options() }).unwrap();
    disk.plan([Sync::Fails]);
    // Two bodies in one batch, of which the first is whole.
    world.append(&engine, inbox, &[body(1, 3_000), body(2, 3_000)]).await.unwrap_err();
    world.append(&engine, inbox, &[body(3, 300)]).await.unwrap();
    engine.close();
    lose_sector(dir.path(), 2, records(dir.path(), 2, BODY)[1]);
    rebuild_whole(dir.path(), &small());
    change(dir.path(), 2, |bytes| bytes.fill(0));
    verify(dir.path(), &world).await;
}

/// A rebuild counts what an ended process had not synced; a failing sync keeps the old index.
#[tokio::test]
async fn a_rebuild_syncs_what_its_index_names() {
    let dir = tempfile::tempdir().unwrap();
    let (before, inbox) = store(dir.path()).await;
    let (mut world, engine) = (before.clone(), serve(dir.path(), small()));
    world.append(&engine, inbox, &[body(1, 300)]).await.unwrap();
    engine.kill();
    let disk = Failing::default();
    disk.plan([Sync::Fails]);
    let lock = EngineLock::acquire(dir.path()).unwrap();
    rebuild(&lock, &disk.options(), Rebuild::UnlessFaulty, &mut |_| {}).unwrap_err();
    assert!(!dir.path().join("index.old").exists());
    rebuild(&lock, &disk.options(), Rebuild::UnlessFaulty, &mut |_| {}).unwrap();
    drop(lock);
    verify(dir.path(), &world).await;
}

/// A crash turns no bit: the later commits were acknowledged, and count.
#[tokio::test]
async fn a_flip_in_a_tail_is_a_fault_and_costs_its_own_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (before, inbox) = tail_of_two(dir.path()).await;
    let first = records(dir.path(), 1, COMMIT)[1];
    change(dir.path(), 1, |bytes| bytes[first + 60] ^= 4);
    assert!(!run(dir.path(), Rebuild::UnlessFaulty).faults.is_empty());
    assert!(!dir.path().join("index.old").exists(), "with faults, the index stays as it is");
    run(dir.path(), Rebuild::Force);
    assert_eq!(texts(dir.path(), inbox).await, [body(0, 900), body(2, 2_000)]);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let list = engine.load_list(before.list.account).await.unwrap();
    assert!(list.entries[0].uid_validity > before.list.entries[0].uid_validity);
}

/// The head of a pack does not show which of its commits were acknowledged.
#[tokio::test]
async fn a_damaged_head_of_a_pack_hides_no_tail() {
    for open in [|dir: &Path, options| LmdbEngine::open(dir, options).unwrap(), serve] {
        let dir = tempfile::tempdir().unwrap();
        let (mut world, inbox) = tail_of_two(dir.path()).await;
        change(dir.path(), 1, |bytes| bytes[20] ^= 4);
        let engine = open(dir.path(), small());
        // Later commits go to another pack, and give up nothing.
        world.create(&engine, "More").await.unwrap();
        engine.close();
        let all = [body(0, 900), body(1, 2_000), body(2, 2_000)];
        assert_eq!(texts(dir.path(), inbox).await, all);
        run(dir.path(), Rebuild::Force);
        assert_eq!(texts(dir.path(), inbox).await, all);
    }
}

/// The index is older than a pack, so the commits that it lacks are no tail of one batch.
#[tokio::test]
async fn beyond_the_end_in_an_old_index_a_lost_sector_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    save_index(dir.path());
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    for n in 1..5 {
        world.append(&engine, inbox, &[body(n, 400_000)]).await.unwrap();
    }
    engine.close();
    assert!(pack(dir.path(), 2).exists());
    restore_index(dir.path());
    lose_sector(dir.path(), 1, records(dir.path(), 1, BODY)[1] + 1_000);
    assert!(!run(dir.path(), Rebuild::UnlessFaulty).faults.is_empty());
    run(dir.path(), Rebuild::Force);
    let kept = [body(0, 900), body(2, 400_000), body(3, 400_000), body(4, 400_000)];
    assert_eq!(texts(dir.path(), inbox).await, kept);
}

/// Seeds 48 and 1039. The pack was made and abandoned before the disk had a byte of it. A rebuild
/// took it as a pack to write to, and the next rebuild dropped the records that were written there.
#[tokio::test]
async fn a_pack_that_was_given_up_empty_is_not_written_after_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let disk = Failing::default();
    let engine = LmdbEngine::open(dir.path(), Options { pack_bytes: 500, ..disk.options() }).unwrap();
    disk.plan([Sync::Fails]);
    world.append(&engine, inbox, &[body(1, 300)]).await.unwrap_err();
    assert_eq!(world.append(&engine, inbox, &[body(2, 300)]).await.unwrap(), CommitOutcome::Done);
    engine.close();
    change(dir.path(), 2, |bytes| bytes.fill(0));
    rebuild_whole(dir.path(), &small());
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.append(&engine, inbox, &[body(3, 300)]).await.unwrap();
    engine.close();
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &world).await;
}

/// Seeds 1041 and 1045. The process that gave the tail up took it for one that an ended process had
/// left.
#[tokio::test]
async fn a_tail_that_was_given_up_is_not_taken_for_that_of_an_ended_process() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let disk = Failing::default();
    let engine = LmdbEngine::open(dir.path(), disk.options()).unwrap();
    let bodies: Vec<_> = (1..20).map(|n| body(n, 5_000)).collect();
    world.append(&engine, inbox, &bodies).await.unwrap();
    engine.close();
    let engine = LmdbEngine::open(dir.path(), disk.options()).unwrap();
    disk.plan([Sync::Fails]);
    world.expunge(&engine, inbox, &[1]).await.unwrap_err();
    world.append(&engine, inbox, &[body(30, 300)]).await.unwrap();
    let uids: Vec<u32> = (1..21).collect();
    world.expunge(&engine, inbox, &uids).await.unwrap();
    // The records that count move to another pack.
    maintain(&engine).await;
    assert!(!pack(dir.path(), 1).exists());
    world.verify(&engine).await;
    engine.close();
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &world).await;
}

/// Seed 1056. Both tails begin by giving up the first pack, and the later one gives up the earlier
/// one, too.
#[tokio::test]
async fn of_two_tails_the_one_that_gives_up_the_other_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let disk = Failing::default();
    let engine = LmdbEngine::open(dir.path(), disk.options()).unwrap();
    world.append(&engine, inbox, &[body(1, 300)]).await.unwrap();
    disk.plan([Sync::Fails, Sync::Fails, Sync::SavesIndex(dir.path().to_owned())]);
    for n in [2, 3] {
        world.append(&engine, inbox, &[body(n, 300)]).await.unwrap_err();
    }
    world.append(&engine, inbox, &[body(4, 300)]).await.unwrap();
    engine.kill();
    restore_index(dir.path());
    verify(dir.path(), &world).await;
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.append(&engine, inbox, &[body(5, 300)]).await.unwrap();
    engine.close();
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &world).await;
}

/// Seed 1005. The first pack could not be made; its number was skipped, and a rebuild missed a
/// pack.
#[tokio::test]
async fn a_pack_that_could_not_be_made_leaves_no_gap_between_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Failing::default();
    let engine = LmdbEngine::open(dir.path(), disk.options()).unwrap();
    let mut world = World::new();
    *disk.directories.lock() = 1;
    world.create(&engine, "INBOX").await.unwrap_err();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    engine.close();
    // The next process that writes removes the empty file, if it was left.
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.append(&engine, inbox, &[body(1, 300)]).await.unwrap();
    engine.close();
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &world).await;
}

/// A store where removing a mailbox failed: the list commit was refused, and its record lies in a
/// tail that was abandoned. Mail was acknowledged for the mailbox before and after.
async fn refused_removal(dir: &Path) -> World {
    let (mut world, inbox) = store(dir).await;
    let disk = Failing::default();
    // Each commit makes a checkpoint due.
    let engine = LmdbEngine::open(dir, Options { checkpoint_from: 0, ..disk.options() }).unwrap();
    world.append(&engine, inbox, &[body(1, 300)]).await.unwrap();
    maintain(&engine).await;
    disk.plan([Sync::Fails]);
    world.remove(&engine, inbox).await.unwrap_err();
    world.append(&engine, inbox, &[body(2, 300)]).await.unwrap();
    engine.close();
    assert_eq!(records(dir, 1, LIST).len(), 2, "the refused record is there, whole");
    world
}

/// Seeds 1000696 (59) and 1001059 (67).
#[tokio::test]
async fn a_removal_that_was_refused_is_no_fault_for_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let world = refused_removal(dir.path()).await;
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &world).await;
}

/// The same, with the packs alone.
#[tokio::test]
async fn a_removal_that_was_refused_costs_no_mail_where_the_index_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let world = refused_removal(dir.path()).await;
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &world).await;
}

/// Two records have one number, and the index that knew which one counts is lost. The one that is
/// not used removes no mailbox.
#[tokio::test]
async fn a_removal_that_lost_its_number_to_another_commit_removes_no_mailbox() {
    let dir = tempfile::tempdir().unwrap();
    let (before, inbox) = store(dir.path()).await;
    let kept = std::fs::read(pack(dir.path(), 1)).unwrap();
    save_index(dir.path());
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    before.clone().remove(&engine, inbox).await.unwrap();
    engine.close();
    let with_removal = std::fs::read(pack(dir.path(), 1)).unwrap();
    std::fs::write(pack(dir.path(), 1), kept).unwrap();
    restore_index(dir.path());
    let engine = LmdbEngine::open(dir.path(), Options { pack_bytes: 500, ..small() }).unwrap();
    let mut world = before.clone();
    world.flag(&engine, inbox, &[1], FlagSet::SEEN).await.unwrap();
    world.append(&engine, inbox, &[body(1, 300)]).await.unwrap();
    engine.close();
    std::fs::write(pack(dir.path(), 1), with_removal).unwrap();
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let report = run(dir.path(), Rebuild::Force);
    assert_eq!(report.faults.len(), 1, "{:?}", report.faults);
    assert!(report.faults[0].contains("different records have number"), "{:?}", report.faults);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.verify(&engine).await;
}

/// The batch that retired the pack was refused, so the pack is still needed. A rebuild that finds
/// neither its file nor an index says so.
#[tokio::test]
async fn a_retirement_that_was_refused_excuses_no_missing_pack() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let disk = Failing::default();
    let engine = LmdbEngine::open(dir.path(), Options { pack_bytes: 20_000, ..disk.options() }).unwrap();
    world.append(&engine, inbox, &[body(1, 15_000), body(2, 15_000)]).await.unwrap();
    world.expunge(&engine, inbox, &[2, 3]).await.unwrap();
    disk.plan([Sync::Fails]);
    while engine.maintain().await.is_ok_and(|report| report.examined > 0) {}
    assert_eq!(records(dir.path(), 2, RETIRE).len(), 1, "the refused record is there, whole");
    world.append(&engine, inbox, &[body(3, 300)]).await.unwrap();
    engine.close();
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &world).await;
    std::fs::remove_file(pack(dir.path(), 1)).unwrap();
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let faults = run(dir.path(), Rebuild::UnlessFaulty).faults;
    assert!(faults.iter().any(|fault| fault.contains("pack 1 is missing")), "{faults:?}");
}

/// A rebuild cut the tail off, which no record of the log said. A later rebuild without an index
/// found the whole commit in it, under the number of another one.
#[tokio::test]
async fn a_tail_that_a_rebuild_cut_off_stays_out_where_the_index_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = tail_of_one_batch(dir.path(), 2_000).await;
    lose_sector(dir.path(), 1, records(dir.path(), 1, BODY)[1]);
    rebuild_whole(dir.path(), &small());
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    for n in 3..6 {
        world.append(&engine, inbox, &[body(n, 300)]).await.unwrap();
    }
    engine.close();
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &world).await;
}

/// A process was killed while it wrote the last body of a batch, and the index that knew where
/// the log ended is lost. No commit was acknowledged: it is no damage, and a check finds none.
#[tokio::test]
async fn a_torn_body_without_a_commit_stays_out_where_the_index_is_lost() {
    // Another process may have made the next pack and not written to it.
    for next_pack in [None, Some(0), Some(20_000)] {
        torn_body(next_pack).await;
    }
}

async fn torn_body(next_pack: Option<usize>) {
    let dir = tempfile::tempdir().unwrap();
    let (mut before, inbox) = store(dir.path()).await;
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    before.clone().append(&engine, inbox, &[body(1, 900), body(2, 2_000)]).await.unwrap();
    engine.close();
    let torn = records(dir.path(), 1, BODY)[2];
    change(dir.path(), 1, |bytes| bytes[torn + 1_000..].fill(0));
    if let Some(zeroes) = next_pack {
        std::fs::write(dir.path().join("packs/00000002.pack"), vec![0; zeroes]).unwrap();
    }
    before.lose_index_twice(dir.path(), inbox, 3).await;
}

/// Seed 6100288 of the simulator.
#[tokio::test]
async fn the_torn_tail_of_another_process_stays_out_where_the_index_is_lost() {
    torn_tail_of_another(0).await;
}

/// The other process ended while this one wrote; numbers of its tail are given again.
#[tokio::test]
async fn the_torn_tail_of_a_process_that_ended_is_given_up_by_the_next_commit() {
    torn_tail_of_another(3).await;
}

/// The first process has pack 1 and ends in the middle of a batch. The second one has pack 2.
async fn torn_tail_of_another(later_commits: u32) {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut world, inbox) = store(dir.path()).await;
    let first = hold(dir.path(), 1);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.append(&engine, inbox, &[body(1, 900)]).await.unwrap();
    assert_eq!(records(dir.path(), 2, BODY).len(), 1);

    copy_store(dir.path(), copy.path());
    let second = hold(copy.path(), 2);
    let other = LmdbEngine::open(copy.path(), small()).unwrap();
    world.clone().append(&other, inbox, &[body(9, 3_000)]).await.unwrap();
    other.close();
    drop(second);
    let begins = records(copy.path(), 1, BODY)[1];
    let torn = std::fs::read(pack(copy.path(), 1)).unwrap()[begins..][..1_500].to_vec();
    first.write_all_at(&torn, begins as u64).unwrap();
    drop(first);

    for n in 0..later_commits {
        world.append(&engine, inbox, &[body(2 + n, 900)]).await.unwrap();
    }
    engine.close();
    world.lose_index_twice(dir.path(), inbox, 10).await;
}

/// Locks a pack, as a process does while it writes to it.
fn hold(dir: &Path, number: u32) -> std::fs::File {
    let file = std::fs::File::options().write(true).open(pack(dir, number)).unwrap();
    file.try_lock().unwrap();
    file
}

/// Seed 64000040. A process ended in a batch of pack 2, of which the last records were written and
/// the first one was not. The next one gave it up and ended in a body, in pack 1.
#[tokio::test]
async fn a_torn_body_stays_out_beside_a_batch_that_was_given_up() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut world, inbox) = store(dir.path()).await;
    let first = hold(dir.path(), 1);
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.append(&engine, inbox, &[body(1, 900)]).await.unwrap();
    engine.close();
    drop(first);
    copy_store(dir.path(), copy.path());
    let other = LmdbEngine::open(copy.path(), small()).unwrap();
    world.clone().append(&other, inbox, &[body(2, 3_000), body(3, 300), body(4, 300)]).await.unwrap();
    other.close();
    let begins = records(copy.path(), 2, BODY)[1];
    let mut batch = std::fs::read(pack(copy.path(), 2)).unwrap();
    batch[begins..][..3_000].fill(0);
    std::fs::write(pack(dir.path(), 2), batch).unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.clone().append(&engine, inbox, &[body(5, 3_000)]).await.unwrap();
    engine.close();
    let torn = records(dir.path(), 1, BODY)[1];
    change(dir.path(), 1, |bytes| bytes[torn + 1_000..].fill(0));
    world.lose_index_twice(dir.path(), inbox, 10).await;
}

/// The files of a store, copied while nobody writes.
fn copy_store(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_store(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Seed 9024246. A batch was written in part and abandoned in another pack, and the next commit was
/// acknowledged there. After a rebuild with the old index, an opening redid the second commit of
/// the batch, which fitted the mailbox by chance.
#[tokio::test]
async fn a_torn_batch_that_the_log_gives_up_stays_out_after_a_rebuild() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut world, inbox) = store(dir.path()).await;
    copy_store(dir.path(), copy.path());
    // The batch: two whole commits and a part of a third.
    let mut other = world.clone();
    let engine = LmdbEngine::open(copy.path(), small()).unwrap();
    for n in 1..4 {
        other.append(&engine, inbox, &[body(n, 2_000)]).await.unwrap();
    }
    engine.close();
    let bodies = records(copy.path(), 1, BODY);
    let batch = std::fs::read(pack(copy.path(), 1)).unwrap()[bodies[1]..bodies[3] + 600].to_vec();

    let disk = Failing::default();
    let engine = LmdbEngine::open(dir.path(), disk.options()).unwrap();
    disk.plan([Sync::Fails, Sync::SavesIndex(dir.path().to_owned())]);
    world.append(&engine, inbox, &[body(1, 2_000)]).await.unwrap_err();
    world.expunge(&engine, inbox, &[1]).await.unwrap();
    engine.close();
    restore_index(dir.path());
    change(dir.path(), 1, |bytes| {
        bytes[bodies[1]..].fill(0);
        bytes[bodies[1]..][..batch.len()].copy_from_slice(&batch);
    });
    assert!(run(dir.path(), Rebuild::UnlessFaulty).faults.is_empty());
    verify(dir.path(), &world).await;
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    world.append(&engine, inbox, &[body(5, 300)]).await.unwrap();
    engine.close();
    rebuild_whole(dir.path(), &small());
    verify(dir.path(), &world).await;
}
