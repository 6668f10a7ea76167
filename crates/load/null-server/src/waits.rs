//! Waits for peers. Each one has an end: peers that say nothing would keep the places of others. If
//! there is no place left, the longest wait ends earlier.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How long a place is awaited before the next wait ends, too.
const PLACE_AGAIN: Duration = Duration::from_millis(100);

/// The waits of all connections.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Begun>);

/// The waits by number, so the longest is the first.
#[derive(Default)]
struct Begun {
    next: u64,
    ends: BTreeMap<u64, Arc<Notify>>,
}

impl Waits {
    fn begun(&self) -> MutexGuard<'_, Begun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a peer, no longer than `most` and until its place is needed.
    pub(crate) async fn wait<T>(
        &self,
        most: Duration,
        peer: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let wait = Wait::begin(self);
        tokio::select! {
            () = wait.end.notified() => Err(io::ErrorKind::ConnectionAborted.into()),
            done = tokio::time::timeout(most, peer) => done.unwrap_or_else(|late| Err(late.into())),
        }
    }

    /// A place. If none is free, the connection with the longest wait leaves.
    pub(crate) async fn place(&self, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(place) = places.clone().try_acquire_owned() {
                return Some(place);
            }
            let longest = self.begun().ends.pop_first();
            if let Some((_, end)) = longest {
                end.notify_one();
            }
            // Nobody may wait now, and somebody soon.
            if let Ok(place) = tokio::time::timeout(PLACE_AGAIN, places.clone().acquire_owned()).await {
                return place.ok();
            }
        }
    }
}

/// A wait that goes on.
struct Wait<'a> {
    waits: &'a Waits,
    number: u64,
    end: Arc<Notify>,
}

impl<'a> Wait<'a> {
    fn begin(waits: &'a Waits) -> Self {
        let mut begun = waits.begun();
        let (number, end) = (begun.next, Arc::new(Notify::new()));
        begun.next += 1;
        begun.ends.insert(number, end.clone());
        Self { waits, number, end }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.waits.begun().ends.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_silent_peer_has_an_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let waits = Waits::default();
        let silent = std::future::pending::<io::Result<()>>();
        let error = runtime.block_on(waits.wait(Duration::from_millis(1), silent)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(waits.begun().ends.is_empty());
    }
}
