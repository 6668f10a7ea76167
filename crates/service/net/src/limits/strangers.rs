//! The connections without a login that may be closed for another one: by network, the oldest
//! first.
//!
//! The next one is the oldest of the network that has the most. So a client that opens many
//! connections closes connections of its own network, and not those of others.
//!
//! Invariants: each network of `networks` has a connection, and one rank. A change takes O(log n).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use crate::network::Tiers;

/// The task that serves a connection. It is known only after the connection was admitted.
#[derive(Debug, Default)]
pub(crate) struct Task(Mutex<TaskStage>);

#[derive(Debug, Default)]
enum TaskStage {
    #[default]
    Admitted,
    Runs(AbortHandle),
    Closed,
}

impl Task {
    /// This task serves the connection. It ends at once if the connection was closed meanwhile.
    pub(crate) fn runs_as(&self, handle: AbortHandle) {
        let mut stage = self.stage();
        match *stage {
            TaskStage::Closed => handle.abort(),
            TaskStage::Admitted | TaskStage::Runs(_) => *stage = TaskStage::Runs(handle),
        }
    }

    /// Ends the task where it waits. Its connection is closed with it.
    pub(super) fn end(&self) {
        if let TaskStage::Runs(handle) = std::mem::replace(&mut *self.stage(), TaskStage::Closed) {
            handle.abort();
        }
    }

    fn stage(&self) -> MutexGuard<'_, TaskStage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection without a login.
#[derive(Debug)]
pub(super) struct Stranger {
    /// The networks that it counts for.
    pub(super) tiers: Option<Tiers>,
    pub(super) task: Arc<Task>,
}

/// How many connections a network has, the number of the oldest, and the network.
type Rank = (usize, Reverse<u64>, IpAddr);

/// The connections that may be closed. A higher number is a later connection.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    networks: HashMap<IpAddr, BTreeMap<u64, Stranger>>,
    ranks: BTreeSet<Rank>,
}

impl Strangers {
    pub(super) fn insert(&mut self, network: IpAddr, number: u64, stranger: Stranger) {
        self.change(network, |of_network| of_network.insert(number, stranger));
    }

    /// `None` if it was closed.
    pub(super) fn remove(&mut self, network: IpAddr, number: u64) -> Option<Stranger> {
        self.change(network, |of_network| of_network.remove(&number))
    }

    /// Takes out the oldest of the network that has the most. Of two such networks, the one with
    /// the older connection counts.
    pub(super) fn pop(&mut self) -> Option<(IpAddr, Stranger)> {
        let (_, Reverse(oldest), network) = *self.ranks.last()?;
        Some((network, self.remove(network, oldest)?))
    }

    fn change<T>(
        &mut self,
        network: IpAddr,
        change: impl FnOnce(&mut BTreeMap<u64, Stranger>) -> Option<T>,
    ) -> Option<T> {
        let of_network = self.networks.entry(network).or_default();
        if let Some(before) = rank(network, of_network) {
            self.ranks.remove(&before);
        }
        let outcome = change(of_network);
        match rank(network, of_network) {
            Some(after) => {
                self.ranks.insert(after);
            }
            None => {
                self.networks.remove(&network);
            }
        }
        outcome
    }

    #[cfg(test)]
    pub(super) fn has(&self, network: IpAddr, number: u64) -> bool {
        self.networks.get(&network).is_some_and(|of_network| of_network.contains_key(&number))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.ranks.is_empty()
    }
}

/// `None` for a network without connections.
fn rank(network: IpAddr, of_network: &BTreeMap<u64, Stranger>) -> Option<Rank> {
    let (oldest, _) = of_network.first_key_value()?;
    Some((of_network.len(), Reverse(*oldest), network))
}
