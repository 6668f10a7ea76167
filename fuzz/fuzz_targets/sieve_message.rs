//! Any bytes as a message that a Sieve script looks at.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_sieve::fuzzing::message(data));
