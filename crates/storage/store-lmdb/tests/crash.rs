//! Cuts at every file operation of the packs.
//!
//! `Faulty` keeps, for every pack, what a reader sees (live) and what a power cut leaves
//! (durable). Writes become durable at the sync, files and their names at the sync of the
//! directory. From a chosen operation on, everything fails. Then the store is reopened as each
//! kind of crash leaves it. It must hold every acknowledged commit, nothing of the others, and be
//! able to continue. The index is LMDB's own. It is as it was when the last of its transactions
//! returned, which for a server is a while before the crash. After a server's crash, the commit
//! at which the trouble began may be there though it was refused. Its records were whole, and no
//! process was left to strike them out.

#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_mail_model::FlagSet;
use posthaste_store::{Engine, StoreError};
use posthaste_store_lmdb::{Disk, DiskFile, DiskSpace, LmdbEngine, Options};

use world::{World, body, small};

/// The failure of the operation at which the trouble begins.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    /// This and every later operation fails: the machine is off.
    Off,
    /// This one fails, and the next ones work.
    Once,
    /// Writes that need room fail from here on; syncs and overwriting work.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Create,
    Write,
    Sync,
    SyncDir,
    Remove,
    Truncate,
}

#[derive(Default, Clone)]
struct Contents {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Writes since the last sync.
    pending: Vec<(u64, Vec<u8>)>,
    /// Whether its name survives.
    named: bool,
}

#[derive(Default)]
struct State {
    files: BTreeMap<PathBuf, Arc<Mutex<Contents>>>,
    /// Removed files whose removal is not durable.
    unsynced_removals: BTreeMap<PathBuf, Arc<Mutex<Contents>>>,
    ops: Vec<Op>,
    /// Whether a checkpoint of a mailbox was written.
    has_checkpoint: bool,
    /// Free bytes that maintenance is shown; none: more than enough.
    room: Option<u64>,
    trouble: Option<(usize, Trouble)>,
}

/// A disk in memory that fails on demand.
#[derive(Clone, Default)]
struct Faulty(Arc<Mutex<State>>);

impl Faulty {
    fn op(&self, op: Op, grows: bool) -> io::Result<()> {
        let mut state = self.0.lock();
        let at = state.ops.len();
        state.ops.push(op);
        let fails = match state.trouble {
            Some((from, Trouble::Off)) => at >= from,
            Some((from, Trouble::Once)) => at == from,
            Some((from, Trouble::Full)) => at >= from && grows,
            None => false,
        };
        if !fails {
            return Ok(());
        }
        if matches!(state.trouble, Some((_, Trouble::Full))) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the disk is full, as the test wants it"));
        }
        Err(io::Error::other("the disk fails, as the test wants it"))
    }

    /// The disk after a crash. `kept` says which share of the unsynced writes reached the disk,
    /// in the order they were made. A process that is killed on a machine that continues keeps
    /// all of them.
    fn after_crash(&self, kept: f64) -> Self {
        let state = self.0.lock();
        let mut next = State { room: state.room, ..State::default() };
        for (path, file) in state.files.iter().chain(&state.unsynced_removals) {
            let file = file.lock();
            if !file.named && kept < 1.0 {
                continue;
            }
            let mut bytes = file.durable.clone();
            let n = (file.pending.len() as f64 * kept) as usize;
            for (offset, data) in &file.pending[..n] {
                put(&mut bytes, *offset, data);
            }
            let contents = Contents { live: bytes.clone(), durable: bytes, pending: vec![], named: true };
            next.files.insert(path.clone(), Arc::new(Mutex::new(contents)));
        }
        if kept >= 1.0 {
            next.files.retain(|path, _| !state.unsynced_removals.contains_key(path));
        }
        Self(Arc::new(Mutex::new(next)))
    }
}

fn put(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let end = offset as usize + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset as usize..end].copy_from_slice(data);
}

struct File {
    disk: Faulty,
    contents: Arc<Mutex<Contents>>,
}

impl Disk for Faulty {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.op(Op::Create, true)?;
        let contents: Arc<Mutex<Contents>> = Arc::default();
        let mut state = self.0.lock();
        assert!(!state.files.contains_key(path), "{} is there already", path.display());
        state.files.insert(path.to_owned(), Arc::clone(&contents));
        Ok(Arc::new(File { disk: self.clone(), contents }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.0.lock();
        let contents = state.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(File { disk: self.clone(), contents: Arc::clone(contents) }))
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        let name = |p: &PathBuf| p.file_name().unwrap().to_string_lossy().into_owned();
        Ok(self.0.lock().files.keys().map(name).collect())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.op(Op::Remove, false)?;
        let mut state = self.0.lock();
        let file = state.files.remove(path).ok_or(io::ErrorKind::NotFound)?;
        state.unsynced_removals.insert(path.to_owned(), file);
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.op(Op::SyncDir, false)?;
        let mut state = self.0.lock();
        state.unsynced_removals.clear();
        state.files.values().for_each(|f| f.lock().named = true);
        Ok(())
    }

    fn space(&self, _: &Path) -> io::Result<DiskSpace> {
        Ok(DiskSpace { all: u64::MAX, free: self.0.lock().room.unwrap_or(u64::MAX) })
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let contents = self.contents.lock();
        let there = contents.live.get(offset as usize..).unwrap_or_default();
        let n = there.len().min(buffer.len());
        buffer[..n].copy_from_slice(&there[..n]);
        Ok(n)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.windows(5).any(|head| head == b"PHR1\x09") {
            self.disk.0.lock().has_checkpoint = true;
        }
        let grows = offset + bytes.len() as u64 > self.contents.lock().live.len() as u64;
        let outcome = self.disk.op(Op::Write, grows);
        let mut contents = self.contents.lock();
        // A failed operation may have been done in part.
        let bytes = if outcome.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        put(&mut contents.live, offset, bytes);
        contents.pending.push((offset, bytes.to_vec()));
        outcome
    }

    fn sync(&self) -> io::Result<()> {
        let outcome = self.disk.op(Op::Sync, false);
        let mut contents = self.contents.lock();
        if outcome.is_err() {
            // The kernel drops pages that it could not write, and marks them clean.
            contents.pending.clear();
            return outcome;
        }
        for (offset, data) in std::mem::take(&mut contents.pending) {
            put(&mut contents.durable, offset, &data);
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.contents.lock().live.len() as u64)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.op(Op::Truncate, false)?;
        self.contents.lock().live.truncate(len as usize);
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }
}

fn options(disk: &Faulty) -> Options {
    // Small packs, so that a cut may fall into the making of a new one and the emptying of an old
    // one. A mailbox that becomes empty gets a checkpoint.
    let disk = Arc::new(disk.clone());
    Options { pack_bytes: 8_000, reserve_bytes: 0, checkpoint_from: 64, disk, ..small() }
}

/// How the store is opened.
#[derive(Clone, Copy, Debug)]
enum Opening {
    /// As a command does: every acknowledged commit is in the index.
    Command,
    /// As a server does: the index follows.
    Serving,
}

impl Opening {
    fn open(self, dir: &Path, disk: &Faulty) -> LmdbEngine {
        match self {
            Self::Command => LmdbEngine::open(dir, options(disk)).unwrap(),
            Self::Serving => world::serve(dir, options(disk)),
        }
    }
}

/// A life of some twenty-five commits and the maintenance between them. A failed operation is not
/// done, and must leave no trace.
async fn live(engine: &LmdbEngine, world: &mut World, errors: &mut Vec<StoreError>) {
    let mut note = |error: Option<StoreError>| errors.extend(error);
    let inbox = match world.create(engine, "INBOX").await {
        Ok(id) => id,
        Err(error) => return note(Some(error)),
    };
    let Ok(other) = world.create(engine, "other").await else { return };
    for n in 0..5 {
        let bodies: Vec<Bytes> = (0..3).map(|i| body(n * 3 + i, 2_000)).collect();
        note(world.append(engine, inbox, &bodies).await.err());
        // One that delivery did not convert gets its summary later.
        note(world.append_bare(engine, inbox, &[body(200 + n, 700)]).await.err());
        note(world.add_summaries(engine, inbox).await.err());
        let there: Vec<u32> = world.boxes[&inbox].messages.keys().copied().collect();
        note(world.flag(engine, inbox, &there, FlagSet::SEEN).await.err());
        note(world.copy(engine, inbox, &there[..there.len() / 4], other).await.err());
        // In the next round too: what is moved now is copied and moved on from there.
        let tail = &there[there.len() - there.len() / 3..];
        note(world.move_messages(engine, inbox, tail, other).await.err());
        // A body takes another form, and after the next message the first one again.
        let first = there.first().copied();
        if let Some(uid) = first.filter(|uid| world.boxes[&inbox].messages.contains_key(uid)) {
            note(world.recode(engine, inbox, uid).await.err());
            note(world.append(engine, other, &[body(100 + n, 500)]).await.err());
            note(world.recode(engine, inbox, uid).await.err());
            note(world.recode(engine, inbox, uid).await.err());
            // A further recipient brings a rich original.
            note(world.deliver_again(engine, (inbox, uid), other).await.err());
        }
        let back: Vec<u32> = world.boxes[&other].messages.keys().copied().take(1).collect();
        note(world.move_messages(engine, other, &back, inbox).await.err());
        let there: Vec<u32> = world.boxes[&inbox].messages.keys().copied().collect();
        if n % 2 == 1 {
            note(world.expunge(engine, inbox, &there[..there.len() * 3 / 4]).await.err());
            let there: Vec<u32> = world.boxes[&other].messages.keys().copied().collect();
            note(world.expunge(engine, other, &there).await.err());
            for _ in 0..8 {
                note(engine.maintain().await.err());
            }
        }
        note(world.set_directory(engine, "account/ana", Some(format!("{n}").as_bytes())).await.err());
    }
}

/// Reopens with the files that a crash left, verifies, continues, verifies again.
async fn survives(dir: &Path, disk: &Faulty, world: &World, opening: Opening, what: &str) {
    let engine = opening.open(dir, disk);
    println!("{what}");
    let mut world = match opening {
        Opening::Command => world.clone(),
        Opening::Serving => world.found_in(&engine).await,
    };
    world.verify(&engine).await;
    let inbox = world.create(&engine, "afterwards").await.unwrap();
    world.append(&engine, inbox, &[body(9, 3_000)]).await.unwrap();
    world::maintain(&engine).await;
    world.verify(&engine).await;
    engine.close();
    // The log has the same content as the index, whatever the tails contain.
    std::fs::remove_dir_all(dir.join("index")).unwrap();
    world::rebuild_whole(dir, &options(disk));
    let engine = LmdbEngine::open(dir, options(disk)).unwrap();
    world.verify(&engine).await;
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Lives with trouble at one operation, then crashes in three ways. Packs are named by their path:
/// every life has the same one.
async fn cut(root: &Path, at: usize, trouble: Trouble, opening: Opening, room: Option<u64>) -> Vec<Op> {
    let dir = root.join("live");
    let disk = Faulty::default();
    disk.0.lock().trouble = Some((at, trouble));
    disk.0.lock().room = room;
    let mut world = World::new();
    let mut errors = Vec::new();
    let engine = opening.open(&dir, &disk);
    live(&engine, &mut world, &mut errors).await;
    for error in &errors {
        assert!(matches!(error, StoreError::Unavailable(_) | StoreError::Full(_)), "{error}");
    }
    match opening {
        Opening::Command => {
            // Reading continues, whatever the disk does.
            world.verify(&engine).await;
            engine.close();
        }
        // Reading would have the index brought up.
        Opening::Serving => engine.kill(),
    }
    let ops = disk.0.lock().ops.clone();
    assert!(at < usize::MAX || disk.0.lock().has_checkpoint, "no checkpoint is cut off");
    let saved = root.join("saved");
    std::fs::rename(&dir, &saved).unwrap();
    for kept in [0.0, 0.5, 1.0] {
        copy_dir(&saved, &dir);
        let what =
            format!("{opening:?}, {trouble:?} from operation {at}, {kept} of the unsynced writes kept");
        survives(&dir, &disk.after_crash(kept), &world, opening, &what).await;
        std::fs::remove_dir_all(&dir).unwrap();
    }
    std::fs::remove_dir_all(&saved).unwrap();
    ops
}

/// A folder in memory, if the system has such a file system. `Faulty` decides what a crash leaves,
/// and a real disk's syncs would take three quarters of the time.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(base).unwrap()
}

/// Every cut of one kind of trouble, a few in parallel threads' worth of directories.
async fn all_cuts(trouble: Trouble, opening: Opening, room: Option<u64>) {
    let root = folder();
    let whole = cut(root.path(), usize::MAX, trouble, opening, room).await;
    let count = |op| whole.iter().filter(|o| **o == op).count();
    assert!(count(Op::Sync) > 15 && count(Op::Create) > 2 && count(Op::Remove) > 0, "{whole:?}");
    if room.is_some() {
        // Each pack but the last is truncated to its end when another one follows.
        assert!(
            count(Op::Truncate) > count(Op::Create),
            "no pack was cut: {} files were cut, {} made",
            count(Op::Truncate),
            count(Op::Create)
        );
    }
    for at in 0..whole.len() {
        cut(root.path(), at, trouble, opening, room).await;
    }
}

#[tokio::test]
async fn a_power_cut_at_any_operation() {
    all_cuts(Trouble::Off, Opening::Command, None).await;
}

#[tokio::test]
async fn a_power_cut_at_any_operation_of_a_server() {
    all_cuts(Trouble::Off, Opening::Serving, None).await;
}

#[tokio::test]
async fn any_one_operation_fails() {
    all_cuts(Trouble::Once, Opening::Command, None).await;
}

#[tokio::test]
async fn any_one_operation_of_a_server_fails() {
    all_cuts(Trouble::Once, Opening::Serving, None).await;
}

#[tokio::test]
async fn the_disk_is_full_from_any_operation_on() {
    all_cuts(Trouble::Full, Opening::Command, None).await;
}

#[tokio::test]
async fn the_disk_is_full_from_any_operation_of_a_server_on() {
    all_cuts(Trouble::Full, Opening::Serving, None).await;
}

/// Room for less than a message: packs are compacted from their ends, and cut.
const LITTLE: Option<u64> = Some(6_000);

#[tokio::test]
async fn a_power_cut_while_packs_are_cut() {
    all_cuts(Trouble::Off, Opening::Serving, LITTLE).await;
}

#[tokio::test]
async fn any_one_operation_fails_while_packs_are_cut() {
    all_cuts(Trouble::Once, Opening::Command, LITTLE).await;
}
