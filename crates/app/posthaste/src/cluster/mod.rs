//! The engine on a cluster: Cassandra, with bodies there or in an S3-compatible object store.
//!
//! It is in a program that was built with the feature `cluster`. Without it a build has fewer
//! dependencies, and a setting that names a cluster is refused with the remedy. Both have the same
//! interface, so that no other file of this crate knows the feature.

#[cfg(feature = "cluster")]
mod built_in;
// The tests of a build with the feature cover the refusal, too.
#[cfg(any(test, not(feature = "cluster")))]
mod left_out;

#[cfg(feature = "cluster")]
pub use built_in::{Cluster, VERSION};
#[cfg(not(feature = "cluster"))]
pub use left_out::{Cluster, VERSION};

/// The scheme of a cluster's address.
pub const SCHEME: &str = "cassandra://";
