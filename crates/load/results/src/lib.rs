//! The result of a run: the schema of `results.json`, and the statistics that fill it.
//!
//! The types of the schema are at the top of this crate. `docs/measuring.md` describes them.
//! [`Latency`] makes a [`Summary`] of response times. [`steady`] finds the steady part of a run.
//! [`fit`] fits curves, and [`capacity`] projects them. [`paired`] compares two servers.
//! [`together()`] adds up workloads that ran at once, [`merge()`] the results of several
//! generators.
//!
//! Everything here is plain values: no clock, no files, no sockets.

pub mod capacity;
mod counted;
mod drawn;
pub mod fit;
mod generators;
mod histogram;
pub mod paired;
mod schema;
pub mod steady;
mod study;
mod sums;
mod together;
mod waits;

pub use counted::{Amounts, Counted, CountedClient, CountedCommand, CountedThread};
pub use drawn::*;
pub use generators::{OVERLAP_MIN, merge};
pub use histogram::Latency;
pub use schema::*;
pub use study::*;
pub use together::together;
pub use waits::*;
