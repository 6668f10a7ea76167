//! Response times as ranges: a row for each transaction. In it, each run has a thick bar from the
//! median to 90 %, a thin line to 99 %, and a tick at the longest. A slow transaction looks
//! different from one with a slow tail.

use posthaste_load_results::Summary;
use posthaste_load_text::figure::figure;

use crate::chart::WIDTH;
use crate::legend::{self, Look, colour, marker, r};
use crate::lettering::{fitted, width};
use crate::markup::Markup;
use crate::scale::{Scale, thin};

/// Height of one run's bar in a row.
const BAR: f64 = 14.0;
/// Room between rows.
const GAP: f64 = 10.0;
/// Most a name may take.
const NAMES_MAX: f64 = 150.0;

/// A row: a name and the times of each run, in the order of the runs; `None` where a run has none.
pub struct Row<'a> {
    /// The transaction.
    pub name: String,
    /// The times by run.
    pub times: Vec<Option<&'a Summary>>,
}

/// Draws rows for the named runs.
pub fn draw(title: &str, runs: &[String], rows: &[Row]) -> Markup {
    let mut svg = Markup::new();
    let entries: Vec<(String, Look)> = match runs {
        [_] => Vec::new(),
        many => many.iter().enumerate().map(|(n, name)| (name.clone(), Look::Marked(n))).collect(),
    };
    let top = legend::height(&entries, WIDTH) + 8.0;
    let row_height = BAR * runs.len() as f64 + GAP;
    let bottom = top + row_height * rows.len() as f64;
    let left = rows.iter().map(|row| width(&row.name)).fold(30.0, f64::max).min(NAMES_MAX) + 12.0;
    let scale = scale(rows).onto(left + 6.0, WIDTH - 24.0);
    let label = format!("{title}: ranges of response times in milliseconds for {} rows", rows.len());
    svg.open(
        "svg",
        &[
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("viewBox", &format!("0 0 {WIDTH} {}", r(bottom + 44.0))),
            ("role", &"img"),
            ("aria-label", &label),
        ],
    );
    legend::draw(&mut svg, &entries, (0.0, 0.0), WIDTH);
    grid(&mut svg, &scale, (left, top, bottom));
    for (at, row) in rows.iter().enumerate() {
        let y = top + row_height * at as f64;
        if at > 0 {
            line(&mut svg, "grid", (0.0, y), (WIDTH - 24.0, y));
        }
        let middle = y + row_height / 2.0 + 4.0;
        svg.element(
            "text",
            &[("class", &"name"), ("x", &r(left - 10.0)), ("y", &r(middle)), ("text-anchor", &"end")],
            &fitted(&row.name, NAMES_MAX),
        );
        for (run, times) in row.times.iter().enumerate() {
            if let Some(times) = times.filter(|t| t.count > 0) {
                let tooltip = row_tooltip(&row.name, runs.get(run), times);
                let y = y + GAP / 2.0 + BAR * (run as f64 + 0.5);
                Bar { run, y, times, tooltip: &tooltip }.draw(&mut svg, &scale);
            }
        }
    }
    svg.close("svg");
    svg
}

fn scale(rows: &[Row]) -> Scale {
    let times = || rows.iter().flat_map(|row| row.times.iter().flatten()).filter(|t| t.count > 0);
    let low = times().map(|t| t.p50_ms).filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
    let high = times().map(|t| t.max_ms).fold(0.0, f64::max);
    Scale::log(low, high)
}

fn grid(svg: &mut Markup, scale: &Scale, (left, top, bottom): (f64, f64, f64)) {
    let mut ticks = scale.ticks(0);
    thin(&mut ticks, scale, |label| width(label) + 10.0);
    for tick in &ticks {
        let Some(x) = scale.position(tick.value) else { continue };
        line(svg, if tick.label.is_some() { "grid" } else { "fine" }, (x, top), (x, bottom));
        if let Some(label) = &tick.label {
            let y = r(bottom + 17.0);
            svg.element(
                "text",
                &[("class", &"tick"), ("x", &r(x)), ("y", &y), ("text-anchor", &"middle")],
                label,
            );
        }
    }
    line(svg, "axis", (left, bottom), (WIDTH - 24.0, bottom));
    let (x, y) = (r((left + WIDTH - 24.0) / 2.0), r(bottom + 37.0));
    let name = "response time (ms, logarithmic)";
    svg.element("text", &[("class", &"name"), ("x", &x), ("y", &y), ("text-anchor", &"middle")], name);
}

/// The times of one run in a row.
struct Bar<'a> {
    run: usize,
    y: f64,
    times: &'a Summary,
    tooltip: &'a str,
}

impl Bar<'_> {
    fn draw(&self, svg: &mut Markup, scale: &Scale) {
        let Self { run, y, times, tooltip } = *self;
        let place = |v: f64| scale.position(v.max(scale.low())).unwrap_or(0.0);
        let (p50, p90, p99, max) =
            (place(times.p50_ms), place(times.p90_ms), place(times.p99_ms), place(times.max_ms));
        let colour = colour(run);
        let class = format!("line thin {colour}");
        svg.open("g", &[]);
        line(svg, &class, (p90, y), (p99, y));
        line(svg, &class, (max, y - 4.0), (max, y + 4.0));
        svg.leaf(
            "rect",
            &[
                ("class", &format!("fill {colour}")),
                ("x", &r(p50)),
                ("y", &r(y - 3.5)),
                ("width", &r((p90 - p50).max(0.5))),
                ("height", &"7"),
            ],
        );
        marker(svg, run, p50, y, Some(tooltip));
        svg.close("g");
    }
}

fn row_tooltip(row: &str, run: Option<&String>, t: &Summary) -> String {
    let run = run.map_or(String::new(), |name| format!("{name}, "));
    format!(
        "{run}{row}: median {}, 90 % {}, 99 % {}, longest {} ms",
        figure(t.p50_ms),
        figure(t.p90_ms),
        figure(t.p99_ms),
        figure(t.max_ms)
    )
}

fn line(svg: &mut Markup, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    svg.leaf("line", &[("class", &class), ("x1", &r(x1)), ("y1", &r(y1)), ("x2", &r(x2)), ("y2", &r(y2))]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_for_each_run_that_has_times() {
        let times = |p50: f64| Summary {
            count: 10,
            p50_ms: p50,
            p90_ms: p50 * 2.0,
            p99_ms: p50 * 9.0,
            max_ms: p50 * 20.0,
            ..Summary::default()
        };
        let (a, b, none) = (times(0.4), times(2.0), Summary::default());
        let rows = [
            Row { name: "SELT".into(), times: vec![Some(&a), Some(&b)] },
            Row { name: "<script>".into(), times: vec![Some(&none), None] },
        ];
        let xml = draw("Times", &["one".into(), "two".into()], &rows).into_string();
        let document = roxmltree::Document::parse(xml.trim_end()).unwrap();
        let fills =
            document.descendants().filter(|n| n.attribute("class").is_some_and(|c| c.starts_with("fill")));
        assert_eq!(fills.count(), 2);
        assert!(xml.contains("two, SELT: median 2.00, 90 % 4.00, 99 % 18.0, longest 40.0 ms"));
        assert!(!xml.contains("<script>"));
    }
}
