//! Any reply of a host that mail goes to.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_smtp_client::fuzzing::reply(data));
