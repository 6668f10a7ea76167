//! One node sweeps for all: the lease of the sweep.
//!
//! | column of `lease` | |
//! | --- | --- |
//! | `holder` | the node that sweeps; expires if it is not renewed (a TTL) |
//! | `ended` | when the last round ended, Unix milliseconds |
//!
//! The lease only saves work. Two sweeps at once do no harm, for example when a node was
//! suspended for longer than its lease.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_mail_model::Id;
use posthaste_store::Result;
use scylla::value::CqlValue;

use crate::cluster::Cluster;
use crate::cluster::connection::Attempt;
use crate::cluster::ids::{blob, now_us};

/// A node's knowledge of the lease.
pub(crate) struct Lease {
    cluster: Arc<Cluster>,
    /// The time after which it ends unless it is renewed.
    term: Duration,
    /// The time from the end of a round to the next one.
    every: Duration,
    /// The id of this node.
    node: Id,
    /// The time when this node last took or renewed the lease, if it has it.
    held: Option<Instant>,
    /// The time when another node was last found to have the lease, or no round was due.
    seen: Option<Instant>,
}

impl Lease {
    /// `term` is [`crate::Options::sweep_lease`], `every` is [`crate::Options::sweep_every`].
    pub(crate) fn new(cluster: Arc<Cluster>, term: Duration, every: Duration) -> Self {
        let node = cluster.new_id();
        Self { cluster, term, every, node, held: None, seen: None }
    }

    /// Forgets the lease; it expires by itself.
    fn lose(&mut self) {
        (self.held, self.seen) = (None, Some(Instant::now()));
    }

    /// Whether this node may do a piece of the sweep now. Takes the lease if a round is due and
    /// no node has it, and renews it in time.
    pub(crate) async fn may_sweep(&mut self) -> Result<bool> {
        match self.held {
            Some(at) if at.elapsed() < self.term / 3 => return Ok(true),
            Some(_) => return self.take(Some(self.node)).await,
            None => {}
        }
        // The table is read seldom: every node of the cluster reads it.
        if self.seen.is_some_and(|at| at.elapsed() < (self.term / 4).min(self.every)) {
            return Ok(false);
        }
        type Columns = (Option<Vec<u8>>, Option<i64>);
        let found = self.cluster.read::<Columns>(&self.cluster.statements.lease.read, ()).await?;
        let (holder, ended) = found.into_iter().next().unwrap_or_default();
        let since = |ended: i64| Duration::from_millis(u64::try_from(now_ms() - ended).unwrap_or(0));
        let due = ended.is_none_or(|ended| since(ended) >= self.every);
        match holder {
            // Taken by an attempt whose answer was lost.
            Some(holder) if holder == self.node.to_bytes() => self.take(Some(self.node)).await,
            None if due => self.take(None).await,
            _ => {
                self.lose();
                Ok(false)
            }
        }
    }

    /// Takes the lease. `holder` is the node that has it: none, or this one.
    async fn take(&mut self, holder: Option<Id>) -> Result<bool> {
        let began = Instant::now();
        let seconds = i32::try_from(self.term.as_secs().max(1)).unwrap_or(i32::MAX);
        let values = vec![Some(CqlValue::Int(seconds)), Some(blob(self.node)), holder.map(blob)];
        match self.cluster.attempt(&[(&self.cluster.statements.lease.take, values)]).await? {
            Attempt::Applied => {
                self.held = Some(began);
                Ok(true)
            }
            Attempt::Refused => {
                self.lose();
                Ok(false)
            }
            Attempt::Unknown(error) => {
                // If it was applied, the next read finds it to be ours.
                self.held = None;
                Err(error)
            }
        }
    }

    /// Notes that a round has ended, for all nodes, and releases the lease.
    pub(crate) async fn end(&mut self) -> Result<()> {
        let values = vec![Some(CqlValue::BigInt(now_ms())), Some(blob(self.node))];
        self.lose();
        match self.cluster.attempt(&[(&self.cluster.statements.lease.end, values)]).await? {
            // Refused: the lease had expired, and another node has it and ends the round.
            Attempt::Applied | Attempt::Refused => Ok(()),
            Attempt::Unknown(error) => Err(error),
        }
    }
}

fn now_ms() -> i64 {
    now_us() / 1000
}
