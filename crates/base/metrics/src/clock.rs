//! The CPU time of polls, with few readings of the thread's clock.
//!
//! A reading of that clock is a system call, and there is at least one poll for each command. The
//! machine's clock is read in user space. So a short poll counts its time by that: a thread seldom
//! loses its processor in so short a time. Longer ones read the thread's clock.
//!
//! Between two polls the runtime waits for sockets and wakes tasks. A random poll, on average each
//! sixteenth, counts all CPU time that no poll has counted. So the counts of a thread add up to
//! its CPU time, and the mean over many commands is right. That of one command is not exact.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A poll of this length may have waited for a processor.
const LONG: Duration = Duration::from_micros(50);
/// At most so many short polls are between two that count everything.
const MOST_SHORT_POLLS: u32 = 31;

/// CPU time that this thread has used, in nanoseconds.
pub(crate) fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The kernel counts a thread's time from zero, and a second has at most 10⁹ nanoseconds.
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// A part of a thread's CPU time that is being counted.
pub(crate) enum Count {
    /// A poll, since this time.
    Poll(Instant),
    /// Other work, since the thread's clock had this value.
    Work(u64),
}

impl Count {
    /// A poll begins. All tasks of a runtime that use much CPU time should be counted: what the
    /// thread does between two such polls is counted for them.
    pub(crate) fn of_poll() -> Self {
        let _ = COUNTED.try_with(|counted| {
            if counted.get().is_none() {
                counted.set(Some(Counted::new(thread_cpu())));
            }
        });
        Self::Poll(Instant::now())
    }

    /// Work begins that is no poll. Nothing before it is counted for it.
    pub(crate) fn of_work() -> Self {
        Self::Work(thread_cpu())
    }

    /// The nanoseconds that count, since the begin or the last call.
    pub(crate) fn take(&mut self) -> u64 {
        match self {
            Self::Work(since) => {
                let now = thread_cpu();
                now.saturating_sub(std::mem::replace(since, now))
            }
            Self::Poll(since) => {
                let now = Instant::now();
                let elapsed = now.saturating_duration_since(std::mem::replace(since, now));
                let amount = COUNTED.try_with(|cell| {
                    let mut counted = cell.get()?;
                    let amount = counted.amount(elapsed, thread_cpu);
                    cell.set(Some(counted));
                    Some(amount)
                });
                amount.ok().flatten().unwrap_or(0)
            }
        }
    }
}

thread_local! {
    static COUNTED: Cell<Option<Counted>> = const { Cell::new(None) };
}

/// The CPU time of a thread that polls have counted.
#[derive(Clone, Copy)]
struct Counted {
    /// The thread's clock when all of its time was counted.
    until: u64,
    /// What was counted since. It may be more than was used; then later counts are lower.
    since: u64,
    /// Short polls until the next one that counts everything.
    short_polls: u32,
    random: u32,
}

impl Counted {
    /// The thread's clock has this value, and what comes before is not counted.
    fn new(until: u64) -> Self {
        // Any seed but zero, and another one for each thread.
        Self { until, since: 0, short_polls: 0, random: until as u32 | 1 }
    }

    /// The nanoseconds that count for a poll.
    fn amount(&mut self, elapsed: Duration, thread_cpu: impl FnOnce() -> u64) -> u64 {
        let poll = elapsed.as_nanos() as u64;
        let counts_everything = self.short_polls == 0;
        if counts_everything {
            self.short_polls = self.next_random() % (MOST_SHORT_POLLS + 1);
        } else if elapsed < LONG {
            self.short_polls -= 1;
            self.since += poll;
            return poll;
        }
        let now = thread_cpu();
        let used = now.saturating_sub(self.until);
        let not_counted = used.saturating_sub(self.since);
        if counts_everything {
            self.until = now;
            self.since = self.since.saturating_sub(used);
            return not_counted;
        }
        let amount = poll.min(not_counted);
        self.since += amount;
        amount
    }

    /// Marsaglia's xorshift: which polls read the clock must not follow a client's pattern.
    fn next_random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts polls of these nanoseconds, each of which also costs the runtime 1,500 ns, and waits
    /// for this long. Returns the sum of the counts, and what the thread used.
    fn count(counted: &mut Counted, polls: impl IntoIterator<Item = u64>, waits: u64) -> (u64, u64) {
        let from = counted.until;
        let mut clock = from;
        let mut sum = 0;
        for poll in polls {
            clock += poll + 1_500;
            sum += counted.amount(Duration::from_nanos(poll + waits), || clock);
        }
        (sum, clock - from)
    }

    #[test]
    fn counts_add_up_to_what_the_thread_used() {
        let mut counted = Counted::new(12_345);
        let polls = (0..100_000).map(|n| if n % 50 == 0 { 2_000_000 } else { 1_000 + n % 7 * 1_000 });
        let (sum, used) = count(&mut counted, polls, 0);
        let missing = used - sum;
        assert!(missing < 1_500 * (u64::from(MOST_SHORT_POLLS) + 1), "{missing} of {used}");
    }

    #[test]
    fn the_runtimes_part_is_counted_for_each_poll_alike() {
        let mut counted = Counted::new(1);
        let (mut short, mut long, mut clock) = (0, 0, 1);
        for n in 0..200_000 {
            let (poll, sum) = if n % 8 == 0 { (100_000, &mut long) } else { (3_000, &mut short) };
            clock += poll + 1_500;
            *sum += counted.amount(Duration::from_nanos(poll), || clock);
        }
        let (short, long) = (short as f64 / 175_000.0, long as f64 / 25_000.0);
        assert!((4_300.0..4_700.0).contains(&short), "{short}");
        assert!((101_000.0..102_000.0).contains(&long), "{long}");
    }

    #[test]
    fn a_wait_for_a_processor_is_not_counted() {
        let mut counted = Counted::new(1);
        let (sum, used) = count(&mut counted, [60_000; 1_000], 10_000_000);
        assert!(sum <= used && sum > used - 60_000, "{sum} of {used}");
    }

    #[test]
    fn what_short_polls_waited_is_taken_back() {
        let mut counted = Counted::new(1);
        let (sum, used) = count(&mut counted, [1_000; 10_000], 20_000);
        assert!(sum < used + 21_000 * u64::from(MOST_SHORT_POLLS), "{sum} of {used}");
    }

    #[test]
    fn few_short_polls_read_the_clock() {
        let mut counted = Counted::new(1);
        let mut readings = 0;
        for _ in 0..10_000 {
            counted.amount(Duration::from_micros(5), || {
                readings += 1;
                readings * 6_000
            });
        }
        assert!((500..750).contains(&readings), "{readings}");
    }

    #[test]
    fn other_work_has_a_count_of_its_own() {
        let from = thread_cpu();
        while thread_cpu() - from < 1_000_000 {}
        let mut work = Count::of_work();
        let taken = [work.take(), work.take()];
        assert!(taken.iter().sum::<u64>() < thread_cpu() - from - 1_000_000, "{taken:?}");
    }
}
