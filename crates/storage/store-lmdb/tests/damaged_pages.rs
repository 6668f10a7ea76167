//! Damage to the pages of the index, anywhere. The store is refused with the remedy, or every
//! message is right or an error of its own. Never a signal, never a wrong byte, never a message
//! left out.

#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use posthaste_mail_model::{MailboxId, ModSeq, NumSet};
use posthaste_store::{Engine, Row, StoreError, Stored, Unreadable};
use posthaste_store_lmdb::{LmdbEngine, Options, report_fault_signals};

use world::{World, body, maintain, small, summarize};

const PAGE: usize = 4096;
/// Flips: some 15 ms each.
const ROUNDS: usize = 700;
const DIR: &str = "POSTHASTE_TEST_DAMAGED_DIR";

fn index_file(dir: &Path) -> PathBuf {
    dir.join("index/data.mdb")
}

/// A closed store with pages of every kind: branches, leaves, records on pages of their own, lists
/// of free pages.
async fn store(dir: &Path, options: Options) -> World {
    let engine = LmdbEngine::open(dir, options).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let other = world.create(&engine, "Other").await.unwrap();
    for round in 0..8 {
        let bodies: Vec<_> = (0..100).map(|n| body(1_000 * round + n, 700)).collect();
        world.append(&engine, inbox, &bodies).await.unwrap();
    }
    let uids: Vec<u32> = world.boxes[&inbox].messages.keys().copied().collect();
    world.copy(&engine, inbox, &uids[100..300], other).await.unwrap();
    world.expunge(&engine, inbox, &uids[150..350]).await.unwrap();
    maintain(&engine).await;
    world.set_directory(&engine, "account/ana", Some(&b"x".repeat(20_000))).await.unwrap();
    world.verify(&engine).await;
    world
}

/// The answers of the damaged store about a mailbox: right, or an error, and nothing left out.
async fn verify_mailbox(engine: &LmdbEngine, world: &World, id: MailboxId, what: &str) {
    let held = &world.boxes[&id];
    match engine.heads(&[id]).await {
        Ok(heads) => assert_eq!(heads, [Some(held.head.clone())], "{what}"),
        Err(error) => assert!(matches!(error, StoreError::Corrupt(_)), "{what}: {error}"),
    }
    let mut rows = Vec::new();
    match engine.load(id, &mut |slice| rows.extend_from_slice(slice)).await {
        Ok(head) => {
            assert_eq!(head, held.head, "{what}");
            assert!(rows.iter().eq(held.messages.values().map(|m| &m.row)), "{what}");
        }
        Err(error) => assert!(matches!(error, StoreError::Corrupt(_)), "{what}: {error}"),
    }
    let mut seen = BTreeSet::new();
    let mut visit = |stored: Stored<'_>| {
        let uid = stored.uid.value();
        let message = &held.messages[&uid];
        let is_date = stored.saved == message.saved || stored.saved == i64::from(message.row.date());
        let is_created = stored.created == message.created || stored.created == ModSeq::ZERO;
        assert!(stored.body == message.body && is_date && is_created, "{what}: UID {uid}");
        assert_eq!(stored.summary, summarize(&message.bytes), "{what}: UID {uid}");
        assert!(seen.insert(uid), "{what}: UID {uid} twice");
        ControlFlow::Continue(())
    };
    let all: NumSet = held.messages.keys().copied().collect();
    match engine.summaries(id, &all, &mut visit).await {
        Ok(Unreadable(unreadable)) => {
            seen.extend(unreadable.iter());
            assert!(seen.iter().eq(held.messages.keys()), "{what}: a message was left out");
        }
        Err(error) => assert!(matches!(error, StoreError::Corrupt(_)), "{what}: {error}"),
    }
    for message in held.messages.values().step_by(37) {
        match engine.read_body(message.body, 0..u64::MAX).await {
            Ok(bytes) => assert_eq!(bytes, message.bytes, "{what}"),
            Err(error) => assert!(matches!(error, StoreError::Corrupt(_)), "{what}: {error}"),
        }
    }
}

/// Opens a store whose index has these bytes, and looks at everything. Whether the store was
/// opened, and whether `check` found faults.
async fn open_and_read(dir: &Path, world: &World, bytes: &[u8], what: &str) -> (bool, bool) {
    std::fs::write(index_file(dir), bytes).unwrap();
    let engine = match LmdbEngine::open(dir, small()) {
        Ok(engine) => engine,
        Err(StoreError::Corrupt(_)) => return (false, true),
        Err(error) => panic!("{what}: {error}"),
    };
    for id in world.boxes.keys() {
        verify_mailbox(&engine, world, *id, what).await;
    }
    let has_faults = engine.check(&mut |_| {}).await.map_or(true, |report| !report.faults.is_empty());
    (true, has_faults)
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

#[tokio::test]
async fn a_flip_anywhere_in_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let world = store(dir.path(), small()).await;
    let whole = std::fs::read(index_file(dir.path())).unwrap();
    let used = whole.rchunks(PAGE).position(|page| page.iter().any(|b| *b != 0)).unwrap();
    let pages = whole.len() / PAGE - used;
    assert!(pages > 60, "{pages} pages");
    let mut random = Random(7);
    let (mut refused, mut found) = (0, 0);
    for round in 0..ROUNDS {
        let page = random.below(pages);
        // Half of them in heads of pages and tables of nodes.
        let at = page * PAGE + random.below(if round % 2 == 0 { 64 } else { PAGE });
        let bit = random.below(8);
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        let what = format!("bit {bit} of byte {} of page {page}", at % PAGE);
        let (opened, has_faults) = open_and_read(dir.path(), &world, &bytes, &what).await;
        refused += usize::from(!opened);
        found += usize::from(has_faults);
    }
    assert!(refused > ROUNDS / 10 && found > refused, "{refused} refused, {found} found");
}

#[tokio::test]
async fn a_page_lost_or_in_the_place_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let world = store(dir.path(), small()).await;
    let whole = std::fs::read(index_file(dir.path())).unwrap();
    let pages = whole.len() / PAGE;
    let mut random = Random(11);
    let mut refused = 0;
    for page in 0..pages {
        let at = page * PAGE;
        for (kind, from) in [("zeroed", None), ("written over", Some(random.below(pages) * PAGE))] {
            let mut bytes = whole.clone();
            match from {
                None => bytes[at..at + PAGE].fill(0),
                Some(from) => bytes.copy_within(from..from + PAGE, at),
            }
            let what = format!("page {page} {kind} by {from:?}");
            refused += usize::from(!open_and_read(dir.path(), &world, &bytes, &what).await.0);
        }
        let mut bytes = whole.clone();
        bytes[at..at + 512].fill(0);
        open_and_read(dir.path(), &world, &bytes, &format!("the first sector of page {page}")).await;
    }
    assert!(refused > 60, "{refused}");
    for cut in [0, 1, 100, PAGE, 2 * PAGE, 5 * PAGE + 7, whole.len() / 2] {
        if cut > 0 {
            let (opened, _) =
                open_and_read(dir.path(), &world, &whole[..cut], &format!("cut at {cut}")).await;
            assert!(!opened, "cut at {cut}");
        }
    }
    assert_eq!(open_and_read(dir.path(), &world, &whole, "whole").await, (true, false));
}

/// Summaries on pages of their own, so that a few messages make a large index.
fn large() -> Options {
    fn long(bytes: &[u8]) -> Vec<u8> {
        let mut summary = summarize(bytes);
        summary.resize(70_000, b' ');
        summary
    }
    Options { map_bytes: 1 << 30, ..Options { summarize: long, ..small() } }
}

/// A large store with damage in a leaf. An opening examines its top pages only.
async fn large_store(dir: &Path) {
    let engine = LmdbEngine::open(dir, large()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for round in 0..5 {
        let bodies: Vec<_> = (0..100).map(|n| body(1_000 * round + n, 50)).collect();
        let long: Vec<_> = bodies.iter().map(|b| (large().summarize)(b)).collect();
        world.append_with(&engine, inbox, &bodies, &long).await.unwrap();
    }
    engine.close();
    let mut bytes = std::fs::read(index_file(dir)).unwrap();
    assert!(bytes.len() > 5_000 * PAGE);
    // The leaves with nodes for such summaries, those that are free by now too: the flag of one of
    // them.
    let key = inbox.0.to_bytes();
    let key_at =
        |page: &[u8]| page.windows(16).position(|w| w == key).filter(|at| page[10] == 2 && page[at - 4] == 1);
    let found: Vec<_> =
        bytes.chunks(PAGE).enumerate().filter_map(|(n, page)| Some((n, key_at(page)?))).collect();
    assert!(!found.is_empty());
    for (page, at) in found {
        bytes[page * PAGE + at - 4] ^= 8;
    }
    std::fs::write(index_file(dir), bytes).unwrap();
}

#[tokio::test]
async fn after_a_fault_signal_every_page_is_examined() {
    let dir = tempfile::tempdir().unwrap();
    large_store(dir.path()).await;
    let engine = LmdbEngine::open(dir.path(), large()).unwrap();
    let faults = engine.check(&mut |_| {}).await.unwrap().faults;
    let named = |what: &str| faults.iter().any(|fault| fault.contains(what));
    assert!(named("of the tree summaries") && named("were not examined"), "{faults:?}");
    assert_eq!(engine.check_in_slices(20, &mut |_| {}).await.unwrap().faults, faults);
    engine.close();
    let marker = dir.path().join("index/suspect");
    std::fs::write(&marker, "SIGBUS").unwrap();
    let error = LmdbEngine::open(dir.path(), large()).unwrap_err();
    assert!(error.to_string().contains("`posthaste check --rebuild`"), "{error}");
    assert!(marker.exists(), "the next start examines it too");

    let dir = tempfile::tempdir().unwrap();
    let world = store(dir.path(), small()).await;
    let marker = dir.path().join("index/suspect");
    std::fs::write(&marker, "SIGBUS").unwrap();
    world.verify(&LmdbEngine::open(dir.path(), small()).unwrap()).await;
    assert!(!marker.exists());
}

/// The process that is ended by reading a page that is not there; not a test when run by itself.
#[tokio::test]
async fn the_process_that_is_ended() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    report_fault_signals(&dir);
    let engine = LmdbEngine::open(&dir, small()).unwrap();
    let list = engine.load_list(World::new().list.account).await.unwrap();
    std::fs::OpenOptions::new().write(true).open(index_file(&dir)).unwrap().set_len(2 * PAGE as u64).unwrap();
    let _ = engine.load(list.entries[0].id, &mut |_| {}).await;
    unreachable!("a page beyond the file was read");
}

/// What such a process says.
fn ended_by_a_page(dir: &Path) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_is_ended", "--nocapture"])
        .env(DIR, dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{said}");
    said
}

#[tokio::test]
async fn a_process_that_is_ended_by_a_page_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let world = store(dir.path(), small()).await;
    let said = ended_by_a_page(dir.path());
    assert!(said.contains("posthaste: ended by SIGBUS while it read the index"), "{said}");
    assert!(said.contains("`posthaste check --rebuild`"), "{said}");
    assert_eq!(std::fs::read_to_string(dir.path().join("index/suspect")).unwrap(), "SIGBUS");
    let error = LmdbEngine::open(dir.path(), small()).unwrap_err();
    assert!(error.to_string().contains("`posthaste check --rebuild`"), "{error}");
    drop(world);
}

#[tokio::test]
async fn a_process_that_is_ended_writes_through_no_link() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _world = store(dir.path(), small()).await;
    let other = elsewhere.path().join("other");
    std::os::unix::fs::symlink(&other, dir.path().join("index/suspect")).unwrap();
    ended_by_a_page(dir.path());
    assert!(!other.exists());
}

#[tokio::test]
async fn a_check_in_slices_finds_what_a_whole_one_finds() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = store(dir.path(), small()).await;
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    for slice in [1, 7, 100] {
        let mut steps = 0;
        let report = engine.check_in_slices(slice, &mut |_| steps += 1).await.unwrap();
        assert_eq!(report.faults, [""; 0], "slices of {slice}");
        assert!(steps > 3);
    }
    let inbox = *world.boxes.keys().next().unwrap();
    world.append(&engine, inbox, &[body(1, 100)]).await.unwrap();
    assert_eq!(engine.check_in_slices(1, &mut |_| {}).await.unwrap().faults, [""; 0]);
    engine.close();
    // A pack that is missing, and one that nobody knows.
    let pack = |n: u32| dir.path().join(format!("packs/{n:08}.pack"));
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    std::fs::rename(pack(1), dir.path().join("elsewhere")).unwrap();
    for slice in [1, u64::MAX] {
        let faults = engine.check_in_slices(slice, &mut |_| {}).await.unwrap().faults;
        assert!(faults.iter().any(|f| f.contains("pack 1 cannot be opened")), "{faults:?}");
    }
}

#[tokio::test]
async fn a_check_names_what_a_busy_store_kept_it_from() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = store(dir.path(), small()).await;
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let inbox = *world.boxes.keys().next().unwrap();
    let mut is_quiet = true;
    // The first mailbox was read. Another one follows, in another slice.
    let mut deliver = |share: f64| {
        if share < 0.8 || !is_quiet {
            return;
        }
        is_quiet = false;
        let delivery = async { world.append(&engine, inbox, &[body(1, 100)]).await.unwrap() };
        let deliver = || tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(delivery);
        std::thread::scope(|scope| scope.spawn(deliver).join().unwrap());
    };
    let report = engine.check_in_slices(1, &mut deliver).await.unwrap();
    assert!(!is_quiet);
    assert_eq!(report.faults, [""; 0]);
    assert!(report.left_out[0].contains("References of bodies"), "{:?}", report.left_out);
    let report = engine.check_in_slices(1, &mut |_| {}).await.unwrap();
    assert_eq!((report.faults, report.left_out), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn records_after_a_damaged_one_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let world = store(dir.path(), small()).await;
    let path = dir.path().join("packs/00000001.pack");
    let mut pack = std::fs::read(&path).unwrap();
    let at = |pack: &[u8], what: &[u8]| pack.windows(what.len()).position(|w| w == what).unwrap();
    // The head of one record, followed by the content of another.
    let (head, content) = (at(&pack, b"Message 1010,") - 20, at(&pack, b"Message 1050,") + 5);
    pack[head] ^= 1;
    pack[content] ^= 1;
    std::fs::write(&path, pack).unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let faults = engine.check(&mut |_| {}).await.unwrap().faults;
    let named = |what: &str| faults.iter().filter(|f| f.contains(what)).count();
    assert_eq!(named("were not read"), 1, "{faults:?}");
    let second = format!("at byte {}", content as u64 / 8 * 8);
    assert!(named("checksum does not match") >= 1, "{faults:?}, {second}");
    drop(world);
}

/// Set for a process that reads a store while another damages it.
const READ_DIR: &str = "POSTHASTE_TEST_READ_DIR";

/// The process that reads: it opens the store, says so, waits for a line and reads everything; not
/// a test when run by itself.
#[tokio::test]
async fn the_process_that_reads() {
    let Some(dir) = std::env::var_os(READ_DIR).map(PathBuf::from) else { return };
    report_fault_signals(&dir);
    let engine = LmdbEngine::open(&dir, small()).unwrap();
    let entries = engine.load_list(World::new().list.account).await.unwrap().entries;
    println!("open");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    for entry in entries {
        let mut rows = NumSet::new();
        let mut take = |slice: &[Row]| slice.iter().for_each(|row| rows.push(row.uid().value()));
        if engine.load(entry.id, &mut take).await.is_err() {
            continue;
        }
        let mut seen = 0;
        let mut visit = |_: Stored<'_>| {
            seen += 1;
            ControlFlow::Continue(())
        };
        if let Ok(Unreadable(unreadable)) = engine.summaries(entry.id, &rows, &mut visit).await {
            assert_eq!(seen + unreadable.count(), rows.count(), "a message was left out");
        }
    }
}

/// Starts that process, damages the index with `flip` once it has it open, and returns how it ended
/// and its output.
fn read_beside(dir: &Path, flip: impl FnOnce(&std::fs::File)) -> (std::process::ExitStatus, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_reads", "--nocapture"])
        .env(READ_DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("open") && lines.read_line(&mut line).unwrap() > 0 {}
    flip(&std::fs::OpenOptions::new().read(true).write(true).open(index_file(dir)).unwrap());
    // It may have ended already.
    let _ = child.stdin.take().unwrap().write_all(b"\n");
    let _ = lines.read_to_end(&mut Vec::new());
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn a_page_that_is_damaged_while_it_is_in_use_ends_a_process_once_at_most() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), small()).await;
    let whole = std::fs::read(index_file(dir.path())).unwrap();
    let unused = whole.rchunks(PAGE).position(|page| page.iter().any(|b| *b != 0)).unwrap();
    let pages = whole.len() / PAGE - unused;
    let mut random = Random(23);
    let mut ended = 0;
    for _ in 0..40 {
        std::fs::write(index_file(dir.path()), &whole).unwrap();
        let at = (2 + random.below(pages - 2)) * PAGE + 8 + random.below(64);
        let flipped = [whole[at] ^ 1 << random.below(8)];
        let flip = |file: &std::fs::File| file.write_all_at(&flipped, at as u64).unwrap();
        let (status, said) = read_beside(dir.path(), flip);
        if status.success() {
            continue;
        }
        ended += 1;
        let signal = status.signal().unwrap_or_else(|| panic!("{said}"));
        assert!([libc::SIGBUS, libc::SIGSEGV, libc::SIGABRT].contains(&signal), "signal {signal}: {said}");
        assert!(said.contains("posthaste: ended by"), "byte {at}: {said}");
        let error = LmdbEngine::open(dir.path(), small()).unwrap_err();
        assert!(error.to_string().contains("`posthaste check --rebuild`"), "{error}");
        std::fs::remove_file(dir.path().join("index/suspect")).unwrap();
    }
    println!("{ended} of 40 were ended by a signal");
}

/// Bytes of a meta page from its map size on: what LMDB writes in one piece. Behind half of it
/// stand the trees of the new transaction, and the old last page and transaction.
const META_AT: usize = 16 + 16;
const META_HALF: usize = 60;

fn transaction_of(index: &[u8], meta: usize) -> u64 {
    u64::from_le_bytes(index[meta * PAGE + 16 + 128..][..8].try_into().unwrap())
}

/// A write of a meta page failed half-way, over the page that LMDB does not take: the trees are
/// beyond the old last page.
fn half_written(whole: &[u8], meta: usize) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let place = &mut bytes[meta * PAGE + META_AT..][..META_HALF];
    // The root of the tree of free pages.
    place[48..56].copy_from_slice(&1_000_000_u64.to_le_bytes());
    bytes
}

#[tokio::test]
async fn a_half_written_meta_page_stays_if_lmdb_uses_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = store(dir.path(), small()).await;
    for _ in 0..2 {
        let whole = std::fs::read(index_file(dir.path())).unwrap();
        let newer = usize::from(transaction_of(&whole, 1) > transaction_of(&whole, 0));
        std::fs::write(index_file(dir.path()), half_written(&whole, newer)).unwrap();
        let refusal = LmdbEngine::open(dir.path(), small()).unwrap_err().to_string();
        assert!(refusal.contains("posthaste check --rebuild"), "{refusal}");
        std::fs::write(index_file(dir.path()), half_written(&whole, 1 - newer)).unwrap();
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        world.verify(&engine).await;
        // The next transaction writes it again.
        world.set_directory(&engine, "account/bob", Some(b"x")).await.unwrap();
        world.verify(&engine).await;
        engine.close();
    }
}

/// LMDB maps as far as the last page, and a walk took its memory by that number.
#[tokio::test]
async fn any_bit_of_the_last_page() {
    let dir = tempfile::tempdir().unwrap();
    let world = store(dir.path(), small()).await;
    let whole = std::fs::read(index_file(dir.path())).unwrap();
    let newer = usize::from(transaction_of(&whole, 1) > transaction_of(&whole, 0));
    for bit in 0..64 {
        let mut bytes = whole.clone();
        bytes[newer * PAGE + 16 + 120 + bit / 8] ^= 1 << (bit % 8);
        let (opened, _) =
            open_and_read(dir.path(), &world, &bytes, &format!("bit {bit} of the last page")).await;
        assert!(!opened || bit < 20, "bit {bit}");
    }
}

/// The index with one inverted bit of a key, at each place of such a record. `len`: bytes of the
/// key; `at`: the byte of it.
fn turned_keys(whole: &[u8], begins: &[u8], len: usize, at: usize) -> Vec<Vec<u8>> {
    let is_key = |place: &usize| {
        whole[*place..].starts_with(begins)
            && whole[*place - 2..*place] == u16::try_from(len).unwrap().to_le_bytes()
    };
    let keys = (8..whole.len() - len).filter(is_key);
    let turned = keys.map(|key| {
        let mut bytes = whole.to_vec();
        bytes[key + at] ^= 0x10;
        bytes
    });
    turned.collect()
}

/// The sweep, at byte 162656: the mailbox was empty, without an error.
#[tokio::test]
async fn a_chunk_of_rows_under_another_key_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.append(&engine, inbox, &[body(1, 300), body(2, 300)]).await.unwrap();
    engine.close();
    let whole = std::fs::read(index_file(dir.path())).unwrap();
    let turned = turned_keys(&whole, &inbox.0.to_bytes(), 20, 15);
    assert!(!turned.is_empty());
    for bytes in turned {
        open_and_read(dir.path(), &world, &bytes, "a key").await;
    }
}

/// A record of another kind was skipped, and the subscription was not there, without an error.
#[tokio::test]
async fn a_record_of_no_known_kind_in_a_list_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    world.create(&engine, "INBOX").await.unwrap();
    engine.close();
    let whole = std::fs::read(index_file(dir.path())).unwrap();
    let begins = [&world.list.account.0.to_bytes()[..], &[2]].concat();
    let turned = turned_keys(&whole, &begins, 21, 16);
    assert!(!turned.is_empty());
    let mut errors = 0;
    for bytes in turned {
        std::fs::write(index_file(dir.path()), bytes).unwrap();
        match LmdbEngine::open(dir.path(), small()) {
            Ok(engine) => match engine.load_list(world.list.account).await {
                Ok(list) => assert_eq!(list, world.list, "a page that is not used any more"),
                Err(_) => errors += 1,
            },
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 0);
}
