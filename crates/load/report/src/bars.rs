//! Horizontal bars with the figure at each bar's end. Parts are stacked (user and kernel CPU) or
//! beside each other (the requested mix and the realised one).

use posthaste_load_text::figure::figure;

use crate::chart::WIDTH;
use crate::legend::{self, Look, colour, r};
use crate::lettering::{fitted, width};
use crate::markup::Markup;
use crate::scale::{Scale, thin};

/// Height of a bar.
const BAR: f64 = 13.0;
/// Distance of bars in a row.
const STEP: f64 = 16.0;
/// Room between rows.
const GAP: f64 = 9.0;
/// Most a name may take.
const NAMES_MAX: f64 = 200.0;

/// A part of a bar.
#[derive(Clone, Copy, Debug)]
pub struct BarPart {
    /// The length.
    pub value: f64,
    /// The part's look: `Fill`, `Pale` or `Outline`.
    pub look: Look,
}

/// A row of bars.
#[derive(Clone, Debug)]
pub struct BarGroup {
    /// The row's name.
    pub name: String,
    /// The bars, each with its parts from the left and the text at its end.
    pub bars: Vec<(Vec<BarPart>, String)>,
}

/// Bars to draw.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The title for screen readers.
    pub title: String,
    /// The axis, with unit.
    pub x: String,
    /// The legend.
    pub legend: Vec<(String, Look)>,
    /// The rows.
    pub rows: Vec<BarGroup>,
}

impl Bars {
    /// The drawing.
    pub fn draw(&self) -> Markup {
        let mut svg = Markup::new();
        let top = legend::height(&self.legend, WIDTH) + 6.0;
        let heights: Vec<f64> = self.rows.iter().map(|row| STEP * row.bars.len() as f64 + GAP).collect();
        let bottom = top + heights.iter().sum::<f64>();
        let left = self.rows.iter().map(|row| width(&row.name)).fold(30.0, f64::max).min(NAMES_MAX) + 12.0;
        let bars = || self.rows.iter().flat_map(|row| &row.bars);
        let notes = bars().map(|(_, note)| width(note)).fold(0.0, f64::max);
        let longest = bars().map(|(parts, _)| parts.iter().map(|p| p.value).sum::<f64>()).fold(0.0, f64::max);
        let scale = Scale::exact(0.0, longest).onto(left, (WIDTH - notes - 14.0).max(left + 60.0));
        svg.open(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("viewBox", &format!("0 0 {WIDTH} {}", r(bottom + 44.0))),
                ("role", &"img"),
                ("aria-label", &format!("{}: {}", self.title, self.x)),
            ],
        );
        legend::draw(&mut svg, &self.legend, (0.0, 0.0), WIDTH);
        self.grid(&mut svg, &scale, (top, bottom));
        let mut y = top;
        for (row, height) in self.rows.iter().zip(heights) {
            let middle = r(y + height / 2.0 + 4.0);
            svg.element(
                "text",
                &[("class", &"name"), ("x", &r(left - 10.0)), ("y", &middle), ("text-anchor", &"end")],
                &fitted(&row.name, NAMES_MAX),
            );
            for (at, bar) in row.bars.iter().enumerate() {
                draw_bar(&mut svg, &scale, y + GAP / 2.0 + STEP * at as f64, &row.name, bar);
            }
            y += height;
        }
        let axis = r(left);
        svg.leaf(
            "line",
            &[("class", &"axis"), ("x1", &axis), ("x2", &axis), ("y1", &r(top)), ("y2", &r(bottom))],
        );
        svg.close("svg");
        svg
    }

    fn grid(&self, svg: &mut Markup, scale: &Scale, (top, bottom): (f64, f64)) {
        let mut ticks = scale.ticks(5);
        thin(&mut ticks, scale, |label| width(label) + 12.0);
        for tick in &ticks {
            let (Some(at), Some(label)) = (scale.position(tick.value), &tick.label) else { continue };
            let x = r(at);
            svg.leaf(
                "line",
                &[("class", &"grid"), ("x1", &x), ("x2", &x), ("y1", &r(top)), ("y2", &r(bottom))],
            );
            let y = r(bottom + 17.0);
            svg.element(
                "text",
                &[("class", &"tick"), ("x", &x), ("y", &y), ("text-anchor", &"middle")],
                label,
            );
        }
        let (low, high) = (scale.position(scale.low()), scale.position(scale.high()));
        let x = r((low.unwrap_or(0.0) + high.unwrap_or(WIDTH)) / 2.0);
        let y = r(bottom + 37.0);
        svg.element("text", &[("class", &"name"), ("x", &x), ("y", &y), ("text-anchor", &"middle")], &self.x);
    }
}

fn draw_bar(svg: &mut Markup, scale: &Scale, y: f64, name: &str, (parts, note): &(Vec<BarPart>, String)) {
    let mut sum = 0.0;
    for part in parts {
        let (Some(from), Some(to)) = (scale.position(sum), scale.position(sum + part.value)) else {
            continue;
        };
        sum += part.value;
        let class = match part.look {
            Look::Outline(n) => format!("outline {}", colour(n)),
            Look::Pale(n) => format!("fill pale {}", colour(n)),
            Look::Fill(n) | Look::Marked(n) | Look::Line(n) | Look::Fitted(n) => {
                format!("fill {}", colour(n))
            }
            Look::Band(class) => class.to_owned(),
        };
        svg.open(
            "rect",
            &[
                ("class", &class),
                ("x", &r(from)),
                ("y", &r(y + (STEP - BAR) / 2.0)),
                ("width", &r((to - from).max(0.0))),
                ("height", &BAR),
            ],
        );
        svg.element("title", &[], &format!("{name}: {}", figure(part.value)));
        svg.close("rect");
    }
    if let Some(end) = scale.position(sum) {
        let (x, y) = (r(end + 6.0), r(y + STEP / 2.0 + 4.0));
        svg.element("text", &[("class", &"tick"), ("x", &x), ("y", &y)], note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other() {
        let part = |value, look| BarPart { value, look };
        let bars = Bars {
            title: "CPU".into(),
            x: "CPU seconds".into(),
            legend: vec![("user".into(), Look::Fill(0)), ("kernel".into(), Look::Pale(0))],
            rows: vec![BarGroup {
                name: "a & b".into(),
                bars: vec![(vec![part(3.0, Look::Fill(0)), part(1.0, Look::Pale(0))], "4.00 s".into())],
            }],
        };
        let xml = bars.draw().into_string();
        let document = roxmltree::Document::parse(xml.trim_end()).unwrap();
        let number = |n: roxmltree::Node, name| n.attribute(name).unwrap().parse::<f64>().unwrap();
        let bars: Vec<(f64, f64)> = document
            .descendants()
            .filter(|n| n.children().any(|c| c.tag_name().name() == "title"))
            .map(|n| (number(n, "x"), number(n, "width")))
            .collect();
        assert_eq!(bars.len(), 2);
        assert!(
            (bars[0].0 + bars[0].1 - bars[1].0).abs() < 0.2 && (bars[0].1 / bars[1].1 - 3.0).abs() < 0.01
        );
    }
}
