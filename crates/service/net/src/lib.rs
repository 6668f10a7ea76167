//! Sockets, TLS, compression and limits, without any mail protocol.
//!
//! A session gets a [`Connection`], and needs nothing else of the network. It reads with a
//! deadline, writes with a deadline, and upgrades in place (STARTTLS, COMPRESS).
//!
//! ```text
//! Listener::serve ── accept, limits, PROXY header, TLS handshake ──> Connection ── session code
//!                                                         │ read buffer, deadlines
//!                                                         Stream: [deflate] over [TLS] over TCP
//! ```
//!
//! Tests run a connection over a stream in memory ([`Stream::over`]), with a clock that they
//! advance ([`Clock::manual`]).
//!
//! Invariants:
//! * an idle connection owns no read or write buffer of ours; reads go through one scratch buffer
//!   per thread;
//! * no read, write or handshake waits without a deadline;
//! * a peer that sends a command or literal in several writes never waits for a delayed
//!   acknowledgement;
//! * plaintext that arrived before a TLS handshake is never treated as sent inside it;
//! * the memory that unauthenticated clients can make us hold is bounded: connections
//!   ([`ConnectionLimits`]), bytes read ahead (`input_max` of [`Connection::fill`]), message
//!   bytes in flight ([`ByteBudget`]);
//! * the use of one account over all its connections is bounded, too ([`Accounts`]).

mod accounts;
mod before_login;
mod budget;
mod certificates;
mod channel_binding;
mod client_certificate;
mod clock;
mod connection;
mod copied;
mod deflate;
mod dns_thread;
mod endpoint;
mod error;
mod freed;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod limits;
mod line;
mod login_end;
mod network;
mod peers;
mod process;
mod proxy;
mod read_timer;
mod refusals;
mod serve;
mod shutdown;
mod socket;
mod stream;
mod turns;
mod unix;

pub use accounts::rate::{HOUR, Rate};
pub use accounts::{
    ACCOUNT_BYTES_LEAST, AccountLimit, AccountLimits, AccountShare, Accounts, COPIES_BYTES_MAX, Copier,
    LimitedAccount, OwnLimits, SubmissionRefused,
};
pub use before_login::CommandsBeforeLogin;
pub use budget::{ByteBudget, BytePermit, Holder, MESSAGE_WITHIN};
pub use certificates::{Certificates, ClientCertificates, Expiry, Pair, TlsSettings, TlsVersion};
pub use channel_binding::ChannelBinding;
pub use client_certificate::{ClientCertificate, fingerprint_of_pem};
pub use clock::{Clock, ClockHand};
pub use connection::Connection;
pub use copied::{COPIED_HERE_MAX, copying, elsewhere, elsewhere_for, joined};
pub use dns_thread::{dns_runtime, on_dns_thread};
pub use endpoint::{Endpoint, Listener, Mode, SocketAddress, resolve};
pub use error::NetError;
pub use freed::{FREED_HERE_MAX, drop_elsewhere, free, freed_elsewhere};
pub use limits::{ConnectionLimits, ConnectionPermit, Refused, TOTAL_DEFAULT, Trust, per_address};
pub use line::{LineReader, TakenLine};
pub use login_end::LoginEnd;
pub use network::Tiers;
pub use peers::Peers;
pub use posthaste_permits::{
    ErasedResult, ErasedWork, KeyedPermit, KeyedSemaphore, OwnPermit, compute_threads, erased,
    given_to_compute_threads, on_compute_thread, on_compute_thread_with, result_of,
};
pub use process::raise_file_limit;
pub use proxy::HEADER_WITHIN;
pub use proxy::header::Malformed;
pub use serve::{Drained, HANDSHAKE_WITHIN_DEFAULT, SHUTDOWN_GRACE_DEFAULT, ServeOptions, SessionFuture};
pub use shutdown::{Shutdown, ShutdownTrigger};
pub use socket::{ACCEPT_BACKLOG, ByteStream, Traffic};
pub use stream::{Stream, TlsFacts};
pub use unix::SocketAccess;
