//! The records about a virtual user: times, counts and errors for its thread's recorder.

use std::time::Instant;

use posthaste_load_results::{ErrorSample, Slow};

use super::failure::Failure;
use super::user::User;

impl User {
    /// Keeps a command's time.
    pub(super) fn note_command(&mut self, verb: &'static str, start: Instant, ok: bool) {
        let now = Instant::now();
        let time = now - start;
        if time > self.used.slowest.1 {
            self.used.slowest = (verb, time);
        }
        if self.shared.phase.counts(now) && verb != "pause" {
            self.lane.with(|r| {
                let tally = r.commands.entry(verb).or_default();
                if ok {
                    tally.latency.record(time);
                } else {
                    tally.errors += 1;
                }
            });
        }
    }

    /// Records a transaction's time, or its failure.
    pub(super) fn record(&mut self, transaction: usize, due: Instant, done: Result<(), Failure>) {
        let now = Instant::now();
        let shared = self.shared.clone();
        let workload = &shared.options.workload;
        let is_task = transaction < workload.transactions.len();
        if is_task && shared.options.arrivals.is_some() {
            shared.task_done();
        }
        let own = self.bytes_since();
        let bytes = (own.0 + self.used.bytes_beside.0, own.1 + self.used.bytes_beside.1);
        self.used.bytes_beside = (0, 0);
        let fetched = std::mem::take(&mut self.used.fetched);
        let name = workload.transactions.get(transaction).map_or("(trim)", |t| t.name.as_str());
        if let Err(failure) = &done {
            self.record_failure(name, Some(transaction), failure);
            self.turn_away(failure);
        }
        let (time, at_s, counts) = (now - due, shared.phase.seconds(now), shared.phase.counts(now));
        self.lane.with(|r| {
            let second = r.second(at_s);
            if done.is_ok() && is_task {
                let us = time.as_micros() as u64;
                second.done += 1;
                second.sum_us += us;
                second.max_us = second.max_us.max(us);
            }
            if !counts {
                return;
            }
            r.messages += fetched;
            let Some(tally) = r.transactions.get_mut(transaction) else { return };
            tally.bytes.0 += bytes.0;
            tally.bytes.1 += bytes.1;
            if done.is_err() {
                return;
            }
            tally.latency.record(time);
            let (verb, longest) = self.used.slowest;
            r.slow(time, |ms| Slow {
                ms,
                at_s,
                transaction: name.to_owned(),
                user: self.who.name.clone(),
                command: format!("{verb} {:.1} ms", longest.as_secs_f64() * 1e3),
            });
        });
    }

    pub(super) fn record_failure(&self, name: &str, transaction: Option<usize>, failure: &Failure) {
        if matches!(failure, Failure::Stopped) {
            return;
        }
        let now = Instant::now();
        let phase = &self.shared.phase;
        // Failures while the run ends are not the server's fault.
        if phase.is_stopping() && matches!(failure.kind(), "connection-lost" | "timeout") {
            return;
        }
        if self.shared.options.cluster.tolerate_outages && failure.is_outage() {
            self.lane.with(|r| *r.outages.entry(failure.kind()).or_default() += 1);
            return;
        }
        let at_s = phase.seconds(now);
        self.lane.with(|r| {
            r.second(at_s).errors += 1;
            if let Some(tally) = transaction.and_then(|t| r.transactions.get_mut(t)) {
                tally.errors += u64::from(phase.counts(now));
            }
            r.error(failure.kind(), || ErrorSample {
                at_s,
                user: self.who.name.clone(),
                transaction: name.to_owned(),
                what: failure.to_string(),
                transcript: self.link.client.as_ref().map(|c| c.transcript().to_string()).unwrap_or_default(),
            });
        });
    }
}
