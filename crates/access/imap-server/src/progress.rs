//! How far a command is that takes long: RFC 9585.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_imap_codec::Tag;
use posthaste_imap_codec::response::Code;

/// How much of a command is done. The command counts, and [`crate::wire::Wire`] reports.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    done: AtomicU64,
    /// Zero if it is not known.
    goal: AtomicU64,
}

impl Progress {
    /// A part of the work is about to begin that takes so many steps.
    pub(crate) fn expect(&self, steps: u64) {
        self.goal.fetch_add(steps, Ordering::Relaxed);
    }

    /// So many steps were done.
    pub(crate) fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
    }

    /// What is reported of it.
    fn code(&self, tag: &Tag) -> Code {
        let (done, goal) = (self.done.load(Ordering::Relaxed), self.goal.load(Ordering::Relaxed));
        let tag = Some(tag.clone());
        if goal == 0 {
            return Code::InProgress { tag, done: None, goal: None };
        }
        // RFC 9585 §4: what is done does not exceed the goal.
        Code::InProgress { tag, done: Some(done.min(goal)), goal: Some(goal) }
    }
}

/// When the progress of a command is reported.
#[derive(Clone, Copy, Debug)]
pub struct ProgressTimes {
    /// The time after which a command takes long.
    pub first: Duration,
    /// The time between two reports.
    pub every: Duration,
}

impl Default for ProgressTimes {
    fn default() -> Self {
        // RFC 9585 §3 has 10 to 15 seconds between two reports.
        Self { first: Duration::from_secs(1), every: Duration::from_secs(10) }
    }
}

/// The reports of one command.
pub(crate) struct Reports<'r> {
    pub(crate) tag: &'r Tag,
    pub(crate) progress: &'r Progress,
    pub(crate) times: ProgressTimes,
}

impl Reports<'_> {
    /// What is said now.
    pub(crate) fn now(&self) -> Code {
        self.progress.code(self.tag)
    }
}
