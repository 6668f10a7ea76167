//! LMDB's `lock.mdb`: takes its room from the disk before LMDB maps it.
//!
//! LMDB makes the file by setting its length, and writes to it through a map. A page that has no
//! room on a full disk then ends the process with SIGBUS, and so does a page that the disk cannot
//! read. So the room is taken first, and the file read, where either is an error.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use posthaste_store::{Result, StoreError};
use rustix::fs::{FallocateFlags, fallocate};

use crate::log::disk::{failed, is_full};

/// Bytes of one reader's slot: a cache line (`MDB_reader`).
const SLOT: u64 = 64;
/// Bytes of the rest (`MDB_txninfo`), generously.
const HEAD: u64 = 4096;

/// Reads the file, as touching the map later would. It is small, and mostly in memory.
fn require_readable(path: &Path) -> Result<()> {
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    match read {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Err(StoreError::Unavailable(format!(
            "{}: {error}: the disk cannot read this file. It holds nothing but locks: remove it while no process has the \
             store open, and LMDB makes it again",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Takes the room for `readers` slots in the index of `dir`. `Full` if there is none. Where the
/// file system cannot, it does nothing. `Unavailable` if the disk cannot read the file.
pub(crate) fn allocate(dir: &Path, readers: u32) -> Result<()> {
    let path = dir.join("lock.mdb");
    // LMDB's locks on the file belong to the process, and end when it closes any descriptor of the
    // file (POSIX `fcntl`). So a file that this process uses, or that has its room, is not opened.
    let is_open = |dir: &Path| heed::env_closing_event(dir).is_some();
    if dir.canonicalize().is_ok_and(|dir| is_open(&dir)) {
        return Ok(());
    }
    require_readable(&path)?;
    let (len, has) = std::fs::metadata(&path).map_or((0, 0), |found| (found.len(), found.blocks() * 512));
    let need = len.max(u64::from(readers) * SLOT + HEAD);
    if has >= need {
        return Ok(());
    }
    let take = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        // The length is LMDB's affair: by it a process knows how many slots there are.
        Ok(fallocate(&file, FallocateFlags::KEEP_SIZE, 0, need)?)
    };
    match take() {
        Err(e) if is_full(&e) => Err(failed(path.display())(e)),
        // A directory that may not be written is LMDB's to refuse.
        Err(e) if e.kind() != ErrorKind::Unsupported => {
            tracing::debug!(path = %path.display(), error = %e, "room for the lock file was not taken");
            Ok(())
        }
        _ => Ok(()),
    }
}
