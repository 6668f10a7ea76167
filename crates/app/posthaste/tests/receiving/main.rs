//! Mail from other hosts and programs, by LMTP, SMTP and submission: what is accepted, what is
//! refused, and what scans it before.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod delivery;
mod lmtp_socket;
mod milters;
mod open_relay;
mod outsiders;
mod postmaster;
mod rspamd;
mod screening;
