//! The header of any proxy.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_net::fuzzing::proxy(data));
