//! ManageSieve (RFC 5804): a client lists, stores, activates and removes its account's scripts.
//!
//! ```text
//! Connection ─► syntax: frame, parse ─► session: may it? ─► serve: TLS, login, scripts ─► reply
//! ```
//!
//! Invariants: an unauthenticated client sends at most [`STRANGER_LEN_MAX`] octets for one
//! command, a user at most one script and a line. A script is compiled before it is stored. A
//! failed login is delayed and logged as in the other servers. Not in here: the language of
//! scripts (`posthaste-sieve`), their records (`posthaste-directory`).

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod reply;
mod serve;
mod session;
mod syntax;

pub use serve::{ManageSieveOptions, ManageSieveService, PlaintextAuth, REFUSAL};
pub use syntax::STRANGER_LEN_MAX;
