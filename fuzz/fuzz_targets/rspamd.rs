//! Any answer of rspamd.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_scanner::fuzzing::answer(data));
