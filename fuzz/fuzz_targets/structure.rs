//! Any stored BODYSTRUCTURE.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_imap_server::fuzzing::structure(data));
