//! Commands that wait for their turn, or for memory, before they change anything. While such a
//! command waits, it ends with its login. Most of these commands end with their client, too. No
//! change begins after the end of the login. A change that has begun is finished.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use posthaste_net::{LoginEnd, NetError};

use crate::endings::REVOKED;
use crate::progress::Reports;
use crate::reply::Failure;
use crate::wire::Wire;

/// Whether a command's change has begun, and whether it may begin.
#[derive(Debug)]
pub(crate) struct Begun {
    is_set: AtomicBool,
    login_end: LoginEnd,
}

impl Begun {
    /// Of a command whose session has this wire. Its change has not begun.
    pub(crate) fn of(wire: &Wire) -> Self {
        Self { is_set: AtomicBool::new(false), login_end: wire.login_end.clone() }
    }

    /// The change begins, or the next of its commits. From now on the command does not end with its
    /// client. If the login has ended, nothing more is changed.
    pub(crate) fn begin(&self) -> Result<(), Failure> {
        if self.login_end.is_reached() {
            return Err(Failure::Bye(REVOKED));
        }
        self.is_set.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Does the work of a command that brings a message. If the login ends before the change has
    /// begun, the work is dropped. It does not end with its client: a client that has sent all its
    /// commands may close its sending side, and read the answers.
    pub(crate) async fn unless_login_ends<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut work = pin!(work);
        let mut login_end = self.login_end.clone();
        let mut ended = pin!(login_end.reached());
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Pending if !self.is_set() && ended.as_mut().poll(cx).is_ready() => {
                Poll::Ready(Err(Failure::Bye(REVOKED)))
            }
            polled => polled,
        })
        .await
    }
}

/// Does work as [`Wire::reporting`] does. But if the client disconnects or its login ends before
/// the change has begun, the work is dropped.
pub(crate) async fn reporting_after<T>(
    wire: &mut Wire,
    reports: Reports<'_>,
    begun: &Begun,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    let mut work = pin!(work);
    let clock = wire.clock().clone();
    let mut due = clock.now() + reports.times.first;
    loop {
        tokio::select! {
            biased;
            // It ends as soon as the change has begun, so that nothing else ends the change.
            waited = poll_fn(|cx| match work.as_mut().poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if begun.is_set() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }) => match waited {
                Some(done) => return Ok(done),
                None => return Ok(wire.reporting(reports, work).await),
            },
            left = wire.while_there(pending::<()>()) => left.map_err(ended)?,
            () = clock.sleep(due.saturating_duration_since(clock.now())) => {}
        }
        due = clock.now() + reports.times.every;
        let (done, sent) = wire.report_beside(reports, work.as_mut()).await;
        match (done, sent) {
            (Some(done), sent) => {
                if sent.is_err() {
                    wire.break_off();
                }
                return Ok(done);
            }
            (None, Err(_)) if begun.is_set() => wire.break_off(),
            (None, sent) => sent?,
        }
    }
}

/// Why a command that waited ends. It has printed no part of a response, so BYE may follow.
fn ended(error: NetError) -> Failure {
    match error {
        NetError::LoginEnded => Failure::Bye(REVOKED),
        error => error.into(),
    }
}
