//! Mail in the store: its form on disk, limits of folders, rules that remove it, repairs, kills.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod at_rest;
mod created_modseq;
mod folders;
mod mixed_kills;
mod private;
mod rebuild;
mod reindex;
mod retention;
#[path = "../seen/mod.rs"]
mod seen;
