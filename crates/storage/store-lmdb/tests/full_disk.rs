//! A full file system: deletions succeed, their room comes back, and nothing ends the process.
//!
//! The file systems are real ones of 48 MiB: tmpfs and ext4. Where none can be mounted, which needs
//! root, the tests say so and do nothing.

#![allow(clippy::unwrap_used)]

mod world;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_mail_model::{FlagSet, MailboxId};
use posthaste_store::StoreError;
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, Rebuild, rebuild};
use tokio::sync::Mutex;

use world::{World, body, maintain, small, summarize};

const MIB: u64 = 1 << 20;

/// One test at a time: a process that is being started has the files of all others open for a
/// moment, and their locks.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A mounted file system.
struct SmallDisk {
    root: tempfile::TempDir,
    kind: &'static str,
}

impl SmallDisk {
    fn run(command: &str, arguments: &[&str]) -> bool {
        Command::new(command).args(arguments).output().is_ok_and(|done| done.status.success())
    }

    fn mount(kind: &'static str) -> Option<Self> {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().join("at");
        std::fs::create_dir(&at).unwrap();
        let (at, image) = (at.to_str().unwrap().to_owned(), root.path().join("image"));
        let is_mounted = match kind {
            "tmpfs" => Self::run("mount", &["-t", "tmpfs", "-o", "size=48m", "posthaste-test", &at]),
            _ => {
                std::fs::File::create(&image).unwrap().set_len(48 * MIB).unwrap();
                let image = image.to_str().unwrap();
                Self::run("mkfs.ext4", &["-q", "-m", "0", image])
                    && Self::run("mount", &["-o", "loop", image, &at])
            }
        };
        if !is_mounted {
            eprintln!("SKIPPED on {kind}: mounting a small file system needs root");
            return None;
        }
        Some(Self { root, kind })
    }

    fn each() -> impl Iterator<Item = Self> {
        ["tmpfs", "ext4"].into_iter().filter_map(Self::mount)
    }

    fn at(&self) -> PathBuf {
        self.root.path().join("at")
    }

    fn data(&self) -> PathBuf {
        self.at().join("data")
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let file = std::fs::File::options().create(true).append(true).open(self.at().join("filler")).unwrap();
        for len in [MIB as usize, 4096, 1] {
            while (&file).write_all(&vec![7; len]).is_ok() {}
        }
        let _ = file.sync_all();
    }

    fn unfill(&self) {
        std::fs::remove_file(self.at().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Self::run("umount", &["--lazy", self.at().to_str().unwrap()]);
    }
}

/// As a server has it, except for the size of the map.
fn options() -> Options {
    Options { map_bytes: 1 << 28, ..Options::new(summarize) }
}

/// Appends messages of 16 KiB until there is no room; answers how many there are.
async fn append_until_full(engine: &LmdbEngine, world: &mut World, mailbox: MailboxId) -> u32 {
    loop {
        let bodies: Vec<_> = (0..4).map(|n| body(n, 16 << 10)).collect();
        match world.append(engine, mailbox, &bodies).await {
            Ok(_) => assert!(world.boxes[&mailbox].messages.len() < 10_000),
            Err(StoreError::Full(_)) => return world.boxes[&mailbox].messages.len() as u32,
            Err(other) => panic!("a full disk is reported as another error: {other}"),
        }
    }
}

/// Whether a message is refused that is larger than what a pack preallocates (8 MiB). A smaller one
/// may still fit there, on a full disk, too.
async fn is_refused(engine: &LmdbEngine, world: &World, mailbox: MailboxId) -> bool {
    let refused = world.clone().append(engine, mailbox, &[body(1, 9 << 20)]).await;
    matches!(refused, Err(StoreError::Full(_)))
}

/// Fills the disk, deletes most of it, and fills it again.
async fn life(disk: &SmallDisk, engine: &LmdbEngine, world: &mut World) {
    let inbox = world.create(engine, "INBOX").await.unwrap();
    let doomed = world.create(engine, "doomed").await.unwrap();
    let other = world.create(engine, "other").await.unwrap();
    let bodies: Vec<_> = (0..40).map(|n| body(n, 16 << 10)).collect();
    world.append(engine, doomed, &bodies).await.unwrap();
    let first = append_until_full(engine, world, inbox).await;
    assert!(first > 1_500, "{}: {first}", disk.kind);
    disk.fill();
    for uid in 1..=150 {
        world.flag(engine, inbox, &[uid], FlagSet::DELETED).await.unwrap();
        world.expunge(engine, inbox, &[uid]).await.unwrap();
    }
    world.move_messages(engine, inbox, &[200, 201], other).await.unwrap();
    world.remove(engine, doomed).await.unwrap();
    // The space of the reserve is not for new messages.
    assert!(is_refused(engine, world, inbox).await);
    world.verify(engine).await;
    let most: Vec<u32> = (151..=first).filter(|uid| uid % 10 != 0).collect();
    world.flag(engine, inbox, &most, FlagSet::DELETED).await.unwrap();
    world.expunge(engine, inbox, &most).await.unwrap();
    maintain(engine).await;
    world.verify(engine).await;
    let again = append_until_full(engine, world, inbox).await;
    assert!(again > first * 8 / 10, "{}: {first} messages, after deletions {again}", disk.kind);
    disk.unfill();
    world.verify(engine).await;
    let all: Vec<u32> = world.boxes[&inbox].messages.keys().copied().skip(100).collect();
    world.expunge(engine, inbox, &all).await.unwrap();
    maintain(engine).await;
}

#[tokio::test]
async fn deleting_mail_frees_a_full_disk() {
    let _alone = ALONE.lock().await;
    for disk in SmallDisk::each() {
        let engine = world::serve(&disk.data(), options());
        let mut world = World::new();
        life(&disk, &engine, &mut world).await;
        engine.close();
        world::rebuild_whole(&disk.data(), &options());
        world.verify(&LmdbEngine::open(&disk.data(), options()).unwrap()).await;
    }
}

#[tokio::test]
async fn a_command_frees_a_full_disk_as_well() {
    let _alone = ALONE.lock().await;
    for disk in SmallDisk::each() {
        let engine = LmdbEngine::open(&disk.data(), options()).unwrap();
        life(&disk, &engine, &mut World::new()).await;
    }
}

#[tokio::test]
async fn a_store_starts_on_a_full_disk_and_can_be_tidied_up() {
    let _alone = ALONE.lock().await;
    for disk in SmallDisk::each() {
        let (dir, mut world) = (disk.data(), World::new());
        let engine = world::serve(&dir, options());
        let inbox = world.create(&engine, "INBOX").await.unwrap();
        append_until_full(&engine, &mut world, inbox).await;
        // Acknowledged, and not in the index: the next start has to redo it.
        world.flag(&engine, inbox, &[1, 2, 3], FlagSet::SEEN).await.unwrap();
        engine.kill();
        disk.fill();
        for lock_is_lost in [false, true] {
            if lock_is_lost {
                std::fs::remove_file(dir.join("index/lock.mdb")).unwrap();
                disk.fill();
            }
            let engine = world::serve(&dir, options());
            world.verify(&engine).await;
            let first: Vec<u32> = world.boxes[&inbox].messages.keys().copied().take(5).collect();
            world.expunge(&engine, inbox, &first).await.unwrap();
            engine.close();
            disk.fill();
        }
        // A rebuild needs room for a second index, and says so.
        let lock = EngineLock::acquire(&dir).unwrap();
        let refused = rebuild(&lock, &options(), Rebuild::UnlessFaulty, &mut |_| {});
        assert!(matches!(refused, Err(StoreError::Full(_))), "{}: {refused:?}", disk.kind);
        drop(lock);
        disk.unfill();
        world::rebuild_whole(&dir, &options());
        world.verify(&LmdbEngine::open(&dir, options()).unwrap()).await;
    }
}

#[tokio::test]
async fn a_store_cannot_be_made_on_a_full_disk_and_can_be_later() {
    let _alone = ALONE.lock().await;
    for disk in SmallDisk::each() {
        disk.fill();
        let refused = LmdbEngine::open(&disk.data(), options()).unwrap_err();
        assert!(matches!(refused, StoreError::Full(_)), "{}: {refused}", disk.kind);
        disk.unfill();
        LmdbEngine::open(&disk.data(), options()).unwrap();
    }
}

#[tokio::test]
async fn an_account_that_only_changes_flags_leaves_room_for_deletions() {
    let _alone = ALONE.lock().await;
    for disk in SmallDisk::each() {
        let engine = world::serve(&disk.data(), options());
        let mut world = World::new();
        let inbox = world.create(&engine, "INBOX").await.unwrap();
        append_until_full(&engine, &mut world, inbox).await;
        disk.fill();
        let all: Vec<u32> = world.boxes[&inbox].messages.keys().copied().step_by(2).collect();
        let mut round = 0;
        let refused = loop {
            round += 1;
            assert!(round < 100_000, "flags never fill the disk");
            let flags = if round % 2 == 0 { FlagSet::SEEN } else { FlagSet::EMPTY };
            if let Err(refused) = world.flag(&engine, inbox, &all, flags).await {
                break refused;
            }
            if round % 50 == 0 {
                disk.fill();
            }
        };
        assert!(matches!(refused, StoreError::Full(_)), "{refused}");
        for uid in all.iter().take(20) {
            world.expunge(&engine, inbox, &[*uid]).await.unwrap();
        }
        world.verify(&engine).await;
    }
}

/// Bytes of a file that a store keeps.
fn len(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

#[tokio::test]
async fn the_reserve_grows_with_the_store_and_is_made_again() {
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let reserve = dir.path().join("reserve");
    let options = Options { reserve_bytes: 4 * MIB, ..small() };
    let engine = LmdbEngine::open(dir.path(), options).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    assert_eq!(len(&reserve), 0, "a store without mail has none");
    world.append(&engine, inbox, &[body(1, 600 << 10)]).await.unwrap();
    assert_eq!(len(&reserve), MIB);
    for n in 0..12 {
        world.append(&engine, inbox, &[body(n, MIB as usize)]).await.unwrap();
    }
    assert_eq!(len(&reserve), 4 * MIB);
    std::fs::File::options().write(true).open(&reserve).unwrap().set_len(0).unwrap();
    maintain(&engine).await;
    assert_eq!(len(&reserve), 4 * MIB);
}
