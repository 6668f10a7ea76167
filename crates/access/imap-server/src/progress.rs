//! The progress of a long command: RFC 9585.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_imap_codec::Tag;
use posthaste_imap_codec::response::Code;

/// The progress of a command: the share of its work that is done. The command counts, and
/// [`crate::wire::Wire`] reports.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    done: AtomicU64,
    /// Zero if it is not known.
    goal: AtomicU64,
    /// The work comes in parts, and their total is not known.
    in_parts: bool,
}

impl Progress {
    /// Progress of work in parts. It reports no goal, because the goal grows from part to part
    /// (RFC 9585 §4).
    pub(crate) fn in_parts() -> Self {
        Self { in_parts: true, ..Self::default() }
    }

    /// Work is about to begin that takes this many steps.
    pub(crate) fn expect(&self, steps: u64) {
        if !self.in_parts {
            self.goal.store(steps, Ordering::Relaxed);
        }
    }

    /// The number of steps that were done.
    pub(crate) fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
    }

    /// The response code that reports it.
    fn code(&self, tag: &Tag) -> Code {
        let done = Some(self.done.load(Ordering::Relaxed)).filter(|done| *done > 0 || !self.in_parts);
        let goal = Some(self.goal.load(Ordering::Relaxed)).filter(|goal| *goal > 0);
        // RFC 9585 §4: a tag with `]` is not repeated, and the goal exceeds the progress.
        let tag = Some(tag.clone()).filter(|tag| !tag.as_str().contains(']'));
        match goal {
            Some(goal) if done < Some(goal) => Code::InProgress { tag, done, goal: Some(goal) },
            None if self.in_parts => Code::InProgress { tag, done, goal: None },
            _ => Code::InProgress { tag, done: None, goal: None },
        }
    }
}

/// The times at which the progress of a command is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy)]
pub(crate) struct Reports<'r> {
    pub(crate) tag: &'r Tag,
    pub(crate) progress: &'r Progress,
    pub(crate) times: ProgressTimes,
}

impl<'r> Reports<'r> {
    /// Reports on a command whose progress is not counted: only that it continues.
    pub(crate) fn uncounted(tag: &'r Tag, times: ProgressTimes) -> Self {
        static UNKNOWN: Progress =
            Progress { done: AtomicU64::new(0), goal: AtomicU64::new(0), in_parts: false };
        Self { tag, progress: &UNKNOWN, times }
    }

    /// The current report.
    pub(crate) fn now(&self) -> Code {
        self.progress.code(self.tag)
    }
}
