//! POP3 over real sockets, against a server in this process, as transcripts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commands;
mod interplay;
mod limits;
mod login;
mod rich_items;
mod rich_pieces;
mod talk;
