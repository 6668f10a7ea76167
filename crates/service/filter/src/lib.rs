//! Sieve at delivery: runs the active script of each recipient, between those of the administrator,
//! and carries out their effects.
//!
//! ```text
//! smtp-server ─► Filter::deliver ─► no script: Delivery, as without this crate
//!                    │
//!                    └─► run (a blocking thread) ─► effects ─► file here, then send, then remember
//! ```
//!
//! Invariants: mail is never lost. If a script does not compile, a run fails or an action cannot
//! be done, the message is kept in INBOX (RFC 5228 §2.10.6). The log gets a line. If a script
//! cannot be read now, the message is deferred. A message is filed before anything is sent
//! because of it. If the delivery fails for now, the sender tries again, and nothing is sent
//! twice. All copies that no script edited share one body.
//!
//! Not in here: the language (`posthaste-sieve`), the scripts' records (`posthaste-directory`).

mod author;
mod carry_out;
mod chain;
mod compilation;
mod compile;
mod compiled;
mod compose;
mod dsn_request;
mod event;
mod file;
mod filter;
mod group;
mod header;
mod local;
mod mail;
mod memory;
mod permit;
mod required_extensions;
mod run;
mod script_refusal;
mod scripts;
mod send;
mod site;
mod submission;
#[cfg(test)]
mod tests;
mod work_for;
mod world;

pub use compile::compile;
pub use dsn_request::DsnRequest;
pub use event::{Event, SCRIPT_ENTRY};
pub use filter::{Delivered, Envelope, Filter, Refusals, Undelivered};
pub use local::{COPIES_LATER, CurrentFilter, ToMailboxes};
pub use mail::RemoteClient;
pub use permit::OUTCOMES_BYTES_BESIDE;
pub use required_extensions::RequiredExtensions;
pub use scripts::{SCRIPTS_BYTES_LEAST, SCRIPTS_BYTES_MAX};
pub use site::{SiteError, SiteFolders, SiteScripts};
pub use world::{Cause, delivery_item, zone_minutes};
