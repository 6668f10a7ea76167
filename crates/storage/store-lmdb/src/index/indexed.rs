//! Errors of LMDB as errors of the store.

use heed::MdbError;
use posthaste_store::{Result, StoreError};

use crate::log::disk::failed;

/// Turns errors of LMDB into errors of the store.
pub(crate) trait Indexed<T> {
    /// `Corrupt` for what LMDB itself found broken, `Unavailable` for all else.
    fn indexed(self) -> Result<T>;
}

impl<T> Indexed<T> for heed::Result<T> {
    fn indexed(self) -> Result<T> {
        self.map_err(|error| match error {
            heed::Error::Io(error) => failed("the index")(error),
            heed::Error::Mdb(
                MdbError::Corrupted
                | MdbError::PageNotFound
                | MdbError::Invalid
                | MdbError::VersionMismatch
                // A transaction in which one of these was met before, and a tree deeper than any
                // LMDB makes.
                | MdbError::BadTxn
                | MdbError::CursorFull,
            ) => StoreError::Corrupt(format!("the index: {error}")),
            heed::Error::Mdb(MdbError::Panic) => StoreError::Unavailable(DEAD.into()),
            heed::Error::Mdb(MdbError::MapFull) => {
                StoreError::Unavailable("the index is full: raise `store.index_map` and restart".into())
            }
            other => StoreError::Unavailable(format!("the index: {other}")),
        })
    }
}

/// The state of an index after LMDB failed to write its meta page: LMDB then refuses every
/// transaction of the process.
const DEAD: &str = "the index could not be written, so this process can no longer use it: repair the disk, then start \
                    again. The packs have all acknowledged changes, and the start adds them to the index";
