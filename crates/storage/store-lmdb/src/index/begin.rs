//! Begins transactions. Each call has a reading transaction of its own. In a snapshot all calls
//! share one that is pinned.

use std::sync::atomic::Ordering;

use heed::{RoTxn, WithoutTls};
use parking_lot::ReentrantMutex;
use posthaste_store::Result;

use super::transaction::{Reading, Writing};
use super::{Index, Indexed};

impl Index {
    /// A reading transaction: never held across an await.
    pub(crate) fn read(&self) -> Result<Reading<'_>> {
        match self.pinned.get() {
            Some(pinned) => Ok(Reading::Pinned(pinned.lock())),
            None => self.env.read_txn().indexed().map(Reading::Own),
        }
    }

    /// The writing transaction. Waits for the one that is under way, in whichever process.
    pub(crate) fn write(&self) -> Result<Writing<'_>> {
        self.env.write_txn().indexed().map(Writing::new)
    }

    /// The number of the last transaction that a reader sees.
    ///
    /// LMDB shows a transaction's meta page before readers begin with it: it syncs the page in
    /// between. So a number that is new here is taken from a reading transaction.
    pub(crate) fn last_readable(&self) -> u64 {
        let written = self.env.info().last_txn_id as u64;
        if written == self.readable.load(Ordering::Acquire) {
            return written;
        }
        match self.read() {
            Ok(txn) => {
                let id = txn.id() as u64;
                self.readable.fetch_max(id, Ordering::AcqRel);
                id
            }
            // The next read reports the error. An older number only costs another look.
            Err(_) => self.readable.load(Ordering::Acquire),
        }
    }

    /// A reading transaction that may be pinned.
    pub(crate) fn read_for_good(&self) -> Result<RoTxn<'static, WithoutTls>> {
        self.env.clone().static_read_txn().indexed()
    }

    /// Makes all later reads use this transaction. A second call changes nothing.
    pub(crate) fn pin(&self, txn: RoTxn<'static, WithoutTls>) {
        let _ = self.pinned.set(ReentrantMutex::new(txn));
    }

    /// Whether the bytes of a record, by its length, are in the file. A damaged length may reach
    /// beyond it, where reading ends the process. Costs two comparisons.
    #[inline]
    pub(crate) fn holds(&self, value: &[u8]) -> bool {
        let Some(map) = &self.map else { return true };
        let end = (value.as_ptr() as usize).saturating_add(value.len()).saturating_sub(map.start);
        // A writing transaction has its changes in its own memory.
        end <= self.written.load(Ordering::Relaxed)
            || !map.contains(&(value.as_ptr() as usize))
            || self.has_grown_to(end)
    }

    #[cold]
    fn has_grown_to(&self, end: usize) -> bool {
        let len = self.file.metadata().map_or(0, |found| found.len() as usize);
        self.written.store(len, Ordering::Relaxed);
        end <= len
    }
}
