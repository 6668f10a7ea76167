//! Sieve at delivery: runs the active script of each recipient, between those of the administrator,
//! and carries out their effects.
//!
//! ```text
//! smtp-server ─► Filter::deliver ─► no script: Delivery, as without this crate
//!                    │
//!                    └─► run (a blocking thread) ─► effects ─► file here, then send, then remember
//! ```
//!
//! What always holds: mail is never lost. A script that does not compile, a run that fails and an
//! action that cannot be done keep the message in INBOX (RFC 5228 §2.10.6), with a line in the
//! log. A message is filed before anything is sent because of it: a delivery that fails for now is
//! tried again by the sender, and then nothing was sent twice. All copies that no script edited
//! share one body.
//!
//! Not in here: the language (`posthaste-sieve`), the scripts' records (`posthaste-directory`).

mod chain;
mod compose;
mod event;
mod file;
mod filter;
mod group;
mod here;
mod mail;
mod memory;
mod run;
mod scripts;
mod send;
mod site;
mod world;

pub use event::Event;
pub use filter::{Envelope, Filter, Refusals, Undelivered};
pub use here::{CurrentFilter, ToMailboxes};
pub use scripts::compile;
pub use site::{SiteError, SiteFolders, SiteScripts};
pub use world::{Cause, delivery_item};
