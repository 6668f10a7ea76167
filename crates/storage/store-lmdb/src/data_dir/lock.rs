//! The serve lock: one server per data directory, however the previous one ended.
//!
//! `flock` on the file `lock` and on the directory itself, which the kernel releases when the
//! process ends in any way. Removing `lock` by hand removes a name only, and the directory is
//! still locked. The process id in the file is for the error message alone. Other processes
//! (`account`, `import`, `check`) work while the server runs and do not take it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Held by the serving process; released when dropped.
#[derive(Debug)]
pub struct EngineLock {
    dir: PathBuf,
    _file: File,
    /// The directory, locked as well: removing the file `lock` gives no other server access.
    itself: OnceLock<File>,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The lock is held by another server.
    #[error("{} is being served by process {pid}; stop it first, or give another --data", dir.display())]
    Held {
        /// The data directory.
        dir: PathBuf,
        /// The other server's process id, from the file.
        pid: String,
    },
    /// The file cannot be created or locked.
    #[error("{}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The time, in milliseconds, that another process may take to make the store of a locked
/// directory. It has the lock until the names are synced. A longer wait would delay the error for
/// an administrator who starts a second server after somebody removed the lock file.
const MAKING: u64 = 1_000;
/// Milliseconds between two attempts.
const LOOK: u64 = 20;

impl EngineLock {
    /// Takes the lock of a data directory, which is made if it is not there.
    pub fn acquire(dir: &Path) -> Result<Self, LockError> {
        let path = dir.join("lock");
        let io = |source| LockError::Io { path: path.clone(), source };
        std::fs::create_dir_all(dir).map_err(io)?;
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // A holder that has not yet written its id is still a holder.
                let _ = (&mut file).take(20).read_to_string(&mut pid);
                let pid = pid.trim();
                let pid = if pid.is_empty() { "unknown" } else { pid }.to_owned();
                return Err(LockError::Held { dir: dir.to_owned(), pid });
            }
            Err(TryLockError::Error(e)) => return Err(io(e)),
        }
        // The id is for a message alone: a full disk must not keep a server from starting. The
        // old id is overwritten, because a truncated file would need space again.
        let id = format!("{}\n", std::process::id());
        let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(id.as_bytes()));
        let _ = written.and_then(|()| file.set_len(id.len() as u64));
        let lock = Self { dir: dir.to_owned(), _file: file, itself: OnceLock::new() };
        if dir.join("format").is_file() {
            lock.hold_directory()?;
        }
        Ok(lock)
    }

    /// Locks the directory itself, if that was not done yet.
    ///
    /// Called once there is a store. The process that creates it locks the directory until then.
    pub fn hold_directory(&self) -> Result<(), LockError> {
        if self.itself.get().is_some() {
            return Ok(());
        }
        let io = |source| LockError::Io { path: self.dir.clone(), source };
        let itself = File::open(&self.dir).map_err(io)?;
        let mut tries = MAKING / LOOK;
        while let Err(error) = itself.try_lock() {
            match error {
                TryLockError::WouldBlock if tries > 0 => std::thread::sleep(Duration::from_millis(LOOK)),
                TryLockError::WouldBlock => {
                    return Err(LockError::Held { dir: self.dir.clone(), pid: "unknown".to_owned() });
                }
                TryLockError::Error(error) => return Err(io(error)),
            }
            tries -= 1;
        }
        // Another thread may have been first: then this lock is not needed.
        let _ = self.itself.set(itself);
        Ok(())
    }

    /// The data directory it is for.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_process_learns_the_id_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = EngineLock::acquire(dir.path()).unwrap();
        let error = EngineLock::acquire(dir.path()).unwrap_err();
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        EngineLock::acquire(dir.path()).unwrap();
    }

    /// A command makes the store while a server starts.
    #[test]
    fn opening_waits_for_the_process_that_creates_the_store() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("format"), "").unwrap();
        let making = File::open(dir.path()).unwrap();
        making.lock().unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| EngineLock::acquire(dir.path()));
            // It has the lock file, and looks at the directory.
            let lock = dir.path().join("lock");
            while std::fs::read(&lock).map_or(true, |id| id.is_empty()) {
                assert!(!server.is_finished(), "the server was refused");
                std::thread::yield_now();
            }
            making.unlock().unwrap();
            server.join().unwrap().unwrap();
        });
    }

    #[test]
    fn removing_the_file_lets_nobody_in() {
        let dir = tempfile::tempdir().unwrap();
        let held = |lock: Result<EngineLock, LockError>| matches!(lock, Err(LockError::Held { .. }));
        // The first start makes the store under the lock, the second finds it.
        for _ in 0..2 {
            let first = EngineLock::acquire(dir.path()).unwrap();
            std::fs::write(dir.path().join("format"), "").unwrap();
            first.hold_directory().unwrap();
            std::fs::remove_file(dir.path().join("lock")).unwrap();
            assert!(held(EngineLock::acquire(dir.path())) && held(EngineLock::acquire(dir.path())));
        }
    }
}
