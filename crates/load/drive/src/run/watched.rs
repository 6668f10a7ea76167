//! The observations of the main thread during a run: its own cost, and the progress of the users.

use std::sync::{Arc, Mutex, PoisonError};

use posthaste_load_measure::own::Own;
use posthaste_load_measure::{Figures, Reading};
use posthaste_load_results::{Counted, Offered};

use super::recorder::{Recorder, Second};

/// Samples of the main thread, one a second and one at each end of the window.
#[derive(Default)]
pub struct Watched {
    /// Second, and what the generator had used.
    pub own: Vec<(f64, Own)>,
    /// Second, users online, tasks unfinished.
    pub states: Vec<(f64, u64, u64)>,
    /// The server's own figures at the start of the window and at its end.
    pub figures: Vec<Result<Reading, String>>,
}

impl Watched {
    /// Reads the server's own figures, if there is a place to read them.
    pub fn read_figures(&mut self, figures: Option<&Figures>) {
        self.figures.extend(figures.map(|figures| figures.read().map_err(|e| e.to_string())));
    }

    /// The generator's CPU between the last two samples, in processors.
    pub fn own_rate(&self) -> f64 {
        let [.., (t0, a), (t1, b)] = self.own.as_slice() else { return 0.0 };
        (b.user_s + b.system_s - a.user_s - a.system_s) / (t1 - t0).max(1e-3)
    }

    /// The server's counts between both ends of the window; `None` if that was not requested.
    pub fn counted(&self) -> Option<Offered<Counted>> {
        Some(match self.figures.as_slice() {
            [] => return None,
            [Ok(before), .., Ok(after)] => Offered::Value(after.since(Some(before))),
            [.., Err(why)] | [Err(why), ..] => Offered::NotOffered(why.clone()),
            [_] => Offered::NotOffered("the run ended before the window did".into()),
        })
    }

    /// The samples nearest to both ends of a window.
    pub fn ends(&self, (start_s, end_s): (f64, f64)) -> Option<[(f64, Own); 2]> {
        let near = |t: f64| self.own.iter().min_by(|a, b| (a.0 - t).abs().total_cmp(&(b.0 - t).abs()));
        Some([*near(start_s)?, *near(end_s)?])
    }

    /// Processors of this machine that were busy with neither the generator nor the server.
    pub fn others(&self, window: (f64, f64), server_s: f64) -> Option<f64> {
        let [(t0, before), (t1, after)] = self.ends(window)?;
        let busy_s = after.machine_busy_s? - before.machine_busy_s?;
        let own_s = after.user_s + after.system_s - before.user_s - before.system_s;
        (t1 > t0).then(|| ((busy_s - own_s - server_s) / (t1 - t0)).max(0.0))
    }
}

/// A sample of the recorders, which costs little.
pub struct RecorderSnapshot {
    /// The last whole second.
    pub last: Second,
    /// Users with a session.
    pub online: i64,
    /// Errors so far.
    pub errors: u64,
}

/// Samples all recorders.
pub fn snapshot(recorders: &[Arc<Mutex<Recorder>>], at_s: f64) -> RecorderSnapshot {
    let mut snapshot = RecorderSnapshot { last: Second::default(), online: 0, errors: 0 };
    for recorder in recorders {
        let recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot.online += recorder.online;
        snapshot.errors += recorder.error_count();
        if let Some(second) = recorder.seconds.get((at_s as usize).saturating_sub(1)) {
            snapshot.last.add(second);
        }
    }
    snapshot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_others_is_what_is_left_of_a_busy_machine() {
        let at = |user_s, busy| Own { user_s, system_s: 1.0, machine_busy_s: busy, ..Own::default() };
        let own = [(0.0, at(0.0, Some(100.0))), (10.0, at(2.0, Some(115.0)))];
        let watched = |own: &[(f64, Own)]| Watched { own: own.to_vec(), ..Watched::default() };
        let [all, unknown] = [watched(&own), watched(&[own[0], (10.0, at(2.0, None))])];
        // 15 s busy in 10 s, 2 of them the generator's and 8 the server's.
        assert_eq!(all.others((0.0, 10.0), 8.0), Some(0.5));
        assert_eq!(all.others((0.0, 10.0), 14.0), Some(0.0), "clocks that differ make no negative work");
        assert_eq!(unknown.others((0.0, 10.0), 8.0), None);
        assert_eq!(all.others((10.0, 10.0), 0.0), None);
    }
}
