//! A seeded simulator of the embedded store: a disk under the packs and the index, a life, and a
//! crash at any operation.
//!
//! Every change that the store makes to its directory is recorded, LMDB's own included (`syscalls`,
//! `record`). From a log, the states are made that a crash can leave (`image`), and each is opened,
//! rebuilt and compared with what must be there (`model`, `verify`). What the store is asked to do
//! is chosen by a seed (`driver`), so that a failure can be had again by its number (`run`).
//!
//! Only ever a development tool: nothing depends on it.

pub mod damage;
pub mod driver;
pub mod image;
pub mod model;
pub mod process;
pub mod random;
pub mod record;
pub mod report;
pub mod run;
mod syscalls;
pub mod verify;
mod wire;
