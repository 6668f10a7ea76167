//! The first screen of a report: a sentence and a picture, and what the article found.
//!
//! One figure sums up servers that did the same work at the same points. It is how many times
//! what the first server needs each of them needs: the geometric mean over the points that both
//! have. In `storage-format` some get rich mail and others MIME alone: these are two groups.

use posthaste_load_results::{Bar, BarChart, BarRow, Headline, RunResult};

use super::formats;
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

/// The CPU of a transaction; for the study of memory, the time of one.
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

/// Servers that did the same work, each with the ratio of its figure to the first one's.
struct Compared<'a> {
    /// The first words of the sentence.
    begin: &'static str,
    first: &'a str,
    others: Vec<(&'a str, f64)>,
}

impl<'a> Compared<'a> {
    /// `None` with one server, or if servers share no point with the first one.
    fn of(
        (begin, servers): (&'static str, Vec<&'a str>),
        places: &[PointRuns],
        of: fn(&RunResult) -> Option<f64>,
    ) -> Option<Self> {
        let (&first, others) = servers.split_first()?;
        let ratio = |server: &&'a str| Some((*server, ratio(places, (first, *server), of)?));
        let others: Vec<(&str, f64)> = others.iter().filter_map(ratio).collect();
        (!others.is_empty()).then_some(Self { begin, first, others })
    }

    /// `For the same work Dovecot needs 5.20 times the CPU of Posthaste, and Cyrus 3.10 times.`
    fn sentence(&self, words: &str) -> String {
        let mut parts = self.others.iter().map(|(name, times)| (name, figure(*times)));
        let Some((name, times)) = parts.next() else { return String::new() };
        let mut text = format!("{} {name} needs {times} times {words} of {}", self.begin, self.first);
        let rest: Vec<String> = parts.map(|(name, times)| format!("{name} {times} times")).collect();
        match rest.split_last() {
            None => {}
            Some((last, [])) => text.push_str(&format!(", and {last}")),
            Some((last, between)) => text.push_str(&format!(", {}, and {last}", between.join(", "))),
        }
        text.push('.');
        text
    }

    fn bars(&self) -> impl Iterator<Item = (&'a str, f64)> {
        [(self.first, 1.0)].into_iter().chain(self.others.iter().copied())
    }
}

/// The servers of a study by the work that they did.
fn groups(which: Analysis, points: Points<'_>) -> Vec<(&'static str, Vec<&str>)> {
    match which {
        Analysis::StorageFormat => {
            let [rich, mime] = formats::by_mail(points.servers());
            vec![("For the same work", rich), ("Where all mail is MIME,", mime)]
        }
        _ => vec![("For the same work", points.servers().collect())],
    }
}

/// The headline of these points; `None` with one server, or if servers share no point.
pub(super) fn headline(which: Analysis, points: Points) -> Option<Headline> {
    let (measure, places) = (measure(which), points.places());
    let groups = groups(which, points).into_iter();
    let compared: Vec<Compared> =
        groups.filter_map(|group| Compared::of(group, &places, measure.of)).collect();
    if compared.is_empty() {
        return None;
    }
    let row = |(name, times): (&str, f64)| BarRow {
        name: name.to_owned(),
        bars: vec![Bar { parts: vec![(0, times)], note: format!("{} ×", figure(times)) }],
    };
    let firsts: Vec<&str> = compared.iter().map(|one| one.first).collect();
    let sentences: Vec<String> = compared.iter().map(|one| one.sentence(measure.words)).collect();
    Some(Headline {
        sentence: sentences.join(" "),
        chart: BarChart {
            title: format!("{}, {} = 1: shorter is better", upper(measure.axis), firsts.join(" = 1 and ")),
            x: format!("times {}, geometric mean over all points", firsts.join(" or ")),
            series: vec![measure.axis.to_owned()],
            rows: compared.iter().flat_map(Compared::bars).map(row).collect(),
        },
    })
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
    fn forms_of_mail_are_compared_where_the_mail_is_the_same() {
        let servers = sample::servers(["mime", "rich", "only MIME", "Dovecot"]);
        let points = [
            point("mime", 1.0, 0.02),
            point("rich", 1.0, 0.03),
            point("only MIME", 1.0, 0.01),
            point("Dovecot", 1.0, 0.02),
        ];
        let said = headline(Analysis::StorageFormat, Points { servers: &servers, points: &points }).unwrap();
        assert_eq!(
            said.sentence,
            "For the same work rich needs 1.50 times the CPU of mime. Where all mail is MIME, Dovecot needs 2.00 \
             times the CPU of only MIME."
        );
        let rows: Vec<&str> = said.chart.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(rows, ["mime", "rich", "only MIME", "Dovecot"]);
        assert_eq!(
            said.chart.title,
            "Server CPU of a transaction, mime = 1 and only MIME = 1: shorter is better"
        );
    }

    #[test]
    fn several_servers_are_one_sentence() {
        let said = |others: &[(&'static str, f64)]| {
            Compared { begin: "For the same work", first: "A", others: others.to_vec() }.sentence("the CPU")
        };
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
