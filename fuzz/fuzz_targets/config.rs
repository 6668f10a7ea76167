//! Any bytes as a configuration file.
#![no_main]

// The server uses the functions that are unused here.
#[allow(dead_code, unused_imports)]
#[path = "../../crates/app/posthaste/src/config/mod.rs"]
mod config;
#[allow(dead_code)]
#[path = "../../crates/app/posthaste/src/failure.rs"]
mod failure;
#[path = "../../crates/app/posthaste/src/config/fuzzing.rs"]
mod fuzzing;
#[allow(dead_code)]
#[path = "../../crates/app/posthaste/src/private.rs"]
mod private;

use libfuzzer_sys::fuzz_target;

use config::{Config, has_password};

fuzz_target!(|data: &[u8]| fuzzing::config(data));
