//! The bounded pool on which passwords are hashed, apart from the runtime's threads. It has one
//! thread fewer than the machine has cores, at least one and at most [`RUNNING_MAX`]. Each hash
//! takes 19 MiB and 20 ms of a core. So for any number of logins, one of several cores is free for
//! sessions that read mail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::error::{DirectoryError, Result};

/// Most hashes at a time: 8 × 19 MiB is 152 MiB. More cores than that have other work to do.
const RUNNING_MAX: usize = 8;
/// Most that wait for their turn, for each that runs: at 20 ms each the last one waits 24 s, which
/// mail programs bear. After a restart all users come at once and no password is remembered. Later
/// logins are refused until there is room.
const WAITING_MAX_EACH: usize = 1200;

pub(crate) struct Hashing {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
}

/// The number of passwords that are hashed at a time on this machine. Each takes the policy's
/// memory.
pub fn hashes_at_once() -> usize {
    posthaste_net::compute_threads().min(RUNNING_MAX)
}

impl Hashing {
    pub fn new() -> Self {
        let running = hashes_at_once();
        Self::of(running, running * WAITING_MAX_EACH)
    }

    fn of(running: usize, waiting_max: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(running)), waiting: AtomicUsize::new(0), waiting_max }
    }

    /// Runs `work` when there is a permit for it. If the caller goes away meanwhile, work begun is
    /// finished, and its permit is released only then.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let slot = QueueSlot::acquire(&self.waiting, self.waiting_max)?;
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|e| DirectoryError::Hashing(e.to_string()))?;
        drop(slot);
        let session = posthaste_metrics::current();
        let done = tokio::task::spawn_blocking(move || {
            let result = session.run(work);
            drop(permit);
            result
        });
        done.await.map_err(|e| DirectoryError::Hashing(e.to_string()))
    }
}

impl Hashing {
    /// Runs `work` if a permit is free now and nobody waits for one: for work that can be done
    /// another time.
    pub async fn run_if_free<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>> {
        // The semaphore is fair: while anybody waits, none is available.
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else { return Ok(None) };
        let session = posthaste_metrics::current();
        let done = tokio::task::spawn_blocking(move || {
            let result = session.run(work);
            drop(permit);
            result
        });
        done.await.map(Some).map_err(|e| DirectoryError::Hashing(e.to_string()))
    }

    /// The number of free permits.
    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// The number of hashes that wait for a permit.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A slot in the queue, released however the wait ends.
struct QueueSlot<'a>(&'a AtomicUsize);

impl<'a> QueueSlot<'a> {
    fn acquire(waiting: &'a AtomicUsize, max: usize) -> Result<Self> {
        let slot = Self(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= max {
            return Err(DirectoryError::Hashing("too many logins wait for their turn".into()));
        }
        Ok(slot)
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn permits_and_queue_have_bounds() {
        let hashing = Arc::new(Hashing::of(1, 2));
        let running = Arc::new(AtomicUsize::new(0));
        let (let_go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let start = || {
            let (hashing, running, wait) = (Arc::clone(&hashing), Arc::clone(&running), Arc::clone(&wait));
            tokio::spawn(async move {
                let work = move || {
                    let others = running.fetch_add(1, Ordering::SeqCst);
                    wait.lock().unwrap().recv().unwrap();
                    running.fetch_sub(1, Ordering::SeqCst);
                    others
                };
                hashing.run(work).await
            })
        };
        let tasks: Vec<_> = (0..3).map(|_| start()).collect();
        while running.load(Ordering::SeqCst) < 1 || hashing.waiting.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        // One runs, two wait: one who comes now is refused at once.
        let refused = hashing.run(|| ()).await.unwrap_err();
        assert!(hashing.run_if_free(|| ()).await.unwrap().is_none());
        assert!(refused.is_temporary() && refused.to_string().contains("too many logins wait"), "{refused}");
        for task in tasks {
            let_go.send(()).unwrap();
            // No other work ran at the same time.
            assert_eq!(task.await.unwrap().unwrap(), 0);
        }
        assert!(hashing.run_if_free(|| ()).await.unwrap().is_some());
    }
}
