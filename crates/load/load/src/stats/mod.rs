//! Figures out of samples: histograms, per-second series, steady state, fits, capacity.

pub mod capacity;
pub mod fit;
pub mod histogram;
pub mod steady;

pub use histogram::Latency;
