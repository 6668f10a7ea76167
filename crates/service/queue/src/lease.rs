//! Selects the node of a cluster that sends: the one that holds the lease, a record of the
//! directory.
//!
//! Its holder renews the record; the others only read it. A node takes the lease over when the
//! record has not changed for [`LeaseTimes::taken_over`] on its own monotonic clock. The holder
//! stops when its last renewal began [`LeaseTimes::held`] ago, which is less. So the nodes need no
//! common time. The holder does not send the end of a message that it is sending then. Both nodes
//! may send a message in two cases: its end was sent without a reply, or the holder was suspended
//! while it sent it. RFC 1047 explains why no sender can exclude that.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Engine};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::error::QueueError;

/// The record's name.
const NAME: &str = "queue-lease";

/// The times at which a lease is renewed, lost and taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// Time between two renewals, or two checks of another node's lease.
    pub renewed: Duration,
    /// The time after the beginning of a renewal in which its holder may send.
    pub held: Duration,
    /// The time for which an unchanged record keeps other nodes from sending.
    pub taken_over: Duration,
}

impl Default for LeaseTimes {
    /// Two renewals in a row may fail. A node that died is replaced within a minute.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { renewed: seconds(10), held: seconds(30), taken_over: seconds(60) }
    }
}

/// The content of the record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseRecord {
    /// The holder's host name, for a person.
    host: String,
    /// The holder: a number that no other process has.
    process: String,
}

/// A record of our own, and when its writing began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnRecord {
    version: u64,
    since: Instant,
}

/// The part of one node in the lease.
pub(crate) struct Lease {
    engine: Arc<dyn Engine>,
    times: LeaseTimes,
    host: String,
    process: String,
    /// Our own record: its version, and when its last writing began.
    own: Option<OwnRecord>,
    /// The record of another node when it was first seen, and when that was.
    other: Option<(DirectoryEntry, Instant)>,
}

impl Lease {
    /// The lease of a process with this number, on a host.
    pub(crate) fn new(engine: Arc<dyn Engine>, host: &str, process: String, times: LeaseTimes) -> Self {
        Self { engine, times, host: host.to_owned(), process, own: None, other: None }
    }

    /// The time until which this node may send; `None` if it may not.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.own.map(|own| own.since + self.times.held)
    }

    /// Between two calls of [`Self::renew`].
    pub(crate) fn pause(&self) -> Duration {
        self.times.renewed
    }

    /// Takes or renews the lease, if it is ours to take. After an error it is held for as long as
    /// [`Self::until`] says.
    pub(crate) async fn renew(&mut self) -> Result<(), QueueError> {
        let now = Instant::now();
        let entry = self.engine.directory_entry(NAME).await?;
        let expected = match &entry {
            None => 0,
            Some(entry) if self.is_own(entry) || self.is_over(entry, now) => entry.version,
            Some(_) => {
                self.own = None;
                return Ok(());
            }
        };
        let record = LeaseRecord { host: self.host.clone(), process: self.process.clone() };
        let value = serde_json::to_vec(&record).map_err(|e| wrong(&e))?;
        if self.write(expected, Some(value.into())).await? {
            self.own = Some(OwnRecord { version: expected + 1, since: now });
        } else {
            self.own = None;
        }
        Ok(())
    }

    /// Gives the lease up, so that another node gets it at its next check.
    pub(crate) async fn release(&mut self) -> Result<(), QueueError> {
        if let Some(own) = self.own.take() {
            self.write(own.version, None).await?;
        }
        Ok(())
    }

    fn is_own(&self, entry: &DirectoryEntry) -> bool {
        serde_json::from_slice::<LeaseRecord>(&entry.value).is_ok_and(|record| record.process == self.process)
    }

    /// Whether another node has not renewed its lease for so long that it is over.
    fn is_over(&mut self, entry: &DirectoryEntry, now: Instant) -> bool {
        match &self.other {
            // Not the version alone: those of a record that was removed and made again begin at 1.
            Some((seen, since)) if seen == entry => now - *since >= self.times.taken_over,
            _ => {
                self.other = Some((entry.clone(), now));
                false
            }
        }
    }

    async fn write(&self, expected: u64, value: Option<Bytes>) -> Result<bool, QueueError> {
        let change = DirectoryChange { name: NAME.into(), expected, value };
        Ok(self.engine.directory_commit(change).await? == CommitOutcome::Done)
    }
}

fn wrong(error: &serde_json::Error) -> QueueError {
    QueueError::Record { record: NAME.into(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use posthaste_store::MemoryEngine;

    use super::*;

    const TIMES: LeaseTimes = LeaseTimes {
        renewed: Duration::from_secs(1),
        held: Duration::from_secs(3),
        taken_over: Duration::from_secs(6),
    };

    fn nodes() -> (Lease, Lease) {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let lease = |name: &str| Lease::new(Arc::clone(&engine), "mail.test", name.to_owned(), TIMES);
        (lease("1"), lease("2"))
    }

    fn holds(lease: &Lease) -> bool {
        lease.until().is_some_and(|until| Instant::now() < until)
    }

    #[tokio::test(start_paused = true)]
    async fn one_node_holds_it() {
        let (mut one, mut two) = nodes();
        for _ in 0..20 {
            one.renew().await.unwrap();
            two.renew().await.unwrap();
            assert!(holds(&one) && !holds(&two));
            tokio::time::advance(TIMES.renewed).await;
        }
        one.release().await.unwrap();
        assert!(!holds(&one));
        two.renew().await.unwrap();
        one.renew().await.unwrap();
        assert!(holds(&two) && !holds(&one));
    }

    /// A lease that was given up and taken by another node may have the version that a third node
    /// saw long before.
    #[tokio::test(start_paused = true)]
    async fn a_lease_of_the_same_version_by_another_node_is_alive() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let lease = |name: &str| Lease::new(Arc::clone(&engine), "mail.test", name.to_owned(), TIMES);
        let (mut one, mut two, mut three) = (lease("1"), lease("2"), lease("3"));
        one.renew().await.unwrap();
        three.renew().await.unwrap();
        one.release().await.unwrap();
        tokio::time::advance(TIMES.taken_over).await;
        two.renew().await.unwrap();
        three.renew().await.unwrap();
        assert!(holds(&two) && !holds(&three));
    }

    /// At no time do both hold it, also if the first continues after a pause.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_silent_loses_it_before_another_takes_it() {
        let (mut one, mut two) = nodes();
        one.renew().await.unwrap();
        let mut taken_after = 0;
        for second in 0..20 {
            two.renew().await.unwrap();
            assert!(!(holds(&one) && holds(&two)));
            if holds(&two) && taken_after == 0 {
                taken_after = second;
            }
            tokio::time::advance(TIMES.renewed).await;
        }
        assert_eq!(taken_after, 6);
        one.renew().await.unwrap();
        assert!(!holds(&one) && holds(&two));
    }
}
