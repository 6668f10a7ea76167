//! Only on a cluster: several servers on one, and its bodies in an S3-compatible store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bodies;
mod nodes;
mod scale_out;
