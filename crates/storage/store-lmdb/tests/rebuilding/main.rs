//! Stores after a crash, a failing disk or the loss of the index: they are opened, brought up to
//! date, or rebuilt.

#![allow(clippy::unwrap_used)]

mod aftermath;
mod damaged_values;
mod lost_index;
mod rebuild;
mod torn_round;
mod unindexed;
#[path = "../world/mod.rs"]
mod world;
