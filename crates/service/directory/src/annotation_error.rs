//! Why annotations of mailboxes or of messages were not changed.

use crate::error::DirectoryError;
use crate::limits::ANNOTATION_BYTES_MAX;

/// Why annotations were not changed.
#[derive(Debug, thiserror::Error)]
pub enum AnnotationError {
    /// Over [`ANNOTATION_BYTES_MAX`].
    #[error("a value may have at most {ANNOTATION_BYTES_MAX} octets")]
    TooLong,
    /// Over one of the other limits.
    #[error("there are too many annotations, or they are too long together: remove some first")]
    TooMany,
    /// The store, or a record.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

impl From<posthaste_store::StoreError> for AnnotationError {
    fn from(error: posthaste_store::StoreError) -> Self {
        Self::Directory(error.into())
    }
}
