//! The ends of a session that the server decides: a shutdown, or the end of the login.
//!
//! Each wait for the client is also a wait for these. The task is registered once for both, and not
//! in each wait. Afterwards a wait costs two reads of memory.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use posthaste_directory::Lease;
use posthaste_net::Shutdown;
use tokio::task::unconstrained;

/// The BYE text after a change of the account that ends its logins.
pub(crate) const REVOKED: &str =
    "Your login has ended: the account is disabled or removed, or its credential is no longer valid";

/// Why the server ends a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The server stops.
    Shutdown,
    /// The account, or the credential of the login, was removed.
    Revoked,
}

impl Ending {
    /// The text of BYE.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Shutdown => "The server is shutting down",
            Self::Revoked => REVOKED,
        }
    }
}

/// Watches for the ends of one session.
pub(crate) struct Endings {
    shutdown: Shutdown,
    lease: Option<Lease>,
    watched: Option<Watched>,
}

/// A wait for the ends of a session, and the task that it wakes.
struct Watched {
    ending: Pin<Box<dyn Future<Output = Ending> + Send + Sync>>,
    wakes: Waker,
}

impl Endings {
    /// Before the login only a shutdown ends the session.
    pub(crate) fn new(shutdown: Shutdown) -> Self {
        Self { shutdown, lease: None, watched: None }
    }

    /// The lease of the login.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The session ends with this lease from now on, or with none.
    pub(crate) fn set_lease(&mut self, lease: Option<Lease>) {
        self.lease = lease;
        self.watched = None;
    }

    /// Whether the account, or the credential of the login, was removed.
    pub(crate) fn is_revoked(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_ended)
    }

    /// The end that was reached.
    fn now(&self) -> Option<Ending> {
        match self.shutdown.is_requested() {
            true => Some(Ending::Shutdown),
            false => self.is_revoked().then_some(Ending::Revoked),
        }
    }

    /// Returns once the server ends the session. May be dropped and called again at any time.
    pub(crate) async fn reached(&mut self) -> Ending {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        // Both ends last, so a task that is known, and was woken for another reason, only reads
        // whether one is there.
        let is_known = self.watched.as_ref().is_some_and(|watched| watched.wakes.will_wake(cx.waker()));
        if let (true, None) = (is_known, self.now()) {
            return Poll::Pending;
        }
        let watched = self.watched.take().map(|watched| watched.ending);
        let mut ending = watched.unwrap_or_else(|| self.watch());
        let polled = ending.as_mut().poll(cx);
        if polled.is_pending() {
            self.watched = Some(Watched { ending, wakes: cx.waker().clone() });
        }
        polled
    }

    /// Unconstrained: a wait that yields without having registered the task would not be woken.
    fn watch(&self) -> Pin<Box<dyn Future<Output = Ending> + Send + Sync>> {
        let (mut shutdown, lease) = (self.shutdown.clone(), self.lease.as_ref().map(Lease::signal));
        let revoked = async move {
            match lease {
                // The lease of this session keeps the sender alive: there is no error.
                Some(mut ended) => drop(ended.wait_for(|ended| *ended).await.is_ok()),
                None => std::future::pending().await,
            }
        };
        Box::pin(unconstrained(async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => Ending::Shutdown,
                () = revoked => Ending::Revoked,
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_that_was_dropped_does_not_keep_the_next_one_from_ending() {
        let (trigger, shutdown) = Shutdown::new();
        let mut endings = Endings::new(shutdown);
        // More waits than a task may begin in one turn.
        poll_fn(|cx| {
            assert!((0..1000).all(|_| endings.poll(cx).is_pending()));
            Poll::Ready(())
        })
        .await;
        let (begun, begins) = tokio::sync::oneshot::channel();
        let waiting = tokio::spawn(async move {
            poll_fn(|cx| {
                assert!(endings.poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            begun.send(()).unwrap();
            endings.reached().await
        });
        begins.await.unwrap();
        trigger.request();
        assert_eq!(waiting.await.unwrap(), Ending::Shutdown);
    }

    #[tokio::test]
    async fn an_end_that_was_reached_before_is_seen_at_once() {
        let (trigger, shutdown) = Shutdown::new();
        let mut endings = Endings::new(shutdown);
        trigger.request();
        for _ in 0..2 {
            assert_eq!(endings.reached().await, Ending::Shutdown);
        }
    }
}
