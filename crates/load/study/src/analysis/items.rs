//! Seed 000's figures: megacycles per session and per message against items, sessions, and the
//! knee.

use posthaste_load_results::{Analysis, RunResult, ServerCost, StudyPoint, Table};

use super::bottleneck;
use super::points::{Points, articles_mark, figure, memory_mb, own_memory_mb, plot, whole};
use super::spread::{PointRuns, cells_beside_first, heads_beside_first};

/// The ratio to the cost of a message in the flat part, up to which a count is not past the knee.
const KNEE_FACTOR: f64 = 1.2;

/// The article recommends at most so many items in a folder.
const ARTICLE_ITEMS: f64 = 10_000.0;

/// The largest count whose cost per message is within [`KNEE_FACTOR`] of the flat part: the lowest
/// cost of all counts. Small counts bear the fixed cost of a session, so they cost more, as in the
/// article.
pub fn knee(per_message: &[(f64, f64)]) -> Option<(f64, f64)> {
    let flat = per_message.iter().map(|p| p.1).reduce(f64::min)?;
    per_message.iter().rev().find(|p| p.1 <= flat * KNEE_FACTOR).map(|p| (p.0, flat))
}

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let x = "messages in the folder";
    let sessions = points.by_server("items", per_session);
    let messages = points.by_server("items", per_message);
    let rates = points.by_server("items", |r| Some(r.total.rate_per_s));
    let listed =
        points.by_server("items", |r| Some(r.server.as_ref()?.messages as f64 / r.server.as_ref()?.seconds));
    let users = points.by_server("items", |r| Some(f64::from(r.clients)));
    let times = points.by_server("items", session_ms);
    let mut findings: Vec<String> = Vec::new();
    let mut each = plot("Megacycles per message", x, "megacycles per message", messages.clone());
    each.log_x = true;
    for curve in &messages {
        let Some((items, flat)) = knee(&curve.points) else { continue };
        let last = curve.points.last().map_or(0.0, |p| p.0);
        let name = &curve.name;
        let flat = figure(flat);
        if items < last {
            findings.push(format!(
                "{name}: the knee is at {} messages: up to there a message costs within 20 % of the flat part \
                 ({flat} megacycles)",
                whole(items)
            ));
            each.marks.push((format!("knee of {name}"), "x".into(), items));
        } else {
            findings.push(format!(
                "{name}: no knee up to {} messages; a message costs {flat} megacycles at best",
                whole(last)
            ));
        }
    }
    each.marks.extend(articles_mark(&messages, ARTICLE_ITEMS));
    findings.extend(bottlenecks(points));
    let mut each_log = each.clone();
    each_log.title = "Megacycles per message, both axes logarithmic".into();
    each_log.log_y = true;
    findings.extend(ratios(points, "per session", per_session));
    findings.extend(ratios(points, "per message", per_message));
    // Both axes logarithmic: the sizes span four powers of ten.
    let log_log = |title: &str, y: &str, curves| {
        let mut plot = plot(title, x, y, curves);
        (plot.log_x, plot.log_y) = (true, true);
        plot
    };
    let session = log_log("Megacycles per session", "megacycles per session", sessions);
    let rate = log_log("Sessions per second", "sessions per second", rates);
    let listing = log_log("Messages listed per second", "messages per second", listed);
    let time = log_log("Time of a session, median", "response time (ms)", times);
    let mut load = plot("Virtual users it took", x, "virtual users", users);
    load.log_x = true;
    Analysis {
        findings,
        plots: vec![session, each, each_log, rate, time, listing, load],
        tables: vec![
            columns(points),
            table(points, "Megacycles per session", per_session),
            table(points, "Megacycles per message", per_message),
        ],
        ..Analysis::default()
    }
}

fn per_session(run: &RunResult) -> Option<f64> {
    run.server.as_ref()?.megacycles_per_session
}

fn per_message(run: &RunResult) -> Option<f64> {
    run.server.as_ref()?.megacycles_per_message
}

/// The time of a session, from connecting to logging out.
fn session_ms(run: &RunResult) -> Option<f64> {
    (run.total.count > 0).then_some(run.total.p50_ms)
}

/// For each server at its largest count: what limited it, and what is excluded.
fn bottlenecks(points: Points) -> Vec<String> {
    let items = |point: &StudyPoint| point.at.get("items").copied().unwrap_or(0.0);
    let largest = |server: &str| {
        let mine = points.measured().filter(|(p, _)| p.server == server);
        mine.max_by(|a, b| items(a.0).total_cmp(&items(b.0)))
    };
    let said = points.servers().filter_map(|server| {
        let (point, run) = largest(server)?;
        let sentence = bottleneck::sentence(run)?;
        Some(format!("{server} at {} messages: {sentence}", whole(items(point))))
    });
    said.collect()
}

/// The article's columns, with what it only says in words: disk, network, memory.
fn columns(points: Points) -> Table {
    let head = [
        "Server",
        "messages in the folder",
        "virtual users",
        "sessions per s",
        "session, median (ms)",
        "measured (s)",
        "CPU (%)",
        "megacycles per session",
        "megacycles per message",
        "network (MB/s)",
        "disk operations per s",
        "read (MB/s)",
        "written (MB/s)",
        "disk busy (% of the time)",
        "waiting for a disk (% of the time)",
        "memory, PSS (MB)",
        "memory without pages of files (MB)",
        "waiting for memory (% of the time)",
    ];
    let row = |place: &PointRuns| {
        let cell = |of: fn(&ServerCost) -> Option<f64>| place.cell(|run| of(run.server.as_ref()?));
        let offered = |of: fn(&ServerCost) -> Option<f64>| place.offered(|run| of(run.server.as_ref()?));
        vec![
            place.point.server.clone(),
            place.point.at.get("items").map_or("–".to_owned(), |n| whole(*n)),
            place.cell(|run| Some(f64::from(run.clients))),
            place.cell(|run| Some(run.total.rate_per_s)),
            place.cell(session_ms),
            cell(|s| Some(s.seconds)),
            cell(|s| Some(s.cpu_percent)),
            cell(|s| s.megacycles_per_session),
            cell(|s| s.megacycles_per_message),
            place.cell(|run| bottleneck::network_bytes_per_s(run).map(|b| b / 1e6)),
            offered(|s| Some(*s.disk_operations.value()? as f64 / s.seconds)),
            offered(|s| Some(*s.disk_read_bytes.value()? as f64 / s.seconds / 1e6)),
            offered(|s| Some(*s.disk_write_bytes.value()? as f64 / s.seconds / 1e6)),
            offered(|s| s.waits.disk_busy_percent.value().copied()),
            offered(|s| s.waits.disk_pressure.value().map(|p| p.some_percent)),
            place.offered(memory_mb),
            place.offered(own_memory_mb),
            offered(|s| s.waits.memory_pressure.value().map(|p| p.some_percent)),
        ]
    };
    Table {
        title: "What was measured at each size".into(),
        head: head.map(str::to_owned).to_vec(),
        rows: points.places().iter().map(row).collect(),
    }
}

/// The ratios of the other servers' figures to the first's in each round, at the largest count
/// that both have.
fn ratios(points: Points, what: &str, of: fn(&RunResult) -> Option<f64>) -> Vec<String> {
    let Some(first) = points.servers().next() else { return Vec::new() };
    let counts = counts(points);
    let said = points.servers().skip(1).filter_map(|other| {
        let at = |x: &f64| {
            let wanted = |p: &StudyPoint| p.at.get("items") == Some(x);
            Some((*x, points.ratio_at(wanted, (other, first), of)?))
        };
        let (x, times) = counts.iter().rev().find_map(at)?;
        let (x, times) = (whole(x), times.show());
        Some(format!("at {x} messages {other} costs {times} × what {first} does {what}"))
    });
    said.collect()
}

/// The counts of messages that were measured, in order.
fn counts(points: Points) -> Vec<f64> {
    let mut counts: Vec<f64> = points.measured().filter_map(|(p, _)| p.at.get("items").copied()).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    counts
}

/// A row for each count, a column for each server with its ratio to the first.
fn table(points: Points, title: &str, of: fn(&RunResult) -> Option<f64>) -> Table {
    let counts = counts(points);
    let head = heads_beside_first(points, "messages in the folder");
    let row = |x: &f64| {
        let mut row = vec![whole(*x)];
        row.extend(cells_beside_first(points, |p| p.at.get("items") == Some(x), of));
        row
    };
    Table { title: title.into(), rows: counts.iter().map(row).collect(), head }
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::Offered;

    use super::super::sample::{self, run};
    use super::*;

    #[test]
    fn the_columns_have_what_was_read_and_written_or_say_that_nobody_counts() {
        let servers = sample::servers(["A"]);
        let mut known = run(1.0, 100);
        if let Some(server) = &mut known.server {
            server.seconds = 10.0;
            server.disk_write_bytes = Offered::Value(25_000_000);
            server.waits.disk_busy_percent = Offered::Value(12.5);
        }
        let points = [sample::point("A", &[("items", 100.0)], known)];
        let table = columns(Points { servers: &servers, points: &points });
        let cell = |head: &str| table.rows[0][table.head.iter().position(|h| h == head).unwrap()].as_str();
        assert_eq!((cell("written (MB/s)"), cell("disk busy (% of the time)")), ("2.50", "12.5"));
        assert_eq!(
            (cell("read (MB/s)"), cell("disk operations per s")),
            ("not offered here", "not offered here")
        );
    }

    #[test]
    fn the_time_of_a_session_has_a_column_and_a_curve() {
        let servers = sample::servers(["A"]);
        let timed = |items: f64, ms: f64| {
            let mut timed = run(1.0, 100);
            timed.total.p50_ms = ms;
            sample::point("A", &[("items", items)], timed)
        };
        // Nothing was timed where no session ended well.
        let points =
            [timed(100.0, 1.5), timed(1e6, 96.0), sample::point("A", &[("items", 2e6)], run(1.0, 0))];
        let analysis = analyse(Points { servers: &servers, points: &points });
        let plot = analysis.plots.iter().find(|p| p.title == "Time of a session, median").unwrap();
        assert_eq!(plot.curves[0].points, [(100.0, 1.5), (1e6, 96.0)]);
        assert!(plot.log_x && plot.log_y);
        let table = &analysis.tables[0];
        let at = table.head.iter().position(|head| head == "session, median (ms)").unwrap();
        let cells: Vec<&str> = table.rows.iter().map(|row| row[at].as_str()).collect();
        assert_eq!(cells, ["1.50", "96.0", "–"]);
    }

    #[test]
    fn the_articles_number_of_items_is_marked_beside_the_knee() {
        let servers = sample::servers(["A"]);
        let point = |items: f64, megacycles: f64| {
            let mut run = run(1.0, 100);
            run.server.as_mut().unwrap().megacycles_per_message = Some(megacycles);
            sample::point("A", &[("items", items)], run)
        };
        let points = [point(1e3, 1.0), point(5e3, 1.0), point(1e4, 2.0)];
        let marks = |points: &[StudyPoint]| {
            let plots = analyse(Points { servers: &servers, points }).plots;
            let mut of = plots.into_iter().filter(|plot| plot.title.starts_with("Megacycles per message"));
            let [linear, logarithmic] = [of.next().unwrap().marks, of.next().unwrap().marks];
            assert_eq!(linear, logarithmic);
            linear
        };
        let knee = ("knee of A".to_owned(), "x".to_owned(), 5e3);
        assert_eq!(marks(&points), [knee, ("the article: 10,000".to_owned(), "x".to_owned(), 1e4)]);
        assert!(marks(&points[..2]).is_empty());
    }

    #[test]
    fn servers_are_compared_in_each_round_at_the_largest_count_of_both() {
        let servers = sample::servers(["A", "B"]);
        let point = |server: &str, items: f64, round: u32, megacycles: f64| {
            let mut run = run(1.0, 100);
            if let Some(cost) = &mut run.server {
                cost.megacycles_per_session = Some(megacycles);
            }
            StudyPoint { round, ..sample::point(server, &[("items", items)], run) }
        };
        let points = [
            point("A", 100.0, 0, 1.0),
            point("B", 100.0, 0, 3.0),
            point("A", 100.0, 1, 10.0),
            point("B", 100.0, 1, 20.0),
            point("A", 500.0, 0, 1.0),
        ];
        let said = ratios(Points { servers: &servers, points: &points }, "per session", per_session);
        assert_eq!(said, ["at 100 messages B costs 2.50 (2.00–3.00) × what A does per session"]);
    }

    #[test]
    fn the_knee_of_the_article() {
        // The session's own cost is high at 100. The cost is flat to 10,000, and then rises.
        let points = [
            (100.0, 1.5),
            (500.0, 1.05),
            (1e3, 1.0),
            (5e3, 1.02),
            (1e4, 1.15),
            (5e4, 2.0),
            (1e5, 4.0),
            (5e5, 20.0),
        ];
        assert_eq!(knee(&points), Some((1e4, 1.0)));
        assert_eq!(knee(&points[..4]), Some((5e3, 1.0)));
        assert_eq!(knee(&[]), None);
    }
}
