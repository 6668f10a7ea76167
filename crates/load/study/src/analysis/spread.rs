//! A value over the rounds of a study: its median, with the least and the greatest.

use posthaste_load_results::{RunResult, StudyPoint};

use super::{Points, figure, median};

/// The value of one thing on one server: least, median and greatest of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) greatest: f64,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        Some(Self { least, median: median(&values)?, greatest })
    }

    pub(super) fn show(self) -> String {
        if self.least == self.greatest {
            return figure(self.median);
        }
        format!("{} ({}–{})", figure(self.median), figure(self.least), figure(self.greatest))
    }
}

/// The value over the rounds of one server's points that are wanted.
pub(super) fn spread(
    points: Points,
    server: &str,
    wanted: impl Fn(&StudyPoint) -> bool,
    of: impl Fn(&RunResult) -> Option<f64>,
) -> Option<Spread> {
    let mine = points.measured().filter(|(p, _)| p.server == server && wanted(p));
    Spread::of(mine.filter_map(|(_, run)| of(run)).collect())
}
