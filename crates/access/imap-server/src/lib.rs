//! IMAP4rev1 (RFC 3501) and IMAP4rev2 (RFC 9051): the server's side of a session.
//!
//! ```text
//! connection: frames, deadlines, literals
//!     │
//!     ├── wire: bounded output, back-pressure
//!     │     └── transport: reads and writes, over a connection or over memory
//!     │
//!     └── command::dispatch ── table: legal here?
//!           ├── command/<one file each> ── store, directory, delivery
//!           └── sync: other changes
//! ```
//!
//! A session holds one shared view of its mailbox ([`posthaste_store::View`]). It reports the
//! difference between that view and the newest one. Invariants: no lock is held while a response is
//! written. The memory of a listing does not grow with its folder. Sorted, saved and updated
//! results take memory from a budget. No input of a client makes a session panic.

#[cfg(all(test, target_os = "linux"))]
mod ack_tests;
mod annotate;
mod annotation_news;
mod announce;
mod begun;
mod capability;
#[cfg(test)]
mod change_tests;
mod client_line;
mod command;
mod connection;
mod contexts;
mod copies;
mod enabled;
mod endings;
mod fetch_head;
mod flag_names;
mod freed;
mod gmail;
mod heavy;
mod kept_memory;
mod keys;
mod list_memory;
mod listed;
mod mailbox_filter;
mod message_limit;
mod metadata_reports;
mod notify;
mod object_ids;
mod offload;
mod options;
mod own;
#[cfg(test)]
mod pause_search_tests;
#[cfg(test)]
mod pause_tests;
mod progress;
#[cfg(test)]
mod progress_tests;
mod quota_check;
mod referred;
mod reply;
mod resolve;
mod rights;
mod saved_search;
mod seen;
mod seen_overlay;
mod selected;
mod service;
mod session;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod size_tests;
mod special_use;
mod sync;
mod table;
mod thread_id;
mod transport;
mod turns;
mod waiting;
mod wire;

#[cfg(any(test, feature = "fuzzing"))]
pub use gmail::fuzzing;
pub use heavy::Heavy;
pub use keys::KeyCache;
pub use options::{ClearTextLogin, ImapOptions};
pub use posthaste_sharing::{SHARED_BYTES_LEAST, SHARED_BYTES_MAX};
pub use progress::ProgressTimes;
pub use service::{AdministrativeAct, ImapService, RecordOfActs};
