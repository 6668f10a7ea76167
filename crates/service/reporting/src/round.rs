//! One round of sending: the time that the look-ups of its reports take.
//!
//! Reports are sent one after the other, and strangers choose the name servers that are asked for
//! their destinations. Slow ones must not delay the reports to others for long.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use posthaste_directory::registered_domain;
use tokio::time::{Instant, timeout};

/// The time for the look-ups of one report, which are up to a dozen. Each has ten seconds.
const REPORT_MAX: Duration = Duration::from_secs(20);
/// The time for those of all reports about one registered domain, whose owner makes names at will.
/// The last of them may exceed it, so it is a minute at most.
const OF_ONE_MAX: Duration = Duration::from_secs(40);

/// The time that look-ups have taken in a round, by registered domain. There are no more of these
/// than records of periods that are over.
#[derive(Debug, Default)]
pub(crate) struct Spent(HashMap<String, Duration>);

impl Spent {
    /// Whether reports about a domain may be sent in this round. Others wait for the next one.
    pub fn has_time(&self, domain: &str) -> bool {
        self.0.get(registered_domain(domain)).is_none_or(|spent| *spent < OF_ONE_MAX)
    }

    fn add(&mut self, domain: &str, took: Duration) {
        let had_time = self.has_time(domain);
        *self.0.entry(registered_domain(domain).to_owned()).or_default() += took;
        if had_time && !self.has_time(domain) {
            let domain = registered_domain(domain);
            tracing::info!(domain, "look-ups for reports took long: further ones about this domain wait");
        }
    }
}

/// The outcome of the look-ups of a report.
pub(crate) enum LookedUp<T> {
    /// They ended in time.
    Found(T),
    /// They did not. The report is lost, as RFC 8460 §5.3 and RFC 7489 §7.2 leave it.
    Late,
    /// The server stops. The round is over.
    Stopped,
}

/// A round, which ends with the server.
pub(crate) struct Round<'s, S> {
    stop: Pin<&'s mut S>,
    pub spent: Spent,
    /// When counts were stored last.
    pub flushed: Instant,
}

impl<'s, S: Future<Output = ()>> Round<'s, S> {
    /// A round that begins after counts were stored.
    pub fn new(stop: Pin<&'s mut S>) -> Self {
        Self { stop, spent: Spent::default(), flushed: Instant::now() }
    }

    /// Does the look-ups of one report about a domain.
    pub async fn look_up<T>(&mut self, domain: &str, look_ups: impl Future<Output = T>) -> LookedUp<T> {
        let begun = Instant::now();
        let found = tokio::select! {
            biased;
            () = &mut self.stop => return LookedUp::Stopped,
            found = timeout(REPORT_MAX, look_ups) => found,
        };
        self.spent.add(domain, begun.elapsed());
        match found {
            Ok(found) => LookedUp::Found(found),
            Err(_) => {
                tracing::info!(domain, "no report: its destination was not found in time");
                LookedUp::Late
            }
        }
    }
}
