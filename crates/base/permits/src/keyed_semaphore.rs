//! Permits for work that accounts and untrusted hosts can cause. Their number is limited, in all
//! and for each account or host.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::fair_queue::FairQueue;

/// A semaphore with a number of permits in all, and a limit for each key. All clones are the
/// same.
///
/// A free permit goes to the waiting key with the fewest permits. Keys with equally few take
/// turns. So many waiters of some keys do not keep the first waiter of another key waiting long.
#[derive(Debug)]
pub struct KeyedSemaphore<K: Eq + Hash + Clone>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K: Eq + Hash + Clone> {
    /// The permits in all. A waiter gets its common permit through its channel.
    all: Mutex<FairQueue<K, oneshot::Sender<CommonPermit<K>>>>,
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
    _of_all: CommonPermit<K>,
    _own: OwnPermit<K>,
}

/// A permit of one key, without a common one; released when dropped.
#[derive(Debug)]
pub struct OwnPermit<K: Eq + Hash + Clone> {
    _own: OwnedSemaphorePermit,
    entry: Entry<K>,
}

/// One of the permits in all; the next waiter has it when it is dropped.
#[derive(Debug)]
struct CommonPermit<K: Eq + Hash + Clone> {
    inner: Arc<Inner<K>>,
    key: K,
}

/// A waiter for a common permit; leaves the queue when dropped.
struct Waiter<K: Eq + Hash + Clone> {
    inner: Arc<Inner<K>>,
    key: K,
    number: u64,
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
        Self(Arc::new(Inner { all: Mutex::new(FairQueue::new(all)), each, by_key: Mutex::default() }))
    }

    /// A permit, as from [`Self::acquire`]; none if that takes too long. A permit that is free
    /// needs no timer.
    pub async fn acquire_within(&self, key: K, within: Duration) -> Option<KeyedPermit<K>> {
        none_after(within, self.acquire(key)).await
    }

    /// A permit, as from [`Self::acquire_own`]; none if that takes too long. A permit that is
    /// free needs no timer.
    pub async fn acquire_own_within(&self, key: K, within: Duration) -> Option<OwnPermit<K>> {
        none_after(within, self.acquire_own(key)).await
    }

    /// A permit, for each key in the order of the calls. A caller that waits for a permit of its
    /// own key holds none of the common ones. `None` never happens: nothing is closed.
    pub async fn acquire(&self, key: K) -> Option<KeyedPermit<K>> {
        let own = self.acquire_own(key).await?;
        let of_all = match self.0.take_or_wait(own.entry.key.clone()) {
            Ok(permit) => permit,
            Err((waiter, permit)) => {
                let permit = permit.await.ok()?;
                drop(waiter);
                permit
            }
        };
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
        Some(OwnPermit { _own: own, entry })
    }
}

/// A permit, unless that takes too long. The timer begins only if the permit is not free: some
/// programs that read a store run without timers.
async fn none_after<P>(within: Duration, acquiring: impl Future<Output = Option<P>>) -> Option<P> {
    let mut acquiring = pin!(acquiring);
    match poll_fn(|cx| Poll::Ready(acquiring.as_mut().poll(cx))).await {
        Poll::Ready(permit) => permit,
        Poll::Pending => tokio::time::timeout(within, acquiring).await.ok()?,
    }
}

impl<K: Eq + Hash + Clone> KeyedSemaphore<K> {
    /// How many keys have a permit, or wait for one.
    pub fn keys(&self) -> usize {
        self.0.lock().len()
    }

    /// How many permits a key has or waits for.
    pub fn count(&self, key: &K) -> usize {
        self.0.lock().get(key).map_or(0, |share| share.count)
    }
}

impl<K: Eq + Hash + Clone> Clone for KeyedSemaphore<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A waiter, and the channel that brings its permit.
type Waiting<K> = (Waiter<K>, oneshot::Receiver<CommonPermit<K>>);

impl<K: Eq + Hash + Clone> Inner<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Share>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, FairQueue<K, oneshot::Sender<CommonPermit<K>>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A common permit, or a place in the queue for one.
    fn take_or_wait(self: &Arc<Self>, key: K) -> Result<CommonPermit<K>, Waiting<K>> {
        let inner = Arc::clone(self);
        let mut queue = self.queue();
        if queue.take(&key) {
            return Ok(CommonPermit { inner, key });
        }
        let (sender, receiver) = oneshot::channel();
        let number = queue.wait(&key, sender);
        Err((Waiter { inner, key, number }, receiver))
    }
}

impl<K: Eq + Hash + Clone> Drop for CommonPermit<K> {
    fn drop(&mut self) {
        let next = self.inner.queue().release(&self.key);
        if let Some((key, waiter)) = next {
            let permit = Self { inner: Arc::clone(&self.inner), key };
            // A waiter that has just left refuses the permit. It is dropped, and the next has it.
            drop(waiter.send(permit));
        }
    }
}

impl<K: Eq + Hash + Clone> Drop for Waiter<K> {
    fn drop(&mut self) {
        self.inner.queue().leave(&self.key, self.number);
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
    use std::pin::Pin;
    use std::task::{Context, Waker};

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

    #[tokio::test]
    async fn permits_of_a_key_alone_take_no_common_ones() {
        let turns = KeyedSemaphore::new(0, 1);
        let one = turns.acquire_own_within('a', WITHIN).await.unwrap();
        assert!(turns.acquire_own_within('a', WITHIN).await.is_none());
        let other = turns.acquire_own_within('b', WITHIN).await.unwrap();
        drop((one, other));
        assert_eq!(turns.keys(), 0);
    }

    /// Tools and simulations read a store in a runtime without timers.
    #[test]
    fn a_free_permit_needs_no_timer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let permits = KeyedSemaphore::new(1, 1);
            assert!(permits.acquire_within('a', Duration::MAX).await.is_some());
            assert!(permits.acquire_own_within('a', Duration::MAX).await.is_some());
        });
    }

    /// A call that is polled by hand.
    type Call<'s> = Pin<Box<dyn Future<Output = Option<KeyedPermit<u32>>> + 's>>;

    fn call(permits: &KeyedSemaphore<u32>, key: u32) -> Call<'_> {
        Box::pin(permits.acquire(key))
    }

    /// Polls each call once, and returns the permits of those that got one.
    fn permitted(calls: &mut Vec<Call<'_>>) -> Vec<KeyedPermit<u32>> {
        let mut context = Context::from_waker(Waker::noop());
        let mut permitted = Vec::new();
        calls.retain_mut(|call| match call.as_mut().poll(&mut context) {
            Poll::Ready(permit) => {
                permitted.extend(permit);
                false
            }
            Poll::Pending => true,
        });
        permitted
    }

    /// Without a runtime, so that no call is pending for another reason than its turn.
    #[test]
    fn a_new_key_has_the_next_permit_while_twenty_keys_hold_and_want_all() {
        let permits = KeyedSemaphore::new(64, 16);
        let mut calls = Vec::new();
        for key in 0..20 {
            calls.extend((0..32).map(|_| call(&permits, key)));
        }
        let mut held = permitted(&mut calls);
        assert_eq!(held.len(), 64, "four keys have all");
        // After a while each key has some, and wants more.
        for _ in 0..64 {
            drop(held.remove(0));
            held.extend(permitted(&mut calls));
        }
        for key in 0..20 {
            let has = held.iter().filter(|permit| permit._of_all.key == key).count();
            assert!((3..=4).contains(&has), "key {key} has {has}");
        }
        let mut new = vec![call(&permits, 20)];
        assert!(permitted(&mut new).is_empty(), "all are taken");
        drop(held.remove(0));
        let its = permitted(&mut new);
        assert_eq!(its.len(), 1);
        assert!(permitted(&mut calls).is_empty());
    }

    #[test]
    fn a_caller_that_leaves_keeps_no_permit_and_no_place_in_the_queue() {
        let permits = KeyedSemaphore::new(1, 1);
        let [mut first, mut second, mut third] = [0, 1, 2].map(|key| vec![call(&permits, key)]);
        let held = permitted(&mut first);
        assert!(permitted(&mut second).is_empty() && permitted(&mut third).is_empty());
        drop(held);
        // Key 1 has the permit, but its caller leaves before it looks.
        drop(second);
        let held = permitted(&mut third);
        assert_eq!(held.len(), 1);
        let mut fourth = vec![call(&permits, 3)];
        assert!(permitted(&mut fourth).is_empty());
        drop(fourth);
        drop(held);
        assert!(permits.0.queue().is_unused() && permits.keys() == 0);
        assert_eq!(permitted(&mut vec![call(&permits, 4)]).len(), 1);
    }
}
