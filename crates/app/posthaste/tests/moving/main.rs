//! Mail that goes from one store to another: imports, copies, backups, mirrors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod bulk;
mod copying;
mod importing;
#[path = "../seen/mod.rs"]
mod seen;
