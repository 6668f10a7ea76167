//! Mailboxes: their rows, their summaries, and their partitions.
//!
//! Changes of a mailbox's messages are in [`crate::commit`]. This module has the reads that it and
//! all others share.

mod matching;
pub(crate) mod partition;
pub(crate) mod rows;
pub(crate) mod summaries;

use std::sync::Arc;

use posthaste_mail_model::MailboxId;
use tokio::sync::{Mutex, MutexGuard};

use crate::cluster::Cluster;

/// Lanes of commits: commits of one node on one mailbox are sent one after the other, because
/// with Paxos they would conflict. With 4,096, a hundred commits at once rarely share a lane with
/// another mailbox's.
const LANES: usize = 4096;

/// The mailboxes of a keyspace.
pub(crate) struct Mailboxes {
    pub(crate) cluster: Arc<Cluster>,
    lanes: Vec<Mutex<()>>,
}

impl Mailboxes {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, lanes: std::iter::repeat_with(Mutex::default).take(LANES).collect() }
    }

    /// Waits until this node's earlier commits on the mailbox have ended. The lane is held while
    /// the database works, so that callers queue here.
    pub(crate) async fn lane(&self, mailbox: MailboxId) -> MutexGuard<'_, ()> {
        let [.., a, b] = mailbox.0.to_bytes();
        let at = usize::from(u16::from_le_bytes([a, b])) % LANES;
        self.lanes[at].lock().await
    }
}
