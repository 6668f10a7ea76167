//! The legend of a plot: one row of names with their line, marker or fill, wrapped where the plot
//! ends. It is above the plot, so that it never covers a curve.

use crate::lettering::{fitted, width};
use crate::markup::Markup;

/// Distance of rows.
pub const ROW: f64 = 18.0;
/// Room for the sample of a line.
const SAMPLE: f64 = 26.0;
/// Room between entries.
const GAP: f64 = 18.0;

/// The look of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look {
    /// A line with the markers of measured points.
    Marked(usize),
    /// A line without.
    Line(usize),
    /// A dashed line.
    Fitted(usize),
    /// A filled box.
    Fill(usize),
    /// A pale box.
    Pale(usize),
    /// A box with only its edge.
    Outline(usize),
    /// A part of the background: the class of the box.
    Band(&'static str),
}

/// The class that gives an element the colour of a series; colours come round after eight.
pub fn colour(series: usize) -> String {
    format!("c{}", series % 8 + 1)
}

/// The height that the legend will have.
pub fn height(entries: &[(String, Look)], width: f64) -> f64 {
    positions(entries, width).last().map_or(0.0, |(_, row)| (*row as f64 + 1.0) * ROW + 4.0)
}

/// Draws it with its upper left corner at (`left`, `top`).
pub fn draw(svg: &mut Markup, entries: &[(String, Look)], (left, top): (f64, f64), room: f64) {
    for ((name, look), (x, row)) in entries.iter().zip(positions(entries, room)) {
        let (x, y) = (left + x, top + row as f64 * ROW + ROW / 2.0);
        sample(svg, *look, x, y);
        let text = fitted(name, room - SAMPLE);
        svg.element("text", &[("class", &"name"), ("x", &r(x + SAMPLE)), ("y", &r(y + 4.0))], &text);
    }
}

fn positions(entries: &[(String, Look)], room: f64) -> Vec<(f64, usize)> {
    let (mut x, mut row) = (0.0, 0);
    let mut out = Vec::with_capacity(entries.len());
    for (name, _) in entries {
        let needs = SAMPLE + width(name).min(room - SAMPLE);
        if x > 0.0 && x + needs > room {
            (x, row) = (0.0, row + 1);
        }
        out.push((x, row));
        x += needs + GAP;
    }
    out
}

fn sample(svg: &mut Markup, look: Look, x: f64, y: f64) {
    let mut line = |class: String| {
        svg.leaf(
            "line",
            &[("class", &class), ("x1", &r(x)), ("x2", &r(x + 20.0)), ("y1", &r(y)), ("y2", &r(y))],
        );
    };
    let class = match look {
        Look::Marked(n) => {
            line(format!("line {}", colour(n)));
            return marker(svg, n, x + 10.0, y, None);
        }
        Look::Line(n) => return line(format!("line {}", colour(n))),
        Look::Fitted(n) => return line(format!("line fitted {}", colour(n))),
        Look::Fill(n) => format!("fill {}", colour(n)),
        Look::Pale(n) => format!("fill pale {}", colour(n)),
        Look::Outline(n) => format!("outline {}", colour(n)),
        Look::Band(class) => class.to_owned(),
    };
    svg.leaf(
        "rect",
        &[("class", &class), ("x", &r(x + 4.0)), ("y", &r(y - 5.0)), ("width", &"14"), ("height", &"10")],
    );
}

/// The marker of a measured point: each series has a shape of its own, so that prints without
/// colour can be read.
pub fn marker(svg: &mut Markup, series: usize, x: f64, y: f64, tooltip: Option<&str>) {
    let shape = match series % 6 {
        0 => circle(x, y),
        1 => polygon(x, y, &[(-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)]),
        2 => polygon(x, y, &[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]),
        3 => polygon(x, y, &[(0.0, -4.8), (4.6, 3.6), (-4.6, 3.6)]),
        4 => polygon(x, y, &[(0.0, 4.8), (4.6, -3.6), (-4.6, -3.6)]),
        _ => polygon(
            x,
            y,
            &[
                (-1.5, -4.5),
                (1.5, -4.5),
                (1.5, -1.5),
                (4.5, -1.5),
                (4.5, 1.5),
                (1.5, 1.5),
                (1.5, 4.5),
                (-1.5, 4.5),
                (-1.5, 1.5),
                (-4.5, 1.5),
                (-4.5, -1.5),
                (-1.5, -1.5),
            ],
        ),
    };
    svg.open("path", &[("class", &format!("dot {}", colour(series))), ("d", &shape)]);
    if let Some(tooltip) = tooltip {
        svg.element("title", &[], tooltip);
    }
    svg.close("path");
}

fn circle(x: f64, y: f64) -> String {
    format!("M{:.1} {:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", x - 4.0, y)
}

fn polygon(x: f64, y: f64, corners: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (at, (dx, dy)) in corners.iter().enumerate() {
        d.push_str(&format!("{}{:.1} {:.1}", if at == 0 { 'M' } else { 'L' }, x + dx, y + dy));
    }
    d.push('Z');
    d
}

/// A coordinate: a tenth of a pixel is enough.
pub fn r(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_never_overlap_nor_leave_the_room() {
        let entries: Vec<_> =
            (0..9).map(|n| (format!("server number {n} of several"), Look::Marked(n))).collect();
        let room = 500.0;
        let positions = positions(&entries, room);
        for (a, ((name, _), (x, row))) in entries.iter().zip(&positions).enumerate() {
            let end = x + SAMPLE + width(name);
            assert!(end <= room, "{name} ends at {end}");
            let next = positions.get(a + 1);
            assert!(next.is_none_or(|(nx, nrow)| nrow > row || *nx >= end), "{name} runs into the next");
        }
        assert_eq!(height(&entries, room), (positions[8].1 as f64 + 1.0) * ROW + 4.0);
        assert_eq!(height(&[], room), 0.0);
    }
}
