//! The embedded storage engine: an LMDB index beside append-only packs.
//!
//! ```text
//! posthaste-data/
//!   format    what this is, and in which version
//!   lock      held by the serving process
//!   index/    LMDB: everything a listing needs, and where bodies lie
//!   packs/    bodies and the log of all commits: enough to make the index again
//! ```
//!
//! A commit is in a synced pack before the index names it and before anyone is told; a server's index follows within
//! milliseconds, and is brought up to the packs when the store is opened after a crash. The index can be made again from the packs
//! ([`rebuild`]). Several processes may use one directory; LMDB lets one write at a time, and each writes its
//! own pack. Every byte and every crash point: `docs/storage.md`.

mod ahead;
mod apply;
mod check;
mod chunk;
mod committer;
mod disk;
mod engine;
mod epoch;
mod format;
mod index;
mod links;
mod lists;
mod lock;
mod logged;
mod packs;
mod pages;
mod pair;
mod pending;
mod proven;
mod read;
mod rebuild;
mod rows;
mod shared;
mod snapshot;
mod sum;
mod summaries;
mod suspicion;
mod unknown;
mod values;

pub use disk::{Disk, DiskFile, RealDisk};
pub use engine::{LmdbEngine, Options};
pub use lock::{EngineLock, LockError};
pub use rebuild::{Rebuild, rebuild};
pub use shared::Summarize;
pub use suspicion::report_fault_signals;
