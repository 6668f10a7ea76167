//! Any bytes as a message, and a longer one that repeats a part of them: the summary and the
//! memory to make it stay within their bounds.
#![no_main]

#[path = "../../crates/service/delivery/tests/memory/bounds.rs"]
mod bounds;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bounds::within_bounds(data));
