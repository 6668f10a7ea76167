//! The IMAP client with which the instrument drives servers: thousands run in one process.
//!
//! Ten thousand clients are in one process, on the machine of the server that they measure. So a
//! client idles in a few kilobytes, and reads a listing of 500,000 lines without allocating. It
//! shares nothing with the server but the types of `mail-model`. If both used one parser, one bug
//! would hide in both.
//!
//! - [`scan`]: bytes to responses, without sockets. Tolerant: it returns an unknown response
//!   unchanged.
//! - [`fetch`], [`listing`]: the contents of FETCH, LIST, STATUS and SEARCH responses.
//! - [`command`]: values to command bytes.
//! - [`net`]: dialling, TLS, counting bytes.
//! - [`Client`]: one connection: commands, pipelining, literals both ways, IDLE, a transcript of
//!   the last commands.

mod client;
pub mod command;
mod error;
pub mod fetch;
pub mod listing;
pub mod net;
mod read_buffer;
pub mod scan;
mod transcript;

pub use client::{Capabilities, Client, Completion};
pub use error::Error;
pub use scan::{Handler, Response, Status};
pub use transcript::Transcript;
