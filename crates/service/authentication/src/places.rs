//! The threads on which messages are verified. They may block. Their number is limited, and one
//! network gets only a part of them.
//!
//! A verification mostly waits for DNS, and the sender's name server decides how long. So there are
//! many places, and one network has at most a quarter of them. A message that gets no place in time
//! is deferred. Between DNS answers a verification computes. For that it needs a turn. There is one
//! turn fewer than processors, so that one processor is free for sessions.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use posthaste_net::{Places, Tiers, WorkPlace, processors_for_work};

/// Messages verified at a time; each may wait for DNS on a thread.
const PLACES: usize = 64;
/// Of them for one network: hosts of four must be slow for others to wait. An eighth would be too
/// few for a large sender whose messages come in bursts.
const PLACES_EACH: usize = PLACES / 4;

/// Places, by the network of the sending host, and turns. Clones are one.
#[derive(Clone)]
pub struct Verifications {
    places: Places<IpAddr>,
    turns: Arc<Turns>,
}

impl Verifications {
    /// As many as one server has: its verifiers that follow each other share them.
    #[allow(
        clippy::new_without_default,
        reason = "places are shared, so nobody should get others by accident"
    )]
    pub fn new() -> Self {
        Self { places: Places::new(PLACES, PLACES_EACH), turns: Arc::new(Turns::new(processors_for_work())) }
    }

    /// A place for a message from this address; none if that takes too long.
    pub(crate) async fn place(&self, address: IpAddr, within: Duration) -> Option<WorkPlace<IpAddr>> {
        self.places.take(Tiers::of(address).widest(), within).await
    }

    /// Does work to its end, on a thread that may block. It computes in turn with others and holds
    /// no turn while it waits.
    pub(crate) async fn in_turns<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| self.in_turn(|| work.as_mut().poll(context))).await
    }

    /// Computes, on a thread that may block, when it is its turn.
    pub(crate) fn in_turn<T>(&self, work: impl FnOnce() -> T) -> T {
        let _turn = self.turns.take();
        work()
    }
}

impl std::fmt::Debug for Verifications {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifications").finish_non_exhaustive()
    }
}

/// Turns to compute, for threads.
struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

struct Turn<'t>(&'t Turns);

impl Turns {
    fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }

    fn take(&self) -> Turn<'_> {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn so_many_compute_at_a_time() {
        let turns = Arc::new(Turns::new(2));
        let verifications = Verifications { places: Places::new(1, 1), turns };
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        verifications.in_turn(|| {
                            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            std::thread::yield_now();
                            running.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 2);
    }

    #[tokio::test]
    async fn one_network_leaves_places_to_others() {
        let verifications = Verifications::new();
        let mut held = Vec::new();
        for host in 0..PLACES_EACH {
            let address = format!("2001:db8:1:{host:x}::{host:x}").parse().unwrap();
            held.push(verifications.place(address, Duration::ZERO).await.unwrap());
        }
        let within = Duration::ZERO;
        assert!(verifications.place("2001:db8:1:ffff::1".parse().unwrap(), within).await.is_none());
        assert!(verifications.place("2001:db8:2::1".parse().unwrap(), within).await.is_some());
    }
}
