//! The CPU clock of the running thread.

use rustix::time::{ClockId, clock_gettime};

/// CPU time that this thread has used, in nanoseconds.
pub(crate) fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The kernel counts a thread's time from zero, and a second has at most 10⁹ nanoseconds.
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}
