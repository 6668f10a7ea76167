//! The bounded pool on which passwords are hashed: off the runtime's own threads, and never more at a time than the
//! machine has cores, because each takes 19 MiB and 20 ms of one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

use crate::error::{DirectoryError, Result};

/// Most hashes at a time: 8 × 19 MiB is 152 MiB. More cores than that have other work to do.
const RUNNING_MAX: usize = 8;
/// Most that wait for their turn, for each that runs: at 20 ms each the last one waits 24 s, which mail programs bear. After a restart all
/// users come at once and no password is remembered; who comes later than that is told to come again.
const WAITING_MAX_EACH: usize = 1200;

pub(crate) struct Hashing {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl Hashing {
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let running = cores.min(RUNNING_MAX);
        let permits = Arc::new(Semaphore::new(running));
        Self { permits, waiting: AtomicUsize::new(0), waiting_max: running * WAITING_MAX_EACH }
    }

    /// Runs `work` when there is room for it. If the caller goes away meanwhile, work begun is finished, and its room
    /// is free only then.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let place = Place::take(&self.waiting, self.waiting_max)?;
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
    fn take(waiting: &'a AtomicUsize, max: usize) -> Result<Self> {
        let place = Self(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= max {
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
