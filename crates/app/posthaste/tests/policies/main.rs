//! Mail and hosts of other domains are what they say they are: SPF, DKIM, DMARC, MTA-STS and DANE.
//! Reports about it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authentication;
mod dmarc_reports;
mod signing;
mod success_reports;
mod tls_policies;
