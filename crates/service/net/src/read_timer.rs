//! The timeout of a connection's reads.
//!
//! A session reads thousands of times for each read that times out. So its timer stays registered
//! from one read to the next, and is set again only if it fires before the current read is due.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::timely;
use crate::{Clock, NetError};

/// Longer than any read waits: a time that the clock can represent.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The timer. It is registered by the first read that has to wait.
#[derive(Debug, Default)]
pub(crate) struct ReadTimer(Option<Pin<Box<Sleep>>>);

impl ReadTimer {
    /// Does a read, at most for this time by the clock. If the bytes are there, it looks at no
    /// clock.
    pub(crate) async fn limit<T>(
        &mut self,
        clock: &Clock,
        within: Duration,
        read: impl Future<Output = io::Result<T>>,
    ) -> Result<T, NetError> {
        if clock.is_manual() {
            return timely(clock, within, read).await;
        }
        let (mut read, mut due) = (pin!(read), None);
        let outcome = std::future::poll_fn(|cx| {
            if let Poll::Ready(outcome) = read.as_mut().poll(cx) {
                return Poll::Ready(Some(outcome));
            }
            let due = *due.get_or_insert_with(|| Instant::now() + within.min(FAR));
            let timer = self.fires_by(due);
            ready!(timer.as_mut().poll(cx));
            while timer.deadline() < due {
                timer.as_mut().reset(due);
                ready!(timer.as_mut().poll(cx));
            }
            self.0 = None;
            Poll::Ready(None)
        });
        outcome.await.ok_or(NetError::TimedOut(within))?.map_err(NetError::Io)
    }

    /// The timer, which fires at this time or earlier.
    fn fires_by(&mut self, due: Instant) -> &mut Pin<Box<Sleep>> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        timer
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::{advance, pause};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Whether this time has passed. Timers fire in the millisecond after their time.
    fn has_passed(since: Instant, time: Duration) -> bool {
        (time..time + Duration::from_millis(5)).contains(&since.elapsed())
    }

    #[tokio::test]
    async fn each_read_has_its_own_time_however_early_the_timer_was_due_before() {
        pause();
        let (mut timer, clock) = (ReadTimer::default(), Clock::system());
        assert_eq!(timer.limit(&clock, SECOND, ready(io::Result::Ok(7))).await.unwrap(), 7);
        assert!(timer.0.is_none(), "bytes that are there need no timer");
        // A longer time after a shorter one, and a shorter one after a longer one.
        for seconds in [10, 30, 5, 60] {
            let within = seconds * SECOND;
            let began = Instant::now();
            let came = async {
                tokio::time::sleep(within / 2).await;
                io::Result::Ok(seconds)
            };
            assert_eq!(timer.limit(&clock, within, came).await.unwrap(), seconds);
            assert!(has_passed(began, within / 2), "{:?}", began.elapsed());
            let kept = timer.0.as_ref().map(|timer| timer.deadline());
            assert!(kept.is_some_and(|due| due <= began + within));
        }
        for seconds in [40, 3, 90] {
            let (within, began) = (seconds * SECOND, Instant::now());
            let outcome = timer.limit(&clock, within, pending::<io::Result<()>>()).await;
            assert!(matches!(outcome, Err(NetError::TimedOut(late)) if late == within), "{outcome:?}");
            assert!(has_passed(began, within), "{:?}", began.elapsed());
        }
    }

    #[tokio::test]
    async fn a_read_that_is_dropped_leaves_a_timer_that_serves_the_next_one() {
        pause();
        let (mut timer, clock) = (ReadTimer::default(), Clock::system());
        let dropped = timer.limit(&clock, 10 * SECOND, pending::<io::Result<()>>());
        assert!(tokio::time::timeout(4 * SECOND, dropped).await.is_err());
        advance(4 * SECOND).await;
        let began = Instant::now();
        let outcome = timer.limit(&clock, Duration::MAX, async {
            tokio::time::sleep(100 * SECOND).await;
            io::Result::Ok(())
        });
        outcome.await.unwrap();
        assert!(has_passed(began, 100 * SECOND), "{:?}", began.elapsed());
    }
}
