//! A plot of curves over two axes, as SVG.
//!
//! Linear or logarithmic axes with units, curves with markers where points were measured and dashes
//! where they were fitted, marks, shaded bands. Colours are variables of the page, so one drawing
//! serves light, dark and print.

use posthaste_load_results::Plot;
use posthaste_load_text::figure::figure;

use crate::legend::{self, Look, colour, marker, r};
use crate::lettering::width;
use crate::markup::Markup;
use crate::scale::{Scale, Tick, thin};

/// Width of every plot; pages put two beside each other.
pub const WIDTH: f64 = 580.0;
/// Height of the area between the axes.
const AREA: f64 = 230.0;
/// Room for the labels under the area.
const BELOW: f64 = 44.0;
/// Room for the last label of the x axis.
const RIGHT: f64 = 26.0;
/// Room above the area for the name of the y axis.
const NAME: f64 = 24.0;
/// Points on a curve beyond which no markers are drawn.
const MARKERS_MAX: usize = 40;
/// Steps of an axis.
const STEPS: u32 = 5;

/// A stretch of the x axis to be shaded.
#[derive(Clone, Debug)]
pub struct Band {
    /// The band's name, for the legend.
    pub name: String,
    /// Class of the shade.
    pub class: &'static str,
    /// The start of the band.
    pub from: f64,
    /// The end of the band.
    pub to: f64,
}

/// The unit of the x axis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum XAxis {
    /// Values as they are.
    #[default]
    Value,
    /// Time: the axis ends with the last point.
    Time,
    /// 1 ÷ (1 − percentile), on a logarithmic axis: each step to the right is a tenth of the
    /// requests.
    Tail,
}

/// A plot to draw.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Curves, axes, marks.
    pub plot: Plot,
    /// Shades behind.
    pub bands: Vec<Band>,
    /// The x axis.
    pub across: XAxis,
    /// Whether to name a single curve.
    pub always_legend: bool,
}

impl From<Plot> for Chart {
    fn from(plot: Plot) -> Self {
        Self { plot, always_legend: true, ..Self::default() }
    }
}

/// The positions of the parts of a chart.
struct Frame {
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Chart {
    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        let plot = &self.plot;
        let visible = |p: &(f64, f64)| {
            p.0.is_finite() && p.1.is_finite() && (!plot.log_x || p.0 > 0.0) && (!plot.log_y || p.1 > 0.0)
        };
        !plot.curves.iter().any(|c| c.points.iter().any(visible))
    }

    /// The drawing.
    pub fn draw(&self) -> Markup {
        let mut svg = Markup::new();
        let entries = self.legend();
        let legend_height = legend::height(&entries, WIDTH);
        let top = legend_height + NAME;
        let (frame, x_ticks, y_ticks) = self.frame(top);
        let height = frame.bottom + BELOW;
        svg.open(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("viewBox", &format!("0 0 {WIDTH} {}", r(height))),
                ("role", &"img"),
                ("aria-label", &self.spoken()),
            ],
        );
        legend::draw(&mut svg, &entries, (0.0, 0.0), WIDTH);
        self.draw_bands(&mut svg, &frame);
        draw_axes(&mut svg, &frame, (&x_ticks, &y_ticks), (&self.plot.x, &self.plot.y));
        self.draw_marks(&mut svg, &frame);
        self.draw_curves(&mut svg, &frame);
        svg.close("svg");
        svg
    }

    fn spoken(&self) -> String {
        let names: Vec<&str> = self.plot.curves.iter().map(|c| c.name.as_str()).collect();
        format!("{}: {} against {}; {}", self.plot.title, self.plot.y, self.plot.x, names.join(", "))
    }

    /// Fitted curves take the colour of the measured one whose name theirs begins with.
    fn series(&self, at: usize) -> usize {
        let curves = &self.plot.curves;
        let Some(curve) = curves.get(at) else { return at };
        let measured = |n: usize| curves.iter().take(n).filter(|c| !c.fitted).count();
        if curve.fitted {
            let parent = curves.iter().position(|c| !c.fitted && curve.name.starts_with(&c.name));
            return parent.map_or(at, measured);
        }
        measured(at)
    }

    fn legend(&self) -> Vec<(String, Look)> {
        let curves = &self.plot.curves;
        let mut entries = Vec::new();
        if curves.len() > 1 || self.always_legend {
            for (at, curve) in curves.iter().enumerate() {
                let series = self.series(at);
                let look = match (curve.fitted, self.has_markers(curve.points.len())) {
                    (true, _) => Look::Fitted(series),
                    (false, true) => Look::Marked(series),
                    (false, false) => Look::Line(series),
                };
                entries.push((curve.name.clone(), look));
            }
        }
        entries.extend(self.bands.iter().map(|b| (b.name.clone(), Look::Band(b.class))));
        entries
    }

    fn has_markers(&self, points: usize) -> bool {
        points <= MARKERS_MAX && self.across == XAxis::Value
    }

    fn frame(&self, top: f64) -> (Frame, Vec<Tick>, Vec<Tick>) {
        let plot = &self.plot;
        let points = || plot.curves.iter().flat_map(|c| &c.points);
        let marks = |axis: &'static str| plot.marks.iter().filter(move |m| m.1 == axis).map(|m| m.2);
        let (x_low, x_high) = range(points().map(|p| p.0).chain(marks("x")), plot.log_x);
        let (y_low, y_high) = range(points().map(|p| p.1).chain(marks("y")), plot.log_y);
        // Users and processors come in whole numbers: no half ones on the axis.
        let whole = points().all(|p| p.0.fract() == 0.0);
        let x_steps = if whole { (x_high as u32).clamp(1, STEPS + 1) } else { STEPS + 1 };
        let x = match self.across {
            XAxis::Time => Scale::exact(x_low.min(0.0), x_high),
            _ if plot.log_x => Scale::log(x_low, x_high),
            XAxis::Value | XAxis::Tail => Scale::linear(x_low, x_high, x_steps),
        };
        let bottom = top + AREA;
        let y = if plot.log_y { Scale::log(y_low, y_high) } else { Scale::linear(y_low, y_high, STEPS) };
        // A little room, so that a point on the lowest value does not sit on the axis.
        let y = if plot.log_y { y.onto(bottom - 6.0, top + 4.0) } else { y.onto(bottom, top + 4.0) };
        let mut y_ticks = y.ticks(STEPS);
        thin(&mut y_ticks, &y, |_| 15.0);
        let widest = y_ticks.iter().filter_map(|t| t.label.as_deref()).map(width).fold(0.0, f64::max);
        let (left, right) = (widest + 12.0, WIDTH - RIGHT);
        let inset = if self.across == XAxis::Value { 8.0 } else { 0.0 };
        let x = x.onto(left + inset, right);
        let mut x_ticks = x.ticks(x_steps);
        if self.across == XAxis::Tail {
            x_ticks.iter_mut().for_each(tail_label);
        }
        thin(&mut x_ticks, &x, |label| width(label) + 10.0);
        (Frame { x, y, left, right, top, bottom }, x_ticks, y_ticks)
    }

    fn draw_bands(&self, svg: &mut Markup, frame: &Frame) {
        for band in &self.bands {
            let place = |v: f64| frame.x.position(v).map(|x| x.clamp(frame.left, frame.right));
            let (Some(from), Some(to)) = (place(band.from), place(band.to)) else { continue };
            svg.leaf(
                "rect",
                &[
                    ("class", &band.class),
                    ("x", &r(from)),
                    ("y", &r(frame.top)),
                    ("width", &r((to - from).max(0.0))),
                    ("height", &r(frame.bottom - frame.top)),
                ],
            );
        }
    }

    fn draw_marks(&self, svg: &mut Markup, frame: &Frame) {
        // Ends of the labels already on each row under the top edge.
        let mut rows: Vec<f64> = Vec::new();
        let mut marks: Vec<_> = self.plot.marks.iter().collect();
        marks.sort_by(|a, b| a.2.total_cmp(&b.2));
        for (label, axis, value) in marks {
            if axis == "y" {
                let Some(y) = frame.y.position(*value) else { continue };
                rule(svg, (frame.left, y), (frame.right, y));
                svg.element(
                    "text",
                    &[
                        ("class", &"mark"),
                        ("x", &r(frame.right)),
                        ("y", &r(y - 5.0)),
                        ("text-anchor", &"end"),
                    ],
                    label,
                );
                continue;
            }
            let Some(x) = frame.x.position(*value) else { continue };
            rule(svg, (x, frame.top), (x, frame.bottom));
            let wide = width(label);
            let from = if x + 5.0 + wide > frame.right { x - 5.0 - wide } else { x + 5.0 };
            let row = rows.iter().position(|end| *end < from).unwrap_or(rows.len());
            match rows.get_mut(row) {
                Some(end) => *end = from + wide,
                None => rows.push(from + wide),
            }
            let y = frame.top + 12.0 + row as f64 * 15.0;
            svg.element("text", &[("class", &"mark"), ("x", &r(from)), ("y", &r(y))], label);
        }
    }

    fn draw_curves(&self, svg: &mut Markup, frame: &Frame) {
        for (at, curve) in self.plot.curves.iter().enumerate() {
            let series = self.series(at);
            let class = format!("line{} {}", if curve.fitted { " fitted" } else { "" }, colour(series));
            svg.leaf("path", &[("class", &class), ("d", &path(&curve.points, frame))]);
        }
        for (at, curve) in self.plot.curves.iter().enumerate() {
            if curve.fitted || !self.has_markers(curve.points.len()) {
                continue;
            }
            for (x, y) in &curve.points {
                let (Some(px), Some(py)) = (frame.x.position(*x), frame.y.position(*y)) else { continue };
                let says = format!(
                    "{}\n{}: {}\n{}: {}",
                    curve.name,
                    self.plot.x,
                    figure(*x),
                    self.plot.y,
                    figure(*y)
                );
                marker(svg, self.series(at), px, py, Some(&says));
            }
        }
    }
}

/// Lowest and highest of the values that can be placed.
fn range(values: impl Iterator<Item = f64>, log: bool) -> (f64, f64) {
    values
        .filter(|v| v.is_finite() && (!log || *v > 0.0))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

fn tail_label(tick: &mut Tick) {
    let decade = tick.value.log10();
    tick.label = match tick.value {
        v if (v - 1.0).abs() < 1e-9 => Some("0 %".into()),
        v if (v - 2.0).abs() < 1e-9 => Some("50 %".into()),
        _ if (decade - decade.round()).abs() < 1e-9 => {
            let nines = decade.round() as usize;
            Some(format!("{:.*} %", nines.saturating_sub(2), 100.0 - 100.0 / tick.value))
        }
        _ => None,
    };
}

fn rule(svg: &mut Markup, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    svg.leaf("line", &[("class", &"rule"), ("x1", &r(x1)), ("y1", &r(y1)), ("x2", &r(x2)), ("y2", &r(y2))]);
}

/// The line through the points; it breaks where a point has no position.
fn path(points: &[(f64, f64)], frame: &Frame) -> String {
    let mut d = String::with_capacity(points.len() * 12);
    let mut pen_down = false;
    for (x, y) in points {
        match frame.x.position(*x).zip(frame.y.position(*y)) {
            Some((x, y)) => {
                d.push(if pen_down { 'L' } else { 'M' });
                d.push_str(&r(x));
                d.push(' ');
                d.push_str(&r(y));
                pen_down = true;
            }
            None => pen_down = false,
        }
    }
    d
}

fn draw_axes(svg: &mut Markup, frame: &Frame, (x_ticks, y_ticks): (&[Tick], &[Tick]), (x, y): (&str, &str)) {
    let line = |svg: &mut Markup, class: &str, from: (f64, f64), to: (f64, f64)| {
        let (x1, y1, x2, y2) = (r(from.0), r(from.1), r(to.0), r(to.1));
        svg.leaf("line", &[("class", &class), ("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2)]);
    };
    for tick in y_ticks {
        let Some(at) = frame.y.position(tick.value) else { continue };
        line(svg, if tick.label.is_some() { "grid" } else { "fine" }, (frame.left, at), (frame.right, at));
        if let Some(label) = &tick.label {
            let x = r(frame.left - 7.0);
            svg.element(
                "text",
                &[("class", &"tick"), ("x", &x), ("y", &r(at + 4.0)), ("text-anchor", &"end")],
                label,
            );
        }
    }
    for tick in x_ticks {
        let Some(at) = frame.x.position(tick.value) else { continue };
        line(svg, if tick.label.is_some() { "grid" } else { "fine" }, (at, frame.top), (at, frame.bottom));
        if let Some(label) = &tick.label {
            let y = r(frame.bottom + 17.0);
            svg.element(
                "text",
                &[("class", &"tick"), ("x", &r(at)), ("y", &y), ("text-anchor", &"middle")],
                label,
            );
        }
    }
    line(svg, "axis", (frame.left, frame.bottom), (frame.right, frame.bottom));
    svg.element("text", &[("class", &"name"), ("x", &"0"), ("y", &r(frame.top - 10.0))], y);
    let middle = r((frame.left + frame.right) / 2.0);
    let under = r(frame.bottom + 37.0);
    svg.element("text", &[("class", &"name"), ("x", &middle), ("y", &under), ("text-anchor", &"middle")], x);
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::Curve;

    use super::*;

    fn two_servers() -> Chart {
        let curve = |name: &str, points: &[(f64, f64)], fitted| Curve {
            name: name.into(),
            points: points.to_vec(),
            fitted,
        };
        let plot = Plot {
            title: "Megacycles per session".into(),
            x: "items in the folder".into(),
            y: "megacycles per session".into(),
            log_x: true,
            log_y: true,
            curves: vec![
                curve("Posthaste", &[(100.0, 1.0), (1000.0, 2.0), (10_000.0, 11.0)], false),
                curve("Posthaste, fit", &[(100.0, 1.0), (10_000.0, 11.0)], true),
                curve("<b>\"Other\" & Co</b>", &[(100.0, 3.0), (1000.0, 0.0), (10_000.0, 90.0)], false),
            ],
            marks: vec![("knee".into(), "x".into(), 1000.0), ("75 %".into(), "y".into(), 50.0)],
        };
        Chart::from(plot)
    }

    fn count(document: &roxmltree::Document, tag: &str, class: &str) -> usize {
        document
            .descendants()
            .filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", tag)))
            .filter(|n| n.attribute("class").is_some_and(|c| c.split(' ').any(|c| c == class)))
            .count()
    }

    #[test]
    fn structure_of_the_drawing() {
        let xml = two_servers().draw().into_string();
        let document = roxmltree::Document::parse(xml.trim_end()).unwrap_or_else(|e| panic!("{e}\n{xml}"));
        assert_eq!(count(&document, "path", "line"), 3);
        assert_eq!(count(&document, "path", "fitted"), 1);
        // Five measured points that can be placed (one is zero on a logarithmic axis) and two
        // samples in the legend.
        assert_eq!(count(&document, "path", "dot"), 5 + 2);
        assert_eq!((count(&document, "line", "rule"), count(&document, "text", "mark")), (2, 2));
        let texts: Vec<String> = document
            .descendants()
            .filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "text")))
            .map(|n| n.text().unwrap_or_default().to_owned())
            .collect();
        for expected in ["items in the folder", "megacycles per session", "10,000", "<b>\"Other\" & Co</b>"] {
            assert!(texts.iter().any(|t| t == expected), "{expected} is not among {texts:?}");
        }
        assert!(!xml.contains("<b>"));
    }

    #[test]
    fn a_fit_has_the_colour_of_what_it_fits() {
        let chart = two_servers();
        assert_eq!((0..3).map(|n| chart.series(n)).collect::<Vec<_>>(), [0, 0, 1]);
    }

    #[test]
    fn the_line_breaks_where_a_point_has_no_place() {
        let chart = two_servers();
        let frame = chart.frame(50.0).0;
        let d = path(&chart.plot.curves[2].points, &frame);
        assert_eq!((d.matches('M').count(), d.matches('L').count()), (2, 0), "{d}");
    }

    #[test]
    fn everything_stays_inside() {
        let xml = two_servers().draw().into_string();
        let document = roxmltree::Document::parse(xml.trim_end()).unwrap();
        for node in document.descendants().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "text")))
        {
            let x: f64 = node.attribute("x").unwrap().parse().unwrap();
            let wide = width(node.text().unwrap_or_default());
            let (from, to) = match node.attribute("text-anchor") {
                Some("end") => (x - wide, x),
                Some("middle") => (x - wide / 2.0, x + wide / 2.0),
                _ => (x, x + wide),
            };
            assert!(from > -12.0 && to < WIDTH + 4.0, "{:?} spans {from}–{to}", node.text());
        }
    }

    #[test]
    fn whole_numbers_have_no_half_ones_between() {
        let mut chart = two_servers();
        (chart.plot.log_x, chart.plot.marks) = (false, Vec::new());
        for most in [2.0, 3.0, 16.0] {
            chart.plot.curves.truncate(1);
            chart.plot.curves[0].points = vec![(1.0, 10.0), (most, 20.0)];
            let ticks = chart.frame(50.0).1;
            assert!(ticks.iter().all(|t| t.value.fract() == 0.0), "{ticks:?}");
        }
    }

    #[test]
    fn nothing_to_see() {
        assert!(Chart::default().is_empty() && !two_servers().is_empty());
        let xml = Chart::default().draw().into_string();
        assert!(roxmltree::Document::parse(xml.trim_end()).is_ok());
    }

    #[test]
    fn tails() {
        let label = |value: f64| {
            let mut tick = Tick { value, label: None };
            tail_label(&mut tick);
            tick.label
        };
        assert_eq!(label(1.0).unwrap(), "0 %");
        assert_eq!(label(10.0).unwrap(), "90 %");
        assert_eq!(label(1000.0).unwrap(), "99.9 %");
        assert_eq!(label(10_000.0).unwrap(), "99.99 %");
        assert_eq!(label(5.0), None);
    }
}
