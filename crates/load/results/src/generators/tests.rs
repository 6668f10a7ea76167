//! Made results of generators: what is added, what is refused, what is said.

use std::time::Duration;

use super::*;
use crate::{
    Clock, ErrorCount, ErrorSample, GeneratorCost, Latency, Machine, NamedSummary, ServerCost, Slow,
};

fn summary(times_ms: &[u64], seconds: f64) -> Summary {
    let mut latency = Latency::default();
    times_ms.iter().for_each(|ms| latency.record(Duration::from_millis(*ms)));
    latency.summary(seconds, 1, (100, 10))
}

fn cost(cpu_s: f64, seconds: f64) -> ServerCost {
    ServerCost {
        source: "agent".into(),
        seconds,
        cpu_user_s: cpu_s,
        megacycles: cpu_s * 1000.0,
        sessions: 20,
        messages: 40,
        processes: 1,
        ..ServerCost::default()
    }
}

/// A run of 20 s with a window of 10 s, begun at this second.
fn run(begun: f64, times_ms: &[u64]) -> RunResult {
    let total = summary(times_ms, 10.0);
    let count = times_ms.len() as u64;
    let mut run =
        RunResult { clients: 3, schema: crate::SCHEMA, total: total.clone(), ..RunResult::default() };
    run.tool = "posthaste-load 1".into();
    run.workload.name = "browse".into();
    run.workload.toml = "name = 'browse'".into();
    run.machine = Machine { cpus: 2, mhz: 1000.0, build: "release".into(), ..Machine::default() };
    run.clock = Some(Clock {
        start_unix_s: 1e9 + begun,
        machine: "a".into(),
        reading_bound_s: 0.001,
        ..Clock::default()
    });
    run.window = Window { start_s: 10.0, end_s: 20.0, ..Window::default() };
    run.transactions = vec![Transaction {
        name: "VIEW".into(),
        share_asked: Some(1.0),
        share_realised: 1.0,
        redrawn: 2,
        summary: total.clone(),
        ..Transaction::default()
    }];
    run.commands = vec![NamedSummary { name: "FETCH".into(), summary: total }];
    run.series.done = vec![count; 20];
    run.series.mean_ms = vec![times_ms.iter().sum::<u64>() as f64 / count.max(1) as f64; 20];
    run.series.generator_cpus = vec![0.25; 20];
    run.series.server_cpus = vec![0.5; 20];
    run.outcome = Outcome { clean: true, ..Outcome::default() };
    run.generator = GeneratorCost { cpu_user_s: 1.0, cpu_system_s: 1.0, rss_max_bytes: 5, ..run.generator };
    run.server = Some(cost(5.0, 10.0));
    run.server_says = Offered::Value("Posthaste 1".into());
    run.settings = [("users", format!("u{begun}")), ("seed", begun.to_string()), ("think", "0".into())]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
    run
}

fn both(one: RunResult, two: RunResult) -> Result<RunResult, String> {
    merge(vec![("one".into(), one), ("two".into(), two)], OVERLAP_MIN)
}

#[test]
fn operations_errors_and_histograms_are_added() {
    let mut two = run(0.5, &[90, 90]);
    let sample = ErrorSample { at_s: 3.0, ..ErrorSample::default() };
    two.errors = vec![ErrorCount { kind: "timeout".into(), count: 7, samples: vec![sample] }];
    two.outcome = Outcome { clean: false, errors: 7, ..Outcome::default() };
    two.slowest = vec![Slow { ms: 90.0, at_s: 4.0, ..Slow::default() }];
    let all = both(run(0.0, &[10, 10, 10, 10]), two).unwrap();
    assert_eq!((all.clients, all.total.count, all.total.errors, all.total.bytes_in), (6, 6, 2, 200));
    assert!((all.total.rate_per_s - 0.6).abs() < 1e-9, "{}", all.total.rate_per_s);
    assert!((all.total.mean_ms - 220.0 / 6.0).abs() < 1e-9, "{}", all.total.mean_ms);
    assert!((all.total.p50_ms / 10.0 - 1.0).abs() < 0.01 && (all.total.p99_ms / 90.0 - 1.0).abs() < 0.01);
    let buckets: Vec<u64> = all.total.histogram_us.iter().map(|bucket| bucket.1).collect();
    assert_eq!(buckets, [4, 2], "counts of equal edges are added");
    let view = &all.transactions[0];
    assert_eq!((view.summary.count, view.redrawn, view.share_asked), (6, 4, Some(1.0)));
    assert!((view.share_realised - 1.0).abs() < 1e-9);
    assert_eq!((all.commands.len(), all.commands[0].summary.count), (1, 6));
    assert_eq!((all.errors[0].count, all.errors[0].samples[0].at_s, all.slowest[0].at_s), (7, 3.5, 4.5));
    assert_eq!((all.outcome.errors, all.outcome.clean), (7, false));
    assert!(all.outcome.headline.starts_with("2 generators: 7 ERRORS (7 timeout): 6 transactions, 0.6/s"));
}

#[test]
fn the_generators_cost_is_added_and_the_servers_is_used_once() {
    let mut two = run(0.0, &[10, 10]);
    two.generator.late_p99_ms = Some(3.0);
    let all = both(run(0.0, &[10, 10]), two).unwrap();
    assert_eq!(
        (all.generator.cpu_user_s, all.generator.cpu_system_s, all.generator.rss_max_bytes),
        (2.0, 2.0, 10)
    );
    assert_eq!((all.generator.cpu_us_per_transaction, all.generator.late_p99_ms), (Some(1e6), Some(3.0)));
    // Both used 0.2 processors, the server 0.5.
    assert!((all.generator.share_of_server.unwrap() - 0.8).abs() < 1e-9);
    let server = all.server.as_ref().unwrap();
    assert_eq!((server.cpu_user_s, server.sessions, server.messages), (5.0, 40, 80));
    let per = |value: Option<f64>| (value.unwrap() * 1000.0).round() / 1000.0;
    assert_eq!(per(server.megacycles_per_transaction), 1250.0);
    assert_eq!((per(server.megacycles_per_session), per(server.megacycles_per_message)), (125.0, 62.5));
    assert_eq!((all.series.done[3], all.series.generator_cpus[3], all.series.server_cpus[3]), (4, 0.5, 0.5));
    let names: Vec<&str> = all.generators.iter().map(|g| g.name.as_str()).collect();
    assert_eq!((names, all.generators[1].total.count), (vec!["one", "two"], 2));
    assert!(
        all.caveats.iter().any(|c| c.contains("2 of 2 generators watched the server")),
        "{:?}",
        all.caveats
    );
}

#[test]
fn the_common_window_is_what_all_windows_share() {
    let all = both(run(0.0, &[10]), run(0.6, &[10])).unwrap();
    assert!((all.window.start_s - 10.6).abs() < 1e-6 && (all.window.end_s - 20.0).abs() < 1e-6);
    assert_eq!(all.series.done.len(), 20);
    // The second one began in second 1, to the nearest.
    assert_eq!((all.series.done[0], all.series.done[1]), (1, 2));
    assert_eq!(all.settings["common window"], "9.40 s of 10.00 s, clocks within 2.00 ms: 94.0 %");
    let said = both(run(0.0, &[10]), run(2.0, &[10])).unwrap_err();
    assert!(said.starts_with("one, two: the windows have 8.00 s of 10.00 s"), "{said}");
    assert!(said.contains("at least 90.0 % are needed") && said.contains("--start-at"), "{said}");
    let named = vec![("one".into(), run(0.0, &[10])), ("two".into(), run(2.0, &[10]))];
    assert!(merge(named, 0.7).is_ok(), "as much as is asked for");
    assert!(both(run(0.0, &[10]), run(30.0, &[10])).unwrap_err().contains("0.00 s of 10.00 s"));
}

#[test]
fn clocks_count_against_the_overlap_as_far_as_they_may_differ() {
    let on = |machine: &str, utc: Offered<f64>| {
        let mut run = run(0.0, &[10]);
        let clock = run.clock.as_mut().unwrap();
        (clock.machine, clock.utc_bound_s) = (machine.into(), utc);
        run
    };
    let all = both(on("a", Offered::Value(0.1)), on("b", Offered::Value(0.2))).unwrap();
    assert!(all.settings["common window"].contains("clocks within 302.00 ms: 97.0 %"), "{:?}", all.settings);
    // Clocks of one machine are one clock.
    let all = both(on("a", Offered::Value(5.0)), on("a", Offered::Value(5.0))).unwrap();
    assert!(all.settings["common window"].contains("clocks within 2.00 ms"), "{:?}", all.settings);
    assert!(both(on("a", Offered::Value(0.6)), on("b", Offered::Value(0.6))).is_err());
    let unknown = both(on("a", Offered::NotOffered("not synchronised".into())), on("b", Offered::Value(0.0)));
    let said = unknown.unwrap().caveats;
    assert!(said.iter().any(|c| c.contains("one (") && c.contains("not synchronised")), "{said:?}");
    let mut old = run(0.0, &[10]);
    old.clock = None;
    assert!(both(run(0.0, &[10]), old).unwrap_err().contains("two does not say when its window began"));
}

#[test]
fn results_of_different_versions_workloads_and_servers_are_refused() {
    let refused = |change: fn(&mut RunResult)| {
        let mut two = run(0.0, &[10]);
        change(&mut two);
        both(run(0.0, &[10]), two).unwrap_err()
    };
    assert!(refused(|r| r.tool = "posthaste-load 2".into()).contains("different versions of posthaste-load"));
    assert!(refused(|r| r.schema += 1).contains("schema 2"));
    assert!(refused(|r| r.machine.build = "debug".into()).contains("(release, debug)"));
    assert!(refused(|r| r.workload.name = "sync".into()).contains("different workloads (browse, sync)"));
    assert!(refused(|r| r.workload.toml.push('#')).contains("two versions of the workload browse"));
    let said = refused(|r| r.server_says = Offered::Value("Posthaste 2".into()));
    assert!(
        said.contains("one and two are results of different servers (Posthaste 1, Posthaste 2)"),
        "{said}"
    );
    let merged = both(run(0.0, &[10]), run(0.0, &[10])).unwrap();
    let said = both(merged, run(0.0, &[10])).unwrap_err();
    assert!(said.contains("one is a merged result") && said.contains("its 2 generators"), "{said}");
}

#[test]
fn differences_that_allow_a_sum_are_reported() {
    let mut two = run(1.0, &[10]);
    two.clock = run(0.0, &[10]).clock;
    two.settings.insert("think".into(), "4".into());
    two.server = Some(cost(6.0, 10.0));
    let said = both(run(0.0, &[10]), two.clone()).unwrap().caveats;
    let has = |said: &[String], what: &str| said.iter().any(|caveat| caveat.contains(what));
    assert!(has(&said, "different settings, think: one 0, two 4"), "{said:?}");
    assert!(has(&said, "do not agree on the server's CPU within 5 %") && has(&said, "two 0.600"), "{said:?}");
    assert!(!has(&said, "--seed") && !has(&said, "users"), "{said:?}");
    // One that did not watch the server counted no sessions.
    two.server = None;
    two.server_says = Offered::default();
    two.settings.insert("seed".into(), "0".into());
    two.caveats.push("the generator was late".into());
    let all = both(run(0.0, &[10]), two).unwrap();
    assert!(has(&all.caveats, "two did not watch the server") && has(&all.caveats, "had the same --seed"));
    assert!(has(&all.caveats, "two: the generator was late") && has(&all.caveats, "did not name itself"));
    let server = all.server.unwrap();
    assert!(server.megacycles_per_session.is_none() && server.megacycles_per_transaction.is_some());
}
