//! Points, runs and servers for the tests of the tables.

use posthaste_load_results::{RunResult, ServerCost, ServerFacts, StudyPoint, Summary};

/// Servers with these names.
pub(crate) fn servers<const N: usize>(names: [&str; N]) -> [ServerFacts; N] {
    names.map(|name| ServerFacts { name: name.into(), ..ServerFacts::default() })
}

/// A point of the first round.
pub(crate) fn point(server: &str, at: &[(&str, f64)], run: RunResult) -> StudyPoint {
    StudyPoint {
        server: server.into(),
        at: at.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        workload: "w".into(),
        round: 0,
        run: Ok(Box::new(run)),
    }
}

/// A run of `count` transactions that took `cpu_s` seconds of CPU.
pub(crate) fn run(cpu_s: f64, count: u64) -> RunResult {
    let server = ServerCost { seconds: 1.0, cpu_user_s: cpu_s, processes: 1, ..ServerCost::default() };
    RunResult {
        total: Summary { count, p50_ms: 1.0, ..Summary::default() },
        server: Some(server),
        ..RunResult::default()
    }
}
