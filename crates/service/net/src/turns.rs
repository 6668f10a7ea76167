//! Turns of tasks that compute: how many of them do so before others have run.
//!
//! Thousands of peers may act at the same time. Their tasks would stand in the queue of the
//! runtime, and a session that has one short command would wait behind all of them.
//!
//! Turns come in rounds. Only the last task of a round yields, and then the next round begins. So
//! a task yields rarely if few act, and each yield costs a look at all sockets. Between two rounds
//! all tasks that are ready run.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// Turns that some tasks may have in one round.
#[derive(Debug)]
pub(crate) struct Turns {
    at_once: usize,
    /// The turns of this round that nobody has taken.
    left: Semaphore,
    /// The turns that were taken in all rounds.
    taken: AtomicUsize,
}

/// Begins the next round when it is dropped, also if its task is aborted.
struct NextRound<'t>(&'t Turns);

impl Drop for NextRound<'_> {
    fn drop(&mut self) {
        self.0.left.add_permits(self.0.at_once);
    }
}

impl Turns {
    /// This many in a round, at least one.
    pub(crate) const fn new(at_once: usize) -> Self {
        let at_once = if at_once == 0 { 1 } else { at_once };
        Self { at_once, left: Semaphore::const_new(at_once), taken: AtomicUsize::new(0) }
    }

    /// Waits for a turn. The last one of a round comes only after other tasks that are ready have
    /// run, and those of the next round after that.
    pub(crate) async fn take(&self) {
        // It is never closed.
        if let Ok(turn) = self.left.acquire().await {
            turn.forget();
        }
        if (self.taken.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.at_once) {
            let _next = NextRound(self);
            yield_now().await;
        }
    }

    /// Does work, with a turn for each of its polls.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.take().await;
            if let Poll::Ready(done) = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
                return done;
            }
            woken().await;
        }
    }

    /// All turns of a round that has just begun, for a test.
    #[cfg(test)]
    pub(crate) async fn all(&self, at_once: u32) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.left.acquire_many(at_once).await.ok()
    }
}

/// Waits until the task is woken, by something that it has polled.
async fn woken() {
    let mut is_first = true;
    poll_fn(|_| if mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::task::{Context, Waker};

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn work_is_done_in_turns() {
        let turns = Turns::new(2);
        let mut works: Vec<_> = (0..5).map(|_| Box::pin(turns.run(ready(())))).collect();
        let mut context = Context::from_waker(Waker::noop());
        let mut done = Vec::new();
        while !works.is_empty() {
            let before = works.len();
            works.retain_mut(|work| work.as_mut().poll(&mut context).is_pending());
            done.push(before - works.len());
        }
        // The second one of each round comes after all others were polled.
        assert_eq!(done, [1, 2, 2]);
    }

    #[test]
    fn one_of_a_round_alone_waits_for_others() {
        let turns = Turns::new(8);
        let mut context = Context::from_waker(Waker::noop());
        let mut waited = Vec::new();
        for n in 1..=24 {
            let mut turn = pin!(turns.take());
            if turn.as_mut().poll(&mut context).is_pending() {
                waited.push(n);
                assert!(turn.as_mut().poll(&mut context).is_ready());
            }
        }
        assert_eq!(waited, [8, 16, 24]);
    }

    #[test]
    fn a_task_that_ends_before_its_turn_keeps_no_others_waiting() {
        let turns = Turns::new(2);
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(turns.take()).poll(&mut context).is_ready());
        {
            let mut last = Box::pin(turns.take());
            let mut waiting = Box::pin(turns.take());
            assert!(last.as_mut().poll(&mut context).is_pending());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            // The next round begins, and its first turn is that of a task that ends as well.
            drop(last);
        }
        assert!(pin!(turns.take()).poll(&mut context).is_ready());
        let mut last = pin!(turns.take());
        assert!(last.as_mut().poll(&mut context).is_pending());
        assert!(last.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn work_that_waits_has_no_turn() {
        let turns = Turns::new(1);
        let (sender, receiver) = oneshot::channel();
        let mut waits = pin!(turns.run(receiver));
        let mut other = pin!(turns.run(ready(7)));
        let mut context = Context::from_waker(Waker::noop());
        // Its turn comes after others have run, and ends without a value.
        assert!(waits.as_mut().poll(&mut context).is_pending());
        assert!(other.as_mut().poll(&mut context).is_pending());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        assert!(other.as_mut().poll(&mut context).is_pending());
        assert_eq!(other.as_mut().poll(&mut context), Poll::Ready(7));
        sender.send(8).unwrap();
        assert!(waits.as_mut().poll(&mut context).is_pending());
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(Ok(8)));
    }
}
