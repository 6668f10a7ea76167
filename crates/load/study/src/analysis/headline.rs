//! The first screen of a report: a sentence and a picture, and what the article found.
//!
//! All servers did the same work at the same points. So one figure sums up a study: how many times
//! what the first server needs each of them needs, as the geometric mean over the points that both
//! have.

use posthaste_load_results::{Bar, BarChart, BarRow, Headline, RunResult};

use super::memory::send_mail;
use super::operations::cpu_us;
use super::points::{Points, figure};
use super::spread::PointRuns;
use crate::file::Analysis;

/// The figure by which servers are compared: in a sentence, on the axis, and of a run.
struct Measure {
    words: &'static str,
    axis: &'static str,
    of: fn(&RunResult) -> Option<f64>,
}

/// CPU of a transaction, but for the study whose question is another.
fn measure(which: Analysis) -> Measure {
    match which {
        Analysis::Memory => Measure {
            words: "the time",
            axis: "time of SendMail",
            of: |run| Some(send_mail(run).mean_ms).filter(|ms| *ms > 0.0),
        },
        _ => Measure { words: "the CPU", axis: "server CPU of a transaction", of: cpu_us },
    }
}

/// The headline of these points; `None` with one server, or if servers share no point.
pub(super) fn headline(which: Analysis, points: Points) -> Option<Headline> {
    let measure = measure(which);
    let places = points.places();
    let first = points.servers().next()?;
    let others: Vec<(&str, f64)> = points
        .servers()
        .skip(1)
        .filter_map(|server| Some((server, ratio(&places, (first, server), measure.of)?)))
        .collect();
    if others.is_empty() {
        return None;
    }
    let all = [(first, 1.0)].into_iter().chain(others.iter().copied());
    let row = |(name, times): (&str, f64)| BarRow {
        name: name.to_owned(),
        bars: vec![Bar { parts: vec![(0, times)], note: format!("{} ×", figure(times)) }],
    };
    Some(Headline {
        sentence: sentence(first, &others, measure.words),
        chart: BarChart {
            title: format!("{}, {first} = 1: shorter is better", upper(measure.axis)),
            x: format!("times {first}, geometric mean over all points"),
            series: vec![measure.axis.to_owned()],
            rows: all.map(row).collect(),
        },
    })
}

/// `For the same work Dovecot needs 5.20 times the CPU of Posthaste, and Cyrus 3.10 times.`
fn sentence(first: &str, others: &[(&str, f64)], words: &str) -> String {
    let mut parts = others.iter().map(|(name, times)| (name, figure(*times)));
    let Some((name, times)) = parts.next() else { return String::new() };
    let mut text = format!("For the same work {name} needs {times} times {words} of {first}");
    let rest: Vec<String> = parts.map(|(name, times)| format!("{name} {times} times")).collect();
    match rest.split_last() {
        None => {}
        Some((last, [])) => text.push_str(&format!(", and {last}")),
        Some((last, between)) => text.push_str(&format!(", {}, and {last}", between.join(", "))),
    }
    text.push('.');
    text
}

fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The ratio of what the other server needs to what the first one needs.
fn ratio(
    places: &[PointRuns],
    (first, other): (&str, &str),
    of: fn(&RunResult) -> Option<f64>,
) -> Option<f64> {
    let value = |place: &PointRuns| place.value(of).map(|v| v.median).filter(|v| *v > 0.0);
    let logarithms: Vec<f64> = places
        .iter()
        .filter(|place| place.point.server == first)
        .filter_map(|own| {
            let same = |p: &&PointRuns| {
                p.point.server == other
                    && p.point.workload == own.point.workload
                    && p.point.at == own.point.at
            };
            Some((value(places.iter().find(same)?)? / value(own)?).ln())
        })
        .collect();
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::StudyPoint;

    use super::super::sample::{self, run};
    use super::*;

    fn point(server: &str, clients: f64, cpu_s: f64) -> StudyPoint {
        sample::point(server, &[("clients", clients)], run(cpu_s, 1000))
    }

    #[test]
    fn servers_are_compared_where_both_were_measured() {
        let servers = sample::servers(["A", "B", "C"]);
        let points = [
            point("A", 1.0, 0.01),
            point("A", 2.0, 0.01),
            point("A", 3.0, 9.0),
            point("B", 1.0, 0.02),
            point("B", 2.0, 0.08),
        ];
        let said = headline(Analysis::Koka, Points { servers: &servers, points: &points }).unwrap();
        // The geometric mean of 2 and 8; C was not measured.
        assert_eq!(said.sentence, "For the same work B needs 4.00 times the CPU of A.");
        let bars: Vec<(&str, f64)> =
            said.chart.rows.iter().map(|row| (row.name.as_str(), row.bars[0].parts[0].1)).collect();
        assert!(bars[0] == ("A", 1.0) && bars[1].0 == "B" && (bars[1].1 - 4.0).abs() < 1e-9, "{bars:?}");
        assert!(headline(Analysis::Koka, Points { servers: &servers[..1], points: &points }).is_none());
    }

    #[test]
    fn several_servers_are_one_sentence() {
        let said = |others: &[(&str, f64)]| sentence("A", others, "the CPU");
        assert_eq!(
            said(&[("B", 2.0), ("C", 3.0)]),
            "For the same work B needs 2.00 times the CPU of A, and C 3.00 times."
        );
        assert_eq!(
            said(&[("B", 2.0), ("C", 3.0), ("D", 4.0)]),
            "For the same work B needs 2.00 times the CPU of A, C 3.00 times, and D 4.00 times."
        );
    }
}
