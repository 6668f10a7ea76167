//! Mail on its way in: LMTP (RFC 2033), submission (RFC 6409) and SMTP from other hosts (RFC 5321).
//!
//! One protocol three times, so one machine with a [`Role`]:
//!
//! ```text
//! serve (socket, clock) ── lines ──> Session ── Action ──> serve: resolve, log in, read the message, deliver
//!                                       ^                    │
//!                                       └──── outcome ───────┘
//! ```
//!
//! [`command`], [`reply`], [`dots`] and [`Session`] know neither sockets nor clocks. Invariants:
//! * a message is acknowledged after the sink has reported that it is stored, never before;
//! * its bytes are those that the client sent, with trace headers in front and nothing else
//!   changed;
//! * only CR LF `.` CR LF ends a message, and nothing sent before a TLS handshake is obeyed after
//!   it;
//! * [`SmtpOptions`] bounds the memory and the work that a client can cause.

pub mod address;
pub mod command;
pub mod dots;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod incoming;
mod milters;
mod options;
pub mod postmaster;
pub mod reply;
mod scanning;
mod serve;
mod service;
mod session;
mod sink;
pub mod syntax;
mod trace;
mod verification;

pub use milters::Milters;
pub use options::{PlaintextAuth, Role, SenderRule, SmtpOptions};
pub use scanning::{IfUnscanned, Scanning};
pub use serve::refusal;
pub use service::SmtpService;
pub use session::{Action, Addressee, Link, Session, Transaction};
pub use sink::{MailSink, RelayOrigin, RelayRefusal};
pub use verification::Verification;
