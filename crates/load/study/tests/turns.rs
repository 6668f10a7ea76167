//! Studies against servers that do nothing: the order of points, pools of users, and tables.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use posthaste_load_null_server::{Faults, start};
use posthaste_load_results::{StudyPoint, StudyResult};
use posthaste_load_study::{Length, Options, conduct, load};

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

fn study(folder: &Path) -> StudyResult {
    let file = folder.join("small.toml");
    std::fs::write(&file, STUDY).unwrap();
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
    let folder = tempfile::tempdir().unwrap();
    let result = study(folder.path());
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
    // Nobody watches the cost of servers that only have an address.
    assert!(cpu.rows[0][1..].iter().all(|cell| cell == "–"), "{:?}", cpu.rows[0]);
}
