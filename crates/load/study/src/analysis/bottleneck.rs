//! The limit of a run: seed 000 "ruled out mailbox server bottlenecks due to I/O, CPU, or network".
//!
//! A resource is named if the server used or waited for it most of the time. It is excluded if the
//! server hardly did. Otherwise it is not known. Each has its figure in the sentence.

use posthaste_load_results::{Network, Pressure, PressureOf, RunResult, ServerCost};

use super::points::{figure, whole};

/// Use of a resource, in percent, from which it limits: the article raised load until here.
const LIMITS_PERCENT: f64 = 60.0;
/// Use below which a resource did not limit: half of that.
const EXCLUDED_PERCENT: f64 = 30.0;
/// Use of all processors by all programs from which a server that uses few of them may lack them.
const MACHINE_BUSY_PERCENT: f64 = 90.0;
/// Time in which tasks waited for memory, in percent, from which memory limits. While a task waits
/// for a page it does nothing, so a tenth of the time is a tenth of its work.
const MEMORY_LIMITS_PERCENT: f64 = 10.0;
/// The same time below which a limit of memory that was reached cost nothing worth naming.
const MEMORY_EXCLUDED_PERCENT: f64 = 1.0;
/// A disk operation in this many sessions or transactions is too rare to limit them.
const DISK_RARE: f64 = 10.0;
/// Share of the machine's memory below which it does not limit.
const MEMORY_SHARE: f64 = 0.5;

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

/// `CPU (72 %): limited it; disk (busy 3 % of the time, …), … : excluded`.
pub fn sentence(run: &RunResult) -> Option<String> {
    let server = run.server.as_ref()?;
    let (mut was, mut was_not, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (name, (limit, said)) in [
        ("CPU", cpu(server, run)),
        ("disk", disk(server, run)),
        ("network", network(server, run)),
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

fn cpu(server: &ServerCost, run: &RunResult) -> (Limit, String) {
    let own = format!("{} %", figure(server.cpu_percent));
    if server.cpu_percent >= LIMITS_PERCENT {
        return (Limit::Was, own);
    }
    match all_programs(server, run).filter(|all| *all >= MACHINE_BUSY_PERCENT) {
        Some(all) => (Limit::Unknown, format!("{own}, all programs {} %", figure(all))),
        None => (Limit::WasNot, own),
    }
}

/// CPU of all programs of the machine, in percent of its processors; `None` if the server is on
/// another one.
fn all_programs(server: &ServerCost, run: &RunResult) -> Option<f64> {
    let (own, others) = (&run.generator, run.generator.other_cpus.filter(|_| !is_away(server))?);
    let both = server.cpu_user_s + server.cpu_system_s + own.cpu_user_s + own.cpu_system_s;
    Some((both / server.seconds + others) / f64::from(run.machine.cpus.max(1)) * 100.0)
}

/// Studies start their servers on this machine; an agent's may be another one.
fn is_away(server: &ServerCost) -> bool {
    server.waits.network.value() != Some(&Network::Loopback) && server.source.starts_with("agent ")
}

/// The waits of the server's tasks, or of those of all programs where the kernel does not count
/// its own.
fn waited(pressure: &Pressure) -> String {
    let whose = match pressure.of {
        PressureOf::Server => "its tasks waited",
        PressureOf::Machine => "tasks of the machine waited",
    };
    let (some, full) = (figure(pressure.some_percent), figure(pressure.full_percent));
    format!("{whose}: some {some} %, all {full} % of the time")
}

/// Time in which the server's own tasks waited.
fn own_wait(pressure: Option<&Pressure>) -> Option<f64> {
    pressure.filter(|p| p.of == PressureOf::Server).map(|p| p.some_percent)
}

fn disk(server: &ServerCost, run: &RunResult) -> (Limit, String) {
    let waits = &server.waits;
    let (busy, pressure) = (waits.disk_busy_percent.value().copied(), waits.disk_pressure.value());
    let each = server.disk_operations.value().map(|n| *n as f64 / run.total.count.max(1) as f64);
    let said = [
        busy.map_or("busy time not offered".into(), |b| format!("busy {} % of the time", figure(b))),
        pressure.map_or("waiting tasks not offered".into(), waited),
        each.map_or("operations not offered".into(), |n| format!("{} operations each", figure(n))),
    ];
    let waited = pressure.map(|p| p.some_percent);
    let own = own_wait(pressure);
    let is_waited_for = own.is_some_and(|some| some >= LIMITS_PERCENT);
    let is_busy = busy.is_some_and(|b| b >= LIMITS_PERCENT);
    let is_idle = busy.is_some_and(|b| b < EXCLUDED_PERCENT);
    let limit = if each.is_some_and(|n| n * DISK_RARE < 1.0) {
        Limit::WasNot
    } else if is_waited_for || (is_busy && own.is_none_or(|some| some >= EXCLUDED_PERCENT)) {
        Limit::Was
    } else if is_idle && waited.is_none_or(|some| some < EXCLUDED_PERCENT) {
        Limit::WasNot
    } else {
        Limit::Unknown
    };
    (limit, said.join(", "))
}

fn network(server: &ServerCost, run: &RunResult) -> (Limit, String) {
    let Some(rate) = network_bytes_per_s(run) else { return (Limit::Unknown, "no window".into()) };
    let rate = figure(rate / 1e6);
    match server.waits.network.value() {
        Some(Network::Link(speed)) => {
            // Both directions have the link's speed.
            let way = run.total.bytes_in.max(run.total.bytes_out) as f64;
            let percent = way / (run.window.end_s - run.window.start_s) / *speed as f64 * 100.0;
            let limit = match percent {
                _ if percent >= LIMITS_PERCENT => Limit::Was,
                _ if percent < EXCLUDED_PERCENT => Limit::WasNot,
                _ => Limit::Unknown,
            };
            (limit, format!("{rate} MB/s, {} % of the link", figure(percent)))
        }
        None if is_away(server) => (Limit::Unknown, format!("{rate} MB/s, the link's speed not offered")),
        // Loopback is memory.
        _ => (Limit::WasNot, format!("{rate} MB/s over loopback")),
    }
}

fn memory(server: &ServerCost, run: &RunResult) -> (Limit, String) {
    let (waits, used) = (&server.waits, server.pss_max_bytes.value().map(|b| *b as f64));
    let pressure = waits.memory_pressure.value();
    let all = (!is_away(server)).then_some(run.machine.memory_bytes as f64);
    let megabytes = |bytes: f64| figure(bytes / 1e6);
    let mut said = vec![match (used, all) {
        (Some(used), Some(all)) => format!("{} of {} MB", megabytes(used), megabytes(all)),
        (Some(used), None) => format!("{} MB", megabytes(used)),
        (None, _) => "use not offered".to_owned(),
    }];
    let limit = waits.memory_limit.value();
    said.extend(limit.map(|l| {
        format!("its limit of {} MB reached {} times", megabytes(l.bytes as f64), whole(l.reached as f64))
    }));
    said.push(pressure.map_or("waiting tasks not offered".into(), waited));
    let own = own_wait(pressure);
    let calm = pressure.is_none_or(|p| p.some_percent < MEMORY_LIMITS_PERCENT);
    let little = used.zip(all).is_some_and(|(used, all)| used < all * MEMORY_SHARE);
    let limit = match limit.map(|l| l.reached) {
        // The cache of files fills a limit without harm.
        Some(1..) if own.is_some_and(|some| some < MEMORY_EXCLUDED_PERCENT) => Limit::WasNot,
        Some(1..) => Limit::Was,
        _ if own.is_some_and(|some| some >= MEMORY_LIMITS_PERCENT) => Limit::Was,
        Some(0) if calm => Limit::WasNot,
        None if calm && little => Limit::WasNot,
        _ => Limit::Unknown,
    };
    (limit, said.join(", "))
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{MemoryLimit, Offered, Window};

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
            server.waits.disk_busy_percent = Offered::Value(2.0);
            server.waits.disk_pressure = pressure(1.5, PressureOf::Server);
            server.waits.memory_pressure = pressure(0.0, PressureOf::Server);
            server.waits.network = Offered::Value(Network::Loopback);
        }
        run
    }

    fn pressure(some_percent: f64, of: PressureOf) -> Offered<Pressure> {
        Offered::Value(Pressure { some_percent, full_percent: some_percent / 2.0, of })
    }

    /// The verdict on a resource of a run that is changed so.
    fn verdict(
        of: fn(&ServerCost, &RunResult) -> (Limit, String),
        change: impl Fn(&mut ServerCost),
    ) -> (Limit, String) {
        let mut run = busy();
        change(run.server.as_mut().unwrap());
        of(run.server.as_ref().unwrap(), &run)
    }

    #[test]
    fn what_limited_is_named_and_all_else_excluded() {
        assert_eq!(
            sentence(&busy()).unwrap(),
            "CPU (75.0 %): limited it; disk (busy 2.00 % of the time, its tasks waited: some 1.50 %, all 0.750 % of the \
             time, 0.0200 operations each), network (5.00 MB/s over loopback), memory (200 of 8,000 MB, its tasks \
             waited: some 0 %, all 0 % of the time): excluded"
        );
    }

    #[test]
    fn what_was_not_measured_is_not_excluded() {
        let mut run = busy();
        if let Some(server) = &mut run.server {
            server.disk_operations = Offered::default();
            server.waits.disk_busy_percent = Offered::default();
            server.waits.disk_pressure = Offered::default();
            server.cpu_percent = 30.0;
        }
        let said = sentence(&run).unwrap();
        assert!(said.starts_with("CPU (30.0 %), network"), "{said}");
        let disk =
            "disk (busy time not offered, waiting tasks not offered, operations not offered): not known";
        assert!(said.ends_with(disk), "{said}");
        run.server = None;
        assert_eq!(sentence(&run), None);
    }

    #[test]
    fn a_machine_that_others_fill_excludes_no_cpu() {
        let mut run = busy();
        run.machine.cpus = 2;
        run.generator.other_cpus = Some(0.6);
        // The server takes half a processor, and the generator one.
        (run.generator.cpu_user_s, run.server.as_mut().unwrap().cpu_user_s) = (1.0, 0.5);
        run.server.as_mut().unwrap().cpu_percent = 25.0;
        let said = cpu(run.server.as_ref().unwrap(), &run);
        assert_eq!(said, (Limit::Unknown, "25.0 %, all programs 105 %".to_owned()));
        run.generator.other_cpus = Some(0.0);
        assert_eq!(cpu(run.server.as_ref().unwrap(), &run).0, Limit::WasNot);
    }

    #[test]
    fn a_disk_is_named_when_the_server_waits_for_it() {
        let with = |busy: Offered<f64>, pressure: Offered<Pressure>| {
            let change = |server: &mut ServerCost| {
                server.disk_operations = Offered::Value(5_000);
                server.waits.disk_busy_percent = busy.clone();
                server.waits.disk_pressure = pressure.clone();
            };
            verdict(disk, change).0
        };
        let (none, own, machine) = (Offered::default, PressureOf::Server, PressureOf::Machine);
        assert_eq!(with(Offered::Value(20.0), pressure(80.0, own)), Limit::Was);
        assert_eq!(with(Offered::Value(95.0), none()), Limit::Was);
        // Others keep it busy, and the server does not wait.
        assert_eq!(with(Offered::Value(95.0), pressure(5.0, own)), Limit::Unknown);
        assert_eq!(with(Offered::Value(10.0), pressure(5.0, own)), Limit::WasNot);
        assert_eq!(with(Offered::Value(10.0), pressure(5.0, machine)), Limit::WasNot);
        // Whose tasks wait is not known.
        assert_eq!(with(Offered::Value(10.0), pressure(80.0, machine)), Limit::Unknown);
        assert_eq!(with(Offered::default(), pressure(5.0, own)), Limit::Unknown);
        // An operation in ten transactions is too rare, whatever others do.
        let rare = |server: &mut ServerCost| server.waits.disk_busy_percent = Offered::Value(95.0);
        assert_eq!(verdict(disk, rare).0, Limit::WasNot);
    }

    #[test]
    fn a_link_is_named_or_excluded_by_its_speed() {
        let away = |network: Offered<Network>| {
            let change = |server: &mut ServerCost| {
                server.source = "agent mail:8117: process tree of 7".into();
                server.waits.network = network.clone();
            };
            verdict(super::network, change)
        };
        // 5 MB a second.
        assert_eq!(
            away(Offered::Value(Network::Link(6_250_000))),
            (Limit::Was, "5.00 MB/s, 80.0 % of the link".to_owned())
        );
        assert_eq!(away(Offered::Value(Network::Link(125_000_000))).0, Limit::WasNot);
        assert_eq!(away(Offered::Value(Network::Link(12_500_000))).0, Limit::Unknown);
        assert_eq!(
            away(Offered::default()),
            (Limit::Unknown, "5.00 MB/s, the link's speed not offered".to_owned())
        );
        assert_eq!(away(Offered::Value(Network::Loopback)).0, Limit::WasNot);
    }

    #[test]
    fn a_limit_of_memory_is_named_if_it_was_reached_and_tasks_waited() {
        let with = |reached: u64, pressure: Offered<Pressure>| {
            let change = |server: &mut ServerCost| {
                server.waits.memory_limit = Offered::Value(MemoryLimit { bytes: 64_000_000, reached });
                server.waits.memory_pressure = pressure.clone();
            };
            verdict(memory, change)
        };
        let (limit, said) = with(1_234, pressure(20.0, PressureOf::Server));
        assert_eq!(limit, Limit::Was);
        assert!(
            said.contains("its limit of 64.0 MB reached 1,234 times, its tasks waited: some 20.0 %"),
            "{said}"
        );
        assert_eq!(with(1_234, Offered::default()).0, Limit::Was);
        assert_eq!(with(1_234, pressure(0.1, PressureOf::Server)).0, Limit::WasNot);
        assert_eq!(with(0, pressure(0.1, PressureOf::Server)).0, Limit::WasNot);
        assert_eq!(with(0, pressure(50.0, PressureOf::Machine)).0, Limit::Unknown);
        // Without a limit the machine's memory counts.
        let without = |used: u64| verdict(memory, |server| server.pss_max_bytes = Offered::Value(used)).0;
        assert_eq!((without(200_000_000), without(7_000_000_000)), (Limit::WasNot, Limit::Unknown));
    }
}
