//! Mail to other hosts and through the queue: where it goes, and what its sender learns.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mixed_outcomes;
mod queue_kills;
mod relay;
mod relay_domains;
mod relaying;
mod report_ways;
mod routing;
mod sent_on;
