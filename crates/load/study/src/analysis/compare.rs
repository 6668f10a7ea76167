//! Servers side by side: a row for each point, and for each server its ratio to the first. A cell
//! is the median over the rounds, with the least and the greatest.

use posthaste_load_results::{Analysis, RunResult, StudyPoint, Table};

use super::spread::{shown, spread};
use super::{Points, figure, plot};

/// A figure of a run by its title.
type Figure = (&'static str, &'static str, fn(&RunResult) -> Option<f64>);

const FIGURES: [Figure; 5] = [
    ("Throughput", "transactions per second", |r| Some(r.total.rate_per_s)),
    ("Median response time", "response time (ms)", |r| Some(r.total.p50_ms)),
    ("Response time, 99 %", "response time (ms)", |r| Some(r.total.p99_ms)),
    ("Server CPU per transaction", "megacycles per transaction", |r| {
        r.server.as_ref()?.megacycles_per_transaction
    }),
    ("Server memory", "PSS, highest (MB)", |r| {
        r.server.as_ref()?.pss_max_bytes.value().map(|b| *b as f64 / 1e6)
    }),
];

/// All of it.
pub fn analyse(points: Points) -> Analysis {
    let mut analysis = Analysis::default();
    for (title, unit, of) in FIGURES {
        analysis.tables.push(table(points, title, unit, of));
    }
    for workload in points.workloads() {
        for (title, unit, of) in FIGURES {
            let curves = points
                .servers()
                .map(|s| points.curve(s, "clients", |p| p.server == s && p.workload == workload, of))
                .collect();
            let plot = plot(&format!("{title}, {workload}"), "virtual users", unit, curves);
            if !plot.curves.is_empty() {
                analysis.plots.push(plot);
            }
        }
    }
    analysis
}

fn table(points: Points, title: &str, unit: &str, of: fn(&RunResult) -> Option<f64>) -> Table {
    let mut head = vec!["Workload".to_owned(), "at".to_owned()];
    for (n, server) in points.servers().enumerate() {
        head.push(server.to_owned());
        if n > 0 {
            head.push(format!("÷ {}", points.servers[0].name));
        }
    }
    let same = |a: &StudyPoint, b: &StudyPoint| a.workload == b.workload && a.at == b.at;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (at, point) in points.points.iter().enumerate() {
        if points.points.iter().take(at).any(|p| same(p, point)) {
            continue;
        }
        let place: Vec<String> = point.at.iter().map(|(k, v)| format!("{k} {v}")).collect();
        let mut row = vec![point.workload.clone(), place.join(", ")];
        let value = |server: &str| spread(points, server, |p| same(p, point), of);
        let first = points.servers().next().and_then(value);
        for (n, server) in points.servers().enumerate() {
            let value = value(server);
            row.push(shown(value));
            if n > 0 {
                let ratio =
                    value.zip(first).filter(|(_, f)| f.median > 0.0).map(|(v, f)| v.median / f.median);
                row.push(ratio.map_or("–".into(), figure));
            }
        }
        rows.push(row);
    }
    // `response time (ms)`: the title names it already.
    let unit = unit.rsplit_once('(').map_or(unit, |(_, unit)| unit.trim_end_matches(')'));
    Table { title: format!("{title} ({unit})"), head, rows }
}
