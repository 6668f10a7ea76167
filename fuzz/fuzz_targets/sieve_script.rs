//! Any bytes as a Sieve script.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_sieve::fuzzing::script(data));
