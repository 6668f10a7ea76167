//! One of the results that are merged.

use crate::RunResult;

/// The result of a generator, with its place in time.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) run: RunResult,
    /// The start of its ramp, in seconds of the merged result.
    pub(super) shift_s: f64,
}

impl Part {
    pub(super) fn start_s(&self) -> f64 {
        self.shift_s + self.run.window.start_s
    }

    pub(super) fn end_s(&self) -> f64 {
        self.shift_s + self.run.window.end_s
    }

    /// Length of its window; never zero, so that it can be divided by.
    pub(super) fn seconds(&self) -> f64 {
        (self.run.window.end_s - self.run.window.start_s).max(1e-3)
    }
}
