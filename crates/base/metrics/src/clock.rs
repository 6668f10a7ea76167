//! The CPU time of polls, with few readings of the thread's clock.
//!
//! A reading of that clock is a system call, and there is at least one poll for each command. The
//! machine's clock is read in user space. So a short poll counts its time by that: a thread seldom
//! loses its processor in so short a time. Longer ones read the thread's clock. A reading also
//! shows what short polls have waited: those after it count less by that.
//!
//! Between two polls the runtime waits for sockets and wakes tasks. A random poll, on average each
//! sixteenth, counts all CPU time that no poll has counted. So the counts of a thread add up to
//! its CPU time, and the mean over many commands is right. That of one command is not exact.
//!
//! A poll that blocks for long, as on a read from the disk, counts too much: it also counts what
//! the runtime used since such a random poll.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A poll of this length may have waited for a processor.
const LONG: Duration = Duration::from_micros(200);
/// At most so many polls are between two that count everything.
const MOST_BETWEEN: u32 = 31;

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
                let amount = now.saturating_sub(std::mem::replace(since, now));
                // A thread that blocked may poll again: a poll must not count this, too.
                on_counted(|counted| counted.until += amount);
                amount
            }
            Self::Poll(since) => {
                let now = Instant::now();
                let elapsed = now.saturating_duration_since(std::mem::replace(since, now));
                on_counted(|counted| counted.amount(elapsed, thread_cpu)).unwrap_or(0)
            }
        }
    }
}

thread_local! {
    static COUNTED: Cell<Option<Counted>> = const { Cell::new(None) };
}

/// Lets `with` change what is counted of this thread, if a poll was on it.
fn on_counted<T>(with: impl FnOnce(&mut Counted) -> T) -> Option<T> {
    let done = COUNTED.try_with(|cell| {
        let mut counted = cell.get()?;
        let done = with(&mut counted);
        cell.set(Some(counted));
        Some(done)
    });
    done.ok().flatten()
}

/// The CPU time of a thread that is counted.
#[derive(Clone, Copy)]
struct Counted {
    /// The thread's clock at the first poll, and all that was counted since. Short polls may have
    /// waited: then it is later than the clock.
    until: u64,
    /// How much later it was at the last reading, without what polls left out since.
    waited: u64,
    /// Polls until the next one that counts everything.
    polls: u32,
    random: u32,
}

impl Counted {
    /// The thread's clock has this value, and what comes before is not counted.
    fn new(until: u64) -> Self {
        // Any seed but zero, and another one for each thread.
        Self { until, waited: 0, polls: 0, random: until as u32 | 1 }
    }

    /// The nanoseconds that count for a poll.
    fn amount(&mut self, elapsed: Duration, thread_cpu: impl FnOnce() -> u64) -> u64 {
        let poll = elapsed.as_nanos() as u64;
        let counts_everything = self.polls == 0;
        self.polls = if counts_everything { self.next_random() % (MOST_BETWEEN + 1) } else { self.polls - 1 };
        let amount = if elapsed < LONG && !counts_everything {
            let left_out = poll.min(self.waited);
            self.waited -= left_out;
            poll - left_out
        } else {
            let now = thread_cpu();
            self.waited = self.until.saturating_sub(now);
            let not_counted = now.saturating_sub(self.until);
            if counts_everything { not_counted } else { poll.min(not_counted) }
        };
        self.until += amount;
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

    /// Counts polls of these nanoseconds. Each also costs the runtime 1,500 ns, and waits for this
    /// long. Returns the sum of the counts, and what the thread used.
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
        assert!(missing < 1_500 * (u64::from(MOST_BETWEEN) + 1), "{missing} of {used}");
    }

    #[test]
    fn long_polls_alone_count_the_runtimes_part() {
        let mut counted = Counted::new(1);
        let (sum, used) = count(&mut counted, [300_000; 1_000], 0);
        let missing = used - sum;
        assert!(missing < 1_500 * (u64::from(MOST_BETWEEN) + 1), "{missing} of {used}");
    }

    #[test]
    fn the_runtimes_part_is_counted_for_each_poll_alike() {
        let mut counted = Counted::new(1);
        let (mut short, mut long, mut clock) = (0, 0, 1);
        for n in 0..200_000 {
            let (poll, sum) = if n % 8 == 0 { (300_000, &mut long) } else { (3_000, &mut short) };
            clock += poll + 1_500;
            *sum += counted.amount(Duration::from_nanos(poll), || clock);
        }
        let (short, long) = (short as f64 / 175_000.0, long as f64 / 25_000.0);
        assert!((4_300.0..4_700.0).contains(&short), "{short}");
        assert!((301_000.0..302_000.0).contains(&long), "{long}");
    }

    #[test]
    fn a_wait_for_a_processor_is_not_counted() {
        let mut counted = Counted::new(1);
        let (sum, used) = count(&mut counted, [300_000; 1_000], 10_000_000);
        assert!(sum <= used && sum > used - 300_000, "{sum} of {used}");
    }

    #[test]
    fn what_short_polls_waited_is_taken_back() {
        let mut counted = Counted::new(1);
        let (sum, used) = count(&mut counted, [1_000; 10_000], 20_000);
        assert!(sum.abs_diff(used) < 21_000 * u64::from(MOST_BETWEEN), "{sum} of {used}");
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

    /// Uses this many nanoseconds of CPU time.
    fn use_cpu(nanoseconds: u64) {
        let from = thread_cpu();
        while thread_cpu() - from < nanoseconds {}
    }

    #[test]
    fn other_work_has_a_count_of_its_own() {
        let from = thread_cpu();
        use_cpu(1_000_000);
        let mut work = Count::of_work();
        let taken = [work.take(), work.take()];
        assert!(taken.iter().sum::<u64>() <= thread_cpu() - from - 1_000_000, "{taken:?}");
    }

    #[test]
    fn no_poll_counts_other_work_of_its_thread() {
        // No other test has polled on this thread.
        let counts = std::thread::spawn(|| {
            let first = Count::of_poll().take();
            let mut count = Count::of_work();
            use_cpu(10_000_000);
            let work = count.take();
            // One of these counts everything. The others count less than 200 µs each.
            let polls: u64 = (0..=MOST_BETWEEN).map(|_| Count::of_poll().take()).sum();
            (work, first + polls)
        });
        let (work, polls) = counts.join().unwrap();
        assert!(work >= 10_000_000 && polls < 8_000_000, "{work} {polls}");
    }
}
