//! The grammar seen from outside. A printed value parses back to the same value. The examples of
//! the RFCs mean what they say. No bytes make a parser panic.

// Strategies are tests too, though not marked as such.
#![allow(clippy::unwrap_used)]

mod any_command;
mod any_extension;
mod any_response;
mod any_value;
mod every_variant;
mod extension_points;
mod garbage;
mod known_commands;
mod known_responses;
mod pages;
mod round_trip;
mod spellings;
