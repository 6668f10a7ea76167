//! Any bytes as a stored record.
#![no_main]

#[allow(dead_code, reason = "`message` is the other target")]
#[path = "../../crates/base/mime-summary/tests/fuzzing/targets.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| targets::summary(bytes));
