//! The costs of single operations: a table for each size of the folder, a column for each server.
//!
//! A cell is the median over the rounds, with the least and the greatest. A ratio is to the first
//! server in each round, and its cell is the same of them.

use std::collections::BTreeMap;

use posthaste_load_results::{
    Analysis, Bar, BarChart, BarRow, Headline, Offered, RunResult, StudyPoint, Table,
};
use posthaste_load_text::figure::percent;

use super::points::{Points, figure, whole};
use super::spread::{cells_beside_first, heads_beside_first, spread};

/// Server CPU of one transaction, in microseconds.
pub(super) fn cpu_us(run: &RunResult) -> Option<f64> {
    let server = run.server.as_ref()?;
    let done = run.total.count;
    (done > 0).then(|| (server.cpu_user_s + server.cpu_system_s) * 1e6 / done as f64)
}

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let mut analysis = Analysis::default();
    let mut cheaper = Vec::new();
    for items in sizes(points) {
        let folder = items.map_or_else(String::new, |n| format!(", {} messages", whole(n)));
        let title = format!("Server CPU of an operation{folder} (µs, median (least–greatest))");
        analysis.tables.push(table(points, items, &title, cpu_us));
        let title = format!("Median response time{folder} (ms)");
        analysis.tables.push(table(points, items, &title, |r| Some(r.total.p50_ms)));
        cheaper.extend(costlier_than_a_peer(points, items));
    }
    analysis.headline = alone(points);
    let is_measured = |server: &str| points.measured().any(|(point, _)| point.server == server);
    let peers = points.servers().skip(1).filter(|peer| is_measured(peer)).count();
    analysis.findings = match (peers, cheaper.is_empty()) {
        (0, _) => Vec::new(),
        (_, true) => {
            vec![format!("no server is cheaper than {} in any operation", points.servers[0].name)]
        }
        (_, false) => cheaper,
    };
    analysis
}

/// The first screen where the first server has no other beside it: what each operation takes in the
/// largest folder.
fn alone(points: Points) -> Option<Headline> {
    let (server, items) = (points.servers().next()?, *sizes(points).last()?);
    let cost = |operation: &str| {
        let wanted = |p: &StudyPoint| p.workload == operation && p.at.get("items").copied() == items;
        spread(points, server, wanted, cpu_us).map(|us| us.median)
    };
    let costs = points.workloads().into_iter().filter_map(|name| Some((name, cost(name)?)));
    let costs: Vec<(&str, f64)> = costs.collect();
    let (costliest, most) = *costs.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let place = items.map_or_else(String::new, |n| format!(" in a folder of {} messages", whole(n)));
    let row = |(name, us): &(&str, f64)| BarRow {
        name: (*name).to_owned(),
        bars: vec![Bar { parts: vec![(0, *us)], note: format!("{} µs", figure(*us)) }],
    };
    Some(Headline {
        sentence: format!(
            "The most expensive operation of {server}{place} is {costliest}: {} µs of CPU.",
            figure(most)
        ),
        chart: BarChart {
            title: format!("Server CPU of an operation{place}: shorter is better"),
            x: "µs".into(),
            series: vec!["server CPU".into()],
            rows: costs.iter().map(row).collect(),
        },
    })
}

/// The sizes of folders that were swept; one `None` if none was.
fn sizes(points: Points) -> Vec<Option<f64>> {
    let mut sizes: Vec<f64> = points.points.iter().filter_map(|p| p.at.get("items").copied()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    if sizes.is_empty() { vec![None] } else { sizes.into_iter().map(Some).collect() }
}

fn table(points: Points, items: Option<f64>, title: &str, of: fn(&RunResult) -> Option<f64>) -> Table {
    let head = heads_beside_first(points, "operation");
    let row = |operation: &String| {
        let wanted = |p: &StudyPoint| p.workload == *operation && p.at.get("items").copied() == items;
        let mut row = vec![operation.clone()];
        row.extend(cells_beside_first(points, wanted, of));
        row
    };
    let operations: Vec<String> = points.workloads().into_iter().map(str::to_owned).collect();
    Table { title: title.to_owned(), rows: operations.iter().map(row).collect(), head }
}

/// A sentence for each operation in which another server is cheaper than the first.
fn costlier_than_a_peer(points: Points, items: Option<f64>) -> Vec<String> {
    let mut said = Vec::new();
    let Some(first) = points.servers().next() else { return said };
    for operation in points.workloads() {
        let wanted = |p: &StudyPoint| p.workload == operation && p.at.get("items").copied() == items;
        for peer in points.servers().skip(1) {
            let Some(ratio) = points.ratio_at(wanted, (first, peer), cpu_us) else { continue };
            if ratio.median > 1.0 {
                let place = items.map_or_else(String::new, |n| format!(" at {} messages", whole(n)));
                let times = ratio.show();
                let why = in_the_background(points, first, wanted)
                    .map_or_else(String::new, |why| format!(" ({why})"));
                said.push(format!("{operation}{place}: {first} costs {times} × what {peer} does{why}"));
            }
        }
    }
    said
}

/// Share of a server's CPU from which work in the background is named.
const BACKGROUND_MIN: f64 = 0.25;

/// The work other than commands that took most of a server's CPU at these points, by its own
/// counts.
fn in_the_background(points: Points, server: &str, wanted: impl Fn(&StudyPoint) -> bool) -> Option<String> {
    let mut work = BTreeMap::<&str, f64>::new();
    let mut all = 0.0;
    for (_, run) in points.measured().filter(|(p, _)| p.server == server && wanted(p)) {
        let (Some(cost), Some(counted)) = (&run.server, run.counted.as_ref().and_then(Offered::value)) else {
            continue;
        };
        all += cost.cpu_user_s + cost.cpu_system_s;
        for part in counted.commands.iter().filter(|part| part.command == "background") {
            *work.entry(&part.protocol).or_default() += part.amounts.cpu_ns as f64 / 1e9;
        }
    }
    let (name, cpu_s) = work.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (all > 0.0 && cpu_s / all >= BACKGROUND_MIN)
        .then(|| format!("{} of it is its work `{name}`, behind the commands", percent(cpu_s / all)))
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Amounts, Counted, CountedCommand};

    use super::super::sample::{self, run};
    use super::*;

    fn point(server: &str, round: u32, cpu_s: f64) -> StudyPoint {
        let point = sample::point(server, &[("items", 100.0)], run(cpu_s, 1000));
        StudyPoint { workload: "STORE".into(), round, ..point }
    }

    #[test]
    fn cells_are_medians_with_their_spread_and_costlier_rows_are_named() {
        let servers = sample::servers(["A", "B"]);
        let points: Vec<StudyPoint> = [("A", [0.03, 0.01, 0.02]), ("B", [0.01, 0.005, 0.02])]
            .iter()
            .flat_map(|(server, cpu)| (0..).zip(cpu).map(|(round, cpu_s)| point(server, round, *cpu_s)))
            .collect();
        let analysis = analyse(Points { servers: &servers, points: &points });
        assert_eq!(analysis.tables[0].head, ["operation", "A", "B", "÷ A"]);
        assert_eq!(
            analysis.tables[0].rows,
            [["STORE", "20.0 (10.0–30.0)", "10.0 (5.00–20.0)", "0.500 (0.333–1.00)"]]
        );
        assert_eq!(analysis.findings, ["STORE at 100 messages: A costs 2.00 (1.00–3.00) × what B does"]);
        let mut points = points;
        for (point, share) in points.iter_mut().filter(|p| p.server == "A").zip([0.8, 0.8, 0.8]) {
            let run = point.run.as_mut().unwrap();
            let cpu_s = run.server.as_ref().unwrap().cpu_user_s;
            let amounts = Amounts { cpu_ns: (cpu_s * share * 1e9) as u64, ..Amounts::default() };
            let (protocol, command) = ("index".to_owned(), "background".to_owned());
            let part = CountedCommand { protocol, command, folder: "none".into(), amounts };
            run.counted = Some(Offered::Value(Counted { commands: vec![part], ..Counted::default() }));
        }
        let analysis = analyse(Points { servers: &servers, points: &points });
        assert_eq!(
            analysis.findings,
            [
                "STORE at 100 messages: A costs 2.00 (1.00–3.00) × what B does (80.0 % of it is its work `index`, behind \
                 the commands)"
            ]
        );
        let alone = analyse(Points { servers: &servers[..1], points: &points });
        assert!(alone.findings.is_empty());
    }

    #[test]
    fn a_server_alone_has_a_sentence_and_a_picture_of_its_operations() {
        let servers = sample::servers(["A", "B"]);
        let cheap = StudyPoint { workload: "NOOP".into(), ..point("A", 0, 0.001) };
        let points = [point("A", 0, 0.02), cheap];
        // B was not measured: nothing is said of it.
        for servers in [&servers[..1], &servers[..]] {
            let analysis = analyse(Points { servers, points: &points });
            assert!(analysis.findings.is_empty(), "{:?}", analysis.findings);
            let headline = analysis.headline.unwrap();
            assert_eq!(
                headline.sentence,
                "The most expensive operation of A in a folder of 100 messages is STORE: 20.0 µs of CPU."
            );
            let notes = headline.chart.rows.iter().map(|row| (row.name.as_str(), row.bars[0].note.as_str()));
            assert_eq!(notes.collect::<Vec<_>>(), [("STORE", "20.0 µs"), ("NOOP", "1.00 µs")]);
        }
    }
}
