//! Any client of LMTP.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_smtp_server::fuzzing::lmtp(data));
