//! The results of a study's points: curves, tables, sentences.

mod bottleneck;
mod capacity;
mod compare;
mod formats;
mod items;
mod koka;
mod memory;
mod operations;
mod pop3;
mod regress;
mod spread;
mod versions;

use posthaste_load_results::{Analysis, Curve, Plot, RunResult, ServerFacts, StudyPoint, StudyResult};

use crate::file;
pub use regress::Judgement;

/// The whole analysis of these points.
pub fn analyse(which: file::Analysis, servers: &[ServerFacts], points: &[StudyPoint]) -> Analysis {
    let points = Points { servers, points };
    match which {
        file::Analysis::ItemCount => items::analyse(points),
        file::Analysis::MailboxSize => capacity::analyse(points),
        file::Analysis::Koka => koka::analyse(points),
        file::Analysis::Memory => memory::analyse(points),
        file::Analysis::Pop3 => pop3::analyse(points),
        file::Analysis::Compare => compare::analyse(points),
        file::Analysis::Operations => operations::analyse(points),
        file::Analysis::Regress => regress::analyse(points),
        file::Analysis::StorageFormat => formats::analyse(points),
    }
}

/// Whether the second server of a study costs more than the first. `None` if too little was
/// measured.
pub fn judge(study: &StudyResult) -> Option<Judgement> {
    regress::judge(Points { servers: &study.servers, points: &study.points })
}

/// The points, and ways to pick curves from them.
#[derive(Clone, Copy)]
struct Points<'a> {
    servers: &'a [ServerFacts],
    points: &'a [StudyPoint],
}

impl<'a> Points<'a> {
    /// Points that were measured, with their runs.
    fn measured(self) -> impl Iterator<Item = (&'a StudyPoint, &'a RunResult)> {
        self.points.iter().filter_map(|p| p.run.as_ref().ok().map(|run| (p, &**run)))
    }

    /// Servers in order.
    fn servers(self) -> impl Iterator<Item = &'a str> {
        self.servers.iter().map(|s| s.name.as_str())
    }

    /// Workloads in order.
    fn workloads(self) -> Vec<&'a str> {
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
    fn curve(
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
    fn by_server(self, swept: &str, of: impl Fn(&RunResult) -> Option<f64> + Copy) -> Vec<Curve> {
        self.servers().map(|server| self.curve(server, swept, |p| p.server == server, of)).collect()
    }
}

/// A run for tests of other modules.
#[cfg(test)]
pub fn tests_run(cpu_s: f64, count: u64) -> RunResult {
    operations::tests::run(cpu_s, count)
}

/// A plot with these axes.
fn plot(title: &str, x: &str, y: &str, curves: Vec<Curve>) -> Plot {
    let curves = curves.into_iter().filter(|c| !c.points.is_empty()).collect();
    Plot { title: title.into(), x: x.into(), y: y.into(), curves, ..Plot::default() }
}

/// Server CPU seconds per second and virtual user.
fn cpu_ms_per_user(run: &RunResult) -> Option<f64> {
    let server = run.server.as_ref()?;
    Some((server.cpu_user_s + server.cpu_system_s) / server.seconds * 1e3 / f64::from(run.clients.max(1)))
}

/// The median of sorted values: of an even number, the mean of the middle two.
fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some((lower + upper) / 2.0)
}

/// Three significant digits.
fn figure(value: f64) -> String {
    posthaste_load_text::figure::figure(value)
}

/// A count, its thousands apart.
fn whole(value: f64) -> String {
    posthaste_load_text::figure::whole(value as u64)
}
