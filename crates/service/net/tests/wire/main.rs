//! The whole crate over real sockets on loopback: layers, upgrades, deadlines, limits, reload and
//! shutdown.
//!
//! The clients are tokio-rustls and flate2 used directly, so that none of our own code judges
//! itself.

// `allow-unwrap-in-tests` knows test functions only, and not what they call.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod acks;
mod compress;
mod named;
mod peer;
mod proxied;
mod serving;
mod tls;
