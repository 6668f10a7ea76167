//! Resolves changes of very many messages on threads of their own, so that no poll of a session's
//! task takes over 10 ms. Changes of few messages are resolved by the task itself, without a
//! switch.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::error::{Result, StoreError};

/// Messages that a task resolves or looks up without a pause. At 0.2 µs each they take 2 ms, ten
/// times as long as a switch to another thread. Ten times as many would take 20 ms.
pub(crate) const AT_ONCE: u64 = if cfg!(test) { 100 } else { 10_000 };

/// Whether a change of these messages is large. Without a runtime no change is large: no other
/// task waits.
pub(crate) fn is_large(messages: u64) -> bool {
    messages > AT_ONCE && Handle::try_current().is_ok()
}

/// Permits for large changes, one for each thread that may compute.
pub(crate) struct LargePermits(Arc<Semaphore>);

impl LargePermits {
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(posthaste_metrics::compute_threads())))
    }

    /// Does work on another thread, in the order of the calls. Its cost counts as the caller's.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let failed = || StoreError::Unavailable("the change was cancelled".into());
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(|_| failed())?;
        let session = posthaste_metrics::current();
        let done = tokio::task::spawn_blocking(move || {
            // The permit is released when the work ends, even if nobody waits for it any more.
            let _permit = permit;
            session.run(work)
        });
        done.await.map_err(|error| {
            tracing::error!(%error, "a large change was not resolved: if its resolution panicked, please report this bug");
            failed()
        })
    }

    /// Does work on the caller's thread if the messages are few, and else on another one.
    pub async fn run_if_large<T: Send + 'static>(
        &self,
        messages: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        // Boxed: nearly no change is large.
        if is_large(messages) { Box::pin(self.run(work)).await } else { Ok(work()) }
    }

    /// Takes all permits, so that large changes wait.
    #[cfg(test)]
    pub fn take_all(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        let all = u32::try_from(self.0.available_permits()).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(all).ok()
    }
}
