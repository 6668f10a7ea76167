//! The threads on which messages are verified. They may block. Their number is limited, and one
//! network gets only a part of them. The memory is in [`crate::memory`].
//!
//! A verification mostly waits for DNS, and the sender's name server decides how long. So there
//! are many threads, and one network has at most a quarter of them. If several slow networks have
//! all threads, the next free one goes to the network with the fewest. A message that gets no
//! thread in time is deferred. Between DNS answers a verification computes. For that it needs a
//! permit. There is one permit fewer than processors, so that one processor is free for sessions.
//!
//! The answers arrive on the thread of [`dns_runtime`], so that no session waits while they are
//! parsed.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use posthaste_net::{ByteBudget, KeyedPermit, KeyedSemaphore, Tiers, compute_threads, dns_runtime};

use crate::memory::VerificationMemory;

/// Messages verified at a time; each may wait for DNS on a thread.
const THREADS: usize = 64;
/// The threads for one network. Others wait only if four networks are slow at once, and then for
/// the next thread. If each of the 64 is busy for 20 s, that is some 0.3 s. An eighth would be
/// too few for a large sender, whose messages come in bursts.
const THREADS_EACH: usize = THREADS / 4;
/// Memory by default: some of the largest messages.
const MEMORY_DEFAULT: usize = 256 << 20;
/// Octets of the longest message by default.
const MESSAGE_LEN_DEFAULT: usize = 64 << 20;

/// Threads and memory, by the network of the sending host ([`Tiers::share`]), and permits to
/// compute. Clones share them.
#[derive(Clone)]
pub struct Verifications {
    threads: KeyedSemaphore<IpAddr>,
    compute: Arc<BlockingSemaphore>,
    pub(crate) memory: VerificationMemory,
}

impl Verifications {
    /// The threads and the memory of one server. Its verifiers share them, also after a reload.
    #[allow(
        clippy::new_without_default,
        reason = "permits are shared, so nobody should get others by accident"
    )]
    pub fn new() -> Self {
        Self {
            threads: KeyedSemaphore::new(THREADS, THREADS_EACH),
            compute: Arc::new(BlockingSemaphore::new(compute_threads())),
            memory: VerificationMemory::within(ByteBudget::new(MEMORY_DEFAULT), MESSAGE_LEN_DEFAULT),
        }
    }

    /// Takes memory from a part of this budget, which others may share. The longest message has
    /// this many octets.
    #[must_use]
    pub fn with_memory(self, budget: ByteBudget, message_len: usize) -> Self {
        Self { memory: VerificationMemory::within(budget, message_len), ..self }
    }

    /// A thread for a message from this address; none if that takes too long.
    pub(crate) async fn thread(&self, address: IpAddr, within: Duration) -> Option<KeyedPermit<IpAddr>> {
        // The thread for answers has the priority of the one that asks for it first. That should
        // not be the verification, which runs on a thread for computations.
        dns_runtime();
        self.threads.acquire_within(Tiers::of(address).share(), within).await
    }

    /// Does work to its end, on a thread that may block. It holds a permit while it computes, and
    /// none while it waits. What it spawns runs on the thread for answers.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let polled = poll_fn(|context| self.compute(|| work.as_mut().poll(context)));
        dns_runtime().block_on(polled)
    }

    /// Computes, on a thread that may block, when there is a permit.
    pub(crate) fn compute<T>(&self, work: impl FnOnce() -> T) -> T {
        let _permit = self.compute.acquire();
        work()
    }
}

impl std::fmt::Debug for Verifications {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifications").finish_non_exhaustive()
    }
}

/// A semaphore for threads that may block.
struct BlockingSemaphore {
    free: Mutex<usize>,
    freed: Condvar,
}

struct BlockingPermit<'s>(&'s BlockingSemaphore);

impl BlockingSemaphore {
    fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }

    fn acquire(&self) -> BlockingPermit<'_> {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        BlockingPermit(self)
    }
}

impl Drop for BlockingPermit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};

    use posthaste_net::on_compute_thread;
    use tokio::task::unconstrained;

    use super::*;

    #[test]
    fn so_many_compute_at_a_time() {
        let compute = Arc::new(BlockingSemaphore::new(2));
        let verifications = Verifications { compute, ..Verifications::new() };
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        verifications.compute(|| {
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
    async fn one_network_leaves_threads_to_others() {
        let verifications = Verifications::new();
        let mut held = Vec::new();
        for host in 0..THREADS_EACH {
            let address = format!("2001:db8:1:{host:x}::{host:x}").parse().unwrap();
            held.push(verifications.thread(address, Duration::ZERO).await.unwrap());
        }
        let within = Duration::ZERO;
        assert!(verifications.thread("2001:db8:1:ffff::1".parse().unwrap(), within).await.is_none());
        assert!(verifications.thread("2001:db8:2::1".parse().unwrap(), within).await.is_some());
    }

    /// A message that waits for a thread. It is polled by hand.
    type Message<'v> = Pin<Box<dyn Future<Output = Option<KeyedPermit<IpAddr>>> + 'v>>;

    /// Unconstrained: the runtime never makes it wait for another reason.
    fn message(verifications: &Verifications, network: u8, host: u8) -> Message<'_> {
        let address = IpAddr::from([198, 18, network, host]);
        Box::pin(unconstrained(verifications.thread(address, Duration::from_secs(3600))))
    }

    /// The threads of the messages that have one now.
    fn started(waiting: &mut Vec<Message<'_>>) -> Vec<KeyedPermit<IpAddr>> {
        let mut context = Context::from_waker(Waker::noop());
        let mut started = Vec::new();
        waiting.retain_mut(|message| match message.as_mut().poll(&mut context) {
            Poll::Ready(thread) => {
                started.extend(thread);
                false
            }
            Poll::Pending => true,
        });
        started
    }

    #[tokio::test]
    async fn what_a_verification_spawns_runs_on_the_thread_for_answers() {
        let verifications = Verifications::new();
        let name = async { std::thread::current().name().map(str::to_owned) };
        let work = move || verifications.block_on(async { tokio::spawn(name).await.unwrap() });
        let name = tokio::task::spawn_blocking(work).await.unwrap();
        assert_eq!(name.as_deref(), Some("dns"));
    }

    /// The nice value of this thread: field 19 of its line (proc_pid_stat(5)).
    fn nice() -> i32 {
        let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, after_name) = line.rsplit_once(") ").unwrap();
        after_name.split(' ').nth(19 - 3).unwrap().parse().unwrap()
    }

    /// Also relays and sessions wait for that thread.
    #[tokio::test]
    async fn the_thread_for_answers_has_the_priority_of_sessions() {
        let verifications = Verifications::new();
        let _thread = verifications.thread(IpAddr::from([192, 0, 2, 1]), Duration::ZERO).await.unwrap();
        let work = move || verifications.block_on(async { tokio::spawn(async { nice() }).await.unwrap() });
        assert_eq!(on_compute_thread(work).await.unwrap(), nice());
    }

    #[tokio::test]
    async fn a_new_network_has_the_next_thread_while_twenty_slow_ones_want_all() {
        let verifications = Verifications::new();
        let mut slow = Vec::new();
        for network in 0..20 {
            slow.extend((0..32).map(|host| message(&verifications, network, host)));
        }
        let mut threads = started(&mut slow);
        assert_eq!(threads.len(), THREADS);
        // Look-ups end one by one, until each network has a few threads.
        for _ in 0..THREADS {
            drop(threads.remove(0));
            threads.extend(started(&mut slow));
        }
        let mut new = vec![message(&verifications, 20, 1)];
        assert!(started(&mut new).is_empty(), "all are taken");
        drop(threads.remove(0));
        assert_eq!(started(&mut new).len(), 1);
    }
}
