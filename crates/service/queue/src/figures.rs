//! The finished work of a runner and its waiting items, for metrics. Events are counted as they
//! happen: nothing walks over the queue.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::schedule::ItemState;
use crate::transport::Failure;

/// Ages of messages that wait, by name and in seconds: each class begins where the one before ends.
/// Counted to the minute.
pub(crate) const AGES: [(&str, i64); 5] =
    [("5m", 300), ("1h", 3_600), ("4h", 4 * 3_600), ("1d", 86_400), ("5d", 5 * 86_400)];

/// Upper ends of the classes of time that a message waited before a recipient got it, in seconds.
const WAITS: [i64; 8] = [1, 10, 60, 300, 3_600, 4 * 3_600, 86_400, 5 * 86_400];

/// The outcome for a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The next host, or a mailbox here, has the message.
    Sent,
    /// The message was refused for now.
    Deferred,
    /// The message was refused permanently.
    Refused,
    /// The message was given up after a long time.
    Expired,
}

impl Done {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Sent, Self::Deferred, Self::Refused, Self::Expired];

    /// For a label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Deferred => "deferred",
            Self::Refused => "refused",
            Self::Expired => "expired",
        }
    }
}

/// Attempts to connect, by what came of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attempts {
    /// A host took the connection.
    pub made: u64,
    /// No host could be reached.
    pub failed: u64,
    /// The destination has no host that takes mail.
    pub refused: u64,
}

/// The totals since the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Recipients, by outcome.
    pub recipients: [u64; 4],
    /// Connections, by the kind of destination ([`crate::Transport::kind`]).
    pub connections: Vec<(&'static str, Attempts)>,
    /// The classes of time that messages waited for a recipient: upper ends in seconds, and the
    /// number of messages.
    pub waits: Vec<(f64, u64)>,
    /// The sum of those times, in seconds.
    pub waited: f64,
}

/// Waiting items, and totals.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Messages by state.
    pub states: [(ItemState, u64); 4],
    /// Messages by age.
    pub ages: Vec<(&'static str, u64)>,
    /// Reports to other domains that were dropped since the start, because too many wait.
    pub dropped_reports: u64,
    /// The totals.
    pub done: Totals,
}

/// The counts of a runner.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    recipients: [AtomicU64; Done::ALL.len()],
    connections: Mutex<BTreeMap<&'static str, Attempts>>,
    /// The numbers of messages in each class: one class more than there are ends.
    waits: [AtomicU64; WAITS.len() + 1],
    waited: AtomicU64,
}

impl Counts {
    pub fn connected(&self, kind: &'static str, failure: Option<&Failure>) {
        let mut connections = self.connections.lock();
        let attempts = connections.entry(kind).or_default();
        match failure {
            None => attempts.made += 1,
            Some(failure) if failure.permanent => attempts.refused += 1,
            Some(_) => attempts.failed += 1,
        }
    }

    pub fn recipients(&self, done: Done, count: usize) {
        if let Some(total) = self.recipients.get(done as usize) {
            total.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    /// A recipient has the message, after this many seconds.
    pub fn sent(&self, waited: i64) {
        self.recipients(Done::Sent, 1);
        let class = WAITS.iter().position(|end| waited <= *end).unwrap_or(WAITS.len());
        if let Some(count) = self.waits.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.waited.fetch_add(u64::try_from(waited).unwrap_or_default(), Ordering::Relaxed);
    }

    pub fn done(&self) -> Totals {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let ends = WAITS.iter().map(|end| *end as f64).chain([f64::MAX]);
        Totals {
            recipients: std::array::from_fn(|at| self.recipients.get(at).map_or(0, read)),
            connections: self.connections.lock().iter().map(|(kind, attempts)| (*kind, *attempts)).collect(),
            waits: ends.zip(self.waits.iter().map(read)).collect(),
            waited: read(&self.waited) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted() {
        let counts = Counts::default();
        for waited in [0, 1, 2, 300, 86_401, 10 * 86_400] {
            counts.sent(waited);
        }
        counts.recipients(Done::Expired, 3);
        counts.connected("dns", None);
        counts.connected("dns", Some(&Failure::temporary("4.4.1", "no answer")));
        counts.connected("dns", Some(&Failure::permanent("5.1.10", "no")));
        counts.connected("here", None);
        let done = counts.done();
        assert_eq!(done.recipients, [6, 0, 0, 3]);
        assert_eq!(
            done.waits.iter().map(|(_, count)| *count).collect::<Vec<_>>(),
            [2, 1, 0, 1, 0, 0, 0, 1, 1]
        );
        let one = Attempts { made: 1, failed: 1, refused: 1 };
        let here = Attempts { made: 1, ..Attempts::default() };
        assert_eq!(done.connections, [("dns", one), ("here", here)]);
        assert_eq!(done.waited, 0.0 + 1.0 + 2.0 + 300.0 + 86_401.0 + 864_000.0);
    }
}
