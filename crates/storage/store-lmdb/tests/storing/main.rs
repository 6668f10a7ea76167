//! What is stored is read back, in every way. The log stays in proportion to the store.

#![allow(clippy::unwrap_used)]

mod checkpoints;
mod conformance;
mod engine;
mod links;
mod ranges;
#[path = "../world/mod.rs"]
mod world;
