//! Reports to other domains about the mail between them and us: TLS (RFC 8460), and what came in
//! their name (DMARC, RFC 7489 §7.2).
//!
//! ```text
//! smtp-client ── TlsReports::success, failure ──> Tallies (memory) ── flush ──> directory records
//! smtp-server ── DmarcReports::note ─────────────>     │                            │
//!                                                                                  │ period over
//!                     Relay::notify <── mail <── destinations (DNS) <── Reporter ──┘
//! ```
//!
//! What always holds:
//! * what strangers make us count has bounds: domains, policies, kinds of failure;
//! * a report goes only where the domain asks for it;
//! * a report is sent once, or never.

mod destination;
mod dmarc;
mod mail;
mod reporter;
mod tally;
mod tls;

pub use dmarc::{Observation, PublishedPolicy, Row, SpfScope};
pub use reporter::{DmarcReports, Reporter, ReportingOptions, TlsReports};
pub use tls::{AppliedPolicy, PolicyKind, TlsFailure, TlsFault};
