//! Seed 001's comparison of a server with the version before it: CPU per FETCH, memory,
//! connections, FETCH rate, and the change of each.

use posthaste_load_results::{RunResult, StudyPoint, Table};

use super::points::{Points, cpu_ms_per_user, memory_mb, own_memory_mb};
use super::spread::{Spread, shown, spread};

/// A row: its name, its figure, and what the article has.
type Row = (&'static str, fn(&RunResult) -> Option<f64>, &'static str);

const ROWS: [Row; 9] = [
    ("CPU per FETCH (megacycles)", |r| megacycles(r).zip(fetches(r)).map(|(m, f)| m / f), "–"),
    ("CPU per user (MHz)", mhz_per_user, "-40 %"),
    ("memory, highest (MB)", memory_mb, "-30 %"),
    ("memory without pages of files, highest (MB)", own_memory_mb, "–"),
    ("connections, mean", connections, "fewer"),
    ("FETCH per second", |r| Some(fetches(r)? / (r.window.end_s - r.window.start_s)), "more"),
    ("store operations per user and second", store_operations, "–"),
    ("records of messages read per user and second", record_reads, "–"),
    ("directory look-ups per user and second", look_ups, "–"),
];

fn megacycles(run: &RunResult) -> Option<f64> {
    run.server.as_ref().map(|s| s.megacycles)
}

fn fetches(run: &RunResult) -> Option<f64> {
    let fetch = run.commands.iter().find(|c| c.name == "FETCH")?;
    (fetch.summary.count > 0).then_some(fetch.summary.count as f64)
}

/// Megacycles a second and user.
pub fn mhz_per_user(run: &RunResult) -> Option<f64> {
    let server = run.server.as_ref()?;
    (server.seconds > 0.0).then(|| server.megacycles / server.seconds / f64::from(run.clients.max(1)))
}

fn connections(run: &RunResult) -> Option<f64> {
    let from = run.window.start_s.ceil() as usize;
    let online: Vec<f64> = run.series.online.iter().skip(from).map(|n| *n as f64).collect();
    (!online.is_empty()).then(|| online.iter().sum::<f64>() / online.len() as f64)
}

/// Reads of bodies and changes of mailboxes, as the server counts them.
pub fn store_operations(run: &RunResult) -> Option<f64> {
    let counted = run.counted.as_ref()?.value()?;
    counted.per_user(counted.total().store_operations(), run.clients)
}

/// Rows and summaries of messages that the server read from its store, as it counts them: the data
/// of listings.
pub fn record_reads(run: &RunResult) -> Option<f64> {
    let counted = run.counted.as_ref()?.value()?;
    counted.per_user(counted.total().record_reads, run.clients)
}

/// Records of the directory, as the server counts them.
pub fn look_ups(run: &RunResult) -> Option<f64> {
    let counted = run.counted.as_ref()?.value()?;
    counted.per_user(counted.total().directory_reads, run.clients)
}

/// A row for each size, at the most users with which all servers were measured. A column for each
/// server, and the change to it from the server before, in each round.
pub fn tables(points: Points) -> Vec<Table> {
    let mut places: Vec<&StudyPoint> = Vec::new();
    for (point, _) in points.measured() {
        match places.iter_mut().find(|p| key(p) == key(point)) {
            Some(known) if clients(known) < clients(point) && everywhere(points, point) => *known = point,
            Some(_) => {}
            None if everywhere(points, point) => places.push(point),
            None => {}
        }
    }
    places.into_iter().map(|place| table(points, place)).collect()
}

/// The swept quantities besides the users.
fn key(point: &StudyPoint) -> Vec<(&String, u64)> {
    point.at.iter().filter(|(k, _)| *k != "clients").map(|(k, v)| (k, v.to_bits())).collect()
}

fn clients(point: &StudyPoint) -> f64 {
    point.at.get("clients").copied().unwrap_or(0.0)
}

fn everywhere(points: Points, place: &StudyPoint) -> bool {
    points.servers().all(|server| points.measured().any(|(p, _)| p.server == server && p.at == place.at))
}

fn table(points: Points, place: &StudyPoint) -> Table {
    let mut head = vec!["at the same actions".to_owned()];
    for (n, server) in points.servers().enumerate() {
        head.push(server.to_owned());
        if n > 0 {
            head.push("change".to_owned());
        }
    }
    head.push("the article's change".to_owned());
    let row = |(name, of, article): &Row| {
        let mut row = vec![(*name).to_owned()];
        let mut before: Option<&str> = None;
        for server in points.servers() {
            let here = |p: &StudyPoint| p.at == place.at;
            row.push(shown(spread(points, server, here, of)));
            if let Some(before) = before {
                let ratio = points.ratio_at(here, (server, before), of);
                row.push(ratio.map_or("–".into(), Spread::change));
            }
            before = Some(server);
        }
        row.push((*article).to_owned());
        row
    };
    let at: Vec<String> = place.at.iter().map(|(k, v)| format!("{k} {v}")).collect();
    Table { title: format!("Versions, {}", at.join(", ")), rows: ROWS.iter().map(row).collect(), head }
}

/// A row for each number of users at each size on each server, whatever the others did.
pub fn every_point(points: Points) -> Table {
    let swept = ["Server", "mailbox (MB)", "messages delivered to a user in an hour", "users"];
    let head = swept.into_iter().chain(["CPU (%)", "CPU per user (ms per second)"]);
    let places = points.places();
    let rows = places.iter().map(|place| {
        let at = |key: &str| place.point.at.get(key).map_or("–".to_owned(), f64::to_string);
        let mut row = vec![place.point.server.clone()];
        row.extend(["mailbox_mb", "arrivals_per_hour", "clients"].map(at));
        row.push(place.cell(|run| Some(run.server.as_ref()?.cpu_percent)));
        row.push(place.cell(cpu_ms_per_user));
        row.extend(ROWS.iter().map(|(_, of, _)| place.cell(of)));
        row
    });
    Table {
        title: "Every number of users".into(),
        rows: rows.collect(),
        head: head.chain(ROWS.iter().map(|(name, ..)| *name)).map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Amounts, Counted, CountedCommand, Offered};

    use super::super::sample::{self, run};
    use super::*;

    #[test]
    fn a_version_beside_the_one_before() {
        let servers = sample::servers(["2007", "2010"]);
        let point = |server: &str, clients: u32, megacycles: f64| {
            let mut run = run(1.0, 1000);
            run.clients = clients;
            if let Some(server) = &mut run.server {
                server.megacycles = megacycles;
            }
            let amounts =
                Amounts { body_reads: 100, record_reads: 800, directory_reads: 50, ..Amounts::default() };
            let commands = vec![CountedCommand { amounts, ..CountedCommand::default() }];
            run.counted = Some(Offered::Value(Counted { seconds: 10.0, commands, ..Counted::default() }));
            sample::point(server, &[("clients", f64::from(clients)), ("mailbox_mb", 100.0)], run)
        };
        let points = [
            point("2007", 10, 500.0),
            point("2007", 20, 1000.0),
            point("2010", 10, 300.0),
            point("2010", 20, 600.0),
            // Alone: there is nothing to compare it with.
            point("2010", 40, 2000.0),
        ];
        let tables = tables(Points { servers: &servers, points: &points });
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].title, "Versions, clients 20, mailbox_mb 100");
        let row = |name: &str| tables[0].rows.iter().find(|r| r[0].starts_with(name)).unwrap().clone();
        assert_eq!(row("CPU per user")[1..], ["50.0", "30.0", "-40 %", "-40 %"]);
        assert_eq!(row("store operations")[1..], ["0.500", "0.500", "+0 %", "–"]);
        assert_eq!(row("records of messages")[1], "4.00");
        assert_eq!(row("directory look-ups")[1], "0.250");
        assert_eq!(row("CPU per FETCH")[1..4], ["–", "–", "–"]);
    }

    #[test]
    fn a_change_is_that_of_the_rounds() {
        let servers = sample::servers(["2007", "2010"]);
        let point = |server: &str, round: u32, megacycles: f64| {
            let mut run = run(1.0, 1000);
            run.clients = 10;
            run.server.as_mut().unwrap().megacycles = megacycles;
            StudyPoint { round, ..sample::point(server, &[("clients", 10.0)], run) }
        };
        // The change of the medians would be +0 %.
        let points = [
            point("2007", 0, 100.0),
            point("2010", 0, 60.0),
            point("2007", 1, 200.0),
            point("2010", 1, 100.0),
            point("2007", 2, 50.0),
            point("2010", 2, 200.0),
        ];
        let tables = tables(Points { servers: &servers, points: &points });
        let row = tables[0].rows.iter().find(|row| row[0].starts_with("CPU per user")).unwrap();
        assert_eq!(row[1..4], ["10.0 (5.00–20.0)", "10.0 (6.00–20.0)", "-40 % (-50 to +300)"]);
    }

    #[test]
    fn every_number_of_users_has_a_row_with_the_spread_of_its_rounds() {
        let servers = sample::servers(["A"]);
        let point = |round: u32, cpu_percent: f64| {
            let mut run = run(1.0, 1000);
            run.clients = 10;
            let server = run.server.as_mut().unwrap();
            server.cpu_percent = cpu_percent;
            server.pss_own_max_bytes = Offered::Value(25_000_000);
            let at = [("clients", 10.0), ("mailbox_mb", 2.5)];
            StudyPoint { round, ..sample::point("A", &at, run) }
        };
        let points = [point(0, 20.0), point(1, 30.0)];
        let table = every_point(Points { servers: &servers, points: &points });
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.rows[0][..5], ["A", "2.5", "–", "10", "25.0 (20.0–30.0)"]);
        assert_eq!((table.rows[0].len(), table.head.len()), (15, 15));
        let own = table.head.iter().position(|head| head.starts_with("memory without pages")).unwrap();
        assert_eq!(table.rows[0][own], "25.0");
    }
}
