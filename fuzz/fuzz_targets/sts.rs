//! Any policy of MTA-STS.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_smtp_client::fuzzing::policy(data));
