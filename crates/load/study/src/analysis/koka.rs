//! Seed 004's figures: throughput against clients in both mixes, response time of each transaction,
//! user and kernel time, scale-up by processors, processor counters and hottest functions where
//! offered.

use super::{Points, figure, plot};
use posthaste_load_results::{Analysis, Curve, Offered, Plot, RunResult, StudyPoint, Table};

/// Functions of each server and mix in the table of the hottest.
const HOTTEST: usize = 10;

/// Which part of the study a point is of.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// Clients swept, no think time.
    Throughput,
    /// With think time: response times.
    Times,
    /// Processors swept.
    Scale,
}

fn part(point: &StudyPoint) -> Part {
    match (point.at.contains_key("cpus"), point.at.get("think_s")) {
        (true, _) => Part::Scale,
        (false, Some(think)) if *think > 0.0 => Part::Times,
        (false, _) => Part::Throughput,
    }
}

/// All of it.
pub fn analyse(points: Points) -> Analysis {
    let each = |swept: &str, wanted: Part, of: fn(&RunResult) -> Option<f64>| -> Vec<Curve> {
        let mut curves = Vec::new();
        for workload in points.workloads() {
            for server in points.servers() {
                let pass = |p: &StudyPoint| p.server == server && p.workload == workload && part(p) == wanted;
                curves.push(points.curve(&format!("{server}, {}", short(workload)), swept, pass, of));
            }
        }
        curves
    };
    let x = "virtual users";
    let throughput = each("clients", Part::Throughput, |r| Some(r.total.rate_per_s));
    let mut findings: Vec<String> = throughput.iter().filter_map(best).collect();
    let mut p99 = plot(
        "Response time, 99 %",
        x,
        "response time (ms)",
        each("clients", Part::Throughput, |r| Some(r.total.p99_ms)),
    );
    p99.log_y = true;
    let mut plots: Vec<Plot> = vec![
        plot("Throughput", x, "transactions per second", throughput),
        p99,
        plot(
            "Median response time",
            x,
            "response time (ms)",
            each("clients", Part::Throughput, |r| Some(r.total.p50_ms)),
        ),
        plot(
            "Server CPU per transaction",
            x,
            "megacycles per transaction",
            each("clients", Part::Throughput, |r| r.server.as_ref()?.megacycles_per_transaction),
        ),
        plot("Server memory", x, "PSS, highest (MB)", each("clients", Part::Throughput, memory)),
        plot(
            "Kernel's share of server CPU",
            x,
            "kernel time (% of CPU)",
            each("clients", Part::Throughput, kernel_percent),
        ),
    ];
    let scale = each("cpus", Part::Scale, |r| Some(r.total.rate_per_s));
    findings.extend(scale.iter().filter_map(scale_up));
    plots.push(plot("Scale-up", "processors of the server", "transactions per second", scale));
    let mut tables = times(points);
    tables.push(split(points));
    tables.extend(hottest(points));
    Analysis { findings, plots: plots.into_iter().filter(|p| !p.curves.is_empty()).collect(), tables }
}

fn short(workload: &str) -> &str {
    workload.strip_prefix("koka-").unwrap_or(workload).trim_end_matches("-frequencies")
}

fn memory(run: &RunResult) -> Option<f64> {
    run.server.as_ref()?.pss_max_bytes.value().map(|b| *b as f64 / 1e6)
}

fn kernel_percent(run: &RunResult) -> Option<f64> {
    let s = run.server.as_ref()?;
    let all = s.cpu_user_s + s.cpu_system_s;
    (all > 0.0).then(|| s.cpu_system_s / all * 100.0)
}

fn best(curve: &Curve) -> Option<String> {
    let (x, y) = *curve.points.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!("{}: at most {} transactions per second, with {x} users", curve.name, figure(y)))
}

fn processors(n: f64) -> String {
    if n == 1.0 { "1 processor".into() } else { format!("{n} processors") }
}

/// What the most processors bring over the fewest.
fn scale_up(curve: &Curve) -> Option<String> {
    let ((few, slow), (many, fast)) = (*curve.points.first()?, *curve.points.last()?);
    (many > few && slow > 0.0).then(|| {
        let (many, few) = (processors(many), processors(few));
        format!("{}: {many} bring {} × the throughput of {few}", curve.name, figure(fast / slow))
    })
}

/// For each mix: times of each transaction on each server, at the most users without think time and
/// with it.
fn times(points: Points) -> Vec<Table> {
    let mut tables = Vec::new();
    for workload in points.workloads() {
        for wanted in [Part::Throughput, Part::Times] {
            let runs: Vec<(&str, &RunResult)> = points
                .servers()
                .filter_map(|server| {
                    let mine = points
                        .measured()
                        .filter(|(p, _)| p.server == server && p.workload == workload && part(p) == wanted);
                    mine.map(|(_, r)| r).max_by_key(|r| r.clients).map(|r| (server, r))
                })
                .collect();
            let Some((_, first)) = runs.first() else { continue };
            let think = if wanted == Part::Times { "with" } else { "without" };
            let title = format!(
                "Response times, {} mix, {} users {think} think time",
                short(workload),
                first.clients
            );
            tables.push(times_table(title, &runs));
        }
    }
    tables
}

fn times_table(title: String, runs: &[(&str, &RunResult)]) -> Table {
    let mut head = vec!["Transaction".to_owned()];
    for (server, _) in runs {
        head.extend([format!("{server}, median (ms)"), format!("{server}, 99 % (ms)")]);
    }
    let row = |name: &String| {
        let mut row = vec![name.clone()];
        for (_, run) in runs {
            let times = run.transactions.iter().find(|t| t.name == *name).map(|t| &t.summary);
            let show = |v: Option<f64>| v.map_or("–".into(), figure);
            let counted = times.filter(|t| t.count > 0);
            row.extend([show(counted.map(|t| t.p50_ms)), show(counted.map(|t| t.p99_ms))]);
        }
        row
    };
    let names: Vec<String> =
        runs.first().map_or_else(Vec::new, |(_, r)| r.transactions.iter().map(|t| t.name.clone()).collect());
    Table { title, head, rows: names.iter().map(row).collect() }
}

/// The functions each server spends its CPU in, in each mix; nothing if no point asked for them.
fn hottest(points: Points) -> Option<Table> {
    let head = ["Server", "mix", "users", "share of CPU (%)", "program", "in", "function"];
    let mut rows = Vec::new();
    for (point, run) in points.measured() {
        let Some(found) = run.server.as_ref().and_then(|s| s.hottest.as_ref()) else { continue };
        let place = [point.server.clone(), short(&point.workload).to_owned(), run.clients.to_string()];
        match found {
            Offered::NotOffered(why) => {
                let mut row = place.to_vec();
                row.push(format!("not offered here: {why}"));
                row.resize(head.len(), String::new());
                rows.push(row);
            }
            Offered::Value(functions) => rows.extend(functions.iter().take(HOTTEST).map(|f| {
                let object = if f.kernel { "kernel".to_owned() } else { f.object.clone() };
                let what = [figure(f.percent), f.program.clone(), object, f.function.clone()];
                place.iter().cloned().chain(what).collect()
            })),
        }
    }
    let title = "Hottest functions (perf record, in a run of their own)".to_owned();
    (!rows.is_empty()).then(|| Table { title, head: head.map(str::to_owned).to_vec(), rows })
}

/// What is not the default: `2 processors`, `4 s`.
fn setting(point: &StudyPoint) -> String {
    let cpus = point.at.get("cpus").map(|n| processors(*n));
    let think = point.at.get("think_s").map(|s| format!("{s} s"));
    let parts: Vec<String> = cpus.into_iter().chain(think).collect();
    if parts.is_empty() { "all, none".into() } else { parts.join(", ") }
}

/// User and kernel time, switches and counters of every point.
fn split(points: Points) -> Table {
    let head = [
        "Server",
        "mix",
        "users",
        "processors, think time",
        "CPU user (s)",
        "CPU kernel (s)",
        "kernel (%)",
        "context switches",
        "cycles per instruction",
        "cache misses",
    ];
    let rows = points.measured().filter_map(|(point, run)| {
        let s = run.server.as_ref()?;
        let counters = s.counters.value();
        let none = || "not offered here".to_owned();
        Some(vec![
            point.server.clone(),
            short(&point.workload).to_owned(),
            run.clients.to_string(),
            setting(point),
            figure(s.cpu_user_s),
            figure(s.cpu_system_s),
            kernel_percent(run).map_or("–".into(), figure),
            s.context_switches.value().map_or_else(none, |n| figure(*n as f64)),
            counters.map_or_else(none, |c| figure(c.cpi)),
            counters.map_or_else(none, |c| figure(c.cache_misses as f64)),
        ])
    });
    Table {
        title: "What the server's CPU was spent on".into(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}
