//! Transactions of the index, and the tables that they read and write.
//!
//! A reading transaction belongs to one call, or several calls share it. A writing transaction
//! counts what is put and deleted in it. Nothing else in the program can reach LMDB's own
//! transaction. So every change of a table is counted.

use std::ops::{Deref, RangeBounds};

use heed::types::Bytes;
use heed::{Database, RoTxn, RwTxn, WithoutTls};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use posthaste_store::Result;

use super::indexed::Indexed;

/// A reading transaction that several threads use, one at a time. A thread that has it may take it
/// again.
pub(super) type Pinned = ReentrantMutex<RoTxn<'static, WithoutTls>>;

/// A reading transaction: the call's own, or the pinned one.
pub(crate) enum Reading<'i> {
    Own(RoTxn<'i, WithoutTls>),
    Pinned(ReentrantMutexGuard<'i, RoTxn<'static, WithoutTls>>),
}

impl<'i> Deref for Reading<'i> {
    type Target = RoTxn<'i, WithoutTls>;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Own(txn) => txn,
            Self::Pinned(txn) => txn,
        }
    }
}

/// A writing transaction. There is one at a time, in all processes together. It is rolled back when
/// it is dropped.
pub(crate) struct Writing<'e> {
    txn: RwTxn<'e>,
    demand: u64,
}

/// Bytes that a record takes besides its key and value: its head, its place in the page, and its
/// share of the pages that LMDB copies. LMDB copies a page once in a transaction, at its first
/// change. A record among neighbours shares it with them. For one that stands alone,
/// [`Index::preallocate`](super::Index::preallocate) doubles the sum and adds a few dozen pages.
const BESIDE_RECORD: u64 = 256;

impl<'e> Writing<'e> {
    pub(super) fn new(txn: RwTxn<'e>) -> Self {
        Self { txn, demand: 0 }
    }

    /// Bytes of all records put so far, and of the share of pages that each put and each deletion
    /// takes.
    pub(crate) fn demand(&self) -> u64 {
        self.demand
    }

    /// Counts records with this many bytes of keys and values.
    fn count(&mut self, records: usize, bytes: usize) {
        self.demand += records as u64 * BESIDE_RECORD + bytes as u64;
    }

    /// Commits the transaction durably.
    pub(crate) fn commit(self) -> Result<()> {
        self.txn.commit().indexed()
    }
}

impl<'e> Deref for Writing<'e> {
    type Target = RoTxn<'e, WithoutTls>;

    fn deref(&self) -> &Self::Target {
        &self.txn
    }
}

/// A table: keys and values are bytes, in byte order. It is read as any database of LMDB, and
/// written only in a transaction that counts.
#[derive(Clone, Copy)]
pub(super) struct Table(Database<Bytes, Bytes>);

impl Table {
    pub(super) fn new(database: Database<Bytes, Bytes>) -> Self {
        Self(database)
    }

    /// Puts a record, in place of one with this key.
    pub(super) fn put(self, txn: &mut Writing, key: &[u8], value: &[u8]) -> heed::Result<()> {
        txn.count(1, key.len() + value.len());
        self.0.put(&mut txn.txn, key, value)
    }

    /// Deletes a record. Returns whether there was one.
    pub(super) fn delete(self, txn: &mut Writing, key: &[u8]) -> heed::Result<bool> {
        let was_there = self.0.delete(&mut txn.txn, key)?;
        if was_there {
            txn.count(1, key.len());
        }
        Ok(was_there)
    }

    /// Deletes the records of a range. Returns how many there were.
    pub(super) fn delete_range(
        self,
        txn: &mut Writing,
        range: &impl RangeBounds<[u8]>,
    ) -> heed::Result<usize> {
        let deleted = self.0.delete_range(&mut txn.txn, range)?;
        txn.count(deleted, 0);
        Ok(deleted)
    }
}

impl Deref for Table {
    type Target = Database<Bytes, Bytes>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{Id, MailboxId, ModSeq, NumSet};

    use super::*;
    use crate::index::{Index, due, expunged};
    use crate::log::Preallocation;

    const MAILBOX: MailboxId = MailboxId(Id::from_bytes([7; 16]));

    #[test]
    fn puts_and_deletions_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 24, 8).unwrap();
        let mut txn = index.write().unwrap();
        assert_eq!(txn.demand(), 0);
        due::note(&index, &mut txn, MAILBOX).unwrap();
        assert_eq!(txn.demand(), 16 + BESIDE_RECORD);
        due::forget(&index, &mut txn, MAILBOX).unwrap();
        assert_eq!(txn.demand(), 2 * (16 + BESIDE_RECORD), "LMDB copies the page of a deletion, too");
        due::forget(&index, &mut txn, MAILBOX).unwrap();
        assert_eq!(txn.demand(), 2 * (16 + BESIDE_RECORD), "it was not there");
        let before = txn.demand();
        for modseq in 1..=5 {
            let set = NumSet::range(1, 9);
            expunged::note(&index, &mut txn, MAILBOX, ModSeq::new(modseq).unwrap(), &set).unwrap();
        }
        let noted = txn.demand();
        assert!(noted > before + 5 * (24 + 4 + BESIDE_RECORD));
        expunged::forget_all(&index, &mut txn, MAILBOX).unwrap();
        assert_eq!(txn.demand(), noted + 5 * BESIDE_RECORD);
    }

    #[test]
    fn room_is_made_for_what_was_counted() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 26, 8).unwrap();
        let mut txn = index.write().unwrap();
        let set = NumSet::from_ranges((1..2_000).map(|n| (n * 1_000, n * 1_000)));
        for modseq in 1..=500 {
            expunged::note(&index, &mut txn, MAILBOX, ModSeq::new(modseq).unwrap(), &set).unwrap();
        }
        let len = || std::fs::metadata(dir.path().join("data.mdb")).unwrap().len();
        index.preallocate(&txn, || Ok(Preallocation::Needed)).unwrap();
        let made = len();
        assert!(made > 2 * txn.demand());
        txn.commit().unwrap();
        assert_eq!(len(), made, "the commit found room");
    }

    /// The proof at `Index::open_once` needs it: the file is mapped meanwhile.
    #[test]
    fn preallocation_changes_no_byte_that_readers_have() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 26, 8).unwrap();
        let file = || std::fs::read(dir.path().join("data.mdb")).unwrap();
        let set = NumSet::from_ranges((1..2_000).map(|n| (n * 1_000, n * 1_000)));
        for round in 0..3 {
            let mut txn = index.write().unwrap();
            for modseq in 1..=200 {
                let modseq = ModSeq::new(round * 1_000 + modseq).unwrap();
                expunged::note(&index, &mut txn, MAILBOX, modseq, &set).unwrap();
            }
            let before = file();
            index.preallocate(&txn, || Ok(Preallocation::Step)).unwrap();
            let after = file();
            assert!(after.len() > before.len());
            assert!(after.starts_with(&before), "round {round}");
            assert!(after[before.len()..].iter().all(|byte| *byte == 0), "round {round}");
            txn.commit().unwrap();
        }
    }
}
