//! The CPU of the generator beside the server's. Where it is not far below, throughput and times of
//! a busy machine are also the generator's.

use posthaste_load_results::{RunResult, Table};

use super::operations::cpu_us;
use super::points::{Points, whole};
use super::spread::PointRuns;

/// A row for each point on each server; `None` if nothing was measured.
pub(super) fn table(points: Points) -> Option<Table> {
    let places = points.places();
    let head = ["Server", "Workload", "at", "generator (µs)", "server (µs)", "generator ÷ server"]
        .map(str::to_owned);
    let row = |place: &PointRuns| {
        let at: Vec<String> = place.point.at.iter().map(|(k, v)| format!("{k} {}", value(*v))).collect();
        vec![
            place.point.server.clone(),
            place.point.workload.clone(),
            at.join(", "),
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
