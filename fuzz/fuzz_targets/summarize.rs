//! Any bytes as a message: its summary is no longer than is promised, and making it takes no more
//! memory than is promised.
#![no_main]

#[path = "../../crates/service/delivery/tests/memory/bounds.rs"]
mod bounds;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| drop(bounds::summary_within_bounds(message)));
