//! Places for work that strangers can cause. Their number is limited, in all and for each stranger.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places, and the number of them that each key has. All clones are the same.
#[derive(Debug)]
pub struct Places<K: Eq + Hash + Clone>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K> {
    all: Arc<Semaphore>,
    each: usize,
    by_key: Mutex<HashMap<K, Share>>,
}

/// The places of one, and how many it has or waits for.
#[derive(Debug)]
struct Share {
    places: Arc<Semaphore>,
    count: usize,
}

/// A place; free when dropped.
#[derive(Debug)]
pub struct WorkPlace<K: Eq + Hash + Clone> {
    _of_all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _entry: Entry<K>,
}

/// Forgets somebody who has no place any more.
#[derive(Debug)]
struct Entry<K: Eq + Hash + Clone> {
    inner: Arc<Inner<K>>,
    key: K,
}

impl<K: Eq + Hash + Clone> Places<K> {
    /// The places in all, and the places for each.
    pub fn new(all: usize, each: usize) -> Self {
        Self(Arc::new(Inner { all: Arc::new(Semaphore::new(all)), each, by_key: Mutex::default() }))
    }

    /// A place, in the order of the calls; none if that takes too long. A caller that waits for a
    /// place of its own key holds none of the common ones.
    pub async fn take(&self, key: K, within: Duration) -> Option<WorkPlace<K>> {
        let own = {
            let mut by_key = self.0.lock();
            let new = || Share { places: Arc::new(Semaphore::new(self.0.each)), count: 0 };
            let share = by_key.entry(key.clone()).or_insert_with(new);
            share.count += 1;
            Arc::clone(&share.places)
        };
        let entry = Entry { inner: Arc::clone(&self.0), key };
        let both = async {
            let own = own.acquire_owned().await.ok()?;
            let of_all = Arc::clone(&self.0.all).acquire_owned().await.ok()?;
            Some((own, of_all))
        };
        let (own, of_all) = tokio::time::timeout(within, both).await.ok()??;
        Some(WorkPlace { _of_all: of_all, _own: own, _entry: entry })
    }
}

impl<K: Eq + Hash + Clone> Clone for Places<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Inner<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Share>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> Drop for Entry<K> {
    fn drop(&mut self) {
        let mut by_key = self.inner.lock();
        if let Some(share) = by_key.get_mut(&self.key) {
            share.count -= 1;
            if share.count == 0 {
                by_key.remove(&self.key);
            }
        }
    }
}

/// How many threads compute at a time so that sessions keep a processor: all but one.
pub fn processors_for_work() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place that is not free at once does not become free.
    const WITHIN: Duration = Duration::ZERO;

    #[tokio::test]
    async fn each_has_a_share_and_waits_so_long() {
        let places = Places::new(3, 2);
        let one = places.take('a', WITHIN).await.unwrap();
        let _two = places.take('a', WITHIN).await.unwrap();
        assert!(places.take('a', WITHIN).await.is_none(), "its share");
        let other = places.take('b', WITHIN).await.unwrap();
        assert!(places.take('c', WITHIN).await.is_none(), "all are taken");
        drop(one);
        let third = places.take('c', WITHIN).await.unwrap();
        drop((other, third));
        assert!(places.take('c', WITHIN).await.is_some());
        assert_eq!(places.0.lock().len(), 1, "who has none is forgotten");
    }

    #[tokio::test]
    async fn who_waits_for_its_own_keeps_no_place_of_others() {
        let places = Places::new(2, 1);
        let one = places.take('a', WITHIN).await.unwrap();
        let again = tokio::spawn({
            let places = places.clone();
            async move { places.take('a', Duration::MAX).await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(places.take('b', WITHIN).await.is_some());
        drop(one);
        assert!(again.await.unwrap());
    }
}
