//! Copies of large messages are made on another thread, and long headers are read there. Memory
//! that is used for the first time takes most of the time: 60 MB take over 20 ms.

use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::pin::Pin;

use bytes::Bytes;
use posthaste_permits::{ErasedResult, ErasedWork, erased, on_compute_thread, result_of};
use tokio::runtime::Handle;

use crate::freed::freed_elsewhere;

/// Octets that a task copies itself: some 0.5 ms.
pub const COPIED_HERE_MAX: usize = 1 << 20;

/// Does work that copies or reads so many octets: at once if they are few, and else on another
/// thread.
pub async fn copying<T: Send + 'static>(octets: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if octets > COPIED_HERE_MAX { elsewhere(work).await } else { work() }
}

/// Does work on a thread for computations. Without a runtime it is done at once.
pub async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match Handle::try_current() {
        Ok(_) => result_of(on_another_thread(erased(work)).await),
        Err(_) => work(),
    }
}

/// Does work on a thread for computations. Boxed, so that its code is generated in this crate, and
/// for all types of work together.
fn on_another_thread(work: ErasedWork) -> Pin<Box<dyn Future<Output = ErasedResult> + Send>> {
    Box::pin(async move {
        match on_compute_thread(work).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime ends, and this task with it.
                Err(_) => pending().await,
            },
        }
    })
}

/// Parts of a message, one after the other.
pub async fn joined<const N: usize>(parts: [Bytes; N]) -> Bytes {
    let octets = parts.iter().map(Bytes::len).sum();
    let join = move || {
        let mut all = Vec::with_capacity(octets);
        parts.iter().for_each(|part| all.extend_from_slice(part));
        freed_elsewhere(all)
    };
    copying(octets, join).await
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn a_large_copy_is_made_on_another_thread() {
        let here = thread::current().id();
        for (octets, is_elsewhere) in [(COPIED_HERE_MAX, false), (COPIED_HERE_MAX + 1, true)] {
            let by = copying(octets, || thread::current().id()).await;
            assert_eq!(by != here, is_elsewhere, "{octets} octets");
        }
    }

    #[tokio::test]
    async fn the_parts_follow_each_other() {
        for len in [3, 2 * COPIED_HERE_MAX] {
            let parts = [Bytes::from_static(b"front "), Bytes::from(vec![b'x'; len])];
            let whole = [&parts[0][..], &parts[1][..]].concat();
            assert_eq!(joined(parts).await, whole);
        }
    }
}
