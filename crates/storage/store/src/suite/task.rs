//! What the tests run side by side.

use std::pin::Pin;

/// Work that hides its type. The runtime's code for a task is long, and is compiled for each type
/// of work and each kind of runtime. So all tasks with the same result share it.
pub(crate) fn erased<T>(
    work: impl Future<Output = T> + Send + 'static,
) -> Pin<Box<dyn Future<Output = T> + Send>> {
    Box::pin(work)
}
