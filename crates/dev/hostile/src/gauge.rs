//! The memory and CPU of a process, as Linux counts them.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// Reads `/proc` for one process.
#[derive(Clone, Copy, Debug)]
pub struct Gauge {
    pid: u32,
}

impl Gauge {
    /// For a process that runs.
    pub fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// Bytes in memory now; 0 if the process has ended.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most bytes that were in memory since [`Gauge::forget_peak`].
    pub fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Begins a new peak (`man 5 proc`, clear_refs).
    pub fn forget_peak(&self) -> std::io::Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.pid), "5")
    }

    /// CPU time of all its threads since its start, in steps of 10 ms.
    pub fn cpu(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // The name in parentheses may hold spaces; behind it, utime and stime are fields 12 and 13.
        let fields = text.rsplit(')').next().unwrap_or_default();
        let ticks: u64 =
            fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        // USER_HZ is 100 on every Linux that we run on.
        Duration::from_millis(ticks * 10)
    }

    /// CPU time that it takes until it takes hardly any, ten seconds at most. Work in the
    /// background may begin a quarter of a second after its cause.
    pub fn cpu_until_idle(&self) -> Duration {
        const WINDOW: Duration = Duration::from_millis(250);
        const QUIET_WINDOWS: usize = 3;
        let first = self.cpu();
        let (mut before, mut quiet) = (first, 0);
        for _ in 0..40 {
            std::thread::sleep(WINDOW);
            let now = self.cpu();
            quiet = if now - before <= WINDOW / 10 { quiet + 1 } else { 0 };
            before = now;
            if quiet == QUIET_WINDOWS {
                break;
            }
        }
        before - first
    }

    /// The CPU of each of its threads so far.
    pub fn threads(&self) -> Threads {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let of = |task: fs::DirEntry| {
            let id = task.file_name().to_str()?.parse().ok()?;
            Some((id, SchedTimes::read(&task.path().join("schedstat").to_string_lossy())))
        };
        Threads(tasks.filter_map(of).collect())
    }

    fn status(&self, what: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }
}

/// How long a thread had a processor, and how long it could have used one and had none.
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedTimes {
    ran: Duration,
    waited: Duration,
}

impl SchedTimes {
    /// The times of the calling thread.
    pub fn own() -> Self {
        Self::read("/proc/thread-self/schedstat")
    }

    /// Documentation/scheduler/sched-stats.rst of Linux: nanoseconds on a processor, and in its
    /// queue.
    fn read(path: &str) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(|word| Duration::from_nanos(word.parse().unwrap_or(0)));
        Self { ran: numbers.next().unwrap_or_default(), waited: numbers.next().unwrap_or_default() }
    }

    /// How long it waited for a processor since then.
    pub fn waited_since(&self, before: Self) -> Duration {
        self.waited.saturating_sub(before.waited)
    }
}

/// The threads of a process, by their ids.
#[derive(Clone, Debug, Default)]
pub struct Threads(HashMap<u32, SchedTimes>);

impl Threads {
    /// How long the process waited for a processor since then, during `elapsed`. It is the least
    /// wait of those threads that ran or waited half of that time. Which of them worked for whom is
    /// not known, so each of them waited at least that long.
    pub fn waited_since(&self, before: &Self, elapsed: Duration) -> Duration {
        let since = self.0.iter().map(|(id, now)| {
            let before = before.0.get(id).copied().unwrap_or_default();
            (now.ran.saturating_sub(before.ran), now.waited_since(before))
        });
        let busy = since.filter(|(ran, waited)| *ran + *waited >= elapsed / 2);
        busy.map(|(_, waited)| waited).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ran: u64, waited: u64) -> SchedTimes {
        SchedTimes { ran: Duration::from_millis(ran), waited: Duration::from_millis(waited) }
    }

    #[test]
    fn waiting_is_the_least_of_the_busy_threads() {
        let before = Threads([(1, times(5, 5)), (2, times(0, 0))].into());
        let elapsed = Duration::from_millis(50);
        let now = |one, two| Threads([(1, one), (2, two), (3, times(0, 1))].into());
        // One computed for long: that the other waited explains nothing.
        assert_eq!(now(times(55, 5), times(0, 40)).waited_since(&before, elapsed), Duration::ZERO);
        assert_eq!(
            now(times(15, 35), times(5, 40)).waited_since(&before, elapsed),
            Duration::from_millis(30)
        );
        assert_eq!(now(times(6, 6), times(1, 1)).waited_since(&before, elapsed), Duration::ZERO);
    }

    #[test]
    fn this_thread_is_found() {
        assert!(!Gauge::new(std::process::id()).threads().0.is_empty());
    }
}
