//! Sectors of a pack that the disk cannot read: only their contents are lost. A folder of packs
//! that cannot be listed fails a check.

use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use posthaste_mail_model::{FlagSet, MailboxId, NumSet};
use posthaste_store::{Engine, Stored};
use posthaste_store_lmdb::{Disk, DiskFile, EngineLock, LmdbEngine, Options, RealDisk, Rebuild, rebuild};

use crate::world::{World, body, serve, small};

/// A disk that cannot read these bytes of any pack, and while `is_unlisted` is set, no folder.
struct Unreadable {
    bad: Range<u64>,
    is_unlisted: Arc<AtomicBool>,
}

struct File {
    bad: Range<u64>,
    file: Arc<dyn DiskFile>,
}

impl Unreadable {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(File { bad: self.bad.clone(), file })
    }
}

impl Disk for Unreadable {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.create(path).map(|file| self.file(file))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.open(path).map(|file| self.file(file))
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        match self.is_unlisted.load(Ordering::Acquire) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => RealDisk.list(dir),
        }
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset < self.bad.end && self.bad.start < offset + buffer.len() as u64 {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
}

fn options(bad: Range<u64>) -> Options {
    Options { disk: Arc::new(Unreadable { bad, is_unlisted: Arc::default() }), ..small() }
}

/// A closed store of 40 messages of 300 bytes, in one commit each.
async fn store(dir: &Path) -> (World, MailboxId) {
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for n in 0..40 {
        world.append(&engine, inbox, &[body(n, 300)]).await.unwrap();
    }
    (world, inbox)
}

fn pack(dir: &Path) -> Vec<u8> {
    std::fs::read(dir.join("packs/00000001.pack")).unwrap()
}

/// Start and end of each body.
fn bodies(pack: &[u8]) -> Vec<Range<u64>> {
    let is_body = |at: &usize| pack[*at..].starts_with(b"PHR1") && pack[*at + 4] == 1;
    let starts = (64..pack.len() - 48).step_by(8).filter(is_body);
    starts.map(|at| at as u64..at as u64 + 48 + 4 + 300).collect()
}

/// The sweep's region 4096 of 512 bytes. Whole records in the same page as the sector were lost.
#[tokio::test]
async fn a_rebuild_passes_over_a_sector_and_no_more() {
    for sector in [4_096, 4_608, 7_680, 11_776] {
        let dir = tempfile::tempdir().unwrap();
        let (world, inbox) = store(dir.path()).await;
        let bad = sector..sector + 512;
        let hit: Vec<bool> =
            bodies(&pack(dir.path())).iter().map(|b| b.start < bad.end && bad.start < b.end).collect();
        assert!(hit.iter().any(|hit| *hit));
        let lock = EngineLock::acquire(dir.path()).unwrap();
        let report = rebuild(&lock, &options(bad.clone()), Rebuild::Force, &mut |_| {}).unwrap();
        assert!(!report.faults.is_empty());
        drop(lock);
        let engine = LmdbEngine::open(dir.path(), options(bad)).unwrap();
        let mut there = Vec::new();
        let mut visit = |s: Stored<'_>| {
            there.push((s.uid.value(), s.body));
            ControlFlow::Continue(())
        };
        engine.summaries(inbox, &NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
        assert_eq!(there.len(), 40);
        for ((uid, id), hit) in there.into_iter().zip(hit) {
            let read = engine.read_body(id, 0..u64::MAX).await;
            assert_eq!(read.is_err(), hit, "sector {sector}, UID {uid}: {:?}", read.err());
            if let Ok(bytes) = read {
                assert_eq!(bytes, world.boxes[&inbox].messages[&uid].bytes);
            }
        }
    }
}

/// The sweep's region 5632 of the newest pack. Whether commits are there cannot be known, so
/// nothing is written; all else is served.
#[tokio::test]
async fn a_tail_that_cannot_be_read_keeps_nobody_from_reading() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, inbox) = store(dir.path()).await;
    let bytes = pack(dir.path());
    let last = (64..bytes.len() - 48).step_by(8).rfind(|at| bytes[*at..].starts_with(b"PHR1")).unwrap();
    let len = u64::from_le_bytes(bytes[last + 16..last + 24].try_into().unwrap());
    let from = (last as u64 + 48 + len).next_multiple_of(8);
    let bad = from..from + 512;
    for open in [|dir: &Path, options| LmdbEngine::open(dir, options).unwrap(), serve] {
        let engine = open(dir.path(), options(bad.clone()));
        world.verify_contents(&engine).await;
        let refused = world.flag(&engine, inbox, &[3], FlagSet::SEEN).await.unwrap_err();
        assert!(refused.is_temporary(), "{refused}");
        world.doubt = None;
        engine.close();
    }
    // The remedy continues in another pack.
    let lock = EngineLock::acquire(dir.path()).unwrap();
    let report = rebuild(&lock, &options(bad.clone()), Rebuild::UnlessFaulty, &mut |_| {}).unwrap();
    assert_eq!(report.faults, [""; 0]);
    drop(lock);
    let engine = LmdbEngine::open(dir.path(), options(bad)).unwrap();
    world.flag(&engine, inbox, &[3], FlagSet::SEEN).await.unwrap();
    world.verify_contents(&engine).await;
}

/// Without the list it is not known whether the index lacks a pack.
#[tokio::test]
async fn a_check_that_cannot_list_the_packs_fails() {
    let dir = tempfile::tempdir().unwrap();
    drop(store(dir.path()).await);
    let is_unlisted = Arc::new(AtomicBool::new(false));
    let disk = Arc::new(Unreadable { bad: 0..0, is_unlisted: Arc::clone(&is_unlisted) });
    let engine = LmdbEngine::open(dir.path(), Options { disk, ..small() }).unwrap();
    assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
    is_unlisted.store(true, Ordering::Release);
    let error = engine.check(&mut |_| {}).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("packs"), "{error}");
}
