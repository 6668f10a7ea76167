//! A disk that fails as a test wants it.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_store_lmdb::{Disk, DiskFile, Options, RealDisk};

use super::small;

/// The outcome of the next sync of a pack.
pub enum Sync {
    Fails,
    /// The index is as it is now, whatever is committed to it later: the machine ends after this
    /// sync.
    SavesIndex(PathBuf),
}

/// A disk whose next syncs have given outcomes. Later ones succeed.
#[derive(Clone, Default)]
pub struct Failing {
    pub syncs: Arc<Mutex<VecDeque<Sync>>>,
    /// Syncs of a directory that fail.
    pub directories: Arc<Mutex<usize>>,
    /// Whether files cannot be removed.
    pub keeps_files: Arc<Mutex<bool>>,
    /// Parts of packs that were written, from … to, in their order.
    pub writes: Arc<Mutex<Vec<(u64, u64)>>>,
    /// How many of them there were at each sync.
    pub synced: Arc<Mutex<Vec<usize>>>,
}

struct File {
    disk: Failing,
    file: Arc<dyn DiskFile>,
}

fn failure() -> io::Error {
    io::Error::other("the disk fails, as the test wants it")
}

impl Failing {
    pub fn plan(&self, syncs: impl IntoIterator<Item = Sync>) {
        self.syncs.lock().extend(syncs);
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(File { disk: self.clone(), file })
    }

    pub fn options(&self) -> Options {
        Options { disk: Arc::new(self.clone()), ..small() }
    }
}

impl Disk for Failing {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.create(path).map(|file| self.file(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.open(path).map(|file| self.file(file))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if *self.keeps_files.lock() { Err(failure()) } else { RealDisk.remove(path) }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut left = self.directories.lock();
        if *left > 0 {
            *left -= 1;
            return Err(failure());
        }
        RealDisk.sync_dir(dir)
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.writes.lock().push((offset, offset + bytes.len() as u64));
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        match self.disk.syncs.lock().pop_front() {
            Some(Sync::Fails) => return Err(failure()),
            Some(Sync::SavesIndex(dir)) => save_index(&dir),
            None => {}
        }
        self.disk.synced.lock().push(self.disk.writes.lock().len());
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

/// Keeps the index as it is now.
pub fn save_index(dir: &Path) {
    std::fs::copy(dir.join("index/data.mdb"), dir.join("saved.mdb")).unwrap();
}
