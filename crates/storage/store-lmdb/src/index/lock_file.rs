//! LMDB's `lock.mdb`: allocates its blocks before LMDB maps it.
//!
//! LMDB makes the file by setting its length, and writes to it through a map. On a full disk a
//! page without a block then ends the process with SIGBUS. So does a page that the disk cannot
//! read. So the blocks are allocated first and the file is read, where a failure is an error.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use posthaste_store::{Result, StoreError};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::log::disk::{failed, is_full, open_no_link};

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

/// Allocates `readers` slots in the lock file of `dir`. `Full` if the disk is full. Where the
/// file system cannot, it does nothing. A file that the disk cannot read is refused, and so is a
/// link in its place: LMDB would write where the link leads.
pub(crate) fn allocate(dir: &Path, readers: u32) -> Result<()> {
    let path = dir.join("lock.mdb");
    // LMDB's locks on the file belong to the process, and end when it closes any descriptor of
    // the file (POSIX `fcntl`). So a file that this process uses, or that has its blocks, is not
    // opened.
    let is_open = |dir: &Path| heed::env_closing_event(dir).is_some();
    if dir.canonicalize().is_ok_and(|dir| is_open(&dir)) {
        return Ok(());
    }
    let found = std::fs::symlink_metadata(&path).ok();
    if found.as_ref().is_some_and(|found| found.is_symlink()) {
        return Err(failed(path.display())(Errno::LOOP.into()));
    }
    require_readable(&path)?;
    let (len, has) = found.map_or((0, 0), |found| (found.len(), found.blocks() * 512));
    let need = len.max(u64::from(readers) * SLOT + HEAD);
    if has >= need {
        return Ok(());
    }
    let take = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = open_no_link(&mut options, &path)?;
        // LMDB sets the length: by it a process knows how many slots there are.
        Ok(fallocate(&file, FallocateFlags::KEEP_SIZE, 0, need)?)
    };
    match take() {
        Err(e) if is_full(&e) || e.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            Err(failed(path.display())(e))
        }
        // LMDB refuses a directory that may not be written.
        Err(e) if e.kind() != ErrorKind::Unsupported => {
            tracing::debug!(path = %path.display(), error = %e, "the lock file could not be allocated");
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_its_place_is_refused() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let other = elsewhere.path().join("other");
        std::os::unix::fs::symlink(&other, dir.path().join("lock.mdb")).unwrap();
        assert!(allocate(dir.path(), 126).is_err() && !other.exists());
        // A link to a file that is long enough is refused, too.
        std::fs::write(&other, vec![1; 1 << 20]).unwrap();
        assert!(allocate(dir.path(), 126).is_err());
        assert_eq!(std::fs::read(&other).unwrap(), vec![1; 1 << 20]);
        std::fs::remove_file(dir.path().join("lock.mdb")).unwrap();
        allocate(dir.path(), 126).unwrap();
    }
}
