//! The reason why a pack could not be compacted.

use posthaste_store::StoreError;

use crate::log::reader::ReadFault;

/// The reasons that stop the compaction of a pack.
pub(super) enum Moving {
    Pack(ReadFault),
    Store(StoreError),
}

impl From<ReadFault> for Moving {
    fn from(fault: ReadFault) -> Self {
        Self::Pack(fault)
    }
}

impl From<StoreError> for Moving {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
