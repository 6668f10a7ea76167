//! The index of whole messages: what it proposes, and its size.

#![allow(clippy::unwrap_used)]

mod scan;
mod size;
