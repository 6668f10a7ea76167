//! Seed 004's Figure 5: throughput on more processors of one server, with speed-up and efficiency.
//!
//! A speed-up is made in each round: throughput ÷ that on the fewest processors. An efficiency is
//! that for each processor.

use posthaste_load_results::{Curve, Plot, RunResult, StudyPoint, Table};

use super::at_rest::mean_ms;
use super::koka_parts::{Part, part, processors};
use super::points::{Points, figure, mix, plot};
use super::spread::{Spread, shown, spread};

/// The article's last step, in processors: nothing was gained by it.
const ARTICLE_STEP: (f64, f64) = (8.0, 16.0);

/// What the article has in its Figure 5, with the reason that it states.
const ARTICLE: &str = "in the article's Figure 5 16 processors bring about as much as 8, and fewer were overwhelmed, with 15 \
                       to 20 s a transaction";

/// A server in a mix: its points differ by their processors alone.
struct Line<'a> {
    points: Points<'a>,
    server: &'a str,
    workload: &'a str,
}

impl Line<'_> {
    fn has(&self, point: &StudyPoint) -> bool {
        point.server == self.server && point.workload == self.workload && part(point) == Part::Scale
    }

    fn has_on(&self, point: &StudyPoint, cpus: f64) -> bool {
        self.has(point) && point.at.get("cpus") == Some(&cpus)
    }

    fn name(&self) -> String {
        format!("{}, {}", self.server, mix(self.workload))
    }

    fn throughput(&self) -> Curve {
        self.points.curve(&self.name(), "cpus", |point| self.has(point), rate)
    }

    /// The numbers of processors that were measured.
    fn cpus(&self) -> Vec<f64> {
        self.throughput().points.into_iter().map(|(cpus, _)| cpus).collect()
    }

    fn cell(&self, cpus: f64, of: fn(&RunResult) -> Option<f64>) -> String {
        shown(spread(self.points, self.server, |point| self.has_on(point, cpus), of))
    }

    fn speed_up(&self, cpus: f64) -> Option<Spread> {
        self.gain(cpus, *self.cpus().first()?)
    }

    /// Throughput for each processor, with the fewest as 1.
    fn efficiency(&self, cpus: f64) -> Option<Spread> {
        let fewest = *self.cpus().first()?;
        Some(self.speed_up(cpus)?.times(fewest / cpus))
    }

    fn efficiencies(&self) -> Curve {
        let point = |cpus: f64| Some((cpus, self.efficiency(cpus)?.median));
        Curve {
            name: self.name(),
            points: self.cpus().into_iter().filter_map(point).collect(),
            fitted: false,
        }
    }

    /// The throughput on some processors ÷ that on fewer, in each round.
    fn gain(&self, cpus: f64, fewer: f64) -> Option<Spread> {
        self.points.gain(|point| self.has_on(point, cpus), ("cpus", fewer), rate)
    }

    /// The gain of the article's last step, if it was measured here.
    fn articles_step(&self) -> Option<String> {
        let (few, many) = ARTICLE_STEP;
        Some(format!(", and {many} bring {} × that of {few}", self.gain(many, few)?.show()))
    }

    /// The gain of the most processors over the fewest, beside the article's figure.
    fn finding(&self) -> Option<String> {
        let all = self.cpus();
        let (few, many) = (*all.first()?, *all.last()?);
        let gain = self.speed_up(many).filter(|_| many > few)?.show();
        let takes = |ms: Spread| format!(", where a transaction takes {} ms", ms.show());
        let time = spread(self.points, self.server, |point| self.has_on(point, few), mean_ms);
        let (time, step) = (time.map_or(String::new(), takes), self.articles_step().unwrap_or_default());
        let (name, many, few) = (self.name(), processors(many), processors(few));
        Some(format!("{name}: {many} bring {gain} × the throughput of {few}{time}{step}; {ARTICLE}"))
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let all = self.cpus();
        let row = |cpus: f64| {
            vec![
                self.name(),
                figure(cpus),
                self.cell(cpus, rate),
                shown(self.speed_up(cpus)),
                self.efficiency(cpus).map_or("–".into(), Spread::percent),
                self.cell(cpus, mean_ms),
            ]
        };
        if all.len() > 1 { all.into_iter().map(row).collect() } else { Vec::new() }
    }
}

fn rate(run: &RunResult) -> Option<f64> {
    Some(run.total.rate_per_s)
}

/// All of them, in the order of the other curves of the study.
fn lines(points: Points<'_>) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for workload in points.workloads() {
        lines.extend(points.servers().map(|server| Line { points, server, workload }));
    }
    lines
}

/// A sentence for each server in each mix.
pub(super) fn findings(points: Points) -> Vec<String> {
    lines(points).iter().filter_map(Line::finding).collect()
}

/// The figure of the article, and the same for each processor.
pub(super) fn plots(points: Points) -> [Plot; 2] {
    let (lines, x) = (lines(points), "processors of the server");
    let throughput = lines.iter().map(Line::throughput).collect();
    let efficiency = lines.iter().map(Line::efficiencies).collect();
    [
        plot("Scale-up", x, "transactions per second", throughput),
        plot("Efficiency", x, "speed-up ÷ processors", efficiency),
    ]
}

/// Figure 5 in figures: throughput, speed-up over the fewest processors, efficiency, and the
/// response time, which the article names. Below is what the article has. Nothing if one number of
/// processors alone was measured.
pub(super) fn table(points: Points) -> Option<Table> {
    let mut rows: Vec<Vec<String>> = lines(points).iter().flat_map(Line::rows).collect();
    if !rows.is_empty() {
        let article = ["the article", "16 instead of 8", "–", "negligible", "–", "15,000 to 20,000 on fewer"];
        rows.push(article.map(str::to_owned).to_vec());
    }
    let head = [
        "Server, mix",
        "processors",
        "transactions per s",
        "speed-up",
        "efficiency",
        "response time, mean (ms)",
    ];
    let title = "Scale-up: speed-up and efficiency".to_owned();
    (!rows.is_empty()).then(|| Table { title, head: head.map(str::to_owned).to_vec(), rows })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{self, run};
    use super::*;

    fn point(cpus: f64, round: u32, rate_per_s: f64) -> StudyPoint {
        let mut run = run(1.0, 10);
        (run.total.rate_per_s, run.total.mean_ms) = (rate_per_s, 80.0 / cpus);
        let workload = "koka-browse-frequencies".into();
        let at = [("clients", 90.0), ("cpus", cpus)];
        StudyPoint { workload, round, ..sample::point("A", &at, run) }
    }

    #[test]
    fn speed_up_and_efficiency_are_of_the_fewest_processors_in_each_round() {
        let servers = sample::servers(["A"]);
        // The machine is slower in round 1: the speed-up of the medians would be 1.73.
        let measured = [
            point(2.0, 0, 100.0),
            point(4.0, 0, 180.0),
            point(8.0, 0, 200.0),
            point(2.0, 1, 50.0),
            point(4.0, 1, 80.0),
            point(8.0, 1, 110.0),
        ];
        let points = Points { servers: &servers, points: &measured };
        let table = table(points).unwrap();
        assert_eq!(table.rows[0][2..5], ["75.0 (50.0–100)", "1.00", "100 %"]);
        assert_eq!(
            table.rows[1],
            ["A, browse", "4.00", "130 (80.0–180)", "1.70 (1.60–1.80)", "85.0 % (80.0–90.0)", "20.0"]
        );
        let [throughput, efficiency] = plots(points);
        assert_eq!(throughput.curves[0].points, [(2.0, 75.0), (4.0, 130.0), (8.0, 155.0)]);
        assert_eq!((efficiency.curves[0].points[0], efficiency.curves.len()), ((2.0, 1.0), 1));
        let ours = "A, browse: 8 processors bring 2.10 (2.00–2.20) × the throughput of 2 processors, where a \
                    transaction takes 40.0 ms; in the article's Figure 5 ";
        let said = findings(points);
        assert!(said.len() == 1 && said[0].starts_with(ours), "{said:?}");
        assert_eq!((table.rows[3][3].as_str(), table.rows[3].len()), ("negligible", table.head.len()));
    }

    #[test]
    fn the_articles_step_is_beside_its_own_if_it_was_measured() {
        let servers = sample::servers(["A"]);
        let measured = [point(4.0, 0, 100.0), point(8.0, 0, 200.0), point(16.0, 0, 250.0)];
        let said = findings(Points { servers: &servers, points: &measured });
        let ours = "A, browse: 16 processors bring 2.50 × the throughput of 4 processors, where a transaction takes 20.0 \
                    ms, and 16 bring 1.25 × that of 8; in the article";
        assert!(said[0].starts_with(ours), "{said:?}");
    }

    #[test]
    fn one_number_of_processors_has_no_speed_up() {
        let servers = sample::servers(["A"]);
        let points = Points { servers: &servers, points: &[point(2.0, 0, 100.0)] };
        assert!(table(points).is_none() && findings(points).is_empty());
    }
}
