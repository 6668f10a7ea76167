//! Damage in the log, the index or the disk: it is named, and concerns only what it hit.

#![allow(clippy::unwrap_used)]

mod damage;
mod damaged_index;
mod damaged_tail;
mod left_out;
mod lists;
mod unreadable;
#[path = "../world/mod.rs"]
mod world;
