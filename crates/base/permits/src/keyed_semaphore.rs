//! Permits for work that accounts and untrusted hosts can cause. Their number is limited, in all
//! and for each account or host.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A semaphore with a number of permits in all, and a limit for each key. All clones are the
/// same.
#[derive(Debug)]
pub struct KeyedSemaphore<K: Eq + Hash + Clone>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K> {
    all: Arc<Semaphore>,
    each: usize,
    by_key: Mutex<HashMap<K, Share>>,
}

/// The permits of one key, and how many it has or waits for.
#[derive(Debug)]
struct Share {
    permits: Arc<Semaphore>,
    count: usize,
}

/// A permit; released when dropped.
#[derive(Debug)]
pub struct KeyedPermit<K: Eq + Hash + Clone> {
    _of_all: OwnedSemaphorePermit,
    _own: OwnPermit<K>,
}

/// A permit of one key, without a common one; released when dropped.
#[derive(Debug)]
pub struct OwnPermit<K: Eq + Hash + Clone> {
    _own: OwnedSemaphorePermit,
    _entry: Entry<K>,
}

/// Forgets a key that has no permit any more.
#[derive(Debug)]
struct Entry<K: Eq + Hash + Clone> {
    inner: Arc<Inner<K>>,
    key: K,
}

impl<K: Eq + Hash + Clone> KeyedSemaphore<K> {
    /// The permits in all, and the permits for each key.
    pub fn new(all: usize, each: usize) -> Self {
        Self(Arc::new(Inner { all: Arc::new(Semaphore::new(all)), each, by_key: Mutex::default() }))
    }

    /// A permit, as from [`Self::acquire`]; none if that takes too long.
    pub async fn acquire_within(&self, key: K, within: Duration) -> Option<KeyedPermit<K>> {
        tokio::time::timeout(within, self.acquire(key)).await.ok()?
    }

    /// A permit, in the order of the calls. A caller that waits for a permit of its own key holds
    /// none of the common ones. `None` never happens: no semaphore is closed.
    pub async fn acquire(&self, key: K) -> Option<KeyedPermit<K>> {
        let own = self.acquire_own(key).await?;
        let of_all = Arc::clone(&self.0.all).acquire_owned().await.ok()?;
        Some(KeyedPermit { _of_all: of_all, _own: own })
    }

    /// A permit of a key alone, without a common one.
    pub async fn acquire_own(&self, key: K) -> Option<OwnPermit<K>> {
        let own = {
            let mut by_key = self.0.lock();
            let new = || Share { permits: Arc::new(Semaphore::new(self.0.each)), count: 0 };
            let share = by_key.entry(key.clone()).or_insert_with(new);
            share.count += 1;
            Arc::clone(&share.permits)
        };
        let entry = Entry { inner: Arc::clone(&self.0), key };
        let own = own.acquire_owned().await.ok()?;
        Some(OwnPermit { _own: own, _entry: entry })
    }
}

impl<K: Eq + Hash + Clone> KeyedSemaphore<K> {
    /// How many keys have a permit, or wait for one.
    pub fn keys(&self) -> usize {
        self.0.lock().len()
    }
}

impl<K: Eq + Hash + Clone> Clone for KeyedSemaphore<K> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A permit that is not free at once does not become free.
    const WITHIN: Duration = Duration::ZERO;

    #[tokio::test]
    async fn each_has_a_share_and_waits_so_long() {
        let permits = KeyedSemaphore::new(3, 2);
        let one = permits.acquire_within('a', WITHIN).await.unwrap();
        let _two = permits.acquire_within('a', WITHIN).await.unwrap();
        assert!(permits.acquire_within('a', WITHIN).await.is_none(), "its share");
        let other = permits.acquire_within('b', WITHIN).await.unwrap();
        assert!(permits.acquire_within('c', WITHIN).await.is_none(), "all are taken");
        drop(one);
        let third = permits.acquire_within('c', WITHIN).await.unwrap();
        drop((other, third));
        assert!(permits.acquire_within('c', WITHIN).await.is_some());
        assert_eq!(permits.keys(), 1, "who has none is forgotten");
    }

    #[tokio::test]
    async fn a_waiter_for_its_own_permit_holds_none_of_others() {
        let permits = KeyedSemaphore::new(2, 1);
        let one = permits.acquire_within('a', WITHIN).await.unwrap();
        let again = tokio::spawn({
            let permits = permits.clone();
            async move { permits.acquire('a').await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(permits.acquire_within('b', WITHIN).await.is_some());
        drop(one);
        assert!(again.await.unwrap());
    }
}
