//! Any host that brings mail.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_smtp_server::fuzzing::smtp(data));
