//! Copies of large messages are made on another thread, and long headers are read there. Memory
//! that is used for the first time takes most of the time: 60 MB take over 20 ms. A header has at
//! most 1 MiB, which takes up to 30 ms.
//!
//! This work has one place fewer than there are processors ([`compute_threads`]). Its pieces are
//! short, so those who wait get the places in the order of their calls. Where the caller knows
//! for whom the work is done, that holder has one piece at a time ([`elsewhere_for`]).
//!
//! Work that has a place waits for nothing. So a caller may hold anything while it waits for one.

use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::LazyLock;

use bytes::Bytes;
use posthaste_permits::{
    ErasedResult, ErasedWork, KeyedSemaphore, compute_threads, erased, on_compute_thread_with, result_of,
};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::budget::Holder;
use crate::freed::freed_elsewhere;

/// Octets that a task copies itself: some 0.5 ms.
pub const COPIED_HERE_MAX: usize = 1 << 20;

/// The places of this process.
static PLACES: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(compute_threads()));

/// The holders who have a piece of work done, or wait for a place: each has one turn.
static TURNS: LazyLock<KeyedSemaphore<Holder>> = LazyLock::new(|| KeyedSemaphore::new(0, 1));

/// Does work that copies or reads so many octets: at once if they are few, and else on another
/// thread.
pub async fn copying<T: Send + 'static>(octets: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if octets > COPIED_HERE_MAX { elsewhere(work).await } else { work() }
}

/// Does work for a holder as [`elsewhere`] does: one piece at a time. `None`: it is for many, or
/// for nobody.
pub async fn elsewhere_for<T: Send + 'static>(
    holder: Option<Holder>,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let turn = match holder {
        Some(holder) => TURNS.acquire_own(holder).await,
        None => None,
    };
    elsewhere(move || {
        let _turn = turn;
        work()
    })
    .await
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
        // Nobody closes the semaphore.
        let place = PLACES.acquire().await.ok();
        match on_compute_thread_with(place, work).await {
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
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;
    use std::thread;

    use posthaste_permits::given_to_compute_threads;

    use super::*;

    #[tokio::test]
    async fn a_large_copy_is_made_on_another_thread() {
        let here = thread::current().id();
        for (octets, is_elsewhere) in [(COPIED_HERE_MAX, false), (COPIED_HERE_MAX + 1, true)] {
            let by = copying(octets, || thread::current().id()).await;
            assert_eq!(by != here, is_elsewhere, "{octets} octets");
        }
    }

    /// Whether work goes on after one more poll.
    async fn waits(work: Pin<&mut impl Future>) -> bool {
        let mut work = work;
        poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn so_many_copies_and_looks_run_at_a_time() {
        let all = PLACES.acquire_many(compute_threads() as u32).await.unwrap();
        let given = given_to_compute_threads();
        let mut work = pin!(elsewhere(|| 7));
        assert!(waits(work.as_mut()).await);
        assert_eq!((PLACES.available_permits(), given_to_compute_threads()), (0, given));
        drop(all);
        assert_eq!(work.await, 7);
    }

    #[tokio::test]
    async fn a_holder_has_one_look_at_a_time_and_others_have_theirs() {
        let [one, other] = [1, 2].map(|n| Some(Holder::Account([n; 16])));
        let held = TURNS.acquire_own(Holder::Account([1; 16])).await;
        let given = given_to_compute_threads();
        let mut second = pin!(elsewhere_for(one, || 2));
        assert!(waits(second.as_mut()).await, "the holder's turn is taken");
        assert_eq!(given_to_compute_threads(), given, "it has not begun");
        assert_eq!(TURNS.count(&Holder::Account([1; 16])), 2);
        assert_eq!(elsewhere_for(other, || 3).await, 3);
        assert_eq!(elsewhere_for(None, || 4).await, 4);
        drop(held);
        assert_eq!(second.await, 2);
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
