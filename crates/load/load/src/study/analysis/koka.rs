//! Seed 004's figures: throughput against clients in both mixes, response time of each transaction, user and kernel
//! time, scale-up by processors, processor counters where offered.

use super::{Points, figure, plot};
use crate::results::{Analysis, Curve, Plot, RunResult, Table};

/// All of it.
pub fn analyse(points: Points) -> Analysis {
    let free = |p: &crate::results::StudyPoint| !p.at.contains_key("cpus");
    let each = |swept: &str, scaled: bool, of: fn(&RunResult) -> Option<f64>| -> Vec<Curve> {
        let mut curves = Vec::new();
        for workload in points.workloads() {
            for server in points.servers() {
                let pass = |p: &crate::results::StudyPoint| {
                    p.server == server && p.workload == workload && free(p) != scaled
                };
                curves.push(points.curve(&format!("{server}, {}", short(workload)), swept, pass, of));
            }
        }
        curves
    };
    let x = "virtual users";
    let throughput = each("clients", false, |r| Some(r.total.rate_per_s));
    let findings = throughput.iter().filter_map(best).collect();
    let mut p99 = plot(
        "Response time, 99 %",
        x,
        "response time (ms)",
        each("clients", false, |r| Some(r.total.p99_ms)),
    );
    p99.log_y = true;
    let mut plots: Vec<Plot> = vec![
        plot("Throughput", x, "transactions per second", throughput),
        p99,
        plot(
            "Median response time",
            x,
            "response time (ms)",
            each("clients", false, |r| Some(r.total.p50_ms)),
        ),
        plot(
            "Server CPU per transaction",
            x,
            "megacycles per transaction",
            each("clients", false, |r| r.server.as_ref()?.megacycles_per_transaction),
        ),
        plot("Server memory", x, "PSS, highest (MB)", each("clients", false, memory)),
        plot(
            "Kernel's share of server CPU",
            x,
            "kernel time (% of CPU)",
            each("clients", false, kernel_percent),
        ),
    ];
    let scale = each("cpus", true, |r| Some(r.total.rate_per_s));
    plots.push(plot("Scale-up", "processors of the server", "transactions per second", scale));
    let mut tables = times(points);
    tables.push(split(points));
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

/// For each mix: the median of each transaction on each server, at the most users all were measured with.
fn times(points: Points) -> Vec<Table> {
    let mut tables = Vec::new();
    for workload in points.workloads() {
        let runs: Vec<(&str, &RunResult)> = points
            .servers()
            .filter_map(|server| {
                let mine = points.measured().filter(|(p, _)| {
                    p.server == server && p.workload == workload && !p.at.contains_key("cpus")
                });
                mine.map(|(_, r)| r).max_by_key(|r| r.clients).map(|r| (server, r))
            })
            .collect();
        let Some((_, first)) = runs.first() else { continue };
        let mut head = vec!["Transaction".to_owned()];
        for (server, _) in &runs {
            head.extend([format!("{server}, median (ms)"), format!("{server}, 99 % (ms)")]);
        }
        let row = |name: &String| {
            let mut row = vec![name.clone()];
            for (_, run) in &runs {
                let times = run.transactions.iter().find(|t| t.name == *name).map(|t| &t.summary);
                let show = |v: Option<f64>| v.map_or("–".into(), figure);
                let counted = times.filter(|t| t.count > 0);
                row.extend([show(counted.map(|t| t.p50_ms)), show(counted.map(|t| t.p99_ms))]);
            }
            row
        };
        let names: Vec<String> = first.transactions.iter().map(|t| t.name.clone()).collect();
        tables.push(Table {
            title: format!("Response times, {} mix, {} users", short(workload), first.clients),
            head,
            rows: names.iter().map(row).collect(),
        });
    }
    tables
}

/// User and kernel time, switches and counters of every point.
fn split(points: Points) -> Table {
    let head = [
        "Server",
        "mix",
        "users",
        "CPU user (s)",
        "CPU kernel (s)",
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
            figure(s.cpu_user_s),
            figure(s.cpu_system_s),
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
