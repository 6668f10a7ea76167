//! Sieve: at delivery, at changes of a mailbox, and by ManageSieve and `posthaste sieve`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod filter;
mod imapsieve;
mod managesieve;
mod sieve;
