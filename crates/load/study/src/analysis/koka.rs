//! Seed 004's figures: throughput against clients in both mixes, response time of each transaction,
//! user and kernel time. Then scale-up by processors ([`scale_up`]), and processor counters and
//! hottest functions where offered.

use posthaste_load_results::{
    Analysis, Curve, Offered, Plot, RunResult, ServerCost, StudyPoint, Summary, Table,
};

use super::koka_parts::{Part, part, processors, shown_places, think};
use super::points::{Points, articles_mark, figure, memory_mb, mix, plot};
use super::spread::PointRuns;
use super::{bottleneck, extremes, scale_up, shares, simulated};

/// Functions of each server and mix in the table of the hottest.
const HOTTEST: usize = 10;

/// Users beyond which the article's throughput falls, when managing.
const ARTICLE_MOST: f64 = 90.0;

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let each = |swept: &str, wanted: Part, of: fn(&RunResult) -> Option<f64>| -> Vec<Curve> {
        let mut curves = Vec::new();
        for workload in points.workloads() {
            for server in points.servers() {
                let pass = |p: &StudyPoint| p.server == server && p.workload == workload && part(p) == wanted;
                curves.push(points.curve(&format!("{server}, {}", mix(workload)), swept, pass, of));
            }
        }
        curves
    };
    let x = "virtual users";
    let throughput = each("clients", Part::Throughput, |r| Some(r.total.rate_per_s));
    let mut findings: Vec<String> = throughput.iter().filter_map(best).collect();
    let mut p99 = plot(
        "Response time, 99 %",
        x,
        "response time (ms)",
        each("clients", Part::Throughput, |r| Some(r.total.p99_ms)),
    );
    p99.log_y = true;
    let mut plots: Vec<Plot> = vec![
        against_clients(throughput),
        p99,
        plot(
            "Median response time",
            x,
            "response time (ms)",
            each("clients", Part::Throughput, |r| Some(r.total.p50_ms)),
        ),
        plot(
            "Server CPU per transaction",
            x,
            "megacycles per transaction",
            each("clients", Part::Throughput, |r| r.server.as_ref()?.megacycles_per_transaction),
        ),
        plot("Server memory", x, "PSS, highest (MB)", each("clients", Part::Throughput, memory_mb)),
        plot(
            "Kernel's share of server CPU",
            x,
            "kernel time (% of CPU)",
            each("clients", Part::Throughput, kernel_percent),
        ),
    ];
    findings.extend(extremes::findings(points));
    findings.extend(scale_up::findings(points));
    plots.extend(scale_up::plots(points));
    plots.extend(std::iter::once(thinking(points)).chain(each_transaction(points)));
    let mut tables = times(points);
    tables.extend(scale_up::table(points));
    tables.push(split(points));
    tables.extend(shares::table(points).into_iter().chain(hottest(points)).chain(simulated::tables(points)));
    findings.extend(shares::findings(points).into_iter().chain(bottlenecks(points)));
    Analysis {
        findings,
        plots: plots.into_iter().filter(|p| !p.curves.is_empty()).collect(),
        tables,
        ..Analysis::default()
    }
}

/// Figure 1, with the users beyond which the article's throughput falls.
fn against_clients(throughput: Vec<Curve>) -> Plot {
    let mut plot = plot("Throughput", "virtual users", "transactions per second", throughput);
    plot.marks.extend(articles_mark(&plot.curves, ARTICLE_MOST));
    plot
}

/// What limited each server in each mix, with the most users. The article's disks were full of
/// small operations beyond 90.
fn bottlenecks(points: Points) -> Vec<String> {
    let clients = |point: &StudyPoint| point.at.get("clients").copied().unwrap_or(0.0);
    let mut said = Vec::new();
    for workload in points.workloads() {
        for server in points.servers() {
            let is_of =
                |p: &StudyPoint| p.server == server && p.workload == workload && part(p) == Part::Throughput;
            let mine = points.measured().filter(|(point, _)| is_of(point));
            let Some((point, run)) = mine.max_by(|a, b| clients(a.0).total_cmp(&clients(b.0))) else {
                continue;
            };
            let Some(sentence) = bottleneck::sentence(run) else { continue };
            said.push(format!("{server}, {}, {} users: {sentence}", mix(workload), clients(point)));
        }
    }
    said
}

pub(super) fn kernel_percent(run: &RunResult) -> Option<f64> {
    let s = run.server.as_ref()?;
    let all = s.cpu_user_s + s.cpu_system_s;
    (all > 0.0).then(|| s.cpu_system_s / all * 100.0)
}

fn best(curve: &Curve) -> Option<String> {
    let (x, y) = *curve.points.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!("{}: at most {} transactions per second, with {x} users", curve.name, figure(y)))
}

/// The throughput of users who think, in each mix on each server.
fn thinking(points: Points) -> Plot {
    let mut curves = Vec::new();
    for workload in points.workloads() {
        for server in points.servers() {
            let pass =
                |p: &StudyPoint| p.server == server && p.workload == workload && part(p) == Part::Times;
            let name = format!("{server}, {}", mix(workload));
            curves.push(points.curve(&name, "clients", pass, |run| Some(run.total.rate_per_s)));
        }
    }
    plot("Throughput with think time", "virtual users", "transactions per second", curves)
}

/// Figures 2 and 3: the mean response time of each transaction against the users, a plot for each
/// mix and server, without think time and with it.
fn each_transaction(points: Points) -> Vec<Plot> {
    let mut plots = Vec::new();
    for workload in points.workloads() {
        for wanted in [Part::Throughput, Part::Times] {
            plots.extend(points.servers().map(|server| curves_of_each(points, workload, server, wanted)));
        }
    }
    plots
}

/// A curve for each transaction of a mix on a server, in one part of the study.
fn curves_of_each(points: Points, workload: &str, server: &str, wanted: Part) -> Plot {
    let pass = |p: &StudyPoint| p.server == server && p.workload == workload && part(p) == wanted;
    let first = points.measured().find(|(p, _)| pass(p));
    let names = first.map_or_else(Vec::new, |(_, r)| r.transactions.iter().map(|t| t.name.clone()).collect());
    let curve = |name: &String| {
        points.curve(name, "clients", pass, |run| {
            let times = &run.transactions.iter().find(|t| t.name == *name)?.summary;
            (times.count > 0).then_some(times.mean_ms)
        })
    };
    let (name, think) = (mix(workload), think(wanted));
    let title = format!("Response time of each transaction, {name} mix, {server}, {think} think time");
    // One number of users makes no curve; the tables have it.
    let curves = names.iter().map(curve).filter(|c| c.points.len() > 1).collect();
    let mut plot = plot(&title, "virtual users", "response time, mean (ms)", curves);
    plot.log_y = true;
    plot
}

/// For each mix: times of each transaction on each server, at [`shown_places`].
fn times(points: Points) -> Vec<Table> {
    let mut tables = Vec::new();
    for workload in points.workloads() {
        for wanted in [Part::Throughput, Part::Times] {
            let places = shown_places(points, workload, wanted);
            let Some(first) = places.first() else { continue };
            let title = format!(
                "Response times, {} mix, {} users {} think time",
                mix(workload),
                first.clients(),
                think(wanted)
            );
            tables.push(times_table(title, &places));
        }
    }
    tables
}

fn times_table(title: String, places: &[PointRuns]) -> Table {
    let mut head = vec!["Transaction".to_owned()];
    for server in places.iter().map(|place| &place.point.server) {
        head.extend([format!("{server}, median (ms)"), format!("{server}, 99 % (ms)")]);
    }
    let row = |name: &String| {
        let mut row = vec![name.clone()];
        for place in places {
            let times = |of: fn(&Summary) -> f64| {
                place.cell(|run| {
                    let times = &run.transactions.iter().find(|t| t.name == *name)?.summary;
                    (times.count > 0).then(|| of(times))
                })
            };
            row.extend([times(|t| t.p50_ms), times(|t| t.p99_ms)]);
        }
        row
    };
    let first = places.first().and_then(|place| place.runs.first());
    let names: Vec<String> =
        first.map_or_else(Vec::new, |r| r.transactions.iter().map(|t| t.name.clone()).collect());
    Table { title, head, rows: names.iter().map(row).collect() }
}

/// The functions each server spends its CPU in, in each mix; nothing if no point requested them.
fn hottest(points: Points) -> Option<Table> {
    let head = ["Server", "mix", "users", "share of CPU (%)", "program", "in", "function"];
    let mut rows = Vec::new();
    for (point, run) in points.measured() {
        let Some(found) = run.server.as_ref().and_then(|s| s.hottest.as_ref()) else { continue };
        let place = [point.server.clone(), mix(&point.workload).to_owned(), run.clients.to_string()];
        match found {
            Offered::NotOffered(why) => {
                let mut row = place.to_vec();
                row.push(format!("not offered here: {why}"));
                row.resize(head.len(), String::new());
                rows.push(row);
            }
            Offered::Value(functions) => rows.extend(functions.iter().take(HOTTEST).map(|f| {
                let object = if f.kernel { "kernel".to_owned() } else { f.object.clone() };
                let what = [figure(f.percent), f.program.clone(), object, f.function.clone()];
                place.iter().cloned().chain(what).collect()
            })),
        }
    }
    let title = "Hottest functions (perf record, in a run of their own)".to_owned();
    (!rows.is_empty()).then(|| Table { title, head: head.map(str::to_owned).to_vec(), rows })
}

/// The settings that differ from the default: `2 processors`, `4 s`.
fn setting(point: &StudyPoint) -> String {
    let cpus = point.at.get("cpus").map(|n| processors(*n));
    let think = point.at.get("think_s").map(|s| format!("{s} s"));
    let parts: Vec<String> = cpus.into_iter().chain(think).collect();
    if parts.is_empty() { "all, none".into() } else { parts.join(", ") }
}

/// The generator's CPU in percent of the machine's processors.
fn generator_percent(run: &RunResult) -> Option<f64> {
    let seconds = run.server.as_ref().map(|server| server.seconds).filter(|seconds| *seconds > 0.0)?;
    let used = run.generator.cpu_user_s + run.generator.cpu_system_s;
    Some(used / seconds / f64::from(run.machine.cpus.max(1)) * 100.0)
}

/// Use of the processors, user and kernel time, switches and counters of every point. Below them is
/// what the article has of these.
fn split(points: Points) -> Table {
    let head = [
        "Server",
        "mix",
        "users",
        "processors, think time",
        "CPU (%)",
        "generator (% of the machine)",
        "CPU user (s)",
        "CPU kernel (s)",
        "kernel (%)",
        "context switches",
        "cycles per instruction",
        "cache misses",
    ];
    let places = points.places();
    let rows = places.iter().filter(|place| place.runs.iter().any(|run| run.server.is_some())).map(|place| {
        let cell = |of: fn(&ServerCost) -> Option<f64>| place.cell(|run| of(run.server.as_ref()?));
        let offered = |of: fn(&ServerCost) -> Option<f64>| place.offered(|run| of(run.server.as_ref()?));
        vec![
            place.point.server.clone(),
            mix(&place.point.workload).to_owned(),
            place.clients().to_string(),
            setting(place.point),
            cell(|s| Some(s.cpu_percent)),
            place.cell(generator_percent),
            cell(|s| Some(s.cpu_user_s)),
            cell(|s| Some(s.cpu_system_s)),
            place.cell(kernel_percent),
            offered(|s| s.context_switches.value().map(|n| *n as f64)),
            offered(|s| s.counters.value().map(|c| c.cpi)),
            offered(|s| s.counters.value().map(|c| c.cache_misses as f64)),
        ]
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        let place = ["the article", "both", "200", "18 processors, 4 s"];
        let article = ["95", "at most 2", "–", "–", "15", "–", "–", "–"];
        rows.push(place.into_iter().chain(article).map(str::to_owned).collect());
    }
    let title = "What the server's CPU was spent on".into();
    Table { title, head: head.map(str::to_owned).to_vec(), rows }
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Summary, Transaction};

    use super::super::sample::{self, run};
    use super::*;

    #[test]
    fn the_articles_use_of_the_processors_is_below_ours() {
        let servers = sample::servers(["A"]);
        let mut run = run(3.0, 10);
        let busy = ServerCost { cpu_system_s: 1.0, cpu_percent: 50.0, seconds: 4.0, ..ServerCost::default() };
        run.server = Some(ServerCost { cpu_user_s: 3.0, ..busy });
        run.machine.cpus = 2;
        (run.generator.cpu_user_s, run.generator.cpu_system_s) = (0.5, 0.3);
        let workload = "koka-browse-frequencies".into();
        let point = StudyPoint { workload, ..sample::point("A", &[("clients", 8.0)], run) };
        let table = split(Points { servers: &servers, points: &[point] });
        let column = |head: &str| -> Vec<&str> {
            let at = table.head.iter().position(|found| found == head).unwrap();
            table.rows.iter().map(|row| row[at].as_str()).collect()
        };
        assert_eq!(column("CPU (%)"), ["50.0", "95"]);
        assert_eq!(column("generator (% of the machine)"), ["10.0", "at most 2"]);
        assert_eq!(column("kernel (%)"), ["25.0", "15"]);
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        assert!(split(Points { servers: &servers, points: &[] }).rows.is_empty());
    }

    #[test]
    fn what_limited_each_mix_is_named_at_the_most_users() {
        let servers = sample::servers(["A"]);
        let point = |clients: f64, cpu_percent: f64| {
            let mut run = run(1.0, 10);
            run.server = run.server.map(|server| ServerCost { cpu_percent, ..server });
            let workload = "koka-browse-frequencies".into();
            StudyPoint { workload, ..sample::point("A", &[("clients", clients)], run) }
        };
        let mut thinking = point(400.0, 1.0);
        thinking.at.insert("think_s".into(), 4.0);
        let points = [point(90.0, 99.0), point(120.0, 80.0), point(30.0, 99.0), thinking];
        let said = bottlenecks(Points { servers: &servers, points: &points });
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("A, browse, 120 users: CPU (80.0 %): limited it; "), "{said:?}");
    }

    #[test]
    fn the_users_beyond_which_the_articles_throughput_falls_are_marked() {
        let servers = sample::servers(["A"]);
        let workload = "koka-manage-frequencies".to_owned();
        let points = [30.0, 90.0].map(|clients| {
            let point = sample::point("A", &[("clients", clients)], run(1.0, 10));
            StudyPoint { workload: workload.clone(), ..point }
        });
        let marks = |points: &[StudyPoint]| {
            let plots = analyse(Points { servers: &servers, points }).plots;
            plots.into_iter().find(|plot| plot.title == "Throughput").unwrap().marks
        };
        assert_eq!(marks(&points), [("the article: 90".to_owned(), "x".to_owned(), 90.0)]);
        assert!(marks(&points[..1]).is_empty());
    }

    #[test]
    fn each_transaction_has_a_curve_against_the_users() {
        let servers = sample::servers(["A"]);
        let point = |clients: f64, mean_ms: f64, count: u64| {
            let mut run = run(1.0, 10);
            let times = |name: &str, count| Transaction {
                name: name.into(),
                summary: Summary { count, mean_ms, ..Summary::default() },
                ..Transaction::default()
            };
            run.transactions = vec![times("SELT", 5), times("CRTE", count)];
            let workload = "koka-browse-frequencies".into();
            StudyPoint { workload, ..sample::point("A", &[("clients", clients)], run) }
        };
        let thinking = |clients: f64, mean_ms: f64| {
            let mut point = point(clients, mean_ms, 5);
            point.at.insert("think_s".into(), 4.0);
            let run = point.run.as_mut().unwrap();
            (run.clients, run.total.rate_per_s) = (clients as u32, clients / 4.0);
            point
        };
        // CRTE was done at one point alone.
        let points = [
            point(10.0, 2.0, 0),
            point(30.0, 6.0, 1),
            thinking(50.0, 1.0),
            thinking(200.0, 1.5),
            thinking(400.0, 9.0),
        ];
        let points = Points { servers: &servers, points: &points };
        let plots = each_transaction(points);
        let curves = |at: usize| -> Vec<(&str, &[(f64, f64)])> {
            plots[at].curves.iter().map(|c| (c.name.as_str(), &c.points[..])).collect()
        };
        assert_eq!(plots[0].title, "Response time of each transaction, browse mix, A, without think time");
        assert_eq!(curves(0), [("SELT", &[(10.0, 2.0), (30.0, 6.0)][..])]);
        assert_eq!(plots[1].title, "Response time of each transaction, browse mix, A, with think time");
        let slower = [(50.0, 1.0), (200.0, 1.5), (400.0, 9.0)];
        assert_eq!(curves(1), [("SELT", &slower[..]), ("CRTE", &slower[..])]);
        let drawn = analyse(points).plots;
        let rates = drawn.iter().find(|plot| plot.title == "Throughput with think time").unwrap();
        assert_eq!(rates.curves[0].points, [(50.0, 12.5), (200.0, 50.0), (400.0, 100.0)]);
        assert_eq!((rates.curves.len(), rates.curves[0].name.as_str()), (1, "A, browse"));
        // The table is that of the article's 200 users.
        let tables = times(points);
        assert_eq!(tables[1].title, "Response times, browse mix, 200 users with think time");
    }
}
