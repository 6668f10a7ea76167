//! The part of a report that is about runs: one with everything, or several laid over each other.

use posthaste_load_results::{
    Counters, MemoryLimit, NamedSummary, Network, Offered, Pressure, PressureOf, RunResult, ServerCost,
    Summary, UserKindResult, Waits,
};
use posthaste_load_text::figure::{bytes, figure, percent, whole};

use crate::markup::Markup;
use crate::metric::METRICS;
use crate::paths::without_folders;
use crate::run_plots::{NamedRun, figures};
use crate::table::{Cell, Table, faults as faults_cell};
use crate::{compare, counted, facts, faults, generators};

/// Prints everything about these runs.
pub fn section(runs: &[NamedRun], out: &mut Markup) {
    match runs {
        [] => {}
        [(_, run)] => one(run, out),
        many => several(many, out),
    }
}

fn one(run: &RunResult, out: &mut Markup) {
    tiles(run, out);
    plots(&[(run.label.clone(), run)], out);
    details(run, out);
    out.element("h2", &[], "How it was measured");
    facts::of_run(run, out);
}

fn several(runs: &[NamedRun], out: &mut Markup) {
    out.element("h2", &[], "Runs beside each other");
    let first = format!("Quiet figures: how many times {}.", runs[0].0);
    out.element("p", &[("class", &"quiet")], &first);
    compare::metrics(runs, out);
    plots(runs, out);
    out.element("h3", &[], "Median response time (ms)");
    compare::times(runs, |s| s.p50_ms, out);
    out.element("h3", &[], "Response time, 99 % (ms)");
    compare::times(runs, |s| s.p99_ms, out);
    for (name, run) in runs {
        out.element("h2", &[], name);
        details(run, out);
        facts::of_run(run, out);
    }
}

fn plots(runs: &[NamedRun], out: &mut Markup) {
    out.raw("<div class=\"plots\">\n");
    for figure in figures(runs) {
        figure.draw(out);
    }
    out.raw("</div>\n");
}

/// The figures a run is summed up in.
fn tiles(run: &RunResult, out: &mut Markup) {
    out.raw("<div class=\"tiles\">");
    let keys = [
        "throughput_per_s",
        "p50_ms",
        "p99_ms",
        "server_cpu_percent",
        "megacycles_per_transaction",
        "megacycles_per_message",
        "pss_max_mb",
    ];
    for metric in METRICS.iter().filter(|m| keys.contains(&m.key)) {
        let Some(value) = (metric.of)(run) else { continue };
        out.raw("<div class=\"tile\">").element("div", &[("class", &"figure")], &figure(value));
        let name = format!("{}, {}", metric.name, metric.unit);
        out.element("div", &[("class", &"name")], &name).close("div");
    }
    out.raw("</div>\n");
}

/// The tables of a run.
pub fn details(run: &RunResult, out: &mut Markup) {
    faults::errors(&run.errors, out);
    faults::audit(run.audit.as_ref(), out);
    generators::section(run, out);
    kinds(&run.kinds, out);
    out.element("h3", &[], "Transactions in the measured window");
    transactions(run, out);
    if !run.commands.is_empty() {
        out.element("h3", &[], "Protocol commands");
        commands(&run.commands, out);
    }
    if let Some(server) = &run.server {
        out.element("h3", &[], "What the server used");
        cost(server, out);
    }
    counted::section(run, out);
    out.element("h3", &[], "What the generator used");
    generator(run, out);
    faults::slowest(&run.slowest, out);
}

const TIMES: [&str; 12] = [
    "count", "per s", "mean ms", "50 %", "90 %", "95 %", "99 %", "99.9 %", "longest", "errors", "received",
    "sent",
];

/// A column for each kind of users: how they fared beside each other.
fn kinds(kinds: &[UserKindResult], out: &mut Markup) {
    if kinds.is_empty() {
        return;
    }
    out.element("h3", &[], "Kinds of users");
    let mut table = Table { head: vec![String::new()], ..Table::default() };
    table.head.extend(kinds.iter().map(|kind| kind.workload.clone()));
    let mut row = |name: &str, of: &dyn Fn(&UserKindResult) -> Cell| {
        let cells = [Cell::from(name.to_owned())].into_iter().chain(kinds.iter().map(of));
        table.rows.push(cells.collect());
    };
    row("users", &|kind| whole(u64::from(kind.clients)).into());
    row("transactions", &|kind| whole(kind.total.count).into());
    row("per second", &|kind| figure(kind.total.rate_per_s).into());
    type Time = (&'static str, fn(&Summary) -> f64);
    let times: [Time; 5] = [
        ("mean (ms)", |s| s.mean_ms),
        ("50 % (ms)", |s| s.p50_ms),
        ("95 % (ms)", |s| s.p95_ms),
        ("99 % (ms)", |s| s.p99_ms),
        ("longest (ms)", |s| s.max_ms),
    ];
    for (name, of) in times {
        row(name, &|kind| match kind.total.count {
            0 => Cell::from("–".to_owned()),
            _ => Cell::from(figure(of(&kind.total))),
        });
    }
    row("errors", &|kind| faults_cell(kind.total.errors));
    row("received", &|kind| bytes(kind.total.bytes_in).into());
    row("sent", &|kind| bytes(kind.total.bytes_out).into());
    table.draw(out);
}

fn transactions(run: &RunResult, out: &mut Markup) {
    let mut head = vec!["Transaction", "asked", "realised"];
    head.extend(TIMES);
    let redrawn = run.transactions.iter().any(|t| t.redrawn > 0);
    if redrawn {
        head.push("drawn again");
    }
    let mut table = Table { total: true, ..Table::new(&head) };
    for t in &run.transactions {
        let name = Cell { hint: t.description.clone(), ..Cell::from(t.name.clone()) };
        let mut row = vec![name, t.share_asked.map_or("–".into(), percent).into()];
        row.push(percent(t.share_realised).into());
        row.extend(summary(&t.summary));
        if redrawn {
            row.push(whole(t.redrawn).into());
        }
        table.rows.push(row);
    }
    let mut row = vec![Cell::from("all"), Cell::default(), Cell::default()];
    row.extend(summary(&run.total));
    if redrawn {
        row.push(whole(run.transactions.iter().map(|t| t.redrawn).sum()).into());
    }
    table.rows.push(row);
    table.draw(out);
}

fn commands(commands: &[NamedSummary], out: &mut Markup) {
    let mut head = vec!["Command"];
    head.extend(TIMES);
    let mut table = Table::new(&head);
    for command in commands {
        let mut row = vec![Cell::from(command.name.clone())];
        row.extend(summary(&command.summary));
        table.rows.push(row);
    }
    table.draw(out);
}

fn summary(s: &Summary) -> Vec<Cell> {
    let mut row: Vec<Cell> = vec![whole(s.count).into(), figure(s.rate_per_s).into()];
    let times = [s.mean_ms, s.p50_ms, s.p90_ms, s.p95_ms, s.p99_ms, s.p999_ms, s.max_ms];
    row.extend(times.map(|t| Cell::from(if s.count > 0 { figure(t) } else { "–".into() })));
    row.push(faults_cell(s.errors));
    row.extend([s.bytes_in, s.bytes_out].map(|n| Cell::from(bytes(n))));
    row
}

fn cost(server: &ServerCost, out: &mut Markup) {
    let per = |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{} megacycles", figure(v)));
    let offered = |value: &Offered<u64>, show: fn(u64) -> String| match value {
        Offered::Value(n) => show(*n),
        Offered::NotOffered(why) => format!("not offered here: {why}"),
    };
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut rows = vec![
        row("Watched", format!("{} for {} s", without_folders(&server.source), figure(server.seconds))),
        row(
            "CPU",
            format!(
                "{} s user, {} s kernel: {} % of all processors, {} megacycles",
                figure(server.cpu_user_s),
                figure(server.cpu_system_s),
                figure(server.cpu_percent),
                figure(server.megacycles)
            ),
        ),
        row(
            "per session",
            format!("{} in {} sessions", per(server.megacycles_per_session), whole(server.sessions)),
        ),
        row(
            "per message",
            format!("{} in {} messages", per(server.megacycles_per_message), whole(server.messages)),
        ),
        row("per transaction", per(server.megacycles_per_transaction)),
        row("Memory (PSS), mean", offered(&server.pss_mean_bytes, bytes)),
        row("Memory (PSS), highest", offered(&server.pss_max_bytes, bytes)),
        row("without pages of files", offered(&server.pss_own_max_bytes, bytes)),
        row("Processes", server.processes.to_string()),
        row("Disk operations", offered(&server.disk_operations, whole)),
        row("of which read", offered(&server.disk_read_operations, whole)),
        row("Read from disk", offered(&server.disk_read_bytes, bytes)),
        row("Written to disk", offered(&server.disk_write_bytes, bytes)),
        row("Context switches", offered(&server.context_switches, whole)),
    ];
    rows.extend(waits(&server.waits));
    rows.push(row("Processor counters", counters(&server.counters)));
    let roles: Vec<String> = server
        .roles
        .iter()
        .map(|r| format!("{} {} s in {} processes", r.name, figure(r.cpu_s), r.processes))
        .collect();
    if !roles.is_empty() {
        rows.push(row("By program or node", roles.join("; ")));
    }
    Table::words(rows).draw(out);
}

fn counters(counters: &Offered<Counters>) -> String {
    match counters {
        Offered::Value(c) => format!(
            "{} cycles, {} instructions ({} cycles per instruction), {} cache misses",
            whole(c.cycles),
            whole(c.instructions),
            figure(c.cpi),
            whole(c.cache_misses)
        ),
        Offered::NotOffered(why) => format!("not offered here: {why}"),
    }
}

/// The server's possible waits.
fn waits(waits: &Waits) -> Vec<(String, String)> {
    fn offered<T>(value: &Offered<T>, show: impl Fn(&T) -> String) -> String {
        match value {
            Offered::Value(value) => show(value),
            Offered::NotOffered(why) => format!("not offered here: {why}"),
        }
    }
    let waited = |pressure: &Pressure| {
        let whose = match pressure.of {
            PressureOf::Server => "its tasks",
            PressureOf::Machine => "all tasks of the machine",
        };
        let (some, full) = (figure(pressure.some_percent), figure(pressure.full_percent));
        format!("some of {whose} {some} %, all of them {full} % of the time")
    };
    let limit =
        |limit: &MemoryLimit| format!("{}, reached {} times", bytes(limit.bytes), whole(limit.reached));
    let network = |network: &Network| match network {
        Network::Loopback => "loopback".to_owned(),
        Network::Link(speed) => format!("{} a second", bytes(*speed)),
    };
    let busy = |percent: &f64| format!("{} % of the time", figure(*percent));
    vec![
        ("Disk busy".into(), offered(&waits.disk_busy_percent, busy)),
        ("Waiting for a disk".into(), offered(&waits.disk_pressure, waited)),
        ("Waiting for memory".into(), offered(&waits.memory_pressure, waited)),
        ("Limit of memory".into(), offered(&waits.memory_limit, limit)),
        ("Network".into(), offered(&waits.network, network)),
    ]
}

fn generator(run: &RunResult, out: &mut Markup) {
    let own = &run.generator;
    let mut rows = vec![(
        "CPU".to_owned(),
        format!("{} s user, {} s kernel", figure(own.cpu_user_s), figure(own.cpu_system_s)),
    )];
    if let Some(us) = own.cpu_us_per_transaction {
        rows.push(("per transaction".into(), format!("{} µs", figure(us))));
    }
    if let Some(share) = own.share_of_server {
        rows.push(("of the server's".into(), percent(share)));
    }
    rows.push(("Memory, highest".into(), bytes(own.rss_max_bytes)));
    if let Some(others) = own.other_cpus {
        let text =
            format!("{} of {} processors, neither generator nor server", figure(others), run.machine.cpus);
        rows.push(("Other work there".into(), text));
    }
    if let Some(late) = own.late_p99_ms {
        rows.push(("Late by itself, 99 %".into(), format!("{} ms", figure(late))));
    }
    Table::words(rows).draw(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_figures_or_say_that_there_are_none() {
        let found = Waits {
            disk_busy_percent: Offered::Value(12.5),
            disk_pressure: Offered::Value(Pressure {
                some_percent: 3.0,
                full_percent: 1.0,
                of: PressureOf::Server,
            }),
            memory_limit: Offered::Value(MemoryLimit { bytes: 64_000_000, reached: 1_234 }),
            network: Offered::Value(Network::Link(125_000_000)),
            ..Waits::default()
        };
        let rows: Vec<String> = waits(&found).into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            rows,
            [
                "12.5 % of the time",
                "some of its tasks 3.00 %, all of them 1.00 % of the time",
                "not offered here: not recorded",
                "64.0 MB, reached 1,234 times",
                "125 MB a second",
            ]
        );
    }

    #[test]
    fn each_kind_of_users_has_a_column() {
        let kind = |name: &str, clients, p50_ms| UserKindResult {
            workload: name.into(),
            clients,
            total: Summary { count: 5, p50_ms, ..Summary::default() },
            commands: Vec::new(),
        };
        let mut out = Markup::new();
        kinds(&[kind("browse", 75, 1.5), kind("sync", 25, 9.25)], &mut out);
        let page = out.into_string();
        let row = |name: &str| {
            page.split(name).nth(1).unwrap_or_default().split("</tr>").next().unwrap_or("").to_owned()
        };
        assert!(page.contains("browse") && page.contains("sync"), "{page}");
        assert!(row(">users</").contains("75") && row(">users</").contains("25"), "{page}");
        assert!(row(">50 % (ms)<").contains("1.50") && row(">50 % (ms)<").contains("9.25"), "{page}");
        let mut none = Markup::new();
        kinds(&[], &mut none);
        assert_eq!(none.into_string(), "");
    }
}
