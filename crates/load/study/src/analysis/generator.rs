//! The CPU of the generator beside the server's. Where it is not far below, throughput and times of
//! a busy machine are also the generator's.

use posthaste_load_results::{RunResult, Table};

use super::operations::cpu_us;
use super::points::{Points, figure, whole};
use super::spread::PointRuns;

/// The generator's CPU ÷ the server's from which on figures of a point have a caveat.
const AS_MUCH: f64 = 1.0;

/// A row for each point on each server; `None` if nothing was measured.
pub(super) fn table(points: Points) -> Option<Table> {
    let places = points.places();
    let head = ["Server", "Workload", "at", "generator (µs)", "server (µs)", "generator ÷ server"]
        .map(str::to_owned);
    let row = |place: &PointRuns| {
        vec![
            place.point.server.clone(),
            place.point.workload.clone(),
            at(place),
            place.cell(|run| run.generator.cpu_us_per_transaction),
            place.cell(cpu_us),
            place.cell(share),
        ]
    };
    (!places.is_empty()).then(|| Table {
        title: "CPU of the generator beside the server's, for each transaction".into(),
        head: head.to_vec(),
        rows: places.iter().map(row).collect(),
    })
}

/// A sentence for each server, if the generator used as much CPU as the server at any point, in
/// any round.
pub(super) fn caveats(points: Points) -> Vec<String> {
    let places = points.places();
    let of_server = |server: &str| {
        let mine = places.iter().filter(|place| place.point.server == server);
        let shares = mine.filter_map(|place| Some((place, place.value(share)?.greatest)));
        let shares: Vec<(&PointRuns, f64)> = shares.collect();
        let high = shares.iter().filter(|(_, share)| *share >= AS_MUCH);
        let (worst, most) = *high.clone().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (count, all, most) = (high.count(), shares.len(), figure(most));
        let place = [worst.point.workload.clone(), at(worst)].join(" ");
        Some(format!(
            "{server}: at {count} of {all} points the generator used as much CPU as the server or more, at most {most} \
             times ({}): throughput and times there are also the generator's, and show less difference of servers than \
             there is",
            place.trim_end()
        ))
    };
    points.servers().filter_map(of_server).collect()
}

/// The swept values of a point.
fn at(place: &PointRuns) -> String {
    let at: Vec<String> = place.point.at.iter().map(|(k, v)| format!("{k} {}", value(*v))).collect();
    at.join(", ")
}

fn share(run: &RunResult) -> Option<f64> {
    run.generator.share_of_server
}

fn value(swept: f64) -> String {
    if swept.fract() == 0.0 { whole(swept) } else { swept.to_string() }
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{GeneratorCost, StudyPoint};

    use super::super::sample::{self, run};
    use super::*;

    #[test]
    fn a_generator_that_used_as_much_as_the_server_is_a_caveat() {
        let point = |server: &str, items: f64, share: f64| {
            let generator = GeneratorCost { share_of_server: Some(share), ..GeneratorCost::default() };
            sample::point(server, &[("items", items)], RunResult { generator, ..run(1.0, 10) })
        };
        let points = [
            point("A", 10.0, 0.4),
            point("A", 100.0, 1.0),
            // Two rounds of one point.
            point("A", 1000.0, 0.9),
            StudyPoint { round: 1, ..point("A", 1000.0, 1.5) },
            point("B", 10.0, 0.99),
        ];
        let servers = sample::servers(["A", "B"]);
        let said = caveats(Points { servers: &servers, points: &points });
        assert_eq!(said.len(), 1);
        let expected = "A: at 2 of 3 points the generator used as much CPU as the server or more, at most 1.50 times (w \
                        items 1,000): throughput and times there are also the generator's";
        assert!(said[0].starts_with(expected), "{}", said[0]);
        assert!(caveats(Points { servers: &servers, points: &points[..1] }).is_empty());
    }

    #[test]
    fn each_point_has_both_costs_and_their_ratio() {
        let point = |server: &str, cpu_s: f64, own_us: f64| {
            let generator = GeneratorCost {
                cpu_us_per_transaction: Some(own_us),
                share_of_server: Some(own_us / (cpu_s * 1e3)),
                ..GeneratorCost::default()
            };
            let at = [("items", 1000.0), ("think_s", 0.5)];
            sample::point(server, &at, RunResult { generator, ..run(cpu_s, 1000) })
        };
        let points: Vec<StudyPoint> =
            vec![point("A", 0.1, 20.0), point("B", 0.2, 30.0), point("A", 0.1, 40.0)];
        let servers = sample::servers(["A", "B"]);
        let table = table(Points { servers: &servers, points: &points }).unwrap();
        assert_eq!(
            table.rows,
            [
                ["A", "w", "items 1,000, think_s 0.5", "30.0 (20.0–40.0)", "100", "0.300 (0.200–0.400)"],
                ["B", "w", "items 1,000, think_s 0.5", "30.0", "200", "0.150"],
            ]
        );
        assert!(super::table(Points { servers: &servers, points: &[] }).is_none());
    }
}
