//! Any address as the sender that a forward makes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_authentication::fuzzing::sender(data));
