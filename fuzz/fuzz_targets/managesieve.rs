//! Any client of ManageSieve.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_managesieve_server::fuzzing::stream(data));
