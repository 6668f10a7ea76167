//! Users and their clients: logins, POP3, shared mailboxes, and a server that has many sessions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fail2ban;
mod full;
mod logins;
mod own_limits;
mod pop3;
mod sessions;
mod sharing;
