//! The limit of a run: seed 000 "ruled out mailbox server bottlenecks due to I/O, CPU, or network".
//!
//! A resource is excluded if the server used well below what it offers. It is named if the server
//! used nearly all. Otherwise it is not known.

use posthaste_load_results::{RunResult, ServerCost};

use super::points::figure;

/// Use of all processors from which they limit: the article raised load until here.
const CPU_BUSY_PERCENT: f64 = 60.0;
/// A disk operation in this many sessions or transactions is too rare to limit them.
const DISK_RARE: f64 = 10.0;
/// Bytes a second that any network of a server carries: 1 Gbit/s.
const NETWORK_BYTES_PER_S: f64 = 125e6;
/// Share of what a network or a memory offers, from which it may limit.
const BUSY_SHARE: f64 = 0.5;

/// Whether a resource limited a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// It did.
    Was,
    /// It did not.
    WasNot,
    /// Nothing measured says so.
    Unknown,
}

/// Bytes a second between server and clients.
pub fn network_bytes_per_s(run: &RunResult) -> Option<f64> {
    let seconds = run.window.end_s - run.window.start_s;
    (seconds > 0.0).then(|| (run.total.bytes_in + run.total.bytes_out) as f64 / seconds)
}

/// `CPU (72 %) limited it; disk (0 operations a session) … did not`.
pub fn sentence(run: &RunResult) -> Option<String> {
    let server = run.server.as_ref()?;
    let (mut was, mut was_not, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (name, (limit, said)) in [
        ("CPU", cpu(server)),
        ("disk", disk(server, run)),
        ("network", network(run)),
        ("memory", memory(server, run)),
    ] {
        let said = format!("{name} ({said})");
        match limit {
            Limit::Was => was.push(said),
            Limit::WasNot => was_not.push(said),
            Limit::Unknown => unknown.push(said),
        }
    }
    let parts = [(was, "limited it"), (was_not, "excluded"), (unknown, "not known")];
    let parts = parts.iter().filter(|(names, _)| !names.is_empty());
    Some(parts.map(|(names, what)| format!("{}: {what}", names.join(", "))).collect::<Vec<_>>().join("; "))
}

fn cpu(server: &ServerCost) -> (Limit, String) {
    let limit = if server.cpu_percent >= CPU_BUSY_PERCENT { Limit::Was } else { Limit::WasNot };
    (limit, format!("{} %", figure(server.cpu_percent)))
}

fn disk(server: &ServerCost, run: &RunResult) -> (Limit, String) {
    let Some(operations) = server.disk_operations.value() else {
        return (Limit::Unknown, "not counted here".into());
    };
    let each = *operations as f64 / run.total.count.max(1) as f64;
    let limit = if each * DISK_RARE < 1.0 { Limit::WasNot } else { Limit::Unknown };
    (limit, format!("{} operations each", figure(each)))
}

fn network(run: &RunResult) -> (Limit, String) {
    let Some(rate) = network_bytes_per_s(run) else { return (Limit::Unknown, "no window".into()) };
    let limit = if rate < NETWORK_BYTES_PER_S * BUSY_SHARE || on_loopback(run) {
        Limit::WasNot
    } else {
        Limit::Unknown
    };
    (limit, format!("{} MB/s", figure(rate / 1e6)))
}

/// Studies start their servers on this machine; loopback is memory.
fn on_loopback(run: &RunResult) -> bool {
    run.server.as_ref().is_some_and(|s| !s.source.starts_with("agent "))
}

fn memory(server: &ServerCost, run: &RunResult) -> (Limit, String) {
    let Some(used) = server.pss_max_bytes.value() else { return (Limit::Unknown, "not read".into()) };
    let all = run.machine.memory_bytes;
    let limit = if (*used as f64) < all as f64 * BUSY_SHARE { Limit::WasNot } else { Limit::Unknown };
    (limit, format!("{} of {} MB", figure(*used as f64 / 1e6), figure(all as f64 / 1e6)))
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Offered, Window};

    use super::super::sample::run;
    use super::*;

    fn busy() -> RunResult {
        let mut run = run(1.5, 1000);
        run.window = Window { start_s: 0.0, end_s: 10.0, ..Window::default() };
        run.total.bytes_in = 50_000_000;
        run.machine.memory_bytes = 8_000_000_000;
        if let Some(server) = &mut run.server {
            server.cpu_percent = 75.0;
            server.disk_operations = Offered::Value(20);
            server.pss_max_bytes = Offered::Value(200_000_000);
        }
        run
    }

    #[test]
    fn what_limited_is_named_and_all_else_excluded() {
        assert_eq!(
            sentence(&busy()).unwrap(),
            "CPU (75.0 %): limited it; disk (0.0200 operations each), network (5.00 MB/s), memory (200 of 8,000 MB): excluded"
        );
    }

    #[test]
    fn what_was_not_measured_is_not_excluded() {
        let mut run = busy();
        if let Some(server) = &mut run.server {
            server.disk_operations = Offered::default();
            server.cpu_percent = 30.0;
        }
        let said = sentence(&run).unwrap();
        assert!(said.starts_with("CPU (30.0 %), network"), "{said}");
        assert!(said.ends_with("disk (not counted here): not known"), "{said}");
        run.server = None;
        assert_eq!(sentence(&run), None);
    }
}
