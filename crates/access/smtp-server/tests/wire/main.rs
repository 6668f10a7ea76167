//! The server over real sockets, with the directory, delivery and the in-memory store behind it.
//!
//! The transcripts have the lines as they are sent. The client sends `C:` lines; those without an
//! answer between them go in one write. The server must answer with the `S:` lines, where `…`
//! matches any text.

// `allow-unwrap-in-tests` knows test functions only, and not what they call.
#![allow(clippy::unwrap_used)]

mod account_limits;
mod burl;
mod failures;
mod literals;
mod lmtp;
mod login;
mod outsiders;
mod postmaster;
mod returns;
mod submission;
mod talk;
