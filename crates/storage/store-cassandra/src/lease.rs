//! One node sweeps for all: the lease of the sweep.
//!
//! | column of `lease` | |
//! | --- | --- |
//! | `holder` | the node that sweeps; goes by itself when it was not renewed (a TTL) |
//! | `ended` | when the last round ended, Unix milliseconds |
//!
//! A lease saves work, and nothing rests on it: the sweep judges by what is there, so that two of them, as when a node was
//! asleep for longer than its lease, do no harm.

use posthaste_mail_model::Id;
use posthaste_store::Result;
use scylla::value::CqlValue;
use std::time::{Duration, Instant};

use crate::engine::CassandraEngine;
use crate::session::{Attempt, blob, now_us};

/// What a node knows of the lease.
pub(crate) struct Lease {
    /// This node.
    node: Id,
    /// When it was last taken or renewed, if it is ours.
    held: Option<Instant>,
    /// When it was last found to be another's, or not due.
    seen: Option<Instant>,
}

impl Lease {
    pub(crate) fn new(node: Id) -> Self {
        Self { node, held: None, seen: None }
    }

    /// As if it had never been ours: it lapses.
    fn lose(&mut self) {
        (self.held, self.seen) = (None, Some(Instant::now()));
    }
}

fn now_ms() -> i64 {
    now_us() / 1000
}

impl CassandraEngine {
    /// Whether this node may do a piece of the sweep now. Takes the lease if a round is due and nobody has it, and renews it in time.
    pub(crate) async fn may_sweep(&self, lease: &mut Lease) -> Result<bool> {
        let term = self.options.sweep_lease;
        match lease.held {
            Some(at) if at.elapsed() < term / 3 => return Ok(true),
            Some(_) => return self.take_lease(lease, Some(lease.node)).await,
            None => {}
        }
        // Others are asked for seldom: there is a node for each of them that asks.
        if lease.seen.is_some_and(|at| at.elapsed() < (term / 4).min(self.options.sweep_every)) {
            return Ok(false);
        }
        type Found = (Option<Vec<u8>>, Option<i64>);
        let found = self.database.read::<Found>(&self.statements.lease, ()).await?;
        let (holder, ended) = found.into_iter().next().unwrap_or_default();
        let since = |ended: i64| Duration::from_millis(u64::try_from(now_ms() - ended).unwrap_or(0));
        let due = ended.is_none_or(|ended| since(ended) >= self.options.sweep_every);
        match holder {
            // Taken by an attempt whose answer was lost.
            Some(holder) if holder == lease.node.to_bytes() => self.take_lease(lease, Some(lease.node)).await,
            None if due => self.take_lease(lease, None).await,
            _ => {
                lease.lose();
                Ok(false)
            }
        }
    }

    /// Takes the lease from `holder`, which is nobody or this node.
    async fn take_lease(&self, lease: &mut Lease, holder: Option<Id>) -> Result<bool> {
        let began = Instant::now();
        let seconds = i32::try_from(self.options.sweep_lease.as_secs().max(1)).unwrap_or(i32::MAX);
        let values = vec![Some(CqlValue::Int(seconds)), Some(blob(lease.node)), holder.map(blob)];
        match self.database.attempt(&[(&self.statements.lease_take, values)]).await? {
            Attempt::Applied => {
                lease.held = Some(began);
                Ok(true)
            }
            Attempt::Refused => {
                lease.lose();
                Ok(false)
            }
            Attempt::Unknown(error) => {
                // If it was applied, it is found to be ours at the next look.
                lease.held = None;
                Err(error)
            }
        }
    }

    /// Notes that a round has ended, for all nodes, and lets go of the lease.
    pub(crate) async fn end_lease(&self, lease: &mut Lease) -> Result<()> {
        let values = vec![Some(CqlValue::BigInt(now_ms())), Some(blob(lease.node))];
        lease.lose();
        match self.database.attempt(&[(&self.statements.lease_end, values)]).await? {
            // Refused: it had lapsed, and is another's, who will end it.
            Attempt::Applied | Attempt::Refused => Ok(()),
            Attempt::Unknown(error) => Err(error),
        }
    }
}
