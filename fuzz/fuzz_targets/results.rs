//! Any message that gets our Authentication-Results.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_authentication::fuzzing::message(data));
