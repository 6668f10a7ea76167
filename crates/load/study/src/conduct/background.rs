//! The wait for the work that a server does in the background after it was filled: a search index,
//! for one. Without it, the first points would pay for that work.

use std::thread;
use std::time::{Duration, Instant};

use posthaste_load_measure::{Monitor, WatchTarget};

use super::Work;
use crate::server::{Instance, ServerChoice};
use crate::settings::STORE;

/// Processors that a server uses at most while it has no such work: for timers and maintenance.
const IDLE_CPUS: f64 = 0.03;
/// Such intervals in a row that end the wait: between two parts of its work, a server may pause for
/// some seconds.
const IDLE_INTERVALS: u32 = 3;
const INTERVAL: Duration = Duration::from_secs(2);
/// A server that is still at work then is measured, and the report says so.
const WAIT_MAX: Duration = Duration::from_secs(3600);

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
        let begun = Instant::now();
        let mut wait = Idle::from(monitor.read_sample().map_err(failed)?.cpu_s());
        while !self.is_over() {
            if begun.elapsed() > WAIT_MAX {
                let name = which.name();
                self.record.note_condition(format!(
                    "{name} was still at work in the background an hour after it was filled: its first points pay for that"
                ));
                return Ok(());
            }
            let asleep = Instant::now();
            thread::sleep(INTERVAL);
            if wait.is_over(monitor.read_sample().map_err(failed)?.cpu_s(), asleep.elapsed()) {
                return Ok(());
            }
        }
        Ok(())
    }
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
    cpu_s: f64,
    intervals: u32,
}

impl From<f64> for Idle {
    fn from(cpu_s: f64) -> Self {
        Self { cpu_s, intervals: 0 }
    }
}

impl Idle {
    /// Whether the server has been idle for long enough. `cpu_s` is its CPU time so far, `interval`
    /// the time since the last call.
    fn is_over(&mut self, cpu_s: f64, interval: Duration) -> bool {
        let used = cpu_s - self.cpu_s;
        self.cpu_s = cpu_s;
        self.intervals = if used > IDLE_CPUS * interval.as_secs_f64() { 0 } else { self.intervals + 1 };
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
        let mut idle = Idle::from(5.0);
        let seen = [6.9, 6.91, 6.92, 8.0, 8.01, 8.05, 8.06];
        let over = seen.map(|cpu_s| idle.is_over(cpu_s, Duration::from_secs(2)));
        assert_eq!(over, [false, false, false, false, false, false, true]);
    }
}
