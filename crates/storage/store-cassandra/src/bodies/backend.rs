//! The two backends for bodies.

use super::objects::Objects;

/// An open backend for bodies.
pub(crate) enum Backend {
    /// In Cassandra.
    Chunks,
    /// In an object store.
    Objects(Objects),
}
