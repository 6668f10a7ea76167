//! Waits for the next job with a timeout. A thread cannot wait on tokio's channels with a
//! timeout.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use tokio::sync::mpsc;

/// The outcome of a wait.
pub(crate) enum Received<T> {
    /// The next job.
    Job(T),
    /// Every sender was dropped.
    Closed,
    /// The time is up.
    Nothing,
}

impl<T> From<Option<T>> for Received<T> {
    fn from(received: Option<T>) -> Self {
        received.map_or(Self::Closed, Self::Job)
    }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until a job comes or the timeout ends, if there is one.
pub(crate) fn receive<T>(jobs: &mut mpsc::Receiver<T>, due: Option<Instant>) -> Received<T> {
    let Some(due) = due else { return jobs.blocking_recv().into() };
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(received) = jobs.poll_recv(&mut context) {
            return received.into();
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Received::Nothing;
        }
        std::thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_the_end_and_the_timeout_differ() {
        let (send, mut jobs) = mpsc::channel(2);
        assert!(matches!(receive(&mut jobs, Some(Instant::now())), Received::Nothing));
        let far = Instant::now() + std::time::Duration::from_secs(600);
        let sender = std::thread::spawn(move || send.blocking_send(7).unwrap());
        assert!(matches!(receive(&mut jobs, Some(far)), Received::Job(7)));
        sender.join().unwrap();
        assert!(matches!(receive(&mut jobs, Some(far)), Received::Closed));
    }
}
