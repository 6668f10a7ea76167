//! Keeps packs from being cut while a snapshot or a check reads one state of the index.
//!
//! A snapshot and a check read packs as one state of the index names them. They hold a shared
//! `flock` on the directory of the packs, which they take before they begin to read. A process
//! that cuts a pack takes the lock exclusively, and leaves the pack as it is if it cannot. A pack
//! that is removed needs no lock: an open file outlives its name.

use std::fs::File;
use std::io;
use std::path::Path;

/// The lock, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held, never read")] File);

/// Keeps packs from being cut. Waits while a pack is being cut.
pub(crate) fn protect(packs: &Path) -> io::Result<Lock> {
    let dir = File::open(packs)?;
    dir.lock_shared()?;
    Ok(Lock(dir))
}

/// Takes the lock exclusively; `None` if a process reads.
pub(crate) fn exclude(packs: &Path) -> Option<Lock> {
    let dir = File::open(packs).ok()?;
    dir.try_lock().ok()?;
    Some(Lock(dir))
}
