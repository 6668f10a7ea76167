//! The points of a study, and the curves and figures that are made of them.

use posthaste_load_results::{Curve, Plot, RunResult, ServerFacts, StudyPoint};

/// The points, and ways to pick curves from them.
#[derive(Clone, Copy)]
pub(super) struct Points<'a> {
    pub(super) servers: &'a [ServerFacts],
    pub(super) points: &'a [StudyPoint],
}

impl<'a> Points<'a> {
    /// Points that were measured, with their runs.
    pub(super) fn measured(self) -> impl Iterator<Item = (&'a StudyPoint, &'a RunResult)> {
        self.points.iter().filter_map(|p| p.run.as_ref().ok().map(|run| (p, &**run)))
    }

    /// Servers in order.
    pub(super) fn servers(self) -> impl Iterator<Item = &'a str> {
        self.servers.iter().map(|s| s.name.as_str())
    }

    /// Workloads in order.
    pub(super) fn workloads(self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for point in self.points {
            if !names.contains(&point.workload.as_str()) {
                names.push(&point.workload);
            }
        }
        names
    }

    /// (swept value, figure) of the points that pass, in order of the value. Of several rounds the
    /// median counts.
    pub(super) fn curve(
        self,
        name: &str,
        swept: &str,
        pass: impl Fn(&StudyPoint) -> bool,
        of: impl Fn(&RunResult) -> Option<f64>,
    ) -> Curve {
        let mut points: Vec<(f64, f64)> = self
            .measured()
            .filter(|(point, _)| pass(point))
            .filter_map(|(point, run)| Some((*point.at.get(swept)?, of(run)?)))
            .filter(|(_, y)| y.is_finite())
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let rounds = points.chunk_by(|a, b| a.0 == b.0);
        let points = rounds
            .filter_map(|same| {
                let values: Vec<f64> = same.iter().map(|p| p.1).collect();
                Some((same.first()?.0, median(&values)?))
            })
            .collect();
        Curve { name: name.to_owned(), points, fitted: false }
    }

    /// A curve for each server.
    pub(super) fn by_server(self, swept: &str, of: impl Fn(&RunResult) -> Option<f64> + Copy) -> Vec<Curve> {
        self.servers().map(|server| self.curve(server, swept, |p| p.server == server, of)).collect()
    }
}

/// A plot with these axes.
pub(super) fn plot(title: &str, x: &str, y: &str, curves: Vec<Curve>) -> Plot {
    let curves = curves.into_iter().filter(|c| !c.points.is_empty()).collect();
    Plot { title: title.into(), x: x.into(), y: y.into(), curves, ..Plot::default() }
}

/// A mark where x is a value of the article, unless that is beyond what was measured: label, axis
/// and value.
pub(super) fn articles_mark(curves: &[Curve], value: f64) -> Option<(String, String, f64)> {
    let is_measured = curves.iter().flat_map(|curve| &curve.points).any(|(x, _)| *x >= value);
    is_measured.then(|| (format!("the article: {}", whole(value)), "x".into(), value))
}

/// The mix of a workload of seed 004, in a word.
pub(super) fn mix(workload: &str) -> &str {
    workload.strip_prefix("koka-").unwrap_or(workload).trim_end_matches("-frequencies")
}

/// Server CPU seconds per second and virtual user.
pub(super) fn cpu_ms_per_user(run: &RunResult) -> Option<f64> {
    let server = run.server.as_ref()?;
    Some((server.cpu_user_s + server.cpu_system_s) / server.seconds * 1e3 / f64::from(run.clients.max(1)))
}

/// The server's memory at its highest (PSS), in MB.
pub(super) fn memory_mb(run: &RunResult) -> Option<f64> {
    run.server.as_ref()?.pss_max_bytes.value().map(|bytes| *bytes as f64 / 1e6)
}

/// The same without pages of files: a server that maps its files has these in its PSS, and one that
/// reads them has not.
pub(super) fn own_memory_mb(run: &RunResult) -> Option<f64> {
    run.server.as_ref()?.pss_own_max_bytes.value().map(|bytes| *bytes as f64 / 1e6)
}

/// The median of sorted values: of an even number, the mean of the middle two.
pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some((lower + upper) / 2.0)
}

/// Three significant digits.
pub(super) fn figure(value: f64) -> String {
    posthaste_load_text::figure::figure(value)
}

/// A count with its thousands separated.
pub(super) fn whole(value: f64) -> String {
    posthaste_load_text::figure::whole(value as u64)
}
