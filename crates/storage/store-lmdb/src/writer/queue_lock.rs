//! Processes queue before they write.
//!
//! LMDB gives its write lock to the quickest process. A server that begins its next transaction
//! at once is quicker than a process that has to wake up first. A command could wait for ever.
//!
//! So a writer takes the `flock` of the file `turn` first. It keeps it while it waits for LMDB's
//! lock, and releases it when it has LMDB's lock. A process that waits for LMDB's lock therefore
//! holds the queue lock, and the previous writer queues after it. If no process waits, this costs
//! two system calls and no sleep. The kernel releases the lock of a process that ends.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

use crate::log::disk::open_no_link;

/// The lock for which processes queue before they write.
#[derive(Debug)]
pub(crate) struct QueueLock(Option<File>);

impl QueueLock {
    /// Opens or creates the file. Without it (a disk that is full to the last name) writing
    /// continues, and may be unfair.
    pub(crate) fn open(dir: &Path) -> Self {
        let path = dir.join("turn");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = open_no_link(&mut options, &path).inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "the queue lock cannot be opened: processes that write do not take turns");
        });
        Self(file.ok())
    }

    /// Runs `begin`, which waits for LMDB's lock, while this process holds the queue lock.
    pub(super) fn hold<T>(&self, begin: impl FnOnce() -> T) -> T {
        let Some(file) = &self.0 else { return begin() };
        while let Err(error) = file.lock() {
            if error.kind() != ErrorKind::Interrupted {
                return begin();
            }
        }
        let begun = begin();
        let _ = file.unlock();
        begun
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let other = elsewhere.path().join("other");
        std::os::unix::fs::symlink(&other, dir.path().join("turn")).unwrap();
        assert!(QueueLock::open(dir.path()).0.is_none() && !other.exists());
        assert_eq!(QueueLock::open(dir.path()).hold(|| 1), 1);
    }

    /// A mutex plays LMDB's lock: the quickest thread gets it, too.
    #[test]
    fn a_process_that_waits_comes_before_one_that_has_just_written() {
        let dir = tempfile::tempdir().unwrap();
        let probe = File::create(dir.path().join("turn")).unwrap();
        let written = Mutex::new(Vec::new());
        let (server, command) = (QueueLock::open(dir.path()), QueueLock::open(dir.path()));
        for round in 0..200 {
            std::thread::scope(|scope| {
                let mut held = server.hold(|| written.lock());
                scope.spawn(|| command.hold(|| written.lock()).push(("command", round)));
                // Until the command has its turn: it then waits for the lock.
                let mut looks = 0;
                while probe.try_lock().is_ok() {
                    probe.unlock().unwrap();
                    std::thread::yield_now();
                    looks += 1;
                    assert!(looks < 5_000_000, "the waiting process does not hold the queue lock");
                }
                held.push(("server", round));
                drop(held);
                assert_eq!(server.hold(|| written.lock()).last(), Some(&("command", round)));
            });
        }
    }
}
