//! The report: one self-contained HTML file of one or several results, plots as inline SVG,
//! readable by day, by night and on paper; and the same figures as CSV.
//!
//! - [`page`] puts it together from [`runs`] (overview, plots, tables of runs) and [`studies`].
//! - [`chart`], [`bars`], [`ranges`] draw; [`scale`] says where; [`legend`] and [`lettering`] how it
//!   reads.
//! - [`markup`] escapes whatever was not written here. No script, nothing loaded from elsewhere.
//!
//! What was wrong comes first: errors in the first line, then every caveat, then figures.

mod bars;
#[cfg(test)]
mod browser;
mod chart;
mod compare;
pub mod csv;
mod facts;
mod faults;
mod legend;
mod lettering;
mod markup;
mod metric;
mod page;
mod ranges;
mod run_plots;
mod runs;
#[cfg(test)]
pub(crate) mod sample;
mod scale;
mod studies;
mod table;

pub use page::html;
