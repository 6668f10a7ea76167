//! A value over the rounds of a study: its median, with the least and the greatest.

use posthaste_load_results::{RunResult, StudyPoint};

use super::points::{Points, figure, median};

/// The value of one thing on one server: least, median and greatest of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) greatest: f64,
    /// The number of rounds.
    rounds: usize,
    /// The value is of one round, where other cells of the study have several.
    lone: bool,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        Some(Self { least, median: median(&values)?, greatest, rounds: values.len(), lone: false })
    }

    /// The same in a study of several rounds. Then one round is marked: it has no spread.
    fn among(mut values: Vec<f64>, rounds: Rounds) -> Option<Self> {
        values.retain(|value| value.is_finite());
        let lone = rounds == Rounds::Several && values.len() == 1;
        Some(Self { lone, ..Self::of(values)? })
    }

    /// The verdict of the rounds on two things, from their ratio. One round says nothing: it has
    /// no spread.
    pub(super) fn verdict(self) -> Verdict {
        if self.rounds < 2 {
            Verdict::OneRound
        } else if self.least > 1.0 {
            Verdict::More
        } else if self.greatest < 1.0 {
            Verdict::Less
        } else {
            Verdict::RoundsDiffer
        }
    }

    pub(super) fn show(self) -> String {
        self.show_as(figure, "", "–")
    }

    /// A ratio in percent: `77.5 % (75.0–80.0)`.
    pub(super) fn percent(self) -> String {
        self.show_as(|ratio| figure(ratio * 100.0), " %", "–")
    }

    /// A ratio as a change in percent: `-40 % (-42 to -38)`.
    pub(super) fn change(self) -> String {
        self.show_as(|ratio| format!("{:+.0}", (ratio - 1.0) * 100.0), " %", " to ")
    }

    /// A difference with its sign and unit: `+3.00 µs (+2.00 to +4.00)`.
    pub(super) fn signed(self, unit: &str) -> String {
        let sign = |value: f64| if value > 0.0 { "+" } else { "" };
        self.show_as(|value| format!("{}{}", sign(value), figure(value)), unit, " to ")
    }

    fn show_as(self, text: impl Fn(f64) -> String, unit: &str, to: &str) -> String {
        let (least, middle, greatest) = (text(self.least), text(self.median), text(self.greatest));
        match least == greatest {
            true if self.lone => format!("{middle}{unit} (1 round)"),
            true => format!("{middle}{unit}"),
            false => format!("{middle}{unit} ({least}{to}{greatest})"),
        }
    }

    /// The same of the values times a factor above zero.
    pub(super) fn times(self, factor: f64) -> Self {
        let (least, median, greatest) = (self.least * factor, self.median * factor, self.greatest * factor);
        Self { least, median, greatest, ..self }
    }
}

/// The verdict of the rounds on a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The ratio is over 1 in each round.
    More,
    /// The ratio is under 1 in each round.
    Less,
    /// Rounds differ, so nothing is shown.
    RoundsDiffer,
    /// There is one round, so nothing is shown.
    OneRound,
}

/// A cell of a table.
pub(super) fn shown(value: Option<Spread>) -> String {
    value.map_or("–".into(), Spread::show)
}

/// The value over the rounds of one server's points that are wanted.
pub(super) fn spread(
    points: Points,
    server: &str,
    wanted: impl Fn(&StudyPoint) -> bool,
    of: impl Fn(&RunResult) -> Option<f64>,
) -> Option<Spread> {
    let mine = points.measured().filter(|(p, _)| p.server == server && wanted(p));
    Spread::among(mine.filter_map(|(_, run)| of(run)).collect(), points.rounds())
}

/// The heads of a table with a column for each server. From the second server on, a column beside
/// it has the ratio to the first, in each round.
pub(super) fn heads_beside_first(points: Points, first: &str) -> Vec<String> {
    let mut heads = vec![first.to_owned()];
    for (n, server) in points.servers().enumerate() {
        heads.push(server.to_owned());
        if n > 0 {
            heads.push(format!("÷ {}", points.servers[0].name));
        }
    }
    heads
}

/// The cells of a row below [`heads_beside_first`], after its first one.
pub(super) fn cells_beside_first(
    points: Points,
    wanted: impl Fn(&StudyPoint) -> bool,
    of: impl Fn(&RunResult) -> Option<f64>,
) -> Vec<String> {
    let mut cells = Vec::new();
    let first = points.servers().next().unwrap_or_default();
    for (n, server) in points.servers().enumerate() {
        cells.push(shown(spread(points, server, &wanted, &of)));
        if n > 0 {
            cells.push(shown(points.ratio_at(&wanted, (server, first), &of)));
        }
    }
    cells
}

/// The number of rounds that the cells of a study have: one, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounds {
    /// One: no cell has a spread.
    One,
    /// More than one.
    Several,
}

/// One point on one server, in all rounds.
#[derive(Clone)]
pub(super) struct PointRuns<'a> {
    /// The point, of the first round in which it was measured.
    pub(super) point: &'a StudyPoint,
    /// The point's runs.
    pub(super) runs: Vec<&'a RunResult>,
    /// The rounds of the study.
    rounds: Rounds,
}

impl PointRuns<'_> {
    /// The value over the rounds.
    pub(super) fn value(&self, of: impl Fn(&RunResult) -> Option<f64>) -> Option<Spread> {
        Spread::among(self.runs.iter().filter_map(|run| of(run)).collect(), self.rounds)
    }

    /// The value as a cell of a table.
    pub(super) fn cell(&self, of: impl Fn(&RunResult) -> Option<f64>) -> String {
        shown(self.value(of))
    }

    /// The same for a value that not every machine or server offers.
    pub(super) fn offered(&self, of: impl Fn(&RunResult) -> Option<f64>) -> String {
        self.value(of).map_or_else(|| "not offered here".to_owned(), Spread::show)
    }

    /// Virtual users: the median, where load was raised in each round.
    pub(super) fn clients(&self) -> f64 {
        self.value(|run| Some(f64::from(run.clients))).map_or(0.0, |clients| clients.median)
    }
}

impl<'a> Points<'a> {
    /// The spread of values that were each made of all points of a round, such as a projection.
    pub(super) fn among(self, values: Vec<f64>) -> Option<Spread> {
        Spread::among(values, self.rounds())
    }

    /// The rounds in which something was measured, in order.
    pub(super) fn round_numbers(self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.measured().map(|(point, _)| point.round).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Ratios of a value at the wanted points to that of the same server at another point. Both
    /// differ by one swept quantity alone. Each round that has both makes a ratio.
    pub(super) fn gain(
        self,
        wanted: impl Fn(&StudyPoint) -> bool,
        (swept, from): (&str, f64),
        of: impl Fn(&RunResult) -> Option<f64>,
    ) -> Option<Spread> {
        let mut gains = Vec::new();
        for (point, run) in self.measured().filter(|(p, _)| wanted(p)) {
            let mut at = point.at.clone();
            at.insert(swept.to_owned(), from);
            let is_base = |p: &StudyPoint| {
                p.server == point.server
                    && p.workload == point.workload
                    && p.round == point.round
                    && p.at == at
            };
            let base = self.measured().find(|(p, _)| is_base(p));
            let base = base.and_then(|(_, run)| of(run)).filter(|base| *base > 0.0);
            if let (Some(value), Some(base)) = (of(run), base) {
                gains.push(value / base);
            }
        }
        Spread::among(gains, self.rounds())
    }

    /// A value of a workload on one server ÷ that on another, in each round in which both were
    /// measured.
    pub(super) fn ratio(
        self,
        workload: &str,
        pair: (&str, &str),
        of: impl Fn(&RunResult) -> Option<f64>,
    ) -> Option<Spread> {
        self.ratio_at(|point| point.workload == workload, pair, of)
    }

    /// The same at the points that are wanted. A machine whose speed changes from round to round
    /// does not change it.
    pub(super) fn ratio_at(
        self,
        wanted: impl Fn(&StudyPoint) -> bool,
        pair: (&str, &str),
        of: impl Fn(&RunResult) -> Option<f64>,
    ) -> Option<Spread> {
        let pairs = self.pairs(wanted, pair, of).into_iter().filter(|(_, other)| *other > 0.0);
        Spread::among(pairs.map(|(own, other)| own / other).collect(), self.rounds())
    }

    /// A value of a workload on one server minus that on another, in each round in which both were
    /// measured.
    pub(super) fn difference(
        self,
        workload: &str,
        pair: (&str, &str),
        of: impl Fn(&RunResult) -> Option<f64>,
    ) -> Option<Spread> {
        let pairs = self.pairs(|point| point.workload == workload, pair, of).into_iter();
        Spread::among(pairs.map(|(own, other)| own - other).collect(), self.rounds())
    }

    /// A value on two servers, at each wanted point of each round that both have.
    fn pairs(
        self,
        wanted: impl Fn(&StudyPoint) -> bool,
        (server, to): (&str, &str),
        of: impl Fn(&RunResult) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        let mut pairs = Vec::new();
        for (point, run) in self.measured().filter(|(p, _)| p.server == server && wanted(p)) {
            let same =
                |p: &StudyPoint| p.workload == point.workload && p.round == point.round && p.at == point.at;
            let other = self.measured().find(|(p, _)| p.server == to && same(p));
            pairs.extend(of(run).zip(other.and_then(|(_, run)| of(run))));
        }
        pairs
    }

    /// The rounds of the study, by those that were measured.
    fn rounds(self) -> Rounds {
        match self.measured().any(|(point, _)| point.round > 0) {
            true => Rounds::Several,
            false => Rounds::One,
        }
    }

    /// The points that were measured, each with all its rounds, in the order of the first round.
    pub(super) fn places(self) -> Vec<PointRuns<'a>> {
        let rounds = self.rounds();
        let mut places: Vec<PointRuns> = Vec::new();
        for (point, run) in self.measured() {
            let same =
                |p: &StudyPoint| p.server == point.server && p.workload == point.workload && p.at == point.at;
            match places.iter_mut().find(|place| same(place.point)) {
                Some(place) => place.runs.push(run),
                None => places.push(PointRuns { point, runs: vec![run], rounds }),
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{self, run};
    use super::*;

    #[test]
    fn a_cell_is_the_median_with_least_and_greatest() {
        let shown = |values: &[f64]| shown(Spread::of(values.to_vec()));
        assert_eq!(shown(&[3.0, 1.0, 2.0]), "2.00 (1.00–3.00)");
        assert_eq!(shown(&[1.0, 1.0001]), "1.00");
        assert_eq!(shown(&[f64::NAN]), "–");
        assert_eq!(shown(&[]), "–");
    }

    #[test]
    fn a_ratio_in_percent_has_its_spread() {
        let spread = |values: &[f64]| Spread::of(values.to_vec()).unwrap();
        assert_eq!(spread(&[1.5, 1.6]).times(0.5).percent(), "77.5 % (75.0–80.0)");
        assert_eq!(spread(&[0.5, 0.6, 0.75]).change(), "-40 % (-50 to -25)");
        assert_eq!([spread(&[1.0]).percent(), spread(&[1.0]).change()], ["100 %", "+0 %"]);
    }

    #[test]
    fn a_difference_has_its_sign_and_is_that_of_the_rounds() {
        let point = |server: &str, round: u32, count: u64| StudyPoint {
            round,
            ..sample::point(server, &[], run(1.0, count))
        };
        let points = [
            point("A", 0, 10),
            point("B", 0, 0),
            point("A", 1, 50),
            point("B", 1, 20),
            point("A", 2, 7),
            point("A", 3, 5),
            point("B", 3, 25),
        ];
        let points = Points { servers: &[], points: &points };
        let difference =
            |pair: (&str, &str)| points.difference("w", pair, |run| Some(run.total.count as f64)).unwrap();
        assert_eq!(difference(("A", "B")).signed(" µs"), "+10.0 µs (−20.0 to +30.0)");
        assert_eq!(difference(("A", "A")).signed(""), "0");
        assert_eq!(points.difference("other", ("A", "B"), |_| Some(1.0)), None);
    }

    #[test]
    fn a_gain_is_that_of_the_rounds_and_of_one_quantity() {
        let point = |cpus: f64, clients: f64, round: u32, count: u64| StudyPoint {
            round,
            ..sample::point("A", &[("cpus", cpus), ("clients", clients)], run(1.0, count))
        };
        // Round 1 has no point with one processor. Other users make another line.
        let points = [
            point(1.0, 90.0, 0, 100),
            point(2.0, 90.0, 0, 150),
            point(2.0, 90.0, 1, 900),
            point(1.0, 90.0, 2, 10),
            point(2.0, 90.0, 2, 19),
            point(1.0, 30.0, 0, 1),
        ];
        let points = Points { servers: &[], points: &points };
        let gain = |cpus: f64| {
            let wanted = |p: &StudyPoint| p.at["cpus"] == cpus && p.at["clients"] == 90.0;
            shown(points.gain(wanted, ("cpus", 1.0), |run| Some(run.total.count as f64)))
        };
        assert_eq!([gain(1.0), gain(2.0), gain(4.0)], ["1.00", "1.70 (1.50–1.90)", "–"]);
    }

    #[test]
    fn a_difference_is_shown_by_each_of_several_rounds() {
        let verdict = |values: &[f64]| Spread::of(values.to_vec()).unwrap().verdict();
        assert_eq!(verdict(&[1.1, 1.2]), Verdict::More);
        assert_eq!(verdict(&[0.9, 0.8]), Verdict::Less);
        assert_eq!(verdict(&[1.1, 1.2, 0.99]), Verdict::RoundsDiffer);
        assert_eq!(verdict(&[1.0, 1.2]), Verdict::RoundsDiffer);
        assert_eq!(verdict(&[1.5]), Verdict::OneRound);
    }

    #[test]
    fn ratios_are_those_of_the_rounds() {
        let point = |server: &str, round: u32, count: u64| StudyPoint {
            round,
            ..sample::point(server, &[], run(1.0, count))
        };
        // The machine is slower in each round. Without its partner, a point has no ratio.
        let points = [
            point("A", 0, 10),
            point("B", 0, 20),
            point("B", 1, 55),
            point("A", 1, 50),
            point("A", 2, 100),
            point("B", 2, 150),
            point("B", 3, 1),
        ];
        let points = Points { servers: &[], points: &points };
        let workload = points.workloads()[0];
        let ratio =
            |pair: (&str, &str)| shown(points.ratio(workload, pair, |run| Some(run.total.count as f64)));
        assert_eq!(ratio(("B", "A")), "1.50 (1.10–2.00)");
        assert_eq!(ratio(("A", "A")), "1.00");
        assert_eq!(ratio(("A", "C")), "–");
        assert!(points.ratio("another", ("B", "A"), |_| Some(1.0)).is_none());
    }

    #[test]
    fn the_ratio_beside_the_first_server_is_that_of_the_rounds() {
        let point = |server: &str, items: f64, round: u32, count: u64| StudyPoint {
            round,
            ..sample::point(server, &[("items", items)], run(1.0, count))
        };
        // The ratio of the medians would be 2.00.
        let points = [
            point("A", 10.0, 0, 10),
            point("B", 10.0, 0, 10),
            point("A", 10.0, 1, 20),
            point("B", 10.0, 1, 40),
            point("A", 10.0, 2, 40),
            point("B", 10.0, 2, 40),
            point("A", 99.0, 0, 7),
        ];
        let servers = sample::servers(["A", "B"]);
        let points = Points { servers: &servers, points: &points };
        assert_eq!(heads_beside_first(points, "at"), ["at", "A", "B", "÷ A"]);
        let cells = |items: f64| {
            let wanted = |p: &StudyPoint| p.at.get("items") == Some(&items);
            cells_beside_first(points, wanted, |run| Some(run.total.count as f64))
        };
        assert_eq!(cells(10.0), ["20.0 (10.0–40.0)", "40.0 (10.0–40.0)", "1.00 (1.00–2.00)"]);
        assert_eq!(cells(99.0), ["7.00 (1 round)", "–", "–"]);
    }

    #[test]
    fn rounds_of_a_point_are_one_place() {
        let point = |server: &str, round: u32, count: u64| StudyPoint {
            round,
            ..sample::point(server, &[], run(1.0, count))
        };
        let points = [point("A", 0, 10), point("B", 0, 5), point("B", 1, 6), point("A", 1, 30)];
        let places = Points { servers: &[], points: &points }.places();
        let rows = |places: &[PointRuns]| -> Vec<(String, String)> {
            let cell = |p: &PointRuns| p.cell(|run| Some(run.total.count as f64));
            places.iter().map(|p| (p.point.server.clone(), cell(p))).collect()
        };
        let named = |rows: [(&str, &str); 2]| rows.map(|(name, cell)| (name.to_owned(), cell.to_owned()));
        assert_eq!(rows(&places), named([("A", "20.0 (10.0–30.0)"), ("B", "5.50 (5.00–6.00)")]));
        // A cell of one round says so, but where all are of one.
        let some = Points { servers: &[], points: &points[..3] }.places();
        assert_eq!(rows(&some), named([("A", "10.0 (1 round)"), ("B", "5.50 (5.00–6.00)")]));
        let one = Points { servers: &[], points: &points[..2] }.places();
        assert_eq!(rows(&one), named([("A", "10.0"), ("B", "5.00")]));
    }
}
