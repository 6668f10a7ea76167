//! Any message that is verified.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_authentication::fuzzing::verified(data));
