//! The state of the writer between two pieces of work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::data_dir::reserve::Purpose;
use crate::index::Writing;
use crate::index::rows::Scratch;
use crate::log::PackOffset;
use crate::log::appender::Appender;
use crate::log::disk::DiskFile;
use crate::shared::Shared;

/// The writer's own state.
pub(crate) struct Writer<'e> {
    pub(crate) shared: &'e Shared,
    pub(crate) appender: Appender,
    /// The time for which the index may lack acknowledged commits; `None` if every commit is in
    /// the index before it is acknowledged.
    pub(super) checkpoint_within: Option<Duration>,
    /// The purpose for which the current work needs disk space.
    pub(super) purpose: Purpose,
    /// The end of acknowledged commits that the index lacks and that must be redone.
    pub(super) redo: Option<PackOffset>,
    /// Packs whose tails hold no commit that can be redone.
    pub(super) dead_tails: Vec<u32>,
    pub(super) others: Others,
    pub(super) scratch: Scratch,
    /// Acknowledged commits that the index lacks, and those that are about to be acknowledged.
    pub(super) open: Option<OpenTransaction<'e>>,
}

impl<'e> Writer<'e> {
    pub(crate) fn new(shared: &'e Shared, appender: Appender, checkpoint_within: Option<Duration>) -> Self {
        Self {
            shared,
            appender,
            checkpoint_within,
            purpose: Purpose::Deletion,
            redo: None,
            dead_tails: Vec::new(),
            others: Others::default(),
            scratch: Scratch::default(),
            open: None,
        }
    }
}

/// Commits that may wait for the index: some 10 ms of redoing after a crash.
const HELD_COMMITS: usize = 512;
/// Bytes of a commit that does not wait. Writing its pages costs more than syncing them. And a
/// full disk must be noticed before the commit is acknowledged.
pub(super) const HELD_BYTES: u64 = 4 << 20;

/// An index transaction with commits that were acknowledged, or that are about to be.
pub(super) struct OpenTransaction<'e> {
    pub(super) txn: Writing<'e>,
    /// The next sequence number in it.
    pub(super) seq: u64,
    /// Acknowledged commits in it.
    pub(super) commits: usize,
    /// Bytes of their records in packs.
    pub(super) logged: u64,
    /// The time at which the index must have them.
    pub(super) due: Instant,
}

impl OpenTransaction<'_> {
    /// Bytes in packs and in the index.
    pub(super) fn bytes(&self) -> u64 {
        self.txn.demand() + self.logged
    }

    pub(super) fn is_full(&self) -> bool {
        self.commits >= HELD_COMMITS || self.bytes() >= HELD_BYTES
    }
}

/// Unsealed packs of other processes, in one state of the index.
#[derive(Default)]
pub(super) struct Others {
    /// The engine's epoch at which this was read.
    pub(super) epoch: Option<u64>,
    pub(super) packs: Vec<OtherPack>,
}

/// An unsealed pack of another process.
pub(super) struct OtherPack {
    pub(super) number: u32,
    pub(super) file: Arc<dyn DiskFile>,
    /// No process has it any more, and it was examined since.
    pub(super) is_left: bool,
}
