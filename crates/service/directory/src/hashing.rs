//! The bounded pool on which passwords are hashed, apart from the runtime's threads. It has one
//! thread fewer than the machine has cores, at least one and at most [`RUNNING_MAX`]. Each hash
//! takes 19 MiB and 20 ms of a core. So for any number of logins, one of several cores is free for
//! sessions that read mail.
//!
//! Logins wait for a thread in shares: see [`HashShare`]. The kinds of shares take turns. Within
//! a kind its shares take turns. So logins of strangers delay a known account by few hashes. They
//! delay a new network by one round of turns. Each kind has its own queue, so a known account is
//! never refused because of strangers. A share has at most a quarter of its queue. If that queue
//! is full, a share that has nothing in it may still enter, up to twice the bound.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use posthaste_net::{KeyedPermit, KeyedSemaphore, compute_threads, on_compute_thread_with};

use crate::error::{DirectoryError, Result};

/// Most hashes at a time: 8 × 19 MiB is 152 MiB. More cores than that have other work to do.
const RUNNING_MAX: usize = 8;
/// Most of a kind that wait for their turn, for each that runs. At 20 ms each the last one waits
/// 24 s if no other kind waits. Mail programs bear that. After a restart all users come at once,
/// and no password is remembered. Later logins are refused until there is room, unless their
/// share has nothing in the queue.
const WAITING_MAX_EACH: usize = 1200;
/// A share has at most this part of its queue: a quarter. A site behind one address has fewer
/// logins under way, because the throttle refuses more than 64 that are not known.
const PARTS: usize = 4;

/// Whose login waits for a hash. Each of these has its own turn within its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HashShare {
    /// An account at an address from which it logged in before: the hash of its name. All such
    /// addresses of an account are one share. So one stolen password gives one turn.
    Known(u64),
    /// The same on loopback and in trusted networks. There anybody can try an account's name.
    KnownTrusted(u64),
    /// Others of loopback and trusted networks, which bring everybody's logins. An account has
    /// one of a bounded number of these shares, so that many names make no more turns.
    Trusted(u8),
    /// All others of a network: see [`Tiers::share`](posthaste_net::Tiers::share).
    Network(IpAddr),
    /// This server, and administrators.
    Own,
}

/// The kinds of shares, as places in [`Hashing::queues`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Known,
    KnownTrusted,
    Trusted,
    Network,
    Own,
}

/// The number of kinds.
const KINDS: usize = 5;

impl HashShare {
    const fn kind(self) -> Kind {
        match self {
            Self::Known(_) => Kind::Known,
            Self::KnownTrusted(_) => Kind::KnownTrusted,
            Self::Trusted(_) => Kind::Trusted,
            Self::Network(_) => Kind::Network,
            Self::Own => Kind::Own,
        }
    }
}

pub(crate) struct Hashing {
    /// Kinds take turns here.
    permits: KeyedSemaphore<Kind>,
    queues: [Queue; KINDS],
    /// Of each queue.
    waiting_max: usize,
}

/// The queue of one kind.
struct Queue {
    /// Shares take turns here.
    shares: KeyedSemaphore<HashShare>,
    waiting: AtomicUsize,
}

/// A permit to hash; released when dropped. The next share of the kind is chosen first.
struct HashPermit {
    _of_kind: KeyedPermit<HashShare>,
    _of_all: KeyedPermit<Kind>,
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
        // Half of a kind's permits run. The others wait for a thread. So `run_if_free` finds no
        // permit between the end of one login and the next one of its kind.
        let of_kind = running * 2;
        let queue = |_| Queue { shares: KeyedSemaphore::new(of_kind, of_kind), waiting: AtomicUsize::new(0) };
        let queues = std::array::from_fn(queue);
        Self { permits: KeyedSemaphore::new(running, of_kind), queues, waiting_max }
    }

    /// Runs `work` when there is a permit for it. If the caller goes away meanwhile, work begun is
    /// finished, and its permit is released only then.
    pub async fn run<T: Send + 'static>(
        &self,
        share: HashShare,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let slot = self.slot(share)?;
        let permit = self.permit(share).await;
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

    /// A permit, when its share and its kind have their turn.
    async fn permit(&self, share: HashShare) -> Option<HashPermit> {
        let of_kind = self.queue(share).shares.acquire(share).await?;
        let of_all = self.permits.acquire(share.kind()).await?;
        Some(HashPermit { _of_kind: of_kind, _of_all: of_all })
    }

    /// A permit if one is free now. While anybody waits, none is.
    fn free_permit(&self) -> Option<HashPermit> {
        // Unconstrained: a permit that is free is taken at the first poll.
        tokio::task::unconstrained(self.permit(HashShare::Own)).now_or_never().flatten()
    }

    fn queue(&self, share: HashShare) -> &Queue {
        &self.queues[share.kind() as usize]
    }

    /// A slot in the queue, if a login of this share has room there.
    fn slot(&self, share: HashShare) -> Result<QueueSlot<'_>> {
        let queue = self.queue(share);
        let before = queue.waiting.fetch_add(1, Ordering::Relaxed);
        let slot = QueueSlot(&queue.waiting);
        let has_room = match queue.shares.count(&share) {
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
        self.queues.iter().map(|queue| queue.waiting.load(Ordering::Relaxed)).sum()
    }
}

/// Runs `work` on a thread that may compute, and releases the permit at its end.
async fn run_with<T: Send + 'static>(
    permit: HashPermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    on_compute_thread_with(permit, work).await.map_err(|e| DirectoryError::Hashing(e.to_string()))
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
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use futures_util::future::join_all;
    use parking_lot::Mutex;
    use tokio::task::unconstrained;

    use super::*;

    fn network(number: u8) -> HashShare {
        HashShare::Network(IpAddr::from([198, 18, number, 0]))
    }

    #[test]
    fn there_are_fewer_permits_than_cores() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = hashes_at_once();
        assert!((1..=RUNNING_MAX).contains(&at_once), "{at_once}");
        assert!(cores == 1 || at_once < cores, "{at_once} of {cores}");
        let hashing = Hashing::new();
        let held: Vec<_> = std::iter::from_fn(|| hashing.free_permit()).collect();
        assert_eq!(held.len(), at_once);
        drop(held);
        assert!(hashing.is_free());
    }

    #[tokio::test]
    async fn permits_and_queue_have_bounds() {
        let hashing = Hashing::of(1, 8);
        let running = Arc::new(AtomicUsize::new(0));
        let held = hashing.permit(HashShare::Own).await;
        let mut waiting = Vec::new();
        let mut enters = |share: HashShare| {
            let running = Arc::clone(&running);
            let work = move || {
                let others = running.fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                others
            };
            let mut login = Box::pin(unconstrained(hashing.run(share, work)));
            match login.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => {
                    waiting.push(login);
                    true
                }
                Poll::Ready(refused) => {
                    let refused = refused.unwrap_err();
                    assert!(refused.is_temporary(), "{refused}");
                    assert!(refused.to_string().contains("too many logins wait"), "{refused}");
                    false
                }
            }
        };
        // One runs. Two wait of one network, which is its share.
        assert!(enters(network(0)) && enters(network(0)) && !enters(network(0)));
        assert!((2..8).all(|n| enters(network(n / 2))));
        // The queue is full, and networks that have nothing in it still enter.
        assert!(enters(network(8)) && !enters(network(8)));
        assert!((9..16).all(|n| enters(network(n))));
        assert!(!enters(network(16)));
        // Other kinds have their own queues.
        for share in [HashShare::Known(1), HashShare::KnownTrusted(1), HashShare::Trusted(1), HashShare::Own]
        {
            assert!(enters(share), "{share:?}");
        }
        assert!(hashing.run_if_free(|| ()).await.unwrap().is_none());
        drop(held);
        // No other work ran at the same time.
        assert!(join_all(waiting).await.into_iter().all(|others| others.unwrap() == 0));
        assert!(hashing.run_if_free(|| ()).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn logins_of_networks_delay_a_known_account_by_one_hash_and_a_new_network_by_one_round() {
        let hashing = Hashing::of(1, 400);
        let held = hashing.permit(HashShare::Own).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let (end_one, ends) = std::sync::mpsc::channel::<()>();
        let ends = Arc::new(Mutex::new(ends));
        let login = |share: HashShare| {
            let (order, ends) = (Arc::clone(&order), Arc::clone(&ends));
            let hashed = hashing.run(share, move || {
                order.lock().push(share);
                ends.lock().recv().ok();
            });
            Box::pin(unconstrained(hashed))
        };
        let mut logins = Vec::new();
        for _ in 0..100 {
            logins.extend((0..4).map(|n| login(network(n))));
        }
        let mut context = Context::from_waker(Waker::noop());
        logins.retain_mut(|login| login.as_mut().poll(&mut context).is_pending());
        assert_eq!(logins.len(), 400);
        assert!(login(network(0)).await.is_err(), "the queue is full");
        let known = HashShare::Known(7);
        logins.extend([login(known), login(network(4))]);
        logins.retain_mut(|login| login.as_mut().poll(&mut context).is_pending());
        assert_eq!(logins.len(), 402);
        drop(held);
        let all = logins.len();
        for begun in 1..=8 {
            // A login returns once all of its permit is released.
            while order.lock().len() < begun || all - logins.len() < begun - 1 {
                logins.retain_mut(|login| login.as_mut().poll(&mut context).is_pending());
                tokio::task::yield_now().await;
            }
            // Before this hash ends, the login that its kind chose next waits for a thread.
            logins.retain_mut(|login| login.as_mut().poll(&mut context).is_pending());
            end_one.send(()).unwrap();
        }
        // The first two were at the front before. Then each network has one turn.
        let [zero, one, two, three, new] = [0, 1, 2, 3, 4].map(network);
        assert_eq!(order.lock()[..8], [zero, known, one, two, three, zero, one, new]);
    }

    /// Also where the waiter is of the share whose login has just ended.
    #[tokio::test]
    async fn no_permit_is_free_while_a_login_waits() {
        let hashing = Hashing::of(1, 8);
        let held = hashing.permit(network(0)).await;
        let mut next = Box::pin(unconstrained(hashing.permit(network(0))));
        let mut context = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(held);
        assert!(!hashing.is_free());
        drop(next);
        assert!(hashing.is_free());
    }
}
