//! Studies against servers that do nothing: the order of points, pools of users, and tables.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use posthaste_load_null_server::{Faults, start};
use posthaste_load_results::{RunResult, StudyPoint, StudyResult};
use posthaste_load_study::{Cassandra, Course, Length, Options, Watched, conduct, conduct_on, load};

const STUDY: &str = r#"
name = "small"
description = "a small study"
analysis = "storage-format"
workloads = ["oe6-busy", "oe6-forgetful"]
think = "5ms"
sizes = "wide:0.02"
rounds = 2
put_back = true

[pools]
registered = 4500
receiving = 3600
active = 1200
scale = 0.0011

[[sweep]]
speed = [100]
arrivals_per_hour = [600]

[[arm]]
name = "keep"
settings = 'store.format = "keep"'
rich = 0.88

[[arm]]
name = "only MIME"

[time]
ramp = "50ms"
warmup = "50ms"
measure = "700ms"
"#;

/// Whether users looked for mail in the window.
fn has_checks(run: &RunResult) -> bool {
    run.transactions.iter().any(|one| one.name == "check" && one.summary.count > 0)
}

/// The study with windows of this length.
fn study(folder: &Path, measure: &str) -> StudyResult {
    let file = folder.join("small.toml");
    std::fs::write(&file, STUDY.replace("700ms", measure)).unwrap();
    let study = load(file.to_str().unwrap(), Length::Full).unwrap();
    let server = |name: &str| {
        let at = start(Faults::default()).unwrap();
        format!("{name}=imap://{},lmtp://{}", at.imap, at.lmtp).parse().unwrap()
    };
    let options = Options::new(vec![server("A"), server("B")], folder.join("work"));
    conduct(&study, &options).unwrap()
}

#[test]
fn servers_take_turns_and_every_cell_has_all_rounds() {
    let with_windows_of = |measure: &str| study(tempfile::tempdir().unwrap().path(), measure);
    let mut result = with_windows_of("700ms");
    // Longer ones if the machine is so busy that nothing ended in one of these.
    for measure in ["5s", "20s"] {
        if !result.points.iter().all(|point| point.run.as_ref().is_ok_and(|run| has_checks(run))) {
            result = with_windows_of(measure);
        }
    }
    let order: Vec<(u32, &str, &str)> =
        result.points.iter().map(|p| (p.round, p.workload.as_str(), p.server.as_str())).collect();
    let rounds = [("oe6-busy", ["A", "B"]), ("oe6-forgetful", ["A", "B"])];
    let expected: Vec<(u32, &str, &str)> = (0..2)
        .flat_map(|round| {
            rounds.iter().flat_map(move |(workload, servers)| {
                // Another server begins in each round.
                (0..2).map(move |turn| (round, *workload, servers[(round as usize + turn) % 2]))
            })
        })
        .collect();
    assert_eq!(order, expected);
    for StudyPoint { run, server, .. } in &result.points {
        let run = run.as_ref().unwrap_or_else(|why| panic!("{server}: {why}"));
        assert!(run.outcome.clean, "{server}: {}", run.outcome.headline);
        // 1,200 of 4,500, by the factor.
        assert_eq!(run.clients, 1);
        assert!(run.total.count > 0);
        assert_eq!(run.settings["accounts"], "user{0..4}@example.org");
    }
    let [transactions, cpu, ..] = &result.analysis.tables[..] else { panic!("no tables") };
    assert_eq!(transactions.head, ["oe6-busy", "A", "B"]);
    let checks = transactions.rows.iter().find(|row| row[0] == "check").unwrap();
    assert!(checks[1..].iter().all(|cell| cell != "–" && cell != "0"), "{checks:?}");
    // The cost of servers that only have an address is not measured.
    assert!(cpu.rows[0][1..].iter().all(|cell| cell == "–"), "{:?}", cpu.rows[0]);
}

const NODES: &str = r#"
name = "nodes"
description = "nodes of a cluster"
analysis = "scale-out"
workloads = ["inbox-sync"]
think = "5ms"
sizes = "fixed:1k"
rounds = 2

[[sweep]]
nodes = [1, 2]
items = [20]
clients = [2]

[time]
ramp = "50ms"
warmup = "50ms"
measure = "700ms"
"#;

#[test]
fn each_round_has_all_numbers_of_nodes_and_each_node_its_cost() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    std::fs::write(&file, NODES).unwrap();
    let study = load(file.to_str().unwrap(), Length::Full).unwrap_or_else(|e| panic!("{e}"));
    let at = start(Faults::default()).unwrap();
    // Both nodes and the store are one process here: what counts is who is watched.
    let (imap, lmtp, pid) = (&at.imap, &at.lmtp, std::process::id());
    let server = format!("A=imap://{imap},imap://{imap},lmtp://{lmtp},pid={pid},pid={pid}").parse().unwrap();
    let cassandra = Cassandra { place: None, watched: vec![Watched::process(pid)] };
    let options = Options { cassandra, ..Options::new(vec![server], folder.path().join("work")) };
    let mut order: Vec<(u32, f64)> = Vec::new();
    let save = Box::new(|result: &StudyResult| {
        let all = result.points.iter().map(|point| (point.round, point.at["nodes"]));
        let new: Vec<_> = all.filter(|place| !order.contains(place)).collect();
        order.extend(new);
    });
    let result = conduct_on(&study, &options, Course { earlier: None, save, max_time: None }).unwrap();
    assert_eq!(order, [(0, 1.0), (0, 2.0), (1, 1.0), (1, 2.0)]);
    for point in &result.points {
        let run = point.run.as_ref().unwrap_or_else(|why| panic!("{why}"));
        assert!(run.outcome.clean, "{}", run.outcome.headline);
        let mut roles: Vec<&str> =
            run.server.as_ref().unwrap().roles.iter().map(|role| role.name.as_str()).collect();
        roles.sort_unstable();
        let expected: &[&str] = match point.at["nodes"] as u32 {
            1 => &["access 1", "store 1"],
            _ => &["access 1", "access 2", "store 1"],
        };
        assert_eq!(roles, expected);
    }
    assert_eq!(result.analysis.tables[0].rows.len(), 2);
}
