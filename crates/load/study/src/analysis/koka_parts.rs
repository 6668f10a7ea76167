//! The parts of the study `koka`, and the points whose response times are shown.

use posthaste_load_results::StudyPoint;

use super::points::Points;
use super::spread::PointRuns;

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

/// Whether users think in a part, in words.
pub(super) fn think(part: Part) -> &'static str {
    if part == Part::Times { "with" } else { "without" }
}

/// Users of the article who think.
const ARTICLE_CLIENTS: f64 = 200.0;

/// A point of each server whose response times are shown, in one mix and part. Without think time
/// it is that of the most users. With it, it is that of as many users as in the article, or of the
/// most.
pub(super) fn shown_places<'a>(points: Points<'a>, workload: &str, wanted: Part) -> Vec<PointRuns<'a>> {
    let of_server = |server: &str| {
        let mine = points.places().into_iter().filter(|place| {
            let p = place.point;
            p.server == server && p.workload == workload && part(p) == wanted
        });
        let articles = |place: &PointRuns| wanted == Part::Times && place.clients() == ARTICLE_CLIENTS;
        mine.max_by(|a, b| articles(a).cmp(&articles(b)).then(a.clients().total_cmp(&b.clients())))
    };
    points.servers().filter_map(of_server).collect()
}
