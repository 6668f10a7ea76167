//! The embedded storage engine: a write-ahead log with checkpoints.
//!
//! ```text
//! posthaste-data/
//!   format    what this is, and in which version
//!   lock      held by the serving process
//!   index/    LMDB: everything a listing needs, and where bodies are
//!   packs/    the log: bodies and all commits, enough to rebuild the index
//! ```
//!
//! | module | what it does |
//! | --- | --- |
//! | `engine` | answers the calls of [`Engine`](posthaste_store::Engine) |
//! | `threads` | work that reads much, where it delays no session |
//! | `writer` | the one thread that writes: gather, apply, log, acknowledge, checkpoint; and redo |
//! | `log` | packs, their records, and the files below them |
//! | `index` | the tables of the index: keys, values, checksums, reads and writes |
//! | `maintenance` | removes data of expunged messages, and compacts packs |
//! | `rebuild` | rebuilds the index: an empty index and a redo of the whole log |
//! | `verify` | checks a store while it is used |
//! | `data_dir` | the files of the data directory around index and packs |
//!
//! A commit is in a synced pack before it is acknowledged and before the index names it. A server's
//! index follows within milliseconds (a checkpoint). After a crash, the log beyond the last
//! checkpoint is redone when the store is opened. Several processes may use one directory. LMDB
//! lets one write at a time, and each writes its own pack. `docs/storage.md` describes every byte
//! and every crash point.

mod data_dir;
mod engine;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[allow(clippy::expect_used, reason = "a fuzz target ends where its sample cannot be made")]
pub mod fuzzing;
mod index;
mod log;
mod maintenance;
mod rebuild;
mod shared;
mod threads;
mod verify;
mod writer;

pub use data_dir::lock::{EngineLock, LockError};
pub use engine::{LmdbEngine, Options};
pub use index::lists::Unlisted;
pub use log::disk::{Disk, DiskFile, DiskSpace, RealDisk};
pub use rebuild::{Rebuild, kept_index, rebuild};
pub use shared::Summarize;
pub use verify::suspicion::report_fault_signals;
