//! The wait for the work that a server does in the background: a search index, for one. Without
//! it, the first points after a server was filled would pay for that work. On a simulated
//! processor it would be cut when the server is stopped.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use posthaste_load_drive::interrupt;
use posthaste_load_measure::{Monitor, WatchTarget};
use posthaste_load_text::quantity::show_duration;

use super::work::Work;
use crate::Length;
use crate::server::{Instance, ServerChoice};
use crate::settings::STORE;

/// Processors that a server uses at most while it has no such work: for timers and maintenance.
const IDLE_CPUS: f64 = 0.03;
/// On a simulated processor timers take some fifty times as long, so they may use more than that.
/// But there work in the background uses as much CPU as users do: one thread runs at a time. So
/// a server is idle up to this part of the CPU that it used while it served users.
const IDLE_PART_SIMULATED: f64 = 0.25;
/// Such intervals in a row that end the wait: between two parts of its work, a server may pause for
/// some seconds.
const IDLE_INTERVALS: u32 = 3;
const INTERVAL: Duration = Duration::from_secs(2);
/// The wait for a server that has no such work.
pub(crate) const LEAST_WAIT: Duration = INTERVAL.saturating_mul(IDLE_INTERVALS);
/// A server that is still at work after this time is measured, and the report says so.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// The same in a quick study, which is planned for half an hour in all.
const WAIT_MAX_QUICK: Duration = Duration::from_secs(120);
/// The same on a simulated processor, after the last transaction. The index of some hundred
/// messages takes seconds there.
const WAIT_MAX_SIMULATED: Duration = Duration::from_secs(300);

/// The longest wait after a server was filled.
fn wait_max(length: Length) -> Duration {
    match length {
        Length::Full => WAIT_MAX,
        Length::Quick | Length::Shortest => WAIT_MAX_QUICK,
    }
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// The server is idle, or Ctrl-C ended the wait.
    Idle,
    /// The server is still at work after this time.
    AtWork(Duration),
}

impl Work<'_> {
    /// Waits until a filled server is idle.
    pub(super) fn wait_until_idle(
        &mut self,
        which: &ServerChoice,
        instance: &Instance,
    ) -> Result<(), String> {
        let failed = |error| format!("its CPU cannot be read after it was filled: {error}");
        let target = without_the_store(self.watched(which, instance));
        let Some(mut monitor) = Monitor::start(&target).map_err(failed)? else {
            return Ok(());
        };
        self.say("waiting until the server has finished its work in the background");
        let most = wait_max(self.study.length);
        if let Waited::AtWork(time) = until_idle(&mut monitor, IDLE_CPUS, most).map_err(failed)? {
            let (name, time) = (which.name(), show_duration(time));
            self.record.note_condition(format!(
                "{name} was still at work in the background {time} after it was filled, and the study waits no longer: its \
                 first points pay for that work"
            ));
        }
        Ok(())
    }
}

/// The CPU of a server on a simulated processor, from its first transaction on.
pub(super) struct SimulatedCpu {
    /// `None` if nothing is watched: then nobody waits for it.
    monitor: Option<Monitor>,
    begun: Instant,
    /// CPU time before the first transaction, in seconds.
    cpu_s: f64,
}

impl SimulatedCpu {
    /// Begins to watch a server, before its first transaction.
    pub(super) fn watch(target: &WatchTarget) -> Result<Self, String> {
        let failed = |e: io::Error| format!("its CPU cannot be read before its first transaction: {e}");
        let mut monitor = Monitor::start(target).map_err(failed)?;
        let cpu_s = match &mut monitor {
            Some(monitor) => monitor.read_sample().map_err(failed)?.cpu_s(),
            None => 0.0,
        };
        Ok(Self { monitor, begun: Instant::now(), cpu_s })
    }

    /// Waits until the server is idle, after its last transaction.
    pub(super) fn wait_until_idle(self) -> Result<Waited, String> {
        let failed = |e: io::Error| format!("its CPU cannot be read after its last transaction: {e}");
        let Some(mut monitor) = self.monitor else { return Ok(Waited::Idle) };
        let used_s = monitor.read_sample().map_err(failed)?.cpu_s() - self.cpu_s;
        let cpus = idle_cpus(used_s, self.begun.elapsed());
        until_idle(&mut monitor, cpus, WAIT_MAX_SIMULATED).map_err(failed)
    }
}

/// Processors that a server on a simulated processor uses at most while it is idle. It used this
/// CPU time, in seconds, while it served users for this time.
fn idle_cpus(used_s: f64, served: Duration) -> f64 {
    (used_s / served.as_secs_f64() * IDLE_PART_SIMULATED).max(IDLE_CPUS)
}

/// Waits until a server uses at most so many processors, or until this time is over.
fn until_idle(monitor: &mut Monitor, cpus: f64, most: Duration) -> io::Result<Waited> {
    let begun = Instant::now();
    let mut wait = Idle { cpus, cpu_s: monitor.read_sample()?.cpu_s(), intervals: 0 };
    while !interrupt::happened() {
        if begun.elapsed() > most {
            return Ok(Waited::AtWork(most));
        }
        let asleep = Instant::now();
        thread::sleep(INTERVAL);
        if wait.is_over(monitor.read_sample()?.cpu_s(), asleep.elapsed()) {
            break;
        }
    }
    Ok(Waited::Idle)
}

/// For a cluster, only its nodes. Its database is never idle by this measure: Java has timers,
/// and others may use it.
fn without_the_store(target: WatchTarget) -> WatchTarget {
    match target {
        WatchTarget::Parts(mut parts) => {
            parts.retain(|(name, _)| !name.starts_with(STORE));
            WatchTarget::Parts(parts)
        }
        one => one,
    }
}

/// The time that a server has been idle.
struct Idle {
    /// Processors that it uses at most while it is idle.
    cpus: f64,
    /// Its CPU time at the last reading, in seconds.
    cpu_s: f64,
    /// Intervals in a row in which it was idle.
    intervals: u32,
}

impl Idle {
    /// Whether the server has been idle for long enough. `cpu_s` is its CPU time so far, `interval`
    /// the time since the last call.
    fn is_over(&mut self, cpu_s: f64, interval: Duration) -> bool {
        let used = cpu_s - self.cpu_s;
        self.cpu_s = cpu_s;
        self.intervals = if used > self.cpus * interval.as_secs_f64() { 0 } else { self.intervals + 1 };
        self.intervals >= IDLE_INTERVALS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_the_database_of_a_cluster() {
        let part = |name: &str| (name.to_owned(), WatchTarget::Nothing);
        let parts = WatchTarget::Parts(vec![part("access 1"), part("access 2"), part("store 1")]);
        let WatchTarget::Parts(left) = without_the_store(parts) else { panic!() };
        let names: Vec<&str> = left.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["access 1", "access 2"]);
        assert!(matches!(without_the_store(WatchTarget::Nothing), WatchTarget::Nothing));
    }

    #[test]
    fn a_pause_between_two_parts_of_the_work_is_not_its_end() {
        let mut idle = Idle { cpus: IDLE_CPUS, cpu_s: 5.0, intervals: 0 };
        let seen = [6.9, 6.91, 6.92, 8.0, 8.01, 8.05, 8.06];
        let over = seen.map(|cpu_s| idle.is_over(cpu_s, Duration::from_secs(2)));
        assert_eq!(over, [false, false, false, false, false, false, true]);
    }

    #[test]
    fn a_quick_study_does_not_wait_for_an_hour() {
        assert_eq!(wait_max(Length::Full), Duration::from_secs(3600));
        for length in [Length::Quick, Length::Shortest] {
            assert!(LEAST_WAIT < wait_max(length) && wait_max(length) <= Duration::from_secs(300));
        }
    }

    #[test]
    fn timers_on_a_simulated_processor_are_not_work() {
        // It used nearly all of a processor for its users. Its timers use a fifth of one.
        let cpus = idle_cpus(36.0, Duration::from_secs(40));
        let mut idle = Idle { cpus, cpu_s: 5.0, intervals: 0 };
        let seen = [7.0, 7.4, 7.8, 8.2];
        let over = seen.map(|cpu_s| idle.is_over(cpu_s, Duration::from_secs(2)));
        assert_eq!(over, [false, false, false, true]);
    }

    #[test]
    fn work_on_a_simulated_processor_that_others_use_too_is_work() {
        // It had a third of a processor for its users, and has half of that for its index.
        let cpus = idle_cpus(12.0, Duration::from_secs(36));
        let mut idle = Idle { cpus, cpu_s: 0.0, intervals: 0 };
        let over = [0.33, 0.66, 0.99, 1.32].map(|cpu_s| idle.is_over(cpu_s, Duration::from_secs(2)));
        assert_eq!(over, [false; 4]);
        // Nobody was served: it is judged as on a real processor.
        assert_eq!(idle_cpus(0.0, Duration::from_secs(40)), IDLE_CPUS);
    }
}
