//! The time of a sitting: what a point takes, what all take that are left, whether the next one
//! still ends in time.

use std::time::{Duration, Instant};

/// The time of this sitting.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    started: Instant,
    most: Option<Duration>,
    /// The planned time of a point.
    planned: Duration,
    /// The time that points took.
    spent: Duration,
    points: u32,
}

impl Budget {
    /// A sitting that begins now and takes `most`, with points that take `planned`.
    pub(super) fn new(most: Option<Duration>, planned: Duration) -> Self {
        Self { started: Instant::now(), most, planned, spent: Duration::ZERO, points: 0 }
    }

    /// Adds a point, and the time that it took.
    pub(super) fn note(&mut self, took: Duration) {
        self.spent += took;
        self.points += 1;
    }

    /// The time for this many points, by the mean of this sitting.
    pub(super) fn of(&self, points: usize) -> Duration {
        let each = self.spent.checked_div(self.points).unwrap_or(self.planned);
        each.saturating_mul(u32::try_from(points).unwrap_or(u32::MAX))
    }

    /// Whether work of this length ends in time.
    pub(super) fn fits(&self, work: Duration) -> bool {
        self.would_fit(self.started.elapsed(), work)
    }

    fn would_fit(&self, elapsed: Duration, work: Duration) -> bool {
        self.most.is_none_or(|most| elapsed + work <= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_point_begins_that_would_end_late() {
        let seconds = Duration::from_secs;
        let mut budget = Budget::new(Some(seconds(100)), seconds(20));
        assert!(budget.would_fit(seconds(60), budget.of(2)));
        assert!(!budget.would_fit(seconds(61), budget.of(2)));
        // Points take longer than the plan says.
        budget.note(seconds(30));
        budget.note(seconds(40));
        assert_eq!(budget.of(2), seconds(70));
        assert!(!budget.would_fit(seconds(60), budget.of(2)));
        assert!(Budget::new(None, seconds(20)).would_fit(seconds(9999), seconds(9999)));
    }
}
