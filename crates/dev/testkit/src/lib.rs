//! What tests need and users never see: the real server on free ports with a data directory of its
//! own.
//!
//! Every wait has a deadline and names what it waited for; nothing is left running when a test
//! ends, however it ends.

mod cluster;
mod dns;
#[cfg(feature = "engine")]
mod engine;
mod fuzz;
mod http;
mod line_client;
mod mbsync;
mod messages;
mod python;
mod random;
mod server;
#[cfg(feature = "engine")]
mod turns;
mod wire;

pub use cluster::{engine_of, skips_cluster};
pub use dns::{DnsRecord, DnsServer, zone};
#[cfg(feature = "engine")]
pub use engine::TestEngine;
pub use fuzz::{changed, fuzz_seeds, seeds};
pub use http::HttpServer;
pub use line_client::{LineClient, dot_stuffed};
pub use mbsync::Mbsync;
pub use messages::{Mbox, message};
pub use python::{PYTHON_SESSIONS, client_tests_wanted, run_client, run_python};
pub use random::Random;
pub use server::{Server, ServerBuilder, Stopped, command, free_port};
#[cfg(feature = "engine")]
pub use turns::Turns;
pub use wire::{READ_WITHIN, Wire};
