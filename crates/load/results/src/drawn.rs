//! The analysis of a study, as `report` draws and prints it.

use serde::{Deserialize, Serialize};

/// The analysis of a study's points.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Analysis {
    /// The first screen of a report, if several servers were measured.
    #[serde(default)]
    pub headline: Option<Headline>,
    /// Sentences.
    pub findings: Vec<String>,
    /// Curves to plot.
    pub plots: Vec<Plot>,
    /// Bars to draw.
    #[serde(default)]
    pub charts: Vec<BarChart>,
    /// Tables to print.
    pub tables: Vec<Table>,
}

/// A study in a sentence and a picture.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Headline {
    /// The sentence.
    pub sentence: String,
    /// The picture.
    pub chart: BarChart,
}

/// A plot: what `report` draws.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// Label of x, with unit.
    pub x: String,
    /// Label of y, with unit.
    pub y: String,
    /// Logarithmic x.
    pub log_x: bool,
    /// Logarithmic y.
    pub log_y: bool,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Vertical or horizontal marks worth showing: label, axis (`x` or `y`), value.
    pub marks: Vec<(String, String, f64)>,
}

/// One curve.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Curve {
    /// The curve's name.
    pub name: String,
    /// Points in order of x.
    pub points: Vec<(f64, f64)>,
    /// A fitted or projected line rather than measured points: drawn dashed.
    pub fitted: bool,
}

/// A chart of bars: what `report` draws where the axis has names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BarChart {
    /// Title.
    pub title: String,
    /// The axis, with unit.
    pub x: String,
    /// Names of the colours.
    pub series: Vec<String>,
    /// The rows, from the top.
    pub rows: Vec<BarRow>,
}

/// A row of bars.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BarRow {
    /// The row's name.
    pub name: String,
    /// The row's bars, from the top.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Bar {
    /// The bar's parts from the left: the index of the series, and how long.
    pub parts: Vec<(usize, f64)>,
    /// The text at its end.
    pub note: String,
}

/// A table: what `report` prints.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Column heads, with units.
    pub head: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}
