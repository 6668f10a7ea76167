//! Turns of tasks that compute: how many of them do so before others have run.
//!
//! Thousands of peers may act at the same time. Their tasks would stand in the queue of the
//! runtime, and a session that has one short command would wait behind all of them.

use std::{future::poll_fn, mem, pin::pin, task::Poll};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::yield_now,
};

/// Turns that some tasks may have at the same time.
#[derive(Debug)]
pub(crate) struct Turns(Semaphore);

impl Turns {
    /// This many at a time.
    pub(crate) const fn new(at_once: usize) -> Self {
        Self(Semaphore::const_new(at_once))
    }

    /// Waits for a turn. Before it begins, other tasks that are ready run. It ends when it is
    /// dropped.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        // They are never closed.
        let turn = self.0.acquire().await.ok();
        yield_now().await;
        turn
    }

    /// Does work, with a turn for each of its polls. While it waits it has none.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            let turn = self.take().await;
            if let Poll::Ready(done) = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
                return done;
            }
            drop(turn);
            woken().await;
        }
    }

    /// All turns, for a test.
    #[cfg(test)]
    pub(crate) async fn all(&self, at_once: u32) -> Option<SemaphorePermit<'_>> {
        self.0.acquire_many(at_once).await.ok()
    }
}

/// Waits until the task is woken, by something that it has polled.
async fn woken() {
    let mut is_first = true;
    poll_fn(|_| if mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

#[cfg(test)]
mod tests {
    use std::{
        future::ready,
        task::{Context, Waker},
    };

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
        assert_eq!(done, [0, 2, 2, 1]);
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
