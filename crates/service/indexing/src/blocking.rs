//! Long work of the index, on threads of its own.

use posthaste_store::{Result, StoreError};

/// Runs long work on another thread. Its cost counts as that of the task.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let session = posthaste_metrics::current();
    tokio::task::spawn_blocking(move || session.run(work)).await.map_err(|error| {
        tracing::error!(%error, "a computation of the search index has no result: if it panicked, please report this bug");
        StoreError::Busy
    })
}
