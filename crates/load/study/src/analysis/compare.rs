//! Servers side by side: a row for each point, and for each server its ratio to the first. A cell
//! is the median over the rounds, with the least and the greatest. Where several kinds of users
//! were at work together, each kind has a row of its own as well.

use posthaste_load_results::{Analysis, RunResult, StudyPoint, Summary, Table};

use super::operations::cpu_us;
use super::points::{Points, figure, memory_mb, own_memory_mb, plot, whole};
use super::spread::{cells_beside_first, heads_beside_first, shown, spread};

/// A figure of a run by its title.
type Figure = (&'static str, &'static str, fn(&RunResult) -> Option<f64>);

const FIGURES: [Figure; 6] = [
    ("Throughput", "transactions per second", |r| Some(r.total.rate_per_s)),
    ("Median response time", "response time (ms)", |r| Some(r.total.p50_ms)),
    ("Response time, 99 %", "response time (ms)", |r| Some(r.total.p99_ms)),
    ("Server CPU per transaction", "megacycles per transaction", |r| {
        r.server.as_ref()?.megacycles_per_transaction
    }),
    ("Server memory", "PSS, highest (MB)", memory_mb),
    ("Server memory without pages of files", "PSS, highest (MB)", own_memory_mb),
];

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let mut analysis = Analysis::default();
    for (title, unit, of) in FIGURES {
        analysis.tables.push(table(points, title, unit, of));
    }
    for (title, of) in OF_KINDS {
        analysis.tables.extend(of_kinds(points, title, of));
    }
    let (swept, axis) = axis(points);
    analysis.findings = findings(points, swept);
    for workload in points.workloads() {
        for (title, unit, of) in FIGURES {
            let curves = points
                .servers()
                .map(|s| points.curve(s, swept, |p| p.server == s && p.workload == workload, of))
                .collect();
            let mut plot = plot(&format!("{title}, {workload}"), axis, unit, curves);
            plot.log_x = swept == "items";
            if !plot.curves.is_empty() {
                analysis.plots.push(plot);
            }
        }
    }
    analysis
}

/// What larger folders cost, for each server and workload. Several servers at several numbers of
/// users are compared by the headline and the tables.
fn findings(points: Points, swept: &str) -> Vec<String> {
    let is_alone = points.servers().count() == 1;
    let mut said = Vec::new();
    for workload in points.workloads() {
        for server in points.servers() {
            let curve = |of: fn(&RunResult) -> Option<f64>| {
                points.curve(server, swept, |p| p.server == server && p.workload == workload, of).points
            };
            let [cpu, times] = [curve(cpu_us), curve(|r| Some(r.total.p50_ms))];
            let sentence = match swept {
                "items" => growth(workload, &cpu, &times),
                _ if is_alone => at_most_users(workload, &cpu, &times),
                _ => None,
            };
            said.extend(sentence.map(|sentence| format!("{server}: {sentence}")));
        }
    }
    said
}

/// The cost in the largest folder, in times of that in the smallest. `None` for one size.
fn growth(workload: &str, cpu: &[(f64, f64)], times: &[(f64, f64)]) -> Option<String> {
    let gain = |curve: &[(f64, f64)]| {
        let ((few, least), (many, most)) = (*curve.first()?, *curve.last()?);
        (many > few && least > 0.0).then(|| (few, many, most / least))
    };
    let (few, many, cpu) = gain(cpu)?;
    let times = gain(times).map_or_else(String::new, |g| format!(" and {} × the median time", figure(g.2)));
    let (cpu, few, many) = (figure(cpu), whole(few), whole(many));
    Some(format!(
        "with {many} messages in INBOX a transaction of {workload} takes {cpu} × the CPU{times} of {few} messages"
    ))
}

/// The cost with the most users.
fn at_most_users(workload: &str, cpu: &[(f64, f64)], times: &[(f64, f64)]) -> Option<String> {
    let (users, us) = *cpu.last()?;
    let times = times.last().map_or_else(String::new, |(_, ms)| format!(", and {} ms (median)", figure(*ms)));
    let (users, us) = (whole(users), figure(us));
    Some(format!("with {users} virtual users a transaction of {workload} takes {us} µs of CPU{times}"))
}

/// The axis that the plots are drawn over: the size of INBOX where that alone is swept, otherwise
/// users.
fn axis(points: Points) -> (&'static str, &'static str) {
    let several = |key: &str| {
        let mut values = points.points.iter().filter_map(|point| point.at.get(key));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    match several("items") && !several("clients") {
        true => ("items", "messages in INBOX"),
        false => ("clients", "virtual users"),
    }
}

/// A figure of one kind of users by its title.
type OfKind = (&'static str, fn(&Summary) -> f64);

const OF_KINDS: [OfKind; 2] = [
    ("Transactions of each kind of users (per second)", |total| total.rate_per_s),
    ("Median response time of each kind of users (ms)", |total| total.p50_ms),
];

/// A row for each kind of users at each point; `None` where all users did the same.
fn of_kinds(points: Points, title: &str, of: fn(&Summary) -> f64) -> Option<Table> {
    let mut places: Vec<(&StudyPoint, &str)> = Vec::new();
    for (point, run) in points.measured() {
        for kind in &run.kinds {
            let same = |(p, name): &(&StudyPoint, &str)| {
                p.workload == point.workload && p.at == point.at && *name == kind.workload
            };
            if !places.iter().any(same) {
                places.push((point, kind.workload.as_str()));
            }
        }
    }
    let row = |(point, name): &(&StudyPoint, &str)| {
        let at: Vec<String> = point.at.iter().map(|(k, v)| format!("{k} {v}")).collect();
        let here = |p: &StudyPoint| p.workload == point.workload && p.at == point.at;
        let value = |run: &RunResult| {
            run.kinds.iter().find(|kind| kind.workload == *name).map(|kind| of(&kind.total))
        };
        let cells = points.servers().map(|server| shown(spread(points, server, here, value)));
        [(*name).to_owned(), at.join(", ")].into_iter().chain(cells).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = places.iter().map(row).collect();
    let head = ["Users", "at"].into_iter().chain(points.servers()).map(str::to_owned).collect();
    (!rows.is_empty()).then(|| Table { title: title.to_owned(), head, rows })
}

fn table(points: Points, title: &str, unit: &str, of: fn(&RunResult) -> Option<f64>) -> Table {
    let mut head = vec!["Workload".to_owned()];
    head.extend(heads_beside_first(points, "at"));
    let same = |a: &StudyPoint, b: &StudyPoint| a.workload == b.workload && a.at == b.at;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (at, point) in points.points.iter().enumerate() {
        if points.points.iter().take(at).any(|p| same(p, point)) {
            continue;
        }
        let place: Vec<String> = point.at.iter().map(|(k, v)| format!("{k} {v}")).collect();
        let mut row = vec![point.workload.clone(), place.join(", ")];
        row.extend(cells_beside_first(points, |p| same(p, point), of));
        rows.push(row);
    }
    // `response time (ms)`: the title names it already.
    let unit = unit.rsplit_once('(').map_or(unit, |(_, unit)| unit.trim_end_matches(')'));
    Table { title: format!("{title} ({unit})"), head, rows }
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::UserKindResult;

    use super::super::sample::{self, run};
    use super::*;

    #[test]
    fn each_kind_of_users_has_a_row_at_each_size_of_the_folder() {
        let point = |server: &str, items: f64, online_ms: f64| {
            let kind = |workload: &str, p50_ms: f64| UserKindResult {
                workload: workload.into(),
                total: Summary { p50_ms, ..Summary::default() },
                ..UserKindResult::default()
            };
            let kinds = vec![kind("online", online_ms), kind("cached", 9.0)];
            let run = RunResult { kinds, ..run(1.0, 10) };
            sample::point(server, &[("clients", 8.0), ("items", items)], run)
        };
        let servers = sample::servers(["A", "B"]);
        let points = [point("A", 100.0, 1.0), point("B", 100.0, 2.0), point("A", 1000.0, 3.0)];
        let analysis = analyse(Points { servers: &servers, points: &points });
        let title = OF_KINDS[1].0;
        let table = analysis.tables.iter().find(|table| table.title == title).unwrap();
        assert_eq!(table.head, ["Users", "at", "A", "B"]);
        assert_eq!(
            table.rows,
            [
                ["online", "clients 8, items 100", "1.00", "2.00"],
                ["cached", "clients 8, items 100", "9.00", "9.00"],
                ["online", "clients 8, items 1000", "3.00", "–"],
                ["cached", "clients 8, items 1000", "9.00", "–"],
            ]
        );
        let plot = &analysis.plots[0];
        assert_eq!((plot.x.as_str(), plot.curves[0].points.len()), ("messages in INBOX", 2));
        // B has one size.
        assert_eq!(
            analysis.findings,
            [
                "A: with 1,000 messages in INBOX a transaction of w takes 1.00 × the CPU and 1.00 × the median time of 100 \
                 messages"
            ]
        );
    }

    #[test]
    fn workloads_alone_are_drawn_over_their_users() {
        let servers = sample::servers(["A"]);
        let points = [2.0, 16.0].map(|clients| sample::point("A", &[("clients", clients)], run(1.0, 10)));
        let points = Points { servers: &servers, points: &points };
        assert_eq!(axis(points).0, "clients");
        assert!(of_kinds(points, "x", |total| total.p50_ms).is_none());
        let said =
            "A: with 16 virtual users a transaction of w takes 100,000 µs of CPU, and 1.00 ms (median)";
        assert_eq!(analyse(points).findings, [said]);
    }
}
