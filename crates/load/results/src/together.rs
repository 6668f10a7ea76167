//! Several workloads that ran on one server at the same time, as one result.
//!
//! Counts and times of the workloads are put together. Each run measured the cost of the server and
//! the generator for all workloads, so that cost is used only once.

use crate::sums::{commands, errors, joined, merged, outages, slowest};
use crate::{Offered, RunResult, UserKindResult};

/// One result of several; `None` of none.
pub fn together(runs: Vec<RunResult>) -> Option<RunResult> {
    if runs.len() < 2 {
        return runs.into_iter().next();
    }
    let mut all = runs.first()?.clone();
    all.workload.name = joined(&runs, " and ", |r| r.workload.name.clone());
    all.workload.description = joined(&runs, "; ", |r| r.workload.description.clone());
    all.workload.toml =
        joined(&runs, "\n", |r| format!("# workload {}\n{}", r.workload.name, r.workload.toml));
    all.clients = runs.iter().map(|r| r.clients).sum();
    all.total = merged(runs.iter().map(|r| &r.total));
    all.transactions = transactions(&runs);
    all.commands = commands(runs.iter().flat_map(|r| &r.commands));
    all.kinds = runs
        .iter()
        .map(|run| UserKindResult {
            workload: run.workload.name.clone(),
            clients: run.clients,
            total: run.total.clone(),
            commands: run.commands.clone(),
        })
        .collect();
    all.errors = errors(runs.iter().flat_map(|r| &r.errors));
    all.slowest = slowest(runs.iter().flat_map(|r| r.slowest.iter().cloned()));
    all.caveats = caveats(&runs);
    outcome(&mut all, &runs);
    series(&mut all, &runs);
    costs(&mut all, &runs);
    Some(all)
}

/// Transactions of all workloads, each under its workload's name; shares are of all transactions.
fn transactions(runs: &[RunResult]) -> Vec<crate::Transaction> {
    let all: u64 = runs.iter().map(|r| r.total.count).sum();
    let mut rows = Vec::new();
    for run in runs {
        let part = run.total.count as f64 / all.max(1) as f64;
        rows.extend(run.transactions.iter().cloned().map(|mut row| {
            row.name = format!("{}: {}", run.workload.name, row.name);
            row.share_asked = row.share_asked.map(|share| share * part);
            row.share_realised *= part;
            row
        }));
    }
    rows
}

fn caveats(runs: &[RunResult]) -> Vec<String> {
    let mut all = vec!["several workloads ran at once: the server's cost is the sum of all".to_owned()];
    for caveat in runs.iter().flat_map(|r| &r.caveats) {
        if !all.contains(caveat) {
            all.push(caveat.clone());
        }
    }
    all
}

fn outcome(all: &mut RunResult, runs: &[RunResult]) {
    let outcome = &mut all.outcome;
    outcome.clean = runs.iter().all(|r| r.outcome.clean);
    outcome.errors = runs.iter().map(|r| r.outcome.errors).sum();
    outcome.interrupted = runs.iter().any(|r| r.outcome.interrupted);
    outcome.saturated = runs.iter().any(|r| r.outcome.saturated);
    outcome.unfinished_max = runs.iter().map(|r| r.outcome.unfinished_max).sum();
    outcome.outages = outages(runs.iter().map(|r| &r.outcome));
    outcome.headline = joined(runs, "; ", |r| format!("{}: {}", r.workload.name, r.outcome.headline));
}

fn series(all: &mut RunResult, runs: &[RunResult]) {
    let length = runs.iter().map(|r| r.series.done.len()).max().unwrap_or(0);
    let sum = |of: fn(&RunResult) -> &Vec<u64>| -> Vec<u64> {
        (0..length).map(|s| runs.iter().filter_map(|r| of(r).get(s)).sum()).collect()
    };
    let times = |s: usize| {
        let parts = runs.iter().filter_map(|r| Some((*r.series.done.get(s)?, *r.series.mean_ms.get(s)?)));
        let (count, ms) =
            parts.fold((0, 0.0), |(n, ms), (count, mean)| (n + count, ms + mean * count as f64));
        if count > 0 { ms / count as f64 } else { 0.0 }
    };
    all.series.mean_ms = (0..length).map(times).collect();
    let longest =
        |s: usize| runs.iter().filter_map(|r| r.series.max_ms.get(s)).fold(0.0, |a: f64, b| a.max(*b));
    all.series.max_ms = (0..length).map(longest).collect();
    all.series.done = sum(|r| &r.series.done);
    all.series.errors = sum(|r| &r.series.errors);
    all.series.online = sum(|r| &r.series.online);
    all.series.unfinished = sum(|r| &r.series.unfinished);
}

/// The server's and the generator's cost, by what all workloads did.
fn costs(all: &mut RunResult, runs: &[RunResult]) {
    let count = all.total.count;
    if let Some(server) = &mut all.server {
        let of = |sum: fn(&crate::ServerCost) -> u64| {
            runs.iter().filter_map(|r| r.server.as_ref()).map(sum).sum::<u64>()
        };
        (server.sessions, server.messages) = (of(|s| s.sessions), of(|s| s.messages));
        let megacycles = server.megacycles;
        let per = |n: u64| (n > 0).then(|| megacycles / n as f64);
        server.megacycles_per_session = per(server.sessions);
        server.megacycles_per_message = per(server.messages);
        server.megacycles_per_transaction = per(count);
    }
    let own = &mut all.generator;
    let cpu_us = (own.cpu_user_s + own.cpu_system_s) * 1e6;
    own.cpu_us_per_transaction = (count > 0).then(|| cpu_us / count as f64);
    // The first run's reading is of the same window, and of the whole server.
    all.counted = runs
        .iter()
        .filter_map(|r| r.counted.clone())
        .find(|c| matches!(c, Offered::Value(_)))
        .or(all.counted.take());
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Latency, NamedSummary, Transaction, Window};

    fn run(name: &str, times_ms: &[u64]) -> RunResult {
        let mut latency = Latency::default();
        times_ms.iter().for_each(|ms| latency.record(Duration::from_millis(*ms)));
        let summary = latency.summary(10.0, 1, (100, 10));
        let mut run = RunResult { clients: 3, total: summary.clone(), ..RunResult::default() };
        run.workload.name = name.into();
        run.outcome.headline = "fine".into();
        run.outcome.errors = 1;
        run.window = Window { start_s: 0.0, end_s: 10.0, ..Window::default() };
        run.transactions = vec![Transaction {
            name: "a".into(),
            share_asked: Some(1.0),
            share_realised: 1.0,
            summary: summary.clone(),
            ..Transaction::default()
        }];
        run.commands = vec![NamedSummary { name: "FETCH".into(), summary }];
        run.series.done = vec![times_ms.len() as u64];
        run.series.mean_ms = vec![times_ms.iter().sum::<u64>() as f64 / times_ms.len() as f64];
        run.caveats = vec!["shared".into()];
        run
    }

    #[test]
    fn counts_are_added_and_percentiles_are_of_all() {
        let all = together(vec![run("browse", &[10, 10, 10]), run("sync", &[90])]).unwrap();
        assert_eq!((all.clients, all.total.count, all.total.errors, all.total.bytes_in), (6, 4, 2, 200));
        assert!((all.total.rate_per_s - 0.4).abs() < 1e-9);
        assert!(
            (all.total.p50_ms - 10.0).abs() < 0.1 && (all.total.max_ms - 90.0).abs() < 0.1,
            "{:?}",
            all.total
        );
        let rows: Vec<(&str, f64)> =
            all.transactions.iter().map(|t| (t.name.as_str(), t.share_realised)).collect();
        assert_eq!(rows, [("browse: a", 0.75), ("sync: a", 0.25)]);
        assert_eq!((all.commands.len(), all.commands[0].summary.count), (1, 4));
        assert_eq!((all.series.done[0], all.series.mean_ms[0]), (4, 30.0));
        assert_eq!(all.workload.name, "browse and sync");
        let kinds: Vec<(&str, u32, u64)> =
            all.kinds.iter().map(|k| (k.workload.as_str(), k.clients, k.total.count)).collect();
        assert_eq!(kinds, [("browse", 3, 3), ("sync", 3, 1)]);
        assert_eq!(all.outcome.headline, "browse: fine; sync: fine");
        assert_eq!((all.caveats.len(), all.outcome.errors), (2, 2));
    }

    #[test]
    fn one_alone_stays_as_it_is() {
        let alone = together(vec![run("browse", &[10])]).unwrap();
        assert_eq!((alone.workload.name.as_str(), alone.transactions[0].name.as_str()), ("browse", "a"));
        assert!(together(Vec::new()).is_none());
    }
}
