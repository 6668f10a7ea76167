//! The bounded pool on which passwords are hashed, apart from the runtime's threads. It has one
//! thread fewer than the machine has cores, at least one and at most [`RUNNING_MAX`]. Each hash
//! takes 19 MiB and 20 ms of a core. So for any number of logins, one of several cores is free for
//! sessions that read mail.
//!
//! Logins wait for a thread in shares: see [`HashShare`]. Shares take turns, so many logins of
//! some networks delay a login of another one by one round of turns. A share has at most a
//! quarter of the queue. If the queue is full, a share that has nothing in it may still enter, up
//! to twice the bound.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use posthaste_net::{KeyedPermit, KeyedSemaphore, compute_threads};

use crate::error::{DirectoryError, Result};

/// Most hashes at a time: 8 × 19 MiB is 152 MiB. More cores than that have other work to do.
const RUNNING_MAX: usize = 8;
/// Most that wait for their turn, for each that runs: at 20 ms each the last one waits 24 s, which
/// mail programs bear. After a restart all users come at once and no password is remembered. Later
/// logins are refused until there is room, unless their share has nothing in the queue.
const WAITING_MAX_EACH: usize = 1200;
/// A share has at most this part of the queue: a quarter. A site behind one address has fewer
/// logins under way, because the throttle refuses more than 64 that are not known.
const PARTS: usize = 4;

/// Whose login waits for a hash. Each of these has its own turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HashShare {
    /// An address and an account that logged in from there before: the hash of both.
    Known(u64),
    /// All others of a network: the first address of an IPv4 /24 or an IPv6 /48.
    Network(IpAddr),
    /// Others of loopback and trusted networks, which bring everybody's logins. An account has
    /// one of a bounded number of these shares, so that many names make no more turns.
    Trusted(u8),
    /// This server, and administrators.
    Own,
}

pub(crate) struct Hashing {
    permits: KeyedSemaphore<HashShare>,
    waiting: AtomicUsize,
    waiting_max: usize,
}

/// The number of passwords that are hashed at a time on this machine. Each takes the policy's
/// memory.
pub fn hashes_at_once() -> usize {
    compute_threads().min(RUNNING_MAX)
}

impl Hashing {
    pub fn new() -> Self {
        let running = hashes_at_once();
        Self::of(running, running * WAITING_MAX_EACH)
    }

    fn of(running: usize, waiting_max: usize) -> Self {
        let permits = KeyedSemaphore::new(running, running);
        Self { permits, waiting: AtomicUsize::new(0), waiting_max }
    }

    /// Runs `work` when there is a permit for it. If the caller goes away meanwhile, work begun is
    /// finished, and its permit is released only then.
    pub async fn run<T: Send + 'static>(
        &self,
        share: HashShare,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let slot = self.slot(share)?;
        let permit = self.permits.acquire(share).await;
        let permit = permit.ok_or_else(|| DirectoryError::Hashing("the queue is closed".into()))?;
        drop(slot);
        run_with(permit, work).await
    }

    /// Runs `work` if a permit is free now and nobody waits for one: for work that can be done
    /// another time.
    pub async fn run_if_free<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>> {
        match self.free_permit() {
            Some(permit) => run_with(permit, work).await.map(Some),
            None => Ok(None),
        }
    }

    /// A permit if one is free now. While anybody waits, none is.
    fn free_permit(&self) -> Option<KeyedPermit<HashShare>> {
        // Unconstrained: a permit that is free is taken at the first poll.
        tokio::task::unconstrained(self.permits.acquire(HashShare::Own)).now_or_never().flatten()
    }

    /// A slot in the queue, if a login of this share has room there.
    fn slot(&self, share: HashShare) -> Result<QueueSlot<'_>> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let slot = QueueSlot(&self.waiting);
        let has_room = match self.permits.count(&share) {
            0 => before < self.waiting_max * 2,
            own => before < self.waiting_max && own < self.waiting_max / PARTS,
        };
        if !has_room {
            return Err(DirectoryError::Hashing("too many logins wait for their turn".into()));
        }
        Ok(slot)
    }

    /// Whether a permit is free.
    #[cfg(test)]
    pub fn is_free(&self) -> bool {
        self.free_permit().is_some()
    }

    /// The number of hashes that wait for a permit.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Runs `work` on a thread that may compute, and releases the permit at its end.
async fn run_with<T: Send + 'static>(
    permit: KeyedPermit<HashShare>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let session = posthaste_metrics::current();
    let done = tokio::task::spawn_blocking(move || {
        let result = session.run(work);
        drop(permit);
        result
    });
    done.await.map_err(|e| DirectoryError::Hashing(e.to_string()))
}

/// A slot in the queue, released however the wait ends.
struct QueueSlot<'a>(&'a AtomicUsize);

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::task::{Context, Waker};

    use parking_lot::Mutex;

    use super::*;

    fn network(number: u8) -> HashShare {
        HashShare::Network(IpAddr::from([198, 18, number, 0]))
    }

    #[tokio::test]
    async fn permits_and_queue_have_bounds() {
        let hashing = Arc::new(Hashing::of(1, 8));
        let running = Arc::new(AtomicUsize::new(0));
        let (let_go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let start = |share: HashShare| {
            let (hashing, running, wait) = (Arc::clone(&hashing), Arc::clone(&running), Arc::clone(&wait));
            tokio::spawn(async move {
                let work = move || {
                    let others = running.fetch_add(1, Ordering::SeqCst);
                    wait.lock().recv().unwrap();
                    running.fetch_sub(1, Ordering::SeqCst);
                    others
                };
                hashing.run(share, work).await
            })
        };
        let mut tasks = vec![start(HashShare::Own)];
        while running.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
        let waits = async |count: usize| {
            while hashing.waiting() < count {
                tokio::task::yield_now().await;
            }
        };
        let refused = async |share: HashShare| {
            let refused = hashing.run(share, || ()).await.unwrap_err();
            refused.is_temporary() && refused.to_string().contains("too many logins wait")
        };
        // One runs. Two wait of one network, which is its share.
        tasks.extend([start(network(0)), start(network(0))]);
        waits(2).await;
        assert!(refused(network(0)).await);
        // The queue is full, and networks that have nothing in it still enter.
        tasks.extend((2..8).map(|n| start(network(n / 2))));
        waits(8).await;
        assert!(refused(HashShare::Own).await);
        tasks.extend((8..16).map(|n| start(network(n))));
        waits(16).await;
        assert!(refused(network(16)).await);
        assert!(hashing.run_if_free(|| ()).await.unwrap().is_none());
        for _ in &tasks {
            let_go.send(()).unwrap();
        }
        for task in tasks {
            // No other work ran at the same time.
            assert_eq!(task.await.unwrap().unwrap(), 0);
        }
        assert!(hashing.run_if_free(|| ()).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn logins_of_a_few_networks_delay_a_known_pair_and_a_new_network_by_one_round() {
        let hashing = Hashing::of(1, 400);
        let held = hashing.permits.acquire(HashShare::Own).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let login = |share: HashShare| {
            let order = Arc::clone(&order);
            let hashed = hashing.run(share, move || order.lock().push(share));
            Box::pin(tokio::task::unconstrained(hashed))
        };
        let mut logins = Vec::new();
        for _ in 0..100 {
            logins.extend((0..4).map(|n| login(network(n))));
        }
        let mut context = Context::from_waker(Waker::noop());
        logins.retain_mut(|login| login.as_mut().poll(&mut context).is_pending());
        assert_eq!(logins.len(), 400);
        assert!(login(network(0)).await.is_err(), "the queue is full");
        logins.extend([login(HashShare::Known(7)), login(network(4))]);
        logins.retain_mut(|login| login.as_mut().poll(&mut context).is_pending());
        assert_eq!(logins.len(), 402);
        drop(held);
        while order.lock().len() < 6 {
            logins.retain_mut(|login| login.as_mut().poll(&mut context).is_pending());
            tokio::task::yield_now().await;
        }
        let expected = [network(0), network(1), network(2), network(3), HashShare::Known(7), network(4)];
        assert_eq!(order.lock()[..6], expected);
    }
}
