//! Counts what a run does, and ends it: by the number of its steps, or when the caller stops it.
//!
//! Code counts its work before it does it, or in small portions meanwhile. So a run takes at most
//! its steps and one portion.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that a comparison passes in the time of one step. Work is counted in such parts.
const BYTES_PER_STEP: u64 = 64;

/// The reason why a run must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spent {
    /// The run takes more than this many steps.
    Steps(u64),
    /// A text would take more memory in the form that is compared.
    Memory,
    /// The caller stops it.
    Stopped,
}

impl std::fmt::Display for Spent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Spent::Steps(max) => write!(f, "the script takes more than {max} steps: make it do less"),
            Spent::Memory => {
                f.write_str("a text is too long in the form in which \"i;unicode-casemap\" compares it")
            }
            Spent::Stopped => f.write_str("the run was stopped"),
        }
    }
}

/// The work of a run, and its bound.
#[derive(Debug)]
pub(crate) struct Meter<'r> {
    /// In parts of a step.
    work: Cell<u64>,
    steps_max: u64,
    stop: Option<&'r AtomicBool>,
}

impl<'r> Meter<'r> {
    pub(crate) const fn new(steps_max: u64, stop: Option<&'r AtomicBool>) -> Self {
        Meter { work: Cell::new(0), steps_max, stop }
    }

    /// The steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.work.get().div_ceil(BYTES_PER_STEP)
    }

    /// Counts steps.
    pub(crate) fn step(&self, count: u64) -> Result<(), Spent> {
        self.work(count.saturating_mul(BYTES_PER_STEP))
    }

    /// Counts a step and a look at this many bytes.
    pub(crate) fn step_bytes(&self, bytes: u64) -> Result<(), Spent> {
        self.work(bytes.saturating_add(BYTES_PER_STEP))
    }

    /// Counts work in parts of a step: a byte compared, a word of bits, a state of an expression.
    pub(crate) fn work(&self, parts: u64) -> Result<(), Spent> {
        let work = self.work.get().saturating_add(parts);
        self.work.set(work);
        if work > self.steps_max.saturating_mul(BYTES_PER_STEP) {
            return Err(Spent::Steps(self.steps_max));
        }
        match self.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(Spent::Stopped),
            _ => Ok(()),
        }
    }
}
