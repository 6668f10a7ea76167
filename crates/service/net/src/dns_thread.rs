//! The thread on which answers of name servers are read.
//!
//! A resolver parses all answers that have come in one poll. A hundred of 64 KiB take tens of
//! milliseconds, and name servers of strangers decide how long theirs are. Sessions do not wait
//! for that. The process has one such thread, for all its resolvers.

use std::future::{Future, pending, poll_fn};
use std::panic::resume_unwind;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

/// The runtime of the thread. `None` if it could not be made.
static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("dns").enable_all().build();
    runtime.inspect_err(|error| tracing::warn!(%error, "no thread for answers of DNS")).ok()
});

/// The runtime whose only thread reads answers of name servers. It is the caller's if there is no
/// such thread.
///
/// A resolver spawns its connections on the runtime that polls a look-up. So each look-up must be
/// polled there, or on a thread that may block.
pub fn dns_runtime() -> Handle {
    RUNTIME.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone())
}

/// Does look-ups on the thread for answers. Their result should be small: an answer of 64 KiB
/// takes megabytes, and must be dropped there. The look-ups end if nobody waits for them any more.
pub async fn on_dns_thread<T: Send + 'static>(look_ups: impl Future<Output = T> + Send + 'static) -> T {
    // `Current::metered` would add what the thread did since such a poll: it parses for others.
    let (session, mut look_ups) = (posthaste_metrics::current(), Box::pin(look_ups));
    let counted = poll_fn(move |context| session.run(|| look_ups.as_mut().poll(context)));
    // The set aborts its task when it is dropped.
    let mut task = JoinSet::new();
    task.spawn_on(counted, &dns_runtime());
    match task.join_next().await {
        Some(Ok(found)) => found,
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime ends, and this task with it.
        _ => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn look_ups_and_what_they_spawn_run_on_the_thread_for_answers() {
        let name = || thread::current().name().map(str::to_owned);
        let names =
            on_dns_thread(async move { [name(), tokio::spawn(async move { name() }).await.unwrap()] });
        assert_eq!(names.await, [Some("dns".to_owned()), Some("dns".to_owned())]);
    }

    #[tokio::test]
    async fn a_look_up_that_nobody_waits_for_ends() {
        let (begin, begun) = oneshot::channel();
        let (held, dropped) = oneshot::channel::<()>();
        let look_up = on_dns_thread(async move {
            let _held = held;
            begin.send(()).unwrap();
            pending::<()>().await;
        });
        tokio::select! {
            () = look_up => panic!("it waits for ever"),
            begun = begun => begun.unwrap(),
        }
        assert!(dropped.await.is_err(), "the look-up was dropped");
    }
}
