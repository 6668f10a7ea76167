//! The file operations of the packs, as a small trait, so that a test can fail or stop at each of
//! them.
//!
//! Nothing here retries or interprets: an error is an error of the pack, and `appender` decides
//! what it means.

use std::fmt::Display;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use posthaste_store::StoreError;
use rustix::fs::OFlags;

/// Whether the disk, or this user's quota, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A failed operation on a file as an error of the store.
pub(crate) fn failed(what: impl Display) -> impl FnOnce(io::Error) -> StoreError {
    move |e| {
        let why = format!("{what}: {e}");
        if is_full(&e) { StoreError::Full(why) } else { StoreError::Unavailable(why) }
    }
}

/// Opens a file, and follows no link in its place: another file would be made or changed.
pub(crate) fn open_no_link(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)
}

/// Bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// The bytes of the file system.
    pub all: u64,
    /// Bytes that this user may still write.
    pub free: u64,
}

/// The files of a store. Programs use [`RealDisk`].
pub trait Disk: Send + Sync + 'static {
    /// Creates a file that must not exist.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file that must exist, for reading and, where the file allows it, writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Names of the files in a directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations and removals in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes of the directory's file system.
    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        let disk = rustix::fs::statvfs(dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(DiskSpace { all: bytes(disk.f_blocks), free: bytes(disk.f_bavail) })
    }
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Reads at an offset; fewer bytes than requested only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all bytes at an offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes every write so far durable.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Truncates the file.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Locks the file for this process until it is closed; `false` if another process has it.
    fn try_lock(&self) -> io::Result<bool>;
}

/// The disk of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).create_new(true).open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let writable = OpenOptions::new().read(true).write(true).open(path);
        Ok(Arc::new(match writable {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                File::open(path)?
            }
            other => other?,
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(dir)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match FileExt::read_at(self, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn try_lock(&self) -> io::Result<bool> {
        match File::try_lock(self) {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}
