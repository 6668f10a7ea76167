//! The program as its users run it: its commands, what it refuses, and the scripts that call it.

#![allow(clippy::unwrap_used)]

mod certificates;
mod interrupt;
mod merge;
mod mix;
mod packages;
mod processors;
mod releases;
mod resume;
mod studies;
