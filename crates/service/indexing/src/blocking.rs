//! Long work of the index, on threads of its own.

use posthaste_net::{ErasedResult, ErasedWork, erased, on_compute_thread, result_of};
use posthaste_store::{Result, StoreError};

/// Runs long work on another thread. Its cost counts as that of the task.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    run_erased(erased(work)).await.map(result_of)
}

/// Does [`blocking`] for work of any type. Its code is generated once.
async fn run_erased(work: ErasedWork) -> Result<ErasedResult> {
    on_compute_thread(work).await.map_err(|error| {
        tracing::error!(%error, "a computation of the search index has no result: if it panicked, please report this bug");
        StoreError::Busy
    })
}
