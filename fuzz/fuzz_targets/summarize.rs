//! Any bytes as a message: its summary and the memory to make it stay within their bounds.
#![no_main]

#[path = "../../crates/service/delivery/tests/memory/bounds.rs"]
mod bounds;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| drop(bounds::summary_within_bounds(message)));
