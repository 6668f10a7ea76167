//! Reports of polls that use much CPU time.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::clock::thread_cpu;

/// The receiver of reports of long polls.
struct Watch {
    limit: Duration,
    report: fn(&LongPoll),
}

static WATCH: OnceLock<Watch> = OnceLock::new();

/// A long poll of a metered task, or of a task that a session began.
#[derive(Debug, Clone, Copy)]
pub struct LongPoll {
    /// The protocol, or the name of the background task.
    pub protocol: &'static str,
    /// The command whose cost was being counted at the end.
    pub command: Option<&'static str>,
    /// The CPU time of its thread. It is what counts: other programs do not add to it.
    pub cpu: Duration,
    /// The time on the clock, with the waits for a processor and for locks.
    pub elapsed: Duration,
}

/// Reports each poll of a metered task that uses more CPU time than this from now on. Meant for
/// tests: each poll reads both clocks again. Only the first call in a process counts.
pub fn watch_polls(limit: Duration, report: fn(&LongPoll)) {
    // A second call changes nothing, as documented.
    let _ = WATCH.set(Watch { limit, report });
}

/// A poll that is watched.
pub(crate) struct WatchedPoll {
    watch: &'static Watch,
    began: Instant,
    /// The thread's CPU clock at the begin.
    clock: u64,
}

impl WatchedPoll {
    /// A poll begins on this thread; `None` if nobody watches polls.
    pub(crate) fn begin() -> Option<Self> {
        WATCH.get().map(|watch| Self { watch, began: Instant::now(), clock: thread_cpu() })
    }

    /// The poll has ended. It is reported if it was long.
    pub(crate) fn ended(self, protocol: &'static str, command: impl FnOnce() -> Option<&'static str>) {
        let Self { watch, began, clock } = self;
        let cpu = Duration::from_nanos(thread_cpu().saturating_sub(clock));
        if cpu > watch.limit {
            (watch.report)(&LongPoll { protocol, command: command(), cpu, elapsed: began.elapsed() });
        }
    }
}
