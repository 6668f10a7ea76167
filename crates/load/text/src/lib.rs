//! Text that people write and read: quantities, figures, and mistakes in files.
//!
//! - [`quantity`] reads and writes times, sizes and rates as people give them on the command line.
//! - [`figure`] prints figures for tables and plots.
//! - [`Mistake`] names the file and the line of a mistake, and [`suggestion`] the nearest word.
//! - [`for_terminal`] shows text of others without their control characters.
//!
//! This is the lowest crate of the instrument. It knows neither mail nor servers.

pub mod figure;
mod mistake;
mod nearest;
pub mod quantity;
mod terminal;

pub use mistake::{Mistake, Source};
pub use nearest::suggestion;
pub use terminal::for_terminal;
