//! Turns of tasks that compute: how many of them do so before others have run.
//!
//! Thousands of peers may act at the same time. Their tasks would stand in the queue of the
//! runtime, and a session that has one short command would wait behind all of them.
//!
//! Turns come in rounds. Only the last task of a round yields, and then the next round begins. So
//! a task yields rarely if few act, and each yield costs a look at all sockets. Between two rounds
//! all tasks that are ready run.
//!
//! A task that has a turn may be late: another task may block its thread, or its runtime may stand
//! still. Those that wait do not depend on it. If no round has begun within [`ROUND_TIMEOUT`], one
//! of them begins the next round. The late task then begins none. Its turn counts in a later round.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;

/// How long a task waits for the next round: half a second. Workers that are only busy end a round
/// within some milliseconds. With a tenth of it, ten thousand waiting tasks would wake up 200,000
/// times a second. With twice as much, a blocked thread would delay all handshakes for a second.
const ROUND_TIMEOUT: Duration = Duration::from_millis(500);

/// Turns that some tasks may have in one round.
#[derive(Debug)]
pub(crate) struct Turns {
    at_once: usize,
    /// The turns of this round that nobody has taken.
    left: Semaphore,
    /// The turns that were taken in all rounds.
    taken: AtomicUsize,
    /// The rounds that have begun. Each has given `at_once` turns.
    rounds: AtomicUsize,
}

/// Begins the next round when it is dropped, also if its task is aborted.
struct NextRound<'t> {
    turns: &'t Turns,
    /// The round that ends.
    after: usize,
}

impl Drop for NextRound<'_> {
    fn drop(&mut self) {
        self.turns.begin_after(self.after);
    }
}

impl Turns {
    /// This many in a round, at least one.
    pub(crate) const fn new(at_once: usize) -> Self {
        let at_once = if at_once == 0 { 1 } else { at_once };
        let (taken, rounds) = (AtomicUsize::new(0), AtomicUsize::new(1));
        Self { at_once, left: Semaphore::const_new(at_once), taken, rounds }
    }

    /// Waits for a turn. The last one of a round comes only after other tasks that are ready have
    /// run, and those of the next round after that.
    pub(crate) async fn take(&self) {
        match self.left.try_acquire() {
            Ok(turn) => turn.forget(),
            // Boxed: few tasks wait.
            Err(_) => Box::pin(self.wait()).await,
        }
        let taken = self.taken.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        let round = self.rounds.load(Ordering::Acquire);
        if taken == round.wrapping_mul(self.at_once) {
            let _next = NextRound { turns: self, after: round };
            yield_now().await;
        }
    }

    /// Waits for a turn of a later round, in the order of arrival.
    async fn wait(&self) {
        let mut turn = pin!(self.left.acquire());
        loop {
            let round = self.rounds.load(Ordering::Acquire);
            match timeout(ROUND_TIMEOUT, turn.as_mut()).await {
                Ok(Ok(turn)) => return turn.forget(),
                // It is never closed.
                Ok(Err(_)) => return,
                Err(_) => self.begin_after(round),
            }
        }
    }

    /// Begins the round after this one, unless it has begun already.
    fn begin_after(&self, round: usize) {
        let next = round.wrapping_add(1);
        if self.rounds.compare_exchange(round, next, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.left.add_permits(self.at_once);
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

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;

    use super::*;

    /// A task that waits has a timer. Futures that are polled by hand find it in an entered
    /// runtime.
    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn work_is_done_in_turns() {
        let runtime = runtime();
        let _inside = runtime.enter();
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
        let runtime = runtime();
        let _inside = runtime.enter();
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

    /// It kept all others waiting: all handshakes of a server.
    #[tokio::test]
    async fn a_task_that_is_not_polled_again_keeps_no_others_waiting() {
        let turns = Turns::new(2);
        turns.take().await;
        let mut last = Box::pin(turns.take());
        let mut context = Context::from_waker(Waker::noop());
        assert!(last.as_mut().poll(&mut context).is_pending());
        // These are a round, though the last task of the one before has not begun it.
        let others = async {
            turns.take().await;
            turns.take().await;
        };
        assert!(timeout(60 * ROUND_TIMEOUT, others).await.is_ok());
        assert_eq!(turns.left.available_permits(), 2);
        // It does not begin that round a second time.
        assert!(last.as_mut().poll(&mut context).is_ready());
        drop(last);
        assert_eq!(turns.left.available_permits(), 2);
    }

    /// Its round would have had no last task.
    #[tokio::test]
    async fn a_task_that_does_not_take_its_turn_keeps_no_others_waiting() {
        let turns = Turns::new(2);
        turns.take().await;
        let (mut last, mut late) = (Box::pin(turns.take()), Box::pin(turns.take()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(last.as_mut().poll(&mut context).is_pending());
        assert!(late.as_mut().poll(&mut context).is_pending());
        assert!(last.as_mut().poll(&mut context).is_ready());
        // A turn of the second round is for the late task, which is not polled.
        turns.take().await;
        assert!(timeout(60 * ROUND_TIMEOUT, turns.take()).await.is_ok());
        // Its turn counts when it comes, and the last task ends the round for all.
        assert!(late.as_mut().poll(&mut context).is_ready());
        assert_eq!(turns.left.available_permits(), 1);
        turns.take().await;
        assert_eq!(turns.left.available_permits(), 2);
    }

    #[test]
    fn work_that_waits_has_no_turn() {
        let runtime = runtime();
        let _inside = runtime.enter();
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
