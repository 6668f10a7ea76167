//! Threads that compute: how many, and with which priority.
//!
//! A session's thread must find a processor at once, whatever else the server computes. So long
//! work runs on threads of a lower priority ([`on_compute_thread`]). Each kind of work limits the
//! number of its threads ([`compute_threads`]). Several kinds at once may have more threads than
//! there are processors: then they share what sessions leave.

use std::cell::Cell;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// What computing threads add to their nice value (`sched(7)`). While a session computes on the
/// same processor, such a thread has a tenth of it. So a login waits for a busy server, and ends.
const NICER: i32 = 10;

/// The runtime whose threads compute. `None` if it could not be made.
static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let nice = rustix::process::getpriority_process(None).map(|usual| usual + NICER);
    let mut runtime = Builder::new_current_thread();
    runtime.thread_name("compute").on_thread_stop(posthaste_metrics::thread_ends);
    runtime.on_thread_start(move || {
        COMPUTES.set(true);
        // Linux has a nice value for each thread. A new thread begins with that of the one that
        // made it, which may be raised already. If it cannot be set, it stays.
        let _ = nice.and_then(|nice| rustix::process::setpriority_process(None, nice));
    });
    runtime.build().ok()
});

thread_local! {
    static COMPUTES: Cell<bool> = const { Cell::new(false) };
    static GIVEN: Cell<usize> = const { Cell::new(0) };
}

/// Whether this is a thread for computations. It should make no thread for other work: that one
/// would keep the low priority, and nobody but root can raise it.
pub fn is_compute_thread() -> bool {
    COMPUTES.get()
}

/// Threads that may compute at a time: one fewer than processors, and at least one. One processor
/// stays free for sessions, whose work is short.
///
/// Each kind of work counts by itself. With one count for all, a login would wait for long pieces
/// of other work, such as the run of a script.
pub fn compute_threads() -> usize {
    all_but_one(std::thread::available_parallelism().map_or(1, usize::from))
}

fn all_but_one(processors: usize) -> usize {
    processors.saturating_sub(1).max(1)
}

/// Does work on a thread for computations, with a lower priority than sessions. The cost of the
/// work counts as the caller's, and what it spawns runs where the caller does. The work continues
/// if nobody waits for it.
///
/// # Panics
///
/// If there is neither a runtime for computations nor one of the caller.
pub fn on_compute_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    GIVEN.set(GIVEN.get() + 1);
    let (session, caller) = (posthaste_metrics::current(), Handle::try_current().ok());
    let work = move || {
        let _context = caller.as_ref().map(Handle::enter);
        session.run(work)
    };
    match &*RUNTIME {
        Some(runtime) => runtime.spawn_blocking(work),
        None => Handle::current().spawn_blocking(work),
    }
}

/// Does work as [`on_compute_thread`] does. The work holds its permit until it ends, also if
/// nobody waits for it any more.
///
/// # Panics
///
/// As [`on_compute_thread`] does.
pub fn on_compute_thread_with<T: Send + 'static>(
    permit: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    on_compute_thread(move || {
        let _permit = permit;
        work()
    })
}

/// How often this thread called [`on_compute_thread`]: for tests of what is long work.
pub fn given_to_compute_threads() -> usize {
    GIVEN.get()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{TryRecvError, channel};
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn one_processor_is_for_sessions() {
        assert_eq!([0, 1, 2, 3, 64].map(all_but_one), [1, 1, 1, 2, 63]);
    }

    /// Linux raises the value of one thread, and that of no other.
    #[tokio::test]
    async fn computations_have_a_lower_priority_than_sessions() {
        let nice = || rustix::process::nice(0).unwrap();
        let (before, given) = (nice(), given_to_compute_threads());
        let most = 19;
        assert_eq!(on_compute_thread(nice).await.unwrap(), (before + NICER).min(most));
        assert_eq!(tokio::task::spawn_blocking(nice).await.unwrap(), before);
        assert_eq!(nice(), before);
        assert_eq!(given_to_compute_threads(), given + 1);
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_holds_its_permit_to_its_end() {
        let (permit, releases) = channel::<()>();
        let (begin, begins) = channel();
        let (end, ends) = channel();
        drop(on_compute_thread_with(permit, move || {
            begin.send(()).unwrap();
            ends.recv().unwrap()
        }));
        begins.recv().unwrap();
        assert_eq!(releases.try_recv(), Err(TryRecvError::Empty));
        end.send(()).unwrap();
        assert!(releases.recv().is_err(), "the permit is dropped");
    }

    /// All of these are at work at once, so some of the threads are new.
    #[tokio::test]
    async fn computations_of_a_computation_have_no_lower_priority() {
        const AT_ONCE: usize = 8;
        let nice = || rustix::process::nice(0).unwrap();
        let all_begun = Arc::new(Barrier::new(AT_ONCE));
        let begin = move || {
            let one = || {
                let all_begun = Arc::clone(&all_begun);
                on_compute_thread(move || {
                    all_begun.wait();
                    (is_compute_thread(), nice())
                })
            };
            std::iter::repeat_with(one).take(AT_ONCE).collect::<Vec<_>>()
        };
        let wanted = (nice() + NICER).min(19);
        for one in on_compute_thread(begin).await.unwrap() {
            assert_eq!(one.await.unwrap(), (true, wanted));
        }
        assert!(!is_compute_thread());
    }

    /// Nothing polls tasks on the runtime of these threads.
    #[tokio::test]
    async fn a_computation_spawns_tasks_where_its_caller_is() {
        let spawned = on_compute_thread(|| tokio::spawn(async { 1 })).await.unwrap();
        assert_eq!(spawned.await.unwrap(), 1);
    }
}
