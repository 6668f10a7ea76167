//! The bounded pool on which passwords are hashed: off the runtime's own threads, and never more at a time than the
//! machine has cores, because each takes 19 MiB and 20 ms of one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

use crate::error::{DirectoryError, Result};

/// Most hashes at a time: 8 × 19 MiB is 152 MiB. More cores than that have other work to do.
const RUNNING_MAX: usize = 8;
/// Most that wait for their turn. At 20 ms each on two cores the last one waits 5 s; who comes later is told to come
/// again.
const WAITING_MAX: usize = 512;

pub(crate) struct Hashing {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Hashing {
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { permits: Arc::new(Semaphore::new(cores.min(RUNNING_MAX))), waiting: AtomicUsize::new(0) }
    }

    /// Runs `work` when there is room for it. If the caller goes away meanwhile, work begun is finished, and its room
    /// is free only then.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let place = Place::take(&self.waiting)?;
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|e| DirectoryError::Hashing(e.to_string()))?;
        drop(place);
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(permit);
            result
        });
        done.await.map_err(|e| DirectoryError::Hashing(e.to_string()))
    }
}

/// A place in the queue, given back however the wait ends.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize) -> Result<Self> {
        let place = Self(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            return Err(DirectoryError::Hashing("too many logins wait for their turn".into()));
        }
        Ok(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
