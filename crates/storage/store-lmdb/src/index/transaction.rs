//! A reading transaction: one of its own, or one that several calls share.

use std::ops::Deref;

use heed::{RoTxn, WithoutTls};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};

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
