//! Seed 004's Figures 2 and 3 in sentences: the slowest and the fastest transaction of each mix.

use std::cmp::Ordering;

use posthaste_load_results::RunResult;

use super::at_rest::mean_of;
use super::koka_parts::{Part, shown_places, think};
use super::points::{Points, mix};
use super::spread::PointRuns;

/// What the article says of both mixes.
const ARTICLE: &str = "in the article MOVE is slowest and SRCH fastest, in both mixes";

/// A transaction, and the time that it takes.
type Time<'a> = (&'a str, f64);

/// An end of the order of transactions by their times.
#[derive(Clone, Copy)]
enum End {
    Slowest,
    Fastest,
}

impl End {
    fn of<'a>(self, times: impl Iterator<Item = Time<'a>>) -> Option<&'a str> {
        let found = match self {
            Self::Slowest => times.max_by(by_time),
            Self::Fastest => times.min_by(by_time),
        };
        found.map(|(name, _)| name)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Slowest => "slowest",
            Self::Fastest => "fastest",
        }
    }
}

fn by_time(a: &Time<'_>, b: &Time<'_>) -> Ordering {
    a.1.total_cmp(&b.1)
}

/// The mean times of the users' transactions, without what the instrument does.
fn times(run: &RunResult) -> impl Iterator<Item = Time<'_>> {
    let names = run.transactions.iter().map(|transaction| transaction.name.as_str());
    names.filter(|name| !name.starts_with('(')).filter_map(move |name| Some((name, mean_of(run, name)?)))
}

/// The transaction at one end, by the medians over the rounds, with its time. Where rounds differ,
/// those that agree are counted.
fn at_end(place: &PointRuns, end: End) -> Option<String> {
    let mean = |name: &str| place.value(|run| mean_of(run, name));
    let names = times(place.runs.first()?).map(|(name, _)| name);
    let name = end.of(names.filter_map(|name| Some((name, mean(name)?.median))))?;
    let all = place.runs.len();
    let agree = place.runs.iter().filter(|run| end.of(times(run)) == Some(name)).count();
    let rounds = if agree == all { String::new() } else { format!(" in {agree} of {all} rounds") };
    Some(format!("{name} is {}{rounds} with {} ms", end.word(), mean(name)?.show()))
}

/// A sentence for each mix on each server, with and without think time.
pub(super) fn findings(points: Points) -> Vec<String> {
    let mut said = Vec::new();
    for workload in points.workloads() {
        for wanted in [Part::Throughput, Part::Times] {
            for place in shown_places(points, workload, wanted) {
                said.extend(finding(&place, wanted));
            }
        }
    }
    said
}

fn finding(place: &PointRuns, wanted: Part) -> Option<String> {
    // One transaction has no order.
    times(place.runs.first()?).nth(1)?;
    let (slowest, fastest) = (at_end(place, End::Slowest)?, at_end(place, End::Fastest)?);
    let (server, mix) = (&place.point.server, mix(&place.point.workload));
    let (clients, think) = (place.clients(), think(wanted));
    Some(format!("{server}, {mix}, {clients} users {think} think time: {slowest}, {fastest}; {ARTICLE}"))
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{StudyPoint, Summary, Transaction};

    use super::super::sample;
    use super::*;

    /// A point of 90 users with these mean times.
    fn point(round: u32, times: &[(&str, f64)]) -> StudyPoint {
        let mut run = sample::run(1.0, 10);
        run.clients = 90;
        let transaction = |(name, mean_ms): &(&str, f64)| Transaction {
            name: (*name).into(),
            summary: Summary { count: 5, mean_ms: *mean_ms, ..Summary::default() },
            ..Transaction::default()
        };
        run.transactions = times.iter().map(transaction).collect();
        let workload = "koka-manage-frequencies".into();
        StudyPoint { workload, round, ..sample::point("A", &[("clients", 90.0)], run) }
    }

    #[test]
    fn the_slowest_and_the_fastest_transaction_are_named_beside_the_articles() {
        let servers = sample::servers(["A"]);
        // What the instrument does is no transaction of the mix. MDEL is slowest in rounds 0 and 1.
        let mut points = [
            point(0, &[("MOVE", 8.0), ("SRCH", 1.0), ("MDEL", 9.0), ("(trim)", 90.0)]),
            point(1, &[("MOVE", 7.0), ("SRCH", 2.0), ("MDEL", 9.5)]),
            point(2, &[("MOVE", 9.0), ("SRCH", 1.0), ("MDEL", 7.0)]),
        ];
        let said = |points: &[StudyPoint]| findings(Points { servers: &servers, points });
        let expected = "A, manage, 90 users without think time: MDEL is slowest in 2 of 3 rounds with 9.00 (7.00–9.50) \
                        ms, SRCH is fastest with 1.00 (1.00–2.00) ms; in the article MOVE is slowest and SRCH \
                        fastest, in both mixes";
        assert_eq!(said(&points), [expected]);
        for point in &mut points {
            point.at.insert("think_s".into(), 4.0);
        }
        assert!(said(&points)[0].starts_with("A, manage, 90 users with think time: "));
        assert!(said(&[point(0, &[("MOVE", 8.0)])]).is_empty());
        assert!(said(&[]).is_empty());
    }
}
