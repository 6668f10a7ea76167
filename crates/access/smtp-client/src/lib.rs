//! Mail on its way out: SMTP as a client (RFC 5321), for the queue.
//!
//! ```text
//! Runner ── connect(destination) ──> Routes, Dns: which hosts ──> Plan: which TLS each must have (MTA-STS, DANE)
//!                                                             ──> Client: greeting, EHLO, STARTTLS, AUTH
//!        ── send(item, message) ───────────────────────────> Client: MAIL, RCPT, DATA
//! ```
//!
//! Invariants:
//! * a message counts as sent when the other host has answered 250 to its end, never before;
//! * every line that is sent ends in CR LF and nothing else, so that no host sees two messages
//!   where there is one;
//! * every wait has a limit (RFC 5321 §4.5.3.2), and every reply a length;
//! * what strangers send is kept within a bound in octets: no answers of DNS, the beginning of a
//!   reply, and policies of at most [`STS_BYTES_MAX`];
//! * the DNS of an untrusted domain can make us connect only to public addresses, unless the
//!   configuration allows others;
//! * a password is sent only over TLS with a certificate that was verified.

mod client;
mod dane;
mod dns;
mod dots;
mod extensions;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod pace;
mod plan;
mod reachable;
mod reply;
mod route;
mod stream;
mod sts;
mod tls;
mod transport;
mod validated;

pub use dns::{DNS_BYTES_MAX, Dns};
pub use route::{Login, Route, Routes, TlsRule};
pub use sts::{STS_BYTES_MAX, Sts};
pub use tls::Tls;
pub use transport::SmtpTransport;
