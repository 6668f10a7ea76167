//! Any token, answer about a token, or set of keys.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_tokens::fuzzing::tokens(data));
