//! The clock of a connection: the system's, or one that a test advances.
//!
//! A connection measures the timeouts of its reads and writes by its clock. An IMAP session
//! measures its login by the same clock. TLS handshakes and the limits of accounts use the
//! system's. With the system's clock a wait costs as much as a timer of tokio.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::NetError;

/// Where a connection reads the time and waits for it to pass.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<Manual>>);

/// Advances a clock made by [`Clock::manual`].
#[derive(Debug)]
pub struct ClockHand(Arc<Manual>);

#[derive(Debug)]
struct Manual {
    begin: Instant,
    state: watch::Sender<ClockState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ClockState {
    /// The time since `begin`.
    passed: Duration,
    /// How many waits are under way.
    waits: usize,
}

impl Clock {
    /// The system's monotonic clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that only its hand advances.
    pub fn manual() -> (Self, ClockHand) {
        let manual = Arc::new(Manual { begin: Instant::now(), state: watch::Sender::default() });
        (Self(Some(Arc::clone(&manual))), ClockHand(manual))
    }

    /// Whether a hand advances it.
    pub(crate) fn is_manual(&self) -> bool {
        self.0.is_some()
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(manual) => manual.begin + manual.state.borrow().passed,
        }
    }

    /// Returns after this time.
    pub async fn sleep(&self, time: Duration) {
        match &self.0 {
            None => tokio::time::sleep(time).await,
            Some(manual) => manual.sleep(time).await,
        }
    }
}

/// Does work, at most for this time by the clock. Work that is ready at once is never late.
pub(crate) async fn timely<T>(
    clock: &Clock,
    within: Duration,
    work: impl Future<Output = std::io::Result<T>>,
) -> Result<T, NetError> {
    let outcome = match &clock.0 {
        None => tokio::time::timeout(within, work).await.ok(),
        // Boxed: only tests wait here, and a session should not hold memory for it.
        Some(manual) => {
            let mut work = Box::pin(work);
            let late = Box::pin(manual.sleep(within));
            tokio::select! {
                biased;
                outcome = &mut work => Some(outcome),
                () = late => None,
            }
        }
    };
    outcome.ok_or(NetError::TimedOut(within))?.map_err(NetError::Io)
}

impl Manual {
    async fn sleep(&self, time: Duration) {
        let mut state = self.state.subscribe();
        let end = state.borrow().passed.saturating_add(time);
        let _waiting = Waiting::begin(self);
        // The sender lives in `self`, so the wait cannot fail.
        let _ = state.wait_for(|state| state.passed >= end).await;
    }
}

/// Counts a wait for as long as it lives.
struct Waiting<'c>(&'c Manual);

impl<'c> Waiting<'c> {
    fn begin(manual: &'c Manual) -> Self {
        manual.state.send_modify(|state| state.waits += 1);
        Self(manual)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.waits -= 1);
    }
}

impl ClockHand {
    /// Waits until something waits for the clock, and then lets this time pass.
    pub async fn advance(&self, by: Duration) {
        let mut state = self.0.state.subscribe();
        let _ = state.wait_for(|state| state.waits > 0).await;
        self.0.state.send_modify(|state| state.passed = state.passed.saturating_add(by));
    }
}
