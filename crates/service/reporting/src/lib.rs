//! Reports to other domains about the mail between them and us: TLS (RFC 8460), and mail that came
//! in their name (DMARC, RFC 7489 §7.2).
//!
//! ```text
//! smtp-client ── TlsReports::success, failure ──> Tallies (memory) ── flush ──> directory records
//! smtp-server ── DmarcReports::note ─────────────>     │                            │
//!                                                                                  │ period over
//!                     Relay::notify <── mail <── destinations (DNS) <── Reporter ──┘
//! ```
//!
//! Invariants:
//! * the counts that untrusted hosts cause have bounds: domains, policies, kinds of failure;
//! * a report is sent only to the address that the domain publishes for it;
//! * a report is sent once, or never;
//! * name servers of strangers delay the reports to others by a bounded time.

mod destination;
mod dmarc;
mod mail;
mod reporter;
mod round;
mod tally;
mod tls;

pub use dmarc::{Observation, PublishedPolicy, Row, SpfScope};
pub use reporter::{DmarcReports, Reporter, ReportingOptions, TlsReports};
pub use tls::{AppliedPolicy, PolicyKind, TlsFailure, TlsFault};

/// Bytes that the counts for reports of both kinds take at most.
pub const REPORTS_BYTES_MAX: u64 = 2 * tally::TALLIES_BYTES_MAX as u64;
