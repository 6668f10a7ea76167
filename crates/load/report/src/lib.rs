//! The report: one self-contained HTML file of one or several results, and the same figures as CSV
//! and Markdown. Plots are inline SVG, readable by day, by night and on paper.
//!
//! - [`page`] puts it together from [`runs`] (overview, plots, tables of runs) and [`studies`].
//! - [`chart`], [`bars`] and [`ranges`] draw. [`scale`] has the axes, [`legend`] and [`lettering`]
//!   the words.
//! - [`markup`] escapes all text that comes from outside. No script, nothing loaded from elsewhere.
//!
//! [`files`] writes and reads the folder of a result.
//!
//! Folders of the measuring machine are left out ([`paths`]).
//!
//! Faults come first: errors in the first line, then every caveat, then figures.

mod bars;
#[cfg(test)]
mod browser;
mod chart;
mod compare;
mod counted;
mod csv;
mod facts;
mod faults;
pub mod files;
mod generators;
mod headline;
mod legend;
mod lettering;
mod markdown;
mod markup;
mod metric;
mod page;
mod paths;
mod ranges;
mod run_plots;
mod runs;
#[cfg(test)]
mod sample;
mod scale;
mod sittings;
mod studies;
mod table;

pub use csv::all as csv_of_all;
pub use facts::command as command_to_type;
pub use markdown::of_all as markdown_of_all;
pub use page::{html, short_html};
