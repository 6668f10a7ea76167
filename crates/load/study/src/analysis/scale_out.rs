//! Nodes × users of a cluster: throughput, speed-up and efficiency against the fewest nodes, and
//! the CPU of access and of the store apart.
//!
//! Where all of it shares the processors of one machine, the speed-up is not that of more machines.
//! Then the cost of a transaction says more: where it does not rise with the nodes, nodes with
//! processors of their own bring their share.

use std::collections::BTreeSet;

use posthaste_load_results::{
    Analysis, Bar, BarChart, BarRow, Curve, Headline, Plot, RunResult, StudyPoint, Table,
};

use super::points::{Points, figure, mix, plot, whole};
use super::spread::{Spread, shown, spread};
use crate::settings::{ACCESS, STORE};

/// Share of a machine's processors from which they limit what it does.
const FULL_PERCENT: f64 = 85.0;

/// One server under one load: its points differ by their nodes alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line<'a> {
    server: &'a str,
    workload: &'a str,
    clients: f64,
}

impl Line<'_> {
    fn has(&self, point: &StudyPoint) -> bool {
        point.server == self.server
            && point.workload == self.workload
            && point.at.get("clients") == Some(&self.clients)
    }

    fn name(&self) -> String {
        format!("{}, {}, {} users", self.server, mix(self.workload), whole(self.clients))
    }

    /// The first cells of a row.
    fn cells(&self, nodes: f64) -> Vec<String> {
        vec![format!("{}, {}", self.server, mix(self.workload)), whole(self.clients), whole(nodes)]
    }

    fn curve(&self, points: Points, of: impl Fn(&RunResult) -> Option<f64>) -> Curve {
        points.curve(&self.name(), "nodes", |point| self.has(point), of)
    }

    /// The numbers of nodes that were measured.
    fn nodes(&self, points: Points) -> Vec<f64> {
        self.curve(points, |_| Some(1.0)).points.into_iter().map(|(nodes, _)| nodes).collect()
    }

    /// A value with these nodes, over the rounds.
    fn at(&self, points: Points, nodes: f64, of: impl Fn(&RunResult) -> Option<f64>) -> Option<Spread> {
        let wanted = |p: &StudyPoint| self.has(p) && p.at.get("nodes") == Some(&nodes);
        spread(points, self.server, wanted, of)
    }

    fn cell(&self, points: Points, nodes: f64, of: impl Fn(&RunResult) -> Option<f64>) -> String {
        shown(self.at(points, nodes, of))
    }

    /// Throughput as a multiple of that with the fewest nodes. Each round has both, so the ratio is
    /// of minutes that belong together.
    fn speed_up(&self, points: Points, nodes: f64) -> Option<Spread> {
        let fewest = *self.nodes(points).first()?;
        let here = |p: &StudyPoint| self.has(p) && p.at.get("nodes") == Some(&nodes);
        points.gain(here, ("nodes", fewest), |run| Some(run.total.rate_per_s))
    }
}

/// All of them, in the order of the first round.
fn lines(points: Points) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (point, _) in points.measured() {
        let (Some(clients), Some(_)) = (point.at.get("clients"), point.at.get("nodes")) else { continue };
        let line = Line { server: &point.server, workload: &point.workload, clients: *clients };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let lines = lines(points);
    let busiest: Vec<Line> = lines.iter().copied().filter(|line| is_busiest(&lines, line)).collect();
    let mut findings: Vec<String> = Vec::new();
    for line in &busiest {
        let cost = quietest(&lines, line).and_then(|quietest| cost(points, quietest));
        findings.extend([gain(points, line), cost, shared(points, line)].into_iter().flatten());
    }
    Analysis {
        findings,
        plots: plots(points, &lines, &busiest).into_iter().filter(|p| !p.curves.is_empty()).collect(),
        tables: [speed_table(points, &lines), cost_table(points, &lines), processors_table(points, &lines)]
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .collect(),
        headline: headline(points, &lines),
        ..Analysis::default()
    }
}

/// Whether no line of its server and workload has more users.
fn is_busiest(lines: &[Line], line: &Line) -> bool {
    let same = |other: &&Line| other.server == line.server && other.workload == line.workload;
    lines.iter().filter(same).all(|other| other.clients <= line.clients)
}

/// The same server and workload with the fewest users: a machine that is full raises the cost of a
/// transaction.
fn quietest<'a, 'b>(lines: &'b [Line<'a>], line: &Line) -> Option<&'b Line<'a>> {
    let same = |other: &&Line| other.server == line.server && other.workload == line.workload;
    lines.iter().filter(same).min_by(|a, b| a.clients.total_cmp(&b.clients))
}

fn plots(points: Points, lines: &[Line], busiest: &[Line]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for workload in points.workloads() {
        let mine: Vec<&Line> = lines.iter().filter(|line| line.workload == workload).collect();
        let by_nodes = |of: fn(&RunResult) -> Option<f64>| -> Vec<Curve> {
            mine.iter().map(|line| line.curve(points, of)).collect()
        };
        let mix = mix(workload);
        let rate = |run: &RunResult| Some(run.total.rate_per_s);
        plots.push(plot(
            &format!("Throughput by nodes, {mix}"),
            "nodes",
            "transactions per second",
            by_nodes(rate),
        ));
        plots.push(plot(
            &format!("Throughput by users, {mix}"),
            "virtual users",
            "transactions per second",
            by_users(points, workload),
        ));
        let mut times = plot(
            &format!("Response time, 99 %, {mix}"),
            "nodes",
            "response time (ms)",
            by_nodes(|run| Some(run.total.p99_ms)),
        );
        times.log_y = true;
        plots.push(times);
    }
    let costs = busiest.iter().filter_map(|line| quietest(lines, line)).flat_map(|line| {
        [ACCESS, STORE].map(|what| {
            let curve = line.curve(points, |run| part_us(run, what));
            Curve { name: format!("{}: {what}", curve.name), ..curve }
        })
    });
    plots.push(plot("CPU of a transaction", "nodes", "µs of CPU per transaction", costs.collect()));
    let efficiency = lines.iter().map(|line| efficiencies(points, line)).collect();
    plots.push(plot("Efficiency", "nodes", "speed-up ÷ nodes", efficiency));
    plots
}

/// A curve for each number of nodes.
fn by_users(points: Points, workload: &str) -> Vec<Curve> {
    let mut curves = Vec::new();
    for server in points.servers() {
        let mine = |p: &StudyPoint| p.server == server && p.workload == workload;
        let all: BTreeSet<u64> = points
            .measured()
            .filter(|(point, _)| mine(point))
            .filter_map(|(point, _)| point.at.get("nodes").map(|nodes| *nodes as u64))
            .collect();
        for nodes in all {
            let name = format!("{server}, {}", counted(nodes as f64));
            let here = |p: &StudyPoint| mine(p) && p.at.get("nodes") == Some(&(nodes as f64));
            curves.push(points.curve(&name, "clients", here, |run| Some(run.total.rate_per_s)));
        }
    }
    curves
}

fn efficiencies(points: Points, line: &Line) -> Curve {
    let nodes = line.nodes(points);
    let fewest = nodes.first().copied().unwrap_or(1.0);
    let point = |nodes: f64| Some((nodes, line.speed_up(points, nodes)?.median * fewest / nodes));
    Curve { name: line.name(), points: nodes.into_iter().filter_map(point).collect(), fitted: false }
}

/// Whether a role is one of these parts: their names have a number.
fn is_part(role: &str, what: &str) -> bool {
    role.strip_prefix(what).is_some_and(|number| number.starts_with(' '))
}

/// CPU seconds of all parts of a kind.
fn part_s(run: &RunResult, what: &str) -> Option<f64> {
    let roles = &run.server.as_ref()?.roles;
    let mut mine = roles.iter().filter(|role| is_part(&role.name, what)).peekable();
    mine.peek()?;
    Some(mine.map(|role| role.cpu_s).sum())
}

/// CPU of all parts of a kind for a transaction, in microseconds.
fn part_us(run: &RunResult, what: &str) -> Option<f64> {
    let done = run.total.count;
    (done > 0).then(|| part_s(run, what)).flatten().map(|s| s * 1e6 / done as f64)
}

/// CPU of the store for each second of access.
fn store_per_access(run: &RunResult) -> Option<f64> {
    let access = part_s(run, ACCESS).filter(|s| *s > 0.0)?;
    Some(part_s(run, STORE)? / access)
}

/// Of one processor, the percentage that a part used.
fn role_percent(run: &RunResult, role: &str) -> Option<f64> {
    let server = run.server.as_ref()?;
    Some(server.roles.iter().find(|known| known.name == role)?.cpu_s / server.seconds * 100.0)
}

fn generator_percent(run: &RunResult) -> Option<f64> {
    let seconds = run.server.as_ref()?.seconds;
    Some((run.generator.cpu_user_s + run.generator.cpu_system_s) / seconds * 100.0)
}

/// Of all processors of the machine, the percentage that was used, if everything ran on it.
fn machine_percent(run: &RunResult) -> Option<f64> {
    let server = run.server.as_ref().filter(|server| !server.source.contains("agent "))?;
    let parts = part_s(run, ACCESS)? + part_s(run, STORE)?;
    let others = run.generator.other_cpus? * 100.0;
    let all = parts / server.seconds * 100.0 + generator_percent(run)? + others;
    Some(all / f64::from(run.machine.cpus.max(1)))
}

fn counted(nodes: f64) -> String {
    if nodes == 1.0 { "1 node".into() } else { format!("{} nodes", whole(nodes)) }
}

fn speed_table(points: Points, lines: &[Line]) -> Table {
    let head = [
        "Server, mix",
        "users",
        "nodes",
        "transactions per s",
        "speed-up",
        "efficiency",
        "median (ms)",
        "99 % (ms)",
    ];
    let row = |line: &Line, fewest: f64, nodes: f64| {
        let gain = line.speed_up(points, nodes);
        let efficiency = gain.map_or("–".into(), |gain| gain.times(fewest / nodes).percent());
        let mut row = line.cells(nodes);
        row.extend([
            line.cell(points, nodes, |run| Some(run.total.rate_per_s)),
            shown(gain),
            efficiency,
            line.cell(points, nodes, |run| Some(run.total.p50_ms)),
            line.cell(points, nodes, |run| Some(run.total.p99_ms)),
        ]);
        row
    };
    let rows = lines.iter().flat_map(|line| {
        let all = line.nodes(points);
        let fewest = all.first().copied().unwrap_or(1.0);
        all.into_iter().map(|nodes| row(line, fewest, nodes)).collect::<Vec<_>>()
    });
    table("Throughput, speed-up and efficiency by nodes", &head, rows.collect())
}

fn cost_table(points: Points, lines: &[Line]) -> Table {
    let head =
        ["Server, mix", "users", "nodes", "access (µs)", "store (µs)", "store ÷ access", "generator (µs)"];
    let row = |line: &Line, nodes: f64| {
        let mut row = line.cells(nodes);
        row.extend([
            line.cell(points, nodes, |run| part_us(run, ACCESS)),
            line.cell(points, nodes, |run| part_us(run, STORE)),
            line.cell(points, nodes, store_per_access),
            line.cell(points, nodes, |run| run.generator.cpu_us_per_transaction),
        ]);
        row
    };
    table("CPU of a transaction: access and store", &head, rows_of(points, lines, row))
}

/// A row for each line at each number of nodes.
fn rows_of<'a>(
    points: Points,
    lines: &[Line<'a>],
    row: impl Fn(&Line<'a>, f64) -> Vec<String>,
) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for line in lines {
        rows.extend(line.nodes(points).into_iter().map(|nodes| row(line, nodes)));
    }
    rows
}

/// A column for each part.
fn processors_table(points: Points, lines: &[Line]) -> Table {
    let roles = points.measured().filter_map(|(_, run)| run.server.as_ref()).flat_map(|server| &server.roles);
    let number = |name: &str| name.rsplit(' ').next().and_then(|n| n.parse::<u32>().ok());
    let is_ours = |name: &&str| is_part(name, ACCESS) || is_part(name, STORE);
    let parts: BTreeSet<(bool, Option<u32>, &str)> = roles
        .map(|role| role.name.as_str())
        .filter(is_ours)
        .map(|name| (is_part(name, STORE), number(name), name))
        .collect();
    let parts: Vec<&str> = parts.into_iter().map(|(_, _, name)| name).collect();
    let ends = ["generator", "other work", "all processors (%)"];
    let head = [&["Server, mix", "users", "nodes"][..], &parts, &ends].concat();
    let row = |line: &Line, nodes: f64| {
        let mut row = line.cells(nodes);
        row.extend(parts.iter().map(|part| line.cell(points, nodes, |run| role_percent(run, part))));
        row.extend([
            line.cell(points, nodes, generator_percent),
            line.cell(points, nodes, |run| run.generator.other_cpus.map(|cpus| cpus * 100.0)),
            line.cell(points, nodes, machine_percent),
        ]);
        row
    };
    let rows = if parts.is_empty() { Vec::new() } else { rows_of(points, lines, row) };
    table("CPU of each node, in percent of one processor", &head, rows)
}

fn table(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table { title: title.into(), head: head.iter().map(|cell| (*cell).to_owned()).collect(), rows }
}

/// The fewest and the most nodes of a line, if they differ.
fn ends(points: Points, line: &Line) -> Option<(f64, f64)> {
    let nodes = line.nodes(points);
    let (few, many) = (*nodes.first()?, *nodes.last()?);
    (many > few).then_some((few, many))
}

/// `3 nodes bring 1.42 × the throughput of 1 node, an efficiency of 47.3 %`
fn gain(points: Points, line: &Line) -> Option<String> {
    let (few, many) = ends(points, line)?;
    let gain = line.speed_up(points, many)?;
    let percent = figure(gain.median * few / many * 100.0);
    let (name, more, fewer) = (line.name(), counted(many), counted(few));
    let times = figure(gain.median);
    Some(format!("{name}: {more} bring {times} × the throughput of {fewer}, an efficiency of {percent} %"))
}

/// The cost of a transaction with the fewest nodes, and how it changes.
fn cost(points: Points, line: &Line) -> Option<String> {
    let nodes = line.nodes(points);
    let (few, many) = (*nodes.first()?, *nodes.last()?);
    let of =
        |nodes: f64, what: &str| line.at(points, nodes, |run| part_us(run, what)).map(|cost| cost.median);
    let said = |what: &str| {
        let (first, last) = (of(few, what)?, of(many, what)?);
        let more = match many > few && first > 0.0 {
            true => format!(" ({} × with {})", figure(last / first), counted(many)),
            false => String::new(),
        };
        Some(format!("{what} {} µs{more}", figure(first)))
    };
    let costs: Vec<String> = [ACCESS, STORE].into_iter().filter_map(said).collect();
    let (name, fewer) = (line.name(), counted(few));
    (!costs.is_empty()).then(|| format!("{name}: with {fewer} a transaction costs {}", costs.join(" and ")))
}

/// Whether the processors of one machine limited the throughput.
fn shared(points: Points, line: &Line) -> Option<String> {
    let (_, many) = ends(points, line)?;
    let percent = line.at(points, many, machine_percent)?.median;
    let cpus = points.measured().find(|(point, _)| line.has(point)).map(|(_, run)| run.machine.cpus)?;
    let (name, nodes, used) = (line.name(), counted(many), figure(percent));
    let limit = match percent >= FULL_PERCENT {
        true => {
            "so they limited it, and a transaction costs more, too. With fewer users its cost shows what nodes with \
             processors of their own bring"
        }
        false => "so waiting limited it, for answers of the store and for its disk, and not the processors",
    };
    Some(format!(
        "{name}: access, store, generator and other work share the {cpus} processors of one machine, and used {used} % of \
         them with {nodes}: {limit}"
    ))
}

/// The speed-up over all lines, in a sentence and a picture.
fn headline(points: Points, lines: &[Line]) -> Option<Headline> {
    let of_server = |server: &str| -> Vec<(f64, f64)> {
        let mine: Vec<&Line> = lines.iter().filter(|line| line.server == server).collect();
        let all: BTreeSet<u64> = mine.iter().flat_map(|line| line.nodes(points)).map(|n| n as u64).collect();
        let mean = |nodes: f64| {
            let gains = mine.iter().filter_map(|line| line.speed_up(points, nodes)).map(|gain| gain.median);
            let gains: Vec<f64> = gains.filter(|gain| *gain > 0.0).map(f64::ln).collect();
            (!gains.is_empty()).then(|| (nodes, (gains.iter().sum::<f64>() / gains.len() as f64).exp()))
        };
        all.into_iter().filter_map(|nodes| mean(nodes as f64)).collect()
    };
    let servers: Vec<(&str, Vec<(f64, f64)>)> =
        points.servers().map(|name| (name, of_server(name))).collect();
    let (first, gains) = servers.iter().find(|(_, gains)| gains.len() > 1)?;
    let ((few, _), (many, most)) = (gains.first()?, gains.last()?);
    let row = |name: &str, (nodes, times): &(f64, f64)| BarRow {
        name: format!("{name}, {}", counted(*nodes)),
        bars: vec![Bar { parts: vec![(0, *times)], note: format!("{} ×", figure(*times)) }],
    };
    let rows = servers.iter().flat_map(|(name, gains)| gains.iter().map(move |gain| row(name, gain)));
    Some(Headline {
        sentence: format!(
            "With {} {first} does {} times the transactions that it does with {}.",
            counted(*many),
            figure(*most),
            counted(*few)
        ),
        chart: BarChart {
            title: format!("Throughput, {} = 1: longer is better", counted(*few)),
            x: "times the throughput of the fewest nodes, geometric mean over mixes and users".into(),
            series: vec!["throughput".into()],
            rows: rows.collect(),
        },
    })
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{GeneratorCost, Role};

    use super::super::sample::{self, run};
    use super::*;

    /// Of 1,000 transactions in a second: CPU of each node and of the store, in seconds.
    fn point(at: (f64, f64, u32), rate: f64, access: &[f64], store: Option<f64>) -> StudyPoint {
        let (nodes, clients, round) = at;
        let mut run = run(access.iter().sum::<f64>() + store.unwrap_or(0.0), 1000);
        let role = |name: String, cpu_s: f64| Role { name, cpu_s, processes: 1 };
        let server = run.server.as_mut().unwrap();
        server.roles = access.iter().zip(1..).map(|(s, n)| role(format!("access {n}"), *s)).collect();
        server.roles.extend(store.map(|s| role("store 1".into(), s)));
        run.machine.cpus = 2;
        run.total.rate_per_s = rate;
        run.generator = GeneratorCost { cpu_user_s: 0.1, other_cpus: Some(0.1), ..GeneratorCost::default() };
        let point = sample::point("Posthaste", &[("nodes", nodes), ("clients", clients)], run);
        StudyPoint { round, ..point }
    }

    fn analysed(points: &[StudyPoint]) -> Analysis {
        let servers = sample::servers(["Posthaste"]);
        analyse(Points { servers: &servers, points })
    }

    #[test]
    fn more_nodes_have_a_speed_up_an_efficiency_and_a_cost() {
        let points = [
            point((1.0, 6.0, 0), 100.0, &[0.2], Some(0.6)),
            point((2.0, 6.0, 0), 150.0, &[0.125, 0.125], Some(0.9)),
            point((1.0, 6.0, 1), 200.0, &[0.2], Some(0.6)),
            point((2.0, 6.0, 1), 320.0, &[0.125, 0.125], Some(0.9)),
        ];
        let analysis = analysed(&points);
        let [speed, cost, processors] = &analysis.tables[..] else { panic!("{:?}", analysis.tables) };
        // 150 ÷ 100 and 320 ÷ 200: of the rounds, and not of the medians.
        assert_eq!(
            speed.rows[1][..6],
            ["Posthaste, w", "6", "2", "235 (150–320)", "1.55 (1.50–1.60)", "77.5 % (75.0–80.0)"]
        );
        assert_eq!(speed.rows[0][4..6], ["1.00", "100 %"]);
        assert_eq!(cost.rows[1][3..6], ["250", "900", "3.60"]);
        assert_eq!(
            processors.head[3..],
            ["access 1", "access 2", "store 1", "generator", "other work", "all processors (%)"]
        );
        assert_eq!(processors.rows[0][3..7], ["20.0", "–", "60.0", "10.0"]);
        assert_eq!(processors.rows[1][3..6], ["12.5", "12.5", "90.0"]);
        assert_eq!(
            analysis.findings[..2],
            [
                "Posthaste, w, 6 users: 2 nodes bring 1.55 × the throughput of 1 node, an efficiency of 77.5 %",
                "Posthaste, w, 6 users: with 1 node a transaction costs access 200 µs (1.25 × with 2 nodes) and store \
                 600 µs (1.50 × with 2 nodes)",
            ]
        );
        let headline = analysis.headline.unwrap();
        assert_eq!(
            headline.sentence,
            "With 2 nodes Posthaste does 1.55 times the transactions that it does with 1 node."
        );
        assert_eq!(headline.chart.rows.len(), 2);
    }

    #[test]
    fn a_full_machine_is_named_as_the_limit_and_an_idle_one_is_not() {
        let said = |store: f64| {
            let points = [
                point((1.0, 6.0, 0), 100.0, &[0.2], Some(0.2)),
                point((2.0, 6.0, 0), 110.0, &[0.2, 0.2], Some(store)),
            ];
            analysed(&points).findings[2].clone()
        };
        let full = said(1.3);
        assert!(full.contains("share the 2 processors of one machine, and used 95.0 %"), "{full}");
        assert!(full.contains("so they limited it"), "{full}");
        assert!(
            said(0.4).contains("used 50.0 % of them with 2 nodes: so waiting limited it"),
            "{}",
            said(0.4)
        );
    }

    #[test]
    fn what_was_not_measured_is_not_said() {
        // No store was watched, and one number of nodes has no speed-up.
        let analysis = analysed(&[point((2.0, 6.0, 0), 110.0, &[0.2, 0.2], None)]);
        assert_eq!(
            analysis.findings,
            ["Posthaste, w, 6 users: with 2 nodes a transaction costs access 400 µs"]
        );
        assert_eq!(analysis.tables[1].rows[0][3..6], ["400", "–", "–"]);
        assert!(analysis.headline.is_none());
        // Nothing was watched.
        let mut unwatched = point((1.0, 6.0, 0), 110.0, &[0.2], None);
        unwatched.run.as_mut().unwrap().server = None;
        let analysis = analysed(&[unwatched]);
        assert!(analysis.findings.is_empty() && analysis.tables.len() == 2, "{:?}", analysis.tables);
        assert!(analysed(&[]).tables.is_empty());
    }

    #[test]
    fn a_cluster_of_other_machines_does_not_share_one() {
        let mut points = [
            point((1.0, 6.0, 0), 100.0, &[0.9], Some(0.9)),
            point((2.0, 6.0, 0), 190.0, &[0.9, 0.9], Some(0.9)),
        ];
        for point in &mut points {
            let run = point.run.as_mut().unwrap();
            run.server.as_mut().unwrap().source = "access 1: agent a:9200: process tree of 7".into();
        }
        let analysis = analysed(&points);
        assert_eq!(analysis.findings.len(), 2, "{:?}", analysis.findings);
    }
}
