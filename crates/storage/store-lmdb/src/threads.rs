//! Work that reads much, on threads where it delays no session.

use posthaste_store::{Result, StoreError};

/// Runs work that reads much without delaying other tasks of the thread.
pub(crate) fn off_the_runtime<T>(work: impl FnOnce() -> T) -> T {
    if has_threads() { tokio::task::block_in_place(work) } else { work() }
}

/// Runs such work on another thread. Its cost counts as the caller's.
pub(crate) async fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if !has_threads() {
        return work();
    }
    let caller = posthaste_metrics::current();
    let done = tokio::task::spawn_blocking(move || caller.run(work));
    done.await.map_err(|error| StoreError::Unavailable(format!("the work was aborted: {error}")))?
}

/// Whether this runtime has another thread for other tasks.
fn has_threads() -> bool {
    let several =
        |h: tokio::runtime::Handle| h.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread;
    tokio::runtime::Handle::try_current().is_ok_and(several)
}
