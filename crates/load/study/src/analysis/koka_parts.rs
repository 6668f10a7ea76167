//! The parts of the study `koka`.

use posthaste_load_results::StudyPoint;

/// The part of the study that a point is of.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part {
    /// Clients swept, no think time.
    Throughput,
    /// With think time: response times.
    Times,
    /// Processors swept.
    Scale,
}

/// The part that a point is of.
pub(super) fn part(point: &StudyPoint) -> Part {
    match (point.at.contains_key("cpus"), point.at.get("think_s")) {
        (true, _) => Part::Scale,
        (false, Some(think)) if *think > 0.0 => Part::Times,
        (false, _) => Part::Throughput,
    }
}

/// `1 processor`, `2 processors`
pub(super) fn processors(n: f64) -> String {
    if n == 1.0 { "1 processor".into() } else { format!("{n} processors") }
}
