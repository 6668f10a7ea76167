//! The state that all threads of a run share: settings, clock, counters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use posthaste_load_measure::Meter;
use posthaste_load_workload::corpus::{Corpus, Envelope, Serial, sent_serial};

use super::ledger::Ledger;
use super::options::{RunOptions, SendBy};
use super::phase::Phase;

/// Listings of mailboxes that do not change, by account and mailbox: count and sum.
type Baselines = Mutex<HashMap<(u32, String), (u64, u64)>>;

/// One run's common ground.
pub struct Shared {
    /// The options.
    pub options: RunOptions,
    /// The clock.
    pub phase: Phase,
    /// The mail.
    pub corpus: Corpus,
    /// The messages that the audit will expect, if there is one.
    pub ledger: Option<Ledger>,
    /// Reads the server's CPU, if each transaction is measured alone.
    pub meter: Option<Mutex<Meter>>,
    /// Open loop: tasks due and not finished.
    pub unfinished: AtomicI64,
    /// The most there were.
    pub unfinished_max: AtomicU64,
    users_done: AtomicU32,
    nonce: u32,
    next_serial: AtomicU32,
    baselines: Baselines,
}

impl Shared {
    /// The shared state of a run that starts at this moment.
    pub fn new(options: RunOptions, ledger: Option<Ledger>, nonce: u32, start: Instant) -> Self {
        Self {
            phase: Phase::new(start, options.ramp, options.warmup, options.measure),
            corpus: Corpus::with_shares(options.seed, options.workload.shares, &options.workload.sizes),
            ledger,
            meter: None,
            unfinished: AtomicI64::new(0),
            unfinished_max: AtomicU64::new(0),
            users_done: AtomicU32::new(0),
            nonce,
            next_serial: AtomicU32::new(1),
            baselines: Mutex::default(),
            options,
        }
    }

    /// The serial of the next message of this run.
    pub fn next_serial(&self) -> Serial {
        sent_serial(self.nonce, 0, self.next_serial.fetch_add(1, Ordering::Relaxed))
    }

    /// Compares a listing with the first one of that mailbox; what is wrong, if they differ.
    pub fn compare_listing(&self, account: u32, mailbox: &str, now: (u64, u64)) -> Option<String> {
        let mut baselines = self.baselines.lock().unwrap_or_else(PoisonError::into_inner);
        let first = *baselines.entry((account, mailbox.to_owned())).or_insert(now);
        (first != now).then(|| match first.0 == now.0 {
            true => format!("{mailbox}: the same {} messages with other UIDs or flags than before", now.0),
            false => format!("{mailbox}: {} messages, {} before", now.0, first.0),
        })
    }

    /// Writes a new message for the recipient to `out`; its serial.
    pub fn compose(&self, from: &str, to: &str, out: &mut Vec<u8>) -> Serial {
        let serial = self.next_serial();
        self.corpus.write(serial, &self.options.workload.sizes, Envelope { from, to }, out);
        serial
    }

    /// The way of sending mail for SEND.
    pub fn send_by(&self) -> Option<&SendBy> {
        self.options.send.as_ref()
    }

    /// The way by which mail from outside arrives.
    pub fn deliver_by(&self) -> Option<&SendBy> {
        self.options.deliver.as_ref().or(self.send_by())
    }

    /// A user has done all its transactions. With the last user the run ends.
    pub fn user_done(&self) {
        if self.users_done.fetch_add(1, Ordering::Relaxed) + 1 >= self.options.clients {
            self.phase.stop();
        }
    }

    /// Open loop: a task is due.
    pub fn task_due(&self) {
        let now = self.unfinished.fetch_add(1, Ordering::Relaxed) + 1;
        self.unfinished_max.fetch_max(now.max(0) as u64, Ordering::Relaxed);
    }

    /// Open loop: a task is finished.
    pub fn task_done(&self) {
        self.unfinished.fetch_sub(1, Ordering::Relaxed);
    }
}
