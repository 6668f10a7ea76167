//! One test at a time in a process.

use std::sync::{Mutex, MutexGuard, PoisonError};

static SERIAL: Mutex<()> = Mutex::new(());

/// Waits until no other test of this process holds the lock, and holds it until the guard is
/// dropped.
///
/// The moved clock belongs to the whole process: hours that pass for one store pass for all others,
/// too. And a process that is being started holds all locks of its parent until it runs its
/// program.
pub fn serial() -> MutexGuard<'static, ()> {
    SERIAL.lock().unwrap_or_else(PoisonError::into_inner)
}
