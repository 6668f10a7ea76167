//! A seeded simulator of the embedded store: a simulated disk, a sequence of requests, and a crash
//! at any operation.
//!
//! Every change that the store makes to its directory is recorded, LMDB's own included (`syscalls`,
//! `record`). From a log, `image` makes the states that a crash can leave. Each is opened, rebuilt
//! and compared with the expected contents (`model`, `verify`). A seed chooses the requests to the
//! store (`driver`), so that its number repeats a failure (`run`).
//!
//! Only ever a development tool: nothing depends on it.

pub mod actor;
mod clock;
mod company;
mod copying;
pub mod damage;
pub mod driver;
mod gate;
pub mod image;
pub mod model;
pub mod op;
pub mod process;
pub mod random;
pub mod record;
pub mod report;
pub mod run;
mod runtime;
mod serial;
mod syscalls;
mod unreadable;
mod verify;
mod wire;

pub use serial::serial;
