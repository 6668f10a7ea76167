//! How two strings are compared: comparators, and the patterns of `:matches` and `:regex`.

mod comparator;
mod glob;
mod longest;
mod pattern;
mod posix;
mod regular;

pub(crate) use comparator::Comparator;
pub(crate) use pattern::{Captures, MatchKind, Pattern, Relation};
