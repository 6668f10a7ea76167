//! Sieve at delivery: runs the active script of each account that mail comes for, and does what it
//! wants done.
//!
//! ```text
//! smtp-server ─► Filter::deliver ─► no script: Delivery, as without this crate
//!                    │
//!                    └─► run (a blocking thread) ─► effects ─► file here, then send, then remember
//! ```
//!
//! What always holds: mail is never lost. A script that does not compile, a run that fails and an
//! action that cannot be done keep the message in INBOX (RFC 5228 §2.10.6), with a line in the log.
//! A message is filed before anything is sent because of it: a delivery that fails for now is
//! tried again by the sender, and then nothing was sent twice. All copies that no script edited
//! share one body.
//!
//! Not in here: the language (`posthaste-sieve`), the scripts' records (`posthaste-directory`).

mod chain;
mod compose;
mod file;
mod filter;
mod group;
mod memory;
mod scripts;
mod send;
mod world;

pub use filter::{Envelope, Filter, Refusals, Undelivered};
pub use scripts::compile;
