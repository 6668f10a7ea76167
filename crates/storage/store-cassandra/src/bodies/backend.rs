//! Which of the two ways a keyspace keeps its bodies.

use super::objects::Objects;

/// Where bodies are, opened.
pub(crate) enum Backend {
    /// In Cassandra.
    Chunks,
    /// In an object store.
    Objects(Objects),
}
