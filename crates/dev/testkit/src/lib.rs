//! Tools for tests: the real server on free ports with a data directory of its own, clients, and
//! other servers.
//!
//! Every wait has a deadline, and its error names the awaited event. No process outlives a test,
//! even if the test fails.

mod cluster;
mod dns;
#[cfg(feature = "engine")]
mod engine;
#[cfg(feature = "faulty")]
mod faulty;
mod fuzz;
mod http;
mod kill;
mod line_client;
#[cfg(feature = "engine")]
mod lockstep;
mod log;
mod mbsync;
mod memory;
mod messages;
#[cfg(feature = "piped")]
mod piped;
mod poll;
mod python;
mod random;
mod script;
mod server;
mod socket;
#[cfg(feature = "engine")]
mod talk;
#[cfg(feature = "tls")]
mod tls;
mod wire;

pub use cluster::{engine_of, on_cluster, skips_cluster};
pub use dns::{DnsRecord, DnsServer, zone};
#[cfg(feature = "engine")]
pub use engine::TestEngine;
#[cfg(feature = "faulty")]
pub use faulty::FaultyDirectory;
pub use fuzz::{changed, fuzz_seeds, seeds};
pub use http::HttpServer;
pub use kill::Acknowledged;
pub use line_client::{LineClient, dot_stuffed};
#[cfg(feature = "engine")]
pub use lockstep::Lockstep;
pub use mbsync::Mbsync;
pub use memory::CountingAllocator;
pub use messages::{Mbox, message, message_by};
#[cfg(feature = "piped")]
pub use piped::Piped;
pub use poll::{LONG_POLL, Poll};
pub use python::{PYTHON_SESSIONS, client_library, client_tests_wanted, run_client, run_python};
pub use random::Random;
pub use script::script;
pub use server::{Server, ServerBuilder, Stopped, command, free_port};
#[cfg(feature = "engine")]
pub use talk::{Talk, within};
#[cfg(feature = "tls")]
pub use tls::client_hello;
pub use wire::{READ_WITHIN, Wire};
