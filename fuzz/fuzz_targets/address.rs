//! Any text as an address.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_directory::fuzzing::address(data));
