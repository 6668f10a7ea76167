//! Points, runs and servers for the tests of the tables.

use posthaste_load_results::{Offered, RunResult, ServerCost, ServerFacts, StudyPoint, Summary, Waits};

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
    let server = ServerCost {
        source: String::new(),
        seconds: 1.0,
        cpu_user_s: cpu_s,
        cpu_system_s: 0.0,
        cpu_percent: 0.0,
        megacycles: 0.0,
        sessions: 0,
        messages: 0,
        megacycles_per_session: None,
        megacycles_per_message: None,
        megacycles_per_transaction: None,
        pss_mean_bytes: Offered::default(),
        pss_max_bytes: Offered::default(),
        pss_own_max_bytes: Offered::default(),
        processes: 1,
        disk_operations: Offered::default(),
        disk_read_operations: Offered::default(),
        disk_read_bytes: Offered::default(),
        disk_write_bytes: Offered::default(),
        waits: Waits::default(),
        context_switches: Offered::default(),
        counters: Offered::default(),
        roles: Vec::new(),
        hottest: None,
        sampled: Vec::new(),
    };
    RunResult {
        total: Summary { count, p50_ms: 1.0, ..Summary::default() },
        server: Some(server),
        ..RunResult::default()
    }
}
