//! The figures of a run that are compared between runs, in one list for the tables, the ratios and
//! the CSV.

use posthaste_load_results::{Offered, RunResult, ServerCost};

/// One figure of a run.
pub struct Metric {
    /// The figure's name in CSV: words joined by `_`, unit last.
    pub key: &'static str,
    /// The figure's name in tables.
    pub name: &'static str,
    /// The figure's unit.
    pub unit: &'static str,
    /// Reads the figure from a result; `None` if it was not measured.
    pub of: fn(&RunResult) -> Option<f64>,
}

const fn metric(
    key: &'static str,
    name: &'static str,
    unit: &'static str,
    of: fn(&RunResult) -> Option<f64>,
) -> Metric {
    Metric { key, name, unit, of }
}

/// The metrics, in the order in which they are shown.
pub const METRICS: &[Metric] = &[
    metric("throughput_per_s", "Throughput", "transactions/s", |r| Some(r.total.rate_per_s)),
    metric("mean_ms", "Response time, mean", "ms", |r| timed(r, r.total.mean_ms)),
    metric("p50_ms", "Response time, median", "ms", |r| timed(r, r.total.p50_ms)),
    metric("p90_ms", "Response time, 90 %", "ms", |r| timed(r, r.total.p90_ms)),
    metric("p99_ms", "Response time, 99 %", "ms", |r| timed(r, r.total.p99_ms)),
    metric("p999_ms", "Response time, 99.9 %", "ms", |r| timed(r, r.total.p999_ms)),
    metric("max_ms", "Response time, longest", "ms", |r| timed(r, r.total.max_ms)),
    metric("errors", "Errors, whole run", "", |r| Some(r.outcome.errors as f64)),
    metric("server_cpu_percent", "Server CPU, of all processors", "%", |r| cost(r, |s| Some(s.cpu_percent))),
    metric("server_cpu_user_s", "Server CPU, user", "s", |r| cost(r, |s| Some(s.cpu_user_s))),
    metric("server_cpu_system_s", "Server CPU, kernel", "s", |r| cost(r, |s| Some(s.cpu_system_s))),
    metric("megacycles_per_session", "CPU per session", "megacycles", |r| {
        cost(r, |s| s.megacycles_per_session)
    }),
    metric("megacycles_per_message", "CPU per message", "megacycles", |r| {
        cost(r, |s| s.megacycles_per_message)
    }),
    metric("megacycles_per_transaction", "CPU per transaction", "megacycles", |r| {
        cost(r, |s| s.megacycles_per_transaction)
    }),
    metric("pss_mean_mb", "Server memory (PSS), mean", "MB", |r| mega(r, |s| &s.pss_mean_bytes)),
    metric("pss_max_mb", "Server memory (PSS), highest", "MB", |r| mega(r, |s| &s.pss_max_bytes)),
    metric("pss_own_max_mb", "Server memory without pages of files, highest", "MB", |r| {
        mega(r, |s| &s.pss_own_max_bytes)
    }),
    metric("disk_operations", "Disk operations", "", |r| whole(r, |s| &s.disk_operations)),
    metric("disk_read_mb", "Read from disk", "MB", |r| mega(r, |s| &s.disk_read_bytes)),
    metric("disk_write_mb", "Written to disk", "MB", |r| mega(r, |s| &s.disk_write_bytes)),
    metric("context_switches", "Context switches", "", |r| whole(r, |s| &s.context_switches)),
    metric("cycles_per_instruction", "Cycles per instruction", "", |r| {
        cost(r, |s| s.counters.value().map(|c| c.cpi))
    }),
    metric("cache_misses", "Cache misses, last level", "", |r| {
        cost(r, |s| s.counters.value().map(|c| c.cache_misses as f64))
    }),
    metric("generator_cpu_us_per_transaction", "Generator CPU per transaction", "µs", |r| {
        r.generator.cpu_us_per_transaction
    }),
    metric("generator_share_of_server", "Generator CPU ÷ server CPU", "", |r| r.generator.share_of_server),
];

fn timed(run: &RunResult, ms: f64) -> Option<f64> {
    (run.total.count > 0).then_some(ms)
}

fn cost(run: &RunResult, of: impl Fn(&ServerCost) -> Option<f64>) -> Option<f64> {
    run.server.as_ref().and_then(of)
}

fn whole(run: &RunResult, of: impl Fn(&ServerCost) -> &Offered<u64>) -> Option<f64> {
    cost(run, |s| of(s).value().map(|n| *n as f64))
}

fn mega(run: &RunResult, of: impl Fn(&ServerCost) -> &Offered<u64>) -> Option<f64> {
    whole(run, of).map(|n| n / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_column_names() {
        let mut keys: Vec<_> = METRICS.iter().map(|m| m.key).collect();
        assert!(
            keys.iter().all(|k| k.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'))
        );
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), METRICS.len());
    }
}
