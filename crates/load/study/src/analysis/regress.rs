//! Whether one build is worse than another: ratios of rounds with their confidence interval.
//!
//! The verdict is about the server's CPU per transaction, because that depends least on other work
//! of the machine. Response time and throughput are shown beside it.

use posthaste_load_results::paired::{Paired, Verdict};
use posthaste_load_results::{Analysis, RunResult, StudyPoint, Table};

use super::points::{Points, figure};

/// Joint confidence of all intervals.
const CONFIDENCE: f64 = 0.95;
/// Difference that does not matter, unless the study says otherwise.
pub const TOLERANCE: f64 = 0.02;

/// The result of a comparison of two builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// At some point the second costs more.
    Worse,
    /// Nowhere more, and somewhere less.
    Better,
    /// The same everywhere, within the tolerance.
    Same,
    /// Nowhere shown to be worse, and somewhere not known.
    Undecided,
}

/// A figure of a run by its title; whether more of it is worse.
struct Figure {
    title: &'static str,
    of: fn(&RunResult) -> Option<f64>,
    less_is_better: Less,
}

/// The direction that is better.
#[derive(Clone, Copy, PartialEq)]
enum Less {
    IsBetter,
    IsWorse,
}

const CPU: Figure = Figure {
    title: "Server CPU per transaction",
    of: |r| {
        let server = r.server.as_ref()?;
        (r.total.count > 0).then(|| (server.cpu_user_s + server.cpu_system_s) / r.total.count as f64)
    },
    less_is_better: Less::IsBetter,
};
const BESIDE: [Figure; 3] = [
    Figure { title: "Median response time", of: |r| Some(r.total.p50_ms), less_is_better: Less::IsBetter },
    Figure { title: "Response time, 99 %", of: |r| Some(r.total.p99_ms), less_is_better: Less::IsBetter },
    Figure { title: "Throughput", of: |r| Some(r.total.rate_per_s), less_is_better: Less::IsWorse },
];

/// The measurements at one place on both servers.
struct Row {
    name: String,
    pairs: Vec<(f64, f64)>,
}

fn rows(points: Points, figure: &Figure) -> Vec<Row> {
    let mut servers = points.servers();
    let (Some(old), Some(new)) = (servers.next(), servers.next()) else { return Vec::new() };
    let same = |a: &StudyPoint, b: &StudyPoint| a.workload == b.workload && a.at == b.at;
    let mut rows: Vec<Row> = Vec::new();
    for (at, point) in points.points.iter().enumerate() {
        if points.points.iter().take(at).any(|p| same(p, point)) {
            continue;
        }
        let of = |server: &str, round: u32| {
            let mut here = points.measured().filter(|(p, _)| p.server == server && same(p, point));
            here.find(|(p, _)| p.round == round).and_then(|(_, run)| (figure.of)(run))
        };
        let last = points.points.iter().map(|p| p.round).max().unwrap_or(0);
        let pairs = (0..=last).filter_map(|round| Some((of(old, round)?, of(new, round)?))).collect();
        let place: Vec<String> = point.at.iter().map(|(k, v)| format!("{k} {v}")).collect();
        rows.push(Row { name: format!("{}, {}", point.workload, place.join(", ")), pairs });
    }
    rows
}

/// Each interval of several must be wider, so that all of them hold together (Bonferroni).
fn confidence(rows: usize) -> f64 {
    1.0 - (1.0 - CONFIDENCE) / rows.max(1) as f64
}

/// Makes the whole analysis.
pub fn analyse(points: Points) -> Analysis {
    let mut analysis = Analysis::default();
    let cpu = rows(points, &CPU);
    let names: Vec<&str> = points.servers().collect();
    if let [old, new, ..] = names[..] {
        for row in &cpu {
            let said = match Paired::of(&row.pairs, confidence(cpu.len())) {
                Some(paired) => sentence(row, paired, (old, new)),
                None => format!("{}: too few rounds were measured on both", row.name),
            };
            analysis.findings.push(said);
        }
    }
    for figure in [CPU].iter().chain(&BESIDE) {
        analysis.tables.push(table(points, figure));
    }
    analysis
}

fn sentence(row: &Row, paired: Paired, (old, new): (&str, &str)) -> String {
    let share = |ratio: f64| figure((ratio - 1.0).abs() * 100.0);
    let interval = format!("{} to {} × that of {old}", figure(paired.low), figure(paired.high));
    let what = match paired.verdict(TOLERANCE) {
        Verdict::Larger => format!("{new} costs {} % more", share(paired.ratio)),
        Verdict::Smaller => format!("{new} costs {} % less", share(paired.ratio)),
        Verdict::Same => format!("{new} costs the same within {} %", figure(TOLERANCE * 100.0)),
        Verdict::Undecided => "not decided: more rounds, or longer ones, narrow the interval".to_owned(),
    };
    format!("{}: {what} ({interval}, {} rounds)", row.name, paired.pairs)
}

fn table(points: Points, of: &Figure) -> Table {
    let rows = rows(points, of);
    let confidence = confidence(rows.len());
    let head = ["at", "rounds", "new ÷ old", "from", "to", "verdict"].map(str::to_owned).to_vec();
    let cells = |row: &Row| {
        let Some(paired) = Paired::of(&row.pairs, confidence) else {
            let none = || "–".to_owned();
            return vec![row.name.clone(), row.pairs.len().to_string(), none(), none(), none(), none()];
        };
        let verdict = match (paired.verdict(TOLERANCE), of.less_is_better) {
            (Verdict::Larger, Less::IsBetter) | (Verdict::Smaller, Less::IsWorse) => "worse",
            (Verdict::Smaller, Less::IsBetter) | (Verdict::Larger, Less::IsWorse) => "better",
            (Verdict::Same, _) => "same",
            (Verdict::Undecided, _) => "not decided",
        };
        let ratio = |value: f64| format!("{value:.3}");
        let values = [ratio(paired.ratio), ratio(paired.low), ratio(paired.high), verdict.to_owned()];
        [row.name.clone(), paired.pairs.to_string()].into_iter().chain(values).collect()
    };
    let title = format!("{} ({} % confidence of each row)", of.title, figure(confidence * 100.0));
    Table { title, head, rows: rows.iter().map(cells).collect() }
}

/// The verdict over all points. `None` if there is nothing to compare.
pub fn judge(points: Points) -> Option<Judgement> {
    let rows = rows(points, &CPU);
    let verdicts: Vec<Option<Verdict>> = rows
        .iter()
        .map(|row| Paired::of(&row.pairs, confidence(rows.len())).map(|p| p.verdict(TOLERANCE)))
        .collect();
    let any = |wanted: Option<Verdict>| verdicts.contains(&wanted);
    if verdicts.iter().all(Option::is_none) {
        return None;
    }
    Some(if any(Some(Verdict::Larger)) {
        Judgement::Worse
    } else if any(None) || any(Some(Verdict::Undecided)) {
        Judgement::Undecided
    } else if any(Some(Verdict::Smaller)) {
        Judgement::Better
    } else {
        Judgement::Same
    })
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::ServerFacts;

    use super::super::sample::{self, run};
    use super::*;

    /// Rounds of both servers: CPU seconds of 1,000 transactions.
    fn points(workload: &str, rounds: &[(f64, f64)]) -> Vec<StudyPoint> {
        let point = |server: &str, round, cpu_s| {
            let point = sample::point(server, &[("clients", 8.0)], run(cpu_s, 1000));
            StudyPoint { workload: workload.into(), round, ..point }
        };
        let both = (0..).zip(rounds).flat_map(|(round, (old, new))| {
            // Turns change from round to round.
            let mut both = vec![point("old", round, *old), point("new", round, *new)];
            if round % 2 == 1 {
                both.reverse();
            }
            both
        });
        both.collect()
    }

    fn servers() -> [ServerFacts; 2] {
        sample::servers(["old", "new"])
    }

    fn judged(all: &[StudyPoint]) -> (Option<Judgement>, Analysis) {
        let servers = servers();
        let points = Points { servers: &servers, points: all };
        (judge(points), analyse(points))
    }

    const SLOWER: [(f64, f64); 5] = [(1.0, 1.1), (2.0, 2.2), (1.5, 1.65), (1.0, 1.09), (1.2, 1.344)];
    const EQUAL: [(f64, f64); 5] = [(1.0, 1.001), (2.0, 1.999), (1.5, 1.5), (1.0, 1.002), (1.2, 1.199)];
    const NOISE: [(f64, f64); 5] = [(1.0, 1.4), (2.0, 1.5), (1.5, 1.9), (1.0, 0.7), (1.2, 1.3)];

    #[test]
    fn a_build_that_costs_more_at_one_point_is_worse() {
        let mut all = points("browse", &EQUAL);
        all.extend(points("sync", &SLOWER));
        let (judgement, analysis) = judged(&all);
        assert_eq!(judgement, Some(Judgement::Worse));
        assert!(
            analysis.findings[0].starts_with("browse, clients 8: new costs the same within 2.00 %"),
            "{:?}",
            analysis.findings
        );
        assert!(analysis.findings[1].starts_with("sync, clients 8: new costs 10"), "{:?}", analysis.findings);
        assert_eq!(analysis.tables[0].rows[1][5], "worse");
        assert!(analysis.tables[0].title.contains("97.5 %"), "{}", analysis.tables[0].title);
    }

    #[test]
    fn verdicts_over_all_points() {
        let faster = SLOWER.map(|(old, new)| (new, old));
        assert_eq!(judged(&points("browse", &faster)).0, Some(Judgement::Better));
        assert_eq!(judged(&points("browse", &EQUAL)).0, Some(Judgement::Same));
        assert_eq!(judged(&points("browse", &NOISE)).0, Some(Judgement::Undecided));
        let mut all = points("browse", &faster);
        all.extend(points("sync", &NOISE));
        assert_eq!(
            judged(&all).0,
            Some(Judgement::Undecided),
            "not better as long as one point is not known"
        );
        assert_eq!(judged(&points("browse", &EQUAL[..1])).0, None);
        assert_eq!(judged(&[]).0, None);
    }
}
