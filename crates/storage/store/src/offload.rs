//! Resolves changes of very many messages on threads of their own, so that no poll of a session's
//! task takes over 10 ms. Changes of few messages are resolved by the task itself, without a
//! switch.

use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_permits::{
    ErasedResult, ErasedWork, KeyedSemaphore, compute_threads, erased, on_compute_thread_with, result_of,
};
use tokio::runtime::Handle;

use crate::error::{Result, StoreError};

/// Messages that a task resolves without a pause. At 0.2 µs each they take 2 ms, ten times as long
/// as a switch to another thread. Ten times as many would take 20 ms.
pub(crate) const AT_ONCE: u64 = if cfg!(test) { 100 } else { 10_000 };

/// Messages that are looked up in the engine between two pauses. Copies that link take 0.35 µs
/// each, and up to three times as much on a slow processor: 2 ms. Half of them would gain nothing
/// that another task notices.
pub(crate) const LOOKED_UP: u64 = AT_ONCE / 5;

/// Whether a change of these messages is large. Without a runtime no change is large: no other
/// task waits.
pub(crate) fn is_large(messages: u64) -> bool {
    messages > AT_ONCE && Handle::try_current().is_ok()
}

/// Whether this many messages are looked up with pauses. Without a runtime there are no pauses.
pub(crate) fn are_many(messages: u64) -> bool {
    messages > LOOKED_UP && Handle::try_current().is_ok()
}

/// The account or mailbox for which long work is done. Its large changes run one after the other,
/// and so do the conversions of long bodies for its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// An account: with all of its mailboxes.
    Account(AccountId),
    /// A mailbox that no account has opened: the server itself reads or changes it.
    Mailbox(MailboxId),
}

/// Permits for large changes: one for each thread that may compute, and one for each place.
pub(crate) struct LargePermits(KeyedSemaphore<Place>);

impl LargePermits {
    pub fn new() -> Self {
        Self(KeyedSemaphore::new(compute_threads(), 1))
    }

    /// Does work on another thread, in the order of the calls. Many calls of one place keep
    /// others waiting for one of them only. The cost of the work counts as the caller's.
    pub async fn run<T: Send + 'static>(
        &self,
        place: Place,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.run_erased(place, erased(work)).await.map(result_of)
    }

    /// Does [`run`](Self::run) for work of any type. Its code is generated once.
    async fn run_erased(&self, place: Place, work: ErasedWork) -> Result<ErasedResult> {
        let failed = || StoreError::Unavailable("the change was cancelled".into());
        let permit = self.0.acquire(place).await.ok_or_else(failed)?;
        on_compute_thread_with(permit, work).await.map_err(|error| {
            tracing::error!(%error, "a large change was not resolved: if its resolution panicked, please report this bug");
            failed()
        })
    }

    /// Does work on the caller's thread if the messages are few, and else on another one.
    pub async fn run_if_large<T: Send + 'static>(
        &self,
        place: Place,
        messages: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        // Boxed: nearly no change is large.
        if is_large(messages) { Box::pin(self.run(place, work)).await } else { Ok(work()) }
    }

    /// Acquires all free permits, so that large changes wait. Places that do not exist have them.
    #[cfg(test)]
    pub fn acquire_all(&self) -> Vec<posthaste_permits::KeyedPermit<Place>> {
        use futures_util::FutureExt as _;

        let places = (0..).map(|n| Place::Mailbox(MailboxId(posthaste_mail_model::Id::new(n, 0))));
        // Unconstrained: a permit that is free is taken at the first poll.
        let free = |place| tokio::task::unconstrained(self.0.acquire(place)).now_or_never().flatten();
        places.map_while(free).collect()
    }

    /// Acquires only the permit of a place, so that its large changes wait.
    #[cfg(test)]
    pub async fn acquire_of(&self, place: Place) -> Option<posthaste_permits::OwnPermit<Place>> {
        self.0.acquire_own(place).await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    use parking_lot::Mutex;

    use super::*;
    use crate::suite::new_id;

    /// Fifty sessions of an account wait, and another account is next.
    #[tokio::test]
    async fn an_account_keeps_another_waiting_for_one_change_only() {
        let permits = LargePermits::new();
        let [many, one] = [(); 2].map(|()| Place::Account(AccountId(new_id())));
        let done = Arc::new(Mutex::new(Vec::new()));
        let note = |place| {
            let done = Arc::clone(&done);
            permits.run(place, move || done.lock().push(place))
        };
        let held = permits.acquire_all();
        let mut waiting: Vec<_> = (0..50).map(|_| Box::pin(note(many))).collect();
        let mut cx = Context::from_waker(Waker::noop());
        for work in &mut waiting {
            assert!(work.as_mut().poll(&mut cx).is_pending());
        }
        let mut other = pin!(note(one));
        assert!(other.as_mut().poll(&mut cx).is_pending());
        drop(held);
        // One change of the first account has the place before it at most.
        let mut waiting = waiting.into_iter();
        waiting.next().unwrap().await.unwrap();
        other.await.unwrap();
        assert_eq!(*done.lock(), [many, one]);
        for work in waiting {
            work.await.unwrap();
        }
        assert_eq!(done.lock().len(), 51);
        assert_eq!(permits.0.keys(), 0, "places without work are forgotten");
    }
}
