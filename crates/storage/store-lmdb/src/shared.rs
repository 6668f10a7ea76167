//! The state that all parts of an open engine share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use posthaste_store::StoreError;
use posthaste_store::form::lacks_items;

use crate::data_dir::format::Format;
use crate::data_dir::reserve::Reserve;
use crate::index::Index;
use crate::index::epoch::OwnTransactions;
use crate::index::verified::Verified;
use crate::log::disk::Disk;
use crate::log::reader::PackReader;
use crate::writer::queue_lock::QueueLock;
use crate::writer::unindexed::Unindexed;

/// The function with which delivery makes a summary of a message's bytes.
pub type Summarize = fn(&[u8]) -> Vec<u8>;

/// The summary of a stored body, as delivery makes it: empty if it was not converted there.
pub(crate) fn summary_of(summarize: Summarize, stored: &[u8]) -> Vec<u8> {
    if lacks_items(stored) { Vec::new() } else { summarize(stored) }
}

/// The state that reading and writing share.
pub(crate) struct Shared {
    pub(crate) index: Index,
    pub(crate) own: OwnTransactions,
    pub(crate) reader: PackReader,
    /// The queue of processes that wait to write.
    pub(crate) queue_lock: QueueLock,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) packs: PathBuf,
    /// The reserve for deletions on a full disk.
    pub(crate) reserve: Reserve,
    pub(crate) store: posthaste_mail_model::Id,
    pub(crate) verified: Verified,
    pub(crate) unindexed: Unindexed,
    pub(crate) summarize: Summarize,
    /// Called when this process cannot use the index any more.
    pub(crate) on_dead_index: fn(&StoreError),
    pub(crate) links_from: usize,
    pub(crate) round_messages: usize,
    /// Whether to close as a killed process does, for tests.
    pub(crate) killed: AtomicBool,
    /// Keeps a rebuild out for as long as the store is open.
    pub(crate) _format: Format,
}
