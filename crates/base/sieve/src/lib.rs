//! Sieve: the recipient's rules for a message. RFC 5228 and its extensions.
//!
//! Two steps. [`Script::compile`] reads a script once and reports every fault with its place.
//! [`Script::run`] takes a message and answers with a list of [`Effect`]s: keep it, store it there,
//! send it on. The caller carries them out.
//!
//! ```text
//! lexer ─► parser ─► check ─► compiled ─► run ─► effects
//!          syntax             (cached)     ▲
//!                                          Context: envelope, clock, mailboxes, what was seen
//! ```
//!
//! Invariants: nothing here does I/O, and nothing reads a clock. A run ends after a bounded
//! number of steps. A run that fails keeps the message (RFC 5228 §2.10.6). This crate is no store
//! of scripts, no queue, and no composer of replies.

mod address;
mod check;
mod compiled;
mod context;
mod date;
mod effect;
mod error;
mod extension;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod includes;
mod lexer;
mod limits;
mod matching;
mod message;
mod meter;
mod notify;
mod parser;
#[cfg(any(test, feature = "fuzzing"))]
mod print;
mod run;
mod script;
mod syntax;
mod text;
mod words;

pub use context::{Context, Location, duplicate_value};
pub use date::Moment;
pub use effect::{Effect, Notification, Outcome, Target, VacationReply, Version};
pub use error::{CompileError, CompileErrors, Position, RunError, log_line};
pub use extension::{Extension, ExtensionSet};
pub use limits::Limits;
pub use notify::Mailto;
pub use script::{Capabilities, Script};
