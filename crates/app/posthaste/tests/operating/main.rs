//! An administrator's work: commands, configuration, signals, users of the system, metrics.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod administration;
mod configuration;
mod metrics;
mod privileges;
mod reload;
