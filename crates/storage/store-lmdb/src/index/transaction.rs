//! Transactions of the index, and the tables that they read and write.
//!
//! A reading transaction is one of its own, or one that several calls share. A writing transaction
//! counts what is put and deleted in it. Nothing else in the program can reach LMDB's own
//! transaction. So every change of a table is counted.

use std::ops::{Deref, RangeBounds};

use heed::types::Bytes;
use heed::{Database, RoTxn, RwTxn, WithoutTls};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use posthaste_store::Result;

use super::Indexed;

/// A reading transaction that several threads use, one at a time. A thread that has it may take it
/// again.
pub(super) type Pinned = ReentrantMutex<RoTxn<'static, WithoutTls>>;

/// A reading transaction: one of its own, or the one that is pinned.
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

/// A writing transaction. There is one at a time, in all processes together. It is given up when it
/// is dropped.
pub(crate) struct Writing<'e>(RwTxn<'e>);

impl<'e> Writing<'e> {
    pub(super) fn new(txn: RwTxn<'e>) -> Self {
        Self(txn)
    }

    /// Makes it durable.
    pub(crate) fn commit(self) -> Result<()> {
        self.0.commit().indexed()
    }
}

impl<'e> Deref for Writing<'e> {
    type Target = RoTxn<'e, WithoutTls>;

    fn deref(&self) -> &Self::Target {
        &self.0
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
        self.0.put(&mut txn.0, key, value)
    }

    /// Deletes a record; answers whether there was one.
    pub(super) fn delete(self, txn: &mut Writing, key: &[u8]) -> heed::Result<bool> {
        self.0.delete(&mut txn.0, key)
    }

    /// Deletes the records of a range; answers how many there were.
    pub(super) fn delete_range(
        self,
        txn: &mut Writing,
        range: &impl RangeBounds<[u8]>,
    ) -> heed::Result<usize> {
        self.0.delete_range(&mut txn.0, range)
    }
}

impl Deref for Table {
    type Target = Database<Bytes, Bytes>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
