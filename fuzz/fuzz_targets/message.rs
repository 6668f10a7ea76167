//! Any bytes as a message.
#![no_main]

#[allow(dead_code, reason = "`summary` is the other target")]
#[path = "../../crates/base/mime-summary/tests/fuzzing/targets.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| targets::message(bytes));
