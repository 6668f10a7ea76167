//! Seed 003's figures: disk operations and the time of SendMail against memory, CPU by role.

use posthaste_load_results::{
    Analysis, Curve, Offered, Plot, RunResult, ServerCost, StudyPoint, Summary, Table,
};

use super::points::{Points, figure, memory_mb, plot};
use super::roles;
use super::spread::{PointRuns, shown, spread};
use crate::settings::SENT_BY;

/// The ratio to the time with the most memory, up to which a server is not past the knee.
const KNEE_FACTOR: f64 = 1.2;

/// The article's knee. Its times have no figure.
const ARTICLE_KNEE: &str = "in the article the big improvements are at 24 and 32 GB, of 16 to 64 GB";

/// The least memory at which, and above which, a server is about as fast as with the
/// most. The article's knee is beside it.
fn knee(times: &Curve) -> Option<String> {
    let (most, best) = *times.points.last()?;
    let fast = times.points.iter().rev().take_while(|p| p.1 <= best * KNEE_FACTOR);
    let (least, time) = *fast.last()?;
    let name = &times.name;
    let enough = format!(
        "{name}: with {least} MB SendMail takes {} ms, within 20 % of what it takes with {most} MB",
        figure(time)
    );
    let slower = times.points.iter().rev().find(|p| p.0 < least);
    let slower =
        slower.map_or(String::new(), |(mb, ms)| format!("; with {mb} MB it takes {} ms", figure(*ms)));
    Some(format!("{enough}{slower}; {ARTICLE_KNEE}"))
}

/// The transaction whose time the article has: of a workload with others, it alone.
pub(super) fn send_mail(run: &RunResult) -> &Summary {
    run.transactions.iter().find(|t| t.name == "SendMail").map_or(&run.total, |t| &t.summary)
}

/// Disk operations of both kinds.
fn operation_rate(run: &RunResult) -> Option<f64> {
    rate(run, |s| &s.disk_operations)
}

/// Operations that write: all but those that read.
fn write_rate(run: &RunResult) -> Option<f64> {
    Some(operation_rate(run)? - rate(run, |s| &s.disk_read_operations)?)
}

/// A server's disk operations with the least and the most memory, beside the article's.
fn fewer_operations(points: Points, server: &str) -> Option<String> {
    let curve = points.curve(server, "memory_mb", |point| point.server == server, operation_rate);
    let (least, most) = (curve.points.first()?.0, curve.points.last()?.0);
    let has = |point: &StudyPoint, mb: f64| point.server == server && point.at.get("memory_mb") == Some(&mb);
    let with = |mb: f64| shown(spread(points, server, |point| has(point, mb), operation_rate));
    let change = points.gain(|point| has(point, most), ("memory_mb", least), operation_rate);
    let change = change.filter(|_| most > least)?.change();
    Some(format!(
        "{server}: {} disk operations a second with {least} MB and {} with {most} MB: {change}; in the article 1,921 with \
         16 GB, significantly fewer with 24 and 32 GB, and little less with up to 64 GB",
        with(least),
        with(most)
    ))
}

/// The work of the server, per second.
fn rate(run: &RunResult, of: fn(&ServerCost) -> &Offered<u64>) -> Option<f64> {
    let server = run.server.as_ref()?;
    Some(*of(server).value()? as f64 / server.seconds)
}

/// The mean size of a disk operation: the article says that they became larger.
fn kb_for_each_operation(run: &RunResult) -> Option<f64> {
    let server = run.server.as_ref()?;
    let (read, written) = (server.disk_read_bytes.value()?, server.disk_write_bytes.value()?);
    let operations = *server.disk_operations.value()?;
    (operations > 0).then(|| (read + written) as f64 / operations as f64 / 1e3)
}

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let x = "memory of the server (MB)";
    let by = |of: fn(&RunResult) -> Option<f64>| points.by_server("memory_mb", of);
    let mut plots = vec![
        plot("Disk operations", x, "disk operations per second", by(operation_rate)),
        plot(
            "Disk operations that read",
            x,
            "disk operations per second",
            by(|r| rate(r, |s| &s.disk_read_operations)),
        ),
        plot("Disk operations that write", x, "disk operations per second", by(write_rate)),
        plot("Read from disk", x, "MB per second", by(|r| Some(rate(r, |s| &s.disk_read_bytes)? / 1e6))),
        plot("Written to disk", x, "MB per second", by(|r| Some(rate(r, |s| &s.disk_write_bytes)? / 1e6))),
        plot("Time of SendMail, mean", x, "response time (ms)", by(|r| Some(send_mail(r).mean_ms))),
        plot("Time of SendMail, 95 %", x, "response time (ms)", by(|r| Some(send_mail(r).p95_ms))),
        plot("Memory used", x, "PSS, highest (MB)", by(memory_mb)),
    ];
    plots.push(roles_plot(points, x));
    plots.retain(|p| !p.curves.is_empty());
    for plot in &mut plots {
        plot.log_x = true;
        // With less memory than a server needs, its times grow a hundredfold.
        plot.log_y = plot.y.ends_with("(ms)");
    }
    let times = by(|r| Some(send_mail(r).mean_ms).filter(|_| send_mail(r).count > 0));
    let mut findings: Vec<String> = times.iter().filter_map(knee).collect();
    findings.extend(points.servers().filter_map(|server| fewer_operations(points, server)));
    Analysis {
        findings,
        plots,
        tables: vec![times_table(points), roles_table(points)],
        ..Analysis::default()
    }
}

fn memory_cell(place: &PointRuns) -> String {
    place.point.at.get("memory_mb").map_or("–".into(), f64::to_string)
}

/// What the article has of SendMail and disk operations, below the columns of [`times_table`].
const ARTICLE: [[&str; 11]; 3] = [
    ["the article", "16 GB", "–", "longest", "–", "–", "1,921", "–", "–", "–", "the same"],
    ["the article", "24 and 32 GB", "–", "much less", "–", "–", "far fewer", "–", "–", "–", "the same"],
    ["the article", "up to 64 GB", "–", "little less", "–", "–", "little fewer", "–", "–", "–", "the same"],
];

/// SendMail at each point, with the way in which it was sent. Below are the article's figures.
fn times_table(points: Points) -> Table {
    let head = [
        "Server",
        "memory (MB)",
        "SendMail by",
        "SendMail, mean (ms)",
        "95 % (ms)",
        "done",
        "disk operations per s",
        "of these that read",
        "of these that write",
        "kB for each disk operation",
        "CPU (% of the server's processors)",
    ];
    let row = |place: &PointRuns| {
        let by = place.runs.iter().find_map(|run| run.settings.get(SENT_BY));
        let sent = |of: fn(&Summary) -> f64| {
            place.cell(|run| Some(send_mail(run)).filter(|mail| mail.count > 0).map(of))
        };
        vec![
            place.point.server.clone(),
            memory_cell(place),
            by.map_or("–".to_owned(), |by| format!("by {by}")),
            sent(|mail| mail.mean_ms),
            sent(|mail| mail.p95_ms),
            place.cell(|run| Some(send_mail(run).count as f64)),
            place.cell(operation_rate),
            place.cell(|run| rate(run, |s| &s.disk_read_operations)),
            place.cell(write_rate),
            place.cell(kb_for_each_operation),
            place.cell(|run| Some(run.server.as_ref()?.cpu_percent)),
        ]
    };
    let mut rows: Vec<Vec<String>> = points.places().iter().map(row).collect();
    if !rows.is_empty() {
        rows.extend(ARTICLE.map(|article| article.map(str::to_owned).to_vec()));
    }
    Table { title: "SendMail at each size of memory".into(), head: head.map(str::to_owned).to_vec(), rows }
}

/// Names of the roles of some runs, the first run's first.
fn role_names<'r>(runs: impl Iterator<Item = &'r RunResult>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in runs.flat_map(roles::of).filter(|(_, seconds)| *seconds > 0.0) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn roles_table(points: Points) -> Table {
    let mut rows = Vec::new();
    for place in points.places() {
        let (server, memory) = (place.point.server.clone(), memory_cell(&place));
        for name in role_names(place.runs.iter().copied()) {
            let percent = place.cell(|run| roles::percent(run, &name));
            let seconds = place.cell(|run| roles::seconds(run, &name));
            rows.push(vec![server.clone(), memory.clone(), name, percent, seconds]);
        }
        let all = "all, by the system's account".to_owned();
        let percent = place.cell(|run| Some(run.server.as_ref()?.cpu_percent));
        let seconds = place.cell(|run| run.server.as_ref().map(|s| s.cpu_user_s + s.cpu_system_s));
        rows.push(vec![server, memory, all, percent, seconds]);
    }
    if !rows.is_empty() {
        let article = ["the article", "16 to 64 GB", "each of three", "the same at all sizes", "–"];
        rows.push(article.map(str::to_owned).to_vec());
    }
    let head = ["Server", "memory (MB)", "role", "CPU (% of the server's processors)", "CPU (s)"];
    Table { title: "CPU by role".into(), head: head.map(str::to_owned).to_vec(), rows }
}

/// The article's chart: a curve for each role of each server.
fn roles_plot(points: Points, x: &str) -> Plot {
    let mut curves = Vec::new();
    for server in points.servers() {
        let own = points.measured().filter(|(point, _)| point.server == server).map(|(_, run)| run);
        for name in role_names(own) {
            let percent = |run: &RunResult| roles::percent(run, &name);
            let of = |point: &StudyPoint| point.server == server;
            curves.push(points.curve(&format!("{server}, {name}"), "memory_mb", of, percent));
        }
    }
    plot("CPU by role", x, "CPU (% of the server's processors)", curves)
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Role, Transaction};

    use super::super::sample;
    use super::*;

    fn point(server: &str, memory_mb: f64, by: &str) -> StudyPoint {
        let mut run = sample::run(2.0, 40);
        let role = |name: &str, cpu_s: f64| Role { name: name.into(), cpu_s, processes: 1 };
        let roles = vec![role("imap", 1.5), role("lmtp", 0.5)];
        run.server = run.server.map(|server| ServerCost { cpu_percent: 40.0, roles, ..server });
        run.settings.insert(SENT_BY.into(), by.into());
        let summary = Summary { count: 4, mean_ms: 12.0, p95_ms: 30.0, ..Summary::default() };
        run.transactions = vec![Transaction { name: "SendMail".into(), summary, ..Transaction::default() }];
        sample::point(server, &[("memory_mb", memory_mb)], run)
    }

    #[test]
    fn the_way_of_sendmail_and_cpu_by_role_are_in_the_tables() {
        let servers = sample::servers(["A", "B"]);
        let without = "LMTP: offers no submission";
        let points =
            [point("A", 64.0, "submission"), point("A", 128.0, "submission"), point("B", 64.0, without)];
        let analysis = analyse(Points { servers: &servers, points: &points });
        let [times, roles] = &analysis.tables[..] else { panic!("{:?}", analysis.tables) };
        assert_eq!(
            times.rows[0][..6],
            ["A", "64", "by submission", "12.0", "30.0", "4.00"].map(str::to_owned)
        );
        assert_eq!(times.rows[2][2], "by LMTP: offers no submission");
        assert_eq!(roles.rows[0], ["A", "64", "imap", "30.0", "1.50"]);
        assert_eq!(roles.rows[2], ["A", "64", "all, by the system's account", "40.0", "2.00"]);
        let last = |table: &Table| table.rows.last().unwrap().clone();
        assert_eq!(last(roles)[1..4], ["16 to 64 GB", "each of three", "the same at all sizes"]);
        assert_eq!((times.rows.len(), last(times)[1].as_str()), (6, "up to 64 GB"));
        let plot = analysis.plots.iter().find(|plot| plot.title == "CPU by role").unwrap();
        assert_eq!(plot.curves[0].points, [(64.0, 30.0), (128.0, 30.0)]);
        assert_eq!((plot.curves.len(), plot.curves[3].name.as_str()), (4, "B, lmtp"));
    }

    #[test]
    fn disk_operations_have_their_kind_and_size_where_these_are_counted() {
        let servers = sample::servers(["A"]);
        let (known, unknown) = (point("A", 64.0, "submission"), point("A", 128.0, "submission"));
        let mut points = [known, unknown];
        if let Ok(run) = &mut points[0].run
            && let Some(server) = &mut run.server
        {
            server.disk_operations = Offered::Value(10);
            server.disk_read_operations = Offered::Value(7);
            server.disk_read_bytes = Offered::Value(300_000);
            server.disk_write_bytes = Offered::Value(20_000);
        }
        let table = times_table(Points { servers: &servers, points: &points });
        let column = |name: &str| {
            let at = table.head.iter().position(|head| head == name).unwrap();
            [table.rows[0][at].as_str(), table.rows[1][at].as_str()]
        };
        assert_eq!(column("kB for each disk operation"), ["32.0", "–"]);
        assert_eq!(column("of these that read"), ["7.00", "–"]);
        assert_eq!(column("of these that write"), ["3.00", "–"]);
    }

    #[test]
    fn disk_operations_with_the_least_and_the_most_memory_are_beside_the_articles() {
        let servers = sample::servers(["A", "B"]);
        let counted = |memory_mb: f64, round: u32, operations: u64| {
            let mut point = StudyPoint { round, ..point("A", memory_mb, "submission") };
            let server = point.run.as_mut().unwrap().server.as_mut().unwrap();
            (server.disk_operations, server.seconds) = (Offered::Value(operations), 2.0);
            point
        };
        // The machine is slower in round 1. Nobody counts those of B.
        let points = [
            counted(64.0, 0, 200),
            counted(128.0, 0, 150),
            counted(256.0, 0, 100),
            counted(64.0, 1, 100),
            counted(256.0, 1, 40),
            point("B", 64.0, "submission"),
        ];
        let findings = analyse(Points { servers: &servers, points: &points }).findings;
        let said: Vec<&String> = findings.iter().filter(|said| said.contains("disk operations")).collect();
        assert_eq!(said.len(), 1, "{findings:?}");
        let ours = "A: 75.0 (50.0–100) disk operations a second with 64 MB and 35.0 (20.0–50.0) with 256 MB: -55 % (-60 \
                    to -50); in the article 1,921 with 16 GB, ";
        assert!(said[0].starts_with(ours), "{said:?}");
        // One size of memory shows no difference.
        let points = Points { servers: &servers, points: &points[..1] };
        assert_eq!(fewer_operations(points, "A"), None);
        let table = times_table(points);
        assert_eq!((table.rows[1][6].as_str(), table.rows[1].len()), ("1,921", table.head.len()));
    }

    #[test]
    fn the_least_memory_that_is_enough_is_named() {
        let curve =
            |points: &[(f64, f64)]| Curve { name: "A".into(), points: points.to_vec(), fitted: false };
        let said = knee(&curve(&[(32.0, 5000.0), (128.0, 20.0), (512.0, 19.0)])).unwrap();
        assert!(
            said.starts_with("A: with 128 MB SendMail takes 20")
                && said.contains(
                    "with 32 MB it takes 5,000 ms; in the article the big improvements are at 24 and"
                ),
            "{said}"
        );
        assert!(knee(&curve(&[(32.0, 10.0), (64.0, 10.0)])).unwrap().starts_with("A: with 32 MB"));
        assert_eq!(knee(&curve(&[])), None);
    }
}
