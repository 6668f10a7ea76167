//! The plots of one run, or of several laid over each other.

use std::collections::BTreeMap;

use posthaste_load_results::{Curve, Plot, RunResult, Summary};
use posthaste_load_text::figure::{figure, percent};

use crate::bars::{BarGroup, BarPart, Bars};
use crate::chart::{Band, Chart, XAxis};
use crate::legend::Look;
use crate::markup::Markup;
use crate::ranges;

/// Points of a series beyond which several seconds become one.
const SECONDS_MAX: usize = 240;

/// A run and its name among the others.
pub type NamedRun<'a> = (String, &'a RunResult);

/// A plot on the page.
pub struct Figure {
    /// The plot's title.
    pub caption: String,
    /// The explanation of how to read the plot.
    pub note: String,
    /// The drawing.
    pub svg: Markup,
}

impl Figure {
    /// The figure of a chart, if there is anything on it.
    pub fn of(chart: &Chart, note: &str) -> Option<Self> {
        (!chart.is_empty()).then(|| Self {
            caption: chart.plot.title.clone(),
            note: note.to_owned(),
            svg: chart.draw(),
        })
    }

    /// Prints the figure as HTML.
    pub fn draw(self, out: &mut Markup) {
        out.raw("<figure>").element("figcaption", &[], &self.caption).append(self.svg);
        if !self.note.is_empty() {
            out.element("p", &[("class", &"note")], &self.note);
        }
        out.close("figure");
    }
}

/// The plots of these runs.
pub fn figures(runs: &[NamedRun]) -> Vec<Figure> {
    let plots = [
        against_clients(runs),
        times(runs),
        tails(runs),
        throughput(runs),
        seconds(runs),
        processors(runs),
        unfinished(runs),
        mix(runs),
        cpu_split(runs),
        roles(runs),
    ];
    plots.into_iter().flatten().collect()
}

/// Throughput by the number of users, if the runs differ in it.
fn against_clients(runs: &[NamedRun]) -> Option<Figure> {
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let mixed = runs.iter().any(|(_, r)| r.workload.name != runs[0].1.workload.name);
    for (_, run) in runs {
        let name = if mixed { format!("{}, {}", run.label, run.workload.name) } else { run.label.clone() };
        curves.entry(name).or_default().push((f64::from(run.clients), run.total.rate_per_s));
    }
    let curves: Vec<Curve> = curves
        .into_iter()
        .map(|(name, mut points)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Curve { name, points, fitted: false }
        })
        .filter(|c| c.points.first().map(|p| p.0) != c.points.last().map(|p| p.0))
        .collect();
    let plot = Plot {
        title: "Throughput against virtual users".into(),
        x: "virtual users".into(),
        y: "transactions per second".into(),
        curves,
        ..Plot::default()
    };
    Figure::of(&plot.into(), "")
}

/// Response times of each transaction.
fn times(runs: &[NamedRun]) -> Option<Figure> {
    let names: Vec<String> = runs.iter().map(|(name, _)| name.clone()).collect();
    let find = |run: &RunResult, name: &str| run.transactions.iter().position(|t| t.name == name);
    let mut rows: Vec<ranges::Row> = Vec::new();
    for name in transaction_names(runs) {
        let times: Vec<Option<&Summary>> = runs
            .iter()
            .map(|(_, r)| find(r, &name).and_then(|at| r.transactions.get(at)).map(|t| &t.summary))
            .collect();
        if times.iter().flatten().any(|t| t.count > 0) {
            rows.push(ranges::Row { name, times });
        }
    }
    if rows.is_empty() {
        return None;
    }
    if rows.len() > 1 {
        rows.push(ranges::Row {
            name: "all".into(),
            times: runs.iter().map(|(_, r)| Some(&r.total)).collect(),
        });
    }
    let caption = "Response time of each transaction".to_owned();
    let svg = ranges::draw(&caption, &names, &rows);
    let note = "Marker: median. Bar: to 90 %. Line: to 99 %. Tick: the longest.".to_owned();
    Some(Figure { caption, note, svg })
}

/// Names of transactions, in the order they first appear.
pub fn transaction_names(runs: &[NamedRun]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for transaction in runs.iter().flat_map(|(_, r)| &r.transactions) {
        if !names.contains(&transaction.name) {
            names.push(transaction.name.clone());
        }
    }
    names
}

/// The whole distribution: which share of requests took longer than this.
fn tails(runs: &[NamedRun]) -> Option<Figure> {
    let curve = |(name, run): &NamedRun| {
        let all: u64 = run.total.histogram_us.iter().map(|b| b.1).sum();
        let mut points = Vec::new();
        let mut below = 0;
        for (us, count) in &run.total.histogram_us {
            // The share at or above this bucket, as one in this many.
            points.push((all as f64 / (all - below).max(1) as f64, *us as f64 / 1e3));
            below += count;
        }
        Curve { name: name.clone(), points: sparse(points), fitted: false }
    };
    let plot = Plot {
        title: "Distribution of response times, all transactions".into(),
        x: "percentile (each step to the right: a tenth of the requests)".into(),
        y: "response time (ms)".into(),
        log_x: true,
        log_y: true,
        curves: runs.iter().map(curve).collect(),
        marks: Vec::new(),
    };
    Figure::of(&Chart { plot, across: XAxis::Tail, ..Chart::default() }, "")
}

/// Points that differ by less than what can be seen are left out.
fn sparse(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let last = points.len().saturating_sub(1);
    for (at, point) in points.into_iter().enumerate() {
        let near = kept.last().is_some_and(|k| point.0 / k.0 < 1.01 && point.1 / k.1 < 1.02);
        if !near || at == last {
            kept.push(point);
        }
    }
    kept
}

/// Values per second as points, several seconds together if there are many.
fn per_second(values: &[f64], step: usize) -> Vec<(f64, f64)> {
    values
        .chunks(step)
        .enumerate()
        .map(|(at, chunk)| {
            ((at * step) as f64 + step as f64 / 2.0, chunk.iter().sum::<f64>() / chunk.len() as f64)
        })
        .collect()
}

fn step(runs: &[NamedRun]) -> usize {
    let longest = runs.iter().map(|(_, r)| r.series.done.len()).max().unwrap_or(0);
    longest.div_ceil(SECONDS_MAX).max(1)
}

fn averaged(step: usize) -> String {
    if step > 1 { format!("Each point is the mean of {step} seconds.") } else { String::new() }
}

fn over_time(title: &str, y: &str, curves: Vec<Curve>, runs: &[NamedRun]) -> Chart {
    let plot = Plot {
        title: title.into(),
        x: "seconds since the first user started".into(),
        y: y.into(),
        curves,
        ..Plot::default()
    };
    Chart { plot, bands: bands(runs), across: XAxis::Time, always_legend: false }
}

/// The measured window and the steady part of it; only if all runs agree where they are.
fn bands(runs: &[NamedRun]) -> Vec<Band> {
    let Some((_, first)) = runs.first() else { return Vec::new() };
    let (one, w) = (runs.len() == 1, &first.window);
    let close =
        |r: &RunResult| (r.window.start_s - w.start_s).abs() < 1.0 && (r.window.end_s - w.end_s).abs() < 1.0;
    if !runs.iter().all(|(_, r)| close(r)) || w.end_s <= w.start_s {
        return Vec::new();
    }
    let mut bands = vec![Band { name: "measured".into(), class: "window", from: w.start_s, to: w.end_s }];
    if one && w.steady_end_s > w.steady_start_s {
        let name =
            if w.steady { "steady state".into() } else { format!("not steady: {} drift", percent(w.drift)) };
        bands.push(Band { name, class: "steady", from: w.steady_start_s, to: w.steady_end_s });
    }
    bands
}

fn throughput(runs: &[NamedRun]) -> Option<Figure> {
    let step = step(runs);
    let whole = |values: &[u64]| values.iter().map(|n| *n as f64).collect::<Vec<_>>();
    let mut curves: Vec<Curve> = runs
        .iter()
        .map(|(name, r)| {
            curve(if runs.len() == 1 { "done" } else { name }, per_second(&whole(&r.series.done), step))
        })
        .collect();
    if let [(_, run)] = runs
        && run.series.errors.iter().any(|e| *e > 0)
    {
        curves.push(curve("errors", per_second(&whole(&run.series.errors), step)));
    }
    Figure::of(&over_time("Throughput", "transactions per second", curves, runs), &averaged(step))
}

fn curve(name: &str, points: Vec<(f64, f64)>) -> Curve {
    Curve { name: name.to_owned(), points, fitted: false }
}

fn seconds(runs: &[NamedRun]) -> Option<Figure> {
    let step = step(runs);
    let curves = match runs {
        [(_, r)] => vec![
            curve("mean", per_second(&r.series.mean_ms, step)),
            curve("longest", per_second(&r.series.max_ms, step)),
        ],
        many => many.iter().map(|(name, r)| curve(name, per_second(&r.series.mean_ms, step))).collect(),
    };
    let title = if runs.len() == 1 { "Response time over time" } else { "Mean response time over time" };
    let mut chart = over_time(title, "response time (ms)", curves, runs);
    chart.plot.log_y = true;
    Figure::of(&chart, &averaged(step))
}

fn processors(runs: &[NamedRun]) -> Option<Figure> {
    let step = step(runs);
    let curves: Vec<Curve> = match runs {
        [(_, r)] => [("server", &r.series.server_cpus), ("generator", &r.series.generator_cpus)]
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| curve(name, per_second(values, step)))
            .collect(),
        many => many
            .iter()
            .filter(|(_, r)| !r.series.server_cpus.is_empty())
            .map(|(name, r)| curve(name, per_second(&r.series.server_cpus, step)))
            .collect(),
    };
    let title = if runs.len() == 1 { "CPU of server and generator" } else { "CPU of the server" };
    Figure::of(&over_time(title, "processors busy", curves, runs), &averaged(step))
}

/// Open loop: tasks due and not finished.
fn unfinished(runs: &[NamedRun]) -> Option<Figure> {
    let step = step(runs);
    let curves: Vec<Curve> = runs
        .iter()
        .filter(|(_, r)| r.series.unfinished.iter().any(|n| *n > 0))
        .map(|(name, r)| {
            let values: Vec<f64> = r.series.unfinished.iter().map(|n| *n as f64).collect();
            curve(name, per_second(&values, step))
        })
        .collect();
    Figure::of(&over_time("Tasks due and not finished", "tasks", curves, runs), &averaged(step))
}

/// The requested mix and the realised one.
fn mix(runs: &[NamedRun]) -> Option<Figure> {
    let first = runs.first()?.1;
    let same = |r: &RunResult| r.workload.name == first.workload.name;
    if first.transactions.iter().filter(|t| t.share_asked.is_some()).count() < 2
        || !runs.iter().all(|(_, r)| same(r))
    {
        return None;
    }
    let mut legend = vec![("asked for".to_owned(), Look::Outline(7))];
    legend.extend(runs.iter().enumerate().map(|(n, (name, _))| {
        (if runs.len() == 1 { "realised".to_owned() } else { name.clone() }, Look::Fill(n))
    }));
    let rows = first.transactions.iter().filter_map(|t| {
        let mut bars = vec![share(t.share_asked?, Look::Outline(7))];
        for (n, (_, run)) in runs.iter().enumerate() {
            let realised =
                run.transactions.iter().find(|o| o.name == t.name).map_or(0.0, |o| o.share_realised);
            bars.push(share(realised, Look::Fill(n)));
        }
        Some(BarGroup { name: t.name.clone(), bars })
    });
    let bars = Bars {
        title: "Mix of transactions: requested and realised".into(),
        x: "share of transactions (%)".into(),
        legend,
        rows: rows.collect(),
    };
    Some(Figure { caption: bars.title.clone(), note: String::new(), svg: bars.draw() })
}

fn share(share: f64, look: Look) -> (Vec<BarPart>, String) {
    (vec![BarPart { value: share * 100.0, look }], percent(share))
}

/// User and kernel time of the server and the generator.
fn cpu_split(runs: &[NamedRun]) -> Option<Figure> {
    let mut rows = Vec::new();
    for (n, (name, run)) in runs.iter().enumerate() {
        let bar = |user: f64, system: f64, n: usize| {
            let parts = vec![
                BarPart { value: user, look: Look::Fill(n) },
                BarPart { value: system, look: Look::Pale(n) },
            ];
            let kernel = if user + system > 0.0 { system / (user + system) } else { 0.0 };
            (parts, format!("{} s, {} kernel", figure(user + system), percent(kernel)))
        };
        let server = run.server.as_ref()?;
        rows.push(BarGroup {
            name: name.clone(),
            bars: vec![bar(server.cpu_user_s, server.cpu_system_s, n)],
        });
        if runs.len() == 1 {
            let own = &run.generator;
            rows.push(BarGroup {
                name: "generator".into(),
                bars: vec![bar(own.cpu_user_s, own.cpu_system_s, 7)],
            });
        }
    }
    let bars = Bars {
        title: "CPU time in the measured window, user and kernel".into(),
        x: "CPU seconds".into(),
        legend: vec![("user".into(), Look::Fill(0)), ("kernel".into(), Look::Pale(0))],
        rows,
    };
    Some(Figure { caption: bars.title.clone(), note: String::new(), svg: bars.draw() })
}

/// CPU by program or node, for servers of several.
fn roles(runs: &[NamedRun]) -> Option<Figure> {
    let [(_, run)] = runs else { return None };
    let roles = &run.server.as_ref()?.roles;
    if roles.len() < 2 {
        return None;
    }
    let rows = roles.iter().map(|role| BarGroup {
        name: role.name.clone(),
        bars: vec![(
            vec![BarPart { value: role.cpu_s, look: Look::Fill(0) }],
            format!("{} s, {} processes", figure(role.cpu_s), role.processes),
        )],
    });
    let bars = Bars {
        title: "Server CPU by program or node".into(),
        x: "CPU seconds".into(),
        legend: Vec::new(),
        rows: rows.collect(),
    };
    Some(Figure { caption: bars.title.clone(), note: String::new(), svg: bars.draw() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn many_seconds_become_few_points() {
        let values: Vec<f64> = (0..600).map(f64::from).collect();
        let points = per_second(&values, 3);
        assert_eq!((points.len(), points[0], points[199]), (200, (1.5, 1.0), (598.5, 598.0)));
    }

    #[test]
    fn one_run_and_several_have_their_plots() {
        let (a, b) = (sample::run("Posthaste", 30, 1.0), sample::run("Dovecot", 90, 2.0));
        let captions = |runs: &[NamedRun]| figures(runs).into_iter().map(|f| f.caption).collect::<Vec<_>>();
        let one = captions(&[("a".into(), &a)]);
        for expected in ["Response time of each transaction", "Throughput", "CPU of server and generator"] {
            assert!(one.iter().any(|c| c == expected), "{expected} is not among {one:?}");
        }
        let mut c = a.clone();
        c.clients = 90;
        let several = captions(&[("a".into(), &a), ("b".into(), &b), ("c".into(), &c)]);
        assert_eq!(several[0], "Throughput against virtual users");
        let empty = RunResult { server: None, transactions: vec![], series: Default::default(), ..a.clone() };
        assert!(!captions(&[("e".into(), &empty)]).contains(&"Throughput".to_owned()));
    }
}
