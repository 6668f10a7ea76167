//! POP3 (RFC 1939): the server's side of a session.
//!
//! ```text
//! serve (socket, clock) ── lines ──> Session ── Action ──> serve: log in, read the body, remove
//!                                       │
//!                                       └── answers into one buffer
//! ```
//!
//! `command`, `dots`, `maildrop` and [`Session`] know neither sockets nor clocks.
//! The maildrop of an account is its INBOX. Invariants:
//! * A session sees the INBOX as it was at its login: one shared view ([`posthaste_store::View`]).
//!   It takes no lock, so IMAP and other POP3 sessions can work.
//! * DELE only marks a message in the session. QUIT removes all marked messages in one commit,
//!   before its answer. A session that ends in any other way removes nothing.
//! * STAT, LIST and UIDL read the rows of the view. They read nothing from the store, and allocate
//!   nothing for a message.
//! * A session's memory does not grow with its mailbox, except for one bit for each message up to
//!   the last one that DELE named.
//!
//! Not in here: APOP. APOP needs every password in readable form, and the directory does not keep
//! that.

mod command;
mod delays;
mod dots;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod maildrop;
mod options;
mod print;
mod serve;
mod service;
mod session;

pub use options::{ClearTextLogin, Pop3Options};
pub use service::Pop3Service;
pub use session::{Action, Link, Refusal, Session};

/// The answer to a client over the connection limit.
pub const REFUSAL: &[u8] = b"-ERR [SYS/TEMP] Too many connections, try again later\r\n";
